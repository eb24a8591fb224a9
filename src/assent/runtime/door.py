"""The door: the one function that enters a tool's body, of any kind.

Before the body: what is about to run is what was approved, or nothing runs; then `Started`. After
it: `Finished`, or a question of the body's own. Nothing else in Assent calls `Tool.invoke`.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from ..approval.question import action_digest, effective
from ..context import ToolContext
from ..core import facts as f
from ..core.digest import BadJSON, worded
from ..core.run import CallState
from ..core.transcript import provider_id
from ..errors import DefinitionChanged, DigestMismatch, InvalidArguments
from ..tools.tool import Tool, default_tool_error_function
from .asking import Body
from .value import output_json

if TYPE_CHECKING:
    from .driver import Driver


async def enter(driver: Driver, path: tuple[str, ...], state: CallState) -> None:
    """Run an approved call and record how it ended."""
    journal, call = driver.journal, state.call.id
    tool = driver.tool_for(state, state.tool)
    if tool is None:
        raise DefinitionChanged(f"Tool {state.tool!r} was approved and was never offered; the call did not run.")
    read = driver.read.pop((path, call), None)
    try:
        if read is not None and read.value is not None:
            args, bound = read.value, read.bound
        else:
            args = tool.canonical(effective(state))
            bound = tool.bind(args)
        if state.chosen is not None and not await driver.enabled(tool):
            raise InvalidArguments(f"the tool {tool.name!r} is disabled")
    except (BadJSON, InvalidArguments) as error:
        journal.add(
            f.Refused(call, "runtime", why=f"the arguments do not fit the tool: {error}", at=journal.now(), path=path)
        )
        return
    _check_digest(driver, path, state, tool, args)
    body = Body(journal, path, state, args)
    ctx: ToolContext[Any] = ToolContext(
        driver.ctx.context,
        driver,
        body,
        driver.agent,
        tool.name,
        provider_id(state),
    )
    journal.add(f.Started(call, state.attempt + 1, at=journal.now(), path=path))
    try:
        value = await tool.invoke(ctx, bound)
    except BaseException as error:
        if body.mismatch is None and body.pending is None:
            await _failed(driver, path, state, tool, ctx, error)
            return
        value = None  # it left with `Paused`, as itself or inside whatever the body made of it
    if body.mismatch is not None:
        raise body.mismatch
    if body.pending is not None:  # whatever the body did with `Paused`, it asked and has no answer
        journal.add(body.pending)
        return
    output, note = output_json(value)
    driver.outputs[path, call] = value
    journal.add(f.Finished(call, output, note=note, at=journal.now(), path=path))


def _check_digest(driver: Driver, path: tuple[str, ...], state: CallState, tool: Tool, args: dict[str, Any]) -> None:
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
    driver: Driver, path: tuple[str, ...], state: CallState, tool: Tool, ctx: ToolContext[Any], error: BaseException
) -> None:
    """Record a body's exception as the call's outcome; then raise it, if the tool says so."""
    if not isinstance(error, Exception):
        if driver.stopping() or not isinstance(error, asyncio.CancelledError | BaseExceptionGroup):
            raise error  # the run is being stopped: how the body ended is not known
        error = RuntimeError(f"the tool was cancelled from within ({worded(error)})")
    raised: Exception | None = None
    text = default_tool_error_function(ctx, error)
    if tool.failure_error_function is None:
        raised = error
    else:
        try:
            told = tool.failure_error_function(ctx, error)
            text = str(await told if inspect.isawaitable(told) else told)
        except Exception as failure:
            raised = failure
    output, note = output_json(text)
    kind = type(error).__name__
    driver.journal.add(f.Finished(state.call.id, output, error=kind, note=note, at=driver.journal.now(), path=path))
    if raised is not None:
        raise raised
