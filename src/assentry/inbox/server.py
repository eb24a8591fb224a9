"""The inbox as one ASGI application: the guard around everything, the API, and the pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ..core.wording import described
from ..errors import AssentryError, UsageError
from ..store.store import Store
from ..version import __version__
from . import api, question_pages
from .auth import Auth
from .dispatch import dispatching
from .failure import respond_to_error
from .feed import Feeds
from .guard import Remembered, RequestGuard
from .loops import Loops
from .metrics import KeptHealth, KeptTally, Metrics
from .openapi import answers, description
from .streams import Streams


def make_app(store: Store, auth: Any, title: str, agents: Collection[str] | None) -> FastAPI:
    """Return the application; see `assentry.inbox.app`."""
    if not isinstance(store, Store):
        raise UsageError(f"The first argument is the store, such as SQLiteStore(path), got {described(store)}.")
    if isinstance(agents, str):
        raise UsageError(f"agents are a list of names, got {described(agents)}.")
    guard: Any = Auth(store) if auth is None else auth
    if not callable(getattr(guard, "identify", None)):
        raise UsageError(f"auth must have a method identify(request), got {described(auth)}.")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with dispatching(store):
            yield

    made = FastAPI(
        lifespan=lifespan,
        title=title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # the guard does it, without the Host header
    )
    metrics = Metrics()
    made.state.inbox = api.Inbox(
        store, guard, Feeds(store, metrics), metrics, KeptTally(store), KeptHealth(store), Streams(), agents
    )
    made.state.loops = Loops()
    made.state.described = {}
    for kind in (AssentryError, HTTPException, RequestValidationError):
        made.add_exception_handler(kind, respond_to_error)
    made.add_middleware(RequestGuard, auth=guard, metrics=metrics)
    made.include_router(api.router)
    made.include_router(api.quick_router)
    if callable(getattr(guard, "router", None)):
        made.include_router(guard.router())
    made.include_router(question_pages.router(store, Remembered()))
    made.add_api_route("/openapi.json", describe, responses=answers(None), include_in_schema=False)
    return made


async def describe(request: Request) -> Response:
    """Describe the API."""
    made: dict[str, bytes] = request.app.state.described
    root = request.scope.get("root_path", "")
    if root not in made:
        made.clear()  # one prefix is enough to remember
        made[root] = msgspec.json.encode(description(request.app, root))
    return Response(made[root], media_type="application/json")
