"""Questions: what exactly is put to a person, and the digest that binds a decision to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest, parse_object, same
from ..core.facts import decode
from ..core.run import CallState, Run
from ..core.transcript import unmarked
from ..errors import UnreadableState
from ..item import Evidence, ToolApprovalItem

if TYPE_CHECKING:
    from ..tools.tool import Tool

LONG = 1_000_000
"""Characters of arguments that cannot run, above which a person is shown the beginning alone."""
AS_IT_IS = "This call cannot run as it is: "
"""How a question says why a call can only be edited, answered or rejected."""
CANNOT_RUN: tuple[f.Verdict, ...] = ("edit", "reject", "respond")
"""What is left to say about arguments that cannot run."""


def fitting(state: CallState, kind: f.QuestionKind, verdicts: tuple[f.Verdict, ...]) -> tuple[f.Verdict, ...]:
    """Those of the verdicts that can fit a question of this kind about this call."""
    fit = state.answers_to(kind)
    return tuple([verdict for verdict in verdicts if verdict in fit])


def allowed_of(
    state: CallState, policy: tuple[f.Verdict, ...] | None, *, can_run: bool
) -> tuple[f.Verdict, ...] | None:
    """The decisions that fit a call, by its tool's policy; None for all that can."""
    if policy is None:
        return None if can_run else fitting(state, "approval", CANNOT_RUN)
    left = policy if can_run else tuple(verdict for verdict in policy if verdict in CANNOT_RUN)
    return fitting(state, "approval", left) or ("reject",)  # there is always a way out


def new_id(prefix: str) -> str:
    """An id that no other run has."""
    return f"{prefix}_{os.urandom(16).hex()}"


def action_digest(
    root: Run, path: tuple[str, ...], state: CallState, tool: str, fingerprint: str, arguments: Any
) -> str:
    """Binds a decision to one action: this call of this run, this tool as it is defined, these arguments."""
    return digest(
        {
            "run": root.id,
            "path": list(path),
            "call": state.call.id,
            "agent": state.turn.agent,
            "tool": tool,
            "definition": fingerprint,
            "arguments": arguments,
        }
    )


def effective(state: CallState, asked: f.Asked | None = None) -> dict[str, Any]:
    """The arguments that will run, or that a question asks about, as data of the caller's own."""
    args, fills = state.args, state.fills
    if asked is not None:
        if state.approval is not None and state.approval.asked == asked.id:  # what was edited was not asked about
            args, fills = f.NOTHING, f.NOTHING
        args, fills = asked.args or args, asked.fills or fills
    if args:
        return parse_object(bytes(args).decode())
    if asked is not None and AS_IT_IS in asked.why and len(state.proposal.arguments) > LONG:
        raise BadJSON("it is too long to be shown")
    value = parse_object(state.proposal.arguments)
    return _filled(value, parse_object(bytes(fills).decode())) if fills else value


def _filled(value: dict[str, Any], fills: dict[str, Any]) -> dict[str, Any]:
    for key, fill in fills.items():
        if type(fill) is dict and type(value.get(key)) is dict:
            _filled(value[key], fill)
        else:
            value[key] = fill
    return value


def fills(proposed: dict[str, Any], value: dict[str, Any]) -> dict[str, Any] | None:
    """What filling in defaults added to objects; None if it is not only that."""
    added: dict[str, Any] = {}
    for key, each in value.items():
        if key not in proposed:
            added[key] = each
        elif proposed[key] != each:
            inner = fills(proposed[key], each) if type(proposed[key]) is dict and type(each) is dict else None
            if inner is None:
                return None
            added[key] = inner
    return added


def added_to(state: CallState, tool: Tool, shown: dict[str, Any]) -> list[str]:
    """Return the arguments that a tool would fill in beyond, or differently from, what was judged and shown.

    A call of a tool whose rule is False was judged whatever its arguments: there the tool may fill in what it likes,
    as long as nobody has to be asked about it now.
    """
    if tool.needs_approval is False and state.approval is not None and state.approval.by == "rule":
        return []
    args = tool.canonical(shown)
    return [name for name, value in args.items() if name not in shown or not same(value, shown[name])]


def deeds(state: CallState, asked: str | None) -> str:
    """What is known of what a call did that is refused, with this question if with one; nothing if it did nothing."""
    if not state.begun:
        return ""
    question = state.question
    if question is not None and question.id == asked and question.kind == "input":
        return "It had begun, and what it did until it asked stands."
    if state.witnessed:
        return "It had begun, and came to its end too late for its result to count."
    return "It had begun, and may have run."


def every_call(tool: str) -> str:
    """Why a person is asked, where the rule is always: the words that an `Asked` without any stands for."""
    return f"Every call of {tool} needs approval."


def arguments_text(state: CallState, asked: f.Asked | None = None) -> str:
    """The canonical arguments as text; what the model wrote, if that cannot be parsed."""
    try:
        return canonical(effective(state, asked)).decode()
    except BadJSON:
        return raw_text(state)


def raw_text(state: CallState) -> str:
    """Return what the model wrote, or the beginning of it if nobody could read it all."""
    text = state.proposal.arguments
    return text if len(text) <= LONG else f"{text[:1000]}... ({len(text)} characters)"


def limit_of(root: Run) -> int:
    """Return how many bytes the arguments of a call in this run may have."""
    return root.began.max_argument_bytes if root.began is not None else f.MAX_ARGUMENT_BYTES


def too_large(size: int, limit: int) -> str:
    """Say that arguments are not read."""
    return f"the arguments are {size} bytes long, and at most {limit} are read"


def see_that_it_reads(state: CallState) -> None:
    """Read what Assent itself has written of a call, or raise `UnreadableState`: arguments and schemas are objects."""
    question = state.question
    made = [state.turn.reply.args] if isinstance(state.turn.reply, f.Proposed) else []
    made += [state.args, state.fills]
    if question is not None:
        made += [question.args, question.fills, question.schema]
    for json in made:
        if json and type(decode(json)) is not dict:
            raise UnreadableState(f"This run is damaged: what is kept of call {state.call.id!r:.80} is no object.")


def item_of(agent: Any, began: int, path: tuple[str, ...], state: CallState, asked: f.Asked) -> ToolApprovalItem:
    """A question as its user sees it; `began` is when the run began."""
    proposal, items = state.proposal, state.turn.items
    raw = unmarked([decode(items[state.call.item])])[0] if items else {}
    return ToolApprovalItem(
        agent=agent,
        raw_item=raw,
        id=asked.id,
        digest=asked.digest,
        tool_name=state.tool,
        arguments=arguments_text(state, asked),
        call_id=proposal.id if proposal.call_id is None else proposal.call_id,
        reason=asked.why or every_call(state.tool),
        allowed=state.answers_to(asked.kind) if asked.allowed is None else asked.allowed,
        kind=asked.kind,
        path=path,
        question=decode(asked.prompt) if asked.prompt else None,
        schema=decode(asked.schema) if asked.schema else None,
        at=began + asked.at,
        until=None if asked.until is None else began + asked.until,
        due=None if asked.due is None else began + asked.due,
        evidence=evidence_of(state, began) if state.witnessed else (),
        replaces=asked.replaces or asked.voids,
    )


def evidence_of(state: CallState, began: int) -> tuple[Evidence, ...]:
    """The results of a call that came too late to count."""
    return tuple(Evidence(each.attempt, decode(each.output), began + each.at) for each in state.witnessed)
