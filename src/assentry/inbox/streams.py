"""The open event streams of each user, and the response that counts one. Each process counts for itself."""

from __future__ import annotations

from collections import Counter

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..errors import TooManyStreams

MOST_STREAMS = 100
"""The most event streams of one user or token. A browser has one for each tab; several screens may share a token."""


class Streams:
    """The number of open event streams, by the name of the user or token."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def open(self, name: str) -> int:
        """Return the number of a user's open streams."""
        return self._open[name]

    def begin(self, name: str) -> None:
        """Count a stream; raise `TooManyStreams` if the user has as many as there may be."""
        if self.open(name) >= MOST_STREAMS:
            raise TooManyStreams(f"{name} has {MOST_STREAMS} event streams open, which is the most. Close one first.")
        self._open[name] += 1

    def end(self, name: str) -> None:
        """Count a stream no more."""
        self._open[name] -= 1
        self._open += Counter()  # forgets names without any


class CountedStream(StreamingResponse):
    """A response that is one of a user's event streams, however it ends."""

    streams: Streams
    name: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.streams.end(self.name)
