"""Whose event loop this is, and what can be done on it without waiting.

One that a blocking call has for itself may be blocked: nobody else waits on it.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from typing import Any

ALONE: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("assent_alone", default=None)
"""The loop of the blocking call that this is done for, if it is done for one."""


def alone() -> bool:
    """Return True on the private event loop of a blocking call."""
    own = ALONE.get()
    return own is not None and own is asyncio.get_running_loop()


def begun(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Do this as far as it goes without waiting; what is left of it, for a task, or None if it is done.

    Only for work that does not care in whose task it is: one half may be done in another than the other.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return _left(work, awaited)


async def _left(work: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _rest(work, awaited)  # which is a generator, and since Python 3.12 no task takes one


@types.coroutine
def _rest(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Run the rest of work that waits for this."""
    while True:
        error, value = None, None
        try:
            value = yield awaited
        except BaseException as raised:
            error = raised
        try:
            awaited = work.send(value) if error is None else work.throw(error)
        except StopIteration:
            return
