"""The names of `agents.realtime.audio_formats`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...realtime.wire_session import FORMATS
from ..absent import find_absent

if TYPE_CHECKING:
    from openai.types.realtime.realtime_audio_formats import RealtimeAudioFormats

__all__ = ["to_realtime_audio_format"]

SHORT = {"pcm": "pcm16", "pcmu": "g711_ulaw", "pcma": "g711_alaw"}


def to_realtime_audio_format(
    input_audio_format: str | RealtimeAudioFormats | Mapping[str, Any] | None,
) -> RealtimeAudioFormats | None:
    """Return a format of audio as OpenAI's client has it; None if it is not known."""
    from openai.types.realtime.realtime_audio_formats import AudioPCM, AudioPCMA, AudioPCMU

    given = input_audio_format
    if isinstance(given, Mapping):
        given = given.get("type")
    if not isinstance(given, str):
        return given
    kinds: dict[str, type[Any]] = {"audio/pcm": AudioPCM, "audio/pcmu": AudioPCMU, "audio/pcma": AudioPCMA}
    found = FORMATS.get(SHORT.get(given, given))
    made: RealtimeAudioFormats | None = kinds[found["type"]](**found) if found is not None else None
    return made


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
