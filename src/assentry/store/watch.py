"""Watching a store: one task on an event loop looks for news, for all members that wait for them.

Looking, and telling the members, belongs to the subclass.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ..errors import AssentryError
from .store import Store

log = logging.getLogger("assentry")

POLL = 1.0
"""The seconds between two looks if the store reports nothing: a run's progress alone wakes nobody."""
AWAY = 2.0
"""The seconds before another look at a store that failed."""

M = TypeVar("M")


class StoreWatch(ABC, Generic[M]):
    """The members that wait for news of a store on one event loop, and the task that looks while there are members."""

    name = "A watch"
    """The name of the watch in the log."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.members: set[M] = set()
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()

    def join(self, member: M) -> asyncio.Event:
        """Look for news for this member too. The event is set once the task has looked for the first time."""
        self.members.add(member)
        if self._task is None or self._task.done():
            self._looked = asyncio.Event()
            self._task = asyncio.create_task(self._serve(self._looked))
        return self._looked

    def leave(self, member: M) -> None:
        """Forget a member; after the last one, stop looking."""
        self.members.discard(member)
        if not self.members and self._task is not None:
            self._task.cancel()
            self._task = None

    @abstractmethod
    async def look(self, first: bool) -> None:
        """Read the store with `Store.news` first, and tell the members; `first` is True until a look has succeeded."""

    async def _serve(self, looked: asyncio.Event) -> None:
        while True:
            try:
                await self.look(not looked.is_set())
                looked.set()
                await self.store.watch(POLL)
            except Exception as error:  # whatever it is, the members wait for this task
                trace = None if isinstance(error, AssentryError) else error
                words = "%s cannot look for news; trying again in %.0f seconds: %s"
                log.warning(words, self.name, AWAY, error, exc_info=trace)
                await asyncio.sleep(AWAY)
