"""Prepared statements for Postgres, sent through libpq itself.

psycopg inspects the type of every value and makes a cursor for every statement; for a store's few, often repeated
statements that is most of their cost. Here the text gives the type of every parameter, as `:name::type`, and all values
are sent and received in the server's binary format.
"""

from __future__ import annotations

import re
import select
import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

R = TypeVar("R")

_PARAMETER = re.compile(r":(\w+)::(\w+(?:\[\])?)")
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_BINARY = 1
_LENGTH = struct.Struct("!i").pack
_ARRAY = struct.Struct("!5i").pack
_BYTEA, _INT8, _TEXT = 17, 20, 25  # the server's type ids


_number = struct.Struct("!q").pack


def _array(element: int) -> Callable[[Sequence[bytes]], bytes]:
    def dump(items: Sequence[bytes]) -> bytes:
        parts = [_ARRAY(1, 0, element, len(items), 1)]
        for item in items:
            parts += (_LENGTH(len(item)), item)
        return b"".join(parts)

    return dump


_numbers = _array(_INT8)
_DUMPS: dict[str, Callable[[Any], bytes]] = {
    "int8": _number,
    "text": str.encode,
    "bytea": bytes,
    "json": bytes,
    "text[]": _array(_TEXT),
    "bytea[]": _array(_BYTEA),
    "int8[]": lambda numbers: _numbers([_number(number) for number in numbers]),
}
"""The encoders of values, by type. The items of a `text[]` must be UTF-8 already."""


LOADS: dict[type, Callable[[bytes | None], Any]] = {
    int: lambda value: None if value is None else int.from_bytes(value, "big", signed=True),
    str: lambda value: None if value is None else value.decode(),
    bytes: lambda value: value,
}
"""The decoders of returned values, by Python type."""


class Prepared:
    """One fixed statement. A variant of it is another `Prepared`."""

    __slots__ = ("_formats", "_name", "_parameters", "text", "writes")

    def __init__(self, name: str, text: str, *, writes: bool = False) -> None:
        numbers: dict[str, int] = {}
        dumps: dict[str, Callable[[Any], bytes]] = {}

        def numbered(found: re.Match[str]) -> str:
            name, kind = found.groups()
            dumps[name] = _DUMPS[kind]
            return f"${numbers.setdefault(name, len(numbers) + 1)}::{kind}"

        self.text = _PARAMETER.sub(numbered, text)
        self._name = f"assent_{name}_{sha256(self.text.encode()).hexdigest()[:16]}".encode()
        self._parameters = list(dumps.items())
        self._formats = [_BINARY] * len(dumps)
        self.writes = writes

    def is_known(self, prepared: set[bytes]) -> bool:
        """Return True if the statement is among those `prepared` on a connection."""
        return self._name in prepared

    def prepare(self, line: PGconn, prepared: set[bytes]) -> None:
        """Prepare the statement on a connection, unless it is prepared already."""
        if self._name not in prepared:
            with suppress(psycopg.errors.DuplicatePreparedStatement):  # by another client of a pooler
                _see_that_it_is_done(line, line.prepare(self._name, self.text.encode()))
            prepared.add(self._name)

    def forget(self, prepared: set[bytes]) -> None:
        """Note that the statement is not prepared on the connection."""
        prepared.discard(self._name)

    def given(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the encoded values in their order; raise `struct.error` for a number too large for the server."""
        return [None if (value := values[name]) is None else dump(value) for name, dump in self._parameters]

    def send(self, line: PGconn, given: list[Any]) -> None:
        """Send the statement on a connection where it is prepared, without waiting; see `answering`."""
        line.send_query_prepared(self._name, given, self._formats, _BINARY)


Ask = tuple[Prepared, Mapping[str, Any]]
"""A statement, and the values of its parameters."""
Steps = Generator[Ask, PGresult, R]
"""A generator that yields statements, is sent the answer of each, and returns a result."""


def answer(line: PGconn) -> PGresult:
    """Wait for the answer and return it.

    The wait is in Python and not in libpq, so that Ctrl-C is heard meanwhile; psycopg made the connection non-blocking.
    """
    while line.flush():  # there is more to send than the system takes at one go; it may say something before the end
        _wait(line.socket, sending=True)
        line.consume_input()
    given: PGresult | None = None
    while (found := _next(line)) is not None:
        if given is None or given.status in _DONE:  # a commit that fails says so after what the statement gave
            given = found
    if given is None:
        raise psycopg.OperationalError("the server has not answered")
    _see_that_it_is_done(line, given)
    return given


def _next(line: PGconn) -> PGresult | None:
    while line.is_busy():
        _wait(line.socket, sending=False)
        line.consume_input()
    return line.get_result()


if hasattr(select, "poll"):

    def _wait(socket: int, sending: bool) -> None:
        poll = select.poll()
        poll.register(socket, select.POLLIN | select.POLLOUT if sending else select.POLLIN)
        poll.poll()

else:

    def _wait(socket: int, sending: bool) -> None:
        select.select([socket], [socket] if sending else [], [])


def _see_that_it_is_done(line: PGconn, result: PGresult) -> None:
    if result.status in _DONE:
        return
    error = psycopg.errors.error_from_result(result)
    if error.sqlstate is None:  # libpq's own error: the connection is lost, which libpq notices when it reads
        with suppress(psycopg.Error):
            line.consume_input()
    if line.status == pq.ConnStatus.BAD and not isinstance(error, psycopg.OperationalError):
        raise psycopg.OperationalError(str(error))
    raise error
