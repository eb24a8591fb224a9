"""Queues of blocking jobs. A lane runs its jobs in order, one at a time, on threads that all lanes share.

So ten thousand lanes need a handful of threads, and a lane that waits for a lock blocks only one thread.
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
"""The most lanes that run at once. Jobs wait for a disk or a lock, never for a person, so a few are enough."""


class Lane:
    """The queue of jobs of one connection."""

    def __init__(self) -> None:
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._lock = threading.Lock()
        self.turn = threading.Lock()
        """The lock held while jobs run."""
        self._busy = False
        _lanes.add(self)

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Queue a job and return a future for its result. A job that has started cannot be cancelled."""
        from concurrent.futures import Future

        future: Future[R] = Future()
        with self._lock:
            self._jobs.append((future, work))
            idle, self._busy = not self._busy, True
        if idle:
            try:
                _threads().submit(self._drain)
            except RuntimeError:  # no thread can be started during interpreter shutdown
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
                del future, work  # an error refers to this frame; this breaks the reference cycle

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
    """Replace pool and locks in a forked child, which lacks the parent's threads that would release the locks."""
    global _pool, _making
    _pool, _making = None, threading.Lock()
    for lane in list(_lanes):
        lane._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
