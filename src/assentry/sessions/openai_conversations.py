"""A session that OpenAI keeps: a conversation of its Conversations API."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from ..core import allowed
from ..core.transcript import Item
from ..errors import SessionFailed, UsageError
from ..models.client import client_with
from ..models.openai_client import shared_client
from ..models.wire import responses_items

if TYPE_CHECKING:
    from openai import AsyncOpenAI

R = TypeVar("R")
AT_ONCE = 20
"""The number of items that the API takes in one request."""
LIMIT = allowed.whole_number(0).or_none
PAGE = 100
"""The number of items that the API gives in one page, at most."""


class OpenAIConversationsSession:
    """A conversation that OpenAI keeps. Needs `pip install ".[openai]"`.

    Without a `conversation_id` a new conversation is made when the session is first used; then `session_id` is its id.
    Without an `openai_client` one is made from the `OPENAI_...` environment variables. The API has no way to write
    items once only: if a process dies right after a write, its items may be there twice.
    """

    def __init__(self, conversation_id: str | None = None, openai_client: AsyncOpenAI | None = None) -> None:
        whose = type(self).__name__
        allowed.check_option(whose, "conversation_id", conversation_id, allowed.NONEMPTY.or_none)
        allowed.check_option(whose, "openai_client", openai_client, client_with("conversations"))
        self._id = conversation_id
        self._client = openai_client

    def __repr__(self) -> str:
        return f"OpenAIConversationsSession({self._id!r})"

    @property
    def session_id(self) -> str:
        """The conversation's id; empty before a new conversation is made."""
        return self._id or ""

    @session_id.setter
    def session_id(self, value: str) -> None:
        allowed.check_option(type(self).__name__, "session_id", value, allowed.NONEMPTY)
        self._id = value

    async def open(self) -> None:
        """Make the conversation, unless it is there already."""
        if self._id is None:
            client = await self._opened()
            made = await self._done(client.conversations.create())
            self._id = self.session_id or made.id  # another task may have made one meanwhile

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest `limit` items, oldest first; all items without a limit."""
        limit = self._usual_limit() if limit is None else limit
        allowed.check_option(type(self).__name__, "limit", limit, LIMIT, UsageError)
        if limit == 0 or self._id is None:
            return []
        return await self._done(self._newest(self._id, limit))

    def _usual_limit(self) -> int | None:
        """Return the limit of `get_items` if none is given."""
        return None

    def _as_written(self, items: list[Item]) -> list[Item]:
        """Return items as they are sent to the API."""
        return responses_items(items)

    async def _newest(self, conversation: str, limit: int | None) -> list[Item]:
        client = await self._opened()
        found: list[Item] = []
        pages = client.conversations.items.list(conversation, order="desc", limit=min(limit or PAGE, PAGE))
        async for item in pages:
            found.append(item.to_dict(mode="json", exclude_unset=True, warnings=False))
            if len(found) == limit:
                break
        return found[::-1]

    async def add_items(self, items: list[Item]) -> None:
        """Append the items in their order; more than 20 items are written in several requests."""
        items = self._as_written(items)
        if not items:
            return
        await self.open()
        client, conversation = await self._opened(), self.session_id
        for first in range(0, len(items), AT_ONCE):
            part: Any = items[first : first + AT_ONCE]
            await self._done(client.conversations.items.create(conversation, items=part))

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item; None if there is none."""
        newest = await self._done(self._newest(self._id, 1)) if self._id is not None else []
        if not newest:
            return None
        client = await self._opened()
        await self._done(client.conversations.items.delete(newest[0]["id"], conversation_id=self.session_id))
        return newest[0]

    async def clear_session(self) -> None:
        """Delete the conversation. The next use of the session makes a new one, with another id."""
        if self._id is not None:
            client = await self._opened()
            await self._done(client.conversations.delete(self._id))
            self._id = None

    async def _opened(self) -> AsyncOpenAI:
        return self._client or await shared_client()

    async def _done(self, work: Awaitable[R]) -> R:
        """Return the result of a request, or raise `SessionFailed`."""
        try:
            return await work
        except UsageError:
            raise
        except Exception as error:
            name = self._id or "that is new"
            raise SessionFailed(
                f"The conversation {name} could not be used ({type(error).__name__}): {error}"
            ) from error
