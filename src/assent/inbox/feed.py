"""Live news for any number of viewers: one look at the store for all of them, and server-sent events for each.

News come at least once. A viewer that was away gives the id of its last event and gets what it missed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from weakref import WeakKeyDictionary

import msgspec

from ..errors import AssentError
from ..store.news import MOST_NEWS, News
from ..store.store import Store
from .metrics import Metrics

log = logging.getLogger("assent")

POLL = 1.0
"""The seconds between two looks if the store reports nothing: a run's progress alone wakes nobody."""
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
AWAY = 5.0
"""The seconds before another look at a store that failed."""


class Viewer:
    """One open stream."""

    def __init__(self, run: str | None) -> None:
        self.run = run
        """The only run that the viewer wants news of; None for all."""
        self.queue: asyncio.Queue[News] = asyncio.Queue(ROOM)
        self.dropped = False

    def wants(self, news: News) -> bool:
        """Return True if the viewer wants this news."""
        return self.run is None or news.run == self.run


class Feed:
    """The viewers on one event loop, and the task that looks for news while there is a viewer."""

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics
        self._viewers: set[Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[News, int] = {}
        """The news that were passed on, with their times."""
        self._since = 0
        self._looked = asyncio.Event()
        """Set once the task has seen what was before it began."""

    def join(self, viewer: Viewer) -> asyncio.Event:
        """Pass news on to a viewer, once the event that is returned is set.

        A viewer that read the store before that would miss what is written in between.
        """
        self._viewers.add(viewer)
        self._metrics.viewers += 1
        if self._task is None or self._task.done():
            self._looked = asyncio.Event()
            self._task = asyncio.create_task(self._serve(self._looked))
        return self._looked

    def leave(self, viewer: Viewer) -> None:
        """Forget a viewer; after the last one, stop looking."""
        self._viewers.discard(viewer)
        self._metrics.viewers -= 1
        if not self._viewers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _serve(self, looked: asyncio.Event) -> None:
        self._seen, self._since, swept = {}, 0, time.monotonic()
        while True:
            try:
                if not looked.is_set():
                    await self._store.open()
                    await self._look(FAR, tell=False)  # viewers read for themselves what was before
                    looked.set()
                far = time.monotonic() - swept > SWEEP
                swept = time.monotonic() if far else swept
                await self._look(FAR if far else OVERLAP)
                await self._store.watch(POLL)
                await asyncio.sleep(PAUSE)
            except Exception as error:  # whatever it is, the viewers wait for this task
                known = isinstance(error, AssentError)
                log.warning(
                    "The inbox cannot look for news; trying again in %.0f seconds: %s",
                    AWAY,
                    error,
                    exc_info=None if known else error,
                )
                await asyncio.sleep(AWAY)

    async def _look(self, back: int, *, tell: bool = True) -> None:
        now = int(self._store.clock() * 1000)
        since = (self._since or now) - back
        while True:
            watched = sorted({viewer.run for viewer in self._viewers if viewer.run is not None})
            found = await self._store.news(since, watched)
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
        for viewer in [each for each in self._viewers if each.wants(news)]:
            try:
                viewer.queue.put_nowait(news)
            except asyncio.QueueFull:
                viewer.dropped = True
                self._viewers.discard(viewer)
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
                yield b": still here\n\n" if news is None else _sent(news, newest)
        finally:
            feed.leave(viewer)

    async def _missed(self, viewer: Viewer, since: int) -> list[bytes]:
        """Return the events since a time; if there are too many, one that tells the viewer to read everything anew."""
        watched = [] if viewer.run is None else [viewer.run]
        found = await self._store.news(max(0, since), watched)
        if len(found) >= MOST_NEWS:
            return [event("reset", int(self._store.clock() * 1000), b"{}")]
        return _in_order(news for news in found if viewer.wants(news))


async def _next(viewer: Viewer) -> News | None:
    """Return the next news; None if there is none for a while."""
    try:
        async with asyncio.timeout(BEAT):
            return await viewer.queue.get()
    except TimeoutError:
        return None


def _in_order(found: Iterable[News]) -> list[bytes]:
    return [_sent(news, news.at) for news in found]


def _sent(news: News, id: int) -> bytes:
    return event(news.kind, id, msgspec.json.encode(news))


def event(kind: str, id: int, data: bytes) -> bytes:
    """Return one server-sent event; JSON has no line breaks."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (id, kind.encode(), data)
