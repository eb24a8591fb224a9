"""What sessions in databases share: what they take, what they keep of it, and how they are let go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

from ..core.digest import BadJSON, described, holds, plain
from ..errors import InvalidInput, UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .lane import Lane

LARGEST = 2**63 - 1
"""The largest integer that a column can hold."""

decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class Shared(Protocol):
    """A connection that several sessions use."""

    @property
    def lane(self) -> Lane:
        """Where its work is done."""

    def leave(self, session: object) -> bool:
        """Count a session out; whether nobody uses the connection any more."""

    def disconnect(self) -> None:
        """Close the connection."""


class Closing:
    """A session that can be closed, and used in a `with` or an `async with`."""

    _closed = False
    _shared: Shared

    def close(self) -> None:
        """Let go of the database, when what was begun is done. A session in memory is lost. Closing twice is once."""
        if (closing := self._closing()) is not None:
            closing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if (closing := self._closing()) is not None:
            await asyncio.wrap_future(closing)

    def _closing(self) -> Future[None] | None:
        if self._closed:
            return None
        self._closed = True
        return self._shared.lane.submit(self._leave)

    def _leave(self) -> None:
        if self._shared.leave(self):
            self._shared.disconnect()


def texts_of(items: Any) -> list[str]:
    """The items as JSON text. They are the session's own from here on, whoever changes the list."""
    if not isinstance(items, list | tuple) or not all(isinstance(item, dict) for item in items):
        raise InvalidInput(f"A session takes a list of items (dicts), got {described(items)}. Nothing was stored.")
    try:
        return [_encode(plain(item)).decode() for item in items]
    except BadJSON as error:
        raise InvalidInput(f"An item cannot be stored: {error}. Nothing was stored.") from None


def checked_name(value: Any, what: str) -> str:
    """An id that was given, or `UsageError`."""
    if not isinstance(value, str) or not value or not holds(value):
        raise UsageError(f"{what} is a text that is not empty, got {described(value)}.")
    return value


def checked_number(value: Any, what: str) -> int:
    """A count that was given, or `UsageError`."""
    if type(value) is not int or value < 0:
        raise UsageError(f"{what} is a whole number, 0 or more, got {described(value)}.")
    return value
