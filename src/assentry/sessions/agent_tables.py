"""The session in the tables of the OpenAI Agents SDK, in an SQLite file: both programs read and write them.

An item's run and its place there are in a table of Assentry's own, which the SDK does not look at. So what is promised
of a session in a file holds for these tables too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import allowed
from ..errors import UsageError
from .sqlite import SQLiteSession
from .stored import Statements

if TYPE_CHECKING:
    from .agent_file import AgentFile

TABLE = allowed.Values(
    "a table's name of letters, digits and _",
    lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value),
)


class AgentTablesSession(SQLiteSession):
    """A conversation in the tables of the OpenAI Agents SDK, in an SQLite file or in memory.

    A file that the SDK made is used as it is, and the SDK can go on with a file that was made or used here, even at the
    same time. What a run writes is written once, as with `SQLiteSession`.
    """

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        *,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        busy_timeout: float = 5.0,
    ) -> None:
        for name, table in (("sessions_table", sessions_table), ("messages_table", messages_table)):
            allowed.check_option(type(self).__name__, name, table, TABLE, UsageError)
        if sessions_table.lower() == messages_table.lower():
            raise UsageError(f"{type(self).__name__}: sessions_table and messages_table are two tables.")
        self.sessions_table, self.messages_table = sessions_table, messages_table
        self._table = messages_table
        self._sql = _statements(messages_table)
        super().__init__(session_id, db_path, busy_timeout=busy_timeout)

    def _file_tables(self) -> tuple[str, ...]:
        return self.sessions_table, self.messages_table

    def _make_file(self, path: str) -> AgentFile:
        from .agent_file import AgentFile

        return AgentFile(path, self.sessions_table, self.messages_table)

    def _append(self, connection: Any, key: str, texts: list[str]) -> None:
        self._touch(connection, key)
        super()._append(connection, key, texts)

    def _append_of_run(self, connection: Any, here: tuple[str, str, int], texts: list[str]) -> None:
        key, run, position = here
        self._touch(connection, key)
        stored = connection.execute(self._sql.stored, (*here, position + len(texts))).fetchall()
        known = {at for at, _ in stored}
        for at, text in enumerate(texts, position):
            if at not in known:
                id = connection.execute(self._sql.add, (key, text)).lastrowid
                connection.execute(self._sql.write, (key, run, at, id))

    def _clear(self, connection: Any, key: str) -> None:
        super()._clear(connection, key)
        connection.execute(f"DELETE FROM {self.sessions_table} WHERE session_id = ?", (key,))
        connection.execute(f"DELETE FROM assentry_places_{self._table} WHERE session = ?", (key,))

    def _touch(self, connection: Any, key: str) -> None:
        """Write the session's own row, and the time of its last change."""
        connection.execute(f"INSERT OR IGNORE INTO {self.sessions_table} (session_id) VALUES (?)", (key,))
        connection.execute(
            f"UPDATE {self.sessions_table} SET updated_at = CURRENT_TIMESTAMP WHERE session_id = ?", (key,)
        )


def _statements(messages: str) -> Statements:
    places = f"assentry_places_{messages}"
    return Statements(
        latest=f"SELECT id, message_data FROM {messages} WHERE session_id = ? ORDER BY id DESC LIMIT ?",
        add=f"INSERT INTO {messages} (session_id, message_data) VALUES (?, ?)",
        # The SDK may have removed the message of a place; its id is never used again.
        write=f"INSERT OR REPLACE INTO {places} (session, run, position, id) VALUES (?, ?, ?, ?)",
        stored=f"SELECT position, message_data FROM {places} JOIN {messages} USING (id)"
        " WHERE session = ? AND run = ? AND position >= ? AND position < ?",
        rewind=f"DELETE FROM {messages} WHERE id IN"
        f" (SELECT id FROM {places} WHERE session = ? AND run = ? AND position >= ?)",
        remove=f"DELETE FROM {messages} WHERE id = ?",
        clear=f"DELETE FROM {messages} WHERE session_id = ?",
    )
