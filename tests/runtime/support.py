"""What the tests of the runtime share: short ways to make an agent, stop it, and look at what it did."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from assentry import (
    Agent,
    FunctionTool,
    Outcome,
    RunConfig,
    RunResultBase,
    RunState,
    Tool,
    ToolCallOutputItem,
    function_tool,
)
from assentry.testing import ScriptedModel

R = TypeVar("R")
SOURCES = Path(__file__).parents[2] / "src"

HANGS = 100
"""Seconds after which something hangs. No test waits for it unless it fails."""
UNRENEWED = RunConfig(lease=10.0 * HANGS)
"""A lease that is not renewed during a test: renewals go by the event loop's clock, whatever clock the store has."""


def scripted(*steps: Any, tools: Iterable[Tool] = (), name: str = "agent", **options: Any) -> Agent[Any]:
    """An agent whose model follows a script."""
    return Agent(name, tools=list(tools), model=ScriptedModel(steps), **options)


def sending(**options: Any) -> tuple[FunctionTool, list[tuple[str, int]]]:
    """A tool with one required parameter and one default, and the list of what its body did."""
    sent: list[tuple[str, int]] = []

    @function_tool(**options)
    async def send(to: str, copies: int = 1) -> str:
        """Send a mail."""
        sent.append((to, copies))
        return f"sent {copies} to {to}"

    return send, sent


def heard(agent: Agent[Any]) -> list[dict[str, Any]]:
    """What the agent's model was last given."""
    model: Any = agent.model
    return list(model.requests[-1].input)


def asked(agent: Agent[Any]) -> int:
    """How often the agent's model was asked."""
    model: Any = agent.model
    return len(model.requests)


def told(result: RunResultBase) -> list[str]:
    """What the model is told that its calls gave, in the order of the calls."""
    return [item.raw_item["output"] for item in outputs(result)]


def outputs(result: RunResultBase) -> list[ToolCallOutputItem]:
    """The items of what calls gave."""
    return [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]


def outcomes(result: RunResultBase) -> list[Outcome]:
    """How the calls ended."""
    return [item.outcome for item in outputs(result)]


def facts(state: RunState[Any], kind: str) -> list[dict[str, Any]]:
    """The facts of one kind in a state, as they are saved."""
    return [fact for fact in state.to_json()["journal"] if fact["fact"] == kind]


async def reloaded(agent: Agent[Any], state: RunState[Any], **options: Any) -> RunState[Any]:
    """The state after it was written down and read again."""
    return await RunState.from_string(agent, state.to_string(), **options)


async def stopped(run: Awaitable[Any], when: asyncio.Event) -> RunState[Any]:
    """Cancel a run when the event is set, and give the state it leaves."""
    task = asyncio.ensure_future(run)
    waiting = asyncio.create_task(when.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=HANGS)
    waiting.cancel()
    task.cancel()
    try:
        ended = await task
    except asyncio.CancelledError as error:
        state: RunState[Any] = error.state  # type: ignore[attr-defined]
        return state
    raise AssertionError(f"the run was cancelled and ended with {ended!r}")


async def soon(work: Awaitable[R]) -> R:
    """What the work gives, or a failed test where there would be none."""
    return await asyncio.wait_for(work, HANGS)


def refused(call: Callable[[], Any], error: type[Exception], state: RunState[Any]) -> Exception:
    """The error that a call on a state raises: of just this class, and the state is as it was."""
    before = state.to_string()
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error, f"expected {error.__name__} itself, got {caught.value!r}"
    assert str(caught.value)
    assert state.to_string() == before
    return caught.value


def python(code: str, *options: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A Python program in a process of its own."""
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=os.environ | {"PYTHONPATH": str(SOURCES), "PYTHONUTF8": "1"},
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        timeout=HANGS,
    )


def named(value: Any) -> str:
    """A value as a test's name: without addresses, since processes that share the tests must agree on the names."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))
