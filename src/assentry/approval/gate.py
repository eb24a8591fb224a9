"""The gate: the one function that judges every call of every kind.

The verdict is a fact with an author and a reason. A call that cannot be judged does not run. It is refused if its tool
is unknown or needs no approval; otherwise a person is asked and told why.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core import facts as f
from ..core.digest import BadJSON, canonical, parse_object
from ..core.run import CallState, Run, spent
from ..core.wording import clean_text, described, shortened, worded
from ..definitions.agent import Agent
from ..definitions.context import JUDGED, RunContextWrapper
from ..definitions.deadline import Deadline, deadline_from
from ..definitions.item import ToolApprovalItem
from ..definitions.tool import AlwaysAsk, Ask, Tool, qualified_name
from ..errors import InvalidArguments
from ..ids import new_id
from .condition import same_value, satisfies
from .decide import may_decide
from .decision import Decider
from .previewing import preview_of, unless_stopped
from .question import AS_IT_IS, action_digest, allowed_of, asked_of, every_call, fills, item_of, raw_text, too_large
from .standing import StandingGrant, terms_json

Judgement = f.Approved | f.Refused | f.Asked
EVERY = Ask()
"""Every call of the tool needs approval: the question has no reason of its own."""
LONGEST_REASON = 1000
"""The most characters of the reason that a rule gives."""


class Case(Struct, frozen=True):
    """A call to be judged.

    `tool` is the tool that was offered under the call's name, if any; `args` are the proposed arguments as that tool
    reads them.
    """

    root: Run
    path: tuple[str, ...]
    state: CallState
    tool: Tool | None
    args: Arguments | None
    agent: Agent[Any]
    ctx: RunContextWrapper[Any]
    at: int
    deadline: Deadline | None = None
    """The deadline of a question, unless the tool has its own."""
    replaces: bool = False
    """True for a call in the place of another. Its uses of a grant are not counted, so `max_uses` would not hold."""
    standing: tuple[StandingGrant, ...] = ()
    """The store's grants over all runs that may cover the call, read just before it is judged."""
    denied: tuple[str, str] | None = None
    """The author and the reason of a rule of the server's that forbids the call; it beats every grant."""


class Arguments(Struct, frozen=True):
    """The proposed arguments as read: their canonical value, and the problem if they cannot run."""

    value: dict[str, Any] | None
    problem: str | None = None
    args: Raw = f.NOTHING
    fills: Raw = f.NOTHING
    """The added defaults, if the value only adds defaults. If it differs otherwise, `args` holds the whole value."""
    bound: Any = None
    """The value in the form that the tool's body takes; None if the value does not fit."""


def read_arguments(tool: Tool, given: str, limit: int = f.MAX_ARGUMENT_BYTES) -> Arguments:
    """Return the arguments that rules judge, people see, digests cover and the tool gets.

    Arguments of more than `limit` bytes are not read.
    """
    if len(given) * 4 > limit and (size := len(given.encode("utf-8", "replace"))) > limit:
        return Arguments(None, too_large(size, limit))
    try:
        if not given.strip() and not tool.required:
            value = tool.canonical({})
            return Arguments(value, None, Raw(canonical(value)), bound=tool.bind(value))
        proposed = parse_object(given)
        value = tool.canonical(proposed)
    except BadJSON as error:
        return Arguments(None, f"the arguments are not a JSON object that can be read: {error}")
    except InvalidArguments as error:
        return Arguments(None, f"the arguments do not fit the tool: {error}")
    problem = bound = None
    try:
        bound = tool.bind(value)
    except InvalidArguments as error:
        problem = f"the arguments do not fit the tool: {error}"
    if value == proposed:
        return Arguments(value, problem, bound=bound)
    added = fills(proposed, value)
    if added is None:
        return Arguments(value, problem, Raw(canonical(value)), bound=bound)
    return Arguments(value, problem, f.NOTHING, Raw(canonical(added)), bound)


async def judge(case: Case) -> Judgement:
    """Return the verdict on a call of any kind: approve, refuse, or ask a person."""
    tool, call = case.tool, case.state.call
    args = case.args
    if call.kind == "handoff" and (refused := _not_now(case)) is not None:
        return refused
    if tool is None or args is None:
        return f.Refused(call.id, "runtime", why="tool_not_found", path=case.path)
    if case.denied is not None:
        by, why = case.denied
        return f.Refused(call.id, by, message=why, why=why, at=case.at, path=case.path)
    grant = grant_for(case.root, case.state.turn.agent, tool, args.value, case.at, _standing_of(case, tool))
    if case.replaces and grant is not None and grant.verdict == "approve" and grant.max_uses is not None:
        grant = None
    if grant is not None and grant.verdict == "reject":
        return f.Refused(call.id, **_by_grant(case, grant), message=_message(grant), path=case.path)
    if tool.needs_approval is False:
        if args.problem is not None:
            return f.Refused(call.id, "runtime", why=args.problem, path=case.path)
        return f.Approved(call.id, "rule", args=args.args, path=case.path)  # the door fills in the defaults
    if args.problem is None and grant is not None:
        return f.Approved(call.id, **_by_grant(case, grant), args=args.args, fills=args.fills, path=case.path)
    ask: Ask | None = EVERY
    if args.problem is not None:
        ask = Ask(reason=f"{AS_IT_IS}{args.problem}")
    elif tool.needs_approval is not True:
        ask = await _by_rule(case, tool, args)
    if ask is None:
        by = f"rule:{qualified_name(tool.needs_approval)}"
        return f.Approved(call.id, by, args=args.args, fills=args.fills, at=case.at, path=case.path)
    return await _ask(case, tool, args, ask)


async def _ask(case: Case, tool: Tool, args: Arguments, ask: Ask) -> Judgement:
    """Return the question to a person, or the verdict of the code that decides in the person's place."""
    prompt = preview = f.NOTHING
    why = ask.reason or ""
    if tool.describe is not None:
        prompt, why = await _described(case, tool, args, why)
    if args.value is not None and args.problem is None and not case.replaces:
        preview = await preview_of(tool, case.ctx, args.value)
    asked = _make_question(case, tool, args, prompt, preview, why, ask.risk)
    return asked if tool.on_approval is None else await _let_code_decide(case, tool, args, asked)


def _not_now(case: Case) -> f.Refused | None:
    """Return the refusal of a handoff that its turn does not allow; None if it does."""
    call, turn = case.state.call, case.state.turn
    if turn.handed:
        words = "Another handoff was taken in the same turn; this one was not."
        return f.Refused(call.id, "runtime", message=words, why="another handoff was taken", path=case.path)
    if any(other.call.kind == "hosted" for other in turn.calls):
        # The answer is for this agent's server: the next agent may have another one with the same label, or none.
        words = "The answer to the provider's request comes first; hand over in the next turn."
        return f.Refused(call.id, "runtime", message=words, why="a provider's request comes first", path=case.path)
    return None


AnyGrant = f.Granted | StandingGrant


def _by_grant(case: Case, grant: AnyGrant) -> dict[str, Any]:
    """Return the fields of a verdict by a grant: its author, reason and time, and the terms that no fact has yet."""
    fields: dict[str, Any] = {"by": f"grant:{grant.id}", "why": f"given by {grant.by}"}
    if isinstance(grant, StandingGrant):
        return {**fields, "terms": terms_json(grant), "at": case.at}
    return {**fields, "at": case.at if has_terms(grant) else 0}


def _message(grant: AnyGrant) -> str | None:
    """Return the words for the model that are in no fact of the run yet."""
    return grant.message if isinstance(grant, StandingGrant) else None


def has_terms(grant: f.Granted) -> bool:
    """Return True if the grant is limited in uses, time or arguments."""
    return grant.max_uses is not None or grant.until is not None or bool(grant.pins)


def grant_for(
    root: Run,
    agent: str,
    tool: Tool,
    args: dict[str, Any] | None = None,
    at: int = 0,
    standing: Iterable[StandingGrant] = (),
) -> AnyGrant | None:
    """Return the grant that covers a call of this tool with these arguments at this time; None if there is none.

    It is one of the run's own grants, or a standing one. A rejection takes precedence over an approval, and an approval
    without `max_uses` over one with it.
    """
    found: AnyGrant | None = None
    every: list[AnyGrant] = [*root.grants.values(), *standing]
    for grant in every:
        if grant.tool != tool.name or grant.agent != agent or grant.server != tool.server:
            continue
        if not (_stands(root, grant, args, at) if isinstance(grant, StandingGrant) else _fits(root, grant, args, at)):
            continue
        if grant.verdict == "reject":
            return grant
        if grant.definition not in _definitions(grant, tool):
            continue  # the tool has changed since it was approved
        if found is None or (found.max_uses is not None and grant.max_uses is None):
            found = grant
    return found


def _definitions(grant: AnyGrant, tool: Tool) -> tuple[str | None, ...]:
    """Return the fingerprints with which an approval covers a tool. A standing one always names a definition."""
    return (tool.fingerprint,) if isinstance(grant, StandingGrant) else (None, tool.fingerprint)


def _fits(root: Run, grant: f.Granted, args: dict[str, Any] | None, at: int) -> bool:
    return not (grant.pins and not fits_pins(grant.pins, args)) and spent(root, grant, at) is None


def _stands(root: Run, grant: StandingGrant, args: dict[str, Any] | None, at: int) -> bool:
    """Return True if a standing grant is in force, and the arguments satisfy its conditions."""
    now = at + (root.began.at if root.began is not None else 0)
    rejects = grant.verdict == "reject"
    return grant.in_force(now) and (grant.where is None or satisfies(args, grant.where, rejects=rejects))


def _standing_of(case: Case, tool: Tool) -> list[StandingGrant]:
    """Return the standing grants that people gave who may decide this call.

    They cover calls of tools and agents only. Nobody approves calls of the runs that they asked for.
    """
    if not case.standing or case.state.call.kind not in ("tool", "agent"):
        return []
    reviewers = asked_of(tool, case.agent)["reviewers"]
    began = case.root.began
    asker = began.by if began is not None else None
    return [
        grant
        for grant in case.standing
        if grant.verdict == "reject" or (grant.by != asker and may_decide(reviewers, Decider(grant.by, grant.groups)))
    ]


def fits_pins(pins: Raw, args: dict[str, Any] | None) -> bool:
    """Return True if the arguments have all pinned values."""
    wanted = parse_object(bytes(pins).decode())
    return args is not None and all(name in args and same_value(args[name], pin) for name, pin in wanted.items())


async def _by_rule(case: Case, tool: Tool, args: Arguments) -> Ask | None:
    """Return why a person must be asked by the tool's own rule; None if the rule lets the call pass."""
    rule = tool.needs_approval
    name, judged = qualified_name(rule), JUDGED.set(case.agent)
    try:
        params = _copy(args.value)  # a rule must not change the arguments that run
        verdict = rule(case.ctx, params, case.state.proposal.call_id or "")  # type: ignore[operator]
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except (Exception, asyncio.CancelledError) as error:
        unless_stopped(error)
        return Ask(reason=f"The rule {name} failed with {worded(error)}")
    finally:
        JUDGED.reset(judged)
    if verdict is False:
        return None
    why = rule.why if isinstance(rule, AlwaysAsk) else f"The rule {name} asks for approval."
    if type(verdict) is Ask:
        told = clean_text(verdict.reason)[0].strip() if verdict.reason else ""
        return Ask(risk=verdict.risk, reason=shortened(told, LONGEST_REASON) or why)
    if verdict is not True:
        why = f"The rule {name} gave {described(verdict)}, which is neither True nor False, nor an Ask."
    return Ask(reason=why)


def _copy(args: Any) -> dict[str, Any]:
    return parse_object(canonical(args).decode())


def _shown_arguments(case: Case, args: Arguments) -> dict[str, Any]:
    """Return the arguments as a person sees them."""
    return {"raw": case.state.proposal.arguments} if args.value is None else args.value


def _digest(case: Case, tool: Tool, args: Arguments, preview: Raw) -> str:
    shown = _shown_arguments(case, args)
    return action_digest(case.root, case.path, case.state, tool.name, tool.fingerprint, shown, preview)


def _make_question(
    case: Case, tool: Tool, args: Arguments, prompt: Raw, preview: Raw, why: str, risk: f.Risk | None
) -> f.Asked:
    limit, fields = deadline_of(tool, case.deadline), asked_of(tool, case.agent)
    if risk is not None:
        fields["risk"] = risk
    return f.Asked(
        case.state.call.id,
        new_id("q"),
        why,
        _digest(case, tool, args, preview),
        allowed=allowed_of(case.state, tool.allowed, can_run=args.problem is None),
        args=args.args,
        prompt=prompt,
        fills=args.fills,
        until=limit.until(case.at) if limit is not None else None,
        due=limit.due(case.at) if limit is not None else None,
        preview=preview,
        definition=Raw(tool.frozen()) if tool.source is not None else f.NOTHING,
        **fields,
        at=case.at,
        path=case.path,
    )


async def _described(case: Case, tool: Tool, args: Arguments, why: str) -> tuple[Raw, str]:
    """Return the tool's description of a call as JSON, and the reason to ask with any failure of the description."""
    name = qualified_name(tool.describe)
    try:
        shown = {"raw": raw_text(case.state)} if args.value is None else _copy(args.value)
        words = tool.describe(case.ctx, shown, case.state.proposal.call_id or "")  # type: ignore[misc]
        words = await words if inspect.isawaitable(words) else words
        if type(words) is str:
            return Raw(canonical(clean_text(words)[0])), why
        problem = f"the description {name} gave {described(words)}, which is not text"
    except (Exception, asyncio.CancelledError) as error:
        unless_stopped(error)
        problem = f"the description {name} failed with {worded(error)}"
    return f.NOTHING, f"{why or every_call(tool.name)} ({problem})"


def deadline_of(tool: Tool, default: Deadline | None) -> Deadline | None:
    """Return the deadline of a question about this tool: the tool's own, or else the default."""
    return default if tool.deadline is None else deadline_from(tool.name, tool.deadline)


async def _let_code_decide(case: Case, tool: Tool, args: Arguments, asked: f.Asked) -> Judgement:
    approver = tool.on_approval
    by = f"code:{qualified_name(approver)}"
    try:
        began = case.root.began.at if case.root.began else 0
        kind = case.agent.view_classes.get(ToolApprovalItem, ToolApprovalItem)
        answer = approver(case.ctx, item_of(case.agent, began, case.path, case.state, asked, kind))  # type: ignore[misc]
        if inspect.isawaitable(answer):
            answer = await answer
        approve = answer.get("approve") if isinstance(answer, Mapping) else None
        reason = answer.get("reason") if isinstance(answer, Mapping) else None
    except (Exception, asyncio.CancelledError) as error:
        unless_stopped(error)
        return _because(tool.name, asked, f"{by} failed with {worded(error)}")
    if type(approve) is not bool or not (reason is None or type(reason) is str):
        return _because(tool.name, asked, f'{by} gave {described(answer)}, not {{"approve": bool, "reason": str}}')
    reason = clean_text(reason)[0] if reason else None
    call = case.state.call.id
    if not approve:
        why = asked.why or every_call(tool.name)
        return f.Refused(call, by, message=reason, why=why, at=case.at, path=case.path)
    if args.problem is not None:
        return _because(tool.name, asked, f"{by} approved what cannot run")
    return f.Approved(
        call,
        by,
        args=args.args,
        fills=args.fills,
        digest=asked.digest,
        why=reason,
        preview=asked.preview,
        at=case.at,
        path=case.path,
    )


def _because(tool: str, asked: f.Asked, what: str) -> f.Asked:
    return replace(asked, why=f"{asked.why or every_call(tool)} ({what})")
