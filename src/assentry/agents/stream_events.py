"""The names of `agents.stream_events`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.event import AgentUpdatedStreamEvent, RawResponsesStreamEvent, RunItemStreamEvent, StreamEvent
from .absent import find_absent

__all__ = ["AgentUpdatedStreamEvent", "RawResponsesStreamEvent", "RunItemStreamEvent", "StreamEvent"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
