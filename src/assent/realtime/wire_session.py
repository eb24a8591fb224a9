"""The settings of a live session as the `session` object of OpenAI's Realtime API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.digest import described
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
) -> dict[str, Any]:
    """Return the session with these settings, as a whole; raise `UsageError` for a setting that does not fit.

    Settings that the API keeps when an update leaves them out are always in it, so that none is left from before.
    """
    given = _checked(settings, SETTINGS, "")
    audio = _checked(given.get("audio", {}), AUDIO, "audio.")
    session: dict[str, Any] = {
        "type": "realtime",
        "instructions": given.get("instructions", instructions) or "",
        "output_modalities": _modalities(given),
        "audio": {"input": _input(given, audio.get("input", {})), "output": _output(given, audio.get("output", {}))},
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


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _is_number(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in values


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _is_format(value: Any) -> bool:
    return value in FORMATS if isinstance(value, str) else _is_object(value) and _is_text(value.get("type"))


def _is_text_or_object(value: Any) -> bool:
    return _is_text(value) or (_is_object(value) and bool(value))


def _are_modalities(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 1 and value[0] in ("text", "audio")


def _are_older_modalities(value: Any) -> bool:
    return _are_modalities(value) or (isinstance(value, list | tuple) and sorted(map(str, value)) == ["audio", "text"])


def _is_limit(value: Any) -> bool:
    return value == "inf" or (_is_count(value) and value > 0)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


Check = tuple[Callable[[Any], bool], str]
"""A test of a setting's value, and the values that pass it, in words."""

TEXT: Check = (_is_text, "text")
FLAG: Check = (_is_flag, "True or False")
COUNT: Check = (_is_count, "a whole number, not below 0")
OBJECT: Check = (_is_object, "a dict")
OBJECT_OR_NONE: Check = (_or_none(_is_object), "a dict, or None to turn it off")
FORMAT: Check = (_is_format, '"pcm16", "g711_ulaw", "g711_alaw", or a dict with a "type"')
VOICE: Check = (_is_text_or_object, 'the name of a voice, or {"id": ...}')
SPEED: Check = (_is_number(0.25, 1.5), "a number from 0.25 to 1.5")

SETTINGS: dict[str, Check] = {
    "model_name": TEXT,
    "instructions": (lambda value: isinstance(value, str), "text"),
    "output_modalities": (_are_modalities, '["audio"] or ["text"]'),
    "modalities": (_are_older_modalities, '["audio"], ["text"] or both'),
    "audio": OBJECT,
    "voice": VOICE,
    "speed": SPEED,
    "input_audio_format": FORMAT,
    "output_audio_format": FORMAT,
    "input_audio_transcription": OBJECT_OR_NONE,
    "input_audio_noise_reduction": OBJECT_OR_NONE,
    "turn_detection": OBJECT_OR_NONE,
    "max_output_tokens": (_is_limit, 'a whole number above 0, or "inf"'),
    "tool_choice": (_is_text_or_object, '"auto", "none", "required", the name of a tool, or a dict'),
    "parallel_tool_calls": FLAG,
    "reasoning": OBJECT,
    "prompt": OBJECT,
    "tracing": (lambda value: value is None or value == "auto" or _is_object(value), '"auto", a dict, or None'),
}
AUDIO: dict[str, Check] = {"input": OBJECT, "output": OBJECT}
AUDIO_INPUT: dict[str, Check] = {
    "format": FORMAT,
    "noise_reduction": OBJECT_OR_NONE,
    "transcription": OBJECT_OR_NONE,
    "turn_detection": OBJECT_OR_NONE,
}
AUDIO_OUTPUT: dict[str, Check] = {"format": FORMAT, "voice": VOICE, "speed": SPEED}
TRANSCRIPTION_SETTINGS: dict[str, Check] = {
    "model": TEXT,
    "language": TEXT,
    "prompt": TEXT,
    "delay": TEXT,
    "keywords": (_are_texts, "a list of texts"),
    "languages": (_are_texts, "a list of texts"),
}
NOISE_REDUCTION: dict[str, Check] = {
    "type": (_one_of("near_field", "far_field"), '"near_field" or "far_field"'),
    "strength": (_is_number(0, 1), "a number from 0 to 1"),
}
ANY_VAD: dict[str, Check] = {
    "type": (_one_of("semantic_vad", "server_vad"), '"semantic_vad" or "server_vad"'),
    "create_response": FLAG,
    "interrupt_response": FLAG,
}
SEMANTIC_VAD: dict[str, Check] = {
    "eagerness": (_one_of("auto", "low", "medium", "high"), '"auto", "low", "medium" or "high"'),
}
SERVER_VAD: dict[str, Check] = {
    "prefix_padding_ms": COUNT,
    "silence_duration_ms": COUNT,
    "threshold": (_is_number(0, 1), "a number from 0 to 1"),
    "idle_timeout_ms": (_or_none(_is_count), "a whole number, not below 0, or None"),
}


def _checked(given: Any, known: Mapping[str, Check], where: str) -> dict[str, Any]:
    """Return a copy of the settings at `where`, or raise `UsageError` for one that is not known or does not fit."""
    if not isinstance(given, Mapping):
        raise UsageError(f"The settings of a realtime model are a dict, got {described(given)}.")
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"The setting {where}{name} of a realtime model does not exist; there are: {', '.join(sorted(known))}."
            )
        fits, words = known[name]
        if not fits(value):
            raise UsageError(f"The setting {where}{name} of a realtime model is {words}; got {described(value)}.")
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


def _input(given: Mapping[str, Any], audio: Any) -> dict[str, Any]:
    audio = _checked(audio, AUDIO_INPUT, "audio.input.")
    heard = _either(given, "input_audio_transcription", audio, "input.transcription", {})
    turns = _either(given, "turn_detection", audio, "input.turn_detection", TURN_DETECTION)
    out: dict[str, Any] = {
        "format": _format(_either(given, "input_audio_format", audio, "input.format", "pcm16")),
        "transcription": _transcription(heard),
        "turn_detection": _turn_detection(turns),
    }
    noise = _either(given, "input_audio_noise_reduction", audio, "input.noise_reduction", LEFT_OUT)
    if noise is not LEFT_OUT:
        where = "audio.input.noise_reduction."
        out["noise_reduction"] = None if noise is None else _checked(noise, NOISE_REDUCTION, where)
    return out


def _output(given: Mapping[str, Any], audio: Any) -> dict[str, Any]:
    audio = _checked(audio, AUDIO_OUTPUT, "audio.output.")
    out: dict[str, Any] = {"format": _format(_either(given, "output_audio_format", audio, "output.format", "pcm16"))}
    for name in ("voice", "speed"):
        value = _either(given, name, audio, f"output.{name}", LEFT_OUT)
        if value is not LEFT_OUT:
            out[name] = value
    return out


def _format(given: str | Mapping[str, Any]) -> dict[str, Any]:
    return dict(FORMATS[given]) if isinstance(given, str) else dict(given)


def _transcription(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {"model": TRANSCRIPTION, **_checked(given, TRANSCRIPTION_SETTINGS, "audio.input.transcription.")}


def _turn_detection(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the turn detection. Without a type it is that of its other settings, semantic if both fit."""
    if given is None:
        return None
    where = "audio.input.turn_detection."
    kind = given.get("type", "server_vad" if set(given) & set(SERVER_VAD) else "semantic_vad")
    known = ANY_VAD | (SERVER_VAD if kind == "server_vad" else SEMANTIC_VAD)
    return {"type": kind, **_checked(given, known, where)}


def _choice(choice: str | Mapping[str, Any]) -> str | dict[str, Any]:
    if not isinstance(choice, str):
        return dict(choice)
    return choice if choice in CHOICES else {"type": "function", "name": choice}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "name": spec.name, "description": spec.description, "parameters": spec.parameters}
