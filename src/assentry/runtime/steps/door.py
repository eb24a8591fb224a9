"""The door: the one function that enters a tool's body, of any kind.

Before the body, the door checks that the call is the one that was approved, runs the tool's input guardrails, tells
hooks, and records `Started`. Once `Started` is stored it looks a last time at what was shown, and enters the body with
nothing awaited in between. If a check fails, nothing runs. After the body, the door records `Finished`, or the body's
question. An agent call has no body: the door opens a branch for it.

`Tool.enter` is called in this module and nowhere else in Assentry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import Raw

from ...approval.decide import edited_arguments
from ...approval.decision import Approve, Decision, Edit, Reject, Respond
from ...approval.gate import Case, judge, read_arguments
from ...approval.question import action_digest, added_to, effective, limit_of
from ...core import facts as f
from ...core.digest import BadJSON, canonical, plain
from ...core.rules import ASKED
from ...core.run import CallState
from ...core.wording import shortened, worded
from ...definitions.agent import Agent
from ...definitions.agent_tool import AgentTool
from ...definitions.content import tool_output_parts
from ...definitions.context import RunContextWrapper, ToolContext
from ...definitions.handoff import Handoff
from ...definitions.tool import Tool
from ...errors import (
    Conflict,
    DefinitionChanged,
    DigestMismatch,
    IllegalFact,
    InvalidArguments,
    NotAsShown,
    OutcomeUnknown,
    TripwireTriggered,
)
from ..agent_graph import PlacedAgent
from ..definition import resolve
from ..layer import ToolLayer
from ..scope import Scope, scope_of
from ..tool_context import HookBody, ReplacementContext, context_of, finished, is_fault, record_failure
from ..tool_pause import HERE, Body, Paused
from ..value import output_json
from .approval import standing_for
from .branch import open_branch
from .guardrail import guard_call, guard_result, tripwire
from .handoff import check_filter, filter_history, hand_over
from .model_call import is_tool_enabled
from .recheck import NOTHING_NEW, Again, is_stale, look_at_tool, look_at_world, look_last, question_anew
from .recovery import settle_now

Path = tuple[str, ...]


async def execute(scope: Scope, effect: f.Execute) -> None:
    """Run a call through the door, once `max_parallel_tools` allows it."""
    slots = scope.tasks.slots
    if slots is None:
        await enter(scope, effect.path, scope.state_of(effect))
    else:
        async with slots:
            await enter(scope, effect.path, scope.state_of(effect))


async def enter(scope: Scope, path: Path, state: CallState) -> None:
    """Run an approved call and record its outcome."""
    journal, call = scope.journal, state.call.id
    placed = scope.graph.of(state)
    if again := await look_at_tool(scope, path, state):
        _ask_again(scope, path, again)
        return
    agent, tool = placed.agent, _approved_tool(state, placed)
    try:
        shown, args, bound = _arguments(scope, path, state, tool)
        if state.chosen is not None and not await is_tool_enabled(scope, tool, agent):
            raise InvalidArguments(f"the tool {tool.name!r} is disabled")
    except (BadJSON, InvalidArguments) as error:
        journal.add(
            f.Refused(call, "runtime", why=f"the arguments do not fit the tool: {error}", at=journal.now(), path=path)
        )
        return
    check_digest(scope, path, state, tool, shown, args)
    if await _keeps_out(scope, path, state, tool, args):
        return
    hooked, waited = await _tell_start(scope, path, state, tool, args, agent)
    if scope.tasks.stopped(path):  # while guardrails and hooks ran
        return
    given = None
    if isinstance(tool, AgentTool):
        again = await look_last(scope, path, state) if waited else ()
        if not again:
            await open_branch(scope, path, state, tool, args)
            return
        _ask_again(scope, path, again)
    elif await _start(scope, path, state, tool, waited=waited):
        body, ctx = context_of(scope, path, state, tool, args)
        work = _run_body(scope, path, state, tool, body, ctx, bound)
        observer = scope.hooks.observer
        given = await (work if observer is None else observer.enter(path, state, tool, args, work))
        _raise_tripwire(scope, path)
    if hooked is not None:
        await _tell_end(scope, hooked, state, tool, agent, given)


async def _tell_start(
    scope: Scope, path: Path, state: CallState, tool: Tool, args: dict[str, Any], agent: Agent[Any]
) -> tuple[RunContextWrapper[Any] | None, bool]:
    """Tell hooks and the observer of a call; return the hooks' context, and True if anything was waited for."""
    hooked: RunContextWrapper[Any] | None = None
    if isinstance(tool, Handoff):
        check_filter(scope, path, tool)
        hooked = scope.ctx
    elif scope.hooks.wants(agent):
        _, hooked = context_of(scope, path, state, tool, args, HookBody)
        await scope.hooks.tell(hooked, "tool_start", agent, tool)
    observer, waited = scope.hooks.observer, hooked is not None
    if observer is not None and not isinstance(tool, ToolLayer):  # of a layer's body, `run_inside` tells
        waited = await observer.before_body(path, state, tool, args) or waited
    return hooked, waited


async def _keeps_out(scope: Scope, path: Path, state: CallState, tool: Tool, args: dict[str, Any]) -> bool:
    """Return True if a guardrail refuses the call, or the person is asked again because the world has moved.

    The world is looked at last: a guardrail may take its time. Raise `AgentStopped` if a stop ended the last drive and
    still holds, so that guardrails and hooks do not run again and again for a call that cannot begin.
    """
    if scope.journal.writer is not None and not isinstance(tool, AgentTool):
        await scope.journal.writer.check_stops(path, state.call.id)
    if tool.tool_input_guardrails:
        await scope.journal.own()
        refused = await guard_call(scope, path, state, tool, args)
        if refused is not None:
            scope.journal.add(refused)
            return True
    again = await look_at_world(scope, path, state)
    if again:
        _ask_again(scope, path, again)
    return bool(again)


def _ask_again(scope: Scope, path: Path, again: Again) -> None:
    """Record the question about a call that is not what was shown, unless the run was stopped meanwhile."""
    if again and not scope.tasks.stopped(path):
        scope.journal.append(again)


def _approved_tool(state: CallState, placed: PlacedAgent) -> Tool:
    """Return the tool of an approved call, or raise `DefinitionChanged` if it is not what it was."""
    tool = resolve(state, placed.tool_of(state))
    if tool is None:
        raise DefinitionChanged(f"Tool {state.tool!r} was approved and was never offered; the call did not run.")
    return tool


def _raise_tripwire(scope: Scope, path: Path) -> None:
    """Raise the tripwire of a call that ran in the body's place, whatever the code around that call made of it."""
    stop = tripwire(scope, path) if path in scope.tasks.tripped else None
    if stop is not None:
        raise stop


async def _tell_end(
    scope: Scope,
    ctx: RunContextWrapper[Any],
    state: CallState,
    tool: Tool,
    agent: Agent[Any],
    given: tuple[Any] | None,
) -> None:
    """Tell hooks of the end of a call, also if it was asked about again in place of its body."""
    if isinstance(tool, Handoff):
        if type(state.outcome) is f.HandedOff:
            await scope.hooks.tell(ctx, "handoff", agent, tool.agent)
    elif given is not None:
        await scope.hooks.tell(ctx, "tool_end", agent, tool, given[0])
    elif state.phase is ASKED and state.question is not None and state.question.kind == "approval":
        await scope.hooks.tell(ctx, "tool_end", agent, tool, state.question.why)


async def _start(scope: Scope, path: Path, state: CallState, tool: Tool, *, waited: bool) -> bool:
    """Store `Started`, look a last time at what was shown, and return True if the body may be entered.

    The caller enters it with nothing awaited in between. If it may not be entered, record that the attempt came to
    nothing, and ask again if something differs. There is nothing to look at if nothing was waited for.
    """
    journal = scope.journal
    journal.add(f.Started(state.call.id, state.attempt + 1, journal.fence, at=journal.now(), path=path))
    if journal.writer is None and not waited:
        return True
    attempt, fence, enters, again = state.attempt, state.fence, False, NOTHING_NEW
    try:
        if journal.writer is not None:
            await journal.writer.flush()
        if not scope.tasks.stopped(path):  # during the write
            # with code around the body, which may wait, `run_inside` looks
            again = await look_last(scope, path, state) if not isinstance(tool, ToolLayer) else NOTHING_NEW
            enters = not again and not scope.tasks.stopped(path)
        return enters
    finally:
        if not enters:
            with suppress(IllegalFact):  # others may have closed the branch, or begun the call under another lease
                journal.add(f.Left(state.call.id, attempt, fence=fence, at=journal.now(), path=path))
                _ask_again(scope, path, again)


def _arguments(scope: Scope, path: Path, state: CallState, tool: Tool) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return the approved arguments, the arguments that run, and those as the body takes them.

    Raise `InvalidArguments` if they do not fit the tool, or if the changed tool would add to them.
    """
    read = scope.arguments.pop((path, state.call.id), None)
    if read is not None and read.value is not None:
        return read.value, read.value, read.bound
    shown = effective(state)
    if (state.digest is None or is_accepted(state, tool)) and (added := added_to(state, tool, shown)):
        names = ", ".join(added)
        raise InvalidArguments(f"it has changed, and would fill in what nobody has agreed to: {shortened(names)}")
    args = tool.canonical(shown)
    return shown, args, tool.bind(args)


async def _run_body(
    scope: Scope, path: Path, state: CallState, tool: Tool, body: Body, ctx: ToolContext[Any], bound: Any
) -> tuple[Any] | None:
    """Enter the body, record its outcome, and return its value in a tuple; None if the body asks."""
    journal, call = scope.journal, state.call.id
    HERE.set(body)  # never reset: each body runs in its own task, with its own context variables
    body.entered = True
    try:
        work = tool.enter(ctx, bound)
        if scope.hooks.observer is not None and not isinstance(tool, ToolLayer):
            work = scope.hooks.observer.body(path, state, work)
        value = await _or_ask_again(scope, body, work)
        if isinstance(tool, Handoff) and body.pending is None and body.mismatch is None:
            return (hand_over(scope, path, state, tool, await filter_history(scope, path, state, tool)),)
    except BaseException as error:
        if body.mismatch is None and body.pending is None:
            if isinstance(error, OutcomeUnknown) or (body.unknown and isinstance(error, Exception)):
                await _in_doubt(scope, path, state, tool, body, error)
                return None
            return (await _record_failed_body(scope, path, state, tool, ctx, error),)
        value = None  # the body was left by `Paused`, or by an exception that it made of `Paused`
    finally:
        body.entered = False
    if body.mismatch is not None:
        raise body.mismatch
    if body.pending is not None:  # even if the body caught `Paused`, its question has no answer
        await body.await_steps()
        for fact in body.pending:
            journal.add(fact)
        return None
    if body.unknown:
        await _in_doubt(scope, path, state, tool, body)
        return None
    given = value if type(value) is BodyOutput else BodyOutput(value)
    value, by, failed = given.value, "tool", "Failure" if given.failed else None
    if tool.tool_output_guardrails:
        value, by = await _guard_output(scope, path, state, tool, body.args, value)
    parts = tool_output_parts(value)
    output, note = output_json(tool.told(value) if parts is None else parts)
    scope.outputs[path, call] = value
    more = given.more if value is given.value else f.NOTHING  # a guardrail has put another value in its place
    fields = {"error": failed, "note": note, "parts": parts is not None, "update": given.update, "more": more}
    journal.add(finished(scope, path, state, output, by, **fields))
    if given.said:
        journal.add(f.Said(given.said, f"tool:{tool.name}", at=journal.now(), path=path))
    return (value,)


async def _or_ask_again(scope: Scope, body: Body, work: Awaitable[Any]) -> Any:
    """Return the value of a body; if it finds that something is not as it was shown, have a person asked again."""
    try:
        return await work
    except NotAsShown as error:
        if body.pending is None:
            path, state = body.path, body.state
            what = f"What was shown has changed since it was approved, and it did not run. {error}"
            again = await look_last(scope, path, state) or await question_anew(scope, path, state, what)
            _leave(body, again, "tool")
        raise Paused from error


def _leave(body: Body, again: Again, by: str) -> None:
    """Have the attempt left without a result once its body is left, and the person asked again."""
    state, now = body.state, body.journal.now()
    left = f.Left(state.call.id, state.attempt, by, state.fence, at=now, path=body.path)
    body.pending = (left, *again)


async def _in_doubt(
    scope: Scope, path: Path, state: CallState, tool: Tool, body: Body, error: Exception | None = None
) -> None:
    """Settle a call whose body cannot tell its outcome, whatever the code around the body made of that.

    A fault of the program is raised afterwards.
    """
    told = dict.fromkeys(map(str, body.unknown.values() or (error,)))
    await settle_now(scope, path, state, tool, " ".join(told))
    if error is not None and is_fault(error, body):
        raise error


async def _guard_output(
    scope: Scope, path: Path, state: CallState, tool: Tool, args: dict[str, Any], value: Any
) -> tuple[Any, str]:
    """Return the value that the output guardrails let through, and its author.

    If a guardrail raises, record the call's outcome first, because the body has run.
    """
    try:
        return await guard_result(scope, path, state, tool, args, value)
    except Exception as error:
        what = "was held back by a guardrail" if isinstance(error, TripwireTriggered) else "could not be checked"
        output = output_json(f"The tool ran, and its output {what}.")[0]
        scope.journal.add(finished(scope, path, state, output, error=type(error).__name__))
        raise


def is_accepted(state: CallState, tool: Tool) -> bool:
    """Return True if the tool changed while the call waited, and the change was accepted."""
    return tool.fingerprint == state.fingerprint and state.chosen is None


def check_digest(
    scope: Scope, path: Path, state: CallState, tool: Tool, shown: dict[str, Any], args: dict[str, Any]
) -> None:
    """Raise `DigestMismatch` unless the call that is about to run is the one that a person was shown and approved."""
    if state.digest is None:
        return
    run = scope.journal.run
    same = state.digest == action_digest(run, path, state, tool.name, tool.fingerprint, shown, state.preview)
    if is_accepted(state, tool):
        was = state.call.definition or ""
        same = same or state.digest == action_digest(run, path, state, tool.name, was, shown, state.preview)
    if not same or canonical(args) != canonical(shown):
        raise DigestMismatch(f"The call of {tool.name!r} is not the one that was approved; it did not run.")


async def _record_failed_body(
    scope: Scope, path: Path, state: CallState, tool: Tool, ctx: ToolContext[Any], error: BaseException
) -> str:
    """Record a body's exception as the call's outcome and return the text for the model; see `record_failure`."""
    if not isinstance(error, Exception):
        if scope.tasks.stopping() or not isinstance(error, asyncio.CancelledError | BaseExceptionGroup):
            raise error  # the run is being stopped, so the outcome of the body is not known
        error = RuntimeError(f"the tool was cancelled from within ({worded(error)})")
    return await record_failure(scope, path, state, tool, ctx, error)


# -- code around a body ----------------------------------------------------------------------------


class BodyOutput(NamedTuple):
    """The output of a body with what the code around it adds."""

    value: Any
    """The output itself, for the model."""
    failed: bool = False
    """True if the body reports its own failure; the value is a text about it."""
    update: Raw = f.NOTHING
    """Updates of the thread's state; see `Finished.update`."""
    more: Raw = f.NOTHING
    """Fields of the output's message that the model does not get; see `Finished.more`."""
    said: Raw = f.NOTHING
    """Further input that the body adds to the conversation, after the outputs of the turn."""


class NotRun(Exception):
    """A replacement call, made by the code around a body, did not run; the text says why."""


async def run_inside(ctx: ToolContext[Any], tool: Tool, bound: Any) -> Any:
    """Enter the body of the call under way, for the code around the body.

    Raise `DefinitionChanged` if the tool is not the one that the door has checked.
    """
    scope, body = _under_way(ctx)
    layer = scope.tool_for(body.state)
    if not isinstance(layer, ToolLayer) or layer.inner is not tool:
        raise DefinitionChanged(f"Tool {tool.name!r} is not the one whose call was let in; it did not run.")
    await _tell_of_body(scope, body, tool, body.args)
    again = await look_last(scope, body.path, body.state)  # the code around the body may have waited
    if again and body.pending is None:
        _leave(body, again, "tool" if body.tried else "runtime")
    if body.pending is not None:  # set here, or by another handler of the same call
        raise Paused
    if not body.entered or scope.tasks.stopped(body.path):
        raise Conflict("The run was stopped before the tool could be entered.")
    return await _or_ask_again(scope, body, _run(scope, body, tool, ctx, bound))


async def _tell_of_body(scope: Scope, body: Body, tool: Tool, args: dict[str, Any]) -> None:
    """Tell the observer that the code around a body is about to enter it; what the observer raises ends the run."""
    if scope.hooks.observer is not None:
        try:
            await scope.hooks.observer.before_body(body.path, body.state, tool, args)
        except Exception as error:
            body.fault = error
            raise


async def _run(scope: Scope, body: Body, tool: Tool, ctx: ToolContext[Any], bound: Any) -> Any:
    """Enter a body for the code around it, and note the outcome, in case that code loses it."""
    body.tried, observer = True, scope.hooks.observer
    try:
        work = tool.enter(ctx, bound)
        value = await (work if observer is None else observer.body(body.path, body.state, work))
    except NotAsShown:
        raise
    except Exception as error:
        body.raised = error
        if isinstance(error, OutcomeUnknown):
            body.unknown[tool.name] = error
        raise
    body.ran = True
    body.unknown.pop(tool.name, None)  # an idempotent tool, which may run again
    return value


def _under_way(ctx: ToolContext[Any]) -> tuple[Scope, Body]:
    """Return the scope and the body of a context; raise `Conflict` unless the body is running."""
    body: Body = ctx._asking  # type: ignore[assignment]
    if not body.entered:
        raise Conflict(f"Nothing can run in this call of {ctx.tool_name!r}: it has not begun, or is over.")
    return scope_of(ctx), body


async def run_instead(
    ctx: ToolContext[Any], tool: Tool, given: dict[str, Any], decide: Callable[[f.Asked, dict[str, Any]], Decision]
) -> Any:
    """Run another tool, or the same tool with other arguments, in place of the call under way.

    The replacement is judged like any other call, by its own rule and with its canonical arguments. If a person must
    be asked, `decide` asks through the body. The replacement passes its own guardrails, and is recorded in the journal
    before it is entered. Raise `NotRun` if it is not entered; a person's answer in its place is returned.
    """
    scope, body = _under_way(ctx)
    path, state = body.path, body.state
    if tool.kind != "tool":
        raise NotRun(f"{tool.name!r} cannot run in the place of another call.")
    try:
        args, by_person = await _judge_instead(scope, ctx, body, tool, given, decide)
        bound = tool.bind(args)
    except (InvalidArguments, BadJSON) as error:
        raise NotRun(str(error)) from None
    except AnsweredInstead as answer:
        return answer.value
    if tool.tool_input_guardrails:
        refused = await guard_call(scope, path, state, tool, args)
        if refused is not None:
            raise NotRun(refused.message or "A guardrail stopped this call.")
    if scope.tasks.stopped(path):
        raise Conflict("The run was stopped before the tool could be entered.")
    await _tell_of_body(scope, body, tool, args)
    what = {"tool": tool.name, "arguments": args, **({"edited": True} if by_person else {})}
    journal, ran = scope.journal, Raw(canonical(what))
    journal.add(f.Stepped(state.call.id, f.REPLACEMENT, ran, len(state.steps), at=journal.now(), path=path))
    if journal.writer is not None:
        await journal.writer.flush()
    await _check_server(scope, tool)  # nothing is awaited between this look and the body
    if body.pending is not None:
        raise Paused
    if scope.tasks.stopped(path):
        raise Conflict("The run was stopped before the tool could be entered.")
    try:
        value = await _run(scope, body, tool, ReplacementContext(ctx, tool.name, args), bound)
    except NotAsShown as error:
        raise NotRun(f"{error} The call did not run.") from error
    if tool.tool_output_guardrails:
        value, _ = await guard_result(scope, path, state, tool, args, value)
    return value


async def _judge_instead(
    scope: Scope,
    ctx: ToolContext[Any],
    body: Body,
    tool: Tool,
    given: dict[str, Any],
    decide: Callable[[f.Asked, dict[str, Any]], Decision],
) -> tuple[dict[str, Any], bool]:
    """Return the arguments that may run, and True if a person edited them.

    Raise `NotRun` if the call is refused, and `AnsweredInstead` if a person answered in its place.
    """
    limit = limit_of(scope.journal.run)
    read = read_arguments(tool, canonical(plain(given)).decode(), limit)
    state = body.state
    stops = tuple(grant for grant in await standing_for(scope, [(state, tool)]) if grant.verdict == "reject")
    run, now = scope.journal.run, scope.journal.now()
    case = Case(run, body.path, state, tool, read, ctx.agent, scope.ctx, now, replaces=True, standing=stops)
    verdict = await judge(case)
    if type(verdict) is f.Refused:
        raise NotRun(verdict.message or f"The call did not run: {verdict.why}.")
    if type(verdict) is not f.Asked:
        return read.value or {}, False
    decision = decide(verdict, read.value or {})
    await _check_server(scope, tool)
    if type(decision) is Edit:
        return edited_arguments(tool, decision, limit), True
    if type(decision) is Respond:
        raise AnsweredInstead(decision.output)
    if type(decision) is not Approve or read.problem is not None:
        words = decision.message if type(decision) is Reject else None
        own = ctx.agent.rejection_text(tool.name, ctx.call_id, words)
        raise NotRun(own or words or "The call was not approved and did not run.")
    return read.value or {}, False


async def _check_server(scope: Scope, tool: Tool) -> None:
    """Raise `NotRun` if the server of a replacement call's tool has changed the tool, or no longer has it."""
    if tool.source is not None:
        await scope.servers.renew(tool.source)
        if is_stale(tool):
            what = f"The server {tool.server!r} has changed its tool {tool.name!r}, or has it no more"
            raise NotRun(f"{what}; the call did not run.")


class AnsweredInstead(Exception):
    """A person has answered in place of a replacement call."""

    def __init__(self, value: Any) -> None:
        super().__init__("A person has answered in the tool's place.")
        self.value = value
