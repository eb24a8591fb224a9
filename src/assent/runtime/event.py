"""What a stream yields: the model's deltas as they pass, and the journal's tail as items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from ..agent import Agent
from ..approval.question import item_of
from ..core import facts as f
from ..item import MessageOutputItem, OtherItem, ReasoningItem, RunItem, ToolApprovalItem, ToolCallItem
from .view import View

ItemName = Literal[
    "message_output_created", "tool_called", "tool_output", "reasoning_item_created", "other_item_created"
]


class RawResponsesStreamEvent(Struct):
    """A delta of the model, as the provider sent it. It is not kept."""

    data: dict[str, Any]
    type: Literal["raw_response_event"] = "raw_response_event"


class RunItemStreamEvent(Struct):
    """The run generated an item."""

    name: ItemName
    item: RunItem
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


class AgentUpdatedStreamEvent(Struct):
    """Another agent has the word."""

    new_agent: Agent[Any]
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


class ApprovalRequestedEvent(Struct):
    """A person is asked."""

    item: ToolApprovalItem
    type: Literal["approval_requested"] = "approval_requested"


class ApprovalDecidedEvent(Struct):
    """A question was settled: by whom, and how."""

    question_id: str
    decision: Literal["approve", "edit", "reject", "respond"]
    by: str
    type: Literal["approval_decided"] = "approval_decided"


StreamEvent = (
    RawResponsesStreamEvent
    | RunItemStreamEvent
    | AgentUpdatedStreamEvent
    | ApprovalRequestedEvent
    | ApprovalDecidedEvent
)
"""What `stream_events()` yields."""

_NAMES: dict[type[RunItem], ItemName] = {
    MessageOutputItem: "message_output_created",
    ToolCallItem: "tool_called",
    OtherItem: "other_item_created",
    ReasoningItem: "reasoning_item_created",
}


_VERDICTS: dict[type[f.Fact], Literal["approve", "reject", "respond"]] = {
    f.Approved: "approve",
    f.Refused: "reject",
    f.Finished: "respond",
    f.Answered: "respond",
}


def events(view: View, fact: f.AnyFact) -> Iterator[StreamEvent]:
    """What a fact that was just folded looks like in a stream."""
    if isinstance(fact, f.Replied):
        for item in view.reply_items(fact):
            yield RunItemStreamEvent(_NAMES[type(item)], item)
    if isinstance(fact, f.Approved | f.Refused | f.Finished | f.Answered) and fact.asked is not None:
        edited = isinstance(fact, f.Approved) and bool(fact.args or fact.tool)
        yield ApprovalDecidedEvent(fact.asked, "edit" if edited else _VERDICTS[type(fact)], fact.by)
    if isinstance(fact, f.Finished | f.Told):
        output = view.output_of(fact.path, view.run.at(fact.path).calls[fact.call])
        if output is not None:
            yield RunItemStreamEvent("tool_output", output)
    if isinstance(fact, f.Asked):
        state = view.run.at(fact.path).calls[fact.call]
        yield ApprovalRequestedEvent(item_of(view.agent, view.began, fact.path, state, fact))
