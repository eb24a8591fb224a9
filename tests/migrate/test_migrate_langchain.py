"""Programs of LangChain, rewritten; what stays LangChain's; and what needs a person."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assentry.threads
from assentry.migrate.langchain import LANGCHAIN
from assentry.migrate.program import Program, batch_of
from assentry.migrate.project import plan_migration
from assentry.threads.absent import ABSENT
from assentry.threads.langchain.export import EXPORTS

GUIDE = "See docs/howto/from-langchain.md."


def migrated(*lines: str) -> str:
    """Return a program after its migration."""
    program = Program("\n".join(lines) + "\n", LANGCHAIN)
    return program.rewritten(native=False, batch=batch_of([program]))


def remarks(*lines: str) -> list[tuple[int, str]]:
    found = Program("\n".join(lines) + "\n", LANGCHAIN).remarks(native=False)
    return [(each.line, each.says) for each in found]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- imports ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "from langchain.agents import create_agent, AgentState",
        "from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware",
        "from langchain.agents.middleware.human_in_the_loop import InterruptOnConfig",
        "from langchain.agents.middleware.types import ModelRequest as Request",
        "from langchain.messages import HumanMessage",
        "from langchain.tools import BaseTool",
        "from langchain_core.messages import AIMessage, ToolMessage",
        "from langchain_core.messages.ai import AIMessageChunk",
        "from langchain_core.tools import StructuredTool, ToolException",
        "from langgraph.checkpoint.memory import InMemorySaver",
        "from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver",
        "from langgraph.checkpoint.sqlite import SqliteSaver",
        "from langgraph.config import get_stream_writer",
        "from langgraph.runtime import Runtime",
        "from langgraph.types import Command, interrupt, Interrupt",
        "if TYPE_CHECKING:\n    from langgraph.types import Command  # for types",
        "from langgraph.types import (\n    Command,  # one\n    interrupt,\n)",
    ],
)
def test_names_that_are_here_come_from_threads(line: str) -> None:
    module = line.split("from ")[1].split(" import")[0]
    assert migrated(line) == line.replace(module, "assentry.threads") + "\n"


@pytest.mark.parametrize(
    "line",
    [
        "from langchain_openai import ChatOpenAI",
        "from langchain.chat_models import init_chat_model",
        "from langchain_community.document_loaders import TextLoader",
        "from langchain_core.prompts import ChatPromptTemplate",
        "from langchain_core.runnables import RunnableLambda",
        "from langchain_core.messages import convert_to_messages",
        "from langchain.agents.middleware.summarization import ContextSize",
        "from langgraph.store.postgres import PostgresStore",
        "from .langchain.agents import create_agent",
        "from langchains import create_agent",
        "import langchain",
    ],
)
def test_what_works_as_it_is_stays_and_is_not_listed(line: str) -> None:
    assert migrated(line) == f"{line}\n"
    assert remarks(line) == []


def test_of_one_import_some_names_may_stay() -> None:
    program = (
        "from langgraph.prebuilt import ToolNode",
        "from langgraph.types import (",
        "    Command,  # answers",
        "    Send,",
        "    interrupt as ask,",
        ")",
    )
    assert migrated(*program).splitlines() == [
        "from langgraph.prebuilt import ToolNode",
        "from assentry.threads import (",
        "    Command,  # answers",
        "    interrupt as ask,",
        ")",
        "from langgraph.types import (",
        "    Send,",
        ")",
    ]
    assert remarks(*program) == [
        (1, f"ToolNode is not in Assentry. {ABSENT['ToolNode']}. {GUIDE}"),
        (4, f"Send is not in Assentry. {ABSENT['Send']}. {GUIDE}"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import langchain.agents, os\nlangchain.agents.create_agent",
            "import assentry.threads, os\nassentry.threads.create_agent",
        ),
        ("import langgraph.types as t\nt.Command(resume=1)", "import assentry.threads as t\nt.Command(resume=1)"),
        ("import langchain as lc\nlc.agents.create_agent", "import assentry.threads as lc\nlc.create_agent"),
        (
            "from langchain import agents\nagents.create_agent",
            "from assentry import threads as agents\nagents.create_agent",
        ),
        (
            "from langchain.agents import create_agent, middleware as mw\nmw.wrap_tool_call",
            "from assentry import threads as mw\nfrom assentry.threads import create_agent\nmw.wrap_tool_call",
        ),
    ],
)
def test_a_module_becomes_threads_if_all_that_is_used_of_it_is_here(before: str, after: str) -> None:
    assert migrated(before) == f"{after}\n"
    assert remarks(before) == []


@pytest.mark.parametrize(
    "more", ["lc.AgentExecutor", "print(lc)", "def f(state: 'lc.AgentState'): ...", "def g(lc): return lc.x"]
)
def test_a_module_of_which_something_else_is_used_stays_and_is_listed(more: str) -> None:
    program = ("import langchain.agents as lc", "lc.create_agent", more)
    assert migrated(*program) == "\n".join(program) + "\n"
    assert remarks(*program)[0] == (
        1,
        "lc stays: not all that is used of it is here; import the names that are.",
    )


def test_a_program_with_a_graph_keeps_what_the_graph_needs() -> None:
    program = (
        "from langchain.agents import create_agent",
        "from langchain_core.messages import HumanMessage",
        "from langgraph.graph import START, StateGraph",
        "from langgraph.types import Command, interrupt",
        "StateGraph.add_node",
    )
    assert migrated(*program).splitlines() == ["from assentry.threads import create_agent", *program[1:]]
    [(line, says)] = remarks(*program)
    assert line == 3
    assert says.startswith("StateGraph is not in Assentry. This program's graph stays LangGraph's")
    module = ("import langgraph.graph", *program[3:4], "langgraph.graph.StateGraph(X)")
    assert migrated(*module) == "\n".join(module) + "\n"
    assert [line for line, _ in remarks(*module)] == [3]


# -- what needs a person -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("from langgraph.prebuilt import create_react_agent", "Use create_agent, with system_prompt="),
        ("from langgraph.prebuilt.interrupt import ActionRequest", "It is the older form of a question"),
        ("from langgraph.checkpoint.redis import RedisSaver", "Threads are kept by InMemorySaver"),
        ("from langgraph.errors import GraphRecursionError", "MaxTurnsExceeded"),
        ("from langgraph.func import task", "Assentry runs agents and no graphs"),
        ("from langchain.agents import AgentExecutor", "It is of LangChain before 1.0"),
        ("from langchain.agents.middleware import NoSuchMiddleware", "NoSuchMiddleware is not in Assentry"),
        ("from langchain.messages import *", "Say which names are imported"),
        ("import langgraph.pregel", "langgraph.pregel is not in Assentry"),
        ("mock.patch('langchain.agents.create_agent')", "write assentry.threads.create_agent if"),
        ("import_module('langgraph.types')", "write assentry.threads if"),
    ],
)
def test_what_is_not_here_stays_and_is_listed(line: str, says: str) -> None:
    assert migrated(line) == f"{line}\n"
    [(_, said)] = remarks(line)
    assert says in said


def test_keywords_that_are_not_taken_here_are_listed() -> None:
    program = ("from langchain.agents import create_agent", "create_agent(model, tools=[], middleware=[], no_such=1)")
    assert remarks(*program) == [(2, f"create_agent takes no no_such= here. {GUIDE}")]


def test_savers_that_last_are_listed_since_threads_that_langchain_saved_are_not_read() -> None:
    program = (
        "from langgraph.checkpoint.sqlite import SqliteSaver",
        "with SqliteSaver.from_conn_string('a.db') as saver: ...",
    )
    assert remarks(*program) == [
        (2, "Threads that LangChain saved are not read: finish those where they were begun."),
    ]


def test_the_table_asks_the_skin() -> None:
    assert LANGCHAIN.own == set(assentry.threads.__all__)
    assert LANGCHAIN.taken == set(EXPORTS)


# -- projects ----------------------------------------------------------------------------------------------


def test_programs_of_both_libraries_are_migrated_at_once(project: Path) -> None:
    Path("main.py").write_text(
        "import os, agents\nfrom langchain.agents import create_agent\nfrom langgraph.types import Send\n"
        "agents.ComputerTool\n"
    )
    [change], notes = plan_migration([Path("main.py")])
    assert change.after.decode() == (
        "import os\nfrom assentry import agents\nfrom assentry.threads import create_agent\n"
        "from langgraph.types import Send\nagents.ComputerTool\n"
    )
    assert [(note.line, note.says.split()[0]) for note in notes] == [(3, "Send"), (4, "ComputerTool")]
    change.write()
    assert plan_migration([Path("main.py")]).changes == []


@pytest.mark.parametrize(
    ("line", "stay"),
    [
        ("from langchain_openai import ChatOpenAI", True),
        ("from langchain.chat_models import init_chat_model", True),
        ("from langchain_core.prompts import ChatPromptTemplate", True),
        ("from langchain_core.runnables import RunnableConfig, RunnableLambda", True),
        ("from langchain_core.runnables import RunnableConfig", False),
        ("from langchain.tools import BaseTool", False),
    ],
)
def test_messages_stay_langchains_in_a_project_with_objects_that_take_only_those(
    line: str, stay: bool, project: Path
) -> None:
    Path("models.py").write_text(f"{line}\n")
    Path("main.py").write_text(
        "from langchain.agents import create_agent\nfrom langchain.messages import HumanMessage\n"
    )
    changed = {change.path.name: change.after.decode() for change in plan_migration([project]).changes}
    module = "langchain.messages" if stay else "assentry.threads"
    assert changed["main.py"] == f"from assentry.threads import create_agent\nfrom {module} import HumanMessage\n"


def test_requirements_are_listed_and_those_of_assentry_are_not(project: Path) -> None:
    Path("requirements.txt").write_text(
        "langchain>=1\nlangchain-openai\nlanggraph-checkpoint-postgres\nassentry[langchain]\n# with langchain\n"
    )
    Path("pyproject.toml").write_text(
        'dependencies = ["assentry[cli,langchain]", "langgraph"]\ndescription = "uses langchain"\n'
    )
    assert [str(note) for note in plan_migration([project]).notes] == [
        f"{project}/pyproject.toml:1: The project needs langgraph: put assentry in its place.",
        f"{project}/requirements.txt:1: The project needs langchain: put assentry[langchain] in its place.",
        f"{project}/requirements.txt:3: The project needs langgraph-checkpoint-postgres: put assentry[postgres] in its "
        "place.",
    ]


def test_a_module_of_the_projects_own_is_recognised(project: Path) -> None:
    Path("langgraph.py").write_text("Command = 1\n")
    Path("main.py").write_text("from langgraph import Command\n")
    changes, notes = plan_migration([project])
    assert changes == []
    assert "langgraph may be the module in" in notes[0].says


# -- every program -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["create_agent", "Command", "Send", "HumanMessage", "PIIMiddleware", "StateGraph", "types"])
ALIASES = st.builds(lambda name, other: f"{name} as {other}" if other else name, NAMES, st.sampled_from(["", "x", "Y"]))
MODULES = st.sampled_from(["langchain.agents", "langgraph.types", "langgraph.graph", "langgraph", "os", ".langchain"])
IMPORTED = st.sampled_from(["langchain", "langgraph.types", "langgraph.types as t", "langchain.agents as a", "os"])
FORMS = st.sampled_from(["from {0} import {1}", "from {0} import ({1},)", "from {0} import (\n    {2},  # c\n)"])
USES = st.sampled_from(
    ["t.Command", "langgraph.types.Command()", "langchain.agents.create_agent", "print(a)", "types.x"]
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    if draw(st.booleans()):
        return "import " + ", ".join(draw(st.lists(IMPORTED, min_size=1, max_size=3)))
    names = draw(st.lists(ALIASES, min_size=1, max_size=4))
    return draw(FORMS).format(draw(MODULES), ", ".join(names), ",  # n\n    ".join(names))


def bound(code: str) -> set[str]:
    """Return the names that the imports of a program bind, without those of whole paths."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    found = {(each.asname or each.name).split(".")[0] for node in nodes for each in node.names}
    return found - {"assentry", "langchain", "langgraph"}


@given(st.lists(statements() | USES, max_size=6))
@settings(deadline=None)
def test_a_migrated_program_binds_the_same_names_and_is_not_migrated_again(lines: list[str]) -> None:
    code = migrated(*lines)
    assert bound(code) == bound("\n".join(lines))
    assert migrated(code.removesuffix("\n")) == code
