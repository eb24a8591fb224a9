"""The settings of a live session, as the dicts that `RealtimeRunner` and `RealtimeRunner.run` take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from ..definitions.guardrail import OutputGuardrail
from ..runtime.config import ToolErrorFormatter
from .playback import RealtimePlaybackTracker

RealtimeAudioFormat = Literal["pcm16", "g711_ulaw", "g711_alaw"] | str | Mapping[str, Any]
"""The format of audio: 16-bit PCM at 24 kHz in one channel, or G.711 at 8 kHz; or the provider's own object."""


class RealtimeTranscriptionConfig(TypedDict, total=False):
    """The transcription of what the user says. Without it, a spoken message is kept without its words."""

    model: str
    language: str
    languages: list[str]
    prompt: str
    keywords: list[str]
    delay: str


class RealtimeTurnDetectionConfig(TypedDict, total=False):
    """The detection of the end of the user's turn."""

    type: Literal["semantic_vad", "server_vad"]
    create_response: bool
    """True if the model replies as soon as the user's turn ends."""
    interrupt_response: bool
    """True if the user's speech stops the model's."""
    eagerness: Literal["auto", "low", "medium", "high"]
    prefix_padding_ms: int
    silence_duration_ms: int
    threshold: float
    idle_timeout_ms: int
    model_version: str
    """The provider's model that detects the turn."""


class RealtimeAudioInputConfig(TypedDict, total=False):
    """The audio that the user sends."""

    format: RealtimeAudioFormat
    noise_reduction: Mapping[str, Any] | None
    transcription: RealtimeTranscriptionConfig | None
    turn_detection: RealtimeTurnDetectionConfig | None
    """None if the end of a turn is not detected: `send_audio(..., commit=True)` ends it."""


class RealtimeAudioOutputConfig(TypedDict, total=False):
    """The audio that the model sends."""

    format: RealtimeAudioFormat
    voice: str | Mapping[str, Any]
    speed: float


class RealtimeAudioConfig(TypedDict, total=False):
    """The audio of a session."""

    input: RealtimeAudioInputConfig
    output: RealtimeAudioOutputConfig


class RealtimeSessionModelSettings(TypedDict, total=False):
    """The settings of the model in a live session."""

    model_name: str
    instructions: str
    """Instructions in place of the agent's own."""
    output_modalities: list[Literal["text", "audio"]]
    """The form of replies, ["audio"] or ["text"]; the transcript of audio comes with it."""
    modalities: list[Literal["text", "audio"]]
    """The older name of `output_modalities`."""
    audio: RealtimeAudioConfig
    voice: str | Mapping[str, Any]
    """Short for `audio["output"]["voice"]`; the next six are short forms too."""
    speed: float
    input_audio_format: RealtimeAudioFormat
    output_audio_format: RealtimeAudioFormat
    input_audio_transcription: RealtimeTranscriptionConfig | None
    input_audio_noise_reduction: Mapping[str, Any] | None
    turn_detection: RealtimeTurnDetectionConfig | None
    max_output_tokens: int | Literal["inf"]
    tool_choice: str | Mapping[str, Any]
    parallel_tool_calls: bool
    reasoning: Mapping[str, Any]
    prompt: Mapping[str, Any]
    tracing: Mapping[str, Any] | Literal["auto"] | None


class RealtimeModelConfig(TypedDict, total=False):
    """The connection to a realtime model."""

    api_key: str | Callable[[], str | Awaitable[str]]
    """The key, or a function that returns it, called for each connection; else `OPENAI_API_KEY`."""
    url: str
    """The address, ws:// or wss://; else that of OpenAI."""
    headers: dict[str, str]
    """The headers of the connection, in place of the one with the key."""
    initial_model_settings: RealtimeSessionModelSettings
    """Settings of the model for this session. They take precedence over those of the runner."""
    playback_tracker: RealtimePlaybackTracker
    """Your own account of the audio that the user has heard; else it is assumed to play as soon as it arrives."""
    connect_timeout: float
    """Seconds to wait for a connection, 10 by default."""
    call_id: str
    """The id of a call that OpenAI has already, such as a phone call, to join instead of beginning a conversation."""


class RealtimeReconnect(TypedDict, total=False):
    """The attempts to connect again after a connection was lost."""

    attempts: int
    """The number of attempts, 3 by default; 0 to let the session end."""
    delay: float
    """Seconds before the first attempt, 0.5 by default; twice as long before each of the next ones."""


class RealtimeGuardrailsSettings(TypedDict, total=False):
    """Settings of output guardrails in a live session."""

    debounce_text_length: int
    """The number of characters after which the guardrails look at a reply again, 100 by default."""


class RealtimeToolExecutionConfig(TypedDict, total=False):
    """Settings of tool calls in a live session."""

    pre_approval_tool_input_guardrails: bool
    """True if a tool's input guardrails also look at a call before anybody is asked about it."""


class RealtimeRunConfig(TypedDict):
    """The settings of live sessions."""

    model_settings: NotRequired[RealtimeSessionModelSettings]
    output_guardrails: NotRequired[list[OutputGuardrail]]
    guardrails_settings: NotRequired[RealtimeGuardrailsSettings]
    tool_execution: NotRequired[RealtimeToolExecutionConfig]
    tool_error_formatter: NotRequired[ToolErrorFormatter]
    reconnect: NotRequired[RealtimeReconnect]
    transcript_wait: NotRequired[float]
    """Seconds that a reply waits to be recorded for the transcript of the speech that it answers, 2 by default."""
    started_by: NotRequired[str]
    """The user who asked for the run. This user decides nothing in it."""
