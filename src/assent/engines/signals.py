"""Signals that tell a process to end, while something runs that wants to end in order."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def handled(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` for each of these signals, and leave the process as it was. Only the main thread can do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def told(number: int, frame: Any) -> None:
        loop.call_soon_threadsafe(act)

    before = {each: signal.signal(each, told) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler if handler is not None else signal.SIG_DFL)
