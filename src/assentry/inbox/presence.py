"""The viewers of each question: kept in the memory of one server, and nowhere else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LASTS = 45.0
"""Seconds after which somebody who was not heard of again is not looking any more."""
MOST_LOOKERS = 10_000


class Presence:
    """The people who look at questions."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # requests are answered in several threads
        self._seen: dict[str, dict[str, float]] = {}

    def saw(self, question: str, name: str) -> None:
        """Note that somebody looks at a question."""
        with self._lock:
            if len(self._seen) >= MOST_LOOKERS:
                self._seen = {id: kept for id in self._seen if (kept := self._now(id))}
            if len(self._seen) < MOST_LOOKERS or question in self._seen:
                self._seen.setdefault(question, {})[name] = self._clock()

    def gone(self, question: str, name: str) -> None:
        """Note that somebody is done with a question."""
        with self._lock:
            self._seen.get(question, {}).pop(name, None)

    def others(self, question: str, name: str) -> list[str]:
        """Return the other people who look at a question."""
        with self._lock:
            return sorted(other for other in self._now(question) if other != name)

    def _now(self, question: str) -> dict[str, float]:
        since = self._clock() - LASTS
        return {name: at for name, at in self._seen.get(question, {}).items() if at > since}
