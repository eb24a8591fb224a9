"""The session in the tables of the OpenAI Agents SDK, in any database that an engine of SQLAlchemy reaches.

The engine is the user's, so the tables have no room for an item's place in a run: such a session has no `write`.
Imports `sqlalchemy`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import TIMESTAMP, Column, ForeignKey, Index, Integer, MetaData, Select, String, Table, Text, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ..core import allowed
from ..core.digest import plain
from ..core.transcript import Item
from ..core.wording import described
from ..errors import SessionFailed, UsageError
from .agent_tables import TABLE
from .stored import LARGEST, LIMIT, SESSION_ID, texts_of

NOW = text("CURRENT_TIMESTAMP")


class AgentDatabaseSession:
    """A conversation in the tables of the OpenAI Agents SDK, in the database of an engine of SQLAlchemy.

    With `create_tables` the first use makes the tables that are missing.
    """

    def __init__(
        self,
        session_id: str,
        *,
        engine: AsyncEngine,
        create_tables: bool = False,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
    ) -> None:
        whose = type(self).__name__
        allowed.check_option(whose, "session_id", session_id, SESSION_ID, UsageError)
        for name, table in (("sessions_table", sessions_table), ("messages_table", messages_table)):
            allowed.check_option(whose, name, table, TABLE, UsageError)
        given: Any = engine
        if not isinstance(given, AsyncEngine):
            raise UsageError(f"{whose}: engine must be an AsyncEngine of SQLAlchemy, got {described(given)}.")
        self.session_id = session_id
        self._engine = engine
        self._missing = create_tables
        """True until the tables were made."""
        self._sessions, self._messages = _tables(sessions_table, messages_table)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, {self._engine.url.render_as_string()!r})"

    @property
    def engine(self) -> AsyncEngine:
        """The engine."""
        return self._engine

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest `limit` items, oldest first; all items without a limit."""
        limit = self._usual_limit() if limit is None else limit
        allowed.check_option(type(self).__name__, "limit", limit, LIMIT, UsageError)
        async with self._used(writes=False) as connection:
            return [item for _, item in await self._latest(connection, limit)]

    async def add_items(self, items: list[Item]) -> None:
        """Append all of the items in their order, or none."""
        texts = texts_of(items)
        async with self._used() as connection:
            await self._append(connection, texts)

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item; None if there is none."""
        async with self._used() as connection:
            for id, item in await self._latest(connection, 1):
                await connection.execute(self._messages.delete().where(self._messages.c.id == id))
                return item
        return None

    async def clear_session(self) -> None:
        """Remove all items of this session."""
        async with self._used() as connection:
            for table in (self._messages, self._sessions):
                await connection.execute(table.delete().where(table.c.session_id == self.session_id))

    async def replace_latest(self, old: list[Item], new: list[Item]) -> bool:
        """Replace the latest items with others, if they are `old` and nothing came after them; return True if so."""
        before, texts = [plain(item) for item in old], texts_of(new)
        async with self._used() as connection:
            found = await self._latest(connection, max(1, len(before)))
            if [item for _, item in found] != before:
                return False
            for id, _ in found:
                await connection.execute(self._messages.delete().where(self._messages.c.id == id))
            await self._append(connection, texts)
            return True

    def _usual_limit(self) -> int | None:
        """Return the limit of `get_items` if none is given."""
        return None

    async def _latest(self, connection: AsyncConnection, limit: int | None) -> list[tuple[int, Item]]:
        table = self._messages
        query: Select[Any] = (
            table.select()
            .where(table.c.session_id == self.session_id)
            .order_by(table.c.created_at.desc(), table.c.id.desc())
            .limit(min(LARGEST if limit is None else limit, LARGEST))
        )
        rows = (await connection.execute(query)).all()
        return [(row.id, self._item(row.id, row.message_data)) for row in reversed(rows)]

    def _item(self, id: int, data: str) -> Item:
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SessionFailed(
                f"Session {self.session_id!r} has an item that is damaged: row {id} of {self._messages.name}. Mend or "
                "delete that row, or clear the session."
            )
        return found

    async def _append(self, connection: AsyncConnection, texts: list[str]) -> None:
        rows = [{"session_id": self.session_id, "message_data": each} for each in texts]
        if rows:
            await connection.execute(self._messages.insert(), rows)

    @asynccontextmanager
    async def _used(self, *, writes: bool = True) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction; one that writes holds the row of the session, so that writers wait for one another."""
        try:
            if self._missing:
                async with self._engine.begin() as connection:
                    await connection.run_sync(self._messages.metadata.create_all)
                self._missing = False
            async with self._engine.begin() as connection:
                if writes:
                    await self._hold(connection)
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise SessionFailed(
                f"Session {self.session_id!r} cannot use its database ({type(error).__name__}): {error}. Look at what "
                "is there before a call is repeated."
            ) from error

    async def _hold(self, connection: AsyncConnection) -> None:
        own = self._sessions.c.session_id == self.session_id
        touch = self._sessions.update().where(own).values(updated_at=NOW)
        if (await connection.execute(touch)).rowcount:
            return
        try:
            async with connection.begin_nested():
                await connection.execute(self._sessions.insert().values(session_id=self.session_id))
        except IntegrityError:  # another writer was first
            await connection.execute(touch)


def _tables(sessions: str, messages: str) -> tuple[Table, Table]:
    metadata = MetaData()
    parents = Table(
        sessions,
        metadata,
        Column("session_id", String, primary_key=True),
        Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        Column("updated_at", TIMESTAMP, server_default=NOW, nullable=False),
    )
    rows = Table(
        messages,
        metadata,
        Column("id", Integer, primary_key=True, autoincrement=True),
        Column("session_id", String, ForeignKey(f"{sessions}.session_id", ondelete="CASCADE"), nullable=False),
        Column("message_data", Text, nullable=False),
        Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        Index(f"idx_{messages}_session_time", "session_id", "created_at"),
        sqlite_autoincrement=True,
    )
    return parents, rows
