"""Waiting for the decision on a call of a program outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from .call_status import CallStatus, is_undecided
from .news import MOST_NEWS
from .store import Store
from .watch import StoreWatch

OVERLAP = 2000
"""The milliseconds that looks for news overlap, since a fact may be written a little after its time."""
LOOK_AGAIN = 10.0
"""The seconds after which somebody who waits looks at the call itself, whatever the news say."""


class _Waiter:
    """Somebody who waits for the decision on one call."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.news = asyncio.Event()


class CallWatch(StoreWatch[_Waiter]):
    """Those who wait for decisions on one event loop: one look at the store for all of them."""

    name = "The watch over asks"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._since = 0

    async def look(self, first: bool) -> None:
        """Wake those about whose run there is news; the first look wakes nobody, as all have just read."""
        await self.store.open()
        now = int(self.store.clock() * 1000)
        since = (now if first else self._since) - OVERLAP
        self._since = now
        while True:
            found = await self.store.news(since)
            changed = {news.run for news in found if news.kind != "question.asked"}
            for member in self.members:
                if member.run in changed:
                    member.news.set()
            if len(found) < MOST_NEWS:
                return
            since = max(found[-1].at, since + 1)  # there may be more


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[Store, CallWatch]] = WeakKeyDictionary()


def _watch_of(store: Store) -> CallWatch:
    """Return the watch over a store's asks on this event loop."""
    of_loop = _watches.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
    if store not in of_loop:
        of_loop[store] = CallWatch(store)
    return of_loop[store]


async def wait_for_call(
    store: Store,
    run_id: str,
    timeout: float | None,
    look: Callable[[], Awaitable[CallStatus]],
) -> CallStatus:
    """Return a call's status once it is decided, or as it is after `timeout` seconds."""
    status = await look()
    if not is_undecided(status) or timeout == 0:
        return status
    watch, waiter = _watch_of(store), _Waiter(run_id)
    try:
        async with asyncio.timeout(timeout):
            await watch.join(waiter).wait()
            while is_undecided(status := await look()):
                waiter.news.clear()
                await _news_or_deadline(store, status, waiter)
    except TimeoutError:
        pass
    finally:
        watch.leave(waiter)
    return status


async def _news_or_deadline(store: Store, status: CallStatus, waiter: _Waiter) -> None:
    """Wait for news of a call, or until its question's deadline has passed; then it is looked at again."""
    left = LOOK_AGAIN
    if status.until is not None:
        left = min(left, max(0.0, status.until / 1000 - store.clock()) + 0.002)
    with suppress(TimeoutError):
        async with asyncio.timeout(left):  # not `wait_for`: before Python 3.12 it may swallow the end of the whole wait
            await waiter.news.wait()
