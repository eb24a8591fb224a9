"""The HTTP API's routes for programs outside: they ask about their calls, hear what was decided, and report.

The role "agent" asks and reports, and never decides. A program hears of its own asks only.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from msgspec.structs import replace

from ..approval.foreign_call import CallRequest
from ..approval.rule_file import RuleFile
from ..errors import TooManyAsks, UsageError
from ..store.call_status import CallStatus
from ..store.call_watch import wait_for_call
from ..store.calls import ask_about_call, finish_call, look_at_call, renew_call, run_of_key, start_call, take_call
from . import openapi as d
from .api import Here, Id, IdempotencyKey, Somebody, exact, json_response
from .loops import OwnLoopRoute
from .model import NO_NUL, FinishReport, RenewReport, StartReport, TakeReport, read_as, ref

MOST_WAIT = 60.0
"""The most seconds that a request waits for a decision: proxies and clients give up later requests."""
MOST_WAITING = 1000
"""The most requests of one caller that may wait at a time. One whose client is gone waits on to its end."""

router = APIRouter(dependencies=[Depends(exact)], route_class=OwnLoopRoute)
Wait = Annotated[
    float, Query(ge=0, le=MOST_WAIT, allow_inf_nan=False, description="The most seconds to wait for a decision.")
]
Name = Annotated[str, Query(min_length=1, max_length=200, pattern=NO_NUL)]


@router.post(
    "/api/asks",
    status_code=201,
    responses={
        **d.answers("CallStatus", 400, 409, 413, 415, 429, status=201, location=True),
        200: {
            "description": "The same was asked before.",
            "content": {"application/json": {"schema": ref("CallStatus")}},
        },
    },
    openapi_extra=d.body("CallRequest"),
)
async def ask(request: Request, inbox: Here, who: Somebody, idempotency_key: IdempotencyKey = None) -> Response:
    """Put a call of a program outside before the gate: a rule or a grant decides, or a person is asked.

    The same request with the same key, in the body or as `Idempotency-Key`, is one ask. The server's rules hold, and
    its grants; the request cannot bring its own.
    """
    who.need("ask")
    asked: CallRequest = read_as(await request.body(), CallRequest)
    if idempotency_key is not None:
        if asked.key not in (None, idempotency_key):
            raise UsageError("The key in the body and Idempotency-Key are not the same.")
        asked = replace(asked, key=idempotency_key)
    rules: RuleFile = request.app.state.rules
    status, new = await ask_about_call(inbox.store, asked, by=who.name, rules=rules, owner=who.name)
    where = f"{request.scope.get('root_path', '')}/api/asks/{status.id}"
    return json_response(status, 201 if new else 200, Location=where)


@router.get("/api/asks", responses=d.answers("CallStatus", 400, 404))
async def find_ask(inbox: Here, who: Somebody, source: Name, key: Name) -> Response:
    """Return what became of the ask with this key."""
    who.need("ask")
    return json_response(await look_at_call(inbox.store, run_of_key(who.name, source, key), by=who.name))


@router.get("/api/asks/{id}", responses=d.answers("CallStatus", 400, 404, 429))
async def get_ask(request: Request, inbox: Here, who: Somebody, id: Id, wait: Wait = 0) -> Response:
    """Return what became of an ask; with `wait`, once it is decided, or after so many seconds as it is then."""
    who.need("ask")

    async def look() -> CallStatus:
        return await look_at_call(inbox.store, id, by=who.name)

    waiting: Counter[str] = request.app.state.waiting
    if wait and waiting[who.name] >= MOST_WAITING:
        raise TooManyAsks(f"{MOST_WAITING:,} requests of {who.name} wait already. Ask again without `wait`, or later.")
    waiting[who.name] += 1
    try:
        return json_response(await wait_for_call(inbox.store, id, wait, look))
    finally:
        waiting[who.name] -= 1
        if not waiting[who.name]:
            del waiting[who.name]


@router.post(
    "/api/asks/{id}/start",
    responses=d.answers("CallStatus", 400, 404, 409, 412, 413, 415),
    openapi_extra=d.body("StartReport"),
)
async def start_ask(request: Request, inbox: Here, who: Somebody, id: Id) -> Response:
    """Report that the approved call is about to run. One program gets it; the same holder may ask again."""
    who.need("ask")
    report: StartReport = read_as(await request.body(), StartReport)
    return json_response(
        await start_call(
            inbox.store, id, by=who.name, holder=report.holder, arguments=report.arguments, hold=report.hold
        )
    )


@router.post(
    "/api/asks/{id}/renew",
    responses=d.answers("CallStatus", 400, 404, 409, 413, 415),
    openapi_extra=d.body("RenewReport"),
)
async def renew_ask(request: Request, inbox: Here, who: Somebody, id: Id) -> Response:
    """Report that the call still runs."""
    who.need("ask")
    report: RenewReport = read_as(await request.body(), RenewReport)
    return json_response(await renew_call(inbox.store, id, by=who.name, holder=report.holder, hold=report.hold))


@router.post(
    "/api/asks/{id}/finish",
    responses=d.answers("CallStatus", 400, 404, 409, 413, 415),
    openapi_extra=d.body("FinishReport"),
)
async def finish_ask(request: Request, inbox: Here, who: Somebody, id: Id) -> Response:
    """Report how the call ended. A report that comes too late is kept as evidence, and does not count."""
    who.need("ask")
    report: FinishReport = read_as(await request.body(), FinishReport)
    return json_response(
        await finish_call(
            inbox.store,
            id,
            by=who.name,
            holder=report.holder,
            output=report.output,
            error=report.error,
            taken=report.taken,
        )
    )


@router.post(
    "/api/asks/{id}/take",
    responses=d.answers("CallStatus", 400, 404, 409, 413, 415),
    openapi_extra=d.body("TakeReport"),
)
async def take_ask(request: Request, inbox: Here, who: Somebody, id: Id) -> Response:
    """Report that the outcome was taken: with `again`, the next equal request is a new ask then."""
    who.need("ask")
    read_as(await request.body(), TakeReport)
    return json_response(await take_call(inbox.store, id, by=who.name))
