"""The door: the one function that enters a tool's body, of any kind.

Before the body: what is about to run is what was approved, and the tool's guardrails have nothing
against it, or nothing runs; then `Started`. After it: `Finished`, or a question of the body's own.
Nothing else in Assent calls `Tool.invoke`. An agent call has no body: its door opens a branch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..approval.question import action_digest, effective
from ..context import ToolContext
from ..core import facts as f
from ..core.digest import BadJSON, worded
from ..core.run import CallState
from ..errors import DefinitionChanged, DigestMismatch, InvalidArguments, TripwireTriggered
from ..handoff import Handoff
from ..tools.delegation import AgentTool
from ..tools.tool import Tool
from .asking import Body
from .branch import open_branch
from .calling import context_of, record_failure
from .definition import resolve
from .guarding import guard_call, guard_result
from .handover import check_filter, filtered, hand_over
from .model_call import enabled
from .value import output_json

if TYPE_CHECKING:
    from .driver import Driver

Path = tuple[str, ...]


async def enter(driver: Driver, path: Path, state: CallState) -> None:
    """Run an approved call and record how it ended."""
    journal, call = driver.journal, state.call.id
    seat = driver.cast.of(state)
    agent, tool = seat.agent, resolve(state, seat.tool(state.call.kind, state.tool))
    if tool is None:
        raise DefinitionChanged(f"Tool {state.tool!r} was approved and was never offered; the call did not run.")
    try:
        args, bound = _arguments(driver, path, state, tool)
        if state.chosen is not None and not await enabled(driver, tool, agent):
            raise InvalidArguments(f"the tool {tool.name!r} is disabled")
    except (BadJSON, InvalidArguments) as error:
        journal.add(
            f.Refused(call, "runtime", why=f"the arguments do not fit the tool: {error}", at=journal.now(), path=path)
        )
        return
    check_digest(driver, path, state, tool, args)
    if tool.tool_input_guardrails:
        refused = await guard_call(driver, path, state, tool, args)
        if refused is not None:
            journal.add(refused)
            return
    if isinstance(tool, Handoff):
        check_filter(driver, path, tool)
    hooked = not isinstance(tool, Handoff) and driver.audience.wants(agent)
    if hooked:
        await driver.audience.tell(driver.ctx, "tool_start", agent, tool)
    if driver.stopped(path):  # meanwhile
        return
    if isinstance(tool, AgentTool):
        await open_branch(driver, path, state, tool, args)
        return
    body, ctx = context_of(driver, path, state, tool, args)
    journal.add(f.Started(call, state.attempt + 1, at=journal.now(), path=path))
    work = _entered(driver, path, state, tool, body, ctx, bound)
    observer = driver.observer
    given = await (work if observer is None else observer.enter(path, state, tool, args, work))
    if isinstance(tool, Handoff) and type(state.outcome) is f.HandedOff:
        await driver.audience.tell(driver.ctx, "handoff", agent, tool.agent)
    if hooked and given is not None:
        await driver.audience.tell(driver.ctx, "tool_end", agent, tool, given[0])


def _arguments(driver: Driver, path: Path, state: CallState, tool: Tool) -> tuple[dict[str, Any], Any]:
    """The arguments that run, and the same as the body takes them; or `InvalidArguments`."""
    read = driver.read.pop((path, state.call.id), None)
    if read is not None and read.value is not None:
        return read.value, read.bound
    args = tool.canonical(effective(state))
    return args, tool.bind(args)


async def _entered(
    driver: Driver, path: Path, state: CallState, tool: Tool, body: Body, ctx: ToolContext[Any], bound: Any
) -> tuple[Any] | None:
    """Enter the body and record how it ended; what it gave, unless it asks."""
    journal, call = driver.journal, state.call.id
    try:
        value = await tool.invoke(ctx, bound)
        if isinstance(tool, Handoff) and body.pending is None and body.mismatch is None:
            return (hand_over(driver, path, state, tool, await filtered(driver, path, state, tool)),)
    except BaseException as error:
        if body.mismatch is None and body.pending is None:
            return (await _failed(driver, path, state, tool, ctx, error),)
        value = None  # it left with `Paused`, as itself or inside whatever the body made of it
    if body.mismatch is not None:
        raise body.mismatch
    if body.pending is not None:  # whatever the body did with `Paused`, it asked and has no answer
        await body.settle()
        journal.add(body.pending)
        return None
    by = "tool"
    if tool.tool_output_guardrails:
        value, by = await _guarded(driver, path, state, tool, body.args, value)
    output, note = output_json(value)
    driver.outputs[path, call] = value
    journal.add(f.Finished(call, output, by, note=note, at=journal.now(), path=path))
    return (value,)


async def _guarded(
    driver: Driver, path: Path, state: CallState, tool: Tool, args: dict[str, Any], value: Any
) -> tuple[Any, str]:
    """What the guardrails let through. The body has run: whatever they do, the call has its outcome."""
    try:
        return await guard_result(driver, path, state, tool, args, value)
    except Exception as error:
        what = "was held back by a guardrail" if isinstance(error, TripwireTriggered) else "could not be checked"
        output = output_json(f"The tool ran, and its output {what}.")[0]
        kind = type(error).__name__
        now = driver.journal.now()
        driver.journal.add(f.Finished(state.call.id, output, error=kind, at=now, path=path))
        raise


def check_digest(driver: Driver, path: Path, state: CallState, tool: Tool, args: dict[str, Any]) -> None:
    """What was approved by a person is bound to a digest; what runs must have the same."""
    if state.digest is None:
        return
    definitions = [tool.fingerprint]
    if tool.fingerprint == state.fingerprint and state.chosen is None:  # changed, and accepted so
        definitions.append(state.call.definition or "")
    run, shown = driver.journal.run, effective(state)
    same = state.digest in [action_digest(run, path, state, tool.name, mark, shown) for mark in definitions]
    if not same or (len(definitions) == 1 and args != shown):
        raise DigestMismatch(f"The call of {tool.name!r} is not the one that was approved; it did not run.")


async def _failed(
    driver: Driver, path: Path, state: CallState, tool: Tool, ctx: ToolContext[Any], error: BaseException
) -> str:
    """Record a body's exception as the call's outcome; then raise it, if the tool says so."""
    if not isinstance(error, Exception):
        if driver.stopping() or not isinstance(error, asyncio.CancelledError | BaseExceptionGroup):
            raise error  # the run is being stopped: how the body ended is not known
        error = RuntimeError(f"the tool was cancelled from within ({worded(error)})")
    return await record_failure(driver, path, state, tool, ctx, error)
