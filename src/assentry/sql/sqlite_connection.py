"""The connections to one SQLite file, and the messages of its errors.

Everything here blocks. It is called on a thread of a `ThreadQueue` or, if it is short, on an event loop that holds the
queue's turn.
"""

from __future__ import annotations

import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, ClassVar, TypeVar

from ..errors import AssentryError
from .process import Owner

R = TypeVar("R")

Work = Callable[[sqlite3.Connection], R]
Outcome = tuple[Any, BaseException | None]
"""The result of a write, or its error."""

MEMORY = ":memory:"
STORE = 0x41735374
"""The `application_id` of a file with a store's tables ("AsSt"). It may have the tables of sessions too."""
SESSIONS = 0x41734E74
"""The `application_id` of a file that has only the tables of sessions ("AsNt")."""
PAGE = 1024
"""The bytes of a page. Larger pages would waste more space and write more at each commit.

Every table and index takes at least one page, a commit writes each page that it touches, and a row that does not fit
continues on pages of its own.
"""
LOG = 4 * 2**20
"""The bytes of the write-ahead log at which it is written into the file, and to which a longer log is cut back."""
SETTINGS = (
    # A confirmed write must survive a power cut; NORMAL could lose it.
    "PRAGMA synchronous=FULL",
    # Erased content, and earlier versions of it, must not stay in the free pages of the file.
    "PRAGMA secure_delete=ON",
    f"PRAGMA journal_size_limit={LOG}",
    f"PRAGMA wal_autocheckpoint={LOG // PAGE}",
    "PRAGMA cache_size=-16000",  # 16 MB, enough for the upper levels of very large indexes
)
WHY = {
    sqlite3.SQLITE_BUSY: "it is locked by another connection. Try again, or set a longer busy_timeout",
    sqlite3.SQLITE_FULL: "there is no room for it. Make room, and try again",
    sqlite3.SQLITE_READONLY: "it may not be written. See to the permissions of the file and of its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened. See that its directory exists and may be written",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; it was left as it is. Give another path",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Restore it from a copy",
    sqlite3.SQLITE_IOERR: "the disk fails. See to it, and try again",
}
"""The cause of an error and its remedy, by SQLite's primary result code."""
NOT_MADE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})
"""The result codes of a failed commit that was certainly not made. After any other, it may come back after a crash."""

Inode = tuple[int, int]

_open: dict[sqlite3.Connection, Inode | None] = {}
"""The open connections of this process with their files, so that no connection is closed by the garbage collector."""
_inherited: set[Inode | None] = set()
"""The files that were open in the parent when this process was forked."""


def _leak() -> None:
    """Keep the parent's connections for ever in a forked child, which may neither use nor close them.

    SQLite takes the locks that the parent holds on a file for the child's own. So it would give the child no locks of
    its own on that file, on a new connection either, and the child's writes could be lost. Python closes a connection
    that it frees, at the latest when the interpreter ends, so each one is given a reference that nobody returns.
    """
    from ctypes import py_object, pythonapi

    _inherited.update(_open.values())
    _inherited.discard(None)  # of a database in memory
    for connection in _open:
        pythonapi.Py_IncRef(py_object(connection))
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leak)


class FileUnusable(Exception):
    """The file cannot be used; the message says why."""


class FileGone(FileUnusable):
    """The file was removed or replaced."""


class Locked(Exception):
    """Another connection holds a lock, and the caller did not want to wait. Nothing was done."""


class SQLiteFile(ABC):
    """A file, or a database in memory, and its tables.

    A file that disappears is not created again while `seen` is True, which would hide the loss of its content.
    """

    remedy: ClassVar[str]
    """The advice to the user of a file that was removed or replaced."""

    def __init__(self, path: str, busy_timeout: float, name: str) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.owner = Owner(name)
        self.seen = False
        self.known: set[str] = set()
        """The rows that are certainly stored. A new connection empties it, since the file may be a restored copy."""

    @abstractmethod
    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create or migrate the tables; raise `FileUnusable` if the file is another program's."""

    @abstractmethod
    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `FileUnusable` if another process has upgraded the tables; called at the beginning of every write."""

    @abstractmethod
    def failure(self, error: Exception, *, unknown: bool = False) -> Exception:
        """Return the error for the user; `unknown` if the change may have been written."""

    def gone(self) -> FileGone:
        """Return the error for a file that was removed or replaced."""
        return FileGone(
            "the file was removed or replaced while it was in use, and what was written to it meanwhile is gone with "
            f"it. {self.remedy}"
        )


def explain_sqlite(error: Exception) -> str:
    """Return the cause of an error and its remedy."""
    code = _code(error)
    return f"{WHY[code]} ({error})" if code in WHY else str(error)


def header(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the file's `application_id` and `user_version`; raise `FileUnusable` if the file is another program's."""
    [[application, version, things]] = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    )
    if application not in (STORE, SESSIONS) and (application or version or things):
        raise FileUnusable("it is a database of another program; it was left as it is. Give another path")
    return application, version


def begin_file(connection: sqlite3.Connection) -> None:
    """Set what must be set before a new file has its first table."""
    connection.execute(f"PRAGMA page_size={PAGE}")
    connection.execute("PRAGMA journal_mode=WAL")


class NotShared(Exception):
    """A write of a shared transaction failed in a way that may concern the others. Nothing was written."""


class Handle:
    """One connection to a file, opened on demand and reopened after an error. It is used by one thread at a time.

    With `reads` the connection cannot write. Without `waits` it waits for locks only in `write`, and only if asked to.
    """

    def __init__(self, file: SQLiteFile, *, reads: bool = False, waits: bool = True) -> None:
        self.file = file
        self._reads, self._waits = reads, waits
        self._connection: sqlite3.Connection | None = None
        self._inode: Inode | None = None
        self.pace = 0.0
        """The moving average of a write transaction's seconds, without the wait for the lock."""

    def write(self, work: Work[R], *, waits: bool = True) -> R:
        """Run `work` in a transaction that holds the write lock from its beginning.

        Raises `Locked` if the lock is taken and `waits` is False.
        """
        committing = False
        try:
            connection = self._connected()
            self._begin(connection, waits)
            began = perf_counter()
            done = work(connection)
            committing = True  # even a file that is gone after its commit may be put back
            connection.execute("COMMIT")
            self.pace += (perf_counter() - began - self.pace) / 8
            self._check_inode()
            return done
        except BaseException as error:
            self._clear(error)
            if isinstance(error, sqlite3.Error | FileUnusable):
                unknown = committing and _code(error) not in NOT_MADE
                raise self.file.failure(error, unknown=unknown) from error
            raise

    def write_all(self, works: Sequence[Work[Any]]) -> list[Outcome]:
        """Run each `work` as `write` does, but all with one commit, and return their outcomes.

        A `work` that raises an `AssentryError` is rolled back alone. After any other error all are rolled back, and
        each is run again in a transaction of its own. A commit that fails is the outcome of all.
        """
        if len(works) < 2:
            return [self._write_one(work) for work in works]
        try:
            return self._write_shared(works)
        except NotShared:
            return [self._write_one(work) for work in works]

    def _write_one(self, work: Work[Any]) -> Outcome:
        try:
            return self.write(work), None
        except BaseException as error:
            return None, error

    def _write_shared(self, works: Sequence[Work[Any]]) -> list[Outcome]:
        begun = committing = False
        try:
            connection = self._connected()
            self._begin(connection, waits=True)
            begun, began = True, perf_counter()
            outcomes = [_in_savepoint(connection, work) for work in works]
            committing, worked = True, perf_counter() - began
            connection.execute("COMMIT")
            alone = perf_counter() - began - worked + worked / len(works)
            self.pace += (alone - self.pace) / 8
            self._check_inode()
            return outcomes
        except BaseException as error:
            self._clear(error)
            if begun and not committing:
                raise NotShared from error
            if not isinstance(error, sqlite3.Error | FileUnusable):
                return [(None, error) for _ in works]
            unknown = committing and _code(error) not in NOT_MADE
            return [(None, _caused(self.file.failure(error, unknown=unknown), error)) for _ in works]

    def _begin(self, connection: sqlite3.Connection, waits: bool) -> None:
        # SQLite's own busy_timeout holds for every statement; here each caller chooses whether to wait.
        end, pause = time.monotonic() + self.file.busy_timeout, 0.001
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or (waits and time.monotonic() >= end):
                    raise
                if not waits:
                    raise Locked from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        self.file.check(connection)

    def read(self, work: Work[R], *, snapshot: bool = False) -> R:
        """Run `work`, which only reads; with `snapshot` all of its statements see one snapshot.

        Raises `Locked` on a connection that does not wait for locks.
        """
        try:
            connection = self._connected()
            if snapshot:
                connection.execute("BEGIN")
            done = work(connection)
            if snapshot:
                connection.execute("COMMIT")
            self._check_inode()
            return done
        except BaseException as error:
            self._clear(error)
            if not self._waits and _code(error) == sqlite3.SQLITE_BUSY:
                raise Locked from error
            if isinstance(error, sqlite3.Error | FileUnusable):
                raise self.file.failure(error) from error
            raise

    @property
    def connected(self) -> bool:
        """True if the connection is open."""
        return self._connection is not None

    def execute(self, text: str) -> list[tuple[Any, ...]]:
        """Execute a statement outside of a transaction, and return its rows."""
        try:
            return self._connected().execute(text).fetchall()
        except (sqlite3.Error, FileUnusable) as error:
            self._clear(error)
            raise self.file.failure(error) from error

    def vacuum(self) -> None:
        """Rewrite the file, after waiting for other writers."""
        try:
            self.execute(f"PRAGMA busy_timeout={int(self.file.busy_timeout * 1000)}")
            self.execute("VACUUM")
        finally:
            self.disconnect()  # the next connection has the usual busy_timeout again

    def renew(self, busy_timeout: float) -> None:
        """Set the timeout for the next work. Close a connection to a file that the path no longer leads to."""
        self.file.busy_timeout = busy_timeout
        if self._connection is not None and _inode(self.file.path) != self._inode:
            self.disconnect()
        if self._connection is not None:
            self._connection.execute(f"PRAGMA busy_timeout={int(busy_timeout * 1000)}")

    def disconnect(self) -> None:
        """Close the connection, unless it is another process's. The next use opens another."""
        connection, self._connection = self._connection, None
        if connection is None or self.file.owner.elsewhere:
            return
        _open.pop(connection, None)
        with suppress(sqlite3.Error):
            connection.close()

    def _clear(self, error: BaseException) -> None:
        """Roll back an open transaction, and close a connection that has failed."""
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        harmless = isinstance(error, AssentryError | Locked) or _code(error) == sqlite3.SQLITE_BUSY
        if not harmless and self.file.path != MEMORY:
            self.disconnect()

    def _check_inode(self) -> None:
        if _inode(self.file.path) != self._inode:
            raise self.file.gone()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        if self.file.seen and _inode(self.file.path) is None:
            raise self.file.gone()
        connection = _connect(self.file)
        if not self._waits:
            connection.execute("PRAGMA busy_timeout=0")
        if self._reads:
            connection.execute("PRAGMA query_only=ON")
        else:
            self.file.known.clear()
        self._connection, self._inode = connection, _inode(self.file.path)
        self.file.seen = self.file.path != MEMORY
        return connection


def _in_savepoint(connection: sqlite3.Connection, work: Work[Any]) -> Outcome:
    """Run `work` inside of a transaction; roll back its changes alone if it raises an `AssentryError`."""
    connection.execute("SAVEPOINT shared")
    try:
        done = work(connection)
    except AssentryError as error:
        connection.execute("ROLLBACK TO shared")
        connection.execute("RELEASE shared")
        return None, error
    connection.execute("RELEASE shared")
    return done, None


def _caused(failure: Exception, cause: BaseException) -> Exception:
    failure.__cause__ = cause
    return failure


def _connect(file: SQLiteFile) -> sqlite3.Connection:
    """Open a file, and create or migrate its tables; raise `FileUnusable` if it is another program's."""
    if file.path != MEMORY:
        make_private(file.path)
    inode = _inode(file.path)
    if inode in _inherited:
        raise file.owner.open_at_fork()
    deadline = time.monotonic() + file.busy_timeout
    while True:
        connection = sqlite3.connect(
            file.path, timeout=file.busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        _open[connection] = inode
        try:
            connection.text_factory = _text
            file.prepare(connection)
            for setting in SETTINGS:
                connection.execute(setting)
            return connection
        except BaseException as error:
            del _open[connection]
            connection.close()
            # The change to WAL mode does not wait for a lock as other statements do, so retry it.
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.005)


def make_private(path: str) -> None:
    """Create a missing file with mode 0600. SQLite gives its log and shared memory the same mode."""
    with suppress(OSError):  # SQLite reports an error of the path
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _text(value: bytes) -> str:
    """Decode a text without an error, so that the check of its row reports a damaged text."""
    return value.decode("utf-8", "surrogateescape")


def _code(error: BaseException) -> int | None:
    """Return SQLite's primary result code; None if the error is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _inode(path: str) -> Inode | None:
    """Return the device and inode that the path leads to now; None if there is no file."""
    if path == MEMORY:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
