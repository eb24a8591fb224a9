"""The names of `agents.extensions.memory.sqlalchemy_session`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ....core.wording import install_hint
from ....errors import UsageError
from ...absent import find_absent
from ...memory.session import SessionABC
from ...memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

try:
    importlib.import_module("greenlet")  # which SQLAlchemy's asyncio needs
    from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

    from ....sessions.agent_database import AgentDatabaseSession
except ImportError as error:
    raise UsageError(
        f"SQLAlchemySession needs SQLAlchemy's asyncio, which is not installed ({error}): {install_hint('sqlalchemy')}"
    ) from error

if TYPE_CHECKING:
    from ...items import TResponseInputItem

__all__ = ["SQLAlchemySession"]


class SQLAlchemySession(AgentDatabaseSession, SessionABC):
    """A conversation in the SDK's tables, in the database of an engine of SQLAlchemy.

    `assentry.PostgresSession` stores nothing twice after a crash; this one may.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        *,
        engine: AsyncEngine,
        create_tables: bool = False,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        ensure_ascii: bool = True,
    ) -> None:
        self.session_settings = coerce_session_settings(session_settings or {})
        super().__init__(
            session_id,
            engine=engine,
            create_tables=create_tables,
            sessions_table=sessions_table,
            messages_table=messages_table,
        )

    @classmethod
    def from_url(
        cls,
        session_id: str,
        *,
        url: str,
        engine_kwargs: dict[str, Any] | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> SQLAlchemySession:
        """Return a session in the database of this address, whose driver must be an async one."""
        try:
            engine = create_async_engine(url, **(engine_kwargs or {}))
        except Exception as error:
            raise UsageError(
                f"SQLAlchemy cannot make an engine for this url ({type(error).__name__}): {error}"
            ) from error
        return cls(session_id, engine=engine, session_settings=session_settings, **kwargs)

    def _usual_limit(self) -> int | None:
        return resolve_session_limit(None, self.session_settings)

    if TYPE_CHECKING:

        async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]: ...  # type: ignore[override]
        async def add_items(self, items: list[TResponseInputItem]) -> None: ...  # type: ignore[override]
        async def pop_item(self) -> TResponseInputItem | None: ...  # type: ignore[override]


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
