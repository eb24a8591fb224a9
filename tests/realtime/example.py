"""The live support desk of examples/realtime, served on this machine over the local realtime server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

from assentry.testing import RealtimeServer

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "realtime"
sys.path.insert(0, str(EXAMPLE))

import local_model  # noqa: E402
import server  # noqa: E402

Message = dict[str, Any]
NAME = "a-room-of-ones-own"


class Visitor:
    """A browser, as far as the server can see it."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.seen: list[Message] = []

    async def tell(self, type: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": type, **fields}))

    async def until(self, type: str, fits: Callable[[Message], bool] = lambda message: True) -> Message:
        """Return the next message of this type that fits."""
        async with asyncio.timeout(60):
            while True:
                message: Message = json.loads(await self.connection.recv())
                self.seen.append(message)
                if message["type"] == type and fits(message):
                    return message

    async def says(self, words: str) -> Message:
        """Wait until the agent has said this."""

        def fits(message: Message) -> bool:
            items = message.get("items") or [message.get("item") or {}]
            return any(words in (each.get("text") or "") and each.get("status") == "completed" for each in items)

        return await self.until("history_updated", fits)

    async def asked(self, words: str = "Please refund 89.90 on order 1042.") -> Message:
        """Send a message that leads to a question, and return the question."""
        await self.tell("text", text=words)
        return await self.until("tool_approval_required")

    async def decide(self, question: Message, approve: bool = True, **fields: Any) -> None:
        given = {"call_id": question["call_id"], "digest": question["digest"], "approve": approve}
        await self.tell("tool_approval_decision", **given, **fields)


class Desk:
    """The example's server and the local model behind it."""

    def __init__(self, address: str, model: RealtimeServer) -> None:
        self.address, self.model = address, model
        self.token = ""

    async def page(self, **options: Any) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60) as client:
            return await client.get(self.address, **options)

    def connect(self, name: str = NAME, **options: Any) -> connect:
        """Open a WebSocket as the page does."""
        given: Message = {"origin": self.address, "subprotocols": ["assentry.realtime", f"token.{self.token}"]}
        given["open_timeout"] = 60
        return connect(f"{self.address.replace('http', 'ws')}/ws/{name}", **{**given, **options})

    @contextlib.asynccontextmanager
    async def visitor(self, name: str = NAME) -> AsyncIterator[Visitor]:
        async with self.connect(name) as connection:
            yield Visitor(connection)


class Serving(server.Server):
    """The example's server, which tells when it has begun."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ready = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are for the main thread, where no server of a test is


@contextlib.asynccontextmanager
async def desk(store: Any = None, **options: Any) -> AsyncIterator[Desk]:
    """Serve the example."""
    options = {"responder": local_model.think, "transcripts": local_model.transcribe, **options}
    async with RealtimeServer(**options) as model:
        serving = Serving(server.make_app(server.sessions(model.url, None, store)), 0, False)
        task = asyncio.create_task(serving.serve())
        try:
            await serving.ready.wait()
            made = Desk(f"http://127.0.0.1:{serving.servers[0].sockets[0].getsockname()[1]}", model)
            found = re.search(r'name="token" content="([\w-]+)"', (await made.page()).text)
            assert found
            made.token = found[1]
            yield made
        finally:
            serving.should_exit = True
            await task
