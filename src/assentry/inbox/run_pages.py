"""The pages besides the questions: runs and their timelines, and grants."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from ..store.record import MOST, Entry, RunRecord
from ..store.store import Store
from .conversation import MOST_FACTS, PROPOSING, CallKey, definitions_of, timeline, unknown_calls
from .grant_pages import add_grant_pages
from .headline import order_in
from .identity import Identity
from .page_parts import PageContext
from .permissions import JournalView
from .run_summary import RunWords, cost_of, standing_of, words_of, words_of_runs
from .templating import render
from .wording import status_word

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
    add_grant_pages(made, pages)


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
            words=await words_of_runs(who, pages.store, page.items),
            status_word=status_word,
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
        record = await pages.store.record(id)
        part = request.query_params.get("part")
        if part in ("status", "standing"):
            return await _summary_part(pages, request, who, record, f"{part}.html")
        everything = request.query_params.get("all") == "1"
        view = JournalView(who, pages.store, record)
        end = _number(request.query_params.get("to", ""), record.seq)
        start = max(0, end - ENTRIES)
        too_long = record.seq > MOST_FACTS
        shown, before = ([], []) if too_long else await _entries(view, start, end)
        moments = timeline(
            shown, everything=everything, before=before, orders=await _orders(pages.store, before + shown)
        )
        summary = {} if part == "timeline" else await _summary(pages, who, record, view)
        return render(
            request,
            "timeline.html" if part == "timeline" else "run.html",
            who=who,
            run=record,
            moments=moments,
            everything=everything,
            now=pages.now(),
            waiting="" if part == "timeline" else await pages.waiting(),
            section="runs",
            tones=TONES,
            hidden=len(shown) - len(moments),
            start=start,
            end=end,
            too_long=too_long,
            open={each.id for each in (await pages.store.questions(run=id, limit=MOST)).items},
            **summary,
        )


async def _summary(pages: PageContext, who: Identity, record: RunRecord, view: JournalView) -> dict[str, Any]:
    """Return the context of a run's headline, of where it stands, and of what it cost."""
    return {
        "words": RunWords() if record.erased is not None or record.seq > MOST_FACTS else await words_of(view),
        "standing": await standing_of(who, pages.store, record, view),
        "cost": await cost_of(pages.store, record, pages.now()),
        "status_words": status_word(record.status),
    }


async def _summary_part(
    pages: PageContext, request: Request, who: Identity, record: RunRecord, template: str
) -> Response:
    """Return the part of a run's page that says where it stands."""
    if template == "status.html":
        return render(request, template, status_words=status_word(record.status))
    view = JournalView(who, pages.store, record)
    context = await _summary(pages, who, record, view)
    return render(request, template, who=who, run=record, now=pages.now(), **context)


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


def _number(text: str, most: int) -> int:
    """Return a number of an address; `most` if it is none, or larger."""
    return min(int(text), most) if text.isascii() and text.isdecimal() and len(text) < 10 else most


def _query(request: Request, *names: str) -> dict[str, Any]:
    """Return the filters that a request gives."""
    given = request.query_params
    return {name: given[name].strip() for name in names if given.get(name, "").strip()}
