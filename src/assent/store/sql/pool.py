"""The pool of connections to Postgres.

A thread of the store's lane, or a blocking call, waits for a connection; an event loop gets an idle connection or
none. A connection is acquired for every statement, so acquiring must be cheap.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from .flight import Flight

REST = 10.0
"""The seconds after its last check from which a connection is tested with a query before a write."""
GLANCE = 1.0
"""The seconds of waiting for a connection after which connections of closed event loops are released."""


class Link:
    """A connection, with its prepared statements and the time of its last check."""

    __slots__ = ("connection", "made_in", "prepared", "used")

    def __init__(self, connection: psycopg.Connection[Any], made_in: object) -> None:
        self.connection = connection
        self.made_in = made_in
        self.prepared: set[bytes] = set()
        """The names of the statements prepared on the connection."""
        self.used = time.monotonic()
        """The time of the last check, on the monotonic clock."""

    @property
    def has_rested(self) -> bool:
        """True if the last check is so long ago that the connection may be lost."""
        return time.monotonic() - self.used > REST

    def see_that_it_lives(self) -> None:
        """Raise if the connection was lost while unused. Nothing was sent yet, so another one can be used."""
        line = self.connection.pgconn
        line.consume_input()  # reads the server's last message, if there is one
        line.consume_input()  # raises if the server has closed the connection
        self.used = time.monotonic()


class Pool:
    """A limited number of connections; the one used last is used next."""

    def __init__(self, size: int, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._lock = threading.RLock()  # a waiting thread may release a connection itself
        self._back = threading.Condition(self._lock)
        self._room = size
        """The number of connections that may still be acquired."""
        self._waiting = 0
        self._idle: list[Link] = []
        self._now = object()
        """A marker of the current generation of connections; `give_up` starts a new one."""
        self.flights: set[Flight] = set()
        """The statements that event loops await."""
        self.process = os.getpid()
        """The id of the process that owns the connections; after a fork they stay the parent's."""

    def take(self) -> Link:
        """Acquire a connection, waiting if the pool is exhausted; open a new one if none is idle."""
        with self._lock:
            while not self._room:
                self._waiting += 1
                self._back.wait(GLANCE)
                self._waiting -= 1
                self._see_to_flights()
            self._room -= 1
            if self._idle:
                return self._idle.pop()
            now = self._now
        try:
            return Link(self._connect(), now)
        except BaseException:
            with self._lock:
                self._make_room()
            raise

    @property
    def has_spare(self) -> bool:
        """True if a connection is free and one stays reserved for blocking callers.

        A blocking caller stops the event loops that would release the other connections; without a reserved one it
        could wait forever.
        """
        return bool(self._idle) and self._room > self._waiting + 1

    def spare(self) -> Link | None:
        """Acquire an idle connection without waiting; None if there is none to spare."""
        with self._lock:
            if not self.has_spare:
                return None
            self._room -= 1
            return self._idle.pop()

    def give(self, link: Link) -> None:
        """Release a connection; close it if `give_up` was called meanwhile."""
        with self._lock:
            if link.made_in is self._now:
                self._idle.append(link)
                self._make_room()
                return
        _close(link)
        with self._lock:
            self._make_room()

    def give_up(self) -> None:
        """Close all connections; those in use are closed when they are released."""
        with self._lock:
            idle, self._idle, self._now = self._idle, [], object()
            self._see_to_flights()
        for link in idle:
            _close(link)

    def _see_to_flights(self) -> None:
        """Finish the statements whose event loops were closed."""
        for flight in list(self.flights):
            flight.leave_if_closed()

    def _make_room(self) -> None:
        self._room += 1
        if self._waiting:
            self._back.notify()


def _close(link: Link) -> None:
    with suppress(psycopg.Error):
        link.connection.close()
