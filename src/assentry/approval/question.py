"""Questions: what a person is shown, and the digest that binds a decision to what was shown.

Judging a call belongs to the gate, and recording a decision to `decide`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest, parse_object, same
from ..core.facts import decode
from ..core.run import CallState, Run
from ..core.transcript import without_notes
from ..core.wording import described, shortened
from ..definitions.item import Evidence, ToolApprovalItem
from ..definitions.preview import read_preview
from ..errors import UnreadableState
from ..ids import new_id

if TYPE_CHECKING:
    from ..definitions.tool import Tool

LONG = 1_000_000
"""The number of characters above which arguments that cannot run are shown only in part."""
AS_IT_IS = "This call cannot run as it is: "
"""The beginning of the reason if a call can only be edited, answered or rejected."""
IN_DOUBT = "{tool} was started, as attempt {attempt}, and how it ended is not known."
"""The beginning of the reason of a question about a call whose outcome nobody knows."""
SETTLE = "Respond with its result if it happened, approve to run it (again), reject to give it up."
"""The end of that reason."""
CANNOT_RUN: tuple[f.Verdict, ...] = ("edit", "reject", "respond")
"""The verdicts that fit arguments that cannot run."""


def fitting(state: CallState, kind: f.QuestionKind, verdicts: tuple[f.Verdict, ...]) -> tuple[f.Verdict, ...]:
    """Return those of the verdicts that can fit a question of this kind about this call."""
    fit = state.answers_to(kind)
    return tuple([verdict for verdict in verdicts if verdict in fit])


def allowed_of(
    state: CallState, policy: tuple[f.Verdict, ...] | None, *, can_run: bool
) -> tuple[f.Verdict, ...] | None:
    """Return the verdicts that fit a call under its tool's policy; None if all verdicts fit."""
    if policy is None:
        return None if can_run else fitting(state, "approval", CANNOT_RUN)
    left = policy if can_run else tuple(verdict for verdict in policy if verdict in CANNOT_RUN)
    return fitting(state, "approval", left) or ("reject",)  # a call can always be rejected


def action_digest(
    root: Run,
    path: tuple[str, ...],
    state: CallState,
    tool: str,
    fingerprint: str,
    arguments: Any,
    preview: Raw = f.NOTHING,
) -> str:
    """Return the digest that binds a decision to one action: this run's call, its tool, arguments and preview."""
    action = {
        "run": root.id,
        "path": list(path),
        "call": state.call.id,
        "agent": state.turn.agent,
        "tool": tool,
        "definition": fingerprint,
        "arguments": arguments,
    }
    return digest({**action, "preview": bytes(preview).decode()} if preview else action)


def effective(state: CallState, asked: f.Asked | None = None) -> dict[str, Any]:
    """Return a copy of the arguments that will run, or that a question asks about, or raise `BadJSON`."""
    args, fills = state.args, state.fills
    if asked is not None:
        if state.approval is not None and state.approval.asked == asked.id:  # an edit came after the question
            args, fills = f.NOTHING, f.NOTHING
        args, fills = asked.args or args, asked.fills or fills
    if args:
        return parse_object(bytes(args).decode())
    if asked is not None and AS_IT_IS in asked.why and len(state.proposal.arguments) > LONG:
        raise BadJSON("it is too long to be shown")
    value = parse_object(state.proposal.arguments)
    return _fill_in(value, parse_object(bytes(fills).decode())) if fills else value


def approved_preview(state: CallState) -> tuple[Raw, f.Asked | None]:
    """Return the preview on which a person or code approved the call, and the person's question."""
    approval, asked = state.approval, state.shown
    if approval is not None and approval.asked is None:
        return approval.preview, None
    return (asked.preview, asked) if asked is not None else (f.NOTHING, None)


def _fill_in(value: dict[str, Any], fills: dict[str, Any]) -> dict[str, Any]:
    for key, fill in fills.items():
        if type(fill) is dict and type(value.get(key)) is dict:
            _fill_in(value[key], fill)
        else:
            value[key] = fill
    return value


def fills(proposed: dict[str, Any], value: dict[str, Any]) -> dict[str, Any] | None:
    """Return the defaults that were added to objects; None if anything else differs too."""
    added: dict[str, Any] = {}
    if proposed.keys() - value.keys():
        return None
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
    """Return the names of arguments that a tool would add to, or change in, the arguments that were judged and shown.

    A call that was approved because its tool needs no approval was judged regardless of its arguments. For such a call
    the list is empty, as long as the tool still needs no approval.
    """
    if tool.needs_approval is False and state.approval is not None and state.approval.by == "rule":
        return []
    args = tool.canonical(shown)
    return [name for name, value in args.items() if name not in shown or not same(value, shown[name])]


def possible_effects(state: CallState, asked: str | None) -> str:
    """Return a sentence on what a refused call may have done; empty if the call did nothing.

    `asked` is the id of the question that the refusal settles, if any.
    """
    if not state.begun:
        return ""
    question = state.question
    if question is not None and question.id == asked and question.kind == "input":
        return "It had begun, and what it did until it asked stands."
    if state.witnessed:
        return "It had begun, and came to its end too late for its result to count."
    return "It had begun, and may have run."


def every_call(tool: str) -> str:
    """Return the reason that an `Asked` with an empty `why` stands for: every call of the tool needs approval."""
    return f"Every call of {tool} needs approval."


def arguments_text(state: CallState, asked: f.Asked | None = None) -> str:
    """Return the canonical arguments as text; the model's own text if it cannot be parsed."""
    try:
        return canonical(effective(state, asked)).decode()
    except BadJSON:
        return raw_text(state)


def raw_text(state: CallState) -> str:
    """Return the arguments as the model wrote them, shortened if they are longer than `LONG`."""
    text = state.proposal.arguments
    return text if len(text) <= LONG else f"{text[:1000]}... ({len(text)} characters)"


def limit_of(root: Run) -> int:
    """Return the size limit of a call's arguments in this run, in bytes."""
    return root.began.max_argument_bytes if root.began is not None else f.MAX_ARGUMENT_BYTES


def too_large(size: int, limit: int) -> str:
    """Return the message for arguments above the size limit."""
    return f"the arguments are {size} bytes long, and at most {limit} are read"


def check_readable(state: CallState) -> None:
    """Raise `UnreadableState` unless the arguments and schemas that Assentry recorded for a call are JSON objects."""
    question = state.question
    made = [state.turn.reply.args] if isinstance(state.turn.reply, f.Proposed) else []
    made += [state.args, state.fills]
    if question is not None:
        made += [question.args, question.fills, question.schema]
    for json in made:
        if json and type(decode(json)) is not dict:
            raise UnreadableState(f"This run is damaged: what is kept of call {described(state.call.id)} is no object.")


def asked_of(tool: Tool | None, agent: Any, before: f.Asked | None = None) -> dict[str, Any]:
    """Return the fields of a question that say who may decide, which arguments are masked elsewhere, and the risk.

    If the tool is gone, those of the question before hold. So does the risk of that question, which a rule may have
    given it, unless the tool's own is high now.
    """
    known = tool if tool is not None else before
    reviewers = (known.reviewers if known is not None else ()) or agent.reviewers
    risk = known.risk if known is not None else None
    if before is not None and before.risk is not None and risk != "high":
        risk = before.risk
    redact = tuple(known.redact) if known is not None else ()
    return {"reviewers": tuple(reviewers), "redact": redact, "risk": risk}


def doubt_of(root: Run, path: tuple[str, ...], state: CallState, note: str, at: int, fields: dict[str, Any]) -> f.Asked:
    """Return the question about a call whose outcome nobody knows; `fields` are those of `asked_of`."""
    shown = {"run": root.id, "path": list(path), "call": state.call.id, "doubt": state.attempt}
    why = _doubt_in_words(state, note)
    return f.Asked(state.call.id, new_id("q"), why, digest(shown), "doubt", at=at, path=path, **fields)


def _doubt_in_words(state: CallState, note: str) -> str:
    """Return the text of the question: the known facts about the call, and the possible answers."""
    parts = [IN_DOUBT.format(tool=state.tool, attempt=state.attempt), note]
    parts += [
        f"Attempt {late.attempt} gave this, too late to count: {shortened(bytes(late.output).decode(), 200)}"
        for late in state.witnessed
    ]
    parts.append(SETTLE)
    return " ".join(part for part in parts if part)


def item_of(
    agent: Any,
    began: int,
    path: tuple[str, ...],
    state: CallState,
    asked: f.Asked,
    kind: type[ToolApprovalItem] = ToolApprovalItem,
) -> ToolApprovalItem:
    """Return a question as users see it. `began` is the time when the run began, and `kind` the item's class."""
    proposal, items = state.proposal, state.turn.items
    raw = without_notes([decode(items[state.call.item])])[0] if items else {}
    return kind(
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
        preview=read_preview(asked.preview),
        reviewers=asked.reviewers,
        redact=asked.redact,
        risk=asked.risk,
    )


def evidence_of(state: CallState, began: int) -> tuple[Evidence, ...]:
    """Return the results of a call that came too late to count."""
    return tuple(Evidence(each.attempt, decode(each.output), began + each.at) for each in state.witnessed)
