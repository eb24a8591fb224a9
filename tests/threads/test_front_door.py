"""What `assentry.threads` offers, and what it costs to look at it."""

import ast
import importlib
import inspect
import itertools
import re
import types
from pathlib import Path
from typing import Any

import pytest

import assentry.threads
from assentry import InvalidDefinition, NotInAssentry
from assentry.testing import ScriptedModel
from assentry.threads import AgentMiddleware, AIMessage, HumanMessage, create_agent
from assentry.threads.absent import ABSENT, ELSEWHERE
from assentry.threads.langchain import typed
from assentry.threads.langchain.export import EXPORTS, HOMES
from tests.runtime.support import python


def test_every_name_is_there_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(assentry.threads).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(assentry.threads.__all__)
    assert sorted(set(assentry.threads.__all__)) == sorted(assentry.threads.__all__)


def test_the_names_of_the_vocabulary_are_there() -> None:
    known = (
        "create_agent HumanInTheLoopMiddleware InterruptOnConfig HITLRequest HITLResponse Command Interrupt interrupt "
        "AIMessage HumanMessage ToolMessage InMemorySaver SqliteSaver PostgresSaver AsyncSqliteSaver AsyncPostgresSaver"
    )
    assert set(known.split()) <= set(assentry.threads.__all__)
    assert callable(assentry.threads.interrupt)


def test_no_module_has_the_name_of_something_that_is_imported_from_langchain() -> None:
    assert not {"tool", "interrupt_on", "create_agent"} & {
        name for name, value in vars(assentry.threads).items() if isinstance(value, types.ModuleType)
    }


def test_assentry_does_not_load_it_and_it_loads_no_database() -> None:
    code = "import sys, assentry; print('assentry.threads' in sys.modules)"
    assert python(code).stdout.strip() == "False"
    others = "{'sqlalchemy', 'sqlite3', 'psycopg', 'jsonschema', 'langchain', 'langchain_core', 'langgraph', 'difflib'}"
    code = f"import sys, assentry.threads; print({others} & set(sys.modules))"
    assert python(code).stdout.strip() == "set()"


# -- names of LangChain's ----------------------------------------------------------------------------------

PENDING = """
    AnyMessage BaseMessage CheckpointStreamPart CheckpointTuple CustomStreamPart DebugStreamPart
    ExtendedModelResponse GraphOutput MemorySaver
    MessagesStreamPart ModelCallResult OmitFromInput OmitFromOutput Overwrite PregelTask PrivateStateAttr
    REMOVE_ALL_MESSAGES RemoveMessage StreamPart TasksStreamPart ToolCall
    UpdatesStreamPart ValuesStreamPart add_messages dynamic_prompt get_config get_runtime
    get_store hook_config
"""
"""Names that are to be Assentry's own."""

MODULES = (
    "langchain.agents",
    "langchain.agents.middleware",
    "langchain.messages",
    "langchain.tools",
    "langchain_core.messages",
    "langchain_core.runnables",
    "langchain_core.tools",
    "langgraph.errors",
    "langgraph.graph",
    "langgraph.graph.message",
    "langgraph.graph.state",
    "langgraph.prebuilt",
    "langgraph.runtime",
    "langgraph.types",
)
"""Modules whose every name is here, or says why not."""


def test_a_name_has_one_place() -> None:
    elsewhere = [name for names in ELSEWHERE.values() for name in names]
    places = [set(assentry.threads.__all__), set(EXPORTS), set(ABSENT), set(elsewhere)]
    assert [one & other for one, other in itertools.combinations(places, 2) if one & other] == []
    assert sum(len(names) for names in HOMES.values()) == len(EXPORTS)


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_langchain_is_here_or_says_why_not(module: str) -> None:
    pytest.importorskip("langchain")
    elsewhere = [name for names in ELSEWHERE.values() for name in names]
    known = {*assentry.threads.__all__, *EXPORTS, *ABSENT, *elsewhere, *PENDING.split()}
    assert [n for n in importlib.import_module(module).__all__ if n not in known and not n.startswith("_")] == []


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_a_name_of_langchains_own_is_langchains(name: str) -> None:
    module = importlib.import_module(pytest.importorskip("langchain") and EXPORTS[name])
    if hasattr(module, name):
        assert getattr(assentry.threads, name) is getattr(module, name)
    else:
        with pytest.raises(NotInAssentry, match=f"^{name} is LangChain's own, and the installed version does not"):
            exec(f"from assentry.threads import {name}")


def test_the_reference_lists_the_names_of_langchains_own() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/threads.md").read_text("utf-8")
    rows = [line for line in page.split("## LangChain's own names")[1].splitlines() if line.startswith("|")]
    assert set(re.findall(r"`(\w+)`", "\n".join(rows))) == set(EXPORTS)


def test_type_checkers_see_the_names_that_programs_get() -> None:
    [block] = [node for node in ast.parse(inspect.getsource(typed)).body if isinstance(node, ast.If)]
    seen = {
        str(node.module): [each.name for each in node.names] for node in block.body if isinstance(node, ast.ImportFrom)
    }
    assert seen == {module: list(names) for module, names in HOMES.items()}


def test_a_name_that_is_not_here_says_why_what_instead_and_where_to_read() -> None:
    for name, why in ABSENT.items():
        with pytest.raises(NotInAssentry) as caught:
            exec(f"from assentry.threads import {name}")
        assert str(caught.value) == f"{name} is not in Assentry. {why}. See docs/howto/from-langchain.md."
    with pytest.raises(
        ImportError, match=r"^RunnableLambda is LangChain's own: import it from langchain_core\.runnables\.$"
    ):
        exec("from assentry.threads import RunnableLambda")


def test_an_unknown_name_names_the_nearest_one() -> None:
    with pytest.raises(
        NotInAssentry, match=r"^There is no create_agnet in assentry\.threads; did you mean create_agent\?"
    ):
        exec("from assentry.threads import create_agnet")
    with pytest.raises(NotInAssentry, match=r"^There is no Qwertz in assentry\.threads\. See docs/howto"):
        exec("from assentry.threads import Qwertz")


def test_a_name_that_is_not_here_can_be_looked_up() -> None:
    assert not hasattr(assentry.threads, "StateGraph")
    assert getattr(assentry.threads, "ToolNode", None) is None
    assert not hasattr(assentry.threads, "__wrapped__")
    with pytest.raises(AttributeError, match=r"^StateGraph is not in Assentry\. "):
        _ = assentry.threads.StateGraph  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match=r"^cannot import name '_private'"):
        exec("from assentry.threads import _private")


def test_modules_can_be_imported_and_the_names_can_be_listed() -> None:
    names: dict[str, Any] = {}
    exec("from assentry.threads import absent, langchain, saver\nfrom assentry.threads import *", names)
    assert names["absent"].GUIDE == "docs/howto/from-langchain.md"
    assert set(assentry.threads.__all__) <= set(names)
    assert "SummarizationMiddleware" not in names
    assert {*assentry.threads.__all__, *EXPORTS, "absent"} <= set(dir(assentry.threads))


def test_messages_of_both_kinds_can_be_trimmed() -> None:
    theirs = pytest.importorskip("langchain_core.messages")
    options: dict[str, Any] = {"max_tokens": 2, "token_counter": len, "strategy": "last"}
    ours = [HumanMessage("one"), AIMessage("two"), HumanMessage("three")]
    assert assentry.threads.trim_messages(ours, **options) == ours[1:]
    given = [theirs.HumanMessage("one"), theirs.AIMessage("two"), theirs.HumanMessage("three")]
    assert assentry.threads.trim_messages(given, **options) == given[1:]
    assert assentry.threads.trim_messages(**options).invoke(given) == given[1:]


def test_without_langchain_its_names_say_what_to_install() -> None:
    code = (
        "import sys; sys.modules['langchain'] = sys.modules['langchain_core'] = None\n"
        "import assentry.threads; print(hasattr(assentry.threads, 'BaseTool'))\n"
        "try: from assentry.threads import PIIMiddleware\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    first, second = python(code).stdout.splitlines()
    assert first == "False"
    assert second.startswith("NotInAssentry PIIMiddleware is LangChain's own, which is not installed (langchain")
    assert "pip install" in second


# -- tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [print, "print", {"print": print}, 7])
def test_tools_that_are_no_list_are_refused_in_words(given: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"^tools is a list of tools, got"):
        create_agent(ScriptedModel([]), given)

    class Own(AgentMiddleware):
        tools = given

    with pytest.raises(InvalidDefinition, match=r"^Own\.tools is a list of tools, got"):
        create_agent(ScriptedModel([]), middleware=[Own()])


def test_a_middleware_may_have_no_tools() -> None:
    class Own(AgentMiddleware):
        tools = None  # type: ignore[assignment]

    assert create_agent(ScriptedModel([]), None, middleware=[Own()]).agent.tools == []
