"""The store in an SQLite file, for one machine. Its SQL is in `store.sql`."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..core import allowed
from ..errors import StoreFailed, UsageError
from ..sql.arguments import BUSY_TIMEOUT, check_path
from ..sql.shared_writes import SharedWrites
from ..sql.sqlite_connection import Handle, Locked
from ..sql.thread_queue import ThreadQueue
from .record import Change, Stored, check_seconds
from .row_codec import is_small
from .sql.leasing import ready
from .sql.preview_requests import has_requests
from .sql.reading import FEW, load_run, newest_short, read_short
from .sql.sqlite_file import StoreFile
from .sql.statement import SQLITE, Transaction
from .sql.store import SQLStore, Work
from .wakeup import Wakeup

R = TypeVar("R")

QUICK = 0.001
"""The mean seconds of a transaction below which the event loop itself writes.

A thread would take as long and use more CPU time. With a slower disk, writing would block the event loop too long.
"""
MOST_FACTS = 50
"""The most facts of a change that the event loop writes itself; a change with blobs is never written there."""
LARGEST_SNAPSHOT = 65536
"""The most bytes of a snapshot that the event loop writes itself."""
MANY = 200
"""The number of changes written on event loops after which a thread checkpoints the write-ahead log."""
POLL = 0.05
"""The seconds between two checks for writes of other processes while somebody waits."""
POLL_ASKS = 0.1
"""The same while somebody waits for requests for previews, or for their answers."""


class SQLiteStore(SQLStore):
    """A store in an SQLite file. Any number of stores, threads, event loops and processes may use one file at once.

    The first use creates the file, or migrates its tables and logs it; processes of an older version that use the file
    cannot write to it from then on. The caller's event loop does small writes, as long as a
    write takes less than a millisecond, and reads short runs. A thread does everything else, and every wait for a lock.

    Args:
        path: The file. Its directory must exist.
        busy_timeout: The seconds to wait for a lock that another process holds.
        clock: A function that returns the time in seconds since 1970; the same for all users of the file.
    """

    def __init__(self, path: str | Path, *, busy_timeout: float = 5.0, clock: Callable[[], float] = time.time) -> None:
        if path == ":memory:":
            raise UsageError(
                "SQLiteStore keeps runs in a file; in memory, MemoryStore() does, and InMemorySaver() threads."
            )
        allowed.check_option("SQLiteStore", "busy_timeout", busy_timeout, BUSY_TIMEOUT, UsageError)
        self._file = StoreFile(check_path(path, "A store's path"), busy_timeout)
        self._clock = clock
        self._closed = False
        self._known = self._file.known
        self._wakeup, self._news, self._asks = Wakeup(), Wakeup(), Wakeup()
        self._writing, self._reading = ThreadQueue(1, "assentry-store-write"), ThreadQueue(1, "assentry-store-read")
        self._writer, self._reader = Handle(self._file, waits=False), Handle(self._file, reads=True)
        self._shared = SharedWrites(self._writing, self._writer)
        self._logged = 0
        """The number of changes written on event loops since the last checkpoint of the log."""
        self._version: Any = None
        """The file's data version when a run to claim was last looked for. Others' writes change it."""
        self._news_version: Any = None
        """The file's data version when news were last looked for."""
        self._asks_version: Any = None
        """The file's data version when requests for previews were last looked for."""
        self._let_go = weakref.finalize(self, _let_go, self._writing, self._writer, self._reading, self._reader)
        self._let_go.atexit = False

    def __repr__(self) -> str:
        return f"SQLiteStore({self._file.path!r})"

    def clock(self) -> float:
        """Return the time on the store's clock, in seconds since 1970."""
        return self._clock()

    async def upgrade(self) -> None:
        """Create the file, or migrate its tables. Every first use does the same."""
        await self._read(lambda transaction: None)

    async def wait(self, timeout: float) -> None:
        """Wait until a run may be ready to claim, at most `timeout` seconds."""
        check_seconds(timeout=timeout)
        self._check()
        await self._woken(self._wakeup, self._look, timeout)

    async def watch(self, timeout: float) -> None:
        """Wait until there may be news, at most `timeout` seconds."""
        check_seconds(timeout=timeout)
        self._check()
        await self._woken(self._news, self._look_for_news, timeout)

    async def _wait_for_asks(self, timeout: float) -> None:
        check_seconds(timeout=timeout)
        self._check()
        await self._woken(self._asks, self._look_for_asks, timeout, POLL_ASKS)

    async def _woken(self, wakeup: Wakeup, look: Callable[[], None], timeout: float, every: float = POLL) -> None:
        watching = asyncio.ensure_future(self._poll(look, every))
        try:
            await wakeup.wait(timeout)
        finally:
            watching.cancel()

    async def _poll(self, look: Callable[[], None], every: float) -> None:
        """Look for writes of other processes, again and again."""
        while True:
            await self._reading.do(look)
            await asyncio.sleep(every)

    def _look_for_asks(self) -> None:
        """Wake those who wait for requests or answers if the file has changed and has any."""
        try:
            before = self._asks_version if self._reader.connected else None
            self._asks_version = self._reader.execute("PRAGMA data_version")
            if self._asks_version != before and self._reader.read(_on(has_requests)):
                self._asks.ring()
        except StoreFailed:
            self._asks_version = None
            self._asks.ring()  # the next look raises the error

    def _look_for_news(self) -> None:
        """Wake those who watch if the file has changed."""
        try:
            before = self._news_version if self._reader.connected else None
            self._news_version = self._reader.execute("PRAGMA data_version")
        except StoreFailed:
            before = self._news_version = None
        if self._news_version != before or self._news_version is None:
            self._news.ring()  # if the file cannot be read, the next look raises the error

    def _look(self) -> None:
        """Wake the waiting tasks if the file has changed and a run can be claimed."""
        try:
            before = self._version if self._reader.connected else None  # each connection has its own counter
            self._version = self._reader.execute("PRAGMA data_version")
            if self._version != before and self._reader.read(_on(self._ready)):
                self._wakeup.ring()
        except StoreFailed:
            self._version = None
            self._wakeup.ring()  # the next claim raises the error

    def _ready(self, transaction: Transaction) -> bool:
        return ready(transaction, self._now())

    async def erase(self, run_id: str) -> None:
        """Erase the content of a run that has ended, from the file and from its log."""
        await super().erase(run_id)
        await self._empty_log(f"Run {run_id!r} is erased")

    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        """Delete the runs with these statuses that did not change for so many seconds, from the file and its log."""
        count = await super().purge(unchanged_for=unchanged_for, statuses=statuses)
        if count:
            await self._empty_log(f"{count} runs are deleted")
        return count

    async def vacuum(self) -> None:
        """Rewrite the file without the free space of deleted rows, and empty its log."""
        self._check()
        await self._writing.do(self._writer.vacuum)
        await self._empty_log("The file was written anew")

    async def _empty_log(self, done: str) -> None:
        """Write the log into the file and truncate the log. An error says what was `done` before."""
        try:
            [[busy, *_]] = await self._reading.do(lambda: self._reader.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        except StoreFailed as error:
            raise self._file.traces(
                done, error.__cause__ if isinstance(error.__cause__, Exception) else error
            ) from error
        if busy:
            raise self._file.traces(done)

    async def close(self) -> None:
        """Close the file after the pending work is done. Closing twice does no harm."""
        if self._closed:
            return
        self._check()
        self._closed = True
        self._wakeup.ring()
        self._news.ring()
        self._asks.ring()
        await self._reading.do(self._reader.disconnect)
        await self._writing.do(self._writer.disconnect)
        self._let_go()

    async def _write(self, work: Work[R]) -> R:
        self._check()
        return await self._writing.do(lambda: self._writer.write(_on(work)))

    async def _read(self, work: Work[R], *, snapshot: bool = False) -> R:
        self._check()
        return await self._reading.do(lambda: self._reader.read(_on(work), snapshot=snapshot))

    async def _read_short(self, work: Work[R]) -> R:
        near = self._read_near(lambda transaction: (work(transaction),))
        return near[0] if near is not None else await self._read(work)

    async def append(self, change: Change) -> None:
        """Write a change in one transaction; the change is durable on return."""
        self._check()
        if not _is_small(change):
            await super().append(change)
            return
        ready = self._append_near(change) if self._writer.pace < QUICK else None
        if ready is None:
            ready = await self._shared.do(_on(lambda transaction: self._append(transaction, change)))
        self._appended(change, ready)

    def _append_near(self, change: Change) -> bool | None:
        append = _on(lambda transaction: self._append(transaction, change))
        ready = self._near(lambda: self._writer.write(append, waits=False))
        self._logged += ready is not None
        if self._logged >= MANY:
            self._logged = 0
            self._writing.soon(lambda: self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)"))
        return ready

    async def read(self, run_id: str, after: int = 0) -> Stored:
        """Return a run, with all facts but the first `after`. An erased run has no facts."""
        near = self._read_near(lambda transaction: read_short(transaction, run_id, after))
        return near if near is not None else await super().read(run_id, after)

    async def _load(self, run_id: str, *, whole: bool) -> Stored:
        near = self._read_near(lambda transaction: load_run(transaction, run_id, whole=whole, most=FEW))
        return near if near is not None else await super()._load(run_id, whole=whole)

    async def newest(self, thread: str) -> Stored | None:
        """Return the newest run of a thread; None if there is no such thread."""
        near = self._read_near(lambda transaction: newest_short(transaction, thread, FEW))
        return near[0] if near is not None else await super().newest(thread)

    def _read_near(self, work: Work[R | None]) -> R | None:
        """Read on the event loop, on the connection of the writer, whose cache is the newest; None to use a thread."""
        self._check()
        return self._near(lambda: self._writer.read(_on(work), snapshot=True))

    def _near(self, do: Callable[[], R | None]) -> R | None:
        """Call `do` on the event loop and return its result; None if a thread should do the work.

        Only while the writer's connection is open and idle.
        """
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
        self._file.owner.check()


def _is_small(change: Change) -> bool:
    """Return True if a change is small enough to be written on the event loop."""
    short = len(change.facts) <= MOST_FACTS and (change.chapter is None or len(change.chapter.body) <= LARGEST_SNAPSHOT)
    return short and all(map(is_small, change.facts))


def _let_go(writing: ThreadQueue, writer: Handle, reading: ThreadQueue, reader: Handle) -> None:
    reading.end(reader.disconnect)
    writing.end(writer.disconnect)


def _on(work: Work[R]) -> Callable[[sqlite3.Connection], R]:
    return lambda connection: work(Transaction(connection, SQLITE))
