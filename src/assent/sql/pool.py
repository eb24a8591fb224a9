"""Connections to Postgres that are kept between uses, for the threads of a store or of sessions.

psycopg_pool opens connections in the background and checks them with threads of its own. Here a connection is opened by
whoever needs it, so that an error reaches the caller with its own words, and is checked only after a rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

REST = 10.0
"""The seconds after its last check from which a connection is tested with a query before a write."""


class Link:
    """A connection, with its prepared statements and the time of its last check."""

    __slots__ = ("connection", "made_in", "prepared", "sent", "used")

    def __init__(self, connection: psycopg.Connection[Any], made_in: object) -> None:
        self.connection = connection
        self.made_in = made_in
        self.prepared: set[bytes] = set()
        """The names of the statements prepared on the connection."""
        self.sent = False
        """True once a change was sent for good; until its answer arrives, the outcome is unknown."""
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
        self._lock = threading.Lock()
        self._room = threading.Semaphore(size)
        """The number of connections that may still be acquired."""
        self._idle: list[Link] = []
        self._now = object()
        """A marker of the current generation of connections; `give_up` starts a new one."""

    def take(self) -> Link:
        """Return a connection, a new one if none is idle; wait while all are in use."""
        self._room.acquire()
        with self._lock:
            if self._idle:
                link = self._idle.pop()
                link.sent = False
                return link
            now = self._now
        try:
            return Link(self._connect(), now)
        except BaseException:
            self._room.release()
            raise

    def give(self, link: Link) -> None:
        """Take a connection back; one of those that were given up meanwhile is closed."""
        with self._lock:
            kept = link.made_in is self._now
            if kept:
                self._idle.append(link)
        if not kept:
            _close(link)
        self._room.release()

    def give_up(self) -> None:
        """Close all connections: those in use, when they are given back."""
        with self._lock:
            idle, self._idle, self._now = self._idle, [], object()
        for link in idle:
            _close(link)


def _close(link: Link) -> None:
    with suppress(psycopg.Error):
        link.connection.close()
