"""The watch over a store for its live sessions: one task for all of them on one event loop.

A decision made anywhere wakes it, and it brings the decision into the session's run at once.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from weakref import WeakKeyDictionary

from ..core.digest import worded
from ..errors import LeaseLost, Overtaken, StoreFailed, UsageError
from ..runtime.store_writer import StoreWriter
from ..store.store import Store

log = logging.getLogger("assent")

POLL = 1.0
"""The seconds between two looks if the store reports nothing."""
AWAY = 2.0
"""The seconds before another look at a store that failed."""


class Watch:
    """The live sessions of one store that wait for decisions, and the task that looks for them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writers: set[StoreWriter] = set()
        self._task: asyncio.Task[None] | None = None

    def join(self, writer: StoreWriter) -> None:
        """Look for decisions on this run from now on."""
        self._writers.add(writer)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve())

    def leave(self, writer: StoreWriter) -> None:
        """Look no more; after the last one, stop, and let go of the store."""
        self._writers.discard(writer)
        if not self._writers and self._task is not None:
            self._task.cancel()
            self._task = None
            _watches.get(asyncio.get_running_loop(), {}).pop(self._store, None)

    async def _serve(self) -> None:
        while True:
            try:
                with suppress(UsageError):  # a store that has no news is looked at again and again
                    await self._store.news(int(self._store.clock() * 1000))  # first: nothing is missed in between
                for writer in list(self._writers):
                    await self._catch_up(writer)
                await self._store.watch(POLL)
            except Exception as error:
                log.warning("Decisions on live runs cannot be looked for; trying again: %s", worded(error))
                await asyncio.sleep(AWAY)

    async def _catch_up(self, writer: StoreWriter) -> None:
        """Bring the decisions into one run. If it cannot be read, the others can all the same."""
        try:
            if writer.journal.run.open:
                await writer.catch_up()
        except (Overtaken, LeaseLost):
            pass  # the drive finds out with its next write
        except StoreFailed:
            raise
        except Exception as error:
            log.warning("Decisions on run %s cannot be looked for: %s", writer.lease.run, worded(error))


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Store, Watch]] = WeakKeyDictionary()


def watch_of(store: Store) -> Watch:
    """Return the watch over a store on the running event loop."""
    watches = _watches.setdefault(asyncio.get_running_loop(), {})
    found = watches.get(store)
    if found is None:
        found = watches[store] = Watch(store)
    return found
