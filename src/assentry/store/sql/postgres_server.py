"""The store's database on a Postgres server: its tables, its clock, and its transactions. All of it blocks.

A transaction that writes is sent in psycopg's pipeline mode: nobody waits for a statement whose result is not needed.
An ordinary change takes two roundtrips to the server, and one more if it asks a question. The first one has read the
run and the schema's version before anything is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.generators import send
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from ...errors import AssentryError, StoreFailed
from ...sql.pool import PooledConnection
from ...sql.postgres_connection import DatabaseUnusable, Server, conninfo, explain_postgres
from .schema import EARLIER_VERSION_TABLE, RENAMED_IN, VERSION, VERSION_TABLE, metadata, too_new
from .statement import POSTGRES, Statement, Transaction

R = TypeVar("R")

Work = Callable[["PostgresTransaction"], R]

FRESH = 60.0
"""The seconds after which the server's clock is read again; until then the local clock measures the time."""
LOCK = 0x417353746F7265
"""The advisory lock held during an upgrade of the tables."""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A write reads the schema's version first, on the same way to the server. The lock on the version's table lasts until
# the transaction ends, and an upgrade waits for it, so the version cannot change in between.
READ_VERSION = f"SELECT version_num FROM {VERSION_TABLE}"


class PostgresTransaction(Transaction):
    """Executes statements on a psycopg connection."""

    __slots__ = ("link",)

    def __init__(self, link: PooledConnection) -> None:
        super().__init__(link.connection, POSTGRES)
        self.link = link

    def do(self, statement: Statement, **values: Any) -> int:
        """Execute a statement and return the number of changed rows."""
        cursor = self._execute(statement, values)
        if self.link.pipeline is not None:
            self.link.pipeline.sync()  # or the number is not known yet
        count: int = cursor.rowcount
        return count

    def _execute(self, statement: Statement, values: Mapping[str, Any]) -> Any:
        """Execute a statement, and send all of it.

        In a pipeline psycopg sends as much as the connection takes at once. A sync then waits for results alone, and
        the server for the rest of the statement, both without end.
        """
        cursor = super()._execute(statement, values)
        if self.link.pipeline is not None and self.connection.pgconn.flush():
            self.connection.wait(send(self.connection.pgconn))
        return cursor

    def _values(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replace the character 0, which Postgres cannot hold. Facts are not affected, since JSON escapes it."""
        if any(type(value) is str and "\0" in value for value in values.values()):
            return {
                name: value.replace("\0", "\ufffd") if type(value) is str else value for name, value in values.items()
            }
        return values


class Clock:
    """The server's clock: the time that was last read, plus the time that has passed here since."""

    def __init__(self) -> None:
        self._read: tuple[float, float, float] | None = None
        """The server's time, and the local monotonic and wall time then. One value: several threads use the clock."""

    def set(self, server: float) -> None:
        """Set the server's time."""
        self._read = (server, time.monotonic(), time.time())

    @property
    def stale(self) -> bool:
        """True if the server's clock should be read again.

        Both local clocks are compared, since the monotonic clock may stand still while a machine sleeps.
        """
        if (last := self._read) is None:
            return True
        _, monotonic, wall = last
        return time.monotonic() - monotonic > FRESH or abs(time.time() - wall) > FRESH

    def read(self) -> float | None:
        """Return the server's time; None if it was never read."""
        if (last := self._read) is None:
            return None
        server, monotonic, _ = last
        return server + time.monotonic() - monotonic


class StoreServer(Server):
    """The store's database on a Postgres server."""

    def __init__(self, url: Any, pool_size: int, *, upgrades: bool) -> None:
        address = conninfo(url)
        parts = conninfo_to_dict(address)
        self.name = f"{parts.get('dbname') or parts.get('user') or 'postgres'} on {parts.get('host') or 'this machine'}"
        """The database and its host, without the password."""
        super().__init__(address, pool_size, f"The store in {self.name}")
        self.clock = Clock()
        self.upgrades = upgrades

    def write(self, work: Work[R]) -> R:
        """Run `work` in a transaction."""
        return self._do(work, BEGIN)

    def read(self, work: Work[R]) -> R:
        """Run `work`, which only reads, without a transaction."""
        return self._do(work, None)

    def snapshot(self, work: Work[R]) -> R:
        """Run `work`, which only reads, in one snapshot."""
        return self._do(work, SNAPSHOT)

    def now(self) -> float:
        """Return the server's time; read its clock first if it was never read."""
        now = self.clock.read()
        if now is None:
            self.owner.check()
            self.read(lambda transaction: None)
            now = self.clock.read()
        assert now is not None
        return now

    def failure(self, error: Exception, *, unknown: bool = False) -> StoreFailed:
        """Return the error for the store's user; `unknown` if the change may have been written."""
        written = "It is not known whether the change was written" if unknown else "Nothing was written"
        failed = StoreFailed(f"The store cannot use {self.name}: {explain_postgres(error)}. {written}.")
        failed.unknown = unknown
        return failed

    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Check the version of the tables; create them if there are none and the store was told to."""
        version = _version(connection)
        if self.upgrades and version is None:
            self.upgrade()
        else:
            _check(version)

    def transact(self, link: PooledConnection, begin: str, work: Callable[[PooledConnection], R], *, writes: bool) -> R:
        """Run `work` in a transaction. A write is refused unless the tables are those that this Assentry knows."""
        if not writes:
            return super().transact(link, begin, work, writes=False)
        with link.connection.pipeline() as link.pipeline:
            link.connection.execute(begin.encode())
            found = link.connection.execute(READ_VERSION.encode())
            try:
                done = work(link)
            except Exception:
                if found.pgresult is not None:
                    _check_found(found)
                raise
            _check_found(found)
            link.sent = True
            link.connection.execute("COMMIT")
        return done

    def upgrade(self) -> None:
        """Create or migrate the tables. An advisory lock makes concurrent upgrades safe."""
        from .migrating import upgrade

        engine = create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(self.conninfo), poolclass=NullPool
        )
        try:
            with engine.begin() as connection:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
                version = _version(connection.connection.driver_connection)
                if version is not None and version < VERSION:  # wait for the writes under way; later ones wait for this
                    _lock_version(connection, version)
                if version is None or version < VERSION:
                    upgrade(connection)
                _check(VERSION if version is None else max(version, VERSION))
        except AssentryError:
            raise
        except Exception as error:
            cause = getattr(error, "orig", None) or error
            raise self.failure(cause) from error
        finally:
            engine.dispose()

    def vacuum(self) -> None:
        """Rewrite the tables, one after the other."""
        try:
            self.ready()
            with self.connect() as connection:
                for table in metadata.tables:
                    connection.execute(f"VACUUM (FULL) {table}".encode())
        except (psycopg.Error, DatabaseUnusable) as error:
            raise self.failure(error) from error

    def _do(self, work: Work[R], begin: str | None) -> R:
        def timed(link: PooledConnection) -> R:
            if self.clock.stale:
                if link.pipeline is not None:
                    link.pipeline.sync()  # a wait for the version's lock is no part of the time measured
                self._read_clock(link.connection)
            return work(PostgresTransaction(link))

        return self.do(timed, begin, writes=begin == BEGIN)

    def _read_clock(self, connection: psycopg.Connection[Any]) -> None:
        before = time.monotonic()
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        self.clock.set(row[0] + (time.monotonic() - before) / 2)


def _version(connection: Any) -> int | None:
    """Return the schema version; None if there are no tables."""
    for table, below in ((VERSION_TABLE, None), (EARLIER_VERSION_TABLE, RENAMED_IN)):
        [found] = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (table,)).fetchone()
        row = connection.execute(f"SELECT version_num FROM {table}").fetchone() if found else None
        if row is not None and (below is None or int(row[0]) < below):
            return int(row[0])
    return None


def _lock_version(connection: Connection, version: int) -> None:
    """Lock the version's table, under the name that it has from now on."""
    if version < RENAMED_IN:
        connection.exec_driver_sql(f"ALTER TABLE {EARLIER_VERSION_TABLE} RENAME TO {VERSION_TABLE}")  # locks it, too
    else:
        connection.exec_driver_sql(f"LOCK TABLE {VERSION_TABLE} IN ACCESS EXCLUSIVE MODE")


def _check_found(found: psycopg.Cursor[Any]) -> None:
    row = found.fetchone()
    _check(None if row is None else int(row[0]))


def _check(version: int | None) -> None:
    if version is None:
        raise DatabaseUnusable("it has no tables for a store. Run `assentry db upgrade` with this address")
    if version < VERSION:
        raise DatabaseUnusable(
            f"its tables are of version {version}, and this Assentry needs {VERSION}. "
            "Run `assentry db upgrade` with this address"
        )
    if version > VERSION:
        raise DatabaseUnusable(too_new(version))
