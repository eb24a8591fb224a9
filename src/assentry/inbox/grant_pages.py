"""The page of grants: those over all runs of an agent, and those of single runs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from .grant_words import grant_words, standing_grant_words
from .identity import Identity
from .page_parts import PageContext
from .permissions import grants_seen_by
from .templating import render

PAGE = 50
SHOWN = ("standing", "run")
"""The kinds of grants that the page can be narrowed to."""


def add_grant_pages(made: APIRouter, pages: PageContext) -> None:
    """Add the routes of the page."""

    @made.get("/grants")
    async def grants(request: Request) -> Response:
        who = await pages.who(request)
        given = request.query_params
        query = {name: given[name].strip() for name in ("tool", "agent", "run") if given.get(name, "").strip()}
        show = given.get("show", "") if given.get("show", "") in SHOWN else "run" if "run" in query else ""
        revoked, after = given.get("all") == "1", given.get("after", "").strip() if show else ""
        link = query | ({"all": "1"} if revoked else {})
        context: dict[str, Any] = {"query": query, "show": show, "revoked": revoked, "now": pages.now()}
        context |= {"more": {}, "standing": [], "grants": [], "damaged": [], "section": "grants"}
        if show != "run":
            await _add_standing(pages, context, link, after)
        if show != "standing":
            await _add_of_runs(pages, who, context, link, after)
        context["narrow"] = {each: urlencode({**link, "show": each}) for each in SHOWN} | {"": urlencode(link)}
        shown = {"show": show} if show else {}
        context["others"] = urlencode({**query, **shown} if revoked else {**query, **shown, "all": "1"})
        return render(request, "grants.html", who=who, waiting=await pages.waiting(), **context)

    @made.post("/grants/all-runs/{id}/revoke")
    async def revoke_standing(request: Request, id: str) -> Response:
        who, _ = await pages.sent(request)
        who.need("grant")
        await pages.store.revoke_standing_grant(id, by=who.name)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/grants", 303)

    @made.post("/grants/{run}/{id}/revoke")
    async def revoke(request: Request, run: str, id: str) -> Response:
        who, _ = await pages.sent(request)
        who.need("grant")
        await pages.store.revoke(id, by=who.name, run=run)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/grants", 303)


async def _add_standing(pages: PageContext, context: dict[str, Any], link: dict[str, str], after: str) -> None:
    wanted = {name: context["query"][name] for name in ("tool", "agent") if name in context["query"]}
    page = await pages.store.standing_grants(
        **wanted, revoked=context["revoked"], limit=PAGE, after=after or None, newest=True
    )
    context["standing"] = [(grant, standing_grant_words(grant)) for grant in page.items]
    context["damaged"] = page.damaged
    if page.next:
        context["more"]["standing"] = urlencode({**link, "show": "standing", "after": page.next})


async def _add_of_runs(
    pages: PageContext, who: Identity, context: dict[str, Any], link: dict[str, str], after: str
) -> None:
    page = await pages.store.grants(**context["query"], revoked=context["revoked"], limit=PAGE, after=after or None)
    context["grants"] = [(grant, grant_words(grant)) for grant in await grants_seen_by(who, pages.store, page.items)]
    if page.next:
        context["more"]["run"] = urlencode({**link, "show": "run", "after": page.next})
