"""What the tests of the inbox's API share: people with tokens, an HTTP client, and a server on a port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi.routing import APIRoute
from starlette.requests import Request

import assentry.inbox
from assentry.inbox.identity import Identity
from assentry.store import MemoryStore, PostgresStore, SQLiteStore, Store
from tests.store.postgres import Server

__all__ = ["bearer", "client", "client_of", "live_store", "routes_of", "served"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def live_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store of each kind, on the real clock; the test closes it."""
    if request.param == "memory":
        return MemoryStore()
    if request.param == "sqlite":
        return SQLiteStore(tmp_path / "inbox.db")
    server: Server = request.getfixturevalue("postgres")
    return PostgresStore(server.database(), upgrade=True)


class Tokens:
    """An authentication for tests: the token `ann:reviewer:ops` is Ann, a reviewer in the group ops."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    async def identify(self, request: Request) -> Identity | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        name, _, rest = token.partition(":")
        role, _, groups = rest.partition(":")
        if kind != "Bearer" or not name or name in self.revoked:
            return None
        csrf = request.headers.get("test-cookie")
        return Identity(name, role, tuple(groups.split(",")) if groups else (), csrf)  # type: ignore[arg-type]


def bearer(name: str = "ann", role: str = "reviewer", *groups: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}:{role}:{','.join(groups)}"}


def client(store: Store, name: str = "ann", role: str = "reviewer", *groups: str, **options: Any) -> httpx.AsyncClient:
    app = assentry.inbox.app(store, Tokens(), **options)
    return client_of(app, name, role, *groups)


def client_of(app: Any, name: str = "ann", role: str = "reviewer", *groups: str, base: str = "") -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url=f"http://inbox{base}", headers=bearer(name, role, *groups))


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """Serve an application on a free port of this machine, and give its address."""
    config = uvicorn.Config(app, port=0, ws="none", log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    socket = config.bind_socket()
    task = asyncio.create_task(server._serve([socket]))
    try:
        while not server.started:
            await asyncio.sleep(0)
            if task.done():
                task.result()
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await task
        socket.close()


def routes_of(app: Any) -> list[APIRoute]:
    """All routes of an application, those of included routers too."""
    found: list[APIRoute] = []
    for each in app.routes:
        inner = getattr(each, "original_router", None)
        found += routes_of(inner) if inner is not None else [each] if isinstance(each, APIRoute) else []
    return found
