"""The contract between a live session and a realtime model: a connection, the events it brings, the events it is sent.

A model translates a provider's protocol. It does not judge, run or record anything: the session does, from the events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, field

from ..core.facts import Usage
from ..core.transcript import Item
from ..models.model import ToolSpec
from .config import RealtimeModelConfig, RealtimeSessionModelSettings
from .item import RealtimeItem

# -- events of a model ---------------------------------------------------------------------------


class RealtimeModelConnectionStatusEvent(Struct):
    """The connection was made, or lost. After `close`, no loss is told."""

    status: Literal["connecting", "connected", "disconnected"]
    reason: str | None = None
    """The reason of a loss, in words."""
    type: Literal["connection_status"] = "connection_status"


class RealtimeModelTurnStartedEvent(Struct):
    """The model began to reply."""

    response_id: str | None = None
    type: Literal["turn_started"] = "turn_started"


class RealtimeModelAudioEvent(Struct):
    """A piece of the reply's audio."""

    data: bytes
    response_id: str
    item_id: str
    content_index: int
    type: Literal["audio"] = "audio"


class RealtimeModelAudioDoneEvent(Struct):
    """The reply's audio is complete."""

    item_id: str
    content_index: int
    type: Literal["audio_done"] = "audio_done"


class RealtimeModelAudioInterruptedEvent(Struct):
    """The reply's audio was interrupted: stop playing it. What was not heard is cut off at the provider."""

    item_id: str
    content_index: int
    heard_ms: int = 0
    """The milliseconds of the audio that the user has heard."""
    type: Literal["audio_interrupted"] = "audio_interrupted"


class RealtimeModelTranscriptDeltaEvent(Struct):
    """A piece of the transcript of the reply's audio."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["transcript_delta"] = "transcript_delta"


class RealtimeModelOutputTextDeltaEvent(Struct):
    """A piece of the reply's text."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["output_text_delta"] = "output_text_delta"


class RealtimeModelInputAudioCommittedEvent(Struct):
    """The user's speech became a message; its transcript comes later, if at all."""

    item_id: str
    type: Literal["input_audio_committed"] = "input_audio_committed"


class RealtimeModelInputAudioTranscriptionCompletedEvent(Struct):
    """The transcript of the user's speech; None if there is none, because it failed."""

    item_id: str
    transcript: str | None
    type: Literal["input_audio_transcription_completed"] = "input_audio_transcription_completed"


class RealtimeModelInputAudioTimeoutTriggeredEvent(Struct):
    """The user was silent for long."""

    item_id: str
    audio_start_ms: int
    audio_end_ms: int
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


class RealtimeModelItemUpdatedEvent(Struct):
    """An item of the conversation was added or changed, as the provider has it."""

    item: RealtimeItem
    type: Literal["item_updated"] = "item_updated"


class RealtimeModelItemDeletedEvent(Struct):
    """An item of the conversation was deleted."""

    item_id: str
    type: Literal["item_deleted"] = "item_deleted"


class RealtimeModelTurnEndedEvent(Struct):
    """The model has replied, or was stopped.

    This is the one event that makes history: `output` has the reply's complete messages and calls, as items of OpenAI's
    Responses API (`message` with `output_text` parts, `function_call`), without audio. A call that was cut off is
    not in it. A message that was cut off has what was said of it.
    """

    response_id: str | None = None
    output: list[Item] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    status: Literal["completed", "cancelled", "incomplete", "failed"] = "completed"
    reason: str | None = None
    """The reason of a reply that is not complete, in words."""
    usage_details: Any = None
    """The provider's own account of the tokens, if it gives one."""
    type: Literal["turn_ended"] = "turn_ended"


class RealtimeModelErrorEvent(Struct):
    """The provider refused an event, or sent something that cannot be read. The connection stays."""

    error: Any
    type: Literal["error"] = "error"


class RealtimeModelOtherEvent(Struct):
    """Any other event of the provider, as it came."""

    data: dict[str, Any]
    type: Literal["other"] = "other"


RealtimeModelEvent = (
    RealtimeModelConnectionStatusEvent
    | RealtimeModelTurnStartedEvent
    | RealtimeModelAudioEvent
    | RealtimeModelAudioDoneEvent
    | RealtimeModelAudioInterruptedEvent
    | RealtimeModelTranscriptDeltaEvent
    | RealtimeModelOutputTextDeltaEvent
    | RealtimeModelInputAudioCommittedEvent
    | RealtimeModelInputAudioTranscriptionCompletedEvent
    | RealtimeModelInputAudioTimeoutTriggeredEvent
    | RealtimeModelItemUpdatedEvent
    | RealtimeModelItemDeletedEvent
    | RealtimeModelTurnEndedEvent
    | RealtimeModelErrorEvent
    | RealtimeModelOtherEvent
)
"""An event that a model brings."""

# -- events for a model --------------------------------------------------------------------------


class RealtimeModelSendItems(Struct):
    """Add items of OpenAI's Responses API to the conversation: messages, calls and their outputs, as text."""

    items: Sequence[Item]
    start_response: bool = False
    """True if the model replies then; while it is replying, it replies again afterwards."""


class RealtimeModelSendAudio(Struct):
    """Send audio of the user; with `commit`, the user's turn ends with it."""

    audio: bytes
    commit: bool = False


class RealtimeModelSendInterrupt(Struct):
    """Stop the reply under way, and cut off what the user has not heard of it."""


class RealtimeModelSendSessionUpdate(Struct):
    """Change the session: its instructions, tools and settings, as a whole."""

    settings: RealtimeSessionModelSettings
    instructions: str | None = None
    tools: Sequence[ToolSpec] = ()


class RealtimeModelSendRawMessage(Struct):
    """Send an event of the provider's own protocol, as it is."""

    message: dict[str, Any]


RealtimeModelSendEvent = (
    RealtimeModelSendItems
    | RealtimeModelSendAudio
    | RealtimeModelSendInterrupt
    | RealtimeModelSendSessionUpdate
    | RealtimeModelSendRawMessage
)
"""An event that a model is sent."""


class RealtimeModelListener(ABC):
    """The receiver of a model's events."""

    @abstractmethod
    def on_event(self, event: RealtimeModelEvent) -> None:
        """Take an event. It is called on the event loop, and must not block."""


class RealtimeModel(ABC):
    """A realtime model. One object serves one session at a time."""

    name: str = "realtime"
    """The model's name, which is part of an agent's definition."""
    serves: object | None = None
    """The session that the model serves now."""

    @abstractmethod
    async def connect(self, options: RealtimeModelConfig) -> None:
        """Connect, also again after a loss; raise `ModelFailed` if that fails.

        The provider's conversation is empty then. The session sends its settings and its history first.
        """

    @abstractmethod
    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Send the events to this listener from now on."""

    @abstractmethod
    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Send no more events to this listener."""

    @abstractmethod
    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Send an event; raise `ModelFailed` if there is no connection."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection. Closing twice does no harm."""
