"""The names of `agents.realtime.model`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...realtime import model as native
from ...realtime.config import RealtimeModelConfig
from ...realtime.playback import RealtimePlaybackState, RealtimePlaybackTracker
from ..absent import find_absent
from .model_events import RealtimeModelEvent
from .model_inputs import RealtimeModelSendEvent

__all__ = [
    "RealtimeModel",
    "RealtimeModelConfig",
    "RealtimeModelListener",
    "RealtimePlaybackState",
    "RealtimePlaybackTracker",
]


class RealtimeModelListener(ABC):
    """A receiver of a model's events."""

    @abstractmethod
    async def on_event(self, event: RealtimeModelEvent) -> None:
        """Take an event."""


class RealtimeModel(native.RealtimeModel):
    """A realtime model. One that you write yourself is a subclass of `assentry.realtime.RealtimeModel` instead."""

    @abstractmethod
    def add_listener(self, listener: RealtimeModelListener | native.RealtimeModelListener) -> None:
        """Send the events to this listener from now on."""

    @abstractmethod
    def remove_listener(self, listener: RealtimeModelListener | native.RealtimeModelListener) -> None:
        """Send no more events to this listener."""

    @abstractmethod
    async def send_event(self, event: RealtimeModelSendEvent | native.RealtimeModelSendEvent) -> None:
        """Send an event."""

    async def send_event_if(
        self, event: RealtimeModelSendEvent | native.RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        """Send an event if the condition holds, and return True if it was sent."""
        if not send_if():
            return False
        await self.send_event(event)
        return True


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
