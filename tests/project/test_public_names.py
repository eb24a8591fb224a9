"""The front door: what `assentry` offers, and nothing else."""

import contextlib
import inspect
import types
from typing import Any

import pytest

import assentry
import assentry.agents
import assentry.errors
import assentry.mcp
import assentry.realtime
import assentry.testing
from tests.runtime.support import python

VALUES = {"__version__"}
UNIONS = {"Decision", "Secret", "StreamEvent"}


def test_every_public_name_is_there() -> None:
    for module in (assentry, assentry.testing):
        for name in module.__all__:
            assert hasattr(module, name), name
        assert sorted(set(module.__all__)) == sorted(module.__all__)


def test_nothing_else_leaks() -> None:
    for module in (assentry, assentry.testing):
        public = {
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and not isinstance(value, types.ModuleType)
        }
        assert public <= set(module.__all__), public - set(module.__all__)


@pytest.mark.parametrize("name", sorted(set(assentry.__all__) - VALUES - UNIONS))
def test_every_public_name_is_documented(name: str) -> None:
    thing: Any = getattr(assentry, name)
    doc = inspect.getdoc(thing)
    assert doc
    assert doc[0].isupper() or doc[0] == "`"
    assert not doc.startswith(f"{name}("), "a docstring that was made up by a decorator"
    if inspect.isclass(thing):
        assert thing.__doc__, "a docstring of its own, not its parent's"


@pytest.mark.parametrize("name", sorted(set(assentry.__all__) - VALUES - UNIONS))
def test_every_public_method_is_documented(name: str) -> None:
    thing: Any = getattr(assentry, name)
    if not inspect.isclass(thing):
        return
    for member, value in inspect.getmembers(thing):
        if member.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        assert inspect.getdoc(value), f"{name}.{member}"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Agent", 1),
        ("AgentHooks", 1),
        ("Handoff", 2),
        ("InputGuardrail", 1),
        ("OutputGuardrail", 1),
        ("RunContextWrapper", 1),
        ("RunHooks", 1),
        ("RunState", 2),
        ("ToolContext", 1),
        ("ToolErrorFormatterArgs", 1),
        ("ToolInputGuardrail", 1),
        ("ToolOutputGuardrail", 1),
    ],
)
def test_what_has_a_context_can_be_annotated_with_its_type(name: str, parameters: int) -> None:
    thing: Any = getattr(assentry, name)
    for given in range(1, parameters + 1):
        assert thing[(Any,) * given].__origin__ is thing


@pytest.mark.parametrize("name", assentry.testing.__all__)
def test_every_name_of_the_testing_kit_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(assentry.testing, name))


@pytest.mark.parametrize("module", [assentry, assentry.agents, assentry.mcp, assentry.realtime])
def test_the_signature_of_every_public_name_can_be_read(module: Any) -> None:
    for name in dir(module):
        thing = getattr(module, name)
        if callable(thing) and not name.startswith("_"):
            with contextlib.suppress(TypeError, ValueError):  # unions and builtins have none
                inspect.signature(thing)


def test_every_error_is_documented_and_says_who_must_act() -> None:
    def tree(error: type[assentry.AssentryError]) -> list[type[assentry.AssentryError]]:
        return [error, *[each for child in error.__subclasses__() for each in tree(child)]]

    branches = {"UsageError", "Conflict", "Forbidden", "NotFound", "Upstream"}
    assert {error.__name__ for error in assentry.AssentryError.__subclasses__()} == branches
    drawn = assentry.errors.__doc__ or ""
    for error in tree(assentry.AssentryError):
        assert error.__doc__, error
        assert str(error()) == error.__doc__.split("\n", 1)[0]
        assert str(error("words")) == "words"
        assert error.__name__ in drawn
        assert 400 <= error.status < 600
        assert error().state is None
        assert error.__module__ == "assentry.errors"


def test_names_that_users_of_the_other_sdk_know_are_where_they_expect_them() -> None:
    known = (
        "Agent Runner RunConfig RunState RunResult RunResultStreaming RunContextWrapper ToolContext function_tool tool "
        "FunctionTool ModelResponse Usage MessageOutputItem ToolCallItem ToolCallOutputItem ToolApprovalItem "
        "ReasoningItem RunItem StreamEvent RawResponsesStreamEvent RunItemStreamEvent AgentUpdatedStreamEvent "
        "ToolErrorFormatterArgs Tool Model default_tool_error_function MaxTurnsExceeded"
    )
    assert [name for name in known.split() if not hasattr(assentry, name)] == []


def test_the_version_is_the_packages() -> None:
    assert assentry.__version__
    assert [part.isdigit() for part in assentry.__version__.split(".")[:2]] == [True, True]


def test_importing_brings_in_nothing_heavy() -> None:
    code = """
        import sys, assentry
        heavy = {"griffe", "jsonschema", "rich", "httpx", "openai", "numpy", "sqlite3", "requests", "referencing"}
        print(sorted(heavy & set(sys.modules)))
    """
    ended = python(inspect.cleandoc(code))
    assert ended.stdout.strip() == "[]", ended.stderr


def test_a_decision_and_an_event_are_what_they_say() -> None:
    assert {each.__name__ for each in assentry.Decision.__args__} == {"Approve", "Edit", "Reject", "Respond"}
    assert len(assentry.StreamEvent.__args__) == 6
