"""Whose event loop this is. One that a blocking call has for itself may be blocked: nobody else waits on it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

ALONE: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("assent_alone", default=None)
"""The loop of the blocking call that this is done for, if it is done for one."""


def alone() -> bool:
    """Whether this is done on that loop. What a blocking call has others do, they do on loops that are not its own."""
    own = ALONE.get()
    return own is not None and own is asyncio.get_running_loop()
