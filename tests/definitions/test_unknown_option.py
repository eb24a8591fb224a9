"""A keyword that a class or a function does not have: the error names whose it is, and the nearest one."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import assentry
from assentry import Agent, InvalidDefinition, ModelSettings, RunConfig, Runner, UnknownOption, function_tool, handoff
from assentry.mcp import MCPServerStdio
from assentry.testing import ScriptedModel


def agent() -> Agent[Any]:
    return Agent("agent", model=ScriptedModel(["Done."]))


@pytest.mark.parametrize(
    ("make", "whose", "near"),
    [
        (lambda: Agent("a", instrctions="x"), "Agent", "instructions"),  # type: ignore[call-arg]
        (lambda: agent().as_tool(needs_aproval=True), "Agent.as_tool", "needs_approval"),  # type: ignore[call-arg]
        (lambda: RunConfig(max_parallel_tool=1), "RunConfig", "max_parallel_tools"),  # type: ignore[call-arg]
        (lambda: ModelSettings(temprature=1), "ModelSettings", "temperature"),  # type: ignore[call-arg]
        (lambda: Runner.run(agent(), "go", max_turn=3), "Runner.run", "max_turns"),  # type: ignore[call-arg]
        (lambda: Runner.run_sync(agent(), "go", max_turn=3), "Runner.run_sync", "max_turns"),  # type: ignore[call-arg]
        (lambda: Runner.run_streamed(agent(), "go", hook=3), "Runner.run_streamed", "hooks"),  # type: ignore[call-arg]
        (lambda: function_tool(needs_aproval=True), "function_tool", "needs_approval"),  # type: ignore[call-overload]
        (lambda: handoff(agent(), on_handof=print), "handoff", "on_handoff"),  # type: ignore[call-arg]
    ],
)
def test_an_unknown_keyword_is_refused_with_the_nearest_one(make: Callable[[], Any], whose: str, near: str) -> None:
    with pytest.raises(UnknownOption, match=f"^{whose}: there is no option '.*'; did you mean '{near}'\\?") as caught:
        make()
    assert isinstance(caught.value, InvalidDefinition) and isinstance(caught.value, TypeError)


def test_an_unknown_keyword_of_a_server_is_refused_too() -> None:
    with pytest.raises(InvalidDefinition, match="did you mean 'tool_filter'"):
        MCPServerStdio({"command": "x"}, tool_filtre=print)  # type: ignore[call-arg]


def test_other_mistakes_are_told_as_python_tells_them() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Agent()  # type: ignore[call-arg]


def test_a_type_error_of_the_user_passes_unchanged() -> None:
    def instructions(context: Any, agent: Any) -> str:
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$") as caught:
        Runner.run_sync(Agent("a", instructions=instructions, model=ScriptedModel([])), "go")
    assert type(caught.value) is TypeError


def test_signatures_stay_readable() -> None:
    assert "instructions" in inspect.signature(Agent).parameters
    assert "max_turns" in inspect.signature(Runner.run).parameters
    assert function_tool.__doc__ and Runner.run.__doc__ and assentry.handoff.__name__ == "handoff"
