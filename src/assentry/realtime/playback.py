"""The audio that the user has heard of a reply: what an interruption cuts off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import TypedDict


class RealtimePlaybackState(TypedDict):
    """The part of a reply that was heard."""

    current_item_id: str | None
    current_item_content_index: int | None
    elapsed_ms: float | None


class RealtimePlaybackTracker:
    """Your account of the audio that the user has heard: call `on_play_ms` or `on_play_bytes` as it is played."""

    def __init__(self) -> None:
        self._format: Any = None
        self._item: tuple[str, int] | None = None
        self._ms = 0.0

    def on_play_bytes(self, item_id: str, item_content_index: int, bytes: bytes) -> None:
        """Note that this audio was played to its end."""
        self.on_play_ms(item_id, item_content_index, length_ms(self._format, len(bytes)))

    def on_play_ms(self, item_id: str, item_content_index: int, ms: float) -> None:
        """Note that so many more milliseconds were played."""
        if self._item != (item_id, item_content_index):
            self._item, self._ms = (item_id, item_content_index), 0.0
        self._ms += ms

    def on_interrupted(self) -> None:
        """Forget the audio: the model calls this when it was interrupted."""
        self._item, self._ms = None, 0.0

    def set_audio_format(self, format: Any) -> None:
        """Set the format of the audio: the model calls this when it is known."""
        self._format = format

    def get_state(self) -> RealtimePlaybackState:
        """Return the item that is played, and how much of it was heard."""
        if self._item is None:
            return {"current_item_id": None, "current_item_content_index": None, "elapsed_ms": None}
        item, index = self._item
        return {"current_item_id": item, "current_item_content_index": index, "elapsed_ms": self._ms}


class AudioClock:
    """The audio that arrived for the current item, and the time since it began to arrive.

    The audio is assumed to play as it arrives, at its own speed, so that the user has heard the shorter of the two.
    """

    __slots__ = ("began", "item", "ms", "now")

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.item: tuple[str, int] | None = None
        self.ms = 0.0
        self.began = 0.0

    def arrived(self, item_id: str, content_index: int, ms: float) -> None:
        """Note audio of an item. The first of an item begins to play when the audio before has ended."""
        if self.item != (item_id, content_index):
            now = self.now()
            self.began = max(now, self.began + self.ms / 1000) if self.item is not None else now
            self.item, self.ms = (item_id, content_index), 0.0
        self.ms += ms

    def heard_ms(self) -> float:
        """Return the milliseconds of the current item that were heard."""
        return max(0.0, min(self.ms, (self.now() - self.began) * 1000))

    def forget(self) -> None:
        """Forget the audio, which was interrupted."""
        self.item, self.ms = None, 0.0


def length_ms(format: str | Mapping[str, Any] | None, size: int) -> float:
    """Return the milliseconds that so many bytes of audio last: PCM is 16-bit, G.711 8-bit at 8 kHz."""
    kind, rate = format, 24_000
    if isinstance(format, Mapping):
        kind, rate = format.get("type"), int(format.get("rate") or 24_000)
    if isinstance(kind, str) and ("g711" in kind or "pcmu" in kind or "pcma" in kind):
        return size / 8
    return size / (2 * rate) * 1000
