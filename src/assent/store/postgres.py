"""The store in a Postgres database, for several machines. Its SQL is in `store.sql`."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import psycopg
from sqlalchemy import func, select

from ..core import allowed
from ..errors import StoreFailed, UsageError
from ..sql.thread_queue import ThreadQueue
from .record import Change, check_seconds
from .sql.postgres_append import append_at_once, is_ordinary
from .sql.postgres_server import AtOnce, StoreServer
from .sql.prepared import Steps
from .sql.schema import NEWS, READY
from .sql.statement import Statement, Transaction
from .sql.store import SQLStore, Work
from .wakeup import Wakeup

R = TypeVar("R")

RETRY = 1.0
"""The seconds before a lost LISTEN connection is opened again."""
GLANCE = 0.5
"""The seconds between two checks of the listening thread whether the store was closed."""

TELL = {channel: Statement(select(func.pg_notify(channel, ""))) for channel in (READY, NEWS)}


class PostgresStore(SQLStore):
    """A store in a Postgres database, for any number of processes on any number of machines.

    The store's clock is the server's, so that all processes agree. The tables must exist: `assent db upgrade`
    or the method `upgrade` creates and migrates them.

    Args:
        url: The address: `postgresql://user:password@host/database`.
        pool_size: The most connections of the store. From the first `wait` on, one more connection listens.
        clock: A function that returns the time in seconds since 1970, instead of the server's clock; for tests.
        upgrade: True to create the tables on first use, if there are none. Older tables are not migrated: run
            `assent db upgrade`, since processes of the older version cannot write afterwards.
    """

    keeps_dead_rows = True

    def __init__(
        self, url: str, *, pool_size: int = 5, clock: Callable[[], float] | None = None, upgrade: bool = False
    ) -> None:
        allowed.check_option("PostgresStore", "pool_size", pool_size, allowed.whole_number(1, 1000), UsageError)
        self._server = StoreServer(url, pool_size, upgrades=upgrade)
        self._clock = clock
        self._closed = False
        self._known = self._server.known
        self._wakeup, self._news = Wakeup(), Wakeup()
        self._queue = ThreadQueue(pool_size, "assent-store")
        self._ear = Ear(self._server, {READY: self._wakeup, NEWS: self._news})
        self._let_go = weakref.finalize(self, _let_go, self._queue, self._server, self._ear)
        self._let_go.atexit = False

    def __repr__(self) -> str:
        return f"<PostgresStore {self._server.name}>"

    def clock(self) -> float:
        """Return the time on the store's clock, in seconds since 1970.

        The first call reads the server's clock and blocks, unless `open` or another method has read it before.
        """
        return self._server.now() if self._clock is None else self._clock()

    async def open(self) -> None:
        """Read the server's clock, unless it was read before."""
        self._check()
        if self._clock is None and self._server.clock.read() is None:
            await self._queue.do(self._server.now)

    async def upgrade(self) -> None:
        """Create or migrate the tables. A lock makes concurrent upgrades safe."""
        self._check()
        await self._queue.do(self._server.upgrade)

    async def vacuum(self) -> None:
        """Rewrite the tables without changed and deleted rows. Each table is locked meanwhile.

        The server's write-ahead log, replicas and backups keep the old rows for as long as their own rules say.
        """
        self._check()
        await self._queue.do(self._server.vacuum)

    async def wait(self, timeout: float) -> None:
        """Wait until a run may be ready to claim, at most `timeout` seconds."""
        check_seconds(timeout=timeout)
        self._check()
        await self._wakeup.wait(timeout, self._ear.listen)

    async def watch(self, timeout: float) -> None:
        """Wait until there may be news, at most `timeout` seconds."""
        check_seconds(timeout=timeout)
        self._check()
        await self._news.wait(timeout, self._ear.listen)

    async def close(self) -> None:
        """Close the connections after the pending work is done. Closing twice does no harm."""
        if self._closed:
            return
        self._check()
        self._closed = True
        self._ear.stop()
        self._wakeup.ring()
        self._news.ring()
        await self._queue.do(self._server.close)
        self._let_go()

    async def append(self, change: Change) -> None:
        """Write a change in one transaction; the change is durable on return."""

        def at_once() -> Steps[bool]:
            return append_at_once(change, self._now())

        ready = await self._write(
            lambda transaction: self._append(transaction, change),
            at_once if is_ordinary(change, self._known) else None,
        )
        self._appended(change, ready)

    def _tell(self, transaction: Transaction) -> None:
        transaction.rows(TELL[READY])

    def _tell_news(self, transaction: Transaction) -> None:
        transaction.rows(TELL[NEWS])

    async def _write(self, work: Work[R], at_once: AtOnce[R] | None = None) -> R:
        self._check()
        return await self._queue.do(lambda: self._server.write(work, at_once))

    async def _read(self, work: Work[R], *, snapshot: bool = False) -> R:
        self._check()
        way = self._server.snapshot if snapshot else self._server.read
        return await self._queue.do(lambda: way(work))

    def _check(self) -> None:
        if self._closed:
            raise StoreFailed(f"The store in {self._server.name} was closed. Make a new one; the runs are still there.")
        self._server.owner.check()


class Ear:
    """A thread with its own connection that listens for notifications of other processes."""

    def __init__(self, server: StoreServer, wakeups: Mapping[str, Wakeup]) -> None:
        self._server = server
        self._wakeups = wakeups
        """The wakeup of each channel."""
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def listen(self) -> None:
        """Start the thread, unless it runs or was stopped."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="assent-store-listen", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop the thread, which then closes its connection."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with self._server.connect() as connection:
                    for channel in self._wakeups:
                        connection.execute(f"LISTEN {channel}")
                    for wakeup in self._wakeups.values():
                        wakeup.ring()  # notifications before LISTEN were missed
                    self._hear(connection)
            except Exception:  # the next claim raises the error
                self._stopped.wait(RETRY)

    def _hear(self, connection: psycopg.Connection[Any]) -> None:
        while not self._stopped.is_set():
            for heard in connection.notifies(timeout=GLANCE, stop_after=1):
                self._wakeups[heard.channel].ring()


def _let_go(queue: ThreadQueue, server: StoreServer, ear: Ear) -> None:
    ear.stop()
    queue.end(server.close)
