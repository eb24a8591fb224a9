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
"""How often a transaction is begun anew that the server has ended for the sake of another, or with its connection."""
FRESH = 60.0
"""For how many seconds the server's clock is taken to run as ours does."""
LOCK = 0x417353746F7265
"""Which of the server's locks stands for the upgrade of the tables."""
PATIENCE = {"connect_timeout": "10", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""A server that does not answer is given up after so many seconds, if the address does not say otherwise."""
AGAIN = frozenset({"40001", "40P01"})
"""The transaction was in the way of another, and nothing of it was written: serialization failure, deadlock."""
UNPREPARED = "26000"
"""There is no such prepared statement: something between us and the server has changed the connection."""
ELSEWISE = AGAIN | {UNPREPARED, "22021", "22P05", "23505", "25006"}
"""What one statement could not do, and a transaction of several can, or can say why not: besides those, the character
0 in a text, by itself and in JSON; a row that is there already; and a session that writes only when it is told to."""
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
"""What is wrong and what to do, by SQLSTATE: the whole of it, or its beginning."""
ABOUT = "SELECT " + ", ".join(
    f"current_setting('{name}')" for name in ("server_encoding", "client_encoding", "synchronous_commit")
)
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Unusable(Exception):
    """The database is not one for a store; says why."""


class NotAtOnce(Exception):
    """One statement is not enough here. Nothing was written, and a transaction is to do it or say what is wrong."""


class PostgresTransaction(Transaction):
    """Executes statements on a connection of psycopg's."""

    __slots__ = ("link", "sent")

    def __init__(self, link: Link) -> None:
        super().__init__(link.connection, POSTGRES)
        self.link = link
        self.sent = False
        """Whether what was written may be committed, though nobody has said so yet."""

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
        """Postgres cannot hold the character 0. What is shown of a fact shows another one; the fact itself is JSON."""
        if any(type(value) is str and "\0" in value for value in values.values()):
            return {
                name: value.replace("\0", "\ufffd") if type(value) is str else value for name, value in values.items()
            }
        return values


def given_for(statement: Prepared, values: Mapping[str, Any]) -> list[Any]:
    """The values as they are sent."""
    try:
        return statement.given(values)
    except struct.error:  # a number that is too large
        raise NotAtOnce from None


def is_elsewise(error: BaseException, statement: Prepared, link: Link) -> bool:
    """Whether a statement failed at what a transaction can do, or can say why not."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state == UNPREPARED:
        statement.forget(link.prepared)
    return state in ELSEWISE


class Clock:
    """The server's clock, as it was last read and as time has passed here since."""

    def __init__(self) -> None:
        self._server: float | None = None
        self._monotonic = self._time = 0.0

    def set(self, server: float) -> None:
        """The server says it is this time now."""
        self._server, self._monotonic, self._time = server, time.monotonic(), time.time()

    @property
    def stale(self) -> bool:
        """Whether it should be read again: by either of our clocks, since one stands still while a machine sleeps."""
        if self._server is None:
            return True
        return time.monotonic() - self._monotonic > FRESH or abs(time.time() - self._time) > FRESH

    def read(self) -> float | None:
        """The time there; None if it was never read."""
        return None if self._server is None else self._server + time.monotonic() - self._monotonic


class Server:
    """A database on a Postgres server."""

    def __init__(self, url: str, pool_size: int, *, upgrades: bool) -> None:
        self.conninfo = _conninfo(url)
        self.clock = Clock()
        self.known: set[str] = set()
        """The definitions that are stored in it, as far as this store knows."""
        self.upgrades = upgrades
        self._pool_size = pool_size
        self._ready = threading.Event()
        self._preparing = threading.Lock()
        self._pool = Pool(pool_size, self.connect)

    @property
    def name(self) -> str:
        """Which database it is, without the password."""
        parts = conninfo_to_dict(self.conninfo)
        return f"{parts.get('dbname') or parts.get('user') or 'postgres'!s} on {parts.get('host') or 'this machine'!s}"

    def connect(self) -> psycopg.Connection[Any]:
        """A connection that begins no transactions by itself."""
        connection = psycopg.connect(self.conninfo, autocommit=True)
        try:
            row = connection.execute(ABOUT).fetchone()
            encoding, ours, durable = row if row is not None else ("", "", "")
            if encoding != "UTF8":
                raise Unusable(f"its encoding is {encoding}. Make a database whose encoding is UTF8")
            if ours != "UTF8":
                connection.execute("SET client_encoding = 'UTF8'")
            if durable == "off":  # what the store says is written must outlive the server
                connection.execute("SET synchronous_commit = on")
            return connection
        except BaseException:
            connection.close()
            raise

    def write(self, work: Work[R], at_once: AtOnce[R] | None = None) -> R:
        """Do this in a transaction, or `at_once`, by a statement that is one, if that can be done."""
        return self._do_at_once(at_once, work, BEGIN)

    def read(self, work: Work[R], at_once: AtOnce[R] | None = None) -> R:
        """Do this, which reads, or `at_once`, if that can be done."""
        return self._do_at_once(at_once, work, None)

    def snapshot(self, work: Work[R], at_once: AtOnce[R] | None = None) -> R:
        """The same, but all its statements see the same."""
        return self._do_at_once(at_once, work, SNAPSHOT)

    def now(self) -> float:
        """The time on the server; it is asked if it never was."""
        now = self.clock.read()
        if now is None:
            self.read(lambda transaction: None)
            now = self.clock.read()
        assert now is not None
        return now

    def close(self) -> None:
        """Let go of the connections that are not in use."""
        if self._pool.process == os.getpid():
            self._pool.give_up()

    def failure(self, error: Exception, *, unknown: bool = False) -> StoreFailed:
        """What the user of the store is told."""
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
        """Make the tables, or bring them to what this Assent needs; of several that do it at once, one does."""
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
        """Write the tables anew, one after the other."""
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
        """Do this on a connection; begun anew if it was lost, or in the way of another, before it was written."""
        for tries in range(TRIES, 0, -1):
            try:
                return self._try(work, begin)
            except psycopg.Error as error:
                self._see_whether_again(error, last=tries == 1)
            except Unusable as error:
                raise self.failure(error) from error
        raise AssertionError

    def _see_whether_again(self, error: psycopg.Error, *, last: bool = False) -> None:
        """Say what is wrong, unless it can be begun anew: nothing of it was written."""
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
        """Leave nothing open on a connection, and note what an error there means."""
        lost = self._clear(link.connection)
        if isinstance(error, psycopg.Error):
            error.begun = lost or error.sqlstate in AGAIN  # type: ignore[attr-defined]
            error.committing = lost and sent  # type: ignore[attr-defined]

    def _clear(self, connection: psycopg.Connection[Any]) -> bool:
        """Leave nothing open; whether the connection was lost, and then all others are not trusted any more."""
        line = connection.pgconn
        if line.transaction_status in OPEN:
            with suppress(psycopg.Error):
                line.exec_(b"ROLLBACK")  # after one that it knows of, psycopg forgets all that is prepared
        if line.transaction_status != TransactionStatus.IDLE:  # lost, or somebody did not want to wait for the answer
            self._pool.give_up()
            self._ready.clear()
            self.known.clear()  # what answers next may be a copy, from before they were stored
            return True
        return False

    def _read_clock(self, connection: psycopg.Connection[Any]) -> None:
        before = time.monotonic()
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        self.clock.set(row[0] + (time.monotonic() - before) / 2)

    def _prepare(self) -> None:
        """See once, and after every loss of a connection, that the tables are what this Assent needs."""
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
    """The version of the tables; None if there are none."""
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
    """The address as the driver takes it, with our patience where it does not say its own."""
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
