"""The names of `agents.realtime.model_events`: the events of a realtime model, and Assentry's own in their form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ...core.facts import Usage as OwnUsage
from ...realtime import model as native
from ..absent import find_absent
from ..usage import Usage
from .items import RealtimeItem, item_shown

__all__ = [
    "RealtimeConnectionStatus",
    "RealtimeModelAudioDoneEvent",
    "RealtimeModelAudioEvent",
    "RealtimeModelAudioInterruptedEvent",
    "RealtimeModelCachedTokensDetails",
    "RealtimeModelConnectionStatusEvent",
    "RealtimeModelEndOfStreamEvent",
    "RealtimeModelErrorEvent",
    "RealtimeModelEvent",
    "RealtimeModelExceptionEvent",
    "RealtimeModelInputAudioTimeoutTriggeredEvent",
    "RealtimeModelInputAudioTranscriptionCompletedEvent",
    "RealtimeModelInputTokensDetails",
    "RealtimeModelItemDeletedEvent",
    "RealtimeModelItemUpdatedEvent",
    "RealtimeModelOtherEvent",
    "RealtimeModelOutputTextDeltaEvent",
    "RealtimeModelOutputTokensDetails",
    "RealtimeModelRawServerEvent",
    "RealtimeModelToolCallEvent",
    "RealtimeModelTranscriptDeltaEvent",
    "RealtimeModelTurnEndedEvent",
    "RealtimeModelTurnStartedEvent",
    "RealtimeModelUsageEvent",
]

RealtimeConnectionStatus: TypeAlias = Literal["connecting", "connected", "disconnected"]
"""The state of a connection."""


@dataclass
class RealtimeModelErrorEvent:
    """The provider refused an event, or sent something that cannot be read."""

    error: Any
    type: Literal["error"] = "error"


@dataclass
class RealtimeModelToolCallEvent:
    """The model called a tool."""

    name: str
    call_id: str
    arguments: str
    id: str | None = None
    previous_item_id: str | None = None
    type: Literal["function_call"] = "function_call"


@dataclass
class RealtimeModelAudioEvent:
    """A piece of the reply's audio."""

    data: bytes
    response_id: str
    item_id: str
    content_index: int
    type: Literal["audio"] = "audio"


@dataclass
class RealtimeModelAudioInterruptedEvent:
    """The reply's audio was interrupted."""

    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass
class RealtimeModelAudioDoneEvent:
    """The reply's audio is complete."""

    item_id: str
    content_index: int
    type: Literal["audio_done"] = "audio_done"


@dataclass
class RealtimeModelInputAudioTranscriptionCompletedEvent:
    """The transcript of the user's speech."""

    item_id: str
    transcript: str
    type: Literal["input_audio_transcription_completed"] = "input_audio_transcription_completed"


@dataclass
class RealtimeModelInputAudioTimeoutTriggeredEvent:
    """The user was silent for long."""

    item_id: str
    audio_start_ms: int
    audio_end_ms: int
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


@dataclass
class RealtimeModelTranscriptDeltaEvent:
    """A piece of the transcript of the reply's audio."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["transcript_delta"] = "transcript_delta"


@dataclass
class RealtimeModelOutputTextDeltaEvent:
    """A piece of the reply's text."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["output_text_delta"] = "output_text_delta"


@dataclass
class RealtimeModelItemUpdatedEvent:
    """An item of the conversation was added or changed."""

    item: RealtimeItem
    type: Literal["item_updated"] = "item_updated"


@dataclass
class RealtimeModelItemDeletedEvent:
    """An item of the conversation was deleted."""

    item_id: str
    type: Literal["item_deleted"] = "item_deleted"


@dataclass
class RealtimeModelConnectionStatusEvent:
    """The connection was made, or lost."""

    status: RealtimeConnectionStatus
    type: Literal["connection_status"] = "connection_status"


@dataclass
class RealtimeModelEndOfStreamEvent:
    """The model sends no more events. Assentry's own models connect again instead."""

    type: Literal["end_of_stream"] = "end_of_stream"


@dataclass
class RealtimeModelTurnStartedEvent:
    """The model began to reply."""

    type: Literal["turn_started"] = "turn_started"
    response_id: str | None = None


@dataclass
class RealtimeModelCachedTokensDetails:
    """The cached input tokens by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None


@dataclass
class RealtimeModelInputTokensDetails:
    """The input tokens by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None
    cached_tokens: int | None = None
    cached_tokens_details: RealtimeModelCachedTokensDetails | None = None


@dataclass
class RealtimeModelOutputTokensDetails:
    """The output tokens by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None


@dataclass
class RealtimeModelUsageEvent:
    """The tokens that a reply has used."""

    usage: Usage
    input_tokens_details: RealtimeModelInputTokensDetails | None = None
    output_tokens_details: RealtimeModelOutputTokensDetails | None = None
    type: Literal["usage"] = "usage"


@dataclass
class RealtimeModelTurnEndedEvent:
    """The model has replied, or was stopped."""

    type: Literal["turn_ended"] = "turn_ended"
    response_id: str | None = None


@dataclass
class RealtimeModelOtherEvent:
    """Any other event of the provider."""

    data: Any
    type: Literal["other"] = "other"


@dataclass
class RealtimeModelExceptionEvent:
    """An exception that ends the session."""

    exception: Exception
    context: str | None = None
    type: Literal["exception"] = "exception"


@dataclass
class RealtimeModelRawServerEvent:
    """A message of the server, as it came."""

    data: Any
    type: Literal["raw_server_event"] = "raw_server_event"


RealtimeModelEvent: TypeAlias = (
    RealtimeModelErrorEvent
    | RealtimeModelToolCallEvent
    | RealtimeModelAudioEvent
    | RealtimeModelAudioInterruptedEvent
    | RealtimeModelAudioDoneEvent
    | RealtimeModelInputAudioTimeoutTriggeredEvent
    | RealtimeModelInputAudioTranscriptionCompletedEvent
    | RealtimeModelTranscriptDeltaEvent
    | RealtimeModelOutputTextDeltaEvent
    | RealtimeModelItemUpdatedEvent
    | RealtimeModelItemDeletedEvent
    | RealtimeModelConnectionStatusEvent
    | RealtimeModelEndOfStreamEvent
    | RealtimeModelTurnStartedEvent
    | RealtimeModelUsageEvent
    | RealtimeModelTurnEndedEvent
    | RealtimeModelOtherEvent
    | RealtimeModelExceptionEvent
    | RealtimeModelRawServerEvent
)
"""An event of a realtime model."""


# -- Assentry's own events in this form ------------------------------------------------------------


def model_events_shown(event: Any) -> Iterator[RealtimeModelEvent]:
    """Yield an event of Assentry's realtime models in this form: none, one, or several."""
    show = _SHOW.get(type(event))
    if show is not None:
        yield from show(event)
    elif isinstance(event, RealtimeModelRawServerEvent):
        yield event


def audio_shown(event: native.RealtimeModelAudioEvent) -> RealtimeModelAudioEvent:
    """Return a piece of audio in this form."""
    return RealtimeModelAudioEvent(event.data, event.response_id, event.item_id, event.content_index)


def error_shown(error: Any) -> Any:
    """Return an error of the provider as OpenAI's client has it; any other error as it is."""
    if not isinstance(error, Mapping):
        return error
    try:
        from openai.types.realtime import RealtimeError
    except ImportError:
        return error
    return RealtimeError.construct(None, **error)


def _end_of_turn(event: native.RealtimeModelTurnEndedEvent) -> Iterator[RealtimeModelEvent]:
    for item in event.output:
        if item.get("type") == "function_call":
            yield RealtimeModelToolCallEvent(item["name"], item["call_id"], item["arguments"], item.get("id"))
    if any(event.usage.numbers()):
        details = event.usage_details
        heard, spoken = _mapping(details, "input_token_details"), _mapping(details, "output_token_details")
        yield RealtimeModelUsageEvent(_usage_shown(event.usage), _input_details(heard), _output_details(spoken))
    yield RealtimeModelTurnEndedEvent(response_id=event.response_id)


def _usage_shown(usage: OwnUsage) -> Usage:
    return Usage.of(usage)


def _mapping(given: Any, name: str) -> Mapping[str, Any] | None:
    found = given.get(name) if isinstance(given, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _input_details(given: Mapping[str, Any] | None) -> RealtimeModelInputTokensDetails | None:
    if given is None:
        return None
    cached, get = _mapping(given, "cached_tokens_details"), given.get
    kinds = ("text_tokens", "audio_tokens", "image_tokens")
    details = None if cached is None else RealtimeModelCachedTokensDetails(*map(cached.get, kinds))
    text, audio, image = map(get, kinds)
    return RealtimeModelInputTokensDetails(text, audio, image, get("cached_tokens"), details)


def _output_details(given: Mapping[str, Any] | None) -> RealtimeModelOutputTokensDetails | None:
    if given is None:
        return None
    return RealtimeModelOutputTokensDetails(given.get("text_tokens"), given.get("audio_tokens"))


def _words(event: native.RealtimeModelInputAudioTranscriptionCompletedEvent) -> Iterator[RealtimeModelEvent]:
    if event.transcript is not None:
        yield RealtimeModelInputAudioTranscriptionCompletedEvent(event.item_id, event.transcript)


_SHOW: dict[type, Callable[[Any], Any]] = {
    native.RealtimeModelConnectionStatusEvent: lambda event: [RealtimeModelConnectionStatusEvent(event.status)],
    native.RealtimeModelTurnStartedEvent: lambda event: [RealtimeModelTurnStartedEvent(response_id=event.response_id)],
    native.RealtimeModelTurnEndedEvent: _end_of_turn,
    native.RealtimeModelAudioEvent: lambda event: [audio_shown(event)],
    native.RealtimeModelAudioDoneEvent: lambda event: [RealtimeModelAudioDoneEvent(event.item_id, event.content_index)],
    native.RealtimeModelAudioInterruptedEvent: lambda event: [
        RealtimeModelAudioInterruptedEvent(event.item_id, event.content_index)
    ],
    native.RealtimeModelTranscriptDeltaEvent: lambda event: [
        RealtimeModelTranscriptDeltaEvent(event.item_id, event.delta, event.response_id)
    ],
    native.RealtimeModelOutputTextDeltaEvent: lambda event: [
        RealtimeModelOutputTextDeltaEvent(event.item_id, event.delta, event.response_id)
    ],
    native.RealtimeModelInputAudioTranscriptionCompletedEvent: _words,
    native.RealtimeModelInputAudioTimeoutTriggeredEvent: lambda event: [
        RealtimeModelInputAudioTimeoutTriggeredEvent(event.item_id, event.audio_start_ms, event.audio_end_ms)
    ],
    native.RealtimeModelItemUpdatedEvent: lambda event: [RealtimeModelItemUpdatedEvent(item_shown(event.item))],
    native.RealtimeModelItemDeletedEvent: lambda event: [RealtimeModelItemDeletedEvent(event.item_id)],
    native.RealtimeModelErrorEvent: lambda event: [RealtimeModelErrorEvent(error_shown(event.error))],
}
"""The form of each kind of event. Those that are not here came with the server's message, which is an event too."""

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
