"""The unread events of a live session. Audio and the model's own events are dropped if nobody reads them for long.

All other events are kept: they are as many as the messages and the calls of the conversation, which the run keeps too.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from ..errors import UsageError
from . import event as e
from . import model as m

MAX_UNREAD = 8 * 2**20
"""The bytes of audio and of the model's own events that are kept unread: nearly three minutes of 16-bit PCM."""
EVENT_SIZE = 1024
"""The bytes that an event counts for, besides its audio."""


class EventQueue:
    """Events in their order, and an account of those that were dropped. None marks the end."""

    def __init__(self, info: e.RealtimeEventInfo) -> None:
        self._info = info
        self._events: deque[e.RealtimeSessionEvent | None] = deque()
        self._unread = 0
        """The bytes of the unread events that may be dropped."""
        self._dropped: Counter[str] = Counter()
        """The number of dropped events that the reader was not told of, by type."""
        self._reader: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._events or self._dropped)

    def push(self, event: e.RealtimeSessionEvent | None) -> None:
        """Append an event. If too much is unread already, drop the unread events that may be dropped."""
        if self._unread > MAX_UNREAD:
            self._drop()
        self._events.append(event)
        self._unread += _size(event)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def next(self) -> e.RealtimeSessionEvent | None:
        """Wait for the next event, and return it."""
        while not self:
            if self._reader is not None and not self._reader.done():
                raise UsageError("Another task iterates over this session already; give each event to both yourself.")
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self.pop()

    def pop(self) -> e.RealtimeSessionEvent | None:
        """Return the next event, but tell of dropped events first. The end stays the end."""
        if self._dropped:
            dropped, self._dropped = self._dropped, Counter()
            return e.RealtimeEventsDropped(dropped.total(), dict(dropped), self._info)
        if self._events[0] is None:
            return None
        event = self._events.popleft()
        self._unread -= _size(event)
        return event

    def _drop(self) -> None:
        self._dropped.update(event.type for event in self._events if event is not None and _size(event))
        self._events = deque(event for event in self._events if not _size(event))
        self._unread = 0


def _size(event: e.RealtimeSessionEvent | None) -> int:
    """Return the bytes that an event counts for; 0 if it must be kept."""
    if type(event) is e.RealtimeRawModelEvent:  # its audio is counted below
        return 0 if type(event.data) is m.RealtimeModelConnectionStatusEvent else EVENT_SIZE
    if type(event) is e.RealtimeAudio:
        return EVENT_SIZE + len(event.audio.data)
    if type(event) is e.RealtimeError:  # a provider may send any number of them; the session's own are exceptions
        return 0 if isinstance(event.error, Exception) else EVENT_SIZE
    return 0
