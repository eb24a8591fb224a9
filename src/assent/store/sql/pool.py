"""Connections to Postgres that are kept between uses.

Whoever waits for one is on a thread of the store's lane, or blocks; whoever is on an event loop has one that is idle,
or none. A connection is taken for every statement: that has to cost next to nothing.
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
"""After how many seconds a connection is first asked whether it is still there."""
GLANCE = 1.0
"""How many seconds somebody waits for a connection before looking for those that nobody will give back."""


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
        self._lock = threading.RLock()  # whoever waits for a connection may come to give one up
        self._back = threading.Condition(self._lock)
        self._room = size
        """How many more may be taken."""
        self._waiting = 0
        self._idle: list[Link] = []
        self._now = object()
        """Stands for the time since all were last given up."""
        self.flights: set[Flight] = set()
        """The statements that event loops wait for."""
        self.process = os.getpid()
        """The process whose connections they are: one that came with a fork is its parent's."""

    def take(self) -> Link:
        """One for whoever asks, until it is given back; a new one if none is idle."""
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
        """Whether one is idle, and nobody waits for it who came before; and another is left for those who block the
        loops that have the others, and so could wait for them for ever."""
        return bool(self._idle) and self._room > self._waiting + 1

    def spare(self) -> Link | None:
        """One that is idle, for those who cannot wait; None if they would have to."""
        with self._lock:
            if not self.has_spare:
                return None
            self._room -= 1
            return self._idle.pop()

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
            self._see_to_flights()
        for link in idle:
            _close(link)

    def _see_to_flights(self) -> None:
        """Have those brought to their end whose loops were closed."""
        for flight in list(self.flights):
            flight.leave_if_closed()

    def _make_room(self) -> None:
        self._room += 1
        if self._waiting:
            self._back.notify()


def _close(link: Link) -> None:
    with suppress(psycopg.Error):
        link.connection.close()
