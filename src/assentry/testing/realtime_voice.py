"""Sound for the local realtime server: tones in place of speech, and the detection of speech by its loudness."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

RATE = 24_000
WORD_MS = 200
"""The milliseconds of tone for a word."""
CHUNK_MS = 100
FRAME_MS = 20
LOUD = 0.02
"""The loudness, of 1, from which on a frame counts as speech."""


def bytes_per_ms(format: Mapping[str, Any]) -> int:
    """Return the bytes of a millisecond of audio: 16-bit PCM at 24 kHz, or G.711 at 8 kHz."""
    return RATE * 2 // 1000 if format.get("type") == "audio/pcm" else 8


@lru_cache(maxsize=64)
def tone(kind: str, pitch: int, ms: int = CHUNK_MS) -> bytes:
    """Return a sine of this pitch, in hertz, that fades in and out."""
    rate = RATE if kind == "audio/pcm" else 8_000
    count = rate * ms // 1000
    edge = max(1, count // 10)
    samples = array("h", bytes(2 * count))
    for n in range(count):
        level = 6_000 * min(1.0, n / edge, (count - n) / edge)
        samples[n] = int(level * math.sin(2 * math.pi * pitch * n / rate))
    if kind == "audio/pcmu":
        return bytes(map(_ulaw, samples))
    if kind == "audio/pcma":
        return bytes(map(_alaw, samples))
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()


def _ulaw(sample: int) -> int:
    level = min(abs(sample), 32_635) + 132
    exponent = max(0, level.bit_length() - 8)
    return ~((0x80 if sample < 0 else 0) | (exponent << 4) | ((level >> (exponent + 3)) & 0x0F)) & 0xFF


def _alaw(sample: int) -> int:
    level = min(abs(sample), 32_767) >> 4
    exponent = max(0, level.bit_length() - 4)
    mantissa = (level >> max(0, exponent - 1)) & 0x0F
    return ((0x80 if sample >= 0 else 0) | (exponent << 4) | mantissa) ^ 0x55


def word_tones(word: str, format: Mapping[str, Any]) -> list[bytes]:
    """Return the tones of a word in chunks. Words of another length have another pitch."""
    pitch = 200 + 40 * (len(word) % 8)
    return [tone(str(format.get("type")), pitch)] * (WORD_MS // CHUNK_MS)


def loudness(pcm: bytes) -> float:
    """Return the root mean square of 16-bit PCM, of 1."""
    samples = array("h", pcm[: len(pcm) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    return math.sqrt(sum(each * each for each in samples) / len(samples)) / 32_768 if samples else 0.0


class SpeechDetector:
    """The detection of the user's turns in PCM, by loudness. Time is counted in audio, not by a clock."""

    def __init__(self) -> None:
        self.ms = 0
        """The milliseconds that came so far."""
        self.speaking = False
        self._silence_ms = 0
        self._rest = b""

    def detect(self, pcm: bytes, silence_ms: int) -> list[str]:
        """Return "started" and "stopped" in the order in which the speech in this audio does so."""
        out = []
        size = FRAME_MS * RATE * 2 // 1000
        data = self._rest + pcm
        for at in range(0, len(data) - size + 1, size):
            self.ms += FRAME_MS
            if loudness(data[at : at + size]) >= LOUD:
                self._silence_ms = 0
                if not self.speaking:
                    self.speaking = True
                    out.append("started")
            elif self.speaking:
                self._silence_ms += FRAME_MS
                if self._silence_ms >= silence_ms:
                    self.speaking, self._silence_ms = False, 0
                    out.append("stopped")
        self._rest = data[len(data) // size * size :]
        return out

    def reset(self) -> None:
        """Start over: the audio was committed or cleared."""
        self.speaking, self._silence_ms, self._rest = False, 0, b""
