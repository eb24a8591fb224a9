"""The page of the audit: decisions by person, tool, verdict and day, with their reasons, and their export."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from msgspec import Struct

from ..core.wording import shortened
from ..store.filter import LONGEST_SEARCH
from ..store.moment import read_moment
from .decisions import RecordedDecision, with_reasons
from .difference import ChangedLine
from .figures import exported
from .headline import order_of
from .language import translate
from .page_parts import PageContext
from .templating import HEADERS, render
from .wording import compare_texts, headline_of, verdict_words

PAGE = 50
FIELDS = ("q", "by", "tool", "agent", "verdict", "since", "until")
"""The filters of the page, as they are in its address."""
DAY = 86_400_000
LONGEST_REASON = 600
"""The most characters of a reason on the page; the question's own page has all."""


class AuditRow(Struct):
    """A decision on the page of the audit."""

    decision: RecordedDecision
    sentence: str
    past: str
    author: str
    """Whoever decided, in words, if it is no person."""
    reason: str
    answer: str
    changes: list[ChangedLine]
    """The changes that an edit made to the arguments."""
    looked: str
    """The time that the decider had the question open, in words."""


def add_audit_pages(made: APIRouter, pages: PageContext) -> None:
    """Add the routes of the audit."""

    @made.get("/audit")
    async def audit(request: Request) -> Response:
        who = await pages.who(request)
        query = query_of(request)
        filters, problem = filters_of(query)
        rows, further, left_out = [], "", 0
        if not problem:
            after = request.query_params.get("after", "").strip() or None
            page = await pages.store.questions(**filters, settled=True, limit=PAGE, newest=True, after=after)
            rows = [audit_row(each) for each in await with_reasons(pages.store, page.items)]
            further = f"?{urlencode({**query, 'after': page.next})}" if page.next else ""
            left_out = len(page.damaged)
        return render(
            request,
            "audit.html",
            status=400 if problem else 200,
            who=who,
            rows=rows,
            more=further,
            left_out=left_out,
            problem=problem,
            now=pages.now(),
            waiting=await pages.waiting(),
            section="audit",
            query=query,
            chosen=f"?{urlencode(query)}" if query else "",
            verdicts=list(verdict_words().items()),
        )

    @made.get("/audit.{form}")
    async def export(request: Request, form: str) -> Response:
        await pages.who(request)
        filters, problem = filters_of(query_of(request))
        if form not in ("csv", "jsonl"):
            return render(request, "problem.html", status=404, code=404, heading=translate("There is nothing here"))
        if problem:
            return render(request, "problem.html", status=400, code=400, heading=translate("This cannot be done"),
                          message=problem)  # fmt: skip
        return exported(pages.store, form, filters, HEADERS)


def query_of(request: Request) -> dict[str, str]:
    """Return the filters in an address."""
    given = request.query_params
    return {name: given[name].strip() for name in FIELDS if given.get(name, "").strip()}


def filters_of(query: dict[str, str]) -> tuple[dict[str, Any], str]:
    """Return the filters for the store, and a sentence about one that makes no sense; empty if all do."""
    made: dict[str, Any] = {name: query[name] for name in ("by", "tool", "agent") if name in query}
    if len(query.get("q", "")) > LONGEST_SEARCH:
        return {}, translate("Search for at most {n} characters.", n=LONGEST_SEARCH)
    made["search"] = query.get("q")
    if query.get("verdict", "approve") not in verdict_words():
        return {}, translate("There is no such decision as “{name}”.", name=shortened(query["verdict"], 40))
    made["verdict"] = query.get("verdict")
    for name, field, more in (("since", "decided_after", 0), ("until", "decided_before", DAY)):
        if name in query:
            try:
                at = read_moment(query[name])
            except ValueError:
                return {}, translate("“{day}” is no day. Write a day as 2026-11-18.", day=shortened(query[name], 40))
            made[field] = at + (more if "T" not in query[name] else 0)  # the last day counts as a whole
    if made.get("decided_after", 0) >= made.get("decided_before", 2**62):
        return {}, translate("The first day comes after the last.")
    return made, ""


def audit_row(decision: RecordedDecision) -> AuditRow:
    """Return a decision as the page shows it."""
    changes = compare_texts(decision.arguments, decision.ran, order_of(decision)) if decision.ran is not None else []
    return AuditRow(
        decision,
        headline_of(decision),
        verdict_words().get(decision.verdict or "", ""),
        author_words(decision.by or ""),
        shortened(decision.note or "", LONGEST_REASON),
        shortened(decision.answer or "", LONGEST_REASON),
        changes,
        duration_words(decision.looked),
    )


def author_words(by: str) -> str:
    """Return the author of a decision in words, if it is no person; empty for a person."""
    kind, _, name = by.partition(":")
    if kind == "deadline":
        return translate("nobody, in time")
    if kind == "code":
        return translate("the program {name}", name=name)
    if kind == "rule":
        return translate("the rule {name}", name=name)
    if kind == "grant":
        return translate("the grant {name}", name=name)
    return translate("Assentry") if kind == "runtime" else ""


def duration_words(milliseconds: int | None) -> str:
    """Return a duration in a word or two: "4 s", "12 min"; empty if it is not known."""
    if milliseconds is None:
        return ""
    seconds = max(0, milliseconds) / 1000
    size = next((each for each in (86_400, 3_600, 60) if seconds >= each), 1)
    number = seconds / size
    written = f"{number:.1f}".removesuffix(".0") if number < 10 else f"{number:.0f}"
    match size:
        case 86_400:
            return translate("{n} d", n=written)
        case 3_600:
            return translate("{n} h", n=written)
        case 60:
            return translate("{n} min", n=written)
    return translate("{n} s", n=written)
