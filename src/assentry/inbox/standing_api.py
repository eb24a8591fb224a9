"""The HTTP API's routes for standing grants: decisions that hold in all runs of an agent."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from ..approval.standing import GiveStandingGrant
from ..errors import DigestMismatch
from . import openapi as d
from .api import After, Here, Id, IfMatch, Limit, Reader, Somebody, Text, digest_in, exact, json_response
from .loops import OwnLoopRoute
from .model import StandingGrantPage, read_as

router = APIRouter(dependencies=[Depends(exact)], route_class=OwnLoopRoute)


@router.get("/api/standing-grants", responses=d.answers("StandingGrantPage", 400))
async def list_standing_grants(
    inbox: Here,
    who: Reader,
    agent: Text = None,
    tool: Text = None,
    revoked: bool = False,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """List the standing grants that were not revoked, or with `revoked` all of them, the oldest first.

    `agent` is an agent's place: its name, or with the way to it, such as `Office/research`.
    """
    page = await inbox.store.standing_grants(agent=agent, tool=tool, revoked=revoked, limit=limit, after=after)
    return json_response(StandingGrantPage(page.items, page.next, page.damaged))


@router.post(
    "/api/standing-grants",
    status_code=201,
    responses=d.answers("StandingGrant", 400, 404, 409, 412, 413, 415, 428, status=201, location=True),
    openapi_extra=d.body("GiveStandingGrant"),
)
async def give_standing_grant(request: Request, inbox: Here, who: Somebody, if_match: IfMatch = None) -> Response:
    """Let a decision hold for later calls like that of a question, in all runs of its agent, within these terms.

    The question itself is not decided by it. The same request within a minute gives one grant.
    """
    who.need("grant")
    who.need("decide")
    digest = digest_in(if_match)
    order: GiveStandingGrant = read_as(await request.body(), GiveStandingGrant)
    question = await inbox.store.question(order.question)
    if digest != question.digest:
        raise DigestMismatch(f"If-Match is not the digest of question {question.id}; look at it again.")
    grant = await inbox.store.give_standing_grant(
        question.id, by=who.decider(), terms=order.terms, verdict=order.verdict, message=order.message
    )
    where = f"{request.scope.get('root_path', '')}/api/standing-grants/{grant.id}"
    return json_response(grant, 201, Location=where)


@router.delete("/api/standing-grants/{id}", status_code=204, responses=d.answers(None, 404, 409, status=204))
async def revoke_standing_grant(inbox: Here, who: Somebody, id: Id) -> Response:
    """Revoke a standing grant. Later calls are judged without it. A grant that was revoked before stays so."""
    who.need("grant")
    await inbox.store.revoke_standing_grant(id, by=who.name)
    return Response(status_code=204)
