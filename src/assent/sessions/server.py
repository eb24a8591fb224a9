"""One Postgres database of sessions: the connections to it, its tables, and what to say when it fails.

The only module of this room that knows `psycopg`; it is imported with the first session that needs it. Everything here
but `settings`, `share`, `join` and `leave` blocks, and is called in a line's lane.
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
"""Connections of one process to one database, at most. A session always has the same, so its calls keep their order."""
VERSION = 1
MAKING = 0x417353655353
"""The advisory lock of whoever makes the tables."""
TABLES = (
    # `run` and `position` say where in a run an item was generated; items that were just added have neither. An item
    # is text and not jsonb, which would forget the order of keys and refuse a NUL.
    "CREATE TABLE assent_session_items (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    ' session TEXT COLLATE "C" NOT NULL, run TEXT COLLATE "C", position BIGINT, item TEXT NOT NULL)',
    "CREATE INDEX assent_session_items_of_session ON assent_session_items (session, seq)",
    "CREATE UNIQUE INDEX assent_session_items_of_run ON assent_session_items (session, run, position)"
    " WHERE run IS NOT NULL",
    # Which tables these are: they may be removed, and made again by somebody else.
    "CREATE TABLE assent_session_schema (version INTEGER NOT NULL, tables UUID NOT NULL)",
    f"INSERT INTO assent_session_schema VALUES ({VERSION}, gen_random_uuid())",
)
THERE = "SELECT version, tables FROM assent_session_schema"
# The order of a session is the order in which this lock is had. What a statement sees is what was committed when it
# begins, so whatever comes after the lock sees all that was done under it before; only READ COMMITTED is like that.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {milliseconds}"
LOCK = (
    # What a run was told is stored it never stores again, so it must outlive a power cut.
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';"
    " SELECT pg_advisory_xact_lock({lock})"
)
PATIENCE: Settings = {
    "tcp_user_timeout": "25000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
"""How a network that went away is noticed, unless the url says otherwise."""
ENDED = ("08", "57P")
"""How the SQLSTATE of a connection that is over begins."""
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
"""What is wrong and what to do, by SQLSTATE or its class."""
REFUSED = (
    ("password", "the server refuses the user or the password. See to both in the url"),
    ("pg_hba.conf", "the server refuses this user from here. See to its pg_hba.conf, or to the user in the url"),
    ("role ", "there is no such user. Create it, or name another in the url"),
    ("database ", "there is no such database, or it may not be used. Create it, or name another in the url"),
    ("connection slots", "the server has too many connections. Try again, or allow it more"),
    ("too many", "the server has too many connections. Try again, or allow it more"),
    ("", "the server cannot be reached. See that it runs, and that the url names it; then try again"),
)
"""The same for a connection that was not had: there is no SQLSTATE then, and only the server's words are left."""


class Trouble(Exception):
    """The database cannot be used; says why, and what to do."""


class Unreachable(Trouble):
    """There is no connection to be had."""


class Lost(Trouble):
    """The connection is gone, and nothing was changed."""


class Unknown(Trouble):
    """The connection is gone, and it is not known whether the change was made."""


class Gone(Trouble):
    """The tables that were used before are not there any more."""


FAILURES = (psycopg.Error, Trouble)
"""What `failure` has words for."""


class Line:
    """One of the connections to a database, opened when it is needed."""

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
        """Count this session among those that use the line."""
        with _sharing:
            self._sessions.add(session)

    def leave(self, session: object) -> bool:
        """Count it out; whether nobody uses the line any more."""
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
        """Do the work in a transaction, under the lock if one is named, and say which tables that was in.

        A connection that turns out to be lost is made anew, once, and the work is done there. If it was lost
        while the work was committed, that is done for work that is `repeatable` only; else it is `Unknown`.
        `known` are the tables that were used before; if they are not there, it is `Gone`.
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
                raise unknown from error  # whatever is wrong now, the first time may have worked

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
                connection.execute("ROLLBACK")  # now, and not when the server comes to notice
            self.disconnect()
            if isinstance(error, psycopg.Error) and (over or (error.sqlstate or "").startswith(ENDED)):
                raise lost from error
            raise


_shared: WeakValueDictionary[tuple[object, ...], Line] = WeakValueDictionary()
_sharing = threading.Lock()
_abandoned: list[Connection] = []
"""Connections that came with a fork. They are the parent's: closed here, they would end there."""


def settings(url: str) -> Settings | None:
    """What the url says, as libpq understands it; None if it does not."""
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        return None


def share(settings: Settings, lock: int) -> Line:
    """The line for the session with this lock: all sessions of a process have a few lines to a database."""
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
    """What the user of a session is told."""
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
        # A pool in between, such as PgBouncer, may hand out another server connection for each transaction, so nothing
        # is left behind on one: no prepared statements, no settings.
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
    """Begin a transaction in tables that are ours, or are now; which they are."""
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
    """Make the tables, unless somebody else just did."""
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
    """What the last of the statements gives. They go to the server, and its answers come back, as one."""
    cursor = connection.execute("; ".join(statements).encode())
    while cursor.nextset():
        pass
    return cursor.fetchone()


def _gone() -> Gone:
    return Gone(
        "its tables were removed or replaced while they were in use, and what was stored in them is gone with them. "
        "Put them back, or call again to go on with what is there"
    )
