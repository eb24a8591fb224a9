"""Runs that wait, kept at hand by the agent that left them: whoever answers soon need not read them.

They are hints. What is written after one is written only if the store has nothing newer; if it has, it is read there.
"""

from __future__ import annotations

import threading

from ..runtime.driver import Driver
from ..store.packing import is_small
from ..store.projection import record_of
from ..store.record import Stored

MOST = 64
"""How many are kept at hand,"""
FEW = 200
"""and how many facts one has at most."""


class Held:
    """The runs that were left last, by their threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Stored] = {}

    def keep(self, driver: Driver) -> None:
        """Keep a run, if it waits, is not large, and is in the store as it is here."""
        journal, keeper = driver.journal, driver.keeper
        run, facts = journal.run, journal.facts
        if keeper is None or keeper.lease is not None or keeper.saved is None or run.began is None:
            return
        if not run.open or len(facts) != keeper.seq or len(facts) > FEW or not all(map(is_small, facts)):
            return
        record = record_of(run, keeper.seq, int(journal.clock() * 1000))
        if record.status != "waiting" or record.thread is None:
            return
        stored = Stored(record=record, facts=facts, context=keeper.saved, fence=keeper.fence)
        with self._lock:
            self._known.pop(record.thread, None)
            self._known[record.thread] = stored
            if len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    def take(self, thread: str) -> Stored | None:
        """The run that waits on a thread, as it was left; it is kept no longer."""
        with self._lock:
            return self._known.pop(thread, None)
