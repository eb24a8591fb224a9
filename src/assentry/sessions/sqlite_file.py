"""The tables of sessions in an SQLite file, and the connection that the file's sessions share.

The only module of `sessions` that imports `sqlite3`; the first `SQLiteSession` imports it.
"""

from __future__ import annotations

import sqlite3
from typing import TypeVar

from ..sql.sqlite_connection import (
    SESSIONS,
    FileGone,
    FileUnusable,
    Handle,
    SQLiteFile,
    begin_file,
    explain_sqlite,
    header,
)
from .stored import SessionFailure, Work

R = TypeVar("R")

VERSION = 1
TABLES = (
    # `run` and `position` are an item's run and its number there; items from `add_items` have neither.
    "CREATE TABLE assentry_items"
    " (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, run TEXT, position INTEGER, item TEXT NOT NULL)",
    # Every SQLite index ends with the rowid, so this index has a session's items in their order.
    "CREATE INDEX assentry_items_of_session ON assentry_items (session)",
    "CREATE UNIQUE INDEX assentry_items_of_run ON assentry_items (session, run, position) WHERE run IS NOT NULL",
    # The file's own id: a path may lead to another file later, and a file system reuses inode numbers.
    "CREATE TABLE assentry_file (id BLOB NOT NULL, version INTEGER NOT NULL)",
    f"INSERT INTO assentry_file VALUES (randomblob(16), {VERSION})",
)
RENAMED = (  # the tables of files that were made under the earlier name, Assent
    "DROP INDEX assent_items_of_session",
    "DROP INDEX IF EXISTS assent_items_of_run",
    TABLES[3],
    f"INSERT INTO assentry_file SELECT id, {VERSION} FROM assent_file",
    "ALTER TABLE assent_items RENAME TO assentry_items",
    TABLES[1],
    TABLES[2],
    "DROP TABLE assent_file",
)
TURN_AWAY = (  # a program under the earlier name finds a version that it does not know, and makes no tables of its own
    "CREATE TABLE IF NOT EXISTS assent_file (id BLOB NOT NULL, version INTEGER NOT NULL)",
    f"INSERT INTO assent_file SELECT id, {VERSION + 1} FROM assentry_file WHERE NOT EXISTS (SELECT * FROM assent_file)",
)


class SessionFile(SQLiteFile):
    """A file with the tables of sessions, and perhaps with those of a store."""

    remedy = "Put it back, or call again to go on with what is there"

    def __init__(self, path: str) -> None:
        super().__init__(path, 0.0, f"The session in {path}")
        self.id = b""
        """The id of the file that was opened last."""

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create the tables if there are none; raise `FileUnusable` if the file is another program's."""
        if not has_table(connection, "assentry_file") and has_table(connection, "agent_messages"):
            raise FileUnusable(
                "it has conversations of the OpenAI Agents SDK, in its table agent_messages; it was left as it is. Go "
                "on with them by the SQLiteSession of assentry.agents, or give another path"
            )
        application, _ = header(connection)
        if not application:
            begin_file(connection)
        if not has_table(connection, "assentry_file"):
            connection.execute("BEGIN IMMEDIATE")
            application, _ = header(connection)  # another process may have been first
            making = RENAMED if has_table(connection, "assent_items") else TABLES
            for statement in () if has_table(connection, "assentry_file") else (*making, *TURN_AWAY):
                connection.execute(statement)
            if not application:
                connection.execute(f"PRAGMA application_id={SESSIONS}")
            connection.execute("COMMIT")
        self.check(connection)

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `FileUnusable` unless the tables are those that this Assentry knows."""
        row = connection.execute("SELECT * FROM assentry_file").fetchone()
        if row is None:
            raise FileUnusable("its table assentry_file is empty. Restore it from a copy")
        self.id, version = row if len(row) == 2 else (row[0], VERSION)  # the table of older files has no version
        if version != VERSION:
            raise FileUnusable(
                f"it has schema version {version} of sessions, and this Assentry knows {VERSION}. "
                "Use the Assentry that made it"
            )

    def failure(self, error: Exception, *, unknown: bool = False) -> SessionFailure:
        """Return the error; after one about a file that is gone, the next use may create another."""
        gone = isinstance(error, FileGone)
        if gone:
            self.seen = False
        return SessionFailure(explain_sqlite(error), gone=gone, unknown=unknown)


class SessionConnection:
    """The connection to a file that all sessions of the process share; a database in memory has one session."""

    def __init__(self, file: SessionFile) -> None:
        self._file = file
        self._handle = Handle(self._file)
        self.owner = self._file.owner
        self.close = self._handle.disconnect

    def use(self, work: Work[R], busy_timeout: float, known: bytes | None, *, writes: bool) -> tuple[R, bytes]:
        """Run `work` on a connection to the file; return its result and the file's id.

        `known` is the id of the file that was used before. Raises `SessionFailure` if it is another one or missing.
        """

        def checked(connection: sqlite3.Connection) -> R:
            if known not in (None, self._file.id):
                raise self._file.gone()
            return work(connection)

        self._handle.renew(busy_timeout)
        done = self._handle.write(checked) if writes else self._handle.read(checked)
        return done, self._file.id


def has_table(connection: sqlite3.Connection, table: str) -> bool:
    """Return True if the file has a table of this name."""
    [[count]] = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (table,))
    return bool(count)
