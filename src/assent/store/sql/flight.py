"""Statements that an event loop waits for itself: libpq does not block, and the loop watches its socket.

A thread that waits for the server, and a loop that waits for the thread, wake one after the other, and each time that
costs more than the statement does. What has to wait for anything but an answer is not done here but on the lane.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from typing import Any

from psycopg.pq.abc import PGresult

from .pool import Link, Pool
from .prepared import Prepared, answer, answering

Over = Callable[[BaseException, Prepared, Link], BaseException]
"""Is told with which error a statement came to its end, and on which connection; says what to raise."""


class Flight:
    """A statement that was sent, the connection it was sent on, and the loop that waits for the answer.

    It ends once: when the answer is there, or when nobody waits for it any more and a thread takes it over. Then the
    connection is given back, and never before that: others must not read what was not meant for them.
    """

    __slots__ = ("_answers", "_link", "_loop", "_over", "_pool", "_sending", "_socket", "_statement", "answer")

    def __init__(self, pool: Pool, link: Link, statement: Prepared, over: Over) -> None:
        self._pool, self._link, self._statement, self._over = pool, link, statement, over
        line = link.connection.pgconn
        self._socket = line.socket
        self._answers: Generator[bool, None, PGresult] = answering(line)
        self._sending = False
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[PGresult] = self._loop.create_future()
        self._loop.add_reader(self._socket, self._go_on)
        pool.flights.add(self)

    def start(self, given: list[Any]) -> None:
        """Send the statement, or as much of it as the system takes; the loop sees to the rest."""
        try:
            self._statement.send(self._link.connection.pgconn, given)
        except BaseException as error:
            self._end(None, error)
        else:
            self._go_on()

    def leave(self) -> None:
        """Nobody waits for the answer any more. What was begun is done to its end, on a thread.

        Not on the loop, which may be about to close, nor on the lane, where all may be waiting for this connection.
        """
        if self._pool.process != os.getpid() or not self._stop_watching():  # what came with a fork is its parent's
            return
        try:
            threading.Thread(target=self._finish, name="assent-store-finish", daemon=True).start()
        except RuntimeError as error:  # there is none to be had
            self._link.connection.close()
            self._give_back(error)

    def leave_if_closed(self) -> None:
        """See whether the loop was closed and has forgotten this."""
        if self._loop.is_closed():
            self.leave()

    def _go_on(self) -> None:
        try:
            sending = next(self._answers)
        except StopIteration as end:
            self._end(end.value, None)
        except BaseException as error:
            self._end(None, error)
        else:
            if sending is not self._sending:
                self._watch_for_room(sending)

    def _watch_for_room(self, sending: bool) -> None:
        self._sending = sending
        if sending:
            self._loop.add_writer(self._socket, self._go_on)
        else:
            self._loop.remove_writer(self._socket)

    def _stop_watching(self) -> bool:
        """Whether it was under way until now."""
        try:
            self._pool.flights.remove(self)
        except KeyError:
            return False
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
            if self._sending:
                self._loop.remove_writer(self._socket)
        return True

    def _end(self, result: PGresult | None, error: BaseException | None) -> None:
        self._stop_watching()
        told = self._give_back(error)
        if self.answer.done():  # by whoever does not want it any more
            return
        if told is not None:
            self.answer.set_exception(told)
        elif result is not None:
            self.answer.set_result(result)

    def _finish(self) -> None:
        error = None
        try:
            answer(self._link.connection.pgconn, self._answers)
        except BaseException as raised:
            error = raised
        self._give_back(error)

    def _give_back(self, error: BaseException | None) -> BaseException | None:
        told = None if error is None else self._over(error, self._statement, self._link)
        self._pool.give(self._link)
        return told
