"""The approval step: puts calls before the gate, and settles the words that tell the model of a refusal."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from msgspec.structs import replace

from ...approval.decision import OURS
from ...approval.gate import Case, Judgement, judge, read_arguments
from ...approval.question import limit_of, possible_effects
from ...approval.standing import StandingGrant
from ...core import facts as f
from ...core.run import CallState
from ...core.transcript import provider_id
from ...core.wording import clean_text
from ...definitions.tool import Tool
from ...errors import ToolNotFound
from ..agent_graph import PlacedAgent
from ..config import RunConfig, ToolErrorFormatterArgs
from ..definition import resolve
from ..scope import Scope
from .guardrail import guard_call
from .recovery import settle as settle

NOT_APPROVED = "The call was not approved and did not run."

log = logging.getLogger("assentry")


async def judge_one(scope: Scope, effect: f.Judge) -> None:
    """Let the gate judge this call, and record its verdict."""
    standing = await _standing_of(scope, [effect])
    case = _case(scope, effect, standing)
    fact = await _verdict(scope, case)
    if fact is not None:
        scope.journal.add(fact)
        _follow_up(scope, case, fact)
        if _is_counted(standing, fact) and scope.journal.writer is not None:
            await scope.journal.writer.flush()  # the store counts the use before the next call is judged


async def judge_all(scope: Scope, effects: list[f.Judge]) -> None:
    """Let the gate judge these calls concurrently, and record the verdicts together."""
    try:
        standing = await _standing_of(scope, effects)
        limited = any(grant.max_uses is not None for grant in standing)
        if limited or (
            len(effects) > 1 and any(grant.max_uses is not None for grant in scope.journal.run.grants.values())
        ):
            for effect in effects:  # a call may use up a grant that the next call needs
                await judge_one(scope, effect)
            return
        cases = [_case(scope, effect, standing) for effect in effects]
        if len(cases) > 1 and any(takes_time(case, scope.config) for case in cases):
            verdicts = await all_of(_verdict(scope, case) for case in cases)  # run slow rules concurrently
        else:
            verdicts = [await _verdict(scope, case) for case in cases]
        judged = [(case, fact) for case, fact in zip(cases, verdicts, strict=True) if fact is not None]
        scope.journal.append([fact for _, fact in judged])
        for case, fact in judged:
            _follow_up(scope, case, fact)
    except Exception as error:
        scope.tasks.fail(effects[0].path, error)


async def _standing_of(scope: Scope, effects: list[f.Judge]) -> tuple[StandingGrant, ...]:
    """Return the standing grants that may cover these calls.

    If there are any, the run is stored and its lease held on return, so that the store can count a use.
    """
    states = [scope.state_of(effect) for effect in effects]
    found = await standing_for(scope, [(state, scope.graph.of(state).tool_of(state)) for state in states])
    if found:
        await scope.journal.own(new=True)
    return found


async def standing_for(scope: Scope, calls: list[tuple[CallState, Tool | None]]) -> tuple[StandingGrant, ...]:
    """Return the store's grants over all runs that may cover these calls of tools, as they are now.

    They are read each time: a grant that was revoked decides nothing from then on. A tool that needs no approval is not
    looked up.
    """
    writer = scope.journal.writer
    if writer is None or not writer.counts_uses:
        return ()
    wanted: dict[str, set[str]] = {}
    for state, tool in calls:
        if tool is not None and tool.needs_approval is not False and state.call.kind in ("tool", "agent"):
            wanted.setdefault(tool.name, set()).add(state.turn.agent)
    if not wanted:
        return ()
    found = await writer.store.grants_for(list(wanted))
    return tuple(grant for grant in found if grant.agent in wanted.get(grant.tool, ()))


def _is_counted(standing: tuple[StandingGrant, ...], fact: Judgement) -> bool:
    """Return True if the verdict is by a standing grant that decides a limited number of calls."""
    by = "" if isinstance(fact, f.Asked) else fact.by
    return any(grant.max_uses is not None and by == f"grant:{grant.id}" for grant in standing)


def _verdict(scope: Scope, case: Case) -> Coroutine[Any, Any, Judgement | None]:
    """Return the verdict on a case; None if a guardrail that runs before the gate has failed."""
    return _guard_and_judge(scope, case) if early(case, scope.config) else judge(case)


async def _guard_and_judge(scope: Scope, case: Case) -> Judgement | None:
    """Run the tool's input guardrails, then return the verdict on the case; None if a guardrail failed."""
    tool, args = case.tool, case.args
    if tool is not None and args is not None and args.value is not None:
        try:
            refused = await guard_call(scope, case.path, case.state, tool, args.value)
        except Exception as error:
            scope.tasks.fail(case.path, error)
            return None
        if refused is not None:
            return refused
        case = replace(case, at=scope.journal.now())  # a grant may have ended while the guardrails ran
    return await judge(case)


def _case(scope: Scope, effect: f.Judge, standing: tuple[StandingGrant, ...] = ()) -> Case:
    root = scope.journal.run
    state = scope.state_of(effect)
    placed = scope.graph.of(state)
    tool = _find_offered_tool(scope, effect.path, state, placed)
    args = read_arguments(tool, state.proposal.arguments, limit_of(root)) if tool is not None else None
    now, limit = scope.journal.now(), scope.config.question_deadline
    return Case(root, effect.path, state, tool, args, placed.agent, scope.ctx, now, limit, standing=standing)


def _find_offered_tool(scope: Scope, path: tuple[str, ...], state: CallState, placed: PlacedAgent) -> Tool | None:
    """Return the tool that a call was offered; if a server has changed it since, as it is now."""
    tool, accepted = placed.tool_of(state), state.fingerprint or state.call.definition
    if accepted is None or not placed.is_served(state, tool):
        return resolve(state, tool)
    if tool is not None and tool.fingerprint != accepted:
        now = scope.journal.now()
        scope.journal.add(f.Redefined(state.call.id, tool.fingerprint, f"server:{tool.server}", at=now, path=path))
    return tool


def _follow_up(scope: Scope, case: Case, fact: Judgement) -> None:
    """Keep the arguments of an approved call for the door, and raise `ToolNotFound` if the settings say so."""
    if type(fact) is f.Approved and fact.digest is None and case.args is not None:
        scope.arguments[fact.path, fact.call] = case.args
    elif type(fact) is f.Refused and fact.why == "tool_not_found" and scope.config.tool_not_found == "raise":
        name = case.state.tool
        raise ToolNotFound(f"The model called the tool {name!r}, which agent {case.agent.name!r} does not have.")


async def tell(scope: Scope, effect: f.Tell) -> None:
    """Settle the text that tells the model of a refusal."""
    state = scope.state_of(effect)
    refused = state.outcome
    text = None
    silent = state.words is None or (state.call.kind == "output" and not state.words)  # the model would hear nothing
    if isinstance(refused, f.Refused):
        text = _agent_words(scope, state, refused)
        if silent:
            text = await _refusal_words(scope, state, refused, text)
    scope.journal.add(f.Told(state.call.id, text, path=effect.path))


def _agent_words(scope: Scope, state: CallState, refused: f.Refused) -> str | None:
    """Return the agent's own text about a call that a person rejected before it began; None if it has none."""
    asked, by_person = state.question, refused.by.partition(":")[0] not in OURS
    if not by_person or asked is None or asked.id != refused.asked or asked.kind != "approval" or state.begun:
        return None
    if state.call.kind not in ("tool", "agent"):
        return None
    return scope.graph.of(state).agent.rejection_text(state.tool, provider_id(state), state.words)


async def _refusal_words(scope: Scope, state: CallState, refused: f.Refused, own: str | None) -> str:
    kind, default = refusal_text(state, refused)
    default = own or default
    formatter = scope.config.tool_error_formatter
    if formatter is None:
        return default
    call_id = provider_id(state)
    try:
        text = formatter(ToolErrorFormatterArgs(kind, state.tool, call_id, default, refused.by, scope.ctx))
        text = await text if inspect.isawaitable(text) else text
        if text is None:
            return default
        if type(text) is str:
            return clean_text(text)[0]
        log.warning("tool_error_formatter gave %.80r, not text; the default text is used", text)
    except Exception:
        log.warning("tool_error_formatter failed; the default text is used", exc_info=True)
    return default


async def all_of(work: Iterable[Coroutine[Any, Any, Judgement | None]]) -> list[Judgement | None]:
    """Wait for all coroutines, then return their results or raise the first exception; nothing is left running."""
    given = await asyncio.gather(*work, return_exceptions=True)
    for each in given:
        if isinstance(each, BaseException):
            raise each
    return given  # type: ignore[return-value]


def takes_time(case: Case, config: RunConfig) -> bool:
    """Return True if judging the case may run user code."""
    tool = case.tool
    if tool is None:
        return False
    slow = tool.on_approval is not None or tool.preview is not None
    return slow or early(case, config) or type(tool.needs_approval) is not bool


def early(case: Case, config: RunConfig) -> bool:
    """Return True if the tool's input guardrails run before a person is asked about the case."""
    tool, args = case.tool, case.args
    if not config.pre_approval_tool_input_guardrails or tool is None or not tool.tool_input_guardrails:
        return False
    return tool.needs_approval is not False and args is not None and args.problem is None


def refusal_text(state: CallState, refused: f.Refused) -> tuple[Any, str]:
    """Return the kind of the refusal, and its default text."""
    if refused.why == "tool_not_found" and refused.by == "runtime":
        return "tool_not_found", f"There is no tool named {state.tool!r}. The call did not run."
    done = possible_effects(state, refused.asked)
    if refused.by == "runtime":
        how = f"The call was given up: {refused.why}. {done}" if done else f"The call did not run: {refused.why}."
        return "invalid_arguments", how
    if state.call.kind == "output":
        return "approval_rejected", "This output was not approved; give another one."
    return "approval_rejected", f"The call was given up. {done}" if done else NOT_APPROVED
