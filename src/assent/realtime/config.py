"""The settings of a live session, as the dicts that `RealtimeRunner` and `RealtimeRunner.run` take.

Each setting is declared once: pydantic checks those that have words for what fits, in `check_realtime_settings`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field, InstanceOf, Strict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict, is_typeddict

from ..core.digest import described
from ..core.number import LARGEST, LONGEST
from ..definitions.guardrail import OutputGuardrail
from ..errors import UsageError
from ..runtime.config import ToolErrorFormatter
from .playback import RealtimePlaybackTracker

RealtimeAudioFormat = Literal["pcm16", "g711_ulaw", "g711_alaw"] | str | Mapping[str, Any]
"""The format of audio: 16-bit PCM at 24 kHz in one channel, or G.711 at 8 kHz; or the provider's own object."""
_Object = Annotated[Mapping[str, Any], Field(min_length=1)]
_Limit = Annotated[int, Field(gt=0, le=LARGEST, description="a whole number above 0")]
_Eagerness = Literal["auto", "low", "medium", "high"]
_Modalities = Annotated[list[Literal["text", "audio"]], Strict(False)]
_Text = Annotated[str, Field(pattern=r"\S", description="text")]
_Flag = Annotated[bool, Field(description="True or False")]
_Count = Annotated[int, Field(ge=0, le=LARGEST, description="a whole number, not below 0")]
_Share = Annotated[float, Field(ge=0, le=1, description="a number from 0 to 1")]
_Seconds = Annotated[float, Field(ge=0, le=LONGEST, description="a number of seconds that is not negative")]
_Speed = Annotated[float, Field(ge=0.25, le=1.5, description="a number from 0.25 to 1.5")]
_Voice = Annotated[_Text | _Object, Field(description='the name of a voice, or {"id": ...}')]
_SomeObject = Annotated[Mapping[str, Any], Field(description="a dict")]


class RealtimeTranscriptionConfig(TypedDict, total=False):
    """The transcription of what the user says. Without it, a spoken message is kept without its words."""

    model: _Text
    language: _Text
    prompt: _Text
    delay: _Text
    keywords: Annotated[list[_Text], Strict(False), Field(description="a list of texts")]
    languages: Annotated[list[_Text], Strict(False), Field(description="a list of texts")]


class RealtimeTurnDetectionConfig(TypedDict, total=False):
    """The detection of the end of the user's turn."""

    type: Annotated[Literal["semantic_vad", "server_vad"], Field(description='"semantic_vad" or "server_vad"')]
    create_response: _Flag
    """True if the model replies as soon as the user's turn ends."""
    interrupt_response: _Flag
    """True if the user's speech stops the model's."""
    eagerness: Annotated[_Eagerness, Field(description='"auto", "low", "medium" or "high"')]
    """Of semantic_vad only; the next four are of server_vad only."""
    prefix_padding_ms: _Count
    silence_duration_ms: _Count
    threshold: _Share
    idle_timeout_ms: Annotated[_Count | None, Field(description="a whole number, not below 0, or None")]


class RealtimeNoiseReduction(TypedDict, total=False):
    """The reduction of noise in the user's audio."""

    type: Annotated[Literal["near_field", "far_field"], Field(description='"near_field" or "far_field"')]
    strength: _Share


class RealtimeAudioInputConfig(TypedDict, total=False):
    """The audio that the user sends."""

    format: RealtimeAudioFormat
    noise_reduction: RealtimeNoiseReduction | None
    transcription: RealtimeTranscriptionConfig | None
    turn_detection: RealtimeTurnDetectionConfig | None
    """None if the end of a turn is not detected: `send_audio(..., commit=True)` ends it."""


class RealtimeAudioOutputConfig(TypedDict, total=False):
    """The audio that the model sends."""

    format: RealtimeAudioFormat
    voice: _Voice
    speed: _Speed


class RealtimeAudioConfig(TypedDict, total=False):
    """The audio of a session."""

    input: RealtimeAudioInputConfig
    output: RealtimeAudioOutputConfig


class RealtimeSessionModelSettings(TypedDict, total=False):
    """The settings of the model in a live session."""

    model_name: _Text
    instructions: Annotated[str, Field(description="text")]
    """Instructions in place of the agent's own."""
    output_modalities: Annotated[_Modalities, Field(min_length=1, max_length=1, description='["audio"] or ["text"]')]
    """The form of replies, ["audio"] or ["text"]; the transcript of audio comes with it."""
    modalities: Annotated[_Modalities, Field(min_length=1, max_length=2, description='["audio"], ["text"] or both')]
    """The older name of `output_modalities`."""
    audio: RealtimeAudioConfig
    voice: _Voice
    """Short for `audio["output"]["voice"]`; the next six are short forms too."""
    speed: _Speed
    input_audio_format: RealtimeAudioFormat
    output_audio_format: RealtimeAudioFormat
    input_audio_transcription: RealtimeTranscriptionConfig | None
    input_audio_noise_reduction: RealtimeNoiseReduction | None
    turn_detection: RealtimeTurnDetectionConfig | None
    max_output_tokens: Annotated[_Limit | Literal["inf"], Field(description='a whole number above 0, or "inf"')]
    tool_choice: Annotated[_Text | _Object, Field(description='"auto", "none", "required", a tool\'s name, or a dict')]
    parallel_tool_calls: _Flag
    reasoning: _SomeObject
    prompt: _SomeObject
    tracing: Annotated[Mapping[str, Any] | Literal["auto"] | None, Field(description='"auto", a dict, or None')]


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
    playback_tracker: Annotated[InstanceOf[RealtimePlaybackTracker], Field(description="a RealtimePlaybackTracker")]
    """Your own account of the audio that the user has heard; else it is assumed to play as soon as it arrives."""
    connect_timeout: Annotated[float, Field(gt=0, description="a number of seconds")]
    """Seconds to wait for a connection, 10 by default."""


class RealtimeReconnect(TypedDict, total=False):
    """The attempts to connect again after a connection was lost."""

    attempts: _Count
    """The number of attempts, 3 by default; 0 to let the session end."""
    delay: _Seconds
    """Seconds before the first attempt, 0.5 by default; twice as long before each of the next ones."""


class RealtimeGuardrailsSettings(TypedDict, total=False):
    """Settings of output guardrails in a live session."""

    debounce_text_length: _Limit
    """The number of characters after which the guardrails look at a reply again, 100 by default."""


class RealtimeToolExecutionConfig(TypedDict, total=False):
    """Settings of tool calls in a live session."""

    pre_approval_tool_input_guardrails: bool
    """True if a tool's input guardrails also look at a call before anybody is asked about it."""


class RealtimeRunConfig(TypedDict, total=False):
    """The settings of live sessions."""

    model_settings: RealtimeSessionModelSettings
    output_guardrails: list[OutputGuardrail]
    guardrails_settings: RealtimeGuardrailsSettings
    tool_execution: RealtimeToolExecutionConfig
    tool_error_formatter: ToolErrorFormatter
    reconnect: RealtimeReconnect
    transcript_wait: _Seconds
    """Seconds that a reply waits to be recorded for the transcript of the speech that it answers, 2 by default."""
    started_by: str
    """The user who asked for the run. This user decides nothing in it."""


@cache
def _checks(kind: Any) -> dict[str, tuple[str, Any]]:
    """Return what fits each setting, in words, and its check; a dict of settings has no words, but its own type."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        words = [each.description or "" for each in getattr(hint, "__metadata__", ()) if isinstance(each, FieldInfo)]
        nested = next((each for each in (hint, *get_args(hint)) if is_typeddict(each)), None)
        found[name] = (words[-1], TypeAdapter(hint)) if words else ("", nested)
    return found


def check_realtime_settings(given: Any, kind: Any, where: str = "") -> dict[str, Any]:
    """Return a copy of the settings at `where`, or raise `UsageError` for one that is not known or does not fit."""
    if not isinstance(given, Mapping):
        raise UsageError(f"The realtime settings {where or 'of a model'} are a dict, got {described(given)}.")
    known = _checks(kind)
    for name, value in given.items():
        place = f"{where}.{name}" if where else name
        if name not in known:
            raise UsageError(f"The realtime setting {place} does not exist; there are: {', '.join(sorted(known))}.")
        words, check = known[name]
        if not words:
            if check is not None and value is not None:
                check_realtime_settings(value, check, place)
            continue
        try:
            check.validate_python(value, strict=True)
        except ValidationError:
            raise UsageError(f"The realtime setting {place} is {words}; got {described(value)}.") from None
    return dict(given)
