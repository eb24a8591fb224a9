"""Short writes to an SQLite file that share a commit.

A commit waits for the disk, which takes much longer than the statements before it. So all writes that wait for the
writer thread are done in one transaction, each in a savepoint of its own: one that is refused changes only itself. No
caller gets a result before the shared commit is durable.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, TypeVar

from .sqlite_connection import Handle, Outcome, Work
from .thread_queue import ThreadQueue, settle_future

R = TypeVar("R")

MOST_WRITES = 100
"""The most writes of one transaction. Other processes wait for its end."""

Waiting = tuple[Work[Any], "asyncio.Future[Any]"]


class SharedWrites:
    """The short writes that wait for a connection. Its queue must have one thread."""

    def __init__(self, queue: ThreadQueue, handle: Handle) -> None:
        self._queue, self._handle = queue, handle
        self._lock = threading.Lock()
        self._waiting: list[Waiting] = []

    def do(self, work: Work[R]) -> asyncio.Future[R]:
        """Queue a write and return a future for its result. A write may be run twice: it must have no other effects."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append((work, future))
            first = len(self._waiting) == 1
        if first:
            self._queue.then(self._write, _tell)
        return future

    def _write(self) -> list[tuple[asyncio.Future[Any], Outcome]]:
        """Do all writes that wait by now."""
        with self._lock:
            taken, self._waiting = self._waiting, []
        done: list[tuple[asyncio.Future[Any], Outcome]] = []
        for start in range(0, len(taken), MOST_WRITES):
            some = [(work, future) for work, future in taken[start : start + MOST_WRITES] if not future.cancelled()]
            outcomes = self._handle.write_all([work for work, _ in some])
            done += zip([future for _, future in some], outcomes, strict=True)
        return done


def _tell(done: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    """Give each caller its outcome. The turn is over by then, since the caller may need it next."""
    for future, outcome in done:
        settle_future(future, *outcome)
