"""The routes of the HTTP API about the past: statistics, and the export of decisions with their reasons."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from ..store.record import Settlement
from ..store.statistics import Statistics
from . import openapi as d
from .api import Here, Moment, Reader, Search, Text, exact, json_response
from .decisions import CSV_TYPE, JSON_LINES_TYPE, export_decisions
from .loops import OwnLoopRoute
from .statistics import KeptStatistics

figures_router = APIRouter(dependencies=[Depends(exact)], route_class=OwnLoopRoute)


_FORMS = d.plain_response(CSV_TYPE, 400)
_FORMS[200]["content"][JSON_LINES_TYPE] = d.TEXT


async def statistics_of_app(request: Request) -> KeptStatistics:
    """Return the application's statistics."""
    kept: KeptStatistics = request.app.state.statistics
    return kept


@figures_router.get("/api/statistics", responses=d.answers("Statistics", 400))
async def read_statistics(
    kept: Annotated[KeptStatistics, Depends(statistics_of_app)],
    who: Reader,
    since: Moment = None,
    until: Moment = None,
    tool: Text = None,
    agent: Text = None,
    by: Text = None,
) -> Response:
    """Return figures of a period: how many waited, how soon they were decided, how, by which tool and by whom.

    Without `since` it is the last week. Whoever may not export the journals sees no other person's figures. They are
    counted at most every 10 seconds, and are no evidence: the journals are.
    """
    found: Statistics = await kept.get(who, since=since, until=until, tool=tool, agent=agent, by=by)
    return json_response(found)


@figures_router.get("/api/decisions.{form}", responses=_FORMS)
async def export_reasons(
    inbox: Here,
    who: Reader,
    form: Literal["csv", "jsonl"],
    run: Text = None,
    agent: Text = None,
    tool: Text = None,
    by: Text = None,
    verdict: Settlement | None = None,
    decided_after: Moment = None,
    decided_before: Moment = None,
    search: Search = None,
) -> Response:
    """Export settled questions with the reasons of their decisions, the oldest first, as CSV or JSON Lines.

    Secret arguments are masked for everybody. The CSV is UTF-8 with a mark, and a cell that a spreadsheet might run as
    a formula begins with a quote.
    """
    filters = {
        "run": run, "agent": agent, "tool": tool, "by": by, "verdict": verdict, "decided_after": decided_after,
        "decided_before": decided_before, "search": search,
    }  # fmt: skip
    return exported(inbox.store, form, filters)


def exported(store: Any, form: str, filters: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """Return the stream of an export."""
    named = {"Content-Disposition": f'attachment; filename="decisions.{form}"', **(headers or {})}
    kind = CSV_TYPE if form == "csv" else JSON_LINES_TYPE
    return StreamingResponse(export_decisions(store, form, filters), 200, named, kind)
