"""Numbers for Prometheus, in its text format: requests, decisions, viewers, open questions and their age."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left
from collections import Counter

from ..store.damage import DAMAGE_KINDS, DamageNotes
from ..store.news import Tally
from ..store.store import Store

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (1, 10, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600)
"""The bounds of the waiting times, in seconds."""
KEPT = 10
"""The seconds for which a count of the open questions is kept: a million take most of a second to count."""


HEALTHY, LOOK = 15.0, 1.0
"""The seconds for which a successful read of the store counts, and the least seconds between two reads."""


_LATE = f", counted at most every {KEPT} seconds."


class KeptTally:
    """The count of a store's open questions, kept for some seconds. All who ask during a count share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: tuple[float, Tally] | None = None
        """The last count, and its time on the store's clock."""
        self._counting: dict[asyncio.AbstractEventLoop, asyncio.Task[Tally]] = {}

    async def get(self) -> Tally:
        """Return the count, a new one if the last is too old."""
        await self._store.open()
        if self._kept is not None and 0 <= self._store.clock() - self._kept[0] < KEPT:
            return self._kept[1]
        loop = asyncio.get_running_loop()
        counting = self._counting.get(loop)
        if counting is None:
            counting = self._counting[loop] = loop.create_task(self._count(loop))
        return await asyncio.shield(counting)  # others may wait for it after this request is cancelled

    async def _count(self, loop: asyncio.AbstractEventLoop) -> Tally:
        try:
            tally = await self._store.tally()
            self._kept = self._store.clock(), tally
            return tally
        finally:
            del self._counting[loop]


class KeptHealth:
    """A short read of the store, whose success is kept for some seconds: long reads of others must not delay it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: tuple[float, asyncio.Task[None]] | None = None
        """The newest read, and the time at which it began."""
        self._succeeded = -HEALTHY

    async def check(self) -> None:
        """Return if the store could be read lately; else read it, and raise its error."""
        loop, now = asyncio.get_running_loop(), time.monotonic()
        known = self._read is not None and self._read[1].get_loop() is loop
        if self._read is None or not known or (self._read[1].done() and now - self._read[0] > LOOK):
            self._read = now, loop.create_task(self._look())
            self._read[1].add_done_callback(self._failed)  # so that no error counts as unseen
        if now - self._succeeded > HEALTHY or self._failed(self._read[1]):
            await asyncio.shield(self._read[1])

    async def _look(self) -> None:
        await self._store.runs(limit=1)
        self._succeeded = time.monotonic()

    @staticmethod
    def _failed(task: asyncio.Task[None]) -> bool:
        return task.done() and (task.cancelled() or task.exception() is not None)


class Metrics:
    """The numbers that this process has counted since it began."""

    def __init__(self, damage: DamageNotes | None = None) -> None:
        self._lock = threading.Lock()  # decisions are recorded in several threads
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """The requests, by method, route and status."""
        self.decisions: Counter[str] = Counter()
        self.waits = [0] * (len(BOUNDS) + 1)
        self.waited = 0.0
        self.viewers = 0
        self.damage = damage or DamageNotes()
        self.dropped = 0
        """The viewers that were disconnected because they read too slowly."""

    def decided(self, verdict: str, seconds: float) -> None:
        """Count a decision on a question that had waited so long."""
        with self._lock:
            self.decisions[verdict] += 1
            self.waits[bisect_left(BOUNDS, seconds)] += 1
            self.waited += seconds

    def text(self, tally: Tally, now: int) -> str:
        """Return everything as text; `now` is the store's time in milliseconds."""
        oldest = 0.0 if tally.oldest is None else max(0, now - tally.oldest) / 1000
        lines = [
            *_one("assentry_questions_open", "gauge", f"Open questions{_LATE}", tally.open),
            *_one("assentry_questions_oldest_seconds", "gauge", f"The age of the oldest open question{_LATE}", oldest),
            *_head("assentry_decisions_total", "counter", "Decisions recorded by this process."),
            *(f"assentry_decisions_total{_of(verdict=name)} {n}" for name, n in sorted(self.decisions.items())),
            *self._histogram("assentry_decision_wait_seconds", "The time from a question to its decision."),
            *_head("assentry_http_requests_total", "counter", "Requests answered by this process."),
            *(
                f"assentry_http_requests_total{_of(method=method, route=route, status=status)} {n}"
                for (method, route, status), n in sorted(self.requests.items())
            ),
            *_head("assentry_damaged_rows_total", "counter", "Damaged rows of the store that this process refused."),
            *(f"assentry_damaged_rows_total{_of(kind=kind)} {self.damage.total[kind]}" for kind in DAMAGE_KINDS),
            *_one("assentry_feed_viewers", "gauge", "Open event streams.", self.viewers),
            *_one(
                "assentry_feed_dropped_total", "counter", "Event streams ended for reading too slowly.", self.dropped
            ),
        ]
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str, about: str) -> list[str]:
        total, lines = 0, _head(name, "histogram", about)
        for bound, count in zip((*BOUNDS, "+Inf"), self.waits, strict=True):
            total += count
            lines.append(f"{name}_bucket{_of(le=bound)} {total}")
        return [*lines, f"{name}_sum {self.waited}", f"{name}_count {total}"]


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _one(name: str, kind: str, about: str, value: float) -> list[str]:
    return [*_head(name, kind, about), f"{name} {value}"]


def _of(**labels: object) -> str:
    """Return labels as Prometheus writes them."""

    def quoted(value: object) -> str:
        return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items()) + "}"
