"""Branches: an agent call opens one, and has its outcome when that has ended."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..core import facts as f
from ..core.digest import canonical
from ..core.run import CallState, Run
from ..errors import AgentFailed, InvalidInput, MaxTurnsExceeded
from ..tools.delegation import AgentTool
from .calling import context_of, failure_text
from .config import DEFAULT_MAX_TURNS
from .guarding import input_guardrails
from .value import input_json, output_json

if TYPE_CHECKING:
    from .driver import Driver

Path = tuple[str, ...]


def open_branch(driver: Driver, path: Path, state: CallState, tool: AgentTool, args: dict[str, Any]) -> None:
    """Begin the run of the agent that an approved call asks for, inside this run."""
    journal, root = driver.journal, driver.journal.run
    build = tool.input_builder
    if build is not None:
        said = build(args)
    else:
        said = args["input"] if tool.parameters is None else canonical(args).decode()
    inside = (*path, state.call.id)
    seat = driver.cast.seat(driver.cast.place(tool.agent))
    now = journal.now()
    began = f.Began(
        seat.place,
        tool.max_turns or DEFAULT_MAX_TURNS,
        release=root.began.release if root.began is not None else "each",
        guards=tuple(input_guardrails(seat, driver.config, inside)),
        at=now,
        path=inside,
    )
    try:
        journal.append([began, f.Said(input_json(said), path=inside)])
    except InvalidInput as error:
        raise InvalidInput(f"The input_builder of {tool.name!r} gave what cannot be said: {error}") from None
    driver.stream_branch(inside, tool, state)


async def close_branch(driver: Driver, effect: f.Return) -> None:
    """Give the call what its branch came to, or what the model is told if it failed."""
    path, call = effect.path, effect.call or ""
    state = driver.run_at(path).calls[call]
    tool, inside = driver.tool_for(state), (*path, call)
    if state.child is None or not isinstance(tool, AgentTool):
        raise AgentFailed(f"Call {call!r} has no branch of its own to return from.")
    journal, error = driver.journal, None
    value: Any = None
    if state.child.concluded is None:
        error = driver.errors.pop(inside, None) or why_failed(tool, state.child)
    else:
        try:
            value = await _extracted(driver, inside, tool)
        except Exception as failure:
            error = failure
    await driver.flush()
    if error is None:
        output, note = output_json(value)
        driver.outputs[path, call] = value
        journal.add(f.Finished(call, output, note=note, at=journal.now(), path=path))
        return
    _, ctx = context_of(driver, path, state, tool, {})
    text, raised = await failure_text(tool, ctx, error)
    output, note = output_json(text)
    kind = type(error).__name__
    journal.add(f.Finished(call, output, error=kind, note=note, at=journal.now(), path=path))
    if raised is not None:
        raise raised


async def _extracted(driver: Driver, inside: Path, tool: AgentTool) -> Any:
    from .result import RunResult

    if tool.custom_output_extractor is None:
        return driver.view(inside).output()
    value = tool.custom_output_extractor(RunResult(driver, inside))
    return await value if inspect.isawaitable(value) else value


def why_failed(tool: AgentTool, child: Run) -> Exception:
    """Why a branch ended without an output, as an exception."""
    if child.closed is not None:
        return AgentFailed(f"The agent {tool.agent.name!r} stopped: {child.closed.why}")
    return MaxTurnsExceeded(f"The agent {tool.agent.name!r} used up its {child.max_turns} turns.")
