"""The names of `agents.memory.sqlite_session`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sessions.agent_tables import AgentTablesSession
from ..absent import find_absent
from .session import SessionABC
from .session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

if TYPE_CHECKING:
    from ..items import TResponseInputItem

__all__ = ["SQLiteSession"]


class SQLiteSession(AgentTablesSession, SessionABC):
    """A conversation in an SQLite file, or in memory as long as this object lives.

    It is in the SDK's own tables, so that a file of the SDK's is read and continued, and the SDK can go on with it.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_settings = coerce_session_settings(session_settings or {})
        self.db_path = db_path
        super().__init__(session_id, db_path, sessions_table=sessions_table, messages_table=messages_table)

    def _usual_limit(self) -> int | None:
        return resolve_session_limit(None, self.session_settings)

    if TYPE_CHECKING:
        session_id: str

        async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]: ...  # type: ignore[override]
        async def add_items(self, items: list[TResponseInputItem]) -> None: ...  # type: ignore[override]
        async def pop_item(self) -> TResponseInputItem | None: ...  # type: ignore[override]


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
