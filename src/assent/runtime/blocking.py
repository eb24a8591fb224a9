"""Blocking calls for a runtime that is async: anywhere, inside a running loop too."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

R = TypeVar("R")
_own = threading.local()


def block(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end and return what it gives.

    A thread without a loop keeps one for its blocking calls, so that clients opened in one call
    work in the next. In a thread whose loop is running (a notebook) another thread does it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        runner: asyncio.Runner | None = getattr(_own, "runner", None)
        if runner is None:
            runner = _own.runner = asyncio.Runner()
        try:
            return runner.run(work)
        except KeyboardInterrupt as stop:  # stands in for the cancellation, which has the run's state
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
