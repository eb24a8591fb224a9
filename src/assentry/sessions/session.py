"""The protocol of a session, a conversation's memory: items come out in the order in which they went in.

A session knows only the ids of runs. The runtime decides when a run reads and writes its session.
"""

from __future__ import annotations

import asyncio
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeGuard, runtime_checkable

from ..core.transcript import Item

ALL = 2**31 - 1
"""A limit that no session reaches."""


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
class HeardSession(Session, Protocol):
    """A session that gives a run other items to hear than those that it returns."""

    def as_heard(self, items: list[Item]) -> list[Item]:
        """Return loaded items as a run hears them."""
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


@runtime_checkable
class ReplacingSession(Session, Protocol):
    """A session that can replace its latest items in one go, so that nothing is lost if the process dies meanwhile.

    Compaction calls `replace_latest` if a session has it, and `clear_session` and `add_items` otherwise.
    """

    async def replace_latest(self, old: list[Item], new: list[Item]) -> bool:
        """Replace the latest items with others, if they are `old` and nothing came after them; return True if so."""
        ...


class CompactingSession(Session, Protocol):
    """A session that can make its history shorter. The runtime calls it when a run is over."""

    async def run_compaction(self, args: Any = None) -> None:
        """Make the history shorter, if it is time to.

        `args` may have the last reply's id, `response_id`, whether the provider stored it, `store`, and `force`.
        """
        ...


HEARD: ContextVar[list[Item] | None] = ContextVar("assentry_session_heard", default=None)
"""The items that a run has heard and said, while the runtime calls `run_compaction`; None if a program calls it."""


class WritePlace:
    """The place in a run of the items that an `add_items` passes on, which may be overridden."""

    def __init__(self, session: Any, run: str, position: int, left: int) -> None:
        self.session, self.run, self.position, self.left = session, run, position, left

    @contextmanager
    def taken(self, count: int) -> Iterator[int]:
        """Set this many places aside, and yield the first; after an error they are free again, for another try."""
        position = self.position
        self.position, self.left = position + count, self.left - count
        try:
            yield position
        except BaseException:
            self.position, self.left = position, self.left + count
            raise


PLACE: ContextVar[WritePlace | None] = ContextVar("assentry_session_place", default=None)
"""The place of what a session's `add_items` gets now, if its `write` called it."""


SAME: ContextVar[Callable[[str, str], bool]] = ContextVar("assentry_session_same", default=operator.eq)
"""Returns True if two stored texts are the same item, for a session around that makes another text each time."""


class SessionAround:
    """A session around another one, which keeps the items, and which writes exactly if that one does."""

    session_id: str
    """The id of the conversation."""
    underlying_session: Session
    """The session inside."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, {self.underlying_session!r})"

    @property
    def session_settings(self) -> Any:
        """The settings of the session inside; None if it has none."""
        return getattr(self.underlying_session, "session_settings", None)

    @session_settings.setter
    def session_settings(self, value: Any) -> None:
        self.underlying_session.session_settings = value  # type: ignore[attr-defined]

    async def add_items(self, items: list[Item]) -> None:
        """Append all of the items in their order."""
        place, inside = PLACE.get(), self.underlying_session
        if place is None or place.session is not self or len(items) > place.left or not writes_exactly(inside):
            await inside.add_items(items)
            return
        with place.taken(len(items)) as position:
            await inside.write(place.run, position, items)

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        """Append a run's items with `add_items`; items that are stored at their positions are not stored again."""
        before = PLACE.set(WritePlace(self, run_id, position, len(items)))
        try:
            await self.add_items(items)
        finally:
            PLACE.reset(before)


def compacts(session: Any) -> TypeGuard[CompactingSession]:
    """Return True if a session can make its history shorter."""
    return callable(getattr(session, "run_compaction", None))


def writes_exactly(session: Any) -> TypeGuard[ExactSession]:
    """Return True if a session has a `write` of its own.

    One that is reached through `__getattr__` belongs to a session inside, and would pass by an `add_items` around it.
    """
    if isinstance(session, SessionAround) and not writes_exactly(session.underlying_session):
        return False
    return isinstance(session, ExactSession) and inspect.getattr_static(session, "write", None) is not None


async def get_all(session: Session) -> list[Item]:
    """Return all items of a session, also of one that usually gives only some."""
    return await session.get_items(limit=ALL)


async def replace_latest_of(session: Session, old: list[Item], new: list[Item]) -> bool:
    """Replace the latest items of any session; return False, and change nothing, if they are not `old` any more."""
    if isinstance(session, ReplacingSession) and inspect.getattr_static(session, "replace_latest", None) is not None:
        return await session.replace_latest(old, new)
    return await replace_all(session, old, new)


async def replace_all(session: Session, old: list[Item], new: list[Item]) -> bool:
    """Replace the items of a session, if they are `old`, by clearing it; after an error put the old items back."""
    if await get_all(session) != old:
        return False
    replacing = asyncio.ensure_future(_clear_and_add(session, old, new))
    try:
        await asyncio.shield(replacing)
    except asyncio.CancelledError:
        await asyncio.wait([replacing])  # or the session would be left empty
        raise
    return True


async def _clear_and_add(session: Session, old: list[Item], new: list[Item]) -> None:
    await session.clear_session()
    try:
        await session.add_items(new)
    except BaseException:
        await session.clear_session()
        await session.add_items(old)
        raise
