"""Live news for any number of viewers: one look at the store for all of them, and server-sent events for each.

News come at least once. A viewer that was away gives the id of its last event and gets what it missed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from weakref import WeakKeyDictionary

import msgspec

from ..store.news import MOST_NEWS, News
from ..store.store import Store
from ..store.watch import StoreWatch
from .metrics import Metrics

PAUSE = 0.02
"""The least seconds between two looks: news of one moment come together."""
OVERLAP = 2_000
"""The milliseconds that looks overlap, since a fact may be written a little after its time."""
SWEEP, FAR = 10.0, 60_000
"""Every so many seconds a look goes this many milliseconds back."""
BEAT = 15.0
"""The seconds between two signs of life on a quiet stream, and between two checks of the viewer's identity."""
ROOM = 500
"""The events that wait for a viewer before it is disconnected."""


class Viewer:
    """One open stream."""

    def __init__(self, run: str | None) -> None:
        self.run = run
        """The only run that the viewer wants news of; None for all."""
        self.queue: asyncio.Queue[News] = asyncio.Queue(ROOM)
        self.dropped = False

    def wants(self, news: News) -> bool:
        """Return True if the viewer wants this news; news of stops are for everybody."""
        return self.run is None or news.run in (self.run, "")


class Feed(StoreWatch[Viewer]):
    """The viewers on one event loop, and the task that looks for news while there is a viewer.

    A viewer that reads the store before the event that `join` returns is set would miss what is written in between.
    """

    name = "The inbox"

    def __init__(self, store: Store, metrics: Metrics) -> None:
        super().__init__(store)
        self._metrics = metrics
        self._seen: dict[News, int] = {}
        """The news that were passed on, with their times."""
        self._since = 0
        self._swept = 0.0

    def join(self, member: Viewer) -> asyncio.Event:
        """Pass news on to a viewer, once the event that is returned is set."""
        self._metrics.viewers += 1
        return super().join(member)

    def leave(self, member: Viewer) -> None:
        """Forget a viewer; after the last one, stop looking."""
        self._metrics.viewers -= 1
        super().leave(member)

    async def look(self, first: bool) -> None:
        """Tell the viewers what is new; what was before the first look, they read for themselves."""
        if first:
            self._seen, self._since, self._swept = {}, 0, time.monotonic()
            await self.store.open()
            await self._look(FAR, tell=False)
            return
        await asyncio.sleep(PAUSE)
        far = time.monotonic() - self._swept > SWEEP
        self._swept = time.monotonic() if far else self._swept
        await self._look(FAR if far else OVERLAP)

    async def _look(self, back: int, *, tell: bool = True) -> None:
        now = int(self.store.clock() * 1000)
        since = (self._since or now) - back
        while True:
            watched = sorted({viewer.run for viewer in self.members if viewer.run is not None})
            found = await self.store.news(since, watched)
            for news in found:
                if news not in self._seen:
                    self._seen[news] = news.at
                    if tell:
                        self._tell(news)
            if len(found) < MOST_NEWS:
                break
            since = max(found[-1].at, since + 1)  # there may be more
        self._since = now
        self._seen = {news: at for news, at in self._seen.items() if at >= now - 2 * FAR}

    def _tell(self, news: News) -> None:
        for viewer in [each for each in self.members if each.wants(news)]:
            try:
                viewer.queue.put_nowait(news)
            except asyncio.QueueFull:
                viewer.dropped = True
                self.members.discard(viewer)
                self._metrics.dropped += 1


class Feeds:
    """The feeds of a store, one for each event loop."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, Feed] = WeakKeyDictionary()

    async def stream(
        self, run: str | None, last: int | None, is_known: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[bytes]:
        """Yield server-sent events, from the one with the id `last` on, until the viewer is not known any more."""
        loop = asyncio.get_running_loop()
        feed = self._feeds.setdefault(loop, Feed(self._store, self._metrics))
        await self._store.open()
        now, viewer = int(self._store.clock() * 1000), Viewer(run)
        looked = feed.join(viewer)
        try:
            await looked.wait()
            yield b"retry: 2000\n" + event("open", now if last is None else last, b"{}")
            newest = now if last is None else last
            for piece in await self._missed(viewer, now if last is None else last - FAR):
                yield piece
            checked = time.monotonic()
            while not viewer.dropped or not viewer.queue.empty():
                news = await _next(viewer)
                if news is None or time.monotonic() - checked > BEAT:
                    if not await is_known():
                        return
                    checked = time.monotonic()
                newest = max(newest, news.at if news is not None else newest)
                yield b": still here\n\n" if news is None else _news_event(news, newest)
        finally:
            feed.leave(viewer)

    async def _missed(self, viewer: Viewer, since: int) -> list[bytes]:
        """Return the events since a time; if there are too many, one that tells the viewer to read everything anew."""
        watched = [] if viewer.run is None else [viewer.run]
        found = await self._store.news(max(0, since), watched)
        if len(found) >= MOST_NEWS:
            return [event("reset", int(self._store.clock() * 1000), b"{}")]
        return [_news_event(news, news.at) for news in found if viewer.wants(news)]


async def _next(viewer: Viewer) -> News | None:
    """Return the next news; None if there is none for a while."""
    try:
        async with asyncio.timeout(BEAT):
            return await viewer.queue.get()
    except TimeoutError:
        return None


def _news_event(news: News, id: int) -> bytes:
    return event(news.kind, id, msgspec.json.encode(news))


def event(kind: str, id: int, data: bytes) -> bytes:
    """Return one server-sent event; JSON has no line breaks."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (id, kind.encode(), data)
