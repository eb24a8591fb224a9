"""The events of a live session: the model's, as they come, and new facts of the journal."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from ..core.facts import Verdict
from ..definitions.agent import Agent
from ..definitions.context import RunContextWrapper
from ..definitions.guardrail import OutputGuardrailResult
from ..definitions.item import ToolApprovalItem
from ..definitions.tool import Tool
from .item import RealtimeItem
from .model import RealtimeModelAudioEvent, RealtimeModelEvent


class RealtimeEventInfo(Struct):
    """The part that all events have."""

    context: RunContextWrapper[Any]


class RealtimeAgentStartEvent(Struct):
    """The agent began to reply."""

    agent: Agent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_start"] = "agent_start"


class RealtimeAgentEndEvent(Struct):
    """The agent has replied, or was stopped."""

    agent: Agent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_end"] = "agent_end"


class RealtimeHandoffEvent(Struct):
    """Another agent took over."""

    from_agent: Agent[Any]
    to_agent: Agent[Any]
    info: RealtimeEventInfo
    type: Literal["handoff"] = "handoff"


class RealtimeToolStart(Struct):
    """A tool's body is about to be entered."""

    agent: Agent[Any]
    tool: Tool | None
    """The tool; None for a call of a tool that does not exist."""
    arguments: str
    info: RealtimeEventInfo
    call_id: str = ""
    type: Literal["tool_start"] = "tool_start"


class RealtimeToolEnd(Struct):
    """A call has its outcome: from its body, from a person, or a refusal."""

    agent: Agent[Any]
    tool: Tool | None
    arguments: str
    output: Any
    info: RealtimeEventInfo
    call_id: str = ""
    type: Literal["tool_end"] = "tool_end"


class RealtimeToolApprovalRequired(Struct):
    """A question to a person. The conversation goes on meanwhile."""

    agent: Agent[Any]
    tool: Tool | None
    call_id: str
    arguments: str
    info: RealtimeEventInfo
    item: ToolApprovalItem
    """The question itself: its id, its digest, its preview and the answers that fit."""
    type: Literal["tool_approval_required"] = "tool_approval_required"


class RealtimeToolApprovalDecided(Struct):
    """The decision on a question, made here or anywhere else, and its author."""

    call_id: str
    question_id: str
    decision: Verdict
    by: str
    info: RealtimeEventInfo
    type: Literal["tool_approval_decided"] = "tool_approval_decided"


class RealtimeAudio(Struct):
    """A piece of the agent's audio, to be played."""

    audio: RealtimeModelAudioEvent
    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio"] = "audio"


class RealtimeAudioEnd(Struct):
    """The agent's audio is complete."""

    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio_end"] = "audio_end"


class RealtimeAudioInterrupted(Struct):
    """The agent was interrupted: stop playing its audio."""

    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio_interrupted"] = "audio_interrupted"


class RealtimeHistoryAdded(Struct):
    """A new item of the conversation."""

    item: RealtimeItem
    info: RealtimeEventInfo
    type: Literal["history_added"] = "history_added"


class RealtimeHistoryUpdated(Struct):
    """The conversation has changed. `history` is all of it; the list belongs to the session."""

    history: list[RealtimeItem]
    info: RealtimeEventInfo
    type: Literal["history_updated"] = "history_updated"


class RealtimeGuardrailTripped(Struct):
    """An output guardrail stopped the agent in the middle of this message."""

    guardrail_results: list[OutputGuardrailResult]
    message: str
    info: RealtimeEventInfo
    type: Literal["guardrail_tripped"] = "guardrail_tripped"


class RealtimeInputAudioTimeoutTriggered(Struct):
    """The user was silent for long."""

    info: RealtimeEventInfo
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


class RealtimeError(Struct):
    """An error that did not end the session: the provider refused an event, or the connection was lost for a moment."""

    error: Any
    info: RealtimeEventInfo
    type: Literal["error"] = "error"


class RealtimeRawModelEvent(Struct):
    """An event of the model, as the session got it."""

    data: RealtimeModelEvent
    info: RealtimeEventInfo
    type: Literal["raw_model_event"] = "raw_model_event"


class RealtimeEventsDropped(Struct):
    """Events were dropped, because too many were unread: audio, raw events and errors that the provider reports.

    Read faster, or iterate in a task of its own. Questions, calls, history and the session's own errors are never
    dropped.
    """

    count: int
    """The number of dropped events."""
    by_type: dict[str, int]
    """The number of dropped events of each `type`."""
    info: RealtimeEventInfo
    type: Literal["events_dropped"] = "events_dropped"


RealtimeSessionEvent = (
    RealtimeAgentStartEvent
    | RealtimeAgentEndEvent
    | RealtimeHandoffEvent
    | RealtimeToolStart
    | RealtimeToolEnd
    | RealtimeToolApprovalRequired
    | RealtimeToolApprovalDecided
    | RealtimeAudio
    | RealtimeAudioEnd
    | RealtimeAudioInterrupted
    | RealtimeHistoryAdded
    | RealtimeHistoryUpdated
    | RealtimeGuardrailTripped
    | RealtimeInputAudioTimeoutTriggered
    | RealtimeError
    | RealtimeRawModelEvent
    | RealtimeEventsDropped
)
"""An event of a live session."""
