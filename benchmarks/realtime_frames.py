"""The WebSocket frames of a live session's server, in the form of OpenAI's Realtime API, and a connection in memory.

`websockets` reads the frames as it would from a socket. Below it there is no socket: `connections` replaces the event
loop's `create_connection`. Imported in every realtime peer's environment, so nothing here may import a peer.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

from .conversation import FINAL, WIRE, WORD, arguments_json, call_id

URL = "ws://localhost/v1/realtime"
CHUNK = 4800
"""The bytes of a piece of audio: 100 ms of PCM16 at 24 kHz."""

CLOSE, PING = 0x8, 0x9
CLOSED = Frame(Opcode.CLOSE, b"\x03\xe8").serialize(mask=False)
SWITCHED = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n"
)

_events = count(1)


def frame(type: str, **fields: Any) -> bytes:
    """One event of the server, with an id of its own."""
    event = {"type": type, "event_id": f"event_{next(_events):021d}", **fields}
    return Frame(Opcode.TEXT, json.dumps(event).encode()).serialize(mask=False)


class Reply:
    """A reply with one message: the frames before its deltas, its deltas, and the frames after them."""

    def __init__(self, number: int) -> None:
        self.response, self.item = f"resp_{number:019d}", f"item_{number:019d}"
        self.place = {"response_id": self.response, "item_id": self.item, "output_index": 0, "content_index": 0}

    def begun(self) -> list[bytes]:
        """The frames with which the reply and its message begin."""
        return [
            frame("response.created", response=self._response("in_progress", [])),
            *self._item("added", message(self.item, None)),
        ]

    def audio(self, chunks: Iterable[bytes]) -> list[bytes]:
        """A frame for each piece of audio."""
        return [frame("response.output_audio.delta", **self.place, delta=b64encode(chunk).decode()) for chunk in chunks]

    def text(self, words: Iterable[str]) -> list[bytes]:
        """A frame for each piece of text."""
        return [frame("response.output_text.delta", **self.place, delta=word) for word in words]

    def ended(self) -> list[bytes]:
        """The frames that end the message and the reply."""
        item = message(self.item, FINAL)
        return [*self._item("done", item), frame("response.done", response=self._response("completed", [item]))]

    def whole(self) -> list[bytes]:
        """The frames of a whole reply that says FINAL."""
        return [*self.begun(), *self.text([FINAL]), *self.ended()]

    def called(self) -> list[bytes]:
        """The frames of a whole reply that calls WIRE."""
        call = {"type": "function_call", "id": self.item, "object": "realtime.item", "name": WIRE}
        begun = {**call, "status": "in_progress", "call_id": call_id(0), "arguments": ""}
        ended = {**begun, "status": "completed", "arguments": arguments_json(0)}
        return [
            frame("response.created", response=self._response("in_progress", [])),
            *self._item("added", begun),
            *self._item("done", ended),
            frame("response.done", response=self._response("completed", [ended])),
        ]

    def _item(self, what: str, item: dict[str, Any]) -> list[bytes]:
        return [
            frame(f"response.output_item.{what}", response_id=self.response, output_index=0, item=item),
            frame(f"conversation.item.{what}", previous_item_id=None, item=item),
        ]

    def _response(self, status: str, output: list[Any]) -> dict[str, Any]:
        usage = {"total_tokens": 15, "input_tokens": 10, "output_tokens": 5} if status == "completed" else None
        return {"object": "realtime.response", "id": self.response, "status": status, "output": output, "usage": usage}


def message(id: str, text: str | None) -> dict[str, Any]:
    """A message of the model; with a text, it is complete."""
    content = [] if text is None else [{"type": "output_text", "text": text}]
    status = "in_progress" if text is None else "completed"
    fields = {"id": id, "object": "realtime.item", "type": "message", "role": "assistant"}
    return {**fields, "status": status, "content": content}


def chunks(n: int) -> list[bytes]:
    """So many pieces of audio, of noise."""
    noise = Random(1)
    return [noise.randbytes(CHUNK) for _ in range(n)]


def words(n: int) -> list[str]:
    """So many pieces of text."""
    return [WORD] * n


class Line(asyncio.Transport):
    """A connection in memory, as its client sees it. The server's frames come one in each pass of the event loop."""

    def __init__(self, client: asyncio.Protocol) -> None:
        super().__init__()
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._frames: deque[bytes] = deque()
        self._shaken = self._paused = self._lost = self._coming = False

    def feed(self, frames: Iterable[bytes]) -> None:
        """Let these frames come."""
        self._frames.extend(frames)
        self._come()

    async def quiet(self) -> None:
        """Wait until all frames have come, and their readers have had time for them."""
        while self._frames:  # noqa: ASYNC110 - it takes a pass of the loop for each
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)

    def _come(self) -> None:
        if self._frames and not (self._coming or self._paused or self._lost):
            self._coming = True
            self._loop.call_soon(self._arrive)

    def _arrive(self) -> None:
        self._coming = False
        if not (self._paused or self._lost):
            self._client.data_received(self._frames.popleft())
            self._come()

    def write(self, data: Any) -> None:
        """Take the client's handshake, or one frame of it."""
        data = bytes(data)
        if not self._shaken:
            self._shaken = True
            key = data.decode().split("Sec-WebSocket-Key: ")[1].split("\r\n")[0]
            self.feed([SWITCHED.format(accept_key(key)).encode()])
        elif data[0] & 0x0F == CLOSE:
            self.feed([CLOSED])
            self._loop.call_later(0, self.abort)
        elif data[0] & 0x0F == PING:
            payload = bytes(byte ^ data[2 + n % 4] for n, byte in enumerate(data[6:]))
            self.feed([Frame(Opcode.PONG, payload).serialize(mask=False)])

    def abort(self) -> None:
        """End the connection."""
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self._client.connection_lost, None)

    close = abort

    def is_closing(self) -> bool:
        return self._lost

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._come()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


@contextmanager
def connections() -> Iterator[list[Line]]:
    """Make all connections of the running event loop in memory; yields them, in the order in which they are made."""
    loop: Any = asyncio.get_running_loop()
    lines: list[Line] = []

    async def create_connection(factory: Callable[[], Any], *_: Any, **__: Any) -> tuple[Line, Any]:
        client = factory()
        line = Line(client)
        lines.append(line)
        client.connection_made(line)
        return line, client

    loop.create_connection = create_connection
    try:
        yield lines
    finally:
        del loop.create_connection
