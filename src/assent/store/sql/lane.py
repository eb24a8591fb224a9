"""Blocking work off the event loop: a lane does jobs in their order, on threads of its own.

It may be used from any thread that has an event loop. What was begun is done to its end, whether or not somebody still
waits for it. A loop that a blocking call has for itself does its jobs itself: a thread more would only cost time.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from ...loop import alone

R = TypeVar("R")

Job = tuple[Callable[[], Any], "asyncio.Future[Any] | None"]


class Lane:
    """Jobs, and at most so many threads that do them. One thread: one job at a time."""

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.turn = threading.Lock()
        """Held by whoever does a job, where there is one at a time."""
        self._turns: AbstractContextManager[Any] = self.turn if threads == 1 else nullcontext()
        self._stop = weakref.finalize(self, _stop, self._jobs, self._threads)
        self._stop.atexit = False

    @property
    def idle(self) -> bool:
        """Whether no job waits to be done."""
        return self._jobs.empty()

    def do(self, work: Callable[[], R]) -> asyncio.Future[R]:
        """Have this done after what was given before."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if alone():
            self._do_here(work, future)
            return future
        if len(self._threads) < self._most:
            self._grow()
        self._jobs.put((work, future))
        return future

    def _do_here(self, work: Callable[[], R], future: asyncio.Future[R]) -> None:
        try:
            with self._turns:
                future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    def soon(self, work: Callable[[], Any]) -> None:
        """Have this done after what was given before, whatever comes of it; not at all if there is no thread for it."""
        if len(self._threads) < self._most:
            with suppress(RuntimeError):
                self._grow()
        if self._threads:
            self._jobs.put((work, None))

    def end(self, work: Callable[[], Any]) -> None:
        """Have this done last, without waiting for it, and let the threads go."""
        if not self._threads:
            work()
            return
        self._jobs.put((work, None))
        self._stop()

    def _grow(self) -> None:
        with self._lock:
            if len(self._threads) < self._most:
                thread = threading.Thread(target=_serve, args=(self._jobs, self._turns), name=self._name, daemon=True)
                thread.start()
                self._threads.append(thread)


def _serve(jobs: SimpleQueue[Job | None], turn: AbstractContextManager[Any]) -> None:
    while (job := jobs.get()) is not None:
        _do(*job, turn)
        del job  # or what was given would be kept until there is something else to do


def _do(work: Callable[[], Any], future: asyncio.Future[Any] | None, turn: AbstractContextManager[Any]) -> None:
    if future is None:
        with suppress(Exception), turn:
            work()
        return
    if future.cancelled():
        return
    result, error = None, None
    try:
        with turn:  # and no longer: whoever waits for this may want the turn next
            result = work()
    except BaseException as raised:
        error = raised
    with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
        future.get_loop().call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _stop(jobs: SimpleQueue[Job | None], threads: list[threading.Thread]) -> None:
    for _ in threads:
        jobs.put(None)
