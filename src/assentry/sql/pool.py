"""Connections to Postgres that are kept between uses, for the threads of a store or of sessions.

psycopg_pool opens connections in the background and checks them with threads of its own. Here a connection is opened by
whoever needs it, so that an error reaches the caller with its own words.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg


class PooledConnection:
    """A connection, and whether a commit was sent on it."""

    __slots__ = ("connection", "made_in", "pipeline", "sent")

    def __init__(self, connection: psycopg.Connection[Any], made_in: object) -> None:
        self.connection = connection
        self.made_in = made_in
        self.pipeline: psycopg.Pipeline | None = None
        """The pipeline in which the statements of a write are sent, while there is one."""
        self.sent = False
        """True once a commit was sent; until its answer arrives, the outcome is unknown."""


class Pool:
    """A limited number of connections; the one used last is used next."""

    def __init__(self, size: int, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._room = threading.Semaphore(size)
        """The number of connections that may still be acquired."""
        self._idle: list[PooledConnection] = []
        self._now = object()
        """A marker of the current generation of connections; `give_up` starts a new one."""

    def take(self) -> PooledConnection:
        """Return a connection, a new one if none is idle; wait while all are in use."""
        self._room.acquire()
        with self._lock:
            if self._idle:
                link = self._idle.pop()
                link.sent, link.pipeline = False, None
                return link
            now = self._now
        try:
            return PooledConnection(self._connect(), now)
        except BaseException:
            self._room.release()
            raise

    def give(self, link: PooledConnection) -> None:
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


def _close(link: PooledConnection) -> None:
    with suppress(psycopg.Error):
        link.connection.close()
