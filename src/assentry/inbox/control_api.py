"""The HTTP API's routes that cancel and resume a run, and stop agents."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from ..store.rules import check_unfinished
from . import openapi as d
from .api import After, Here, Id, Limit, Reader, Somebody, exact, json_response
from .loops import OwnLoopRoute
from .model import CancelRun, LiftStop, ResumeRun, StopAgents, StopPage, read_as

router = APIRouter(dependencies=[Depends(exact)], route_class=OwnLoopRoute)


@router.post(
    "/api/runs/{id}/cancel",
    responses=d.answers("RunRecord", 400, 404, 409, 413, 415),
    openapi_extra=d.body("CancelRun"),
)
async def cancel_run(request: Request, inbox: Here, who: Somebody, id: Id) -> Response:
    """Cancel a run: nothing new begins in it until it is resumed. A run that is cancelled already stays so.

    A body that runs has some seconds to end; the outcome of one that does not is in doubt.
    """
    who.need("stop")
    order: CancelRun = read_as(await request.body(), CancelRun)
    check_unfinished(await inbox.store.record(id))
    await inbox.store.cancel(id, by=who.name, why=order.why)
    return json_response(await inbox.store.record(id))


@router.post(
    "/api/runs/{id}/resume",
    responses=d.answers("RunRecord", 400, 404, 409, 413, 415),
    openapi_extra=d.body("ResumeRun"),
)
async def resume_cancelled_run(request: Request, inbox: Here, who: Somebody, id: Id) -> Response:
    """Resume a cancelled run, which a worker then goes on with. A run that is not cancelled stays as it is."""
    who.need("stop")
    read_as(await request.body(), ResumeRun)
    check_unfinished(await inbox.store.record(id))
    await inbox.store.resume(id, by=who.name)
    return json_response(await inbox.store.record(id))


@router.get("/api/stops", responses=d.answers("StopPage", 400))
async def list_stops(
    inbox: Here, who: Reader, lifted: bool = False, limit: Limit = 50, after: After = None
) -> Response:
    """List the stops that hold, or with `lifted` all stops, the newest first."""
    page = await inbox.store.stops(lifted=lifted, limit=limit, after=after)
    return json_response(StopPage(page.items, page.next))


@router.post(
    "/api/stops",
    status_code=201,
    responses=d.answers("AgentStop", 400, 413, 415, status=201),
    openapi_extra=d.body("StopAgents"),
)
async def stop_agents(request: Request, inbox: Here, who: Somebody) -> Response:
    """Stop one agent, or with `"agent": null` all agents: no run of theirs is claimed, and no call of theirs begins.

    Bodies that run already go on to their end. The same user's same stop, while it holds, is no second one.
    """
    who.need("stop")
    order: StopAgents = read_as(await request.body(), StopAgents)
    return json_response(await inbox.store.stop(order.agent, by=who.name, why=order.why), 201)


@router.post(
    "/api/stops/{id}/lift",
    responses=d.answers("AgentStop", 400, 404, 413, 415),
    openapi_extra=d.body("LiftStop"),
)
async def lift_stop(request: Request, inbox: Here, who: Somebody, id: Id) -> Response:
    """Lift a stop. Its runs are due at once, unless another stop holds for them. A lifted stop stays as it is."""
    who.need("stop")
    read_as(await request.body(), LiftStop)
    return json_response(await inbox.store.lift(id, by=who.name))
