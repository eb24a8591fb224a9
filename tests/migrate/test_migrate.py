"""Programs of the Agents SDK, rewritten; what needs a person; and the files that are left alone."""

from __future__ import annotations

import ast
import codecs
import importlib
import inspect
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assentry import UsageError
from assentry.agents import _HOMES
from assentry.agents.absent import ABSENT
from assentry.migrate.agents_sdk import AGENTS_SDK, SAME_NAMES
from assentry.migrate.program import Batch, Program, batch_of
from assentry.migrate.project import LIBRARIES, ProgramChange, plan_migration

GUIDE = "See docs/howto/from-openai-agents.md."


def migrated(*lines: str, native: bool = False) -> str:
    """Return a program after its migration."""
    program = Program("\n".join(lines) + "\n", AGENTS_SDK)
    return program.rewritten(native=native, batch=batch_of([program]))


def remarks(*lines: str, native: bool = False) -> list[tuple[int, str]]:
    found = Program("\n".join(lines) + "\n", AGENTS_SDK).remarks(native=native)
    return [(each.line, each.says) for each in found]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, *lines: str) -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file


# -- to the skin -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from agents import Agent, Runner", "from assentry.agents import Agent, Runner"),
        ("from agents.tool import function_tool as t", "from assentry.agents.tool import function_tool as t"),
        ("from agents.models.interface import Model", "from assentry.agents.models.interface import Model"),
        ("import agents", "from assentry import agents"),
        ("import agents as a", "import assentry.agents as a"),
        ("import agents.tool as z", "import assentry.agents.tool as z"),
        ("import agents.tool", "import assentry.agents.tool\nfrom assentry import agents"),
        ("import os, agents, sys", "import os, sys\nfrom assentry import agents"),
        ("import os; import agents; os.x", "import os; from assentry import agents; os.x"),
        ("if x: import agents.tool", "if x: import assentry.agents.tool; from assentry import agents"),
        ("def f():\n    from agents import Agent  # here", "def f():\n    from assentry.agents import Agent  # here"),
        ("from agents import (\n    Agent,  # one\n    Runner,\n)", None),
        ("from .agents import Agent", "from .agents import Agent"),
        ("from my.agents import Agent", "from my.agents import Agent"),
        ("from agentsmith import Agent", "from agentsmith import Agent"),
        ("import my_agents, agentsx", "import my_agents, agentsx"),
        ("x = 'from agents import Agent'", "x = 'from agents import Agent'"),
    ],
)
def test_imports_become_those_of_the_skin(before: str, after: str | None) -> None:
    assert migrated(before) == (after or before.replace("from agents", "from assentry.agents")) + "\n"


def test_uses_of_the_module_stay_as_they_are() -> None:
    code = migrated("import agents", "import agents.tool", "def f(a: 'agents.Agent') -> agents.tool.Tool: ...")
    assert code.endswith("def f(a: 'agents.Agent') -> agents.tool.Tool: ...\n")
    names: dict[str, Any] = {}
    exec(compile(code, "program", "exec"), names)
    assert names["agents"] is importlib.import_module("assentry.agents")


def test_a_line_that_becomes_two_keeps_its_comments() -> None:
    assert migrated("x = 1", "", "# above", "import os, agents  # after") == (
        "x = 1\n\n# above\nimport os\nfrom assentry import agents  # after\n"
    )


# -- to Assentry's own names -------------------------------------------------------------------------------


def test_names_become_assentrys_own_and_the_rest_stays_on_the_skin() -> None:
    before = (
        "from agents import (",
        "    Agent,  # one",
        "    ItemHelpers,",
        "    Runner,",
        "    UserError,",
        "    trace,",
        ")",
        "from agents.exceptions import AgentsException as Wrong, MaxTurnsExceeded",
        "from agents.tool_context import ToolContext",
        "try:",
        "    Runner.run(Agent(name='A'), '')",
        "except UserError as error:",
        "    error.UserError(UserError=1)",
    )
    assert migrated(*before, native=True).splitlines() == [
        "from assentry import (",
        "    Agent,  # one",
        "    Runner,",
        "    UsageError,",
        ")",
        "from assentry.agents import (",
        "    ItemHelpers,",
        "    trace,",
        ")",
        "from assentry import AssentryError as Wrong, MaxTurnsExceeded",
        "from assentry import ToolContext",
        "try:",
        "    Runner.run(Agent(name='A'), '')",
        "except UsageError as error:",
        "    error.UserError(UserError=1)",
    ]


@pytest.mark.parametrize(
    "more",
    [
        "UsageError = 1",
        "__all__ = ['x']",
        "def f(a: 'UserError'): ...",
        "def f(UserError): return UserError",
        "if x: UserError = 1",
    ],
)
def test_a_name_that_others_may_know_or_have_keeps_its_own(more: str) -> None:
    code = migrated("from agents import UserError", more, "print(UserError)", native=True)
    assert code == f"from assentry import UsageError as UserError\n{more}\nprint(UserError)\n"


def test_a_name_that_another_program_imports_from_this_one_keeps_its_own() -> None:
    one = Program("from agents import UserError\n", AGENTS_SDK)
    two = Program("from one import UserError\n", AGENTS_SDK)
    assert one.rewritten(native=True, batch=batch_of([one, two])) == "from assentry import UsageError as UserError\n"


def test_a_class_with_keywords_that_assentrys_own_lacks_stays_on_the_skin() -> None:
    code = migrated("from agents import Agent, RunConfig", "RunConfig(workflow_name='x')", native=True)
    assert code.startswith("from assentry import Agent\nfrom assentry.agents import RunConfig\n")


def test_keywords_become_assentrys_own() -> None:
    code = migrated(
        "from agents import RunState",
        "RunState.from_json(initial_agent=a, state_json=b)",
        "RunState.from_string(initial_agent=a, state_string=b)",
        "state.approve(approval_item=x)",
        "state.reject(approval_item=x, rejection_message='')",
        "f(state_json=1)",
        native=True,
    )
    assert code.splitlines()[1:] == [
        "RunState.from_json(agent=a, data=b)",
        "RunState.from_string(agent=a, text=b)",
        "state.approve(item=x)",
        "state.reject(item=x, rejection_message='')",
        "f(state_json=1)",
    ]


def test_keywords_stay_where_agents_stay_on_the_skin() -> None:
    program = Program("from agents import RunState\nstate.approve(approval_item=x)\n", AGENTS_SDK)
    code = program.rewritten(native=True, batch=Batch(stays=frozenset({"Agent"})))
    assert "approval_item=x" in code


@pytest.mark.parametrize(("name", "home"), sorted(AGENTS_SDK.native_names.items()))
def test_every_name_of_the_table_is_one_of_the_sdk_and_one_of_assentrys(name: str, home: str) -> None:
    module, _, own = home.rpartition(".")
    assert hasattr(importlib.import_module(module), own)
    known = {each for names in _HOMES.values() for each in names} | {"LitellmModel", "ToolContext"}
    assert name in known
    assert name not in ABSENT


def test_the_renamed_keywords_are_those_of_assentry() -> None:
    from assentry import RunState

    for method, renamed in AGENTS_SDK.keywords.items():
        parameters = inspect.signature(getattr(RunState, method)).parameters
        assert set(renamed.values()) <= set(parameters)
    assert len(set(SAME_NAMES)) == len(SAME_NAMES)


# -- what needs a person -----------------------------------------------------------------------------------


def test_names_that_are_not_here_are_listed() -> None:
    found = remarks(
        "import agents",
        "from agents import ComputerTool, NoSuchName",
        "from agents.voice import VoicePipeline",
        "agents.ToolSearchTool()",
        "agents.no_such_module.x",
        "agents.Agent.whatever",
    )
    assert [line for line, _ in found] == [2, 2, 3, 4, 5]
    assert found[0][1] == f"ComputerTool is not in Assentry. {ABSENT['ComputerTool']}. {GUIDE}"
    assert found[1][1] == f"agents.NoSuchName is not in Assentry. {GUIDE}"
    assert found[2][1].startswith("agents.voice is not in Assentry. Assentry has no voice pipelines")


def test_calls_that_mean_something_else_are_listed() -> None:
    program = (
        "from agents import ApplyPatchTool, RunState, ShellTool as Shell",
        "from agents import set_tracing_export_api_key",
        "Shell(executor=e)",
        "Shell(executor=e, needs_approval=False)",
        "Shell(environment={}, needs_approval=True)",
        "ApplyPatchTool(editor=e)",
        "RunState.from_string(agent, text)",
        "set_tracing_export_api_key('x')",
        "other.ShellTool()",
    )
    both = [
        (5, "A shell of the provider's is refused: give an executor."),
        (7, "States that the Agents SDK saved are not read: finish those runs where they were begun."),
        (8, "Assentry sends no traces to OpenAI; set up OpenTelemetry or add a processor."),
    ]
    native = [
        (3, "A person is asked before each command, unless needs_approval= says otherwise."),
        (6, "A person is asked before each patch, unless needs_approval= says otherwise."),
    ]
    assert remarks(*program) == both
    assert remarks(*program, native=True) == sorted(both + native)


def test_texts_that_name_modules_are_listed() -> None:
    found = remarks(
        '"""Uses agents.run."""',
        "import agents",
        "importlib.import_module('agents')",
        "mock.patch('agents.run.Runner.run')",
        "open('agents.yaml')",
        "x = 'agents'",
        "y: 'agents.Agent' = 1",
        "from agents import *",
    )
    assert found == [
        (3, "This text names agents; write assentry.agents if it is imported by it."),
        (4, "This text names agents.run.Runner.run; write assentry.agents.run.Runner.run if it is imported by it."),
        (8, "Say which names are imported: assentry.agents looks each up when asked."),
    ]


# -- files that are left alone -----------------------------------------------------------------------------


def test_folders_of_others_are_skipped(project: Path) -> None:
    for folder in (".venv", ".git", "node_modules", "env", "__pycache__"):
        write(f"{folder}/a.py", "import agents")
    write("env/pyvenv.cfg", "home = x")
    write("src/a.py", "import agents")
    assert [change.path for change in plan_migration([Path()]).changes] == [Path("src/a.py")]


@pytest.mark.parametrize("local", ["agents.py", "agents/__init__.py", "src/agents/__init__.py"])
def test_a_module_of_the_projects_own_is_recognised(local: str, project: Path) -> None:
    write(local, "class Agent: ...")
    write("main.py", "from agents import Agent")
    write("pkg/__init__.py", "")
    write("pkg/inner.py", "from agents import Agent")
    write("unrelated.py", "x = 'agents'")
    changes, notes = plan_migration([Path()])
    assert changes == []
    assert [note.path.as_posix() for note in notes] == ["main.py", "pkg/inner.py"]
    assert "not the OpenAI Agents SDK: the file is left alone." in notes[0].says


def test_a_folder_of_programs_named_agents_hides_nothing(project: Path) -> None:
    write("agents/triage.py", "from agents import Agent")
    write("app/__init__.py", "")
    write("app/agents/__init__.py", "from agents import Agent")
    write("app/main.py", "from agents import Agent")
    write("bot/__init__.py", "")
    write("bot/agents/__init__.py", "")
    write("bot/manager.py", "from agents import Runner", "from .agents.planner import planner")
    changed = [change.path.as_posix() for change in plan_migration([Path()]).changes]
    assert changed == ["agents/triage.py", "app/agents/__init__.py", "app/main.py", "bot/manager.py"]


@pytest.mark.parametrize(
    ("line", "local"),
    [
        ("import agents", True),
        ("from agents import *", True),
        ("from agents import Planner", True),
        ("from agents import search", True),
        ("from agents.search import Found", True),
        ("from agents import Runner", False),
        ("from agents.tool import function_tool", False),
        ("from agents.search import function_tool", False),
        ("import agents.tool", False),
    ],
)
def test_an_import_is_the_projects_own_if_its_module_has_what_is_imported(
    line: str, local: bool, project: Path
) -> None:
    write("agents/__init__.py", "class Planner: ...")
    write("agents/search.py", "class Found: ...")
    write("main.py", line)
    changes, notes = plan_migration([Path("main.py")])
    assert (changes == []) is local
    assert any("left alone" in note.says for note in notes) is local


# -- writing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_line_ends_marks_and_mode_stay(end: bytes, mark: bytes, project: Path) -> None:
    file = Path("a.py")
    file.write_bytes(mark + b"import os, agents" + end + b"\tx = 1  # \xc3\xa9".strip() + end)
    file.chmod(0o751)
    (change,) = plan_migration([file]).changes
    change.write()
    assert (
        file.read_bytes()
        == mark + b"import os" + end + b"from assentry import agents" + end + b"x = 1  # \xc3\xa9" + end
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert os.listdir() == ["a.py"]


def test_mixed_line_ends_stay_mixed(project: Path) -> None:
    file = Path("a.py")
    file.write_bytes(b"x = 1\r\nimport agents\ny = 2\r\n")
    (change,) = plan_migration([file]).changes
    change.write()
    assert file.read_bytes() == b"x = 1\r\nfrom assentry import agents\ny = 2\r\n"


def test_a_file_that_was_changed_meanwhile_is_left_alone(project: Path) -> None:
    file = write("a.py", "import agents")
    (change,) = plan_migration([file]).changes
    file.write_text("import agents  # newer\n")
    with pytest.raises(UsageError, match=r"a\.py was changed meanwhile and is left alone"):
        change.write()
    assert file.read_text() == "import agents  # newer\n"
    assert os.listdir() == ["a.py"]


def test_a_write_that_fails_leaves_the_file_and_nothing_else(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write("a.py", "import agents")

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        ProgramChange(file, file.read_bytes(), b"x").write()
    assert os.listdir() == ["a.py"]


# -- every program -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["Agent", "Runner", "UserError", "trace", "ComputerTool", "RunState", "AgentsException"])
ALIASES = st.builds(
    lambda name, other: f"{name} as {other}" if other else name, NAMES, st.sampled_from(["", "", "x", "Y"])
)
MODULES = st.sampled_from(["agents", "agents.tool", "agents.exceptions", "agents.mcp", "os", "my.agents", ".agents"])
IMPORTED = st.sampled_from(["agents", "agents.tool", "agents.tool as t", "agents as a", "os", "sys as s"])
FORMS = st.sampled_from(["from {0} import {1}", "from {0} import ({1},)", "from {0} import (\n    {2},  # c\n)"])


@st.composite
def statements(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return "import " + ", ".join(draw(st.lists(IMPORTED, min_size=1, max_size=3)))
    names = draw(st.lists(ALIASES, min_size=1, max_size=4))
    return draw(FORMS).format(draw(MODULES), ", ".join(names), ",  # n\n    ".join(names))


USES = st.sampled_from(
    ["Agent()", "raise UserError", "agents.Agent", "def f(Agent): return Agent", "x = 'UserError'", ""]
)


def bound(code: str) -> set[str]:
    """Return the names that the imports of a program bind."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(each.asname or each.name).split(".")[0] for each in node.names}
    return found - {"assentry"}


@given(st.lists(statements() | USES, max_size=6), st.booleans())
@settings(deadline=None)
def test_a_migrated_program_binds_the_same_names_and_is_not_migrated_again(lines: list[str], native: bool) -> None:
    source = "\n".join(lines) + "\n"
    code = migrated(*lines, native=native)
    renamed = {"UserError": "UsageError", "AgentsException": "AssentryError"} if native else {}
    names, after = bound(source), bound(code)
    assert after <= names | set(renamed.values())
    assert {name for name in names if name not in after} <= set(renamed)
    assert all(renamed[name] in after for name in names if name not in after)
    imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom) and not node.level]
    assert not any((node.module or "").split(".")[0] == "agents" for node in imports)
    assert migrated(code.removesuffix("\n"), native=native) == code


def test_every_library_has_a_title_and_a_guide() -> None:
    assert all(each.title and each.guide and each.skins and each.distributions for each in LIBRARIES)
