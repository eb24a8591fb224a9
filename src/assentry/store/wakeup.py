"""A wakeup for all tasks that wait for a run to claim, on any event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary


class Wakeup:
    """Wakes waiting tasks. A task that calls `listen` before it looks for runs misses no ring before its `wait`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()
        self._rung = 0
        self._heard: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()

    def listen(self) -> None:
        """Note that the current task looks for runs now; a later ring ends its next `wait` at once."""
        task = asyncio.current_task()
        if task is not None:
            with self._lock:
                self._heard[task] = self._rung

    def ring(self) -> None:
        """Wake all waiting tasks. May be called from any thread."""
        with self._lock:
            self._rung += 1
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            with suppress(RuntimeError):  # its event loop is closed, so nobody waits
                future.get_loop().call_soon_threadsafe(_wake, future)

    async def wait(self, timeout: float, listen: Callable[[], None] = lambda: None) -> None:
        """Wait for a ring, at most `timeout` seconds. `listen` is called once no ring can be missed."""
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
