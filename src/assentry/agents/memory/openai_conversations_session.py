"""The names of `agents.memory.openai_conversations_session`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...sessions import openai_conversations
from ..absent import find_absent
from .session import SessionABC
from .session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from ..items import TResponseInputItem

__all__ = ["OpenAIConversationsSession", "start_openai_conversations_session"]


class OpenAIConversationsSession(openai_conversations.OpenAIConversationsSession, SessionABC):
    """A conversation that OpenAI keeps. `session_id` is empty before a new conversation is made."""

    session_settings: SessionSettings | None

    def __init__(
        self,
        *,
        conversation_id: str | None = None,
        openai_client: AsyncOpenAI | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_settings = coerce_session_settings(session_settings or {})
        super().__init__(conversation_id, openai_client)

    async def _get_session_id(self) -> str:
        """Return the conversation's id, and make the conversation before if there is none."""
        await self.open()
        return self.session_id

    def _usual_limit(self) -> int | None:
        return resolve_session_limit(None, self.session_settings)

    if TYPE_CHECKING:

        async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]: ...  # type: ignore[override]
        async def add_items(self, items: list[TResponseInputItem]) -> None: ...  # type: ignore[override]
        async def pop_item(self) -> TResponseInputItem | None: ...  # type: ignore[override]


async def start_openai_conversations_session(openai_client: AsyncOpenAI | None = None) -> str:
    """Make a conversation, and return its id."""
    return await OpenAIConversationsSession(openai_client=openai_client)._get_session_id()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
