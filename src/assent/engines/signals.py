"""Signals that tell a process to end, while something runs that wants to end in order."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


_told: list[Callable[[], None]] = []
"""Whom to tell. Several may want to know at once, and end in any order."""
_before: dict[int, Any] = {}


@contextmanager
def handled(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` for each of these signals, and leave the process as it was. Only the main thread can do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def tell() -> None:
        loop.call_soon_threadsafe(act)

    if not _told:
        _before.update({each: signal.signal(each, _heard) for each in SIGNALS})
    _told.append(tell)
    try:
        yield
    finally:
        _told.remove(tell)
        if not _told:
            for each, handler in _before.items():
                signal.signal(each, handler if handler is not None else signal.SIG_DFL)


def _heard(number: int, frame: Any) -> None:
    for tell in _told:
        tell()
