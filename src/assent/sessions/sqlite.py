"""The session in an SQLite file, or in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.digest import described
from ..errors import UsageError
from .stored import Shared, StoredSession, Work, checked_name, share

if TYPE_CHECKING:
    from .sqlite_file import SessionConnection

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
        checked_name(session_id, "A session's id")
        path = _path(db_path)
        self._busy_timeout = _seconds(busy_timeout)
        from .sqlite_file import SessionConnection  # imports sqlite3

        key = object() if path == ":memory:" else path
        shared = share(key, lambda: SessionConnection(path))
        super().__init__(session_id, path, shared, shared.number)

    def _use(self, work: Work[R], *, writes: bool) -> tuple[R, Any]:
        return self._shared.connections.use(work, self._busy_timeout, self._known, writes=writes)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 2_000_000:
        raise UsageError(f"A busy_timeout is a number of seconds, 0 or more, got {described(value)}.")
    return value


def _path(given: Any) -> str:
    """Return the absolute path, which a change of the working directory does not affect; or `:memory:`."""
    if not isinstance(given, str | os.PathLike) or not isinstance(path := os.fspath(given), str):
        raise UsageError(f"A session's db_path is a path or ':memory:', got {described(given)}.")
    if path == ":memory:":
        return path
    if not path or "\0" in path:
        raise UsageError(f"A session's db_path is a path or ':memory:', got {path!r}.")
    path = os.path.realpath(path)
    if os.path.isdir(path):
        raise UsageError(f"{path} is a directory; a session's db_path names a file.")
    if not os.path.isdir(os.path.dirname(path)):
        raise UsageError(f"There is no directory {os.path.dirname(path)} for the sessions; make it first.")
    return path
