"""What `assent.threads` offers, and what it costs to look at it."""

import types

import assent.threads
from tests.unit.support import python


def test_every_name_is_there_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(assent.threads).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(assent.threads.__all__)
    assert sorted(set(assent.threads.__all__)) == sorted(assent.threads.__all__)


def test_the_names_of_the_vocabulary_are_there() -> None:
    known = (
        "create_agent HumanInTheLoopMiddleware InterruptOnConfig HITLRequest HITLResponse Command Interrupt interrupt "
        "AIMessage HumanMessage ToolMessage InMemorySaver SqliteSaver PostgresSaver AsyncSqliteSaver AsyncPostgresSaver"
    )
    assert set(known.split()) <= set(assent.threads.__all__)
    assert callable(assent.threads.interrupt)


def test_assent_does_not_load_it_and_it_loads_no_database() -> None:
    code = "import sys, assent; print('assent.threads' in sys.modules)"
    assert python(code).stdout.strip() == "False"
    code = "import sys, assent.threads; print({'sqlalchemy', 'sqlite3', 'psycopg', 'jsonschema'} & set(sys.modules))"
    assert python(code).stdout.strip() == "set()"
