"""The ASGI app for fronts: reads and checks a request, asks the host application who sends it, and streams events."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from ag_ui.core import BaseEvent, RunAgentInput
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ...approval.decision import Decider, decider_from
from ...core.wording import described, holds
from ...definitions.agent import Agent
from ...definitions.hooks import RunHooks
from ...errors import InvalidDefinition, UsageError
from ...runtime.agent_graph import AgentGraph
from ...runtime.config import DEFAULT, RunConfig
from ...runtime.drive import check_settings
from ...store.store import Store
from .stream import serve_front
from .thread import ServedAgent

FrontUser = Callable[[Request], str | Decider | Awaitable[str | Decider | None] | None]
FrontContext = Callable[[Request], Any]
MAX_BYTES = 8 * 1024 * 1024
"""The most bytes of a request. A front sends its whole conversation each time."""
ALIVE_AFTER = 15.0
"""The seconds of silence after which a comment is sent, so that no proxy closes the connection."""

_works: set[asyncio.Task[None]] = set()
"""The requests at work, so that none is garbage-collected once its front has gone."""


def ag_ui_app(
    agent: Agent[Any],
    *,
    store: Store,
    user: FrontUser | None,
    user_decides: bool = False,
    context: FrontContext | None = None,
    run_config: RunConfig | None = None,
    hooks: RunHooks[Any] | None = None,
    max_turns: int | None = None,
    max_bytes: int = MAX_BYTES,
) -> Starlette:
    """Return an ASGI app that runs an agent for fronts which speak AG-UI: POST to its root.

    Args:
        agent: The agent.
        store: The store that keeps the threads and their runs.
        user: A function of the request that returns the name of the signed-in person, or a `Decider` with groups; None
            from it refuses the request. With `user=None` everybody with a thread's id shares the thread, and nobody
            decides here.
        user_decides: True if a person may decide on the calls of an agent that works for this very person. Else the
            person is recorded as the one who asked, and others decide in the inbox.
        context: A function of the request that returns the runs' context.
        run_config: Settings of the runs.
        hooks: Hooks of the runs.
        max_turns: The number of model calls that each run may make, 10 by default.
        max_bytes: The most bytes of a request.
    """
    if not isinstance(agent, Agent):
        raise UsageError(f"ag_ui_app takes an agent, got {described(agent)}.")
    check_settings(run_config, hooks, store)
    if run_config is not None and run_config.started_by is not None:
        raise UsageError("ag_ui_app sets started_by itself, from `user`; leave it out of run_config.")
    for placed in AgentGraph(agent).all_placed():
        if placed.agent.output_needs_approval is not False:
            raise InvalidDefinition(
                f"The output of {placed.agent.name!r} needs approval, and a front would show it before. Use an agent "
                "whose tool calls need approval instead."
            )
    served = ServedAgent(agent, store, run_config or DEFAULT, hooks, max_turns, user_decides)

    async def post(request: Request) -> Response:
        who = await _identify(request, user)
        given = await _read(request, max_bytes)
        made = context(request) if context is not None else None
        made = await made if inspect.isawaitable(made) else made
        events = _stream(served, given, who, made)
        return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return Starlette(routes=[Route("/", post, methods=["POST"])])


async def _identify(request: Request, user: FrontUser | None) -> Decider | None:
    """Return who sends a request; None if nobody is asked who it is."""
    if user is None:
        return None
    found = user(request)
    name = await found if inspect.isawaitable(found) else found
    if name is None:
        raise HTTPException(401, "Sign in first.")
    return decider_from(name)


async def _read(request: Request, most: int) -> RunAgentInput:
    """Return the request's input, or refuse it."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "Send JSON, with Content-Type: application/json.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise HTTPException(413, f"A request has at most {most:,} bytes.")
    try:
        given = RunAgentInput.model_validate_json(bytes(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"][:6])) or "the body"
        raise HTTPException(422, f"This is no RunAgentInput: {where}: {first['msg']}.") from None
    if not all(map(holds, (given.thread_id, given.run_id))) or not given.thread_id or not given.run_id:
        raise HTTPException(422, "threadId and runId are texts that are not empty.")
    return given


async def _stream(served: ServedAgent, given: RunAgentInput, who: Decider | None, made: Any) -> AsyncIterator[bytes]:
    """Begin the work of a request, and yield its events. The work goes on when nobody reads them any more."""
    queue: asyncio.Queue[BaseEvent | None] = asyncio.Queue()
    work = asyncio.create_task(serve_front(served, given, who, made, queue.put_nowait))
    _works.add(work)
    work.add_done_callback(_works.discard)
    work.add_done_callback(lambda _: queue.put_nowait(None))
    while True:
        try:
            async with asyncio.timeout(ALIVE_AFTER):
                event = await queue.get()
        except TimeoutError:
            yield b": the agent is at work\n\n"
            continue
        if event is None:
            return
        yield f"data: {event.model_dump_json(by_alias=True)}\n\n".encode()
