"""The session in an SQLite file, or in memory. `database` has the connection."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..core.digest import described
from ..core.transcript import Item
from ..errors import SessionFailed, UsageError
from .stored import LARGEST, Closing, checked_name, checked_number, decode, texts_of

if TYPE_CHECKING:
    from sqlite3 import Connection

R = TypeVar("R")

LATEST = "SELECT seq, item FROM assent_items WHERE session = ? ORDER BY seq DESC LIMIT ?"
ADD = "INSERT INTO assent_items (session, item) VALUES (?, ?)"
WRITE = (
    "INSERT INTO assent_items (session, run, position, item) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (session, run, position) WHERE run IS NOT NULL DO NOTHING"
)
STORED = "SELECT position, item FROM assent_items WHERE session = ? AND run = ? AND position >= ? AND position < ?"
REWIND = "DELETE FROM assent_items WHERE session = ? AND run = ? AND position >= ?"
REMOVE = "DELETE FROM assent_items WHERE seq = ?"
CLEAR = "DELETE FROM assent_items WHERE session = ?"


class SQLiteSession(Closing):
    """A conversation in an SQLite file, or in memory as long as this object lives.

    Any number of sessions, threads, event loops and processes may use one file at once; sessions with
    different ids do not see each other's items. Nothing is opened before the first use. A database that
    is full, missing, or locked for longer than `busy_timeout` (in seconds) raises `SessionFailed`, and
    nothing is stored; the same call works once the problem is solved.
    """

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", *, busy_timeout: float = 5.0) -> None:
        self.session_id = checked_name(session_id, "A session's id")
        """The id of the conversation."""
        self._path = _path(db_path)
        self._busy_timeout = _seconds(busy_timeout)
        self._file: bytes | None = None
        from .database import share  # imports sqlite3

        self._database = self._shared = share(self._path)
        self._database.join(self)

    def __repr__(self) -> str:
        return f"SQLiteSession({self.session_id!r}, {self._path!r})"

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest `limit` items, oldest first; all items without a limit."""
        count = -1 if limit is None else min(checked_number(limit, "A limit"), LARGEST)

        def read(connection: Connection) -> list[Item]:
            rows = connection.execute(LATEST, (self.session_id, count)).fetchall()
            return [self._item(*row) for row in reversed(rows)]

        return await self._do(read)

    async def add_items(self, items: list[Item]) -> None:
        """Append all of the items in their order, with no other item between them, or none."""
        await self._change(ADD, [(self.session_id, text) for text in texts_of(items)])

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        """Append a run's items; items that are stored at their positions already are not stored again.

        If a different item is stored at one of the positions, the run was resumed from an earlier save
        and took another course: the run's items from `position` on are replaced.
        """
        from .database import transaction

        run = checked_name(run_id, "A run's id")
        texts = texts_of(items)
        if checked_number(position, "A position") > LARGEST - len(texts):
            raise UsageError(f"There is no position {position}.")

        def change(connection: Connection) -> None:
            here = (self.session_id, run, position)
            with transaction(connection):
                stored = connection.execute(STORED, (*here, position + len(texts)))
                if any(text != texts[at - position].encode() for at, text in stored):
                    connection.execute(REWIND, here)
                connection.executemany(WRITE, [(*here[:2], position + n, text) for n, text in enumerate(texts)])

        await self._do(change)

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item; None if there is none."""
        from .database import transaction

        def pop(connection: Connection) -> Item | None:
            with transaction(connection):
                row = connection.execute(LATEST, (self.session_id, 1)).fetchone()
                item = row and self._item(*row)
                if row:
                    connection.execute(REMOVE, row[:1])
            return item

        return await self._do(pop)

    async def clear_session(self) -> None:
        """Remove all items of this session."""
        await self._change(CLEAR, [(self.session_id,)])

    async def _change(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        from .database import transaction

        def change(connection: Connection) -> None:
            with transaction(connection):
                connection.executemany(statement, rows)

        await self._do(change)

    async def _do(self, work: Callable[[Connection], R]) -> R:
        if self._closed:
            raise SessionFailed(f"Session {self.session_id!r} was closed. Make a new one; a file is still there.")
        return await asyncio.wrap_future(self._database.lane.submit(lambda: self._done(work)))

    def _done(self, work: Callable[[Connection], R]) -> R:
        from .database import FAILURES, failure

        try:
            done, self._file = self._database.use(work, self._busy_timeout, self._file)
            return done
        except FAILURES as error:
            if isinstance(error, FileNotFoundError):
                self._file = None  # this call raises; the next one may use the new file
            raise failure(self.session_id, self._path, error) from error

    def _item(self, seq: int, text: Any) -> Item:
        try:
            return decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as error:
            raise SessionFailed(
                f"Session {self.session_id!r} has an item that is damaged: row {seq} of assent_items in {self._path} "
                f"({error}). Mend or delete that row, or clear the session."
            ) from None


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
