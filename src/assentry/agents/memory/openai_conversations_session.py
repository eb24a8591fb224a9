"""The names of `agents.memory.openai_conversations_session`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.transcript import Item
from ...sessions import openai_conversations
from ..absent import find_absent
from .session import SessionABC
from .session_settings import SessionSettings, coerce_session_settings, resolve_session_limit

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from ..items import TResponseInputItem

__all__ = ["OpenAIConversationsSession", "start_openai_conversations_session"]


WITH_ID = frozenset(
    {
        "code_interpreter_call",
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "item_reference",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "reasoning",
        "web_search_call",
    }
)
"""The types of items that keep their ids: those of which the API asks for one, and reasoning, which is known by it."""


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

    def _as_written(self, items: list[Item]) -> list[Item]:
        """Return items as they are sent to the API, which gives messages, calls and outputs ids of its own."""
        return [_without_id(item) for item in super()._as_written(items) if not _is_empty_thought(item)]

    def as_heard(self, items: list[Item]) -> list[Item]:
        """Return loaded items as a run hears them: without the ids of the model's messages.

        The API refuses such an id if the reasoning that led to the message is not there too.
        """
        own = [item.get("type") == "message" and item.get("role") == "assistant" for item in items]
        return [_without_id(item) if said else item for item, said in zip(items, own, strict=True)]

    def _usual_limit(self) -> int | None:
        return resolve_session_limit(None, self.session_settings)

    if TYPE_CHECKING:

        async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]: ...  # type: ignore[override]
        async def add_items(self, items: list[TResponseInputItem]) -> None: ...  # type: ignore[override]
        async def pop_item(self) -> TResponseInputItem | None: ...  # type: ignore[override]


async def start_openai_conversations_session(openai_client: AsyncOpenAI | None = None) -> str:
    """Make a conversation, and return its id."""
    return await OpenAIConversationsSession(openai_client=openai_client)._get_session_id()


def _without_id(item: Item) -> Item:
    """Return an item without its id, unless items of its type must have one."""
    if item.get("type") in WITH_ID:
        return item
    return {name: value for name, value in item.items() if name != "id"}


def _is_empty_thought(item: Item) -> bool:
    """Return True for reasoning that the API would refuse, since there is nothing to know it by."""
    return item.get("type") == "reasoning" and not item.get("id") and not item.get("encrypted_content")


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
