"""The settings of a live session as the `session` object of OpenAI's Realtime API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.digest import described
from ..errors import UsageError
from ..models.model import ToolSpec
from .config import RealtimeSessionModelSettings, check_realtime_settings

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
SEMANTIC_VAD = ("eagerness",)
SERVER_VAD = ("prefix_padding_ms", "silence_duration_ms", "threshold", "idle_timeout_ms")


def session_of(
    settings: RealtimeSessionModelSettings | Mapping[str, Any],
    instructions: str | None = None,
    tools: Sequence[ToolSpec] = (),
) -> dict[str, Any]:
    """Return the session with these settings, as a whole; raise `UsageError` for a setting that does not fit.

    Settings that the API keeps when an update leaves them out are always in it, so that none is left from before.
    """
    given = check_realtime_settings(settings, RealtimeSessionModelSettings)
    audio = given.get("audio") or {}
    hears, speaks = audio.get("input") or {}, audio.get("output") or {}
    session: dict[str, Any] = {
        "type": "realtime",
        "instructions": given.get("instructions", instructions) or "",
        "output_modalities": _modalities(given),
        "audio": {"input": _input(given, hears), "output": _output(given, speaks)},
        "tools": [_tool(spec) for spec in tools],
        "tool_choice": _choice(given.get("tool_choice", "auto")),
    }
    for name in ("max_output_tokens", "parallel_tool_calls", "reasoning", "prompt", "tracing"):
        if name in given:
            session[name] = given[name]
    return session


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
    heard = _either(given, "input_audio_transcription", audio, "input.transcription", {})
    turns = _either(given, "turn_detection", audio, "input.turn_detection", TURN_DETECTION)
    out: dict[str, Any] = {
        "format": _format(_either(given, "input_audio_format", audio, "input.format", "pcm16"), "input"),
        "transcription": None if heard is None else {"model": TRANSCRIPTION, **heard},
        "turn_detection": _turn_detection(turns),
    }
    noise = _either(given, "input_audio_noise_reduction", audio, "input.noise_reduction", LEFT_OUT)
    if noise is not LEFT_OUT:
        out["noise_reduction"] = noise
    return out


def _output(given: Mapping[str, Any], audio: Any) -> dict[str, Any]:
    out: dict[str, Any] = {
        "format": _format(_either(given, "output_audio_format", audio, "output.format", "pcm16"), "output")
    }
    for name in ("voice", "speed"):
        value = _either(given, name, audio, f"output.{name}", LEFT_OUT)
        if value is not LEFT_OUT:
            out[name] = value
    return out


def _format(given: Any, where: str) -> dict[str, Any]:
    found = FORMATS.get(given) if isinstance(given, str) else given
    if not isinstance(found, Mapping) or not isinstance(found.get("type"), str):
        fits = '"pcm16", "g711_ulaw", "g711_alaw", or a dict with a "type"'
        raise UsageError(f"The realtime setting {where}_audio_format is {fits}; got {described(given)}.")
    return dict(found)


def _turn_detection(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the turn detection. Without a type it is that of its other settings, semantic if both fit."""
    if given is None:
        return None
    kind = given.get("type", "server_vad" if set(given) & set(SERVER_VAD) else "semantic_vad")
    for name in SEMANTIC_VAD if kind == "server_vad" else SERVER_VAD:
        if name in given:
            raise UsageError(f"The realtime setting turn_detection.{name} is not one of {kind}.")
    return {"type": kind, **given}


def _choice(choice: str | Mapping[str, Any]) -> str | dict[str, Any]:
    if not isinstance(choice, str):
        return dict(choice)
    return choice if choice in CHOICES else {"type": "function", "name": choice}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "name": spec.name, "description": spec.description, "parameters": spec.parameters}
