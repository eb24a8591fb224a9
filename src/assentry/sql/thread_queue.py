"""A queue of blocking jobs with threads of its own, which keeps the work off the event loop.

A queue may be used from any thread with an event loop. A job that has started is finished, even if nobody waits for it.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")

Job = tuple[Callable[[], Any], "asyncio.Future[Any] | Callable[[Any], None] | None"]
"""A job, and what gets its result: a future, a function, or nothing."""


class ThreadQueue:
    """A queue of jobs, and a limited number of threads. With one thread, one job runs at a time."""

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.turn = threading.Lock()
        """The lock held during a job, if the queue has one thread."""
        self._turns: AbstractContextManager[Any] = self.turn if threads == 1 else nullcontext()
        self._stop = weakref.finalize(self, _stop, self._jobs, self._threads)
        self._stop.atexit = False

    @property
    def idle(self) -> bool:
        """True if no job is queued."""
        return self._jobs.empty()

    def do(self, work: Callable[[], R]) -> asyncio.Future[R]:
        """Queue a job and return a future for its result."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if self._has_thread():
            self._jobs.put((work, future))
        else:
            self._do_here(work, future)
        return future

    def _do_here(self, work: Callable[[], R], future: asyncio.Future[R]) -> None:
        try:
            with self._turns:
                future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    def then(self, work: Callable[[], R], tell: Callable[[R], None]) -> None:
        """Queue a job that raises nothing, and call `tell` with its result after the job. Neither is dropped."""
        if self._has_thread():
            self._jobs.put((work, tell))
            return
        with self._turns:
            result = work()
        tell(result)

    def soon(self, work: Callable[[], Any]) -> None:
        """Queue a job whose result and errors are ignored. Without a thread the job is dropped."""
        if self._has_thread():
            self._jobs.put((work, None))

    def wait(self, work: Callable[[], Any]) -> None:
        """Queue a job whose errors are ignored, and block until it is done. Without threads, run the job now."""
        done = threading.Event()

        def last() -> None:
            try:
                work()
            finally:
                done.set()

        if self._threads:
            self._jobs.put((last, None))
            done.wait()
        else:
            with self._turns:
                work()

    def end(self, work: Callable[[], Any]) -> None:
        """Queue a last job without waiting for it, and stop the threads. Without threads, run the job now."""
        if not self._threads:
            work()
            return
        self._jobs.put((work, None))
        self._stop()

    def _has_thread(self) -> bool:
        """Start another thread if there may be more; return False if there is none, at the end of the interpreter."""
        if len(self._threads) < self._most:
            with self._lock, suppress(RuntimeError):
                if len(self._threads) < self._most:
                    self._start()
        return bool(self._threads)

    def _start(self) -> None:
        thread = threading.Thread(target=_serve, args=(self._jobs, self._turns), name=self._name, daemon=True)
        thread.start()
        self._threads.append(thread)


def _serve(jobs: SimpleQueue[Job | None], turn: AbstractContextManager[Any]) -> None:
    while (job := jobs.get()) is not None:
        _do(*job, turn)
        del job  # or the job's objects would live until the next job


def _do(
    work: Callable[[], Any],
    future: asyncio.Future[Any] | Callable[[Any], None] | None,
    turn: AbstractContextManager[Any],
) -> None:
    if not isinstance(future, asyncio.Future):
        with suppress(Exception):
            with turn:
                result = work()
            if future is not None:
                future(result)
        return
    if future.cancelled():
        return
    result, error = None, None
    try:
        with turn:  # released first: the waiting task may need the turn next
            result = work()
    except BaseException as raised:
        error = raised
    settle_future(future, result, error)


def settle_future(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Give a future its result or its error, from any thread."""
    with suppress(RuntimeError):  # its event loop is closed, so nobody waits
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
