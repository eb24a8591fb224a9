"""Blocking calls for a runtime that is async: anywhere, inside a running loop too."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import aclosing, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import Conflict
from ..loop import ALONE

R = TypeVar("R")
STOPPED = 1.0
"""Seconds after which a thread that waits for a loop sees whether it still runs."""


class _Kept:
    """A thread's loop for its blocking calls, closed when the thread ends."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def __del__(self) -> None:
        self.runner.close()


_own = threading.local()
atexit.register(_own.__dict__.clear)


def block(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end and return what it gives.

    A thread without a loop keeps one for its blocking calls, so that clients opened in one call
    work in the next. In a thread whose loop is running (a notebook) another thread does it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        kept: _Kept | None = getattr(_own, "kept", None)
        if kept is None:
            kept = _own.kept = _Kept()
        try:
            return kept.runner.run(work, context=_alone())
        except KeyboardInterrupt as stop:  # stands in for the cancellation, which has the run's state
            if not hasattr(stop, "state"):
                stop.state = getattr(stop.__context__, "state", None)  # type: ignore[attr-defined]
            raise
    return _in_thread(work)


def _alone() -> contextvars.Context:
    """The context of the caller, for work on a loop of its own."""
    context = contextvars.copy_context()
    context.run(ALONE.set, True)
    return context


def _in_thread(work: Coroutine[Any, Any, R]) -> R:
    done: Future[R] = Future()
    context = _alone()

    def go() -> None:
        try:
            done.set_result(context.run(asyncio.run, work))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=go, name="assent-blocking", daemon=True).start()
    return done.result()


def iterate(things: AsyncGenerator[R, None]) -> Iterator[R]:
    """What an async generator gives, blocking, anywhere. It goes on in a thread of its own, also while nobody reads;
    whoever stops reading stops it, and waits until it has come to its end."""
    queue: SimpleQueue[tuple[R] | BaseException | None] = SimpleQueue()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    context = _alone()

    async def pump() -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        async with aclosing(things):
            async for thing in things:
                queue.put((thing,))

    def go() -> None:
        end: BaseException | None = None
        try:
            context.run(asyncio.run, pump())
        except BaseException as error:
            end = error
        queue.put(end)

    thread = threading.Thread(target=go, name="assent-stream", daemon=True)
    thread.start()
    try:
        while isinstance(each := queue.get(), tuple):
            yield each[0]
        if each is not None:
            raise each
    finally:
        if thread.is_alive():
            loop, task = begun.result()
            with suppress(RuntimeError):  # it has just come to its end
                loop.call_soon_threadsafe(task.cancel)
        thread.join()


class Home:
    """The loop, and its thread, that a run's journal belongs to."""

    __slots__ = ("_thread", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def do(self, act: Callable[[], None]) -> None:
        """Do this on the loop and wait for it, from a body's thread too; `Conflict` if the loop runs no more."""
        if threading.get_ident() == self._thread:
            act()
            return

        async def work() -> None:
            act()

        self.wait_for(work)

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have this done on the loop and wait for it, from another thread; `Conflict` if the loop runs no more."""
        if self.loop.is_running():
            done = asyncio.run_coroutine_threadsafe(work(), self.loop)
            while not wait([done], STOPPED).done and self.loop.is_running():
                pass
            if done.done():
                done.result()
                return
            done.cancel()
        raise Conflict("The run has stopped, and nothing can be recorded in it any more; resume its state.")
