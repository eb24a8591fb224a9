"""The scenario of MCP: calls of a server's tool through a runtime, beside the same calls by the official client alone.

Each has a server process of its own, with the same program. A rule lets every call pass. A run is checked by what the
server answered to each call. The CPU time is that of the peer's process, without the server's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from ..clock import Clock
from ..conversation import LOOKUP, answer, arguments
from ..mcp_server import COMMAND
from .driver import Script

Run = Callable[[], Awaitable[list[str]]]
"""One run of as many turns as the script has, a call each; returns the outputs in its transcript."""


class Driver(ABC):
    """A peer, driven through the scenario."""

    lacks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.script = Script()

    @abstractmethod
    def call(self, turn: int) -> Any:
        """A reply that calls LOOKUP once."""

    @abstractmethod
    def final(self) -> Any:
        """A reply that says FINAL."""

    @abstractmethod
    def connected(self, cached: bool) -> AbstractAsyncContextManager[Run]:
        """Start the server, and close it in the end; `cached` says if its tools are listed only once."""

    async def mcp_calls(self, clock: Clock, n: int, runs: int, cached: int) -> None:
        """So many runs of n calls: the time of one call, and how much that is more than the client's own."""
        table = [*(self.call(turn) for turn in range(n)), self.final()]
        self.script.respond = lambda items: table[(items - 1) // 2]
        expected = [answer(turn) for turn in range(n)]
        read, outputs = list[list[str]](), list[list[str]]()
        async with bare_client() as client, self.connected(bool(cached)) as run:
            for timed in (Clock(), *(clock for _ in range(runs))):  # the first one warms up
                with timed.phase("client", shares=n * runs):
                    read.append([await bare_call(client, turn) for turn in range(n)])
                with timed.phase("call", shares=n * runs):
                    outputs.append(await run())
        assert read == [expected] * (runs + 1), "the server said something else"
        for each in outputs:
            assert len(each) == n, f"{len(each)} of {n} calls were answered"
            assert all(said in output for said, output in zip(expected, each, strict=True)), "other outputs"
        clock.metric("overhead_us", (clock.cpu["call"] - clock.cpu["client"]) / 1000)


def bare_client() -> Client:
    """The official client with a server of its own."""
    return Client(stdio_client(StdioServerParameters(**COMMAND)))


async def bare_call(client: Client, turn: int) -> str:
    """The text that the server answers to a turn's call."""
    [content] = (await client.call_tool(LOOKUP, arguments(turn))).content
    assert content.type == "text"
    return content.text
