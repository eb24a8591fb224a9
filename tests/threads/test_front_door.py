"""What `assentry.threads` offers, and what it costs to look at it."""

import types
from typing import Any

import pytest

import assentry.threads
from assentry import InvalidDefinition
from assentry.testing import ScriptedModel
from assentry.threads import AgentMiddleware, create_agent
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
    code = "import sys, assentry.threads; print({'sqlalchemy', 'sqlite3', 'psycopg', 'jsonschema'} & set(sys.modules))"
    assert python(code).stdout.strip() == "set()"


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
