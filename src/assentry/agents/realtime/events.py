"""The names of `agents.realtime.events`: the events of a live session, and Assentry's own in their form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import DecodeError
from msgspec.json import decode

from ...core.digest import canonical
from ...definitions.handoff import Handoff
from ...realtime import event as native
from ...realtime import item as own
from ..absent import find_absent
from ..guardrail import OutputGuardrailResult
from ..run_context import RunContextWrapper
from ..tool import Tool
from .agent import RealtimeAgent
from .items import RealtimeItem, item_shown
from .model_events import (
    RealtimeModelAudioEvent,
    RealtimeModelEvent,
    RealtimeModelToolCallEvent,
    audio_shown,
    error_shown,
    model_events_shown,
)

__all__ = [
    "RealtimeAgentEndEvent",
    "RealtimeAgentStartEvent",
    "RealtimeAudio",
    "RealtimeAudioEnd",
    "RealtimeAudioInterrupted",
    "RealtimeError",
    "RealtimeEventInfo",
    "RealtimeGuardrailTripped",
    "RealtimeHandoffEvent",
    "RealtimeHistoryAdded",
    "RealtimeHistoryUpdated",
    "RealtimeInputAudioTimeoutTriggered",
    "RealtimeRawModelEvent",
    "RealtimeSessionEvent",
    "RealtimeToolApprovalRequired",
    "RealtimeToolEnd",
    "RealtimeToolStart",
]


@dataclass
class RealtimeEventInfo:
    """The part that all events have."""

    context: RunContextWrapper[Any]


@dataclass
class RealtimeAgentStartEvent:
    """The agent began to reply."""

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_start"] = "agent_start"


@dataclass
class RealtimeAgentEndEvent:
    """The agent has replied, or was stopped."""

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_end"] = "agent_end"


@dataclass
class RealtimeHandoffEvent:
    """Another agent took over."""

    from_agent: RealtimeAgent[Any]
    to_agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["handoff"] = "handoff"


@dataclass
class RealtimeToolStart:
    """A tool's body is about to be entered."""

    agent: RealtimeAgent[Any]
    tool: Tool
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_start"] = "tool_start"


@dataclass
class RealtimeToolEnd:
    """A call has its outcome: from its body, from a person, or a refusal."""

    agent: RealtimeAgent[Any]
    tool: Tool
    arguments: str
    output: Any
    info: RealtimeEventInfo
    type: Literal["tool_end"] = "tool_end"


@dataclass
class RealtimeToolApprovalRequired:
    """A question to a person. The conversation goes on meanwhile."""

    agent: RealtimeAgent[Any]
    tool: Tool
    call_id: str
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_approval_required"] = "tool_approval_required"


@dataclass
class RealtimeRawModelEvent:
    """An event of the model."""

    data: RealtimeModelEvent
    info: RealtimeEventInfo
    type: Literal["raw_model_event"] = "raw_model_event"


@dataclass
class RealtimeAudioEnd:
    """The agent's audio is complete."""

    info: RealtimeEventInfo
    item_id: str
    content_index: int
    type: Literal["audio_end"] = "audio_end"


@dataclass
class RealtimeAudio:
    """A piece of the agent's audio, to be played."""

    audio: RealtimeModelAudioEvent
    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio"] = "audio"


@dataclass
class RealtimeAudioInterrupted:
    """The agent was interrupted: stop playing its audio."""

    info: RealtimeEventInfo
    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass
class RealtimeError:
    """An error that did not end the session."""

    error: Any
    info: RealtimeEventInfo
    type: Literal["error"] = "error"


@dataclass
class RealtimeHistoryUpdated:
    """The conversation has changed; `history` is all of it."""

    history: list[RealtimeItem]
    info: RealtimeEventInfo
    type: Literal["history_updated"] = "history_updated"


@dataclass
class RealtimeHistoryAdded:
    """A new item of the conversation."""

    item: RealtimeItem
    info: RealtimeEventInfo
    type: Literal["history_added"] = "history_added"


@dataclass
class RealtimeGuardrailTripped:
    """An output guardrail stopped the agent in the middle of this message."""

    guardrail_results: list[OutputGuardrailResult]
    message: str
    info: RealtimeEventInfo
    type: Literal["guardrail_tripped"] = "guardrail_tripped"


@dataclass
class RealtimeInputAudioTimeoutTriggered:
    """The user was silent for long."""

    info: RealtimeEventInfo
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


RealtimeSessionEvent: TypeAlias = (
    RealtimeAgentStartEvent
    | RealtimeAgentEndEvent
    | RealtimeHandoffEvent
    | RealtimeToolStart
    | RealtimeToolEnd
    | RealtimeToolApprovalRequired
    | RealtimeRawModelEvent
    | RealtimeAudioEnd
    | RealtimeAudio
    | RealtimeAudioInterrupted
    | RealtimeError
    | RealtimeHistoryUpdated
    | RealtimeHistoryAdded
    | RealtimeGuardrailTripped
    | RealtimeInputAudioTimeoutTriggered
)
"""An event of a live session."""


# -- Assentry's own events in this form ------------------------------------------------------------


class EventForms:
    """The events of one session in this form. It keeps what the events of a call need from one another."""

    def __init__(self, info: RealtimeEventInfo) -> None:
        self._info = info
        self._items: dict[str, tuple[Any, RealtimeItem]] = {}
        """The items of the history, each after the item that it was made from."""
        self._proposed: dict[str, str] = {}
        """The arguments as the model wrote them, by call id."""
        self._asked: dict[str, str] = {}
        """The arguments that a person was asked about, by call id."""

    def show_item(self, item: own.RealtimeItem) -> RealtimeItem:
        """Return an item of the history, the same object as long as the item does not change."""
        known = self._items.get(item.item_id)
        if known is None or known[0] is not item:
            known = self._items[item.item_id] = (item, item_shown(item))
        return known[1]

    def show(self, event: Any) -> Iterator[RealtimeSessionEvent]:
        """Yield one of Assentry's own events in this form: none, one, or several."""
        show = _SHOW.get(type(event))
        if show is not None:
            yield from show(self, event)

    def _raw(self, event: native.RealtimeRawModelEvent) -> Iterator[RealtimeSessionEvent]:
        for each in model_events_shown(event.data):
            if isinstance(each, RealtimeModelToolCallEvent):
                self._proposed[each.call_id] = each.arguments
            yield RealtimeRawModelEvent(each, self._info)

    def _added(self, event: native.RealtimeHistoryAdded) -> Iterator[RealtimeSessionEvent]:
        yield RealtimeHistoryAdded(self.show_item(event.item), self._info)

    def _updated(self, event: native.RealtimeHistoryUpdated) -> Iterator[RealtimeSessionEvent]:
        yield RealtimeHistoryUpdated([self.show_item(item) for item in event.history], self._info)

    def _asks(self, event: native.RealtimeToolApprovalRequired) -> Iterator[RealtimeSessionEvent]:
        arguments = self._proposed.get(event.call_id, event.arguments)
        self._asked[event.call_id] = event.arguments
        agent: Any = event.agent
        tool: Any = event.tool
        yield RealtimeToolApprovalRequired(agent, tool, event.call_id, arguments, self._info)

    def _starts(self, event: native.RealtimeToolStart) -> Iterator[RealtimeSessionEvent]:
        agent: Any = event.agent
        if event.tool is not None and not isinstance(event.tool, Handoff):
            yield RealtimeToolStart(agent, event.tool, self._arguments(event), self._info)

    def _ends(self, event: native.RealtimeToolEnd) -> Iterator[RealtimeSessionEvent]:
        agent: Any = event.agent
        if event.tool is None:
            yield RealtimeError({"message": str(event.output)}, self._info)
        elif not isinstance(event.tool, Handoff):
            yield RealtimeToolEnd(agent, event.tool, self._arguments(event), event.output, self._info)
        self._proposed.pop(event.call_id, None)
        self._asked.pop(event.call_id, None)

    def _arguments(self, event: native.RealtimeToolStart | native.RealtimeToolEnd) -> str:
        """Return the arguments as the model wrote them, or those that a person put in their place."""
        asked = self._asked.get(event.call_id, event.arguments)
        proposed = self._proposed.get(event.call_id, event.arguments)
        return proposed if same_json(asked, event.arguments) else event.arguments

    def _dropped(self, event: native.RealtimeEventsDropped) -> Iterator[RealtimeSessionEvent]:
        kinds = ", ".join(f"{count} of type {kind!r}" for kind, count in event.by_type.items())
        words = f"Events were dropped, because too many were unread: {kinds}. Read faster, or in a task of its own."
        yield RealtimeError(words, self._info)


def same_json(one: str, other: str) -> bool:
    """Return True if two texts are the same JSON, in whatever order and spacing."""
    try:
        return one == other or canonical(decode(one)) == canonical(decode(other))
    except (DecodeError, RecursionError, ValueError):
        return False


_SHOW: dict[type, Callable[[EventForms, Any], Iterable[RealtimeSessionEvent]]] = {
    native.RealtimeRawModelEvent: EventForms._raw,
    native.RealtimeHistoryAdded: EventForms._added,
    native.RealtimeHistoryUpdated: EventForms._updated,
    native.RealtimeToolApprovalRequired: EventForms._asks,
    native.RealtimeToolStart: EventForms._starts,
    native.RealtimeToolEnd: EventForms._ends,
    native.RealtimeEventsDropped: EventForms._dropped,
    native.RealtimeAgentStartEvent: lambda forms, event: [RealtimeAgentStartEvent(event.agent, forms._info)],
    native.RealtimeAgentEndEvent: lambda forms, event: [RealtimeAgentEndEvent(event.agent, forms._info)],
    native.RealtimeHandoffEvent: lambda forms, event: [
        RealtimeHandoffEvent(event.from_agent, event.to_agent, forms._info)
    ],
    native.RealtimeAudio: lambda forms, event: [
        RealtimeAudio(audio_shown(event.audio), event.item_id, event.content_index, forms._info)
    ],
    native.RealtimeAudioEnd: lambda forms, event: [RealtimeAudioEnd(forms._info, event.item_id, event.content_index)],
    native.RealtimeAudioInterrupted: lambda forms, event: [
        RealtimeAudioInterrupted(forms._info, event.item_id, event.content_index)
    ],
    native.RealtimeGuardrailTripped: lambda forms, event: [
        RealtimeGuardrailTripped(event.guardrail_results, event.message, forms._info)
    ],
    native.RealtimeInputAudioTimeoutTriggered: lambda forms, event: [RealtimeInputAudioTimeoutTriggered(forms._info)],
    native.RealtimeError: lambda forms, event: [RealtimeError(error_shown(event.error), forms._info)],
}
"""The form of each kind of event. One that is not here is Assentry's own, and comes if it is asked for."""

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
