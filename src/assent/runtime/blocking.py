"""Blocking calls for a runtime that is async: anywhere, inside a running loop too."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from ..errors import Conflict

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
            return kept.runner.run(work, context=contextvars.copy_context())
        except KeyboardInterrupt as stop:  # stands in for the cancellation, which has the run's state
            if not hasattr(stop, "state"):
                stop.state = getattr(stop.__context__, "state", None)  # type: ignore[attr-defined]
            raise
    return _in_thread(work)


def _in_thread(work: Coroutine[Any, Any, R]) -> R:
    done: Future[R] = Future()
    context = contextvars.copy_context()

    def go() -> None:
        try:
            done.set_result(context.run(asyncio.run, work))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=go, name="assent-blocking", daemon=True).start()
    return done.result()


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

        if self.loop.is_running():
            done = asyncio.run_coroutine_threadsafe(work(), self.loop)
            while not wait([done], STOPPED).done and self.loop.is_running():
                pass
            if done.done():
                done.result()
                return
            done.cancel()
        raise Conflict("The run has stopped, and nothing can be recorded in it any more; resume its state.")
