"""The inbox as one ASGI application: the guard around everything, the API, and the pages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from os import PathLike
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ..approval.rule_file import RuleFile
from ..core.number import is_seconds
from ..core.wording import described
from ..errors import AssentryError, UsageError
from ..store.call_tending import keep_tending
from ..store.damage import damage_of
from ..store.store import Store
from ..version import __version__
from . import api, ask_api, control_api, ids_api, many_api, office_pages, question_pages, standing_api
from .auth import Auth
from .csrf import origin_of
from .dispatch import dispatching, has_outbox
from .failure import respond_to_error
from .feed import Feeds
from .figures import figures_router
from .guard import Remembered, RequestGuard
from .loops import Loops
from .metrics import KeptHealth, KeptTally, Metrics
from .openapi import answers, description
from .statistics import KeptStatistics
from .streams import Streams
from .templating import Office
from .webhooks import check_base_url

MOST_UNDO = 60
"""The most seconds for which a page holds a decision back."""


def make_app(
    store: Store,
    auth: Any,
    title: str,
    agents: Collection[str] | None,
    base_url: str | None = None,
    undo: float = 5.0,
    rules: RuleFile | str | PathLike[str] | None = None,
) -> FastAPI:
    """Return the application; see `assentry.inbox.app`."""
    if not isinstance(store, Store):
        raise UsageError(f"The first argument is the store, such as SQLiteStore(path), got {described(store)}.")
    if isinstance(agents, str):
        raise UsageError(f"agents are a list of names, got {described(agents)}.")
    if not is_seconds(undo) or undo > MOST_UNDO:
        raise UsageError(f"undo is a number of seconds from 0 to {MOST_UNDO}, got {described(undo)}.")
    address = None if base_url is None else check_base_url(base_url)
    guard: Any = Auth(store, origins=[] if address is None else [origin_of(address)]) if auth is None else auth
    if not callable(getattr(guard, "identify", None)):
        raise UsageError(f"auth must have a method identify(request), got {described(auth)}.")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with dispatching(store, base_url=address), tending(store):
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
    metrics = Metrics(damage_of(store))
    made.state.inbox = api.Inbox(
        store, guard, Feeds(store, metrics), metrics, KeptTally(store), KeptHealth(store), Streams(), agents
    )
    made.state.statistics = KeptStatistics(store)
    made.state.undo = undo
    made.state.rules = rules if isinstance(rules, RuleFile) else RuleFile() if rules is None else RuleFile.read(rules)
    made.state.waiting = Counter()
    made.state.loops = Loops()
    made.state.described = {}
    for kind in (AssentryError, HTTPException, RequestValidationError):
        made.add_exception_handler(kind, respond_to_error)
    made.add_middleware(RequestGuard, auth=guard, metrics=metrics)
    made.include_router(api.router)
    made.include_router(api.quick_router)
    made.include_router(figures_router)
    made.include_router(ids_api.router)
    made.include_router(many_api.router)
    made.include_router(standing_api.router)
    made.include_router(control_api.router)
    made.include_router(ask_api.router)
    if callable(getattr(guard, "router", None)):
        made.include_router(guard.router())
    users = guard if isinstance(guard, Auth) else None
    made.state.office = Office(users is not None, has_outbox(store), damage_of(store))
    made.include_router(office_pages.office_routes(store, Remembered(), users, address))  # has /questions/new
    made.include_router(question_pages.router(store, Remembered()))
    made.add_api_route("/openapi.json", describe, responses=answers(None), include_in_schema=False)
    return made


@asynccontextmanager
async def tending(store: Store) -> AsyncIterator[None]:
    """Look after the calls of programs outside during an `async with` block."""
    task = asyncio.create_task(keep_tending(store))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def describe(request: Request) -> Response:
    """Describe the API."""
    made: dict[str, bytes] = request.app.state.described
    root = request.scope.get("root_path", "")
    if root not in made:
        made.clear()  # one prefix is enough to remember
        made[root] = msgspec.json.encode(description(request.app, root))
    return Response(made[root], media_type="application/json")
