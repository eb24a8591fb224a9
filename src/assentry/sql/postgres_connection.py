"""One Postgres database: its connections, and the messages of its errors. All of it blocks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from ..errors import UsageError
from .pool import Pool, PooledConnection
from .process import Owner

R = TypeVar("R")

TRIES = 5
"""The most attempts of a transaction that ends with a deadlock, a serialization failure or a lost connection."""
LOST_NETWORK = {
    "connect_timeout": "10",
    "tcp_user_timeout": "25000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
"""The default connection settings that detect a lost network; in seconds, and `tcp_user_timeout` in milliseconds."""
AGAIN = frozenset({"40001", "40P01"})
"""The SQLSTATEs of conflicts between transactions, after which nothing was written: serialization failure, deadlock."""
UNPREPARED = frozenset({"26000", "42P05"})
"""The SQLSTATEs of a prepared statement that is missing, or is there already: a pooler has switched the connection."""
OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
WHY = {
    "08": "it cannot be reached. See that it runs and that the address is right, and try again",
    "57P": "the server is shutting down or starting up. Try again",
    "28": "it does not let this user in. See to the name and the password in the address",
    "3D": "there is no such database. Create it, or give another address",
    "42501": "this user may not do that. Grant it the right to the tables",
    "42": "its tables are missing, or are not what they should be. If a newer Assentry has upgraded them, restart with "
    "that one; if not, restore them from a copy",
    "53100": "the server's disk is full. Make room, and try again",
    "53200": "the server is out of memory. See to it, and try again",
    "53300": "the server has no connection left. Let it have more, or use fewer",
    "55P03": "it is locked by another connection. Try again, or set a longer timeout",
    "57014": "the server took too long for it, or somebody stopped it. Try again",
    "25006": "it may only be read. Give the address of the primary server",
    "XX": "it is damaged. See to the server's log, or restore it from a copy",
}
"""The cause of an error and its remedy, by SQLSTATE or the beginning of one."""
REFUSED = (
    ("password", WHY["28"]),
    ("pg_hba.conf", WHY["28"]),
    ("role ", "there is no such user. Create it, or give another address"),
    ("database ", WHY["3D"]),
    ("connection slots", WHY["53300"]),
    ("too many", WHY["53300"]),
    ("", WHY["08"]),
)
"""The cause of a failed connection and its remedy, by the server's words, since there is no SQLSTATE."""
ABOUT = "SELECT " + ", ".join(
    f"current_setting('{name}')" for name in ("server_encoding", "client_encoding", "synchronous_commit")
)


class DatabaseUnusable(Exception):
    """The database cannot be used; the message says why."""


class Server(ABC):
    """A database on a Postgres server, and its tables."""

    def __init__(self, conninfo: str, pool_size: int, name: str) -> None:
        self.conninfo = conninfo
        self.owner = Owner(name)
        self.known: set[str] = set()
        """The rows that are certainly stored. A lost connection empties it: the next server may be a restored copy."""
        self._ready = threading.Event()
        self._preparing = threading.Lock()
        self._pool = Pool(pool_size, self.connect)

    @abstractmethod
    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Check the tables before the first use, and after every lost connection."""

    @abstractmethod
    def failure(self, error: Exception, *, unknown: bool = False) -> Exception:
        """Return the error for the user; `unknown` if the change may have been written."""

    def transact(self, link: PooledConnection, begin: str, work: Callable[[PooledConnection], R], *, writes: bool) -> R:
        """Run `work` in a transaction that `begin` starts."""
        link.connection.execute(begin.encode())
        done = work(link)
        link.sent = writes
        link.connection.execute("COMMIT")
        return done

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection in autocommit mode."""
        connection = psycopg.connect(self.conninfo, autocommit=True)
        try:
            row = connection.execute(ABOUT).fetchone()
            encoding, ours, durable = row if row is not None else ("", "", "")
            if encoding != "UTF8":
                raise DatabaseUnusable(f"its encoding is {encoding}. Make a database whose encoding is UTF8")
            if ours != "UTF8":
                connection.execute("SET client_encoding = 'UTF8'")
            if durable == "off":  # a confirmed write must survive a crash of the server
                connection.execute("SET synchronous_commit = on")
            return connection
        except BaseException:
            connection.close()
            raise

    def do(self, work: Callable[[PooledConnection], R], begin: str | None, *, writes: bool = False) -> R:
        """Run `work` on a connection, in a transaction if `begin` starts one.

        Retries after a lost connection or a conflict, if nothing was written. `writes` says that the commit matters.
        """
        for tries in range(TRIES, 0, -1):
            try:
                return self._try(work, begin, writes)
            except psycopg.Error as error:
                self._raise_unless_retryable(error, last=tries == 1)
            except DatabaseUnusable as error:
                raise self.failure(error) from error
        raise AssertionError

    def close(self) -> None:
        """Close the connections, unless they are another process's; those in use, when they are released."""
        if not self.owner.elsewhere:
            self._pool.give_up()

    def ready(self) -> None:
        """Check the tables, unless they were checked since the last lost connection."""
        if not self._ready.is_set():
            with self._preparing:
                if not self._ready.is_set():
                    self._prepare()
                    self._ready.set()

    def check_again(self) -> None:
        """Have the tables checked before the next use."""
        self._ready.clear()

    def _prepare(self) -> None:
        pool = self._pool
        link = pool.take()
        try:
            self.prepare(link.connection)
        except psycopg.Error as error:
            self._failed(error, link)
            raise
        finally:
            pool.give(link)

    def _raise_unless_retryable(self, error: psycopg.Error, *, last: bool) -> None:
        """Raise the failure, unless nothing was written and a retry may help."""
        unknown = getattr(error, "committing", False)
        if last or unknown or not getattr(error, "again", False):
            raise self.failure(error, unknown=unknown) from error

    def _try(self, work: Callable[[PooledConnection], R], begin: str | None, writes: bool) -> R:
        self.ready()
        pool = self._pool
        link = pool.take()
        try:
            return work(link) if begin is None else self.transact(link, begin, work, writes=writes)
        except BaseException as error:
            self._failed(error, link)
            raise
        finally:
            pool.give(link)

    def _failed(self, error: BaseException, link: PooledConnection) -> None:
        """Roll back an open transaction, and note on the error if a retry is safe."""
        lost = self._clear(link.connection)
        if isinstance(error, psycopg.Error):
            if error.sqlstate in UNPREPARED:
                link.connection.prepare_threshold = None
            again = error.sqlstate in AGAIN | UNPREPARED or (lost and isinstance(error, psycopg.OperationalError))
            error.again = again  # type: ignore[attr-defined]
            error.committing = lost and link.sent  # type: ignore[attr-defined]

    def _clear(self, connection: psycopg.Connection[Any]) -> bool:
        """Roll back an open transaction; return True if the connection was lost, and close all the others too."""
        line = connection.pgconn
        if line.transaction_status in OPEN:
            with suppress(psycopg.Error):
                line.exec_(b"ROLLBACK")  # psycopg's own rollback would forget the prepared statements
        if line.transaction_status != TransactionStatus.IDLE:  # lost, or an answer is still pending
            self._pool.give_up()
            self._ready.clear()
            self.known.clear()
            return True
        return False


def explain_postgres(error: Exception) -> str:
    """Return the cause of an error and its remedy, in one line."""
    said = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, psycopg.Error):
        return said
    found = next((why for start, why in WHY.items() if (error.sqlstate or "").startswith(start)), None)
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        words = said.rpartition("failed: ")[2]
        found = next(why for part, why in REFUSED if part in words)
    return f"{found} ({said})" if found else said


def conninfo(url: Any, **defaults: str) -> str:
    """Return an address in libpq's form, with these defaults and `LOST_NETWORK`. No error shows the address."""
    if type(url) is not str or not url:
        raise UsageError("The url of a Postgres database is its address, such as postgresql://user@host/database.")
    scheme, colon, rest = url.partition("://")
    if colon and scheme.split("+")[0] in ("postgres", "postgresql"):  # SQLAlchemy's form has a driver after the +
        url = f"postgresql://{rest}"
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise UsageError(
            "This url is not the address of a Postgres database: give postgresql://user@host/database."
        ) from None
    missing = {name: value for name, value in (LOST_NETWORK | defaults).items() if name not in given}
    return make_conninfo(url, **missing)


OWN_OPTIONS = ("autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory")
"""The options of psycopg's connections that are not part of an address."""


def connection_address(given: Any) -> str | None:
    """Return the address of a psycopg connection or pool, with its password; None for any other object."""
    if not type(given).__module__.partition(".")[0].startswith("psycopg"):
        return None
    info, pooled = getattr(given, "info", None), getattr(given, "conninfo", None)
    if info is not None and hasattr(info, "dsn"):
        return make_conninfo(info.dsn, **({"password": info.password} if info.password else {}))
    if isinstance(pooled, str):
        kwargs: Any = getattr(given, "kwargs", None)
        options = kwargs if isinstance(kwargs, dict) else {}
        return make_conninfo(pooled, **{name: value for name, value in options.items() if name not in OWN_OPTIONS})
    return None
