"""The bell that rings when a run may be claimed, for all who wait, on whatever event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary


class Bell:
    """Who waits. A ring between looking and waiting is not missed by the task that does both."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()
        self._rung = 0
        self._heard: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()

    def listen(self) -> None:
        """This task is about to look for itself; what rings from now on is news to it."""
        task = asyncio.current_task()
        if task is not None:
            with self._lock:
                self._heard[task] = self._rung

    def ring(self) -> None:
        """Wake everybody. From any thread."""
        with self._lock:
            self._rung += 1
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                future.get_loop().call_soon_threadsafe(_wake, future)

    @property
    def awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    async def wait(self, timeout: float, listen: Callable[[], None] = lambda: None) -> None:
        """Until it rings, or so many seconds. `listen` is called when a ring would be heard."""
        task = asyncio.current_task()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            heard = self._rung if task is None else self._heard.pop(task, self._rung)
            if heard != self._rung:
                return
            self._waiting.add(future)
        try:
            listen()
            await asyncio.wait([future], timeout=timeout)
        finally:
            with self._lock:
                self._waiting.discard(future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
