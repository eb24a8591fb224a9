"""One Postgres database: its connections, its clock, and what to say when it fails. All of it blocks."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from ...errors import AssentError, StoreFailed, UsageError
from .pool import Link, Pool
from .prepared import Prepared, Steps, answer
from .schema import VERSION, VERSION_TABLE, metadata
from .statement import POSTGRES, Transaction

R = TypeVar("R")

Work = Callable[["PostgresTransaction"], R]
AtOnce = Callable[[], Steps[R]]
"""What begins something that is done by statements outside of a transaction."""

TRIES = 5
"""The most attempts of a transaction that ends with a deadlock, a serialization failure or a lost connection."""
FRESH = 60.0
"""The seconds after which the server's clock is read again; until then the local clock measures the time."""
LOCK = 0x417353746F7265
"""The advisory lock held during an upgrade of the tables."""
PATIENCE = {"connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""The default connection settings: how long to wait for a server that does not answer, in seconds."""
AGAIN = frozenset({"40001", "40P01"})
"""The SQLSTATEs of conflicts between transactions, after which nothing was written: serialization failure, deadlock."""
UNPREPARED = "26000"
"""The SQLSTATE of a missing prepared statement: a connection pooler has switched the server connection."""
ELSEWISE = AGAIN | {UNPREPARED, "22021", "22P05", "23505", "25006"}
"""The SQLSTATEs of one statement after which a transaction is tried, which succeeds or finds the error.

Besides conflicts and missing prepared statements: the character 0 in a text or in JSON, a row that exists already, and
a session that is read-only by default.
"""
OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
WHY = {
    "08": "it cannot be reached. See that the server runs and that the address is right, and try again",
    "57P": "the server is shutting down or starting up. Try again",
    "28": "it does not let this user in. See to the name and the password in the address",
    "3D": "there is no such database. Make it, or give another address",
    "42501": "this user may not do that. Grant it the right to the tables",
    "42P01": "its tables are missing. Run `assent db upgrade` with this address",
    "53100": "the server's disk is full. Make room, and try again",
    "53200": "the server is out of memory. See to it, and try again",
    "53300": "the server has no connection left. Let it have more, or give the store a smaller pool_size",
    "55P03": "a lock was not to be had in time. Try again",
    "57014": "the server took too long for it, or somebody stopped it. Try again",
    "25006": "it may only be read. Give the address of the primary server",
    "XX": "it is damaged. See to the server's log",
}
"""The cause of an error and its remedy, by SQLSTATE or the beginning of one."""
ABOUT = "SELECT " + ", ".join(
    f"current_setting('{name}')" for name in ("server_encoding", "client_encoding", "synchronous_commit")
)
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Unusable(Exception):
    """The database cannot be used as a store; the message says why."""


class NotAtOnce(Exception):
    """One statement is not enough. Nothing was written; the caller must use a transaction."""


class PostgresTransaction(Transaction):
    """Executes statements on a psycopg connection."""

    __slots__ = ("link", "sent")

    def __init__(self, link: Link) -> None:
        super().__init__(link.connection, POSTGRES)
        self.link = link
        self.sent = False
        """True once a commit was sent; until its answer arrives, the outcome is unknown."""

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
            self.sent = statement.writes
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
        self._server: float | None = None
        self._monotonic = self._time = 0.0

    def set(self, server: float) -> None:
        """Set the server's time."""
        self._server, self._monotonic, self._time = server, time.monotonic(), time.time()

    @property
    def stale(self) -> bool:
        """True if the server's clock should be read again.

        Both local clocks are compared, since the monotonic clock may stand still while a machine sleeps.
        """
        if self._server is None:
            return True
        return time.monotonic() - self._monotonic > FRESH or abs(time.time() - self._time) > FRESH

    def read(self) -> float | None:
        """Return the server's time; None if it was never read."""
        return None if self._server is None else self._server + time.monotonic() - self._monotonic


class Server:
    """A database on a Postgres server."""

    def __init__(self, url: str, pool_size: int, *, upgrades: bool) -> None:
        self.conninfo = _conninfo(url)
        self.clock = Clock()
        self.known: set[str] = set()
        """The fingerprints of definitions that are certainly stored."""
        self.upgrades = upgrades
        self._pool_size = pool_size
        self._ready = threading.Event()
        self._preparing = threading.Lock()
        self._pool = Pool(pool_size, self.connect)

    @property
    def name(self) -> str:
        """The database and its host, without the password."""
        parts = conninfo_to_dict(self.conninfo)
        return f"{parts.get('dbname') or parts.get('user') or 'postgres'!s} on {parts.get('host') or 'this machine'!s}"

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection in autocommit mode."""
        connection = psycopg.connect(self.conninfo, autocommit=True)
        try:
            row = connection.execute(ABOUT).fetchone()
            encoding, ours, durable = row if row is not None else ("", "", "")
            if encoding != "UTF8":
                raise Unusable(f"its encoding is {encoding}. Make a database whose encoding is UTF8")
            if ours != "UTF8":
                connection.execute("SET client_encoding = 'UTF8'")
            if durable == "off":  # a confirmed write must survive a crash of the server
                connection.execute("SET synchronous_commit = on")
            return connection
        except BaseException:
            connection.close()
            raise

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
            self.read(lambda transaction: None)
            now = self.clock.read()
        assert now is not None
        return now

    def close(self) -> None:
        """Close the connections; those in use are closed when they are released."""
        if self._pool.process == os.getpid():
            self._pool.give_up()

    def failure(self, error: Exception, *, unknown: bool = False) -> StoreFailed:
        """Return the error for the store's user; `unknown` if the change may have been written."""
        why = str(error).strip() or type(error).__name__
        if isinstance(error, psycopg.Error):
            state = error.sqlstate or ("08" if isinstance(error, psycopg.OperationalError) else "")
            found = next((text for start, text in WHY.items() if state.startswith(start)), None)
            why = f"{found} ({why})" if found else why
        written = "It is not known whether the change was written" if unknown else "Nothing was written"
        failed = StoreFailed(f"The store cannot use {self.name}: {why}. {written}.")
        failed.unknown = unknown
        return failed

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
            self._prepare()
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
        """Run `work` on a connection; retry after a lost connection or a conflict if nothing was written."""
        for tries in range(TRIES, 0, -1):
            try:
                return self._try(work, begin)
            except psycopg.Error as error:
                self._see_whether_again(error, last=tries == 1)
            except Unusable as error:
                raise self.failure(error) from error
        raise AssertionError

    def _see_whether_again(self, error: psycopg.Error, *, last: bool = False) -> None:
        """Raise `StoreFailed`, unless nothing was written and a retry may help."""
        unknown = getattr(error, "committing", False)
        again = isinstance(error, psycopg.OperationalError) and getattr(error, "begun", False)
        if last or unknown or not again:
            raise self.failure(error, unknown=unknown) from error

    def _try(self, work: Work[R], begin: str | None) -> R:
        self._prepare()
        pool = self._pool
        link = pool.take()
        connection, transaction = link.connection, PostgresTransaction(link)
        try:
            if self.clock.stale:
                self._read_clock(connection)
            if begin is None:
                return work(transaction)
            connection.execute(begin)
            done = work(transaction)
            transaction.sent = begin == BEGIN
            connection.execute("COMMIT")
            return done
        except BaseException as error:
            self._failed(error, link, sent=transaction.sent)
            raise
        finally:
            pool.give(link)

    def _failed(self, error: BaseException, link: Link, *, sent: bool) -> None:
        """Roll back an open transaction, and note on the error if a retry is safe."""
        lost = self._clear(link.connection)
        if isinstance(error, psycopg.Error):
            error.begun = lost or error.sqlstate in AGAIN  # type: ignore[attr-defined]
            error.committing = lost and sent  # type: ignore[attr-defined]

    def _clear(self, connection: psycopg.Connection[Any]) -> bool:
        """Roll back an open transaction; return True if the connection was lost, and close all the others too."""
        line = connection.pgconn
        if line.transaction_status in OPEN:
            with suppress(psycopg.Error):
                line.exec_(b"ROLLBACK")  # psycopg's own rollback would forget the prepared statements
        if line.transaction_status != TransactionStatus.IDLE:  # lost, or an answer is still pending
            self._pool.give_up()
            self._ready.clear()
            self.known.clear()  # the next server may be a restored copy without these definitions
            return True
        return False

    def _read_clock(self, connection: psycopg.Connection[Any]) -> None:
        before = time.monotonic()
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        self.clock.set(row[0] + (time.monotonic() - before) / 2)

    def _prepare(self) -> None:
        """Check the version of the tables, once and after every lost connection. Start a new pool after a fork."""
        if self._pool.process != os.getpid():
            self._preparing, self._ready = threading.Lock(), threading.Event()
            self._pool = Pool(self._pool_size, self.connect)
        if not self._ready.is_set():
            with self._preparing:
                if not self._ready.is_set():
                    self._see_to_tables()
                    self._ready.set()

    def _see_to_tables(self) -> None:
        pool = self._pool
        link = pool.take()
        try:
            version = _version(link.connection)
        except psycopg.Error as error:
            pool.give_up()
            error.begun = True  # type: ignore[attr-defined]
            raise
        finally:
            pool.give(link)
        if self.upgrades and (version is None or version < VERSION):
            self.upgrade()
        else:
            _check(version)


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
        raise Unusable(f"its tables are of version {version}, and this Assent knows {VERSION}. Use a newer Assent")


def _conninfo(url: Any) -> str:
    """Return the address in libpq's form, with the defaults of `PATIENCE`."""
    if type(url) is not str or not url:
        raise UsageError("A PostgresStore takes an address such as postgresql://user@host/database.")
    scheme, colon, rest = url.partition("://")
    if colon and scheme.split("+")[0] in ("postgres", "postgresql"):
        url = f"postgresql://{rest}"
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise UsageError(
            "This is not the address of a Postgres database: give postgresql://user@host/database."
        ) from None
    return make_conninfo(url, **{name: value for name, value in PATIENCE.items() if name not in given})
