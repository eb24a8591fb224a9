"""Connections of the served inbox, on real sockets: slow clients, and headers that only a proxy may write."""

from __future__ import annotations

import asyncio
import socket
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from assentry.cli.command import parser
from assentry.cli.serve import _server
from assentry.inbox import connection
from assentry.inbox.connection import TimedConnection

WAIT = 60


class Slow:
    """An application whose answer waits for the test."""

    def __init__(self) -> None:
        self.begun, self.gate = asyncio.Event(), asyncio.Event()

    async def answer(self, request: Request) -> JSONResponse:
        body = await request.body()
        if request.url.path == "/slow":
            self.begun.set()
            await self.gate.wait()
        client = request.client
        return JSONResponse({"body": body.decode(), "client": client.host if client else "", "at": request.url.scheme})

    def app(self) -> Any:
        return Starlette(routes=[Route("/{path:path}", self.answer, methods=["GET", "POST"])])


@asynccontextmanager
async def running(server: uvicorn.Server) -> AsyncIterator[int]:
    """Serve on a free port, and give the port."""
    place = socket.create_server(("127.0.0.1", 0))
    task = asyncio.create_task(server._serve([place]))
    try:
        while not server.started:
            await asyncio.sleep(0)
            if task.done():
                task.result()
        yield place.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await task
        place.close()


def timed(app: Any) -> uvicorn.Server:
    config = uvicorn.Config(app, ws="none", log_level="error", lifespan="off", http=TimedConnection)
    return uvicorn.Server(config)


async def ended(port: int, sent: bytes) -> bytes:
    """Send something, wait until the server closes the connection, and return what it said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        return await asyncio.wait_for(reader.read(), WAIT)
    finally:
        writer.close()


HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
HALF_A_BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HALF_A_HEAD, HALF_A_BODY], ids=["none", "line", "head", "body"])
async def test_a_client_that_does_not_finish_its_request_is_disconnected(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "HEAD", 0.05)
    monkeypatch.setattr(connection, "BODY", 0.05)
    async with running(timed(Slow().app())) as port:
        assert b"200 OK" not in await ended(port, sent)


async def test_a_client_that_sends_a_head_byte_by_byte_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD", 0.05)
    async with running(timed(Slow().app())) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        closed = asyncio.ensure_future(reader.read())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ")
        async with asyncio.timeout(WAIT):
            while not closed.done():
                writer.write(b"x")
                await asyncio.wait([closed], timeout=0.005)
        writer.close()


async def test_no_time_limit_runs_while_a_request_is_answered() -> None:
    slow = Slow()
    server = timed(slow.app())
    async with running(server) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(slow.begun.wait(), WAIT)
        [one] = server.server_state.connections
        assert isinstance(one, TimedConnection) and one._timer is None
        slow.gate.set()
        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT)
        assert one._timer is not None  # for the next head
        writer.close()


async def test_requests_on_one_connection_are_answered_one_after_the_other() -> None:
    async with running(timed(Slow().app())) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        for n in range(3):
            assert (await http.post("/", content=f"{n}" * 200_000)).json()["body"] == f"{n}" * 200_000


def served(*options: str) -> uvicorn.Server:
    """The server of `assentry serve` with these options, for another application."""
    given: Namespace = parser().parse_args(["serve", "--store", "runs.db", *options])
    server: uvicorn.Server = _server(Slow().app(), given)
    server.config.lifespan = "off"
    return server


@pytest.mark.parametrize(
    ("options", "client", "scheme"),
    [
        ((), "127.0.0.1", "http"),
        (("--behind-proxy", "10.0.0.0/8"), "127.0.0.1", "http"),
        (("--behind-proxy", "127.0.0.1"), "203.0.113.7", "https"),
        (("--behind-proxy", "10.1.1.1", "--behind-proxy", "127.0.0.0/8"), "203.0.113.7", "https"),
    ],
)
async def test_forwarded_headers_count_only_from_a_declared_proxy(
    options: tuple[str, ...], client: str, scheme: str
) -> None:
    async with running(served(*options)) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        headers = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}
        told = (await http.get("/", headers=headers)).json()
        assert (told["client"], told["at"]) == (client, scheme)


def test_a_proxy_is_an_address_or_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["serve", "--store", "runs.db", "--behind-proxy", "proxy.example.com"])
    assert "is no IP address" in capsys.readouterr().err
