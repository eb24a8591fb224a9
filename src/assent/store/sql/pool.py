"""Connections to Postgres that are kept between uses.

Whoever takes one is on a thread of the store's lane, so nobody waits for long, and a connection is taken for every
statement: that has to cost next to nothing.
"""

from __future__ import annotations

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
        self._back = threading.Condition(self._lock)
        self._room = size
        """How many more may be taken."""
        self._waiting = 0
        self._idle: list[Link] = []
        self._now = object()
        """Stands for the time since all were last given up."""

    def take(self) -> Link:
        """One for whoever asks, until it is given back; a new one if none is idle."""
        with self._lock:
            while not self._room:
                self._waiting += 1
                self._back.wait()
                self._waiting -= 1
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

    def give(self, link: Link) -> None:
        """Give it back; one of those that were given up meanwhile is not kept."""
        with self._lock:
            if link.made_in is self._now:
                self._idle.append(link)
                self._make_room()
                return
        _close(link)
        with self._lock:
            self._make_room()

    def give_up(self) -> None:
        """Close all of them: those that are in use, when they are given back."""
        with self._lock:
            idle, self._idle, self._now = self._idle, [], object()
        for link in idle:
            _close(link)

    def _make_room(self) -> None:
        self._room += 1
        if self._waiting:
            self._back.notify()


def _close(link: Link) -> None:
    with suppress(psycopg.Error):
        link.connection.close()
