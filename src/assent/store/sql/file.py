"""One SQLite file: its connections, and what to say when it fails. Everything here blocks: it is called in a lane, or,
if it is short, with the lane's turn."""

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
"""Marks a file as one of ours ("AsSt"), so that nobody else's tables are ever touched."""
PAGE = 1024
"""Every table and index takes one at least, a commit writes each that it touches, and of a row that does not fit the
rest goes to pages of its own: in larger ones more is left free, and more is written."""
LOG = 4 * 2**20
"""How many bytes the write-ahead log has before it is written into the file, and to how many it is cut back when it was
longer for a while."""
SETTINGS = (
    # What the store says is written must outlive a power cut: NORMAL would lose it.
    "PRAGMA synchronous=FULL",
    # What is erased, or was replaced before that, must not stay in the free parts of the file.
    "PRAGMA secure_delete=ON",
    f"PRAGMA journal_size_limit={LOG}",
    f"PRAGMA wal_autocheckpoint={LOG // PAGE}",
    "PRAGMA cache_size=-16000",  # sixteen megabytes at most: enough for the upper levels of very large indexes
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
"""What is wrong and what to do, by SQLite's primary result code."""
GONE = (
    "the file was removed or replaced while it was in use, and what was written to it meanwhile is gone with it. "
    "Put it back, or make a new store"
)
NOT_MADE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})
"""A commit that fails with one of these was not made. With any other it may still come back after a crash."""

_abandoned: list[sqlite3.Connection] = []
"""Connections that came with a fork all the same. SQLite has them not used on this side, and not closed either."""


class Unusable(Exception):
    """The file is not one for a store, or not any more; says why."""


class Locked(Exception):
    """Another connection holds a lock, and it was not to be waited for. Nothing was done."""


class File:
    """A file of the store's. Once it was there it is not made again: what was in it would be missed in silence."""

    def __init__(self, path: str, busy_timeout: float) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.seen = False
        self.known: set[str] = set()
        """The definitions that are stored in it, as far as this store knows."""

    def failure(self, error: Exception, *, unknown: bool = False) -> StoreFailed:
        """What the user of the store is told."""
        why = str(error)
        if isinstance(error, sqlite3.Error):
            why = f"{WHY[code]} ({error})" if (code := _code(error)) in WHY else why
        written = "It is not known whether the change was written" if unknown else "Nothing was written"
        failed = StoreFailed(f"The store cannot use {self.path}: {why}. {written}.")
        failed.unknown = unknown
        return failed

    def traces(self, done: str, error: Exception | None = None) -> StoreFailed:
        """Tell that something was deleted, and that the log still has it."""
        why = "another connection reads it" if error is None else str(error)
        failed = StoreFailed(
            f"{done}, but {self.path}-wal still has what was in it: {why}. When nobody reads the file, do it again, or "
            "run `assent db vacuum`."
        )
        failed.unknown = True
        return failed


class Handle:
    """One connection to a file, opened when it is needed, and opened anew after trouble. It is used by whoever has the
    turn."""

    def __init__(self, file: File, turn: threading.Lock, *, reads: bool = False) -> None:
        self.file = file
        self.turn = turn
        self._reads = reads
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._process = os.getpid()
        self.pace = 0.0
        """How many seconds a transaction takes that writes, once it has the right to: the mean, of late."""
        close_before_forks(self)

    def write(self, work: Callable[[Transaction], R], *, waits: bool = True) -> R:
        """Do this in a transaction that has the right to write from its beginning; `Locked` if that is not to be had,
        and it is not to be waited for."""
        committing = False
        try:
            connection = self._connected()
            self._begin(connection, waits)
            began = perf_counter()
            done = work(Transaction(connection, SQLITE))
            committing = True  # from here on: a file that is gone after its commit may be put back
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
        # SQLite would wait by itself, but then always, whoever asks.
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
        """Do this, which reads; with `snapshot` all its statements see the same. `Locked` if that is not to be had at
        once, for one that also writes."""
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
        """Whether there is a connection already."""
        return self._connection is not None and self._process == os.getpid()

    def execute(self, text: str) -> list[tuple[Any, ...]]:
        """A statement outside of a transaction."""
        try:
            return self._connected().execute(text).fetchall()
        except (sqlite3.Error, Unusable) as error:
            self._clear(error)
            raise self.file.failure(error) from error

    def vacuum(self) -> None:
        """Write the file anew, as soon as nobody else writes."""
        try:
            self.execute(f"PRAGMA busy_timeout={int(self.file.busy_timeout * 1000)}")
            self.execute("VACUUM")
        finally:
            self.disconnect()  # and with it the timeout

    def disconnect(self) -> None:
        """Close the connection. What is in the file is found again by the next one."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process != os.getpid():
            _abandoned.append(connection)
            return
        with suppress(sqlite3.Error):
            connection.close()

    def _clear(self, error: BaseException) -> None:
        """Leave nothing open; a connection that has failed is not used again."""
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
            self.file.known.clear()  # it may be a copy that was put back, from before they were stored
        self.file.seen = True
        return connection


def _connect(path: str, busy_timeout: float) -> sqlite3.Connection:
    """A connection to a file that is ours, or is now."""
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
            # A change to WAL does not wait for a lock as all else does, so it is tried again.
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.005)


def make_private(path: str) -> None:
    """Make a file that is not there yet, for its owner alone; SQLite gives its log and its index the same mode."""
    with suppress(OSError):  # SQLite says what is wrong with the path
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _prepare(connection: sqlite3.Connection) -> None:
    connection.text_factory = _text
    connection.execute("BEGIN")  # so that what is looked at is all of one moment
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
    """Run the migrations that the file lacks, in one transaction."""
    from sqlalchemy import create_engine
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import StaticPool

    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool, pool_reset_on_return=None)
    try:
        with engine.connect() as opened, opened.begin():
            opened.exec_driver_sql("BEGIN IMMEDIATE")  # not earlier: a new engine begins with a rollback
            if _version(connection) != VERSION:  # or somebody else has done it meanwhile
                _run(opened, _version(connection))
                opened.exec_driver_sql(f"PRAGMA application_id={APPLICATION}")
                opened.exec_driver_sql(f"PRAGMA user_version={VERSION}")
    except DBAPIError as error:
        raise error.orig or error from error


def _run(opened: Connection, version: int) -> None:
    """Run the migrations. A file says its version in its header; Alembic's table for it is there only meanwhile."""
    from .migrating import upgrade

    if version:
        opened.exec_driver_sql(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)")
        opened.exec_driver_sql(f"INSERT INTO {VERSION_TABLE} VALUES ('{version:04}')")
    upgrade(opened)
    opened.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")


def _version(connection: sqlite3.Connection) -> int:
    """The version of the tables; 0 if the file is empty, and `Unusable` if it is something else."""
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
    """A text, whatever was done to it: a damaged one is then found with its row, and not before."""
    return value.decode("utf-8", "surrogateescape")


def _code(error: BaseException) -> int | None:
    """SQLite's primary result code, if the error is SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _inode(path: str) -> tuple[int, int] | None:
    """Which file the path means now."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
