"""The scenarios of live sessions: a server's WebSocket frames in, a session's events out.

All peers read the same frames by `websockets`, from a connection in memory. A reply's beginning and end are outside the
clock. Its deltas come one in each pass of the event loop, and are read as they come. What was read must be what was
sent.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from .. import realtime_frames as frames
from ..clock import Clock, resident
from ..conversation import WIRE, executed
from ..realtime_frames import URL, Line, Reply

FIRST = 20
"""The number of sessions that are open before memory is measured."""


async def alone(stack: AsyncExitStack) -> ClientConnection:
    """A connection and nothing else."""
    return await stack.enter_async_context(connect(URL, compression=None))


class Driver(ABC):
    """A peer, driven through the scenarios of live sessions.

    Peers use the same names for a session's events; a driver with others has methods of its own to read them.
    """

    lacks: frozenset[str] = frozenset()

    @abstractmethod
    async def session(self, stack: AsyncExitStack) -> Any:
        """Enter a session of an agent with both tools. The stack leaves it."""

    async def until(self, session: Any, type: str) -> None:
        """Read events up to the first one of this type."""
        async for event in session:
            if event.type == type:
                return

    async def audio(self, session: Any, n: int) -> list[bytes]:
        """Read n pieces of audio."""
        read = []
        async for event in session:
            if event.type == "audio":
                read.append(event.audio.data)
                if len(read) == n:
                    break
        return read

    async def text(self, session: Any, n: int) -> list[str]:
        """Read n pieces of text."""
        read = []
        async for event in session:
            if event.type == "raw_model_event" and event.data.type == "output_text_delta":
                read.append(event.data.delta)
                if len(read) == n:
                    break
        return read

    async def realtime_audio(self, clock: Clock, n: int, replies: int) -> None:
        """So many replies of n pieces of audio: the time of one piece."""
        await self._forward(clock, frames.chunks(n), Reply.audio, self.audio, replies)

    async def realtime_text(self, clock: Clock, n: int, replies: int) -> None:
        """So many replies of n pieces of text: the time of one piece."""
        await self._forward(clock, frames.words(n), Reply.text, self.text, replies)

    async def _forward(
        self,
        clock: Clock,
        pieces: Sequence[Any],
        framed: Callable[[Reply, Any], list[bytes]],
        read: Callable[[Any, int], Awaitable[Any]],
        replies: int,
    ) -> None:
        n = len(pieces)
        async with AsyncExitStack() as stack:
            lines = stack.enter_context(frames.connections())
            connection = await alone(stack)
            session = await self.session(stack)
            for number in range(replies):
                reply = Reply(number)
                deltas = framed(reply, pieces)
                with clock.phase("client", shares=n * replies):
                    lines[0].feed(deltas)
                    for _ in deltas:
                        await connection.recv()
                lines[1].feed(reply.begun())
                await self.until(session, "agent_start")
                await lines[1].quiet()
                with clock.phase("delta", shares=n * replies):
                    lines[1].feed(deltas)
                    found = await read(session, n)
                lines[1].feed(reply.ended())
                await self.until(session, "agent_end")
                assert found == pieces, "the session said something else"
        clock.metric("overhead_us", (clock.cpu["delta"] - clock.cpu["client"]) / 1000)

    async def realtime_idle(self, clock: Clock, sessions: int, prior: int) -> None:
        """So many sessions that have had so many replies, with one call each that waits: the memory of one."""
        async with AsyncExitStack() as stack:
            lines = stack.enter_context(frames.connections())
            for _ in range(FIRST):
                await self._wait(stack, lines, prior)
            before = resident()
            for _ in range(sessions):
                await self._wait(stack, lines, prior)
            after = resident()
            assert executed[WIRE] == 0, "a call ran before it was approved"
        if before is not None and after is not None:
            clock.metric("session_bytes", (after - before) / sessions)

    async def _wait(self, stack: AsyncExitStack, lines: list[Line], prior: int) -> None:
        """Open a session, let its model talk, call WIRE and say one thing more, and go on reading its events."""
        session = await self.session(stack)
        line = lines[-1]
        for number in range(prior):
            await self._say(session, line, Reply(number))
        line.feed(Reply(prior).called())
        await self.until(session, "tool_approval_required")
        await self._say(session, line, Reply(prior + 1))
        stack.callback(asyncio.create_task(self.until(session, "nothing")).cancel)
        await line.quiet()

    async def _say(self, session: Any, line: Line, reply: Reply) -> None:
        line.feed(reply.whole())
        await self.until(session, "agent_start")
        await self.until(session, "agent_end")
