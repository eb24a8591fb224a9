"""Limits on attempts, kept in memory: a restart forgets them, and each process counts for itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ..errors import TooManyAttempts
from .language import translate, translate_count

MOST_KEYS = 10_000
"""The most keys that a limit remembers; the one that was used longest ago is forgotten first."""


class Limit:
    """At most `most` attempts in `seconds`, for each key."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._times: dict[str, list[float]] = {}

    def take(self, key: str) -> None:
        """Count an attempt; raise `TooManyAttempts` if there were too many."""
        now = self._clock()
        times = [at for at in self._times.pop(key, ()) if now - at < self._seconds]
        self._times[key] = times  # a dictionary is in the order of its insertions, so this key is the newest now
        if len(times) >= self._most:
            wait = max(1, math.ceil(times[0] + self._seconds - now))
            said = translate("There were too many attempts to sign in. Try again in {time}.", time=_words(wait))
            raise TooManyAttempts(said, retry_after=wait)
        times.append(now)
        if len(self._times) > MOST_KEYS:
            del self._times[next(iter(self._times))]

    def give_back(self, key: str) -> None:
        """Take the last attempt back, since it was no failure."""
        if self._times.get(key):
            self._times[key].pop()

    def forget(self, key: str) -> None:
        """Forget all attempts of a key."""
        self._times.pop(key, None)


class Memory:
    """Keys that were seen; the one that was seen longest ago is forgotten first."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, key: str) -> None:
        """Remember a key."""
        self._keys.pop(key, None)
        self._keys[key] = None
        if len(self._keys) > MOST_KEYS:
            del self._keys[next(iter(self._keys))]


def _words(seconds: int) -> str:
    if seconds < 60:
        return translate_count("{n} second", "{n} seconds", seconds)
    return translate_count("{n} minute", "{n} minutes", math.ceil(seconds / 60))
