"""Handlers for the signals that end a process, so that a worker can finish in order."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


_told: list[Callable[[], None]] = []
"""The callbacks of all `handled` blocks that are active; they may end in any order."""
_before: dict[int, Any] = {}


@contextmanager
def signal_handler(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` on the event loop for each SIGTERM or SIGINT, and restore the earlier handlers at the end.

    Outside of the main thread, where Python allows no signal handlers, do nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def tell() -> None:
        loop.call_soon_threadsafe(act)

    if not _told:
        _before.update({each: signal.signal(each, _on_signal) for each in SIGNALS})
    _told.append(tell)
    try:
        yield
    finally:
        _told.remove(tell)
        if not _told:
            for each, handler in _before.items():
                signal.signal(each, handler if handler is not None else signal.SIG_DFL)


def _on_signal(number: int, frame: Any) -> None:
    for tell in _told:
        tell()
