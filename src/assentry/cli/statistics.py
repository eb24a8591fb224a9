"""`assentry statistics`, and the list and the export of decisions: `assentry audit decisions`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec.json import decode

from ..inbox.decisions import RecordedDecision, export_decisions
from ..inbox.headline import sentence_of
from ..store.open import open_store
from ..store.statistics import Figures, Statistics
from .database import writing
from .source import server, source
from .table import Column, print_table
from .write import put, put_json, put_table, say, spelled_name, when

FIGURES = (
    Column("", "text"),
    Column("DECIDED"),
    Column("APPROVED"),
    Column("EDITED"),
    Column("ANSWERED", least=100),
    Column("REJECTED"),
    Column("HALF WITHIN", brief="HALF"),
    Column("90 % WITHIN", brief="90 %"),
    Column("LONGEST", least=100),
    Column("UNDER 2 S", brief="< 2 S"),
)
DECISIONS = (
    Column("DECIDED (UTC)"),  # in full for people too: --since takes it
    Column("BY", "text"),
    Column("VERDICT"),
    Column("TOOL"),
    Column("WHAT", "text"),
    Column("WHY", "text"),
)
LONGEST = 60
"""The most characters of a sentence or a reason in a table."""


async def print_statistics(options: Namespace) -> int:
    """Print the figures of a period: in parts, by tool and by person."""
    filters = {name: getattr(options, name) for name in ("since", "until", "tool", "agent", "by")}
    if options.server is not None:
        async with server(options) as there:
            found = await there.statistics(**filters)
    else:
        async with open_store(options.url, create=False) as store:
            found = await store.statistics(**filters)
    if options.json:
        put_json(found)
    else:
        _print(found)
    return 0


def _print(found: Statistics) -> None:
    put(
        f"{when(found.since)} to {when(found.until)} (UTC): {found.asked:,} asked, {found.waiting:,} waiting at the end"
    )
    put()
    print_table(FIGURES, [("all", *_figures(found.total)), *_rows("by tool:", found.tools)])
    put()
    print_table(FIGURES, [*_rows("by person:", found.people), *_rows("without a person:", found.others)])
    put()
    bars = [(_bar(found, n), f"{bar.count:,}", _line(bar.count, max(each.count for each in found.waits)))
            for n, bar in enumerate(found.waits)]  # fmt: skip
    put_table([("DECIDED WITHIN", "", ""), *bars])
    if found.replaced or found.void:
        put(f"{found.replaced:,} replaced by newer questions, {found.void:,} closed with their runs")
    if not found.whole:
        say("Of people, only you are shown; the token of an operator sees all.")


def _rows(name: str, figures: Sequence[Figures]) -> list[tuple[str, ...]]:
    if not figures:
        return []
    return [
        (name, *[""] * (len(FIGURES) - 1)),
        *((f"  {spelled_name(each.name)}", *_figures(each)) for each in figures),
    ]


def _figures(each: Figures) -> tuple[str, ...]:
    counts = (each.decided, each.approved, each.edited, each.answered, each.rejected)
    times = (each.median, each.slow, each.longest)
    unread = f"{each.unread:,} of {each.known:,}" if each.known else "-"
    return (*(f"{count:,}" for count in counts), *map(duration_text, times), unread)


def _bar(found: Statistics, n: int) -> str:
    within = found.waits[n].within
    return duration_text(within) if within is not None else f"more than {duration_text(found.waits[n - 1].within)}"


def _line(count: int, most: int) -> str:
    return "#" * max(1, round(30 * count / most)) if count else ""


def duration_text(milliseconds: int | None) -> str:
    """Return a duration as text, such as `4s` or `1.5h`."""
    if milliseconds is None:
        return "-"
    seconds = milliseconds / 1000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + unit
    return f"{seconds:.1f}".removesuffix(".0") + "s"


# -- decisions ----------------------------------------------------------------------------------------


async def print_decisions(options: Namespace) -> int:
    """Print a page of decisions with their reasons, or export all that fit."""
    filters = {
        "by": options.by, "verdict": options.verdict, "tool": options.tool, "agent": options.agent,
        "run": await _whole_run(options), "search": options.search, "decided_after": options.decided_after,
        "decided_before": options.decided_before,
    }  # fmt: skip
    if options.format != "table":
        return await _export(options, filters)
    rows: list[tuple[str, ...]] = []
    async with _exported(options, "jsonl", filters) as lines:
        async for line in lines:
            if len(rows) == options.limit:
                say("There are more: give --since the time of the last one, or another --limit.")
                break
            rows.append(_row(line))
    print_table(DECISIONS, rows)
    return 0


async def _whole_run(options: Namespace) -> str | None:
    if options.run is None:
        return None
    async with source(options) as place:
        return await place.whole_id("run", options.run)


def _decision(each: RecordedDecision) -> tuple[str, ...]:
    what, why = _short(sentence_of(each)), _short(each.note or each.answer or each.ran or "")
    return when(each.decided), each.by or "", each.verdict or "", spelled_name(each.tool), what, why


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _row(line: bytes) -> tuple[str, ...]:
    if decode(line).get("damaged"):
        return "-", "", "", "", f"The row of {decode(line)['id']} is damaged, and left out.", ""
    return _decision(decode(line, type=RecordedDecision))


async def _export(options: Namespace, filters: dict[str, Any]) -> int:
    with writing(options.out) as file:
        async with _exported(options, options.format, filters) as pieces:
            async for piece in pieces:
                if file is not None:
                    file.write(piece.decode())
                else:
                    sys.stdout.buffer.write(piece)
    sys.stdout.flush()
    return 0


@asynccontextmanager
async def _exported(options: Namespace, form: str, filters: dict[str, Any]) -> AsyncIterator[AsyncIterator[bytes]]:
    if options.server is not None:
        async with server(options) as there:
            yield there.exported_decisions(form, filters)
    else:
        async with open_store(options.url, create=False) as store:
            yield export_decisions(store, form, filters)
