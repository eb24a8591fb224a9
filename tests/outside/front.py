"""Fronts for tests, which speak AG-UI: one of httpx, and AG-UI's own client under Node, in two versions.

The client is installed by `python -m tests.mcp.peers`. Where it is missing its tests are skipped; in CI they fail.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.inbox.support import served
from tests.mcp.peers import HOME

CLIENTS = ["ag-ui-client-1", "ag-ui-client-0"]
PROGRAM = Path(__file__).with_name("front.mjs")
_numbers = itertools.count(1)


@dataclass
class Shown:
    """The events of one request that a front has seen, and the messages that it shows after it."""

    events: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    pending: list[dict[str, Any]]
    error: str | None = None

    @property
    def kinds(self) -> list[str]:
        """The types of the events, runs of text and snapshots once."""
        return [kind for kind, _ in itertools.groupby(event["type"] for event in self.events)]

    @property
    def failure(self) -> str:
        """The code and the words of the RUN_ERROR."""
        [error] = [event for event in self.events if event["type"] == "RUN_ERROR"]
        return f"{error['code']}: {error['message']}"

    @property
    def talk(self) -> list[tuple[str, str]]:
        """The messages that are shown, as roles and texts."""
        return [(each["role"], each.get("content") or "") for each in self.messages]

    @property
    def outcome(self) -> str:
        """The outcome of the run."""
        return str(self.events[-1]["outcome"]["type"]) if self.events[-1]["type"] == "RUN_FINISHED" else "error"


class Front:
    """A front with one thread."""

    async def run(self, say: str | None = None, **more: Any) -> Shown:
        id = more.pop("id", None) or f"m{next(_numbers)}"
        return await self.send({"say": say, "id": id, **more})

    async def answer(self, **payload: Any) -> Shown:
        """Answer the only open interrupt, as AG-UI's client does."""
        [open] = self.pending
        return await self.run(resume=[{"interruptId": open["id"], "status": "resolved", "payload": payload}])

    pending: list[dict[str, Any]]

    async def send(self, command: dict[str, Any]) -> Shown:
        raise NotImplementedError


@dataclass
class PlainFront(Front):
    """A front that keeps no more than the protocol asks for."""

    url: str
    thread: str
    token: str | None
    messages: list[dict[str, Any]] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, command: dict[str, Any]) -> Shown:
        if command["say"] is not None:
            self.messages.append({"id": command["id"], "role": "user", "content": command["say"]})
        body: dict[str, Any] = {"threadId": self.thread, "runId": f"r{next(_numbers)}", "messages": self.messages}
        body["protocolVersion"] = "1.0"
        if command.get("resume") is not None:
            body["resume"] = command["resume"]
        events: list[dict[str, Any]] = []
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with (
            httpx.AsyncClient(timeout=100) as http,
            http.stream("POST", self.url, json=body, headers=headers) as response,
        ):
            if response.status_code != 200:
                return Shown([], self.messages, self.pending, f"HTTP {response.status_code}")
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line[6:]))
                    if events[-1]["type"] == command.get("cutAt"):
                        return Shown(events, self.messages, self.pending)
        for event in events:
            if event["type"] == "MESSAGES_SNAPSHOT":
                self.messages = event["messages"]
            elif event["type"] == "RUN_FINISHED":
                self.pending = event["outcome"].get("interrupts", [])
        return Shown(events, self.messages, self.pending)


@dataclass
class NodeFront(Front):
    """AG-UI's own client in a process of Node's."""

    process: asyncio.subprocess.Process
    pending: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, command: dict[str, Any]) -> Shown:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        line = await self.process.stdout.readline()
        shown = Shown(**json.loads(line))
        self.pending = shown.pending
        return shown


class Fronts:
    """A served app, and fronts for it."""

    def __init__(self, client: str, url: str, stack: AsyncExitStack) -> None:
        self._client, self.url, self._stack = client, url, stack

    async def open(self, thread: str = "t1", token: str | None = "ann") -> Front:
        """Open a front as this person, with nothing in it yet."""
        if self._client == "plain":
            return PlainFront(self.url, thread, token)
        node = shutil.which("node") or "node"
        folder = HOME / "node"
        process = await asyncio.create_subprocess_exec(
            *(node, str(PROGRAM), str(folder), self._client, self.url, thread, token or ""),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )
        self._stack.push_async_callback(self._close, process)
        return NodeFront(process)

    async def _close(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def check_client(client: str) -> None:
    """Skip the test if a client is not installed; fail in CI."""
    if client != "plain" and not (HOME / "node" / "node_modules" / client).exists():
        words = f"AG-UI's client {client} is not installed: make peers"
        if os.environ.get("CI"):
            raise AssertionError(words)
        pytest.skip(words)


@asynccontextmanager
async def fronts_of(client: str, app: Any) -> AsyncIterator[Fronts]:
    """Serve an app for fronts of this kind."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(app))
        yield Fronts(client, f"{url}/", stack)
