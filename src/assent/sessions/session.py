"""The contract between a run and a conversation's memory: items go in, in order, and come out in that order.

A session knows nothing of runs but their id. When a run reads and writes one is the runtime's business.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..core.transcript import Item


@runtime_checkable
class Session(Protocol):
    """A conversation's memory. Bring your own by implementing this; `assent.testing.check_session` tries it out.

    Items are JSON objects in the shape of OpenAI's Responses API. A session keeps them as they are,
    hands out copies, and may be used from any event loop.
    """

    @property
    def session_id(self) -> str:
        """Which conversation this is."""
        ...

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """The latest `limit` items, oldest first; all of them if there is no limit."""
        ...

    async def add_items(self, items: list[Item]) -> None:
        """Add items at the end, in their order: all of them side by side, or none."""
        ...

    async def pop_item(self) -> Item | None:
        """Remove the newest item and give it; None if there is none."""
        ...

    async def clear_session(self) -> None:
        """Remove all items."""
        ...


@runtime_checkable
class ExactSession(Session, Protocol):
    """A session that stores nothing twice, even if the process dies between storing and knowing it.

    The runtime uses `write` where there is one, and `add_items` where there is not.
    """

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        """Add what a run generated, the first item being at `position` in that run's own count.

        What is stored of that run at these positions already is not stored again. All of the rest is
        stored, in its order, or nothing. If something else is stored there, the run was taken up from
        an earlier save and took another course: what is stored of it from `position` on goes, and the
        items are added.
        """
        ...
