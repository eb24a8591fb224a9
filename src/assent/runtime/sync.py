"""Blocking calls for a runtime that is async: anywhere, inside a running loop too."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import gc
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import aclosing, suppress
from inspect import CO_COROUTINE
from queue import SimpleQueue
from traceback import walk_tb
from typing import Any, Self, TypeVar

from ..errors import Conflict, UsageError
from ..loop import ALONE

R = TypeVar("R")
STOPPED = 1.0
"""Seconds after which a thread that waits for a loop sees whether it still runs."""


class _Kept:
    """A thread's loop for its blocking calls, closed when the thread ends."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.runner = asyncio.Runner()

    def __del__(self) -> None:
        if self.process == os.getpid():
            self.close()
            return
        # It came with a fork, and the parent's loop waits for events with it: closing one would deafen the other.
        with suppress(AttributeError):
            self.runner.get_loop().is_closed = lambda: True  # type: ignore[method-assign]

    def close(self) -> None:
        """Close the loop when what is left on it has ended.

        The runner would start a thread to end its executor; none can be started when a program ends.
        """
        loop = self.runner.get_loop()
        if loop.is_closed():
            return
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()

        async def end() -> None:
            await asyncio.gather(*left, return_exceptions=True)
            await loop.shutdown_asyncgens()

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            loop.run_until_complete(end())
        loop.close()  # at once, where it is collected by chance on another that runs

    def run(self, work: Coroutine[Any, Any, R], context: contextvars.Context) -> R:
        """Run this to its end, as the runner would; Ctrl-C cancels it.

        The runner's own way to handle Ctrl-C describes the task for every call, which takes longer than a short run.
        """
        loop = self.runner.get_loop()
        context.run(ALONE.set, loop)
        task = loop.create_task(work, context=context)
        with _Interruptible(task) as stop:
            try:
                return loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as raised:
                # By what the task waits for, past the task: it is still to hear of it, and not in the next call.
                latest: BaseException = raised
                while not task.done() and _is_of_a_task(latest):
                    try:
                        loop.run_until_complete(task)
                    except BaseException as again:
                        latest = again
                raise
            except asyncio.CancelledError:
                if stop.asked and task.uncancel() == 0:
                    raise KeyboardInterrupt from None
                raise


def _is_of_a_task(error: BaseException) -> bool:
    """Whether it was raised in a task, which so has come to its end. If not, nobody on the loop will hear of it."""
    return any(frame.f_code.co_flags & CO_COROUTINE for frame, _ in walk_tb(error.__traceback__))


class _Interruptible:
    """Has Ctrl-C cancel a task, where it would raise `KeyboardInterrupt` otherwise; if it is pressed again, it does."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.asked = False
        self.handles = False

    def __call__(self, number: int, frame: Any) -> None:
        if self.asked or self.task.done():
            raise KeyboardInterrupt
        self.asked = True
        self.task.cancel()
        self.task.get_loop().call_soon_threadsafe(lambda: None)  # it may be waiting for something that takes its time

    def __repr__(self) -> str:
        return "Ctrl-C"

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            with suppress(ValueError):  # an interpreter inside another program may not be let
                signal.signal(signal.SIGINT, self)
                self.handles = True
        return self

    def __exit__(self, *exc: object) -> None:
        if self.handles and signal.getsignal(signal.SIGINT) is self:
            signal.signal(signal.SIGINT, signal.default_int_handler)


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
        if kept is None or kept.process != os.getpid():
            kept = _own.kept = _Kept()
        try:
            return kept.run(work, contextvars.copy_context())
        except KeyboardInterrupt as stop:  # stands in for the cancellation, which has the run's state
            if not hasattr(stop, "state"):
                stop.state = getattr(stop.__context__, "state", None)  # type: ignore[attr-defined]
            raise
    return _in_thread(work)


async def _alone(work: Coroutine[Any, Any, R]) -> R:
    """Do this on a loop that is there for it alone."""
    ALONE.set(asyncio.get_running_loop())
    return await work


def _in_thread(work: Coroutine[Any, Any, R]) -> R:
    done: Future[R] = Future()
    context = contextvars.copy_context()

    def go() -> None:
        try:
            done.set_result(context.run(asyncio.run, _alone(work)))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=go, name="assent-blocking", daemon=True).start()
    return done.result()


_collecting: int | None = None
"""The thread that collects garbage at the moment."""


def _note(phase: str, info: Any) -> None:
    global _collecting
    _collecting = threading.get_ident() if phase == "start" else None


def iterate(things: AsyncGenerator[R, None]) -> Iterator[R]:
    """Iterate over an async generator, blocking, anywhere.

    The generator runs in a thread of its own, also while nobody reads. Whoever stops reading stops it, and waits for
    its end. When the garbage collector finds it, nobody waits: that may happen in the middle of a write that the end
    would have to wait for.
    """
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)
    queue: SimpleQueue[tuple[R] | BaseException | None] = SimpleQueue()
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    context = contextvars.copy_context()

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
            context.run(asyncio.run, _alone(pump()))
        except BaseException as error:
            end = error
        begun.cancel()  # if there was no loop to be had
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
            with suppress(RuntimeError, CancelledError):  # it has just come to its end, or it never began
                loop, task = begun.result()
                loop.call_soon_threadsafe(task.cancel)
        if _collecting != threading.get_ident():
            thread.join()


class Home:
    """The loop, and its thread, that a run's journal belongs to."""

    __slots__ = ("_thread", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def do(self, act: Callable[[], None]) -> None:
        """Do this on the loop and wait for it, from a body's thread too; `Conflict` if the loop runs no more."""
        if self.here:
            act()
            return

        async def work() -> None:
            act()

        self.wait_for(work)

    @property
    def here(self) -> bool:
        """True on the loop's own thread."""
        return threading.get_ident() == self._thread

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run this on the loop and wait for it, from another thread; `Conflict` if the loop runs no more."""
        if self.here:
            raise UsageError("This would wait for the event loop that it is on; in an async body await the other form.")
        if self.loop.is_running():
            done = asyncio.run_coroutine_threadsafe(work(), self.loop)
            while not wait([done], STOPPED).done and self.loop.is_running():
                pass
            if done.done():
                return done.result()
            done.cancel()
        raise Conflict("The run has stopped, and nothing can be recorded in it any more; resume its state.")
