"""Open questions as AG-UI interrupts, and the entries that resume them as decisions.

An interrupt's id is the question's id and its digest, so an answer is bound to what the front was shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from ag_ui.core import Interrupt, ResumeEntry
from msgspec import UNSET, Struct, UnsetType

from ...approval.decide import check_decider
from ...approval.decision import Approve, Decider, Decision, Edit, Reject, Respond
from ...core.facts import QuestionKind
from ...core.hidden import hidden_parts
from ...core.mask import masked_text
from ...core.run import CallState, Run, questions
from ...core.wording import described, worded
from ...definitions.item import ToolApprovalItem
from ...errors import Forbidden, InvalidDecision, NotPending, QuestionNotFound, ThreadWaiting
from ...runtime.agent_graph import AgentGraph
from ...runtime.view import View

SAID_INSTEAD = "The user did not decide on this call, and said something else instead."
"""The message of the rejection of a question that a front sets aside with a new message."""
NOBODY_HERE = "Nobody can decide here; decide in the inbox."
REASONS: dict[QuestionKind, str] = {"approval": "tool_call", "input": "input_required", "doubt": "assentry:doubt"}
"""The reasons why a run stops, in AG-UI's own words if it has any."""
ELSEWHERE = "assentry:decided_elsewhere"
"""The reason of an interrupt that this person cannot answer."""
UNSEEN = "assentry:unseen_call"
"""The reason of a question about a call that the front has not seen, such as one that an agent in a tool makes."""
SHOWN = ("tool", "agent", "handoff")
"""The kinds of calls that a front sees."""


class ApprovalPayload(Struct, forbid_unknown_fields=True, rename={"edited_args": "editedArgs"}):
    """The answer to an approval, in the form that AG-UI recommends."""

    approved: bool | UnsetType = UNSET
    edited_args: dict[str, Any] | UnsetType = UNSET
    message: str | UnsetType = UNSET
    answer: Any = UNSET

    def decision(self) -> Decision:
        """Return the decision; raise `InvalidDecision` if the payload says two things, or nothing."""
        note = None if isinstance(self.message, UnsetType) else self.message
        if self.answer is not UNSET:
            if self.approved is UNSET and self.edited_args is UNSET and note is None:
                return Respond(self.answer)
        elif not isinstance(self.edited_args, UnsetType):
            if self.approved is True:
                return Edit(self.edited_args, note=note)
        elif self.approved is True:
            return Approve(note)
        elif self.approved is False:
            return Reject(note)
        raise InvalidDecision(
            'The payload must be one of: {"approved": true}, which may have "editedArgs"; {"approved": false}; '
            '{"answer": ...}. Nothing was recorded.'
        )


class BoundEntry(NamedTuple):
    """An entry of a resume list with the question and the digest that its interrupt's id has."""

    question: str
    digest: str
    entry: ResumeEntry


def bind_entries(entries: Iterable[ResumeEntry]) -> list[BoundEntry]:
    """Return the entries with their questions; raise `InvalidDecision` unless each names another one."""
    bound: dict[str, BoundEntry] = {}
    for entry in entries:
        question, dot, digest = entry.interrupt_id.rpartition(".")
        if not dot or not question or not digest:
            raise InvalidDecision(f"{described(entry.interrupt_id)} is not the id of an interrupt of this agent.")
        if question in bound:
            raise InvalidDecision(f"Two entries answer question {question}; send one. Nothing was recorded.")
        bound[question] = BoundEntry(question, digest, entry)
    return list(bound.values())


def choose_decisions(run: Run, bound: Sequence[BoundEntry], says: bool) -> list[tuple[str, Decision, str]]:
    """Return the decisions on a run that entries mean; with `says`, a new message comes with them.

    A cancelled entry decides nothing: its question stays open. Only a new message rejects what it passes over, and is
    refused while questions would stay open.
    """
    chosen: list[tuple[str, Decision, str]] = []
    waiting = {state.question.id: state for _, state in questions(run) if state.question is not None}
    for question, digest, entry in bound:
        if question not in run.asked:
            raise QuestionNotFound(f"This thread's run never asked question {question}. Nothing was recorded.")
        if entry.status == "resolved":
            chosen.append((question, _decision(entry, _kind(run, question)), digest))
        elif says and question in waiting:
            chosen.append((question, Reject(SAID_INSTEAD), digest))
        waiting.pop(question, None)
    if says and waiting:
        tools = ", ".join(state.tool for state in waiting.values())
        raise ThreadWaiting(f"This thread waits for a decision on {tools}. Decide first; the message was not recorded.")
    return chosen


def _kind(run: Run, question: str) -> QuestionKind:
    """Return the kind of a question; raise `NotPending` if its call has been asked about again since."""
    path, call = run.asked[question]
    asked = run.at(path).calls[call].question
    if asked is None or asked.id != question:
        raise NotPending(f"Question {question} is not open any more. Nothing was recorded.")
    return asked.kind


def _decision(entry: ResumeEntry, kind: QuestionKind) -> Decision:
    if "payload" not in entry.model_fields_set:
        raise InvalidDecision("A resolved entry needs a payload. Nothing was recorded.")
    if kind == "input":
        return Respond(entry.payload)
    try:
        return msgspec.convert(entry.payload, ApprovalPayload).decision()
    except msgspec.ValidationError as error:
        raise InvalidDecision(f"This payload answers no question: {worded(error)}. Nothing was recorded.") from None


def interrupts_of(run: Run, graph: AgentGraph, who: Decider | None) -> Iterator[Interrupt]:
    """Yield the open questions of a run, as this person may see them."""
    view = View(run, graph, {})
    for path, state in questions(run):
        if state.question is not None:
            item = view.question(path, state, state.question)
            yield _interrupt(run, graph, item, state, _why_not(run, state, who))


def _why_not(run: Run, state: CallState, who: Decider | None) -> str | None:
    """Return why a person may not decide; None if the person may."""
    if who is None or state.question is None:
        return NOBODY_HERE
    try:
        check_decider(run, state.question, who)
    except Forbidden as error:
        return str(error)
    return None


def _interrupt(run: Run, graph: AgentGraph, item: ToolApprovalItem, state: CallState, why_not: str | None) -> Interrupt:
    arguments = item.arguments if why_not is None else masked_text(item.arguments, item.redact)
    known: dict[str, Any] = {
        "question": item.id,
        "digest": item.digest,
        "kind": item.kind,
        "tool": item.tool_name,
        "arguments": arguments,
        "allowed": list(item.allowed),
        "reviewers": list(item.reviewers),
        "risk": item.risk,
        "mayDecide": why_not is None,
        "why": why_not,
    }
    if why_not is None or not item.redact:  # both may quote secret arguments
        known["prompt"], known["preview"] = item.question, msgspec.to_builtins(item.preview)
    seen = not item.path and state.call.kind in SHOWN
    reason = REASONS[item.kind] if seen or item.kind != "approval" else UNSEEN
    return Interrupt(
        id=f"{item.id}.{item.digest}",
        reason=reason if why_not is None else ELSEWHERE,
        message=_seen(_message(item, arguments, why_not)),
        tool_call_id=call_id_of(run, state) if seen else None,
        response_schema=None if why_not is not None else _response_schema(item, graph, state),
        expires_at=None if item.until is None else datetime.fromtimestamp(item.until / 1000, UTC).isoformat(),
        metadata={"assentry": {name: value for name, value in known.items() if value is not None}},
    )


def _message(item: ToolApprovalItem, arguments: str, why_not: str | None) -> str:
    asked = item.question if isinstance(item.question, str) and (why_not is None or not item.redact) else ""
    said = asked if item.kind == "input" and asked else f"{item.tool_name} {arguments}: {asked or item.reason}"
    return said if why_not is None else f"{said} ({why_not})"


def _seen(text: str) -> str:
    """Return a text whose hidden characters can be seen."""
    return "".join(f"{part}(U+{ord(run[0]):04X})" if run else part for part, run in hidden_parts(text, lines=True))


def _response_schema(item: ToolApprovalItem, graph: AgentGraph, state: CallState) -> dict[str, Any]:
    """Return the JSON schema of the payload: AG-UI's own pattern, with what this question allows."""
    if item.kind == "input":
        return item.schema or {}
    both = [verdict in item.allowed for verdict in ("approve", "reject")]
    properties: dict[str, Any] = {"message": {"type": "string"}}
    if any(both) or "edit" in item.allowed:
        properties["approved"] = {"type": "boolean"} | ({} if all(both) else {"const": not both[1]})
    if "edit" in item.allowed:
        tool = graph.of(state).tools.get(item.tool_name)
        schema = tool.params_json_schema if tool is not None else {}
        properties["editedArgs"] = {**schema, "type": "object", "description": "All arguments; they are not merged."}
    if "respond" in item.allowed:
        properties["answer"] = {"description": "The result, in the tool's place: the call does not run."}
    ways = [[name] for name in ("approved", "answer") if name in properties]
    needed = {"required": ways[0]} if len(ways) == 1 else {"anyOf": [{"required": way} for way in ways]}
    return {"type": "object", "properties": properties, "additionalProperties": False, **needed}


def call_id_of(run: Run, state: CallState) -> str:
    """Return the id of a call for a front. It is unique over all runs, which a provider's id need not be."""
    return f"{run.id}.{state.call.id}"
