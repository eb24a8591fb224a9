"""Live sessions with a realtime model: calls pass the same gate and the same door, and wait as in any run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..definitions.handoff import handoff as realtime_handoff
from .agent import RealtimeAgent
from .config import (
    RealtimeAudioFormat,
    RealtimeModelConfig,
    RealtimeRunConfig,
    RealtimeSessionModelSettings,
    RealtimeTurnDetectionConfig,
)
from .event import (
    RealtimeAgentEndEvent,
    RealtimeAgentStartEvent,
    RealtimeAudio,
    RealtimeAudioEnd,
    RealtimeAudioInterrupted,
    RealtimeError,
    RealtimeEventInfo,
    RealtimeEventsDropped,
    RealtimeGuardrailTripped,
    RealtimeHandoffEvent,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeInputAudioTimeoutTriggered,
    RealtimeRawModelEvent,
    RealtimeSessionEvent,
    RealtimeToolApprovalDecided,
    RealtimeToolApprovalRequired,
    RealtimeToolEnd,
    RealtimeToolStart,
)
from .item import (
    AssistantAudio,
    AssistantMessageItem,
    AssistantText,
    InputAudio,
    InputImage,
    InputText,
    RealtimeItem,
    RealtimeToolCallItem,
    SystemMessageItem,
    UserMessageItem,
)
from .model import (
    RealtimeModel,
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelConnectionStatusEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelInputAudioCommittedEvent,
    RealtimeModelInputAudioTimeoutTriggeredEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelListener,
    RealtimeModelOtherEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendInterrupt,
    RealtimeModelSendItems,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)
from .playback import RealtimePlaybackTracker
from .runner import RealtimeRunner
from .session import RealtimeSession

if TYPE_CHECKING:
    from .openai_websocket import OpenAIRealtimeWebSocketModel

__all__ = [
    "AssistantAudio",
    "AssistantMessageItem",
    "AssistantText",
    "InputAudio",
    "InputImage",
    "InputText",
    "OpenAIRealtimeWebSocketModel",
    "RealtimeAgent",
    "RealtimeAgentEndEvent",
    "RealtimeAgentStartEvent",
    "RealtimeAudio",
    "RealtimeAudioEnd",
    "RealtimeAudioFormat",
    "RealtimeAudioInterrupted",
    "RealtimeError",
    "RealtimeEventInfo",
    "RealtimeEventsDropped",
    "RealtimeGuardrailTripped",
    "RealtimeHandoffEvent",
    "RealtimeHistoryAdded",
    "RealtimeHistoryUpdated",
    "RealtimeInputAudioTimeoutTriggered",
    "RealtimeItem",
    "RealtimeModel",
    "RealtimeModelAudioDoneEvent",
    "RealtimeModelAudioEvent",
    "RealtimeModelAudioInterruptedEvent",
    "RealtimeModelConfig",
    "RealtimeModelConnectionStatusEvent",
    "RealtimeModelErrorEvent",
    "RealtimeModelEvent",
    "RealtimeModelInputAudioCommittedEvent",
    "RealtimeModelInputAudioTimeoutTriggeredEvent",
    "RealtimeModelInputAudioTranscriptionCompletedEvent",
    "RealtimeModelItemDeletedEvent",
    "RealtimeModelItemUpdatedEvent",
    "RealtimeModelListener",
    "RealtimeModelOtherEvent",
    "RealtimeModelOutputTextDeltaEvent",
    "RealtimeModelSendAudio",
    "RealtimeModelSendEvent",
    "RealtimeModelSendInterrupt",
    "RealtimeModelSendItems",
    "RealtimeModelSendRawMessage",
    "RealtimeModelSendSessionUpdate",
    "RealtimeModelTranscriptDeltaEvent",
    "RealtimeModelTurnEndedEvent",
    "RealtimeModelTurnStartedEvent",
    "RealtimePlaybackTracker",
    "RealtimeRawModelEvent",
    "RealtimeRunConfig",
    "RealtimeRunner",
    "RealtimeSession",
    "RealtimeSessionEvent",
    "RealtimeSessionModelSettings",
    "RealtimeToolApprovalDecided",
    "RealtimeToolApprovalRequired",
    "RealtimeToolCallItem",
    "RealtimeToolEnd",
    "RealtimeToolStart",
    "RealtimeTurnDetectionConfig",
    "SystemMessageItem",
    "UserMessageItem",
    "realtime_handoff",
]


def __getattr__(name: str) -> Any:
    """Import the model over a WebSocket when it is first used."""
    if name == "OpenAIRealtimeWebSocketModel":
        from .openai_websocket import OpenAIRealtimeWebSocketModel

        return OpenAIRealtimeWebSocketModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
