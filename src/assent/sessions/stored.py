"""The parts that sessions in databases share: checks of their arguments, encoding of items, and closing."""

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
"""The largest integer that a database column can hold."""

decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class Shared(Protocol):
    """A connection that several sessions use."""

    @property
    def lane(self) -> Lane:
        """The lane that runs the connection's work."""

    def leave(self, session: object) -> bool:
        """Remove a session; return True if no session uses the connection any more."""

    def disconnect(self) -> None:
        """Close the connection."""


class Closing:
    """A session that can be closed, and used in a `with` or an `async with`."""

    _closed = False
    _shared: Shared

    def close(self) -> None:
        """Close the session after its pending work. A session in memory is lost. Closing twice does no harm."""
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
    """Encode the items as JSON texts, which later changes to the items do not affect."""
    if not isinstance(items, list | tuple) or not all(isinstance(item, dict) for item in items):
        raise InvalidInput(f"A session takes a list of items (dicts), got {described(items)}. Nothing was stored.")
    try:
        return [_encode(plain(item)).decode() for item in items]
    except BadJSON as error:
        raise InvalidInput(f"An item cannot be stored: {error}. Nothing was stored.") from None


def checked_name(value: Any, what: str) -> str:
    """Return an id; raise `UsageError` unless it is a text that is not empty."""
    if not isinstance(value, str) or not value or not holds(value):
        raise UsageError(f"{what} is a text that is not empty, got {described(value)}.")
    return value


def checked_number(value: Any, what: str) -> int:
    """Return a count; raise `UsageError` unless it is a whole number, 0 or more."""
    if type(value) is not int or value < 0:
        raise UsageError(f"{what} is a whole number, 0 or more, got {described(value)}.")
    return value
