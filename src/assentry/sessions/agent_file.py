"""An SQLite file with the tables of the OpenAI Agents SDK's sessions, made by either program.

The statements that make the SDK's tables are those of its documented schema. Beside them are two tables of Assentry's
own: the places of items in their runs, and the file's id.
"""

from __future__ import annotations

import sqlite3

from ..sql.sqlite_connection import SESSIONS, FileUnusable
from .sqlite_file import SessionFile, has_table

VERSION = 1
TABLES = (
    "CREATE TABLE IF NOT EXISTS {sessions} (session_id TEXT PRIMARY KEY,"
    " created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
    "CREATE TABLE IF NOT EXISTS {messages} (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,"
    " message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
    " FOREIGN KEY (session_id) REFERENCES {sessions} (session_id) ON DELETE CASCADE)",
    "CREATE INDEX IF NOT EXISTS idx_{messages}_session_id ON {messages} (session_id, id)",
    "CREATE TABLE IF NOT EXISTS assentry_places_{messages} (session TEXT NOT NULL, run TEXT NOT NULL,"
    " position INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (session, run, position)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS assentry_agent_file (id BLOB NOT NULL, version INTEGER NOT NULL)",
    f"INSERT INTO assentry_agent_file SELECT randomblob(16), {VERSION}"
    " WHERE NOT EXISTS (SELECT * FROM assentry_agent_file)",
)
COLUMNS = {"id", "session_id", "message_data"}
"""The columns of the SDK's table of messages that are read and written."""


class AgentFile(SessionFile):
    """A file with the SDK's tables under these names, and perhaps with other tables."""

    def __init__(self, path: str, sessions: str, messages: str) -> None:
        super().__init__(path)
        self._sessions, self._messages = sessions, messages

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Create the tables that are missing; raise `FileUnusable` if the conversations are in other tables."""
        if has_table(connection, "assentry_items"):
            raise FileUnusable(
                "it has conversations of Assentry's own SQLiteSession, in other tables; it was left as it is. Go on "
                "with them by `from assentry import SQLiteSession`, or give another path"
            )
        self._check_messages(connection)
        connection.execute("PRAGMA journal_mode=WAL")
        if not self._is_ready(connection):
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.execute(f"PRAGMA application_id={SESSIONS}")  # a new file, which a store may use too
            for statement in TABLES:
                connection.execute(statement.format(sessions=self._sessions, messages=self._messages))
            connection.execute("COMMIT")
        self.check(connection)

    def _is_ready(self, connection: sqlite3.Connection) -> bool:
        names = (self._sessions, self._messages, f"assentry_places_{self._messages}", "assentry_agent_file")
        return all(has_table(connection, name) for name in names)

    def _check_messages(self, connection: sqlite3.Connection) -> None:
        """Raise `FileUnusable` if the table of messages is not the SDK's, whose ids are never used again."""
        made = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (self._messages,)).fetchone()
        if made is None:
            return
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({self._messages})")}
        if not columns >= COLUMNS or "AUTOINCREMENT" not in made[0].upper():
            raise FileUnusable(
                f"its table {self._messages} is not one of the Agents SDK's; it was left as it is. Give another path, "
                "or another messages_table"
            )

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `FileUnusable` unless the tables are those that this Assentry knows."""
        row = connection.execute("SELECT id, version FROM assentry_agent_file").fetchone()
        if row is None:
            raise FileUnusable("its table assentry_agent_file is empty. Restore it from a copy")
        self.id, version = row
        if version != VERSION:
            raise FileUnusable(
                f"it has version {version} of the tables beside the Agents SDK's, and this Assentry knows {VERSION}. "
                "Use the Assentry that made them"
            )
