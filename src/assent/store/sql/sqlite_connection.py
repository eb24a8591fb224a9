"""The connections to one SQLite file, and the messages of its errors.

Everything here blocks. It is called on a lane's thread or, if it is short, on an event loop that holds the lane's turn.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import AssentError, StoreFailed
from ...forking import close_before_forks
from .schema import VERSION, VERSION_TABLE
from .statement import SQLITE, Transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection

R = TypeVar("R")

APPLICATION = 0x41735374
"""The `application_id` of Assent's store files ("AsSt"), so that another program's tables are never changed."""
PAGE = 1024
"""The bytes of a page. Larger pages would waste more space and write more at each commit.

Every table and index takes at least one page, a commit writes each page that it touches, and a row that does not fit
continues on pages of its own.
"""
LOG = 4 * 2**20
"""The bytes of the write-ahead log at which it is written into the file, and to which a longer log is cut back."""
SETTINGS = (
    # A write that the store has confirmed must survive a power cut; NORMAL could lose it.
    "PRAGMA synchronous=FULL",
    # Erased content, and earlier versions of it, must not stay in the free pages of the file.
    "PRAGMA secure_delete=ON",
    f"PRAGMA journal_size_limit={LOG}",
    f"PRAGMA wal_autocheckpoint={LOG // PAGE}",
    "PRAGMA cache_size=-16000",  # 16 MB, enough for the upper levels of very large indexes
)
WHY = {
    sqlite3.SQLITE_BUSY: "it is locked by another connection. Try again, or give the store a longer busy_timeout",
    sqlite3.SQLITE_FULL: "there is no room for it. Make room, and try again",
    sqlite3.SQLITE_READONLY: "it may not be written. See to the permissions of the file and of its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened. See that its directory exists and may be written",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; it was left as it is. Give another path",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Restore it from a copy",
    sqlite3.SQLITE_IOERR: "the disk fails. See to it, and try again",
}
"""The cause of an error and its remedy, by SQLite's primary result code."""
GONE = (
    "the file was removed or replaced while it was in use, and what was written to it meanwhile is gone with it. "
    "Put it back, or make a new store"
)
NOT_MADE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})
"""The result codes of a failed commit that was certainly not made. After any other, it may come back after a crash."""

_abandoned: list[sqlite3.Connection] = []
"""Connections that were still open at a fork. SQLite allows the child neither to use nor to close them."""


class Unusable(Exception):
    """The file cannot be used as a store; the message says why."""


class Locked(Exception):
    """Another connection holds a lock, and the caller did not want to wait. Nothing was done."""


class File:
    """A store's file. A file that disappears is not created again, which would hide the loss of its runs."""

    def __init__(self, path: str, busy_timeout: float) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.seen = False
        self.known: set[str] = set()
        """The fingerprints of definitions that are certainly stored."""

    def failure(self, error: Exception, *, unknown: bool = False) -> StoreFailed:
        """Return the error for the store's user; `unknown` if the change may have been written."""
        why = str(error)
        if isinstance(error, sqlite3.Error):
            why = f"{WHY[code]} ({error})" if (code := _code(error)) in WHY else why
        written = "It is not known whether the change was written" if unknown else "Nothing was written"
        failed = StoreFailed(f"The store cannot use {self.path}: {why}. {written}.")
        failed.unknown = unknown
        return failed

    def traces(self, done: str, error: Exception | None = None) -> StoreFailed:
        """Return the error for deleted content that the log still has."""
        why = "another connection reads it" if error is None else str(error)
        failed = StoreFailed(
            f"{done}, but {self.path}-wal still has what was in it: {why}. When nobody reads the file, do it again, or "
            "run `assent db vacuum`."
        )
        failed.unknown = True
        return failed


class Handle:
    """One connection to a file, opened on demand and reopened after an error. Only the holder of `turn` may use it."""

    def __init__(self, file: File, turn: threading.Lock, *, reads: bool = False) -> None:
        self.file = file
        self.turn = turn
        self._reads = reads
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._process = os.getpid()
        self.pace = 0.0
        """The moving average of a write transaction's seconds, without the wait for the lock."""
        close_before_forks(self)

    def write(self, work: Callable[[Transaction], R], *, waits: bool = True) -> R:
        """Run `work` in a transaction that holds the write lock from its beginning.

        Raises `Locked` if the lock is taken and `waits` is False.
        """
        committing = False
        try:
            connection = self._connected()
            self._begin(connection, waits)
            began = perf_counter()
            done = work(Transaction(connection, SQLITE))
            committing = True  # even a file that is gone after its commit may be put back
            connection.execute("COMMIT")
            self.pace += (perf_counter() - began - self.pace) / 8
            self._see_that_it_is_there()
            return done
        except BaseException as error:
            self._clear(error)
            if isinstance(error, sqlite3.Error | Unusable):
                unknown = committing and _code(error) not in NOT_MADE
                raise self.file.failure(error, unknown=unknown) from error
            raise

    def _begin(self, connection: sqlite3.Connection, waits: bool) -> None:
        # SQLite's own busy_timeout holds for every statement; here each caller chooses whether to wait.
        end, pause = time.monotonic() + self.file.busy_timeout, 0.001
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or (waits and time.monotonic() >= end):
                    raise
                if not waits:
                    raise Locked from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def read(self, work: Callable[[Transaction], R], *, snapshot: bool = False) -> R:
        """Run `work`, which only reads; with `snapshot` all of its statements see one snapshot.

        On a connection that also writes, raises `Locked` instead of waiting for a lock.
        """
        try:
            connection = self._connected()
            if snapshot:
                connection.execute("BEGIN")
            done = work(Transaction(connection, SQLITE))
            if snapshot:
                connection.execute("COMMIT")
            self._see_that_it_is_there()
            return done
        except BaseException as error:
            self._clear(error)
            if not self._reads and _code(error) == sqlite3.SQLITE_BUSY:
                raise Locked from error
            if isinstance(error, sqlite3.Error | Unusable):
                raise self.file.failure(error) from error
            raise

    @property
    def connected(self) -> bool:
        """True if the connection is open in this process."""
        return self._connection is not None and self._process == os.getpid()

    def execute(self, text: str) -> list[tuple[Any, ...]]:
        """Execute a statement outside of a transaction, and return its rows."""
        try:
            return self._connected().execute(text).fetchall()
        except (sqlite3.Error, Unusable) as error:
            self._clear(error)
            raise self.file.failure(error) from error

    def vacuum(self) -> None:
        """Rewrite the file, after waiting for other writers."""
        try:
            self.execute(f"PRAGMA busy_timeout={int(self.file.busy_timeout * 1000)}")
            self.execute("VACUUM")
        finally:
            self.disconnect()  # the next connection has the usual busy_timeout again

    def disconnect(self) -> None:
        """Close the connection. The next use opens another."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process != os.getpid():
            _abandoned.append(connection)
            return
        with suppress(sqlite3.Error):
            connection.close()

    def _clear(self, error: BaseException) -> None:
        """Roll back an open transaction, and close a connection that has failed."""
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        if not isinstance(error, AssentError | Locked) and _code(error) != sqlite3.SQLITE_BUSY:
            self.disconnect()

    def _see_that_it_is_there(self) -> None:
        if _inode(self.file.path) != self._inode:
            raise Unusable(GONE)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        self.disconnect()
        self._process = os.getpid()
        if self.file.seen and _inode(self.file.path) is None:
            raise Unusable(GONE)
        connection = _connect(self.file.path, self.file.busy_timeout)
        connection.execute("PRAGMA query_only=ON" if self._reads else "PRAGMA busy_timeout=0")
        self._connection, self._inode = connection, _inode(self.file.path)
        if not self._reads:
            self.file.known.clear()  # the file may be a restored copy without these definitions
        self.file.seen = True
        return connection


def _connect(path: str, busy_timeout: float) -> sqlite3.Connection:
    """Open a file, and create or migrate its tables; raise `Unusable` if it is another program's."""
    make_private(path)
    deadline = time.monotonic() + busy_timeout
    while True:
        connection = sqlite3.connect(
            path, timeout=busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            _prepare(connection)
            return connection
        except BaseException as error:
            connection.close()
            # The change to WAL mode does not wait for a lock as other statements do, so retry it.
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.005)


def make_private(path: str) -> None:
    """Create a missing file with mode 0600. SQLite gives its log and shared memory the same mode."""
    with suppress(OSError):  # SQLite reports an error of the path
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare(connection: sqlite3.Connection) -> None:
    connection.text_factory = _text
    connection.execute("BEGIN")  # one snapshot for all that is read here
    version = _version(connection)
    connection.execute("COMMIT")
    if version != VERSION:
        if version == 0:
            connection.execute(f"PRAGMA page_size={PAGE}")
            connection.execute("PRAGMA journal_mode=WAL")
        _upgrade(connection)
    for setting in SETTINGS:
        connection.execute(setting)


def _upgrade(connection: sqlite3.Connection) -> None:
    """Run the missing migrations in one transaction."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import StaticPool

    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool, pool_reset_on_return=None)
    try:
        with engine.connect() as opened, opened.begin():
            opened.exec_driver_sql("BEGIN IMMEDIATE")  # only here, since a new engine begins with a rollback
            if _version(connection) != VERSION:  # unless another process was first
                _run(opened, _version(connection))
                opened.exec_driver_sql(f"PRAGMA application_id={APPLICATION}")
                opened.exec_driver_sql(f"PRAGMA user_version={VERSION}")
    except DBAPIError as error:
        raise error.orig or error from error


def _run(opened: Connection, version: int) -> None:
    """Run the migrations. The version is in the file's header; Alembic's version table exists only meanwhile."""
    from .migrating import upgrade

    if version:
        opened.exec_driver_sql(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)")
        opened.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{version:04}')")
    upgrade(opened)
    opened.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")


def _version(connection: sqlite3.Connection) -> int:
    """Return the schema version, 0 for an empty file; raise `Unusable` if the file is another program's."""
    [[application, version, things]] = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    )
    if application == APPLICATION and version <= VERSION:
        return int(version)
    if application == APPLICATION:
        raise Unusable(f"it has schema version {version}, and this Assent knows {VERSION}. Use a newer Assent")
    if application or version or things:
        raise Unusable("it is a database of another program; it was left as it is. Give another path")
    return 0


def _text(value: bytes) -> str:
    """Decode a text without an error, so that the check of its row reports a damaged text."""
    return value.decode("utf-8", "surrogateescape")


def _code(error: BaseException) -> int | None:
    """Return SQLite's primary result code; None if the error is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _inode(path: str) -> tuple[int, int] | None:
    """Return the device and inode that the path leads to now; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
