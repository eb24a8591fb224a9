"""The connections of `assentry serve`: closed when a client takes too long to send a request.

uvicorn waits for ever for a request's head and body. A few clients that never finish would hold all connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD, BODY = 10.0, 120.0
"""The seconds within which a request's head must be there, and its body."""


class TimedConnection(H11Protocol):
    """A connection with a time limit for each part of a request. The answer may take any time."""

    _timer: asyncio.TimerHandle | None = None
    _part: Any = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what was sent."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begin to wait for the next head."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        """Start the time limit of the part that is awaited, unless it runs already: more data does not extend it."""
        part = self.conn.their_state
        if part is self._part and part is not h11.DONE:
            return
        self._stop()
        self._part = part
        limit = {h11.IDLE: HEAD, h11.SEND_BODY: BODY}.get(part)
        if limit is not None:
            self._timer = self.loop.call_later(limit, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
