"""Connections that must not be open when the process is forked.

SQLite counts a process's locks on a file once, for all its connections to it. A forked child has the count and none of
the locks: it believes it holds what only its parent does, and what it writes is lost when its parent lets go of the
file. So connections are closed before a fork, and each side opens its own.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

PATIENCE = 5.0
"""How many seconds a fork waits for what is being done on a connection; then it is left open after all."""


class Connected(Protocol):
    """Has a connection, now and then."""

    @property
    def turn(self) -> threading.Lock:
        """Held by whoever uses the connection."""

    def disconnect(self) -> None:
        """Close it; the next to use it opens another."""


_all: WeakSet[Connected] = WeakSet()
_listing = threading.Lock()
_held: list[threading.Lock] = []


def close_before_forks(each: Connected) -> None:
    """Have its connection closed before every fork from now on."""
    with _listing:
        _all.add(each)


def _before() -> None:
    _listing.acquire()
    for each in _all:
        turn = each.turn
        if turn.acquire(timeout=PATIENCE):
            _held.append(turn)
            each.disconnect()


def _after() -> None:
    while _held:
        _held.pop().release()
    _listing.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
