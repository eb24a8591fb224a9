"""The settings of a live session as the `session` object of OpenAI's Realtime API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core import allowed
from ..errors import UsageError
from ..models.model import ToolSpec
from .config import RealtimeSessionModelSettings

FORMATS: dict[str, dict[str, Any]] = {
    "pcm16": {"type": "audio/pcm", "rate": 24_000},
    "audio/pcm": {"type": "audio/pcm", "rate": 24_000},
    "g711_ulaw": {"type": "audio/pcmu"},
    "audio/pcmu": {"type": "audio/pcmu"},
    "g711_alaw": {"type": "audio/pcma"},
    "audio/pcma": {"type": "audio/pcma"},
}
TRANSCRIPTION = "gpt-4o-mini-transcribe"
TURN_DETECTION = {"type": "semantic_vad", "interrupt_response": True}
LEFT_OUT: Any = object()
"""The value of a setting that is left to the API; None turns a thing off."""
CHOICES = ("auto", "none", "required")


def session_of(
    settings: RealtimeSessionModelSettings | Mapping[str, Any],
    instructions: str | None = None,
    tools: Sequence[ToolSpec] = (),
    default_format: Any = "pcm16",
) -> dict[str, Any]:
    """Return the session with these settings, as a whole; raise `UsageError` for a setting that does not fit.

    Settings that the API keeps when an update leaves them out are always in it, so that none is left from before. Only
    the formats of audio are left to the API if `default_format` is LEFT_OUT, because a call has its own.
    """
    given = _check(settings, SETTINGS)
    audio = _check(given.get("audio", {}), AUDIO, "audio.")
    session: dict[str, Any] = {
        "type": "realtime",
        "instructions": given.get("instructions", instructions) or "",
        "output_modalities": _modalities(given),
        "audio": {
            "input": _input(given, audio.get("input", {}), default_format),
            "output": _output(given, audio.get("output", {}), default_format),
        },
        "tools": [_tool(spec) for spec in tools],
        "tool_choice": _choice(given.get("tool_choice", "auto")),
    }
    for name in ("max_output_tokens", "parallel_tool_calls", "reasoning", "prompt", "tracing"):
        if name in given:
            session[name] = given[name]
    return session


# -- checks --------------------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_format(value: Any) -> bool:
    return value in FORMATS if isinstance(value, str) else _is_object(value) and _is_text(value.get("type"))


def _is_text_or_object(value: Any) -> bool:
    return _is_text(value) or (_is_object(value) and bool(value))


def _are_modalities(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 1 and value[0] in ("text", "audio")


def _are_older_modalities(value: Any) -> bool:
    return _are_modalities(value) or (isinstance(value, list | tuple) and sorted(map(str, value)) == ["audio", "text"])


TEXT = allowed.Values("text", _is_text)
TEXTS = allowed.list_of(_is_text, "a list of texts")
COUNT = allowed.whole_number(0)
OBJECT = allowed.Values("a dict", _is_object)
OBJECT_OR_NONE = OBJECT.or_none.in_words("a dict, or None to turn it off")
FORMAT = allowed.Values('"pcm16", "g711_ulaw", "g711_alaw", or a dict with a "type"', _is_format)
VOICE = allowed.Values('the name of a voice, or {"id": ...}', _is_text_or_object)
SPEED = allowed.number(0.25, 1.5)

SETTINGS = allowed.Options(
    model_name=TEXT,
    instructions=allowed.instance_of(str, "text"),
    output_modalities=allowed.Values('["audio"] or ["text"]', _are_modalities),
    modalities=allowed.Values('["audio"], ["text"] or both', _are_older_modalities),
    audio=OBJECT,
    voice=VOICE,
    speed=SPEED,
    input_audio_format=FORMAT,
    output_audio_format=FORMAT,
    input_audio_transcription=OBJECT_OR_NONE,
    input_audio_noise_reduction=OBJECT_OR_NONE,
    turn_detection=OBJECT_OR_NONE,
    max_output_tokens=allowed.Values(
        'a whole number above 0, or "inf"', lambda value: value == "inf" or allowed.COUNT.fits(value)
    ),
    tool_choice=allowed.Values('"auto", "none", "required", the name of a tool, or a dict', _is_text_or_object),
    parallel_tool_calls=allowed.BOOL,
    reasoning=OBJECT,
    prompt=OBJECT,
    tracing=allowed.Values('"auto", a dict', lambda value: value == "auto" or _is_object(value)).or_none,
)
AUDIO = allowed.Options(input=OBJECT, output=OBJECT)
AUDIO_INPUT = allowed.Options(
    format=FORMAT, noise_reduction=OBJECT_OR_NONE, transcription=OBJECT_OR_NONE, turn_detection=OBJECT_OR_NONE
)
AUDIO_OUTPUT = allowed.Options(format=FORMAT, voice=VOICE, speed=SPEED)
TRANSCRIPTION_SETTINGS = allowed.Options(
    model=TEXT, language=TEXT, prompt=TEXT, delay=TEXT, keywords=TEXTS, languages=TEXTS
)
NOISE_REDUCTION = allowed.Options(type=allowed.one_of("near_field", "far_field"), strength=allowed.number(0, 1))
VAD = {
    "type": allowed.one_of("semantic_vad", "server_vad"),
    "create_response": allowed.BOOL,
    "interrupt_response": allowed.BOOL,
    "model_version": TEXT,
}
SEMANTIC_VAD = allowed.Options(**VAD, eagerness=allowed.one_of("auto", "low", "medium", "high"))
SERVER_VAD = allowed.Options(
    **VAD,
    prefix_padding_ms=COUNT,
    silence_duration_ms=COUNT,
    threshold=allowed.number(0, 1),
    idle_timeout_ms=COUNT.or_none,
)


def _check(given: Any, known: allowed.Options, where: str = "") -> dict[str, Any]:
    """Return a copy of the settings at `where`, or raise `UsageError` for one that is not known or does not fit."""
    allowed.check_option("Realtime model", "settings", given, OBJECT, UsageError)
    known.check_items("RealtimeSessionModelSettings", given, UsageError, where)
    return dict(given)


# -- parts of a session --------------------------------------------------------------------------


def _modalities(given: Mapping[str, Any]) -> list[str]:
    if "output_modalities" in given and "modalities" in given:
        raise UsageError("Set output_modalities or modalities of a realtime model, not both: they mean the same.")
    older = given.get("modalities", ["audio"])
    return list(given.get("output_modalities", older if len(older) == 1 else ["audio"]))


def _either(given: Mapping[str, Any], short: str, audio: Mapping[str, Any], long: str, default: Any) -> Any:
    """Return the value of a setting that has a short and a long name; an error if both are given."""
    name = long.rpartition(".")[2]
    if short in given and name in audio:
        raise UsageError(f"Set {short} or audio.{long} of a realtime model, not both: they mean the same.")
    return audio[name] if name in audio else given.get(short, default)


def _input(given: Mapping[str, Any], audio: Any, default_format: Any) -> dict[str, Any]:
    audio = _check(audio, AUDIO_INPUT, "audio.input.")
    heard = _either(given, "input_audio_transcription", audio, "input.transcription", {})
    turns = _either(given, "turn_detection", audio, "input.turn_detection", TURN_DETECTION)
    out: dict[str, Any] = {
        **_format(_either(given, "input_audio_format", audio, "input.format", default_format)),
        "transcription": _transcription(heard),
        "turn_detection": _turn_detection(turns),
    }
    noise = _either(given, "input_audio_noise_reduction", audio, "input.noise_reduction", LEFT_OUT)
    if noise is not LEFT_OUT:
        where = "audio.input.noise_reduction."
        out["noise_reduction"] = None if noise is None else _check(noise, NOISE_REDUCTION, where)
    return out


def _output(given: Mapping[str, Any], audio: Any, default_format: Any) -> dict[str, Any]:
    audio = _check(audio, AUDIO_OUTPUT, "audio.output.")
    out: dict[str, Any] = _format(_either(given, "output_audio_format", audio, "output.format", default_format))
    for name in ("voice", "speed"):
        value = _either(given, name, audio, f"output.{name}", LEFT_OUT)
        if value is not LEFT_OUT:
            out[name] = value
    return out


def _format(given: Any) -> dict[str, Any]:
    if given is LEFT_OUT:
        return {}
    return {"format": dict(FORMATS[given] if isinstance(given, str) else given)}


def _transcription(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {"model": TRANSCRIPTION, **_check(given, TRANSCRIPTION_SETTINGS, "audio.input.transcription.")}


def _turn_detection(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the turn detection. Without a type it is that of its other settings, semantic if both fit."""
    if given is None:
        return None
    where = "audio.input.turn_detection."
    own = SERVER_VAD.options.keys() - VAD.keys()
    kind = given.get("type", "server_vad" if given.keys() & own else "semantic_vad")
    known = SERVER_VAD if kind == "server_vad" else SEMANTIC_VAD
    return {"type": kind, **_check(given, known, where)}


def _choice(choice: str | Mapping[str, Any]) -> str | dict[str, Any]:
    if not isinstance(choice, str):
        return dict(choice)
    return choice if choice in CHOICES else {"type": "function", "name": choice}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "name": spec.name, "description": spec.description, "parameters": spec.parameters}
