"""The session in a Postgres database. `server` has the connections."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..core.digest import described
from ..core.transcript import Item
from ..errors import SessionFailed, UsageError
from .stored import LARGEST, Closing, checked_name, checked_number, decode, texts_of

if TYPE_CHECKING:
    from uuid import UUID

    from .server import Connection

R = TypeVar("R")

LATEST = "SELECT seq, item FROM assent_session_items WHERE session = %s ORDER BY seq DESC LIMIT %s::bigint"
ADD = "INSERT INTO assent_session_items (session, item) VALUES (%s, %s)"
WRITE = (
    "INSERT INTO assent_session_items (session, run, position, item) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (session, run, position) WHERE run IS NOT NULL DO NOTHING"
)
STORED = (
    "SELECT position, item FROM assent_session_items"
    " WHERE session = %s AND run = %s AND position >= %s AND position < %s"
)
REWIND = "DELETE FROM assent_session_items WHERE session = %s AND run = %s AND position >= %s"
REMOVE = "DELETE FROM assent_session_items WHERE seq = %s"
CLEAR = "DELETE FROM assent_session_items WHERE session = %s"
SHOWN = ("service", "host", "hostaddr", "port", "user", "dbname")
"""The parts of an address that errors show. The password is not among them."""


class PostgresSession(Closing):
    """A conversation in a Postgres database. Needs `pip install "assent[postgres]"`.

    The url has libpq's format: `postgresql://user:password@host/database`. Any number of sessions,
    threads, event loops and processes may use one database at once; sessions with different ids do not
    see each other's items. Nothing is opened before the first use, which creates the tables if there are
    none. A server that is unreachable, refuses a call, or makes it wait for a connection or a lock for
    longer than `timeout` (in seconds) raises `SessionFailed`, which says what to do; the next call opens
    a new connection.
    """

    def __init__(self, session_id: str, url: str, *, timeout: float = 10.0) -> None:
        self.session_id = checked_name(session_id, "A session's id")
        """The id of the conversation."""
        try:
            from .server import share  # imports psycopg
        except ImportError as error:
            raise UsageError(
                f'PostgresSession needs psycopg, which is not installed ({error}): pip install "assent[postgres]"'
            ) from error
        settings = _settings(url)
        self._where = " ".join(["Postgres", *(f"{name}={settings[name]}" for name in SHOWN if name in settings)])
        self._timeout = _seconds(timeout)
        self._tables: UUID | None = None
        self._key = _key(session_id)
        self._lock = _lock(self._key)
        self._line = self._shared = share(settings, self._lock)
        self._line.join(self)

    def __repr__(self) -> str:
        return f"PostgresSession({self.session_id!r}, {self._where!r})"

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest `limit` items, oldest first; all items without a limit."""
        count = None if limit is None else min(checked_number(limit, "A limit"), LARGEST)

        def read(connection: Connection) -> list[Item]:
            rows = connection.execute(LATEST, (self._key, count)).fetchall()
            return [self._item(*row) for row in reversed(rows)]

        return await self._do(read)

    async def add_items(self, items: list[Item]) -> None:
        """Append all of the items in their order, with no other item between them, or none."""
        rows = [(self._key, text) for text in texts_of(items)]
        await self._do(lambda connection: connection.cursor().executemany(ADD, rows), lock=self._lock)

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        """Append a run's items; items that are stored at their positions already are not stored again.

        If a different item is stored at one of the positions, the run was resumed from an earlier save
        and took another course: the run's items from `position` on are replaced.
        """
        run = _key(checked_name(run_id, "A run's id"))
        texts = texts_of(items)
        if checked_number(position, "A position") > LARGEST - len(texts):
            raise UsageError(f"There is no position {position}.")

        def change(connection: Connection) -> None:
            here = (self._key, run, position)
            stored = connection.execute(STORED, (*here, position + len(texts)))
            if any(text != texts[at - position] for at, text in stored):
                connection.execute(REWIND, here)
            rows = [(*here[:2], position + n, text) for n, text in enumerate(texts)]
            connection.cursor().executemany(WRITE, rows)

        await self._do(change, lock=self._lock, repeatable=True)

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item; None if there is none."""

        def pop(connection: Connection) -> Item | None:
            row = connection.execute(LATEST, (self._key, 1)).fetchone()
            if row is None:
                return None
            connection.execute(REMOVE, row[:1])
            return self._item(*row)

        return await self._do(pop, lock=self._lock)

    async def clear_session(self) -> None:
        """Remove all items of this session."""

        def clear(connection: Connection) -> None:
            connection.execute(CLEAR, (self._key,))

        await self._do(clear, lock=self._lock)

    async def _do(self, work: Callable[[Connection], R], *, lock: int | None = None, repeatable: bool = False) -> R:
        if self._closed:
            raise SessionFailed(f"Session {self.session_id!r} was closed. Make a new one; its items are still there.")
        return await asyncio.wrap_future(self._line.lane.submit(lambda: self._done(work, lock, repeatable)))

    def _done(self, work: Callable[[Connection], R], lock: int | None, repeatable: bool) -> R:
        from .server import FAILURES, Gone, failure

        try:
            done, self._tables = self._line.use(work, self._timeout, self._tables, lock=lock, repeatable=repeatable)
            return done
        except FAILURES as error:
            if isinstance(error, Gone):
                self._tables = None  # this call raises; the next one may use the new tables
            raise failure(self.session_id, self._where, error) from error

    def _item(self, seq: int, text: str) -> Item:
        try:
            return decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SessionFailed(
                f"Session {self.session_id!r} has an item that is damaged: row {seq} of assent_session_items in "
                f"{self._where} ({error}). Mend or delete that row, or clear the session."
            ) from None


def _settings(url: Any) -> dict[str, str]:
    """Return the url's settings. The url may have a password, so no error shows it."""
    from .server import settings

    if not isinstance(url, str) or not url:
        raise UsageError(f"A session's url is a text that is not empty, got a {type(url).__name__}.")
    found = settings(url.replace("postgresql+psycopg:", "postgresql:", 1))  # SQLAlchemy's form
    if found is None:
        raise UsageError("A session's url is one such as postgresql://user:password@host/database; this one is not.")
    return found


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 2_000_000:
        raise UsageError(f"A timeout is a number of seconds, more than 0, got {described(value)}.")
    return value


def _key(text: str) -> str:
    """Return a text as stored: unchanged, or its digest if it is too long for an index or has a NUL."""
    data = text.encode()
    if len(data) <= 200 and b"\0" not in data and not text.startswith("sha256:"):
        return text
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _lock(key: str) -> int:
    """Return the number of a session's advisory lock. Two sessions with one number only wait for each other."""
    return int.from_bytes(hashlib.sha256(f"assent session {key}".encode()).digest()[:8], signed=True)
