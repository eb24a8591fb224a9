"""Servers for the tests of MCP: as child processes on standard streams, or behind a port of this machine."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from assentry import Agent, RunHooks
from assentry.mcp import MCPServer, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from assentry.testing import ScriptedModel, call

SERVERS = Path(__file__).parent / "servers"
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def script(script: str, *args: Any, **options: Any) -> MCPServerStdio:
    """A server that is one of the scripts here."""
    params = {"command": sys.executable, "args": [str(SERVERS / f"{script}.py"), *map(str, args)]}
    return MCPServerStdio(params, **{"name": script, **options})


def raw(behaviour: str, file: Path | None = None, **options: Any) -> MCPServerStdio:
    """A server without the SDK, which behaves badly."""
    return script("raw", behaviour, *([file] if file is not None else []), **options)


def agent_of(server: MCPServer, *said: Any) -> Agent:
    return Agent(name="Agent", mcp_servers=[server], model=ScriptedModel([*said, "Done."]))


def act(what: str = "it") -> Any:
    return call("act", {"what": what})


def output(result: Any, number: int = 0) -> Any:
    """The output of a run's tool call."""
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"][number]


def lines(file: Path) -> list[str]:
    """What a server has written, but for its process ids."""
    return [line for line in written(file) if not line.startswith("pid ")]


def written(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


class Impatient(RunHooks[Any]):
    """Gives a server a second for a call, and all the time that it needs for what comes before."""

    def __init__(self, server: MCPServer) -> None:
        self._server = server

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self._server.call_timeout = 1


async def until(file: Path, line: str) -> None:
    """Wait until a server has written a line."""
    async with asyncio.timeout(60):
        while line not in lines(file):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


PORTS = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """Return a port that nobody uses: below those that the system deals out, and no two alike."""
    for number in PORTS:
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port := 20_000 + number % 12_000))
            return port
    raise AssertionError


@asynccontextmanager
async def served(kind: str, port: int | None = None) -> AsyncIterator[tuple[int, asyncio.subprocess.Process]]:
    """Run the server of tools behind a port, and wait until it answers."""
    port = port or free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, str(SERVERS / "tools.py"), kind, str(port))
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None, "the server did not start"
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                await writer.wait_closed()
                break
        yield port, process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def over(kind: str, port: int, **options: Any) -> MCPServer:
    """The server behind a port."""
    if kind == "sse":
        return MCPServerSse({"url": f"http://127.0.0.1:{port}/sse"}, **{"name": "tools", **options})
    return MCPServerStreamableHttp({"url": f"http://127.0.0.1:{port}/mcp"}, **{"name": "tools", **options})
