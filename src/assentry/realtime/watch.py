"""The watch over a store for its live sessions: it brings a decision that is made anywhere into the session's run."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from weakref import WeakKeyDictionary

from ..core.wording import worded
from ..errors import LeaseLost, Overtaken, StoreFailed, UsageError
from ..runtime.store_writer import StoreWriter
from ..store.store import Store
from ..store.watch import StoreWatch

log = logging.getLogger("assentry")


class DecisionWatch(StoreWatch[StoreWriter]):
    """The live sessions of one store, by their writers."""

    name = "A live session"

    def leave(self, member: StoreWriter) -> None:
        """Forget a session; after the last one, stop looking, and let go of the store."""
        super().leave(member)
        if not self.members:
            _watches.get(asyncio.get_running_loop(), {}).pop(self.store, None)

    async def look(self, first: bool) -> None:
        """Bring the decisions into all runs."""
        with suppress(UsageError):  # a store that has no news is looked at again and again
            await self.store.news(int(self.store.clock() * 1000))  # before reading: nothing is missed in between
        for writer in list(self.members):
            await self._catch_up(writer)

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


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Store, DecisionWatch]] = WeakKeyDictionary()


def watch_of(store: Store) -> DecisionWatch:
    """Return the watch over a store on the running event loop."""
    watches = _watches.setdefault(asyncio.get_running_loop(), {})
    found = watches.get(store)
    if found is None:
        found = watches[store] = DecisionWatch(store)
    return found
