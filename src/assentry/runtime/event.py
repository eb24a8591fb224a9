"""The events of a stream: the model's deltas as they arrive, and new facts of the journal as items.

Delivering the events is not done here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from ..core import facts as f
from ..core.rules import verdict_of
from ..core.run import Turn
from ..definitions.agent import Agent
from ..definitions.item import RunItem, ToolApprovalItem
from .view import View

ItemName = Literal[
    "message_output_created",
    "tool_called",
    "tool_output",
    "handoff_requested",
    "handoff_occured",
    "reasoning_item_created",
    "mcp_list_tools",
    "mcp_approval_requested",
    "mcp_approval_response",
    "other_item_created",
]


class RawResponsesStreamEvent(Struct):
    """A delta of the model's reply, as the provider sent it. Deltas are not recorded."""

    data: Any
    """The event of OpenAI's client, or a `RawItem` in the same form: `event.data.type`, `event.data.delta`."""
    type: Literal["raw_response_event"] = "raw_response_event"


class RunItemStreamEvent(Struct):
    """A new item of the run."""

    name: ItemName
    item: RunItem
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


class AgentUpdatedStreamEvent(Struct):
    """A change of the active agent."""

    new_agent: Agent[Any]
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


class ApprovalRequestedEvent(Struct):
    """A new question to a person."""

    item: ToolApprovalItem
    type: Literal["approval_requested"] = "approval_requested"


class ApprovalDecidedEvent(Struct):
    """The decision on a question, and its author."""

    question_id: str
    decision: f.Verdict
    by: str
    type: Literal["approval_decided"] = "approval_decided"


class ToolProgressEvent(Struct):
    """The progress of a tool's body, as the body reports it. Progress is not recorded."""

    tool_name: str
    call_id: str
    progress: float
    total: float | None = None
    message: str | None = None
    type: Literal["tool_progress"] = "tool_progress"


StreamEvent = (
    RawResponsesStreamEvent
    | RunItemStreamEvent
    | AgentUpdatedStreamEvent
    | ApprovalRequestedEvent
    | ApprovalDecidedEvent
    | ToolProgressEvent
)
"""The events that `stream_events()` yields."""

_NAMES: dict[str, ItemName] = {
    "message_output_item": "message_output_created",
    "tool_call_item": "tool_called",
    "tool_call_output_item": "tool_output",
    "handoff_call_item": "handoff_requested",
    "handoff_output_item": "handoff_occured",
    "reasoning_item": "reasoning_item_created",
    "mcp_list_tools_item": "mcp_list_tools",
    "mcp_approval_request_item": "mcp_approval_requested",
    "mcp_approval_response_item": "mcp_approval_response",
}
"""The names of items in a stream, by the items' type; any other item is "other_item_created"."""


def settlement_of(fact: Any) -> tuple[str, f.Verdict, str] | None:
    """Return the id of the question that a fact settles, the verdict and its author; None if it settles none."""
    verdict = verdict_of(fact)
    return None if verdict is None else (fact.asked, verdict, fact.by)


def events_of(view: View, fact: f.AnyFact) -> Iterator[StreamEvent]:
    """Yield the stream events of a fact that was just folded, for a run or a branch.

    A run's stream has the questions and decisions of its branches, and no other events of them.
    """
    decided = settlement_of(fact)
    if decided is not None:
        yield ApprovalDecidedEvent(*decided)
    if isinstance(fact, f.Asked):
        yield ApprovalRequestedEvent(view.question(fact.path, view.root.at(fact.path).calls[fact.call], fact))
    if fact.path != view.path:
        return
    if isinstance(fact, f.Replied):
        turn = view.run.entries[-1]
        for item in view.reply_items(turn) if type(turn) is Turn else ():
            yield _item_event(item)
    if isinstance(fact, f.Said):
        for item in view.handler_items(fact):
            yield _item_event(item)
    if isinstance(fact, f.Finished | f.Told | f.HandedOff):
        output = view.output_of(view.run.calls[fact.call])
        if output is not None:
            yield _item_event(output)
    if isinstance(fact, f.HandedOff) and view.graph is not None:
        yield AgentUpdatedStreamEvent(view.graph.agent_at(fact.to).agent)


def _item_event(item: Any) -> RunItemStreamEvent:
    return RunItemStreamEvent(_NAMES.get(item.type, "other_item_created"), item)
