"""The session in an SQLite file, or in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..core import allowed
from ..errors import UsageError
from ..sql.arguments import BUSY_TIMEOUT, check_path
from .stored import SESSION_ID, Shared, StoredSession, Work, share

if TYPE_CHECKING:
    from .sqlite_file import SessionConnection, SessionFile

R = TypeVar("R")


class SQLiteSession(StoredSession):
    """A conversation in an SQLite file, or in memory as long as this object lives.

    Any number of sessions, threads, event loops and processes may use one file at once, and a `SQLiteStore` may use it
    too; sessions with different ids do not see each other's items. Nothing is opened before the first use; after a
    fork, make a new session. A database that is full, missing, or locked for longer than `busy_timeout` (in seconds)
    raises `SessionFailed`, and nothing is stored; the same call works once the problem is solved.
    """

    _shared: Shared[SessionConnection]

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", *, busy_timeout: float = 5.0) -> None:
        allowed.check_option(type(self).__name__, "session_id", session_id, SESSION_ID, UsageError)
        path = check_path(db_path, "A session's db_path")
        allowed.check_option(type(self).__name__, "busy_timeout", busy_timeout, BUSY_TIMEOUT, UsageError)
        self._busy_timeout = busy_timeout
        from .sqlite_file import SessionConnection  # imports sqlite3

        key = object() if path == ":memory:" else (path, *self._file_tables())
        shared = share(key, lambda: SessionConnection(self._make_file(path)))
        super().__init__(session_id, path, shared, shared.number)

    def _file_tables(self) -> tuple[str, ...]:
        """Return the names of the tables that are not the usual ones."""
        return ()

    def _make_file(self, path: str) -> SessionFile:
        from .sqlite_file import SessionFile

        return SessionFile(path)

    def _use(self, work: Work[R], *, writes: bool) -> tuple[R, Any]:
        return self._shared.connections.use(work, self._busy_timeout, self._known, writes=writes)
