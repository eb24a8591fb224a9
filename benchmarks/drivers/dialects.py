"""The scenarios of model dialects: a runtime with its provider's official client, over recorded replies.

The client's HTTP transport answers from memory, so there is no socket and no server in what is timed. Every peer reads
the same bytes. A run is checked by what it said, how often the model was asked, and the answers that were sent back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

from .. import recordings
from ..clock import Clock
from ..conversation import FINAL, LOOKUP, WIRE, WORD, answer, executed
from ..recordings import Reply

Run = Callable[[], Awaitable[str]]
"""A run from PROMPT to its end; returns its text."""


class Events(httpx2.AsyncByteStream):
    """A body that comes an event at a time."""

    def __init__(self, events: list[bytes]) -> None:
        self.events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self.events:
            yield event


class Replay(httpx2.AsyncBaseTransport):
    """A transport that answers with these replies, one after another, as a stream if it is asked for one."""

    def __init__(self) -> None:
        self.load([])

    def load(self, replies: list[Reply]) -> None:
        """Begin again, with these replies."""
        self.replies, self.requests = replies, list[bytes]()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = self.replies[len(self.requests)]
        self.requests.append(request.content)
        if b'"stream":true' in request.content.replace(b": ", b":"):
            return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Events(reply.events))
        return httpx2.Response(200, headers={"Content-Type": "application/json"}, content=reply.whole)


def openai_client(transport: Replay) -> Any:
    """OpenAI's client over a transport."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(api_key="none", http_client=httpx2.AsyncClient(transport=transport))


def anthropic_client(transport: Replay) -> Any:
    """Anthropic's client over a transport."""
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(api_key="none", http_client=httpx2.AsyncClient(transport=transport))


CLIENTS = {"responses": openai_client, "chat": openai_client, "anthropic": anthropic_client}


class Driver(ABC):
    """A peer, driven through the scenarios of dialects."""

    lacks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._made: dict[str, tuple[Replay, Any]] = {}

    @abstractmethod
    def made(self, dialect: str, client: Any) -> Any:
        """An agent with both tools and the dialect's model over this client: all that is made once and used often."""

    @abstractmethod
    async def streamed(self, agent: Any) -> list[str]:
        """Run from PROMPT to the end, and read every delta of text as it comes."""

    @abstractmethod
    async def unstreamed(self, agent: Any) -> str:
        """Run from PROMPT to the end, and return the text."""

    async def dialect_stream(self, clock: Clock, dialect: str, n: int) -> None:
        """One reply of n deltas, read as they come: the time of one delta."""
        transport, agent = self._ready(dialect, [recordings.text(dialect, n)])
        with clock.phase("delta", shares=n):
            read = await self.streamed(agent)
        assert read == [WORD] * n, "the stream said something else"
        assert len(transport.requests) == 1, f"asked {len(transport.requests)} times"

    async def dialect_turns(self, clock: Clock, dialect: str, n: int) -> None:
        """One run of n turns of one call each, and a last reply, all streamed: the time of one reply."""
        transport, agent = self._ready(dialect, self._conversation(dialect, n))
        with clock.phase("turn", shares=n + 1):
            read = await self.streamed(agent)
        self._check(transport, "".join(read), n)

    async def dialect_run(self, clock: Clock, dialect: str, n: int) -> None:
        """The same by whoever does not read a stream; the peer chooses if the client does."""
        transport, agent = self._ready(dialect, self._conversation(dialect, n))
        with clock.phase("turn", shares=n + 1):
            read = await self.unstreamed(agent)
        self._check(transport, read, n)

    def _conversation(self, dialect: str, n: int) -> list[Reply]:
        return [*(recordings.call(dialect, turn) for turn in range(n)), recordings.final(dialect)]

    def _ready(self, dialect: str, replies: list[Reply]) -> tuple[Replay, Any]:
        if dialect not in self._made:
            transport = Replay()
            self._made[dialect] = transport, self.made(dialect, CLIENTS[dialect](transport))
        transport, agent = self._made[dialect]
        transport.load(replies)
        return transport, agent

    def _check(self, transport: Replay, text: str, n: int) -> None:
        assert text == FINAL, f"the run said {text!r}"
        assert executed == {LOOKUP: n, WIRE: 0}, f"ran {executed}"
        assert len(transport.requests) == n + 1, f"asked {len(transport.requests)} times"
        last = transport.requests[-1].decode()
        assert all(answer(turn) in last for turn in range(n)), "the model was not sent what the tools answered"
