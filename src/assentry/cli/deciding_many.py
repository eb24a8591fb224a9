"""One decision on several questions from the command line: a table of them, one answer, and what became of each."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from ..approval.decision import Approve, Decision
from ..core.facts import Verdict
from ..inbox.headline import ShownQuestion, sentence_of, shown_hash
from ..inbox.many import ArgumentTable, Read, check_together, read_questions, table_of
from ..store.record import Question
from .agreement import agree
from .source import ManyOutcome, Source
from .write import put, put_json, say, spell_out, spelled_name, when

LONGEST_CELL = 48
"""The most characters of a value in the table; a longer one is printed whole below its row."""
MARK = "≠ "
"""Before a value that is unlike most of the others."""


async def read_selection(place: Source, ids: Sequence[str], verdict: Verdict) -> tuple[list[ShownQuestion], list[str]]:
    """Return the questions that go together, and say of each other one why it is left out."""
    found = await read_questions(ids, place.question)
    fit: list[ShownQuestion] = []
    left_out: list[str] = []
    for id, each in found.items():
        if why := await _unfit(place, each, verdict):
            left_out.append(f"{id}: {why}")
        elif isinstance(each, ShownQuestion):
            fit.append(each)
    check_together(fit)
    return fit, left_out


async def _unfit(place: Source, read: Read, verdict: Verdict) -> str:
    """Return why a question cannot be decided so; empty if it can."""
    if not isinstance(read, Question):
        return str(read)
    if read.verdict is not None:
        following = await place.successor(read)
        instead = "" if following is None else f" Question {following.id} took its place."
        return f"It is settled: {read.verdict} by {read.by}, {when(read.decided)}.{instead}"
    if verdict not in read.allowed:
        return f"It cannot be answered by {verdict}, only by: {', '.join(read.allowed)}."
    return ""


def table_lines(table: ArgumentTable) -> list[str]:
    """Return the table as lines: what is the same in all, and then each question with what differs."""
    first = table.rows[0].question
    by = f" by {spelled_name(table.agent)}" if table.agent is not None else ""
    lines = [f"{len(table.rows)} calls of {spelled_name(first.tool)}{by}"]
    lines += [] if table.reason is None else [table.reason]
    lines += [f"the same in all: {name} = {text}" for name, text in table.same.items()]
    agent = ["AGENT"] if table.agent is None else []
    rows = [["QUESTION", *agent, *table.columns, "WHAT WOULD HAPPEN"]]
    below: list[list[str]] = [[]]
    for row in table.rows:
        cells = [f"{MARK if cell.odd else ''}{_value(cell.text)}" for cell in row.cells]
        names = [spelled_name(row.question.agent)] if agent else []
        rows.append([row.question.id, *names, *map(_short, cells), sentence_of(row.question)])
        long = [f"  {cell.name} = {text}" for cell, text in zip(row.cells, cells, strict=True) if _short(text) != text]
        why = [f"  {row.question.reason}"] if table.reason is None else []
        below.append([*long, *why, *(f"  WARNING: {text}" for text in row.warnings)])
    return [*lines, "", *_aligned(rows, below)]


def _value(text: str | None) -> str:
    return "(left out)" if text is None else text


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"(below: {len(text):,} characters)"


def _aligned(rows: list[list[str]], below: list[list[str]]) -> list[str]:
    """Return rows as aligned columns, each followed by its own lines."""
    cells = [[spell_out(part) for part in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    made: list[str] = []
    for row, more in zip(cells, below, strict=True):
        made.append("  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip())
        made += more
    return made


async def show_and_decide_many(
    options: Namespace, place: Source, decision: Decision, verdict: Verdict, by: str | None
) -> int:
    """Show the questions as a table, ask once, decide on each by its own digest, and say what became of each."""
    ids = [await place.whole_id("question", each) for each in options.question]
    questions, left_out = await read_selection(place, ids, verdict)
    for line in left_out:
        say(f"Left out: {line}")
    if not questions:
        say("Nothing was decided.")
        return 1
    table = table_of(questions)
    for line in table_lines(table):
        say(line)
    warnings = [text for text, _ in table.warnings] if type(decision) is Approve else []
    what = f"these {len(questions)} questions" if len(questions) > 1 else "this question"
    if not agree(options, decision, by, warnings, what, f"{verdict} {len(questions)}"):
        say("Nothing was decided.")
        return 1
    digests = {each.id: each.digest for each in questions}
    shown = {each.id: shown_hash(each) for each in questions}
    outcomes = await place.decide_many(decision, digests=digests, by=by, shown=shown)
    _print_outcomes(options, outcomes)
    return 1 if left_out or any(each.question is None for each in outcomes) else 0


def _print_outcomes(options: Namespace, outcomes: list[ManyOutcome]) -> None:
    if options.json:
        put_json({"items": outcomes})
        return
    for each in outcomes:
        if each.question is not None:
            put(f"{each.id}: {each.question.verdict} by {each.question.by}, {when(each.question.decided)}")
    for each in outcomes:
        if each.question is None:
            say(f"Not decided: {each.id}: {each.problem}")
