"""The page of the statistics: plots, and the same numbers in tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from babel.dates import format_datetime, format_skeleton
from babel.numbers import format_percent
from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from msgspec import Struct

from ..core.wording import shortened
from ..store.moment import read_moment
from ..store.statistics import Figures, Statistics
from .audit_pages import author_words, duration_words
from .identity import Identity
from .language import local_number, locale, translate, translate_count
from .page_parts import PageContext
from .plot import Line, TimeAxis, bar_plot, line_plot, share_bar
from .statistics import KeptStatistics
from .templating import render

DAY = 86_400_000
PERIODS = {"day": DAY, "week": 7 * DAY, "month": 30 * DAY, "quarter": 91 * DAY}
MOST_ROWS = 12
"""The tools and people that are drawn; the table has all of them, up to `MOST_IN_TABLE`."""
MOST_IN_TABLE = 500
TICKS = 5
DAYS = {"d MMM": "MMMd", "EEE d MMM": "MMMEd", "d MMM y": "yMMMd"}
"""The ways to write a day in English, with the names that other languages know them by."""
VERDICTS = (("approved", "yes"), ("edited", "edit"), ("answered", "told"), ("rejected", "no"))
"""The decisions, in the order in which they are drawn, with the classes of their colours."""


class FigureRow(Struct):
    """The figures of a tool or a person, in words, with the bar of its decisions."""

    figures: Figures
    author: str
    count: str
    median: str
    slow: str
    longest: str
    bar: Markup
    unread: str
    """The number that was decided within two seconds of opening; empty if it is not known of any."""
    approved: str
    edited: str
    answered: str
    rejected: str


def add_statistics_pages(made: APIRouter, pages: PageContext) -> None:
    """Add the route of the statistics."""

    @made.get("/statistics")
    async def statistics(request: Request) -> Response:
        who = await pages.who(request)
        kept: KeptStatistics = request.app.state.statistics
        query, problem = _query_of(request), ""
        context: dict[str, Any] = {}
        try:
            period = _period_of(query, pages.now())
        except ValueError as error:
            period, problem = {}, str(error)
        if not problem:
            chosen = {name: query[name] for name in ("tool", "agent", "by") if name in query}
            found = await kept.get(who, **period, **chosen)  # type: ignore[arg-type]
            context = _context(found, who)
        return render(
            request,
            "statistics.html",
            status=400 if problem else 200,
            who=who,
            now=pages.now(),
            waiting=await pages.waiting(),
            section="statistics",
            query=query,
            problem=problem,
            all=who.may("audit"),
            links=[(name, words, f"?{urlencode(_with_period(query, name))}") for name, words in _period_names()],
            **context,
        )


def _query_of(request: Request) -> dict[str, str]:
    names = ("period", "since", "until", "tool", "agent", "by")
    given = {name: request.query_params.get(name, "").strip() for name in names}
    query = {name: value for name, value in given.items() if value}
    if "since" not in query and "until" not in query and query.get("period") not in PERIODS:
        query["period"] = "week"
    return query


def _with_period(query: dict[str, str], name: str) -> dict[str, str]:
    return {"period": name, **{each: query[each] for each in ("tool", "agent", "by") if each in query}}


def _period_names() -> list[tuple[str, str]]:
    return [
        ("day", translate("Day")), ("week", translate("Week")), ("month", translate("Month")),
        ("quarter", translate("Quarter")),
    ]  # fmt: skip


def _period_of(query: dict[str, str], now: int) -> dict[str, int]:
    """Return the times of a period; raise `ValueError`, with a sentence, if they make no sense."""
    if "since" not in query and "until" not in query:
        return {"since": max(0, now - PERIODS[query["period"]])}
    made: dict[str, int] = {}
    for name, more in (("since", 0), ("until", DAY)):
        if name in query:
            try:
                made[name] = read_moment(query[name]) + (more if "T" not in query[name] else 0)
            except ValueError:
                words = translate("“{day}” is no day. Write a day as 2026-11-18.", day=shortened(query[name], 40))
                raise ValueError(words) from None
    end = min(made.get("until", now), now)
    if made.get("since", end - 1) >= end:
        raise ValueError(translate("The first day comes after the last, or is not there yet."))
    return made


# -- what is shown ------------------------------------------------------------------------------------


def _context(found: Statistics, who: Identity) -> dict[str, Any]:
    """Return the plots and the numbers of the page."""
    total, names = found.total, [_time(each.at, found.step) for each in found.parts]
    most, decided = max(_waited(found)), local_number(total.decided)
    axis = TimeAxis(names, _ticks(found))
    return {
        "found": found,
        "from_to": translate("{since} to {until} (UTC)", since=_moment(found.since), until=_moment(found.until)),
        "cards": _cards(found),
        "waiting_plot": line_plot(
            translate("Questions that waited"),
            translate("At most {most}, {last} at the end.", most=local_number(most), last=local_number(found.waiting)),
            [Line(translate("waiting"), _waited(found), "one", filled=True)],
            axis,
        ),
        "flow_plot": line_plot(
            translate("Asked and decided"),
            translate("{asked} asked, {decided} decided.", asked=local_number(found.asked), decided=decided),
            [
                Line(translate("asked"), [each.asked for each in found.parts], "two"),
                Line(translate("decided"), [each.decided for each in found.parts], "one"),
            ],
            axis,
        ),
        "wait_plot": _wait_plot(found),
        "share": _shares(total),
        "legend": [(name, local_number(getattr(total, name)), percent(getattr(total, name), total.decided), tone)
                   for name, tone in VERDICTS],
        "verdict_names": verdict_names(),
        "parts": list(zip(names, found.parts, [duration_words(each.median) for each in found.parts], strict=True)),
        "waits": [(name, bar.count) for name, bar in zip(_bar_names(found), found.waits, strict=True)],
        "tools": _rows(found.tools),
        "people": _rows(found.people),
        "others": _rows(found.others),
        "most_rows": MOST_ROWS,
        "most_in_table": MOST_IN_TABLE,
        "number": local_number,
    }  # fmt: skip


def _waited(found: Statistics) -> list[int]:
    return [each.waiting for each in found.parts]


def _cards(found: Statistics) -> list[tuple[str, str, str]]:
    """Return the few numbers at the top: each with its name and a word about it."""
    total = found.total
    unread = translate("not known of any")
    if total.known:
        unread = translate("of {n} of which it is known", n=local_number(total.known))
    asked = translate_count("of {n} question asked", "of {n} questions asked", found.asked)
    return [
        (translate("Decided"), local_number(total.decided), asked),
        (translate("Waiting"), local_number(found.waiting), translate("at the end of this period")),
        (translate("Half were decided within"), duration_words(total.median) or "–", _slow(total)),
        (translate("Within 2 s of opening"), local_number(total.unread) if total.known else "–", unread),
    ]


def _slow(total: Figures) -> str:
    if total.slow is None:
        return ""
    return translate("nine of ten within {slow}, the longest {longest}", slow=duration_words(total.slow),
                     longest=duration_words(total.longest))  # fmt: skip


def verdict_names() -> dict[str, str]:
    """Return the words for the decisions."""
    return {
        "approved": translate("approved"), "edited": translate("approved with changes"),
        "answered": translate("answered"), "rejected": translate("rejected"),
    }  # fmt: skip


def _shares(figures: Figures, most: int | None = None) -> Markup:
    names = verdict_names()
    shares = [
        (f"{names[name]}: {local_number(getattr(figures, name))}", getattr(figures, name), tone)
        for name, tone in VERDICTS
    ]
    return share_bar(translate("How they were decided"), shares, most=most)


def _wait_plot(found: Statistics) -> Markup:
    total = found.total
    bars = [
        (name, bar.count, translate("{name}: {n}, {share} of all", name=name, n=local_number(bar.count),
                                    share=percent(bar.count, total.decided)))
        for name, bar in zip(_bar_names(found), found.waits, strict=True)
    ]  # fmt: skip
    about = translate("Half within {time}.", time=duration_words(total.median)) if total.decided else ""
    return bar_plot(translate("Time to decide"), about, bars)


def _bar_names(found: Statistics) -> list[str]:
    last = next((each.within for each in reversed(found.waits) if each.within is not None), 0)
    return [
        translate("≤ {time}", time=duration_words(bar.within)) if bar.within is not None
        else translate("> {time}", time=duration_words(last))
        for bar in found.waits
    ]  # fmt: skip


def _rows(figures: Sequence[Figures]) -> list[FigureRow]:
    most = max((each.decided for each in figures), default=0)
    return [_row(each, most) for each in figures[:MOST_IN_TABLE]]


def _row(figures: Figures, most: int) -> FigureRow:
    return FigureRow(
        figures,
        author_words(figures.name),
        local_number(figures.decided),
        duration_words(figures.median),
        duration_words(figures.slow),
        duration_words(figures.longest),
        _shares(figures, most),
        translate("{n} of {known}", n=local_number(figures.unread), known=local_number(figures.known))
        if figures.known
        else "",
        *(local_number(getattr(figures, name)) for name in ("approved", "edited", "answered", "rejected")),
    )


def _of(part: int, whole: int) -> str:
    """Return "3 of 12" in the reader's language; empty of nothing."""
    return translate("{n} of {known}", n=local_number(part), known=local_number(whole)) if whole else ""


def _ticks(found: Statistics) -> list[tuple[int, str]]:
    """Return a few labels below the time: full days if there are some."""
    starts = [each.at for each in found.parts]
    days = [n for n, at in enumerate(starts) if at % DAY == 0] if found.step < DAY else list(range(len(starts)))
    places = days if len(days) >= 3 else list(range(len(starts)))
    every = max(1, -(-len(places) // TICKS))
    return [(place, _label(starts[place], found.step, len(days) >= 3)) for place in places[::every]]


def _label(at: int, step: int, days: bool) -> str:
    return _format(at, "d MMM") if days or step >= DAY else _format(at, "HH:mm")


def _time(at: int, step: int) -> str:
    return _format(at, "EEE d MMM") if step >= DAY else _format(at, "EEE d MMM HH:mm")


def _moment(at: int) -> str:
    return _format(at, "d MMM y HH:mm")


def _format(at: int, form: str) -> str:
    """Return a time, with the parts of its day in the order of the reader's language."""
    try:
        when, reader = datetime.fromtimestamp(at / 1000, UTC), locale()
        day = form.removesuffix("HH:mm").strip()
        if reader.language == "en" or not day:
            return format_datetime(when, form, locale=reader)
        written = format_skeleton(DAYS[day], when, locale=reader)
        return f"{written} {when:%H:%M}" if day != form else written
    except (OverflowError, ValueError, OSError):
        return str(at)


def percent(part: int, whole: int) -> str:
    """Return a share as the reader writes it; empty of nothing."""
    if not whole:
        return ""
    form = "#,##0.#%" if 0 < part < whole / 100 else None
    return format_percent(part / whole, format=form, locale=locale())
