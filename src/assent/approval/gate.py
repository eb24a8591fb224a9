"""The gate: the one function that judges every call of every kind.

Its verdict is a fact with an author and a reason. Whatever it cannot judge does not run: it is
refused if nobody would be asked anyway, else a person is asked and told why.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..agent import Agent
from ..context import RunContextWrapper
from ..core import facts as f
from ..core.digest import BadJSON, canonical, described, parse_object, text, worded
from ..core.run import CallState, Run
from ..errors import InvalidArguments
from ..tools.tool import Tool, qualified
from .question import CANNOT_RUN, action_digest, every_call, fills, fitting, item_of, new_id

Judgement = f.Approved | f.Refused | f.Asked


class Case(Struct, frozen=True):
    """A call before the gate. `tool` is what was offered under the call's name, if anything was, and `args` the
    proposed arguments as that tool reads them."""

    root: Run
    path: tuple[str, ...]
    state: CallState
    tool: Tool | None
    args: Arguments | None
    agent: Agent[Any]
    ctx: RunContextWrapper[Any]
    at: int


class Arguments(Struct, frozen=True):
    """The proposed arguments, read: canonical, or with what is wrong with them."""

    value: dict[str, Any] | None
    problem: str | None = None
    args: Raw = f.NOTHING
    fills: Raw = f.NOTHING
    """One of the two is set if they are not the proposed ones as they stand: the defaults filled in, or all."""
    bound: Any = None
    """The value as the tool's body takes it, if it can."""


def read_arguments(tool: Tool, given: str) -> Arguments:
    """What rules judge, people see, digests cover and the tool gets."""
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
    """Approve, refuse or ask: for any call, of any tool, by any rule."""
    tool, call = case.tool, case.state.call
    args = case.args
    if call.kind == "handoff" and case.state.turn.handed:
        words = "Another handoff was taken in the same turn; this one was not."
        return f.Refused(call.id, "runtime", message=words, why="another handoff was taken", path=case.path)
    if tool is None or args is None:
        return f.Refused(call.id, "runtime", why="tool_not_found", path=case.path)
    grant = grant_for(case.root, case.state.turn.agent, tool)
    if grant is not None and grant.verdict == "reject":
        return f.Refused(call.id, f"grant:{grant.id}", why=f"given by {grant.by}", path=case.path)
    if tool.needs_approval is False:
        if args.problem is not None:
            return f.Refused(call.id, "runtime", why=args.problem, path=case.path)
        return f.Approved(call.id, "rule", args=args.args, path=case.path)  # the door fills in the defaults
    if args.problem is None and grant is not None:
        why = f"given by {grant.by}"
        return f.Approved(call.id, f"grant:{grant.id}", args=args.args, fills=args.fills, why=why, path=case.path)
    why_ask = await _why_ask(case, tool, args)
    if why_ask is None:
        by = f"rule:{qualified(tool.needs_approval)}"
        return f.Approved(call.id, by, args=args.args, fills=args.fills, at=case.at, path=case.path)
    return await _ask(case, tool, args, why_ask)


def grant_for(root: Run, agent: str, tool: Tool) -> f.Granted | None:
    """The grant that covers a call of this tool; a rejection goes before any approval."""
    found = None
    for grant in root.grants.values():
        if grant.tool == tool.name and grant.agent == agent and grant.server == tool.server:
            if grant.verdict == "reject":
                return grant
            if grant.definition in (None, tool.fingerprint):  # a changed tool is not what was approved for always
                found = found or grant
    return found


async def _why_ask(case: Case, tool: Tool, args: Arguments) -> str | None:
    """Why a person must be asked; None if the rule lets the call pass."""
    if args.problem is not None:
        return f"This call cannot run as it is: {args.problem}"
    rule = tool.needs_approval
    if rule is True:
        return every_call(tool.name)
    name = qualified(rule)
    try:
        params = parse_object(canonical(args.value).decode())  # a copy: a rule may not change what runs
        verdict = rule(case.ctx, params, case.state.proposal.call_id or "")  # type: ignore[operator]
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except (Exception, asyncio.CancelledError) as error:
        _unless_stopped(error)
        return f"The rule {name} failed with {worded(error)}"
    if verdict is False:
        return None
    if verdict is True:
        return f"The rule {name} asks for approval."
    return f"The rule {name} gave {described(verdict)}, which is neither True nor False."


def _unless_stopped(error: BaseException) -> None:
    """Raise a cancellation that is the run's; one that the user's code made up is its failure."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


async def _ask(case: Case, tool: Tool, args: Arguments, why: str) -> Judgement:
    shown: Any = {"raw": case.state.proposal.arguments} if args.value is None else args.value
    asked = f.Asked(
        case.state.call.id,
        new_id("q"),
        "" if why == every_call(tool.name) else why,
        action_digest(case.root, case.path, case.state, tool.name, tool.fingerprint, shown),
        allowed=fitting(case.state, "approval", CANNOT_RUN) if args.problem is not None else None,
        args=args.args,
        fills=args.fills,
        at=case.at,
        path=case.path,
    )
    return asked if tool.on_approval is None else await _let_code_decide(case, tool, args, asked)


async def _let_code_decide(case: Case, tool: Tool, args: Arguments, asked: f.Asked) -> Judgement:
    approver = tool.on_approval
    by = f"code:{qualified(approver)}"
    try:
        answer = approver(
            case.ctx, item_of(case.agent, case.root.began.at if case.root.began else 0, case.path, case.state, asked)
        )  # type: ignore[misc]
        if inspect.isawaitable(answer):
            answer = await answer
        approve = answer.get("approve") if isinstance(answer, Mapping) else None
        reason = answer.get("reason") if isinstance(answer, Mapping) else None
    except (Exception, asyncio.CancelledError) as error:
        _unless_stopped(error)
        return _because(tool.name, asked, f"{by} failed with {worded(error)}")
    if type(approve) is not bool or not (reason is None or type(reason) is str):
        return _because(tool.name, asked, f'{by} gave {described(answer)}, not {{"approve": bool, "reason": str}}')
    reason = text(reason)[0] if reason else None
    call = case.state.call.id
    if not approve:
        why = asked.why or every_call(tool.name)
        return f.Refused(call, by, message=reason, why=why, at=case.at, path=case.path)
    if args.problem is not None:
        return _because(tool.name, asked, f"{by} approved what cannot run")
    return f.Approved(
        call, by, args=args.args, fills=args.fills, digest=asked.digest, why=reason, at=case.at, path=case.path
    )


def _because(tool: str, asked: f.Asked, what: str) -> f.Asked:
    return replace(asked, why=f"{asked.why or every_call(tool)} ({what})")
