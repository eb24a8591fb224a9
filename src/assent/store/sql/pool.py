"""Connections to Postgres that are kept between uses, for the threads of a store.

psycopg_pool opens connections in the background and checks them with threads of its own. Here a connection is opened by
whoever needs it, so that an error reaches the caller with its own words, and is checked only after a rest.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

REST = 10.0
"""After how many seconds a connection is first asked whether it is still there."""


class Link:
    """A connection, and what is known of it for as long as it lives."""

    __slots__ = ("connection", "made_in", "prepared", "used")

    def __init__(self, connection: psycopg.Connection[Any], made_in: object) -> None:
        self.connection = connection
        self.made_in = made_in
        self.prepared: set[bytes] = set()
        """The names of the statements that it knows."""
        self.used = time.monotonic()
        """When it was last seen to be there, by the monotonic clock."""

    @property
    def has_rested(self) -> bool:
        """Whether it was not used for so long that it may be gone without a word."""
        return time.monotonic() - self.used > REST

    def see_that_it_lives(self) -> None:
        """Notice a connection that was lost while it rested: what was not sent yet can be sent on another."""
        line = self.connection.pgconn
        line.consume_input()  # the server's last words, if there are any,
        line.consume_input()  # and that nothing comes after them
        self.used = time.monotonic()


class Pool:
    """At most so many connections; the one that was used last is used next."""

    def __init__(self, size: int, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._room = threading.Semaphore(size)
        """Counts how many more may be taken."""
        self._idle: list[Link] = []
        self._now = object()
        """Stands for the time since all were last given up."""
        self.process = os.getpid()
        """The process whose connections they are: one that came with a fork is its parent's."""

    def take(self) -> Link:
        """Return a connection, a new one if none is idle; wait while all are in use."""
        self._room.acquire()
        with self._lock:
            if self._idle:
                return self._idle.pop()
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
