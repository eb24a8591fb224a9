"""Decisions on questions with their reasons, for the page of the audit and for exports.

A question's row says who decided and when. Why, and what ran instead, is in the journal of its run. Everything is as a
viewer may see it, whoever asks: exports leave the inbox.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec.json import encode
from msgspec.structs import asdict

from ..core.digest import canonical
from ..errors import AssentryError
from ..store.record import Question, RunRecord
from ..store.store import Store
from .headline import ShownQuestion, sentence_of, with_order
from .identity import Identity
from .mask import masked
from .permissions import JournalView

DECIDING_FACTS = ("approved", "refused", "answered", "finished")
"""The kinds of facts that decide a question."""
LONGEST_READ = 20_000
"""The most facts of a run with secret arguments that are read for a reason: all of them are needed to mask it."""
TOO_LONG = "(in the journal of the run, which is too long to be masked here)"
VIEWER = Identity("", "viewer")
PAGE_READ = 200
"""The decisions that an export reads at once."""
LONGEST_CELL = 32_000
"""The most characters of a cell in CSV: spreadsheets take 32,767."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The beginnings of a text that a spreadsheet may run as a formula; a Japanese one reads full-width signs too."""
CSV_TYPE, JSON_LINES_TYPE = "text/csv; charset=utf-8", "application/jsonl"


class RecordedDecision(ShownQuestion, kw_only=True):
    """A settled question, with what its journal says of the decision."""

    note: str | None = None
    """The reason of a rejection, or the note of an approval or an answer."""
    ran: str | None = None
    """The arguments that ran in the place of those that were asked about, as JSON text."""
    ran_tool: str | None = None
    """The tool that ran in the place of the one that was asked about."""
    answer: str | None = None
    """The answer that was given in the tool's place, or to a tool's question, as JSON text."""


async def with_reasons(store: Store, questions: Iterable[Question]) -> list[RecordedDecision]:
    """Return settled questions with their reasons, masked for everybody."""
    found, views = [], dict[str, JournalView | None]()
    for each in await with_order(store, questions):
        if each.run not in views:
            views[each.run] = await _view(store, each.run)
        found.append(RecordedDecision(**asdict(masked(each)), **await _reason(views[each.run], each)))
    return found


async def _view(store: Store, run: str) -> JournalView | None:
    """Return a run's journal as a viewer may see it; None if its content was erased."""
    try:
        record: RunRecord = await store.record(run)
    except AssentryError:
        return None  # deleted since the question was read
    if record.erased is not None:
        return None
    return JournalView(VIEWER, store, record, payloads=True)


async def _reason(view: JournalView | None, question: Question) -> dict[str, Any]:
    """Return what the fact that decided a question says."""
    if view is None or question.verdict in (None, "replaced", "void"):
        return {}
    if view.seq > LONGEST_READ and not await view.is_plain():
        return {"note": TOO_LONG}
    for number in reversed(await view.find(f'"{question.id}"', *DECIDING_FACTS)):
        fact = (await view.part(number - 1, 1))[0].fact
        if fact.get("asked") == question.id:
            return _told(fact)
    return {}


def _told(fact: dict[str, Any]) -> dict[str, Any]:
    kind, args = fact["fact"], fact.get("args")
    if kind == "refused":
        return {"note": _text(fact.get("message")) or _text(fact.get("why"))}
    made: dict[str, Any] = {"note": _text(fact.get("why") or fact.get("note"))}
    if kind == "approved":
        return made | {"ran": None if args is None else canonical(args).decode(), "ran_tool": _text(fact.get("tool"))}
    return made | {"answer": canonical(fact.get("value" if kind == "answered" else "output")).decode()}


def _text(value: Any) -> str | None:
    return str(value) if value else None


# -- exports ------------------------------------------------------------------------------------------


async def export_decisions(store: Store, form: str, filters: dict[str, Any]) -> AsyncIterator[bytes]:
    """Yield the decisions that fit, the oldest first, as CSV or JSON Lines; a damaged row is named, and left out."""
    await store.open()
    write = _csv_line if form == "csv" else _json_line
    if form == "csv":
        yield b"\xef\xbb\xbf" + _cells([COLUMNS])
    after: str | None = None
    while True:
        page = await store.questions(**filters, settled=True, limit=PAGE_READ, after=after)
        for each in await with_reasons(store, page.items):
            yield write(each)
        for id in page.damaged:
            yield _cells([[harmless(id), "", "", "left out: the row is damaged"]]) if form == "csv" else _damaged(id)
        after = page.next
        if after is None:
            return


def _json_line(decision: RecordedDecision) -> bytes:
    return encode(decision) + b"\n"


def _damaged(id: str) -> bytes:
    return encode({"id": id, "damaged": True}) + b"\n"


COLUMNS = (
    "question", "decided", "by", "verdict", "tool", "agent", "kind", "what", "arguments", "why_asked", "note",
    "ran", "ran_tool", "answer", "asked", "waited_seconds", "looked_seconds", "risk", "started_by", "run", "shown",
)  # fmt: skip
"""The columns of the CSV."""


def _csv_line(decision: RecordedDecision) -> bytes:
    waited = None if decision.decided is None else max(0, decision.decided - decision.at)
    values = (
        decision.id, _time(decision.decided), decision.by, decision.verdict, decision.tool, decision.agent,
        decision.kind, sentence_of(decision), decision.arguments, decision.reason, decision.note,
        decision.ran, decision.ran_tool, decision.answer, _time(decision.at), _seconds(waited),
        _seconds(decision.looked), decision.risk, decision.started_by, decision.run, decision.shown,
    )  # fmt: skip
    return _cells([[harmless(each or "") for each in values]])


def _cells(rows: Iterable[Iterable[str]]) -> bytes:
    """Return rows by RFC 4180."""
    made = io.StringIO(newline="")
    csv.writer(made).writerows(rows)
    return made.getvalue().encode()


def harmless(text: str) -> str:
    """Return a text that no spreadsheet runs as a formula, and none cuts without a word."""
    if len(text) > LONGEST_CELL:
        text = f"{text[:LONGEST_CELL]}… ({len(text):,} characters; the JSON Lines have them all)"
    return f"'{text}" if text.startswith(FORMULA) else text


def _time(at: int | None) -> str | None:
    try:
        return None if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(at)


def _seconds(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{max(0, milliseconds) / 1000:.3f}"
