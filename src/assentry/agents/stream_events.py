"""The names of `agents.stream_events`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ..runtime import event as own
from ..runtime.event import AgentUpdatedStreamEvent, RawResponsesStreamEvent
from .absent import find_absent

if TYPE_CHECKING:
    from .items import RunItem

    class RunItemStreamEvent(own.RunItemStreamEvent):
        """An item that the run has made, in the skin's classes."""

        item: RunItem
else:
    RunItemStreamEvent = own.RunItemStreamEvent

__all__ = ["AgentUpdatedStreamEvent", "RawResponsesStreamEvent", "RunItemStreamEvent", "StreamEvent", "is_sdk_event"]

StreamEvent: TypeAlias = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent
"""The events that a stream yields, unless it is asked for all."""


def is_sdk_event(event: own.StreamEvent) -> bool:
    """Return True for an event that the SDK has too."""
    if isinstance(event, RunItemStreamEvent):
        return event.name != "other_item_created"
    return isinstance(event, RawResponsesStreamEvent | AgentUpdatedStreamEvent)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
