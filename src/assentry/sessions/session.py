"""The protocol of a session, a conversation's memory: items come out in the order in which they went in.

A session knows only the ids of runs. The runtime decides when a run reads and writes its session.
"""

from __future__ import annotations

import inspect
from typing import Any, Protocol, TypeGuard, runtime_checkable

from ..core.transcript import Item


@runtime_checkable
class Session(Protocol):
    """A conversation's memory. Implement this protocol for your own; `assentry.testing.check_session` tests it.

    Items are JSON objects in the format of OpenAI's Responses API. A session keeps them unchanged,
    returns copies, and may be used from any event loop.
    """

    @property
    def session_id(self) -> str:
        """The id of the conversation."""
        ...

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest `limit` items, oldest first; all items without a limit."""
        ...

    async def add_items(self, items: list[Item]) -> None:
        """Append all of the items in their order, with no other item between them, or none."""
        ...

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item; None if there is none."""
        ...

    async def clear_session(self) -> None:
        """Remove all items."""
        ...


@runtime_checkable
class OpeningSession(Session, Protocol):
    """A session whose id is known only once it is opened. The runtime opens it before a run begins."""

    async def open(self) -> None:
        """Find out or make the session's id."""
        ...


@runtime_checkable
class ExactSession(Session, Protocol):
    """A session that stores no item twice, even if the process dies before it learns that a write succeeded.

    The runtime calls `write` if a session has it, and `add_items` otherwise.
    """

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        """Append a run's items; `position` is the number of the first item in that run.

        Items that are stored at their positions already are not stored again. All of the other items are
        stored, in their order, or none. If a different item is stored at one of the positions, the run
        was resumed from an earlier save and took another course: the run's items from `position` on are
        removed, and the new items are appended.
        """
        ...


def writes_exactly(session: Any) -> TypeGuard[ExactSession]:
    """Return True if a session has a `write` of its own.

    One that is reached through `__getattr__` belongs to a session inside, and would pass by an `add_items` around it.
    """
    return isinstance(session, ExactSession) and inspect.getattr_static(session, "write", None) is not None
