"""`websockets` alone: the same frames, read in the least loop that decodes a message and its audio."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

from . import realtime

NAMES = {
    "agent_start": "response.created",
    "agent_end": "response.done",
    "tool_approval_required": "response.output_item.done",
}
"""The server's event at which a session would tell of its own."""
NO_DELTAS = 2
"""The number of messages between the beginning of a reply and its first delta."""


class Audio(Struct):
    """A piece of audio; msgspec decodes base64 by itself."""

    delta: bytes = b""


class Text(Struct):
    """A piece of text."""

    delta: str = ""


AUDIO, TEXT = Decoder(Audio), Decoder(Text)


class Driver(realtime.Driver):
    """A connection in a loop, without an agent, a session or a tool."""

    async def session(self, stack: AsyncExitStack) -> Any:
        return await realtime.alone(stack)

    async def until(self, session: Any, type: str) -> None:
        while json.loads(await session.recv())["type"] != NAMES.get(type):
            pass

    async def audio(self, session: Any, n: int) -> list[bytes]:
        return [AUDIO.decode(await session.recv()).delta for _ in range(n + NO_DELTAS)][NO_DELTAS:]

    async def text(self, session: Any, n: int) -> list[str]:
        return [TEXT.decode(await session.recv()).delta for _ in range(n + NO_DELTAS)][NO_DELTAS:]


def make() -> Driver:
    """The driver."""
    return Driver()
