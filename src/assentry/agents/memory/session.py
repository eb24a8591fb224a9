"""The names of `agents.memory.session`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

from ...sessions.openai_compaction import CompactionArgs as OpenAIResponsesCompactionArgs
from ...sessions.session import compacts
from ..absent import find_absent

if TYPE_CHECKING:
    from ..items import TResponseInputItem
    from .session_settings import SessionSettings

__all__ = [
    "OpenAIResponsesCompactionArgs",
    "OpenAIResponsesCompactionAwareSession",
    "Session",
    "SessionABC",
    "is_openai_responses_compaction_aware_session",
]


@runtime_checkable
class Session(Protocol):
    """A conversation's memory: the SDK's protocol. `assentry.Session` is the same without the settings."""

    session_id: str
    session_settings: SessionSettings | None = None

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest `limit` items, oldest first; all items without a limit."""
        ...

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append all of the items in their order."""
        ...

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item; None if there is none."""
        ...

    async def clear_session(self) -> None:
        """Remove all items."""
        ...


class SessionABC(ABC):
    """A session's base class, for sessions of one's own."""

    session_id: str
    session_settings: SessionSettings | None = None

    @abstractmethod
    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest `limit` items, oldest first; all items without a limit."""

    @abstractmethod
    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append all of the items in their order."""

    @abstractmethod
    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item; None if there is none."""

    @abstractmethod
    async def clear_session(self) -> None:
        """Remove all items."""


@runtime_checkable
class OpenAIResponsesCompactionAwareSession(Session, Protocol):
    """A session that can make its history shorter."""

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Make the history shorter, if it is time to."""
        ...


def is_openai_responses_compaction_aware_session(
    session: Any,
) -> TypeGuard[OpenAIResponsesCompactionAwareSession]:
    """Return True if the session can make its history shorter."""
    try:
        return compacts(session)
    except Exception:  # a property of the user's may raise anything
        return False


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
