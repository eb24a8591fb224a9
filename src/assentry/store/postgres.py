"""The store in a Postgres database, for several machines. Its SQL is in `store.sql`."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import psycopg
from sqlalchemy import func, select

from ..core import allowed
from ..core.wording import described
from ..errors import StoreFailed, UsageError
from ..sql.postgres_connection import connection_address
from ..sql.thread_queue import ThreadQueue
from .record import check_seconds
from .sql.postgres_server import StoreServer
from .sql.schema import ASKS, NEWS, READY
from .sql.statement import Statement, Transaction
from .sql.store import SQLStore, Work
from .wakeup import Wakeup

R = TypeVar("R")

RETRY = 1.0
"""The seconds before a lost LISTEN connection is opened again."""
GLANCE = 0.5
"""The seconds between two checks of the listening thread whether the store was closed."""

_ready, _news = func.pg_notify(READY, ""), func.pg_notify(NEWS, "")
NOTIFY = {
    (True, False): Statement(select(_ready)),
    (False, True): Statement(select(_news)),
    (True, True): Statement(select(_ready, _news)),
}
"""The statements that notify other processes: that a run may be claimed, that there is news, or both."""
NOTIFY_ASKS = Statement(select(func.pg_notify(ASKS, "")))


class PostgresStore(SQLStore):
    """A store in a Postgres database, for any number of processes on any number of machines.

    The store's clock is the server's, so that all processes agree. The tables must exist: `assentry db upgrade`
    or the method `upgrade` creates and migrates them.

    Args:
        url: The address: `postgresql://user:password@host/database`.
        pool_size: The most connections of the store. From the first `wait` on, one more connection listens.
        clock: A function that returns the time in seconds since 1970, instead of the server's clock; for tests.
        upgrade: True to create the tables on first use, if there are none. Older tables are not migrated: run
            `assentry db upgrade`, since processes of the older version cannot write afterwards.
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
        self._wakeup, self._news, self._asks = Wakeup(), Wakeup(), Wakeup()
        self._queue = ThreadQueue(pool_size, "assentry-store")
        channels = {READY: self._wakeup, NEWS: self._news, ASKS: self._asks}
        self._listener = NotificationListener(self._server, channels)
        self._let_go = weakref.finalize(self, _let_go, self._queue, self._server, self._listener)
        self._let_go.atexit = False

    @classmethod
    def at(cls, connection: Any) -> Self:
        """Make a store in the database of a psycopg connection or pool, with connections of its own."""
        address = connection_address(connection)
        if address is None:
            raise UsageError(
                "A store in Postgres is made from an address, or from a psycopg connection or pool; got "
                f"{described(connection)}."
            )
        return cls(address)

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
        await self._wakeup.wait(timeout, self._listener.listen)

    async def watch(self, timeout: float) -> None:
        """Wait until there may be news, at most `timeout` seconds."""
        check_seconds(timeout=timeout)
        self._check()
        await self._news.wait(timeout, self._listener.listen)

    async def _wait_for_asks(self, timeout: float) -> None:
        check_seconds(timeout=timeout)
        self._check()
        await self._asks.wait(timeout, self._listener.listen)

    async def close(self) -> None:
        """Close the connections after the pending work is done. Closing twice does no harm."""
        if self._closed:
            return
        self._check()
        self._closed = True
        self._listener.stop()
        self._wakeup.ring()
        self._news.ring()
        self._asks.ring()
        await self._queue.do(self._server.close)
        self._let_go()

    def _notify(self, transaction: Transaction, *, ready: bool = False, news: bool = False) -> None:
        if ready or news:
            transaction.execute(NOTIFY[ready, news])

    def _notify_asks(self, transaction: Transaction) -> None:
        transaction.execute(NOTIFY_ASKS)

    async def _write(self, work: Work[R]) -> R:
        self._check()
        return await self._queue.do(lambda: self._server.write(work))

    async def _read(self, work: Work[R], *, snapshot: bool = False) -> R:
        self._check()
        way = self._server.snapshot if snapshot else self._server.read
        return await self._queue.do(lambda: way(work))

    def _check(self) -> None:
        if self._closed:
            raise StoreFailed(f"The store in {self._server.name} was closed. Make a new one; the runs are still there.")
        self._server.owner.check()


class NotificationListener:
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
                self._thread = threading.Thread(target=self._run, name="assentry-store-listen", daemon=True)
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


def _let_go(queue: ThreadQueue, server: StoreServer, listener: NotificationListener) -> None:
    listener.stop()
    queue.end(server.close)
