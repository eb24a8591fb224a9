"""The session in a database: its methods, and what the sessions of one database share in a process."""

from __future__ import annotations

import asyncio
import itertools
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar
from weakref import WeakSet, WeakValueDictionary

import msgspec

from ..core import allowed
from ..core.digest import BadJSON, plain
from ..core.transcript import Item
from ..core.wording import described, holds
from ..errors import InvalidInput, SessionFailed, UsageError
from ..sql.process import Owner
from ..sql.thread_queue import ThreadQueue
from .session import PLACE, SAME, WritePlace, replace_all

R = TypeVar("R")
C = TypeVar("C", bound="Connections")

Work = Callable[[Any], R]
"""Blocking work on a driver's connection. Both drivers have `execute` and `cursor().executemany`."""

LARGEST = 2**63 - 1
"""The largest integer that a database column can hold."""
NUMBER = allowed.Values("a whole number from 0 on", lambda value: type(value) is int and value >= 0)
LIMIT = NUMBER.or_none
SESSION_ID = allowed.Values("text that is not empty", lambda value: isinstance(value, str) and value and holds(value))
THREADS = 8
"""The threads of a process for all its sessions. They wait for disks and locks, never for a person: few are enough."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class SessionFailure(Exception):
    """The database failed; the message says why, and what to do."""

    def __init__(self, why: str, *, gone: bool, unknown: bool) -> None:
        super().__init__(why)
        self.gone = gone
        """True if the tables that were used before no longer exist."""
        self.unknown = unknown
        """True if the change may have been made."""


class Statements(NamedTuple):
    """The SQL of a session. `run` and `position` are an item's run and its number there, if a run wrote it."""

    latest: str = "SELECT seq, item FROM assentry_items WHERE session = ? ORDER BY seq DESC LIMIT ?"
    add: str = "INSERT INTO assentry_items (session, item) VALUES (?, ?)"
    write: str = (
        "INSERT INTO assentry_items (session, run, position, item) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (session, run, position) WHERE run IS NOT NULL DO NOTHING"
    )
    stored: str = (
        "SELECT position, item FROM assentry_items WHERE session = ? AND run = ? AND position >= ? AND position < ?"
    )
    rewind: str = "DELETE FROM assentry_items WHERE session = ? AND run = ? AND position >= ?"
    remove: str = "DELETE FROM assentry_items WHERE seq = ?"
    clear: str = "DELETE FROM assentry_items WHERE session = ?"


class Connections(Protocol):
    """The connections to a database."""

    owner: Owner

    def close(self) -> None:
        """Close the connections. The next use opens others."""


class Shared(Generic[C]):
    """The connections that the sessions of one database share in a process."""

    def __init__(self, connections: C) -> None:
        self.connections = connections
        self.sessions: WeakSet[StoredSession] = WeakSet()
        self.number = next(_numbers)
        weakref.finalize(self, connections.close).atexit = False


_numbers = itertools.count()
_shared: WeakValueDictionary[Hashable, Shared[Any]] = WeakValueDictionary()


def share(key: Hashable, open_connections: Callable[[], C]) -> Shared[C]:
    """Return what the sessions with this key share in this process."""
    found: Shared[C] | None = _shared.get(key)
    if found is None or found.connections.owner.elsewhere:
        found = _shared[key] = Shared(open_connections())
    return found


_queues: list[ThreadQueue] = []


def _make_queues() -> None:
    _queues[:] = [ThreadQueue(1, "assentry-session") for _ in range(THREADS)]


_make_queues()
if hasattr(os, "register_at_fork"):  # the threads do not exist in a forked child
    os.register_at_fork(after_in_child=_make_queues)


class StoredSession(ABC):
    """A conversation in a database. It can be closed, and used in a `with` or an `async with`."""

    _table = "assentry_items"
    _sql = Statements()

    def __init__(self, session_id: str, where: str, shared: Shared[Any], line: int) -> None:
        self.session_id = session_id
        self._where = where
        self._shared = shared
        self._line = line % THREADS
        """The number of the queue, whose work is done in its order."""
        self._known: Any = None
        """The id of the tables that were used last."""
        self._closed = False
        shared.sessions.add(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, {self._where!r})"

    @property
    def session_id(self) -> str:
        """The id of the conversation. A session that is given another id goes on with another conversation."""
        return self._session_id

    @session_id.setter
    def session_id(self, value: str) -> None:
        allowed.check_option(type(self).__name__, "session_id", value, SESSION_ID, UsageError)
        self._session_id, self._key = value, self._stored_key(value)

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest `limit` items, oldest first; all items without a limit."""
        limit = self._usual_limit() if limit is None else limit
        allowed.check_option(type(self).__name__, "limit", limit, LIMIT, UsageError)
        key, count = self._key, LARGEST if limit is None else min(limit, LARGEST)

        def read(connection: Any) -> list[Item]:
            rows = connection.execute(self._sql.latest, (key, count)).fetchall()
            return [self._item(*row) for row in reversed(rows)]

        return await self._do(read, writes=False)

    async def add_items(self, items: list[Item]) -> None:
        """Append all of the items in their order, with no other item between them, or none."""
        texts, place = texts_of(items), PLACE.get()
        if place is not None and place.session is self and len(texts) <= place.left:
            with place.taken(len(texts)) as position:
                await self._write(place.run, position, texts)
            return
        key = self._key
        await self._do(lambda connection: self._append(connection, key, texts))

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        """Append a run's items; items that are stored at their positions already are not stored again.

        If a different item is stored at one of the positions, the run was resumed from an earlier save
        and took another course: the run's items from `position` on are replaced.

        If `add_items` is overridden, it gets the items. What it passes on to the `add_items` of this class has the same
        places in the run, as far as it is no more than it was given.
        """
        allowed.check_option(type(self).__name__, "run_id", run_id, SESSION_ID, UsageError)
        allowed.check_option(type(self).__name__, "position", position, NUMBER, UsageError)
        run = self._stored_key(run_id)
        texts = texts_of(items)
        if position > LARGEST - len(texts):
            raise UsageError(f"There is no position {position}.")
        if not self._overrides("add_items"):
            await self._write(run, position, texts)
            return
        before = PLACE.set(WritePlace(self, run, position, len(texts)))
        try:
            await self.add_items(items)
        finally:
            PLACE.reset(before)

    async def _write(self, run: str, position: int, texts: list[str]) -> None:
        here, same = (self._key, run, position), SAME.get()

        def change(connection: Any) -> None:
            stored = connection.execute(self._sql.stored, (*here, position + len(texts))).fetchall()
            if not all(same(text, texts[at - position]) for at, text in stored):
                connection.execute(self._sql.rewind, here)
            self._append_of_run(connection, here, texts)

        await self._do(change, repeatable=True)

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item; None if there is none."""

        key = self._key

        def pop(connection: Any) -> Item | None:
            row = connection.execute(self._sql.latest, (key, 1)).fetchone()
            if row is None:
                return None
            connection.execute(self._sql.remove, row[:1])
            return self._item(*row)

        return await self._do(pop)

    async def clear_session(self) -> None:
        """Remove all items of this session."""
        key = self._key
        await self._do(lambda connection: self._clear(connection, key))

    async def replace_latest(self, old: list[Item], new: list[Item]) -> bool:
        """Replace the latest items with others, if they are `old` and nothing came after them; return True if so.

        If `get_items` or `add_items` is overridden, `old` must be all items, and the overridden methods are called.
        """
        if self._overrides("get_items") or self._overrides("add_items"):
            return await replace_all(self, old, new)
        before, texts, key = [plain(item) for item in old], texts_of(new), self._key

        def replace(connection: Any) -> bool:
            rows = connection.execute(self._sql.latest, (key, max(1, len(before)))).fetchall()
            if [self._item(*row) for row in reversed(rows)] != before:
                return False
            for row in rows:
                connection.execute(self._sql.remove, row[:1])
            self._append(connection, key, texts)
            return True

        return await self._do(replace)

    def _usual_limit(self) -> int | None:
        """Return the limit of `get_items` if none is given."""
        return None

    def _append(self, connection: Any, key: str, texts: list[str]) -> None:
        connection.cursor().executemany(self._sql.add, [(key, text) for text in texts])

    def _append_of_run(self, connection: Any, here: tuple[str, str, int], texts: list[str]) -> None:
        """Append the items of a run, but those that are stored at their positions."""
        key, run, position = here
        rows = [(key, run, position + n, text) for n, text in enumerate(texts)]
        connection.cursor().executemany(self._sql.write, rows)

    def _clear(self, connection: Any, key: str) -> None:
        connection.execute(self._sql.clear, (key,))

    def close(self) -> None:
        """Close the session after its pending work. A session in memory is lost. Closing twice does no harm."""
        if self._closes():
            self._queue.wait(self._leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._overrides("close"):
            await asyncio.to_thread(self.close)
        elif self._closes():
            await self._queue.do(self._leave)

    def _overrides(self, name: str) -> bool:
        """Return True if a subclass or this object has a method of its own in place of this class's."""
        return getattr(type(self), name) is not getattr(StoredSession, name) or name in vars(self)

    @abstractmethod
    def _use(self, work: Work[R], *, writes: bool) -> tuple[R, Any]:
        """Run `work` in a transaction, which is durable on return, or rolled back after an error.

        Returns its result and the id of the tables. Raises `SessionFailure`, and if the tables are not the known ones.
        """

    def _stored_key(self, text: str) -> str:
        """Return an id as it is stored."""
        return text

    @property
    def _queue(self) -> ThreadQueue:
        return _queues[self._line]

    async def _do(self, work: Work[R], *, writes: bool = True, repeatable: bool = False) -> R:
        if self._closed:
            raise SessionFailed(
                f"Session {self.session_id!r} was closed. Make a new one; what it stored is still there."
            )
        self._shared.connections.owner.check()
        return await self._queue.do(lambda: self._done(work, writes, repeatable))

    def _done(self, work: Work[R], writes: bool, repeatable: bool) -> R:
        try:
            done, self._known = self._use(work, writes=writes)
            return done
        except SessionFailure as failure:
            if failure.unknown and repeatable and not failure.gone:
                with suppress(SessionFailure):  # the first attempt may have succeeded
                    done, self._known = self._use(work, writes=writes)
                    return done
            if failure.gone:
                self._known = None  # this call raises; the next one may use the new tables
            raise self._failed(failure) from failure

    def _failed(self, failure: SessionFailure) -> SessionFailed:
        changed = "Nothing was changed."
        if failure.unknown:
            changed = (
                "It is not known whether the change was made. A run may just be resumed; before any other call is "
                "repeated, look at what is there."
            )
        return SessionFailed(f"Session {self.session_id!r} cannot use {self._where}: {failure}. {changed}")

    def _item(self, seq: int, text: Any) -> Item:
        try:
            return _decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
            raise SessionFailed(
                f"Session {self.session_id!r} has an item that is damaged: row {seq} of {self._table} in {self._where} "
                f"({error}). Mend or delete that row, or clear the session."
            ) from None

    def _closes(self) -> bool:
        if self._closed:
            return False
        self._shared.connections.owner.check()
        self._closed = True
        return True

    def _leave(self) -> None:
        self._shared.sessions.discard(self)
        if not self._shared.sessions:
            self._shared.connections.close()


def texts_of(items: Any) -> list[str]:
    """Encode the items as JSON texts, which later changes to the items do not affect."""
    if not isinstance(items, list | tuple) or not all(isinstance(item, dict) for item in items):
        raise InvalidInput(f"A session takes a list of items (dicts), got {described(items)}. Nothing was stored.")
    try:
        return [_encode(plain(item)).decode() for item in items]
    except BadJSON as error:
        raise InvalidInput(f"An item cannot be stored: {error}. Nothing was stored.") from None
