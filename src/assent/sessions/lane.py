"""Blocking work off the event loop: a lane does its jobs in order, one at a time, on threads that all lanes share.

So ten thousand lanes need a handful of threads, and a lane that waits for a lock holds up one thread and not several.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

R = TypeVar("R")

THREADS = 8
"""What waits here waits for a disk or a lock, never for a person; more lanes than this at once take turns."""


class Lane:
    """The jobs of one database."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._lock = threading.Lock()
        self.turn = threading.Lock()
        """Held by whoever does the jobs."""
        self._busy = False
        _lanes.add(self)

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Have this done after all that was submitted before. A job that was begun is not cancelled any more."""
        from concurrent.futures import Future

        future: Future[R] = Future()
        with self._lock:
            self._jobs.append((future, work))
            idle, self._busy = not self._busy, True
        if idle:
            try:
                _threads().submit(self._drain)
            except RuntimeError:  # no thread can be started: the interpreter is going down
                self._drain()
        return future

    def _drain(self) -> None:
        with self.turn:
            while True:
                with self._lock:
                    if not self._jobs:
                        self._busy = False
                        return
                    future, work = self._jobs.popleft()
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(work())
                    except BaseException as error:
                        future.set_exception(error)
                del future, work  # an error holds on to this frame, which shall not hold on to the error

    def _forked(self) -> None:
        self._jobs.clear()
        self._lock, self.turn = threading.Lock(), threading.Lock()
        self._busy = False


_lanes: WeakSet[Lane] = WeakSet()
_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()


def _threads() -> ThreadPoolExecutor:
    global _pool
    from concurrent.futures import ThreadPoolExecutor

    with _making:
        if _pool is None:
            _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="assent-session")
        return _pool


def _forked() -> None:
    """A forked child has none of its parent's threads, and nobody who would open the locks they held."""
    global _pool, _making
    _pool, _making = None, threading.Lock()
    for lane in list(_lanes):
        lane._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
