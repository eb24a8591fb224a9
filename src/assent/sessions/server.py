"""One Postgres database of sessions: its connections, its tables, and the messages of its errors.

The only module of `sessions` that imports `psycopg`; the first `PostgresSession` imports it. Everything here but
`settings`, `share`, `join` and `leave` blocks, and is called on a line's lane.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ..errors import SessionFailed
from .lane import Lane

R = TypeVar("R")
Connection = psycopg.Connection[tuple[Any, ...]]
Settings = dict[str, str]

LINES = 4
"""The most connections of a process to one database. A session always uses the same one, which keeps its order."""
VERSION = 1
MAKING = 0x417353655353
"""The advisory lock held while the tables are created."""
TABLES = (
    # `run` and `position` are an item's run and its number there; items from `add_items` have neither. An item is text,
    # since jsonb would lose the order of keys and refuse a NUL.
    "CREATE TABLE assent_session_items (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    ' session TEXT COLLATE "C" NOT NULL, run TEXT COLLATE "C", position BIGINT, item TEXT NOT NULL)',
    "CREATE INDEX assent_session_items_of_session ON assent_session_items (session, seq)",
    "CREATE UNIQUE INDEX assent_session_items_of_run ON assent_session_items (session, run, position)"
    " WHERE run IS NOT NULL",
    # The tables' own id: they may be dropped, and created again by another process.
    "CREATE TABLE assent_session_schema (version INTEGER NOT NULL, tables UUID NOT NULL)",
    f"INSERT INTO assent_session_schema VALUES ({VERSION}, gen_random_uuid())",
)
THERE = "SELECT version, tables FROM assent_session_schema"
# The order of a session's items is the order in which writers acquire this lock. In READ COMMITTED, and only there, a
# statement sees everything committed before it began; so statements after the lock see all earlier writes under it.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {milliseconds}"
LOCK = (
    # A run never stores a confirmed item again, so the item must survive a power cut.
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';"
    " SELECT pg_advisory_xact_lock({lock})"
)
PATIENCE: Settings = {
    "tcp_user_timeout": "25000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
"""The default connection settings that detect a lost network."""
ENDED = ("08", "57P")
"""The beginnings of the SQLSTATEs of a lost connection."""
WHY = {
    "55P03": "it is locked by another connection; nothing was changed. Try again, or give the session a longer timeout",
    "57014": "the server cancelled the statement; nothing was changed. See to its statement_timeout, and try again",
    "53": "the server has no room for it, on its disk or in its memory; nothing was changed. Make room, and try again",
    "42501": "this user may not do that; nothing was changed. Grant it the right to create tables in the schema once, "
    "and to read and write assent_session_items and assent_session_schema",
    "25006": "it may only be read; nothing was changed. Name the server that may be written in the url",
    "42": "its tables are not what they should be; nothing was changed. Restore them from a copy",
    "XX": "it is damaged; nothing was changed. Restore it from a copy",
}
"""The cause of an error and its remedy, by SQLSTATE or its class."""
REFUSED = (
    ("password", "the server refuses the user or the password. See to both in the url"),
    ("pg_hba.conf", "the server refuses this user from here. See to its pg_hba.conf, or to the user in the url"),
    ("role ", "there is no such user. Create it, or name another in the url"),
    ("database ", "there is no such database, or it may not be used. Create it, or name another in the url"),
    ("connection slots", "the server has too many connections. Try again, or allow it more"),
    ("too many", "the server has too many connections. Try again, or allow it more"),
    ("", "the server cannot be reached. See that it runs, and that the url names it; then try again"),
)
"""The cause of a failed connection and its remedy, by the server's words, since there is no SQLSTATE."""


class Trouble(Exception):
    """The database cannot be used; the message says why, and what to do."""


class Unreachable(Trouble):
    """No connection could be opened."""


class Lost(Trouble):
    """The connection was lost, and nothing was changed."""


class Unknown(Trouble):
    """The connection was lost, and the change may or may not have been made."""


class Gone(Trouble):
    """The tables that were used before no longer exist."""


FAILURES = (psycopg.Error, Trouble)
"""The exceptions that `failure` explains."""


class Line:
    """One of the connections to a database, opened on demand."""

    def __init__(self, settings: Settings) -> None:
        self.lane = Lane()
        self._settings = settings
        self._sessions: WeakSet[object] = WeakSet()
        self._connection: Connection | None = None
        self._process = os.getpid()

    def __del__(self) -> None:
        with suppress(Exception):
            self.disconnect()

    def join(self, session: object) -> None:
        """Add a session to the users of the line."""
        with _sharing:
            self._sessions.add(session)

    def leave(self, session: object) -> bool:
        """Remove a session; return True if no session uses the line any more."""
        with _sharing:
            self._sessions.discard(session)
            return not self._sessions

    def disconnect(self) -> None:
        """Close the connection. The next use opens another."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process != os.getpid():
            _abandoned.append(connection)
            return
        with suppress(psycopg.Error):
            connection.close()

    def use(
        self,
        work: Callable[[Connection], R],
        timeout: float,
        known: UUID | None,
        *,
        lock: int | None = None,
        repeatable: bool = False,
    ) -> tuple[R, UUID]:
        """Run `work` in a transaction, under the advisory lock if one is given; return its result and the tables' id.

        After a lost connection the work is retried once, on a new connection. If the connection was lost
        during the commit, only `repeatable` work is retried; else `Unknown` is raised. `known` is the id of
        the tables that were used before; if they are gone, `Gone` is raised.
        """
        try:
            return self._once(work, timeout, known, lock)
        except Lost:
            return self._once(work, timeout, known, lock)
        except Unknown as unknown:
            if not repeatable:
                raise
            try:
                return self._once(work, timeout, known, lock)
            except FAILURES as error:
                raise unknown from error  # the first attempt may have succeeded

    def _once(
        self, work: Callable[[Connection], R], timeout: float, known: UUID | None, lock: int | None
    ) -> tuple[R, UUID]:
        connection = self._connected(timeout)
        lost = Lost("the connection was lost; nothing was changed. Try again")
        unknown = Unknown(
            "the connection was lost at the end of the change, which was made or was not. A run may just be resumed; "
            "before any other call is repeated, look at what is there"
        )
        with self._kept_sound(connection, lost):
            tables = _begin(connection, timeout, known, lock)
            done = work(connection)
        with self._kept_sound(connection, lost if lock is None else unknown):
            connection.execute("COMMIT")
        return done, tables

    def _connected(self, timeout: float) -> Connection:
        if self._process != os.getpid():
            self.disconnect()
        if self._connection is None:
            self._process = os.getpid()
            self._connection = _connect(self._settings, timeout)
        return self._connection

    @contextmanager
    def _kept_sound(self, connection: Connection, lost: Trouble) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            over = connection.closed
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")  # at once, not when the server notices the closed connection
            self.disconnect()
            if isinstance(error, psycopg.Error) and (over or (error.sqlstate or "").startswith(ENDED)):
                raise lost from error
            raise


_shared: WeakValueDictionary[tuple[object, ...], Line] = WeakValueDictionary()
_sharing = threading.Lock()
_abandoned: list[Connection] = []
"""Connections inherited by a fork. They belong to the parent; closing them here would end them there."""


def settings(url: str) -> Settings | None:
    """Return the url's settings; None if libpq cannot parse the url."""
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        return None


def share(settings: Settings, lock: int) -> Line:
    """Return the line for the session with this lock. The sessions of a process share a few lines to a database."""
    with _sharing:
        key = (*sorted(settings.items()), lock % LINES)
        line = _shared.get(key)
        if line is None:
            line = _shared[key] = Line(settings)
        return line


def _forked() -> None:
    global _sharing
    _sharing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def failure(session_id: str, where: str, error: Exception) -> SessionFailed:
    """Return the error for the session's user."""
    cause = error.__cause__ if isinstance(error, Trouble) else error
    why = str(error) if isinstance(error, Trouble) else _why(error)
    said = "" if cause is None else f" ({' '.join(str(cause).split())})"
    return SessionFailed(f"Session {session_id!r} cannot use {where}: {why}{said}.")


def _why(error: Exception) -> str:
    state = getattr(error, "sqlstate", None) or ""
    return WHY.get(state) or WHY.get(state[:2]) or "the server refuses it; nothing was changed. See what it says"


def _connect(settings: Settings, timeout: float) -> Connection:
    given = PATIENCE | {"connect_timeout": str(max(2, math.ceil(timeout)))} | settings | {"client_encoding": "UTF8"}
    try:
        # A pooler such as PgBouncer may use another server connection for each transaction, so nothing may stay on a
        # connection: no prepared statements, no settings.
        connection = psycopg.connect(autocommit=True, prepare_threshold=None, **given)  # type: ignore[arg-type]
    except psycopg.Error as error:
        said = str(error).rpartition("failed: ")[2]
        raise Unreachable(next(why for words, why in REFUSED if words in said)) from error
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        raise Trouble(f"its encoding is {encoding}, which cannot hold all text. Create one whose encoding is UTF8")
    return connection


def _begin(connection: Connection, timeout: float, known: UUID | None, lock: int | None) -> UUID:
    """Begin a transaction, creating the tables if there are none; return the tables' id."""
    begin = BEGIN.format(milliseconds=max(1, round(timeout * 1000)))
    statements = [begin, *([] if lock is None else [LOCK.format(lock=lock)]), THERE]
    try:
        row = _last(connection, statements)
    except psycopg.errors.UndefinedTable:
        if known is not None:
            raise _gone() from None
        connection.execute("ROLLBACK")
        _make(connection, begin)
        row = _last(connection, statements)
    if row is None:
        raise Trouble("its table assent_session_schema is empty. Restore it from a copy")
    version, tables = row
    if version != VERSION:
        raise Trouble(f"it has schema version {version}, and this Assent knows {VERSION}. Use the Assent that made it")
    if known not in (None, tables):
        raise _gone()
    return UUID(str(tables))


def _make(connection: Connection, begin: str) -> None:
    """Create the tables, unless another process just did."""
    _last(connection, [begin, f"SELECT pg_advisory_xact_lock({MAKING})"])
    [there] = _last(connection, ["SELECT to_regclass('assent_session_schema')"]) or [None]
    try:
        for statement in () if there else TABLES:
            connection.execute(statement.encode())
    except psycopg.errors.DuplicateTable:
        raise Trouble(
            "it has a table assent_session_items of another program; it was left as it is. Name another database in "
            "the url, or another schema (?options=-csearch_path%3Dname)"
        ) from None
    connection.execute("COMMIT")


def _last(connection: Connection, statements: list[str]) -> tuple[Any, ...] | None:
    """Execute statements in one roundtrip, and return the first row of the last one."""
    cursor = connection.execute("; ".join(statements).encode())
    while cursor.nextset():
        pass
    return cursor.fetchone()


def _gone() -> Gone:
    return Gone(
        "its tables were removed or replaced while they were in use, and what was stored in them is gone with them. "
        "Put them back, or call again to go on with what is there"
    )
