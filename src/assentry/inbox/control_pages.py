"""The pages that stop agents and let them go on, and the forms that cancel and resume a run."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from ..errors import AssentryError, UsageError
from ..store.record import MOST
from ..store.rules import check_unfinished
from .identity import Identity
from .language import translate
from .page_parts import MOST_TOLD, PageContext
from .templating import render

PAGE = 50


def add_control_pages(made: APIRouter, pages: PageContext) -> None:
    """Add the routes of these pages."""

    @made.get("/stops")
    async def stops(request: Request) -> Response:
        who = await pages.who(request)
        if request.query_params.get("part") == "banner":
            return render(request, "stopped.html", who=who, stops=(await pages.store.stops(limit=MOST_TOLD)).items)
        return await _stops_page(pages, request, who)

    @made.post("/stops")
    async def stop(request: Request) -> Response:
        who, sent = await pages.sent(request)
        who.need("stop")
        try:
            await pages.store.stop(_agent_in(sent, await _known(pages)), by=who.name, why=sent.get("why", ""))
        except UsageError as error:
            return await _stops_page(pages, request, who, error, sent)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/stops", 303)

    @made.post("/stops/{id}/lift")
    async def lift(request: Request, id: str) -> Response:
        who, _ = await pages.sent(request)
        who.need("stop")
        await pages.store.lift(id, by=who.name)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/stops", 303)

    @made.post("/runs/{id}/cancel")
    async def cancel(request: Request, id: str) -> Response:
        who, sent = await pages.sent(request)
        who.need("stop")
        check_unfinished(await pages.store.record(id))
        await pages.store.cancel(id, by=who.name, why=sent.get("why", "").strip() or None)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/runs/{quote(id, safe='')}", 303)

    @made.post("/runs/{id}/resume")
    async def resume(request: Request, id: str) -> Response:
        who, _ = await pages.sent(request)
        who.need("stop")
        check_unfinished(await pages.store.record(id))
        await pages.store.resume(id, by=who.name)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/runs/{quote(id, safe='')}", 303)


async def _known(pages: PageContext) -> list[str]:
    """Return the names of the agents that workers have announced."""
    return [each.name for each in await pages.store.agents()]


def _agent_in(sent: dict[str, str], known: Collection[str]) -> str | None:
    """Return the agent that a form stops, None for all; raise `UsageError` unless the form says which."""
    what, given = sent.get("what"), sent.get("agent", "")
    agent = given if given in known else given.strip()
    if what == "all" and not agent:
        return None
    if what == "agent" and agent:
        return agent
    if what == "all":
        raise UsageError(translate("Choose one agent or all agents: you have named one, and chosen all."))
    raise UsageError(translate("Name the agent to stop, or choose all agents."))


async def _stops_page(
    pages: PageContext,
    request: Request,
    who: Identity,
    problem: AssentryError | None = None,
    sent: dict[str, str] | None = None,
) -> Response:
    """Return the page of stops; with a problem, the form as it was sent."""
    after = request.query_params.get("after", "").strip() or None
    page = await pages.store.stops(lifted=True, limit=PAGE, after=after)
    return render(
        request,
        "stops.html",
        status=200 if problem is None else problem.status,
        who=who,
        holding=(await pages.store.stops(limit=MOST)).items if after is None else (),
        lifted=[each for each in page.items if each.lifted is not None],
        more=f"?{urlencode({'after': page.next})}" if page.next else "",
        agents=await _known(pages),
        problem=str(problem) if problem is not None else "",
        sent=sent or {"agent": request.query_params.get("agent", "")},
        now=pages.now(),
        waiting=await pages.waiting(),
        section="runs",
    )
