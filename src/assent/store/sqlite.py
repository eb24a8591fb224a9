"""A store in an SQLite file: the one to begin with, and enough for one machine."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..core.digest import described
from ..errors import StoreFailed, UsageError
from .packing import is_small
from .record import Change, Stored, check_seconds
from .sql.bell import Bell
from .sql.file import File, Handle, Locked
from .sql.lane import Lane
from .sql.leasing import ready
from .sql.reading import FEW, newest_short, read_short
from .sql.statement import Transaction
from .sql.store import SQLStore, Work

R = TypeVar("R")

QUICK = 0.001
"""A file that is written in so many seconds is written where it is asked for: that a thread does it takes as long, and
more of the processor's time. Waiting for a slower disk would be felt by all else on the loop."""
MOST = 50
"""How many facts a change has at most that is written there; a payload that is kept apart is more than enough."""
MANY = 200
"""After how many such changes a thread writes the log into the file, so that none of them has to."""
PATIENCE = 0.05
"""How many seconds pass, while somebody waits, between two looks at what other processes have written."""


class SQLiteStore(SQLStore):
    """Runs in an SQLite file. Any number of stores, threads, event loops and processes may use one file at once.

    The file is made, and its tables are brought to what this Assent needs, on first use. A small write is done on the
    event loop that asks for it, as long as the file takes less than a millisecond for one; all else, and any wait for
    a lock, on a thread.

    Args:
        path: The file. Its directory must be there.
        busy_timeout: How many seconds to wait for a lock that another process holds.
        clock: The time in seconds since 1970; the same for all who use the file.
    """

    def __init__(self, path: str | Path, *, busy_timeout: float = 5.0, clock: Callable[[], float] = time.time) -> None:
        self._file = File(_path(path), _seconds(busy_timeout))
        self._clock = clock
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._known = self._file.known
        self._bell = Bell()
        self._writing, self._reading = Lane(1, "assent-store-write"), Lane(1, "assent-store-read")
        self._writer = Handle(self._file, self._writing.turn)
        self._reader = Handle(self._file, self._reading.turn, reads=True)
        self._logged = 0
        """How many changes were written here since a thread has seen to the log."""
        self._watch = Watch(self._file, self._bell, self._clock)
        parts = (self._writing, self._writer, self._reading, self._reader, self._watch)
        self._let_go = weakref.finalize(self, _let_go, *parts)
        self._let_go.atexit = False

    def __repr__(self) -> str:
        return f"SQLiteStore({self._file.path!r})"

    def clock(self) -> float:
        """The time on the store's clock, in seconds since 1970."""
        return self._clock()

    async def upgrade(self) -> None:
        """Make the file, or bring its tables to what this Assent needs; so does every first use."""
        await self._read(lambda transaction: None)

    async def wait(self, timeout: float) -> None:
        """Return when a run may have become ready to be claimed, and after `timeout` seconds at the latest."""
        check_seconds(timeout=timeout)
        self._check()
        await self._bell.wait(timeout, self._watch.look)

    async def erase(self, run_id: str) -> None:
        """Erase what was said in a run that is over, from the file and from its log."""
        await super().erase(run_id)
        await self._empty_log(f"Run {run_id!r} is erased")

    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        """Delete runs of these statuses that did not change for so many seconds, from the file and from its log."""
        count = await super().purge(unchanged_for=unchanged_for, statuses=statuses)
        if count:
            await self._empty_log(f"{count} runs are deleted")
        return count

    async def vacuum(self) -> None:
        """Write the file anew, without the room that deleted rows have left, and empty its log."""
        self._check()
        await self._writing.do(self._writer.vacuum)
        await self._empty_log("The file was written anew")

    async def _empty_log(self, done: str) -> None:
        """Write the log into the file and cut it to nothing. If that fails, say what was done before."""
        try:
            [[busy, *_]] = await self._reading.do(lambda: self._reader.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        except StoreFailed as error:
            raise self._file.traces(
                done, error.__cause__ if isinstance(error.__cause__, Exception) else error
            ) from error
        if busy:
            raise self._file.traces(done)

    async def close(self) -> None:
        """Let go of the file, when what was begun is done. Closing twice is once."""
        if self._closed:
            return
        self._closed = True
        self._watch.stop()
        self._bell.ring()
        if self._process == os.getpid():
            await self._reading.do(self._reader.disconnect)
            await self._writing.do(self._writer.disconnect)
        self._let_go()

    async def _write(self, work: Work[R]) -> R:
        self._check()
        return await self._writing.do(lambda: self._writer.write(work))

    async def _read(self, work: Work[R], *, snapshot: bool = False) -> R:
        self._check()
        return await self._reading.do(lambda: self._reader.read(work, snapshot=snapshot))

    async def append(self, change: Change) -> None:
        """Write a change in one transaction; durable when it returns."""
        self._check()
        ready = self._append_near(change) if self._writer.pace < QUICK and _is_small(change) else None
        if ready is None:
            await super().append(change)
        else:
            self._appended(change, ready)

    def _append_near(self, change: Change) -> bool | None:
        ready = self._near(
            lambda: self._writer.write(lambda transaction: self._append(transaction, change), waits=False)
        )
        self._logged += ready is not None
        if self._logged >= MANY:
            self._logged = 0
            self._writing.soon(lambda: self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)"))
        return ready

    async def read(self, run_id: str, after: int = 0) -> Stored:
        """A run, with its facts but the first `after`. An erased run has none any more."""
        near = self._read_near(lambda transaction: read_short(transaction, run_id, after, FEW))
        return near if near is not None else await super().read(run_id, after)

    async def newest(self, thread: str) -> Stored | None:
        """The run of a thread that was made last; None if there is no such thread."""
        near = self._read_near(lambda transaction: newest_short(transaction, thread, FEW))
        return near[0] if near is not None else await super().newest(thread)

    def _read_near(self, work: Work[R | None]) -> R | None:
        """It is read by whoever writes, who has in memory what was written last."""
        self._check()
        return self._near(lambda: self._writer.read(work, snapshot=True))

    def _near(self, do: Callable[[], R | None]) -> R | None:
        """What comes of this, done here while nothing is being written; None if it should be done on a thread."""
        if not self._writer.connected or not self._writing.idle or not self._writing.turn.acquire(blocking=False):
            return None
        try:
            return do()
        except Locked:
            return None
        finally:
            self._writing.turn.release()

    def _check(self) -> None:
        if self._closed:
            raise StoreFailed(f"The store in {self._file.path} was closed. Make a new one; the file is still there.")
        if self._process != os.getpid():  # a forked child has none of its parent's threads
            self._writer.disconnect()
            self._reader.disconnect()
            self._let_go.detach()
            self._start()


class Watch:
    """Notices what other processes write to the file, while somebody waits for it: on a thread, with a connection."""

    def __init__(self, file: File, bell: Bell, clock: Callable[[], float]) -> None:
        self._handle, self._bell, self._clock = Handle(file, threading.Lock(), reads=True), bell, clock
        self._wanted = threading.Event()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Somebody is about to wait."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="assent-store-watch", daemon=True)
                self._thread.start()
        self._wanted.set()

    def stop(self) -> None:
        """Let the thread end, and with it the connection."""
        self._stopped.set()
        self._wanted.set()

    def _run(self) -> None:
        version: Any = None
        while not self._stopped.is_set():
            self._wanted.wait()
            self._wanted.clear()
            while not self._stopped.wait(PATIENCE) and self._bell.awaited:
                version = self._changed(version)
        with self._handle.turn:
            self._handle.disconnect()

    def _changed(self, version: Any) -> Any:
        """Ring if the file has changed and there is something to claim; the version that was seen."""
        try:
            with self._handle.turn:
                version = version if self._handle.connected else None  # each connection counts for itself
                newest = self._handle.execute("PRAGMA data_version")
                ready = newest != version and self._handle.read(self._ready)
        except StoreFailed:
            newest, ready = None, True  # whoever claims next is told what is wrong
        if ready:
            self._bell.ring()
        return newest

    def _ready(self, transaction: Transaction) -> bool:
        return ready(transaction, int(self._clock() * 1000))


def _is_small(change: Change) -> bool:
    """Whether a change is written in no time, as far as it is up to the change."""
    return len(change.facts) <= MOST and all(map(is_small, change.facts))


def _let_go(writing: Lane, writer: Handle, reading: Lane, reader: Handle, watch: Watch) -> None:
    watch.stop()
    reading.end(reader.disconnect)
    writing.end(writer.disconnect)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2_000_000:
        raise UsageError(f"A busy_timeout is a number of seconds, 0 or more, got {described(value)}.")
    return value


def _path(given: Any) -> str:
    """The path, whatever the working directory will be."""
    if not isinstance(given, str | os.PathLike) or not isinstance(path := os.fspath(given), str):
        raise UsageError(f"A store's path is that of a file, got {described(given)}.")
    if not path or "\0" in path:
        raise UsageError(f"A store's path is that of a file, got {path!r}.")
    if path == ":memory:":
        raise UsageError("This keeps runs in a file; MemoryStore() keeps them in memory, and InMemorySaver() threads.")
    path = os.path.realpath(path)
    if os.path.isdir(path):
        raise UsageError(f"{path} is a directory; a store's path names a file.")
    if not os.path.isdir(os.path.dirname(path)):
        raise UsageError(f"There is no directory {os.path.dirname(path)} for the store; make it first.")
    return path
