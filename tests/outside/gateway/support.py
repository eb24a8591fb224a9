"""A gateway as its users have it: the command, a client of the official SDK, a store and somebody who decides."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from assentry import Approve
from assentry.outside.gateway.gateway import GatewaySettings, open_gateway
from assentry.store import SQLiteStore
from assentry.store.record import Question

HERE = Path(__file__).parent
SERVERS = HERE.parent.parent / "mcp" / "servers"
TOOLS = (sys.executable, str(SERVERS / "tools.py"))
BENCH = (sys.executable, str(HERE / "servers" / "bench.py"))
LONG, SHORT = "120s", "0s"
"""The waits of a gateway whose client a person answers in time, and of one that says at once to call again."""


def raw(behaviour: str, file: Path) -> tuple[str, ...]:
    """The command of a server that behaves badly."""
    return (sys.executable, str(SERVERS / "raw.py"), behaviour, str(file))


class Desk:
    """A store, the rules of the gateways on it, and whoever decides."""

    def __init__(self, folder: Path, rules: str = "") -> None:
        self.folder = folder
        self.store = SQLiteStore(folder / "runs.db")
        self.rules = folder / "rules.toml"
        self.rules.write_text(rules)

    def command(self, server: Sequence[str], *options: str, wait: str = LONG) -> list[str]:
        """The command of a gateway in front of a server."""
        place = ["--store", str(self.folder / "runs.db"), "--rules", str(self.rules)]
        return ["-m", "assentry.cli", "gateway", *place, "--wait", wait, *options, "--", *server]

    @asynccontextmanager
    async def client(
        self, server: Sequence[str] = TOOLS, *, wait: float = 120.0, mode: str = "auto", **settings: Any
    ) -> AsyncIterator[Client]:
        """A client of a gateway in this process."""
        place = {"place": self.store, "rules": str(self.rules)}
        given = GatewaySettings(**{"source": "mcp", "command": tuple(server), "wait": wait, **place, **settings})
        async with open_gateway(given) as gateway, Client(await gateway.build(), mode=mode) as client:
            yield client

    @asynccontextmanager
    async def process(
        self, server: Sequence[str] = TOOLS, *options: str, wait: str = LONG, mode: str = "auto", **more: Any
    ) -> AsyncIterator[Client]:
        """A client of a gateway that is a process of its own, as a user starts it."""
        command = self.command(server, *options, wait=wait)
        params = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
        async with Client(stdio_client(params), mode=mode, **more) as client:
            yield client

    async def open(self) -> list[Question]:
        return (await self.store.questions()).items

    async def question(self, number: int = 1) -> Question:
        """The newest open question, once there are so many."""
        async with asyncio.timeout(60):
            while len(found := await self.open()) < number:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return found[-1]

    async def decide(self, decision: Any = None, number: int = 1) -> Question:
        """Decide the newest question, once there are so many."""
        asked = await self.question(number)
        given = decision if decision is not None else Approve()
        return await self.store.decide(asked.id, given, by="ann", digest=asked.digest)

    async def runs(self) -> list[Any]:
        return (await self.store.runs()).items


def text(result: Any) -> str:
    """The text of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def state(result: Any) -> str | None:
    """The state that the gateway says a call is in; None for the server's own result."""
    found: str | None = (result.meta or {}).get("assentry/state")
    return found


@asynccontextmanager
async def direct(server: Sequence[str] = TOOLS, mode: str = "auto", **more: Any) -> AsyncIterator[Client]:
    """A client of the server itself."""
    params = StdioServerParameters(command=server[0], args=list(server[1:]))
    async with Client(stdio_client(params), mode=mode, **more) as client:
        yield client


async def until(file: Path, line: str) -> None:
    """Wait until a server has written a line."""
    async with asyncio.timeout(60):
        while not file.exists() or line not in file.read_text().splitlines():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)


def written(file: Path) -> list[str]:
    """The lines that a server has written, but for its process ids."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [line for line in lines if not line.startswith("pid ")]
