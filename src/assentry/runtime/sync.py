"""Blocking calls: run a coroutine to its end, or read an async generator, from code that is not async.

A thread without an event loop keeps an `asyncio.Runner` for its blocking calls. Inside a running event loop, such as a
notebook's, another thread does the work.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import selectors
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import aclosing, contextmanager, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from ..errors import Conflict, UsageError

R = TypeVar("R")
STOPPED = 1.0
"""Seconds after which a thread that waits for an event loop checks that the loop still runs."""
LEAVE = 10.0
"""The most seconds that whoever stops reading an iterator waits for its end."""


def block(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end and return its result.

    A thread keeps its event loop between calls, so that a client opened in one call works in the next. Ctrl-C cancels
    the coroutine, and the `KeyboardInterrupt` has the run's state.
    """
    result: list[R] = []

    async def main() -> None:  # without a result: asyncio describes the task's whenever it sets a signal handler
        result.append(await work)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        thread = None
    else:
        thread = _Thread("assentry-blocking", main)
    if thread is None:
        _run(_thread_runner(), main(), contextvars.copy_context())
    else:
        with thread.running():
            thread.ended.result()
    return result[0]


def iterate(things: AsyncGenerator[R, None]) -> Iterator[R]:
    """Iterate over an async generator, blocking.

    The generator runs in its own thread, also while nobody reads. Whoever stops reading stops it and waits for its end.
    """
    queue: SimpleQueue[tuple[R] | None] = SimpleQueue()

    async def pump() -> None:
        async with aclosing(things):
            async for thing in things:
                queue.put((thing,))

    thread = _Thread("assentry-stream", pump)
    thread.ended.add_done_callback(lambda _: queue.put(None))
    with thread.running():
        while (each := queue.get()) is not None:
            yield each[0]
        thread.ended.result()


def _run(runner: asyncio.Runner, work: Coroutine[Any, Any, None], context: contextvars.Context) -> None:
    """Run a coroutine to its end. An interrupt or exit has the run's state, and leaves nothing to the next call."""
    try:
        runner.run(work, context=context)
    except (KeyboardInterrupt, SystemExit) as stop:
        _give_state(stop, stop.__context__)
        task = _task_of(work, runner.get_loop())
        if task is not None:  # another task has raised it, such as a tool's body, or Ctrl-C was pressed twice
            task.cancel()
            try:
                runner.get_loop().run_until_complete(task)
            except BaseException as error:
                _give_state(stop, error)
        raise


def _give_state(stop: BaseException, error: BaseException | None) -> None:
    """Put the state that a run left on its error on the exception that the caller gets, unless that has one."""
    if getattr(stop, "state", None) is None:
        stop.state = getattr(error, "state", None)  # type: ignore[attr-defined]


def _task_of(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any] | None:
    """Return the task that runs this coroutine, unless it has ended."""
    return next((task for task in asyncio.all_tasks(loop) if task.get_coro() is work), None)


class _Thread(threading.Thread):
    """A thread that runs one coroutine on its own event loop."""

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(name=name, daemon=True)
        self.ended: Future[None] = Future()
        self._context = contextvars.copy_context()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._work = work()

    def run(self) -> None:
        try:
            with self._runner as runner:
                _run(runner, self._work, self._context)
        except BaseException as error:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the coroutine during a `with` block, and stop it at the end of the block, unless it has ended.

        A `KeyboardInterrupt` in the block has the state that the coroutine left.
        """
        try:
            self.start()
            yield
        except KeyboardInterrupt as stop:
            self._stop_soon()
            wait([self.ended])
            _give_state(stop, self.ended.exception())
            raise
        finally:
            self._stop_soon()
            if self.is_alive():
                # Not for ever: the garbage collector may call this in the middle of a write that the end waits for.
                self.join(LEAVE)

    def _stop_soon(self) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        task = _task_of(self._work, self._loop)
        if task is not None:
            task.cancel()


# -- the runner that a thread keeps ----------------------------------------------------------------


class _Kept:
    """A thread's runner, closed when the thread or the program ends."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=_new_loop)
        self.process = os.getpid()

    # Not with the runner's `close`: it starts a thread, and none can be started when a thread or a program ends.
    def __del__(self) -> None:
        loop = self.runner.get_loop()
        with suppress(RuntimeError):  # forked on this very loop
            if self.process == os.getpid():  # in a forked child, the tasks are the parent's
                loop.run_until_complete(_end_tasks())
            loop.close()


async def _end_tasks() -> None:
    """Cancel all other tasks and close the async generators of this event loop."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop whose copy a forked child can close without harm.

    With epoll, closing the copy would end the parent's registrations. Poll has none in the system.
    """
    if not hasattr(selectors, "PollSelector"):
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(selectors.PollSelector())


_own = threading.local()
atexit.register(lambda: _own.__dict__.clear())
if hasattr(os, "register_at_fork"):  # a forked child makes its own
    os.register_at_fork(after_in_child=lambda: _own.__dict__.clear())


def _thread_runner() -> asyncio.Runner:
    """Return this thread's runner."""
    if not hasattr(_own, "kept"):
        _own.kept = _Kept()
    kept: _Kept = _own.kept
    return kept.runner


class RunLoop:
    """The event loop, and its thread, that a run's journal belongs to."""

    __slots__ = ("_thread", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def do(self, act: Callable[[], None]) -> None:
        """Call this on the loop and wait for it, from a body's thread too; `Conflict` if the loop has stopped."""
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
        """Run this on the loop and wait for it, from another thread; `Conflict` if the loop has stopped."""
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
