"""The store's database on a Postgres server: its tables, its clock, and statements outside of a transaction.

All of it blocks.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq.abc import PGresult
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from ...errors import AssentError, StoreFailed
from ...sql.pool import Link
from ...sql.postgres_connection import AGAIN, Server, Unusable, conninfo, explain
from .prepared import Prepared, Steps, answer
from .schema import VERSION, VERSION_TABLE, metadata, too_new
from .statement import POSTGRES, Transaction

R = TypeVar("R")

Work = Callable[["PostgresTransaction"], R]
AtOnce = Callable[[], Steps[R]]
"""A function that begins work by statements outside of a transaction."""

FRESH = 60.0
"""The seconds after which the server's clock is read again; until then the local clock measures the time."""
LOCK = 0x417353746F7265
"""The advisory lock held during an upgrade of the tables."""
UNPREPARED = "26000"
"""The SQLSTATE of a missing prepared statement: a connection pooler has switched the server connection."""
ELSEWISE = AGAIN | {UNPREPARED, "22021", "22P05", "23505", "25006", "42703", "42P01"}
"""The SQLSTATEs of one statement after which a transaction is tried, which succeeds or finds the error.

Besides conflicts and missing prepared statements: the character 0 in a text or in JSON, a row that exists already, a
session that is read-only by default, and a column or a table that a newer Assent has renamed.
"""
# A write reads the schema's version first, on the same way to the server. The lock on the version's table lasts until
# the transaction ends, and an upgrade waits for it, so the version cannot change in between.
BEGIN = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT version_num FROM {VERSION_TABLE}"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class NotAtOnce(Exception):
    """One statement is not enough. Nothing was written; the caller must use a transaction."""


class PostgresTransaction(Transaction):
    """Executes statements on a psycopg connection."""

    __slots__ = ("link",)

    def __init__(self, link: Link) -> None:
        super().__init__(link.connection, POSTGRES)
        self.link = link

    def at_once(self, steps: Steps[R]) -> R:
        """Run the steps outside of a transaction, or raise `NotAtOnce` if that is not possible."""
        try:
            ask = next(steps)
            while True:
                ask = steps.send(self._answer(*ask))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _answer(self, statement: Prepared, values: Mapping[str, Any]) -> PGresult:
        line, link = self.connection.pgconn, self.link
        given = given_for(statement, values)
        try:
            if statement.writes:
                if link.has_rested:
                    self.connection.execute("SELECT 1")
                link.see_that_it_lives()
            statement.prepare(line, link.prepared)
            link.sent = statement.writes
            statement.send(line, given)
            return answer(line)
        except psycopg.Error as error:
            if is_elsewise(error, statement, link):
                raise NotAtOnce from error
            raise

    def _values(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replace the character 0, which Postgres cannot hold. Facts are not affected, since JSON escapes it."""
        if any(type(value) is str and "\0" in value for value in values.values()):
            return {
                name: value.replace("\0", "\ufffd") if type(value) is str else value for name, value in values.items()
            }
        return values


def given_for(statement: Prepared, values: Mapping[str, Any]) -> list[Any]:
    """Return the encoded values; raise `NotAtOnce` if a number is too large."""
    try:
        return statement.given(values)
    except struct.error:
        raise NotAtOnce from None


def is_elsewise(error: BaseException, statement: Prepared, link: Link) -> bool:
    """Return True if a transaction should be tried after this error."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state == UNPREPARED:
        statement.forget(link.prepared)
    return state in ELSEWISE


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

    def write(self, work: Work[R], at_once: AtOnce[R] | None = None) -> R:
        """Run `at_once` if it is given and succeeds, else `work` in a transaction."""
        return self._do_at_once(at_once, work, BEGIN)

    def read(self, work: Work[R], at_once: AtOnce[R] | None = None) -> R:
        """Run `at_once` if it is given and succeeds, else `work`, which only reads, without a transaction."""
        return self._do_at_once(at_once, work, None)

    def snapshot(self, work: Work[R], at_once: AtOnce[R] | None = None) -> R:
        """Run `at_once` if it is given and succeeds, else `work`, which only reads, in one snapshot."""
        return self._do_at_once(at_once, work, SNAPSHOT)

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
        failed = StoreFailed(f"The store cannot use {self.name}: {explain(error)}. {written}.")
        failed.unknown = unknown
        return failed

    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Check the version of the tables; create them if there are none and the store was told to."""
        version = _version(connection)
        if self.upgrades and version is None:
            self.upgrade()
        else:
            _check(version)

    def begin(self, connection: psycopg.Connection[Any], text: str) -> None:
        """Begin a transaction. One that writes is refused unless the tables are those that this Assent knows."""
        cursor = connection.execute(text.encode(), prepare=False)  # there may be two statements
        if text == BEGIN:
            cursor.nextset()
            row = cursor.fetchone()
            _check(None if row is None else int(row[0]))

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
                    connection.exec_driver_sql(f"LOCK TABLE {VERSION_TABLE} IN ACCESS EXCLUSIVE MODE")
                if version is None or version < VERSION:
                    upgrade(connection)
                _check(VERSION if version is None else max(version, VERSION))
        except AssentError:
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
        except (psycopg.Error, Unusable) as error:
            raise self.failure(error) from error

    def _do_at_once(self, at_once: AtOnce[R] | None, work: Work[R], begin: str | None) -> R:
        if at_once is not None:
            with suppress(NotAtOnce):
                return self._do(lambda transaction: transaction.at_once(at_once()), None)
        return self._do(work, begin)

    def _do(self, work: Work[R], begin: str | None) -> R:
        def timed(link: Link) -> R:
            if self.clock.stale:
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
    [found] = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (VERSION_TABLE,)).fetchone()
    row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() if found else None
    return None if row is None else int(row[0])


def _check(version: int | None) -> None:
    if version is None:
        raise Unusable("it has no tables for a store. Run `assent db upgrade` with this address")
    if version < VERSION:
        raise Unusable(
            f"its tables are of version {version}, and this Assent needs {VERSION}. "
            "Run `assent db upgrade` with this address"
        )
    if version > VERSION:
        raise Unusable(too_new(version))
