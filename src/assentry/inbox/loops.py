"""Event loops in threads of their own, on which the inbox answers requests.

The cost of a page, a mask, a difference or a list grows with what is stored. On the server's own event loop it would
stop every other request, `/health` among them. So the server's loop reads requests and sends responses, and every route
of this class runs elsewhere. What one request may cost is bounded where the work is done.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute

T = TypeVar("T")

MOST_LOOPS = 4
"""The most threads. The requests of one user share one, so that nobody can keep all of them busy alone."""

Handle = Callable[[Request], Coroutine[Any, Any, Response]]


class Loops:
    """A few event loops in threads, started on demand. They end when nobody has a reference to this object."""

    def __init__(self, most: int = MOST_LOOPS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._loops: list[asyncio.AbstractEventLoop] = []
        self._users: dict[str, tuple[asyncio.AbstractEventLoop, int]] = {}
        """The users with requests under way: the loop that answers them, and their number."""
        self._busy: Counter[asyncio.AbstractEventLoop] = Counter()
        self._stop = weakref.finalize(self, _stop, self._loops)
        self._stop.atexit = False

    async def run(self, user: str, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of a user's requests, and return its result."""
        with self._place(user) as loop:
            return await _on(loop, work)

    async def respond(self, user: str, work: Coroutine[Any, Any, Response]) -> Response:
        """Make a response on the loop of a user's requests. A stream goes on there, too."""
        with self._place(user) as loop:
            response = await _on(loop, work)
        if isinstance(response, StreamingResponse):
            response.body_iterator = self.each(user, response.body_iterator, loop)  # type: ignore[arg-type]
        return response

    async def each(
        self, user: str, items: AsyncIterator[T], begun: asyncio.AbstractEventLoop | None = None
    ) -> AsyncIterator[T]:
        """Yield what an asynchronous generator yields on the loop where it was begun, or that of a user's requests."""
        with self._place(user, begun) as loop:
            turn = asyncio.Lock()  # a generator that is cut off while it waits must end that before it is closed
            try:
                while True:
                    try:
                        item = await _on(loop, _next(items, turn))
                    except StopAsyncIteration:
                        return
                    yield item
            finally:
                await _on(loop, _close(items, turn))

    @contextmanager
    def _place(self, user: str, begun: asyncio.AbstractEventLoop | None = None) -> Any:
        """Reserve a loop: the one where work was begun, that of a user's other requests, or the one with the fewest."""
        with self._lock:
            if self._process != os.getpid():  # a forked child has none of its parent's threads
                self._begin_anew()
            known, count = self._users.get(user, (None, 0))
            loop = begun or known or self._free()
            counts = known is None or known is loop
            if counts:
                self._users[user] = loop, count + 1
            self._busy[loop] += 1
        try:
            yield loop
        finally:
            with self._lock:
                self._busy[loop] -= 1
                if counts and user in self._users:
                    self._users[user] = loop, self._users[user][1] - 1
                    if not self._users[user][1]:
                        del self._users[user]

    def _free(self) -> asyncio.AbstractEventLoop:
        idle = min(self._loops, key=lambda loop: self._busy[loop], default=None)
        if idle is not None and (not self._busy[idle] or len(self._loops) >= self._most):
            return idle
        loop = asyncio.new_event_loop()
        threading.Thread(target=_serve, args=(loop,), name="assentry-inbox", daemon=True).start()
        self._loops.append(loop)
        return loop


async def _on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


async def _next(items: AsyncIterator[T], turn: asyncio.Lock) -> T:
    async with turn:
        return await anext(items)


async def _close(items: Any, turn: asyncio.Lock) -> None:
    async with turn:
        if hasattr(items, "aclose"):
            await items.aclose()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _stop(loops: list[asyncio.AbstractEventLoop]) -> None:
    for loop in loops:
        with suppress(RuntimeError):  # the thread has ended already
            loop.call_soon_threadsafe(loop.stop)


class OwnLoopRoute(APIRoute):
    """A route that is answered on one of the inbox's own event loops."""

    def get_route_handler(self) -> Handle:
        """Return the route's handler."""
        return on_own_loop(super().get_route_handler())


def on_own_loop(handle: Handle) -> Handle:
    """Return a handler that runs another one on a loop of its own; the response is sent from the server's loop."""

    async def answer(request: Request) -> Response:
        await request.body()  # the connection belongs to the server's loop
        loops: Loops = request.app.state.loops
        who = getattr(request.state, "identity", None)
        user = "" if who is None else who.name
        return await loops.respond(user, handle(request))

    return answer
