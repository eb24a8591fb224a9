"""The pages besides the questions: runs and their timelines, grants, and the audit trail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from msgspec.json import encode

from ..store.record import MOST, Entry
from ..store.store import Store
from .conversation import MOST_FACTS, PROPOSING, CallKey, definitions_of, timeline, unknown_calls
from .headline import order_in, sentence_of, with_order
from .identity import Identity
from .page_parts import PageContext
from .permissions import JournalView, grants_seen_by, listed_for
from .templating import HEADERS, render
from .wording import PAST, grant_words

PAGE = 50
ENTRIES = 500
"""The entries of a journal on one page of a timeline."""
EARLIER = 50
"""The entries before a page that are read too: calls on the page may have been proposed there."""
STATUSES = ("working", "waiting", "idle", "done", "exhausted", "cancelled", "closed")
TONES = {"waiting": "warn", "closed": "stop", "exhausted": "stop", "cancelled": "stop", "done": "ok", "working": "info"}


def add_run_pages(made: APIRouter, pages: PageContext) -> None:
    """Add the routes of these pages."""
    _add_runs(made, pages)
    _add_grants(made, pages)
    _add_audit(made, pages)


def _add_runs(made: APIRouter, pages: PageContext) -> None:
    @made.get("/runs")
    async def runs(request: Request) -> Response:
        who = await pages.who(request)
        given = _query(request, "agent", "status", "after")
        page = await pages.store.runs(**given, limit=PAGE, newest=True)
        more = f"?{urlencode({**given, 'after': page.next})}" if page.next else ""
        return render(
            request,
            "runs.html",
            who=who,
            runs=page.items,
            more=more,
            query=given,
            now=pages.now(),
            waiting=await pages.waiting(),
            section="runs",
            statuses=STATUSES,
            tones=TONES,
        )

    @made.get("/runs/{id}")
    async def run(request: Request, id: str) -> Response:
        who = await pages.who(request)
        everything = request.query_params.get("all") == "1"
        record = await pages.store.record(id)
        end = _number(request.query_params.get("to", ""), record.seq)
        start = max(0, end - ENTRIES)
        too_long = record.seq > MOST_FACTS
        shown, before = ([], []) if too_long else await _entries(JournalView(who, pages.store, record), start, end)
        moments = timeline(
            shown, everything=everything, before=before, orders=await _orders(pages.store, before + shown)
        )
        part = request.query_params.get("part") == "timeline"
        return render(
            request,
            "timeline.html" if part else "run.html",
            who=who,
            run=record,
            moments=moments,
            everything=everything,
            now=pages.now(),
            waiting="" if part else await pages.waiting(),
            section="runs",
            tones=TONES,
            hidden=len(shown) - len(moments),
            start=start,
            end=end,
            too_long=too_long,
            open={each.id for each in (await pages.store.questions(run=id, limit=MOST)).items},
        )


async def _entries(view: JournalView, start: int, end: int) -> tuple[list[Entry], list[Entry]]:
    """Return the entries of a page, and earlier ones that say what the calls on it are."""
    first = max(0, start - EARLIER)
    read = await view.part(first, end - first)
    shown, before = read[start - first :], read[: start - first]
    for call in sorted(unknown_calls(shown, before))[:EARLIER] if first else ():
        numbers = await view.find(f'"{call}"', *PROPOSING)
        before = [each for number in numbers[:1] for each in await view.part(number - 1, 1)] + before
    return shown, before


async def _orders(store: Store, entries: list[Entry]) -> dict[CallKey, tuple[str, ...]]:
    """Return the order of the arguments of calls whose arguments are shown."""
    marks = definitions_of(entries)
    orders = {mark: order_in(await store.definition(mark)) for mark in set(marks.values())}
    return {key: orders[mark] for key, mark in marks.items()}


def _add_grants(made: APIRouter, pages: PageContext) -> None:
    @made.get("/grants")
    async def grants(request: Request) -> Response:
        who = await pages.who(request)
        given = _query(request, "tool", "run", "after")
        revoked = request.query_params.get("all") == "1"
        page = await pages.store.grants(**given, revoked=revoked, limit=PAGE)
        more = f"?{urlencode({**given, 'after': page.next} | ({'all': '1'} if revoked else {}))}" if page.next else ""
        rows = [(grant, grant_words(grant)) for grant in await grants_seen_by(who, pages.store, page.items)]
        return render(
            request,
            "grants.html",
            who=who,
            grants=rows,
            more=more,
            revoked=revoked,
            now=pages.now(),
            waiting=await pages.waiting(),
            section="grants",
        )

    @made.post("/grants/{run}/{id}/revoke")
    async def revoke(request: Request, run: str, id: str) -> Response:
        who, _ = await pages.sent(request)
        who.need("grant")
        await pages.store.revoke(id, by=who.name, run=run)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/grants", 303)


def _add_audit(made: APIRouter, pages: PageContext) -> None:
    @made.get("/audit")
    async def audit(request: Request) -> Response:
        who = await pages.who(request)
        given = _query(request, "tool", "agent", "after")
        page = await pages.store.questions(**given, settled=True, limit=PAGE, newest=True)
        more = f"?{urlencode({**given, 'after': page.next})}" if page.next else ""
        newest = [listed_for(who, each) for each in await with_order(pages.store, page.items)]
        rows = [(each, sentence_of(each), PAST.get(each.verdict or "", "")) for each in newest]
        return render(
            request,
            "audit.html",
            who=who,
            rows=rows,
            more=more,
            now=pages.now(),
            waiting=await pages.waiting(),
            section="audit",
            query=given,
        )

    @made.get("/audit.jsonl")
    async def export(request: Request) -> Response:
        who = await pages.who(request)
        named = {"Content-Disposition": 'attachment; filename="decisions.jsonl"'}
        return StreamingResponse(_decisions(pages, who), media_type="application/jsonl", headers=HEADERS | named)


async def _decisions(pages: PageContext, who: Identity) -> AsyncIterator[bytes]:
    """Yield every decision as a line of JSON, the oldest decision first; secret arguments are masked."""
    after: str | None = None
    while True:
        page = await pages.store.questions(settled=True, limit=500, after=after)
        for each in page.items:
            yield encode(listed_for(who, each)) + b"\n"
        after = page.next
        if after is None:
            return


def _number(text: str, most: int) -> int:
    """Return a number of an address; `most` if it is none, or larger."""
    return min(int(text), most) if text.isascii() and text.isdecimal() and len(text) < 10 else most


def _query(request: Request, *names: str) -> dict[str, Any]:
    """Return the filters that a request gives."""
    given = request.query_params
    return {name: given[name].strip() for name in names if given.get(name, "").strip()}
