"""One SQLite file of sessions: its connection, its tables, and the messages of its errors.

The only module of `sessions` that imports `sqlite3`; the first `SQLiteSession` imports it. Everything here but `share`,
`join` and `leave` blocks, and is called on the database's lane.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar
from weakref import WeakSet, WeakValueDictionary

from ..errors import SessionFailed
from ..forking import close_before_forks
from .lane import Lane

R = TypeVar("R")

MEMORY = ":memory:"
APPLICATION = 0x41734E74
"""The `application_id` of Assent's session files ("AsNt"), so that another program's tables are never changed."""
VERSION = 1
TABLES = (
    # `run` and `position` are an item's run and its number there; items from `add_items` have neither.
    "CREATE TABLE assent_items"
    " (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, run TEXT, position INTEGER, item TEXT NOT NULL)",
    # Every SQLite index ends with the rowid, so this index has a session's items in their order.
    "CREATE INDEX assent_items_of_session ON assent_items (session)",
    "CREATE UNIQUE INDEX assent_items_of_run ON assent_items (session, run, position) WHERE run IS NOT NULL",
    # The file's own id: a path may lead to another file later, and a file system reuses inode numbers.
    "CREATE TABLE assent_file (id BLOB NOT NULL)",
    "INSERT INTO assent_file VALUES (randomblob(16))",
    f"PRAGMA application_id={APPLICATION}",
    f"PRAGMA user_version={VERSION}",
)
WHY = {
    sqlite3.SQLITE_BUSY: "it is locked by another connection; nothing was changed. Try again, or give the session a "
    "longer busy_timeout",
    sqlite3.SQLITE_FULL: "there is no room for it; nothing was changed. Make room, and try again",
    sqlite3.SQLITE_READONLY: "it may not be written; nothing was changed. See to the permissions of the file and of "
    "its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened. See that its directory exists and may be written",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; it was left as it is. Give another path",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Restore it from a copy",
    sqlite3.SQLITE_IOERR: "the disk fails. See to it, and try again",
}
"""The cause of an error and its remedy, by SQLite's primary result code."""


class Unusable(Exception):
    """The file exists, but cannot be used for sessions; the message says why."""


FAILURES = (sqlite3.Error, FileNotFoundError, Unusable)
"""The exceptions that `failure` explains."""


class Database:
    """One file, or one database in memory, with one connection that is opened on demand."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lane = Lane()
        self._sessions: WeakSet[object] = WeakSet()
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._file = b""
        self._process = os.getpid()
        if path != MEMORY:
            close_before_forks(self)

    def __del__(self) -> None:
        with suppress(Exception):
            self.disconnect()

    @property
    def turn(self) -> threading.Lock:
        """The lock held while the connection is used."""
        return self.lane.turn

    def join(self, session: object) -> None:
        """Add a session to the users of the database."""
        with _sharing:
            self._sessions.add(session)

    def leave(self, session: object) -> bool:
        """Remove a session; return True if no session uses the database any more."""
        with _sharing:
            self._sessions.discard(session)
            return not self._sessions

    def disconnect(self) -> None:
        """Close the connection. The next use opens another; a database in memory is lost."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process != os.getpid():
            _abandoned.append(connection)
            return
        with suppress(sqlite3.Error):
            connection.close()

    def use(self, work: Callable[[sqlite3.Connection], R], busy_timeout: float, known: bytes | None) -> tuple[R, bytes]:
        """Run `work` on a connection to the file; return its result and the file's id.

        `known` is the id of the file that was used before. Raises `FileNotFoundError` if the file is
        another one or missing: its items are gone, and the user must know before a new file is used.
        """
        with self._kept_sound():
            connection = self._connected(busy_timeout, known)
            done = work(connection)
            if self.path != MEMORY and _inode(self.path) != self._inode:
                raise FileNotFoundError(self.path)  # the file was removed meanwhile, and the work is lost
            return done, self._file

    @contextmanager
    def _kept_sound(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._connection is not None and self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
            if self.path != MEMORY:
                self.disconnect()
            raise

    def _connected(self, busy_timeout: float, known: bytes | None) -> sqlite3.Connection:
        if self.path != MEMORY:
            inode = _inode(self.path)
            if inode is None and known is not None:
                raise FileNotFoundError(self.path)
            if inode is None or inode != self._inode or self._process != os.getpid():
                self.disconnect()
        if self._connection is None:
            self._process = os.getpid()
            self._connection = _connect(self.path, busy_timeout)
            self._inode = _inode(self.path)
            [[self._file]] = self._connection.execute("SELECT id FROM assent_file")
        if known is not None and known != self._file:
            raise FileNotFoundError(self.path)
        self._connection.execute(f"PRAGMA busy_timeout={int(busy_timeout * 1000)}")
        return self._connection


_shared: WeakValueDictionary[str, Database] = WeakValueDictionary()
_sharing = threading.Lock()
_abandoned: list[sqlite3.Connection] = []
"""Connections that were still open at a fork. SQLite allows the child neither to use nor to close them."""


def share(path: str) -> Database:
    """Return the database of a file, which all sessions of the process share; a new one for `:memory:`."""
    if path == MEMORY:
        return Database(path)
    with _sharing:
        database = _shared.get(path)
        if database is None:
            database = _shared[path] = Database(path)
        return database


def _forked() -> None:
    global _sharing
    _sharing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def failure(session_id: str, path: str, error: Exception) -> SessionFailed:
    """Return the error for the session's user."""
    if isinstance(error, FileNotFoundError):
        why = (
            "the file was removed or replaced while it was in use, and what was stored in it is gone with it. Put it "
            "back, or call again to go on with what is there"
        )
    elif isinstance(error, sqlite3.Error):
        why = f"{WHY[code]} ({error})" if (code := _code(error)) in WHY else str(error)
    else:
        why = str(error)
    return SessionFailed(f"Session {session_id!r} cannot use {path}: {why}.")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the body in a transaction that holds the write lock from its beginning."""
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")  # after an error, `Database.use` rolls back


def _connect(path: str, busy_timeout: float) -> sqlite3.Connection:
    """Open a file, and create its tables if it is empty; raise `Unusable` if it is another program's."""
    if path != MEMORY:
        with suppress(OSError):  # SQLite reports an error of the path
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))  # readable only by its owner
    deadline = time.monotonic() + busy_timeout
    while True:
        connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection)
            return connection
        except BaseException as error:
            connection.close()
            # The change to WAL mode does not wait for a lock as other statements do, so retry it.
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.005)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.text_factory = bytes  # so that a damaged text is reported with its row
    if not _ours(connection):
        connection.execute("PRAGMA journal_mode=WAL")
        with transaction(connection):
            if not _ours(connection):
                for statement in TABLES:
                    connection.execute(statement)
    # A run never stores a confirmed item again, so the item must survive a power cut; NORMAL could lose it.
    connection.execute("PRAGMA synchronous=FULL")


def _ours(connection: sqlite3.Connection) -> bool:
    """Return True if the tables exist, False for an empty file; raise `Unusable` if the file is another program's."""
    [[application, version, things]] = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    )
    if (application, version) == (APPLICATION, VERSION):
        return True
    if application == APPLICATION:
        raise Unusable(f"it has schema version {version}, and this Assent knows {VERSION}. Use the Assent that made it")
    if application or version or things:
        raise Unusable("it is a database of another program; it was left as it is. Give another path")
    return False


def _code(error: BaseException) -> int | None:
    """Return SQLite's primary result code; None if the error is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _inode(path: str) -> tuple[int, int] | None:
    """Return the device and inode that the path leads to now; None if there is no file.

    Reliable only while the file to compare with is open, since inodes are reused.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
