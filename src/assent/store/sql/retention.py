"""Retention of runs: erasing their content, deleting them, and rebuilding their records."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import bindparam, delete, insert, select, update

from ...core.run import ENDED
from ...errors import Conflict, UnreadableState
from ..projection import anew
from ..record import Change, RunRecord, SavedContext
from ..row_codec import Head, context_mark, head_of, redacted
from .reading import CONTEXT, RECORD, ROWS, chained, checked, facts_of, own_row, record_from, tally_of
from .schema import blobs, contexts, grants, journal, questions, runs
from .statement import Statement, Transaction
from .writing import FORGET_CONTEXT, RECORDED, advance, locked, project, seal_again, sealed_questions

BATCH = 200
"""The most runs deleted in one transaction, so that other writers get their turn."""

REDACT = Statement(
    update(journal)
    .where(journal.c.run == bindparam("of_run"), journal.c.seq == bindparam("of_seq"))
    .values(fact=bindparam("fact"))
)
FORGET_BLOBS = Statement(delete(blobs).where(blobs.c.run == bindparam("run")))
EMPTY_QUESTIONS = Statement(
    update(questions)
    .where(questions.c.run == bindparam("of_run"))
    .values(arguments="", reason="", prompt=None, schema=None, evidence=None)
)
EMPTY_GRANTS = Statement(update(grants).where(grants.c.run == bindparam("of_run")).values(message=None, pins=None))
MARK_ERASED = Statement(
    update(runs)
    .where(runs.c.id == bindparam("number"))
    .values(erased=bindparam("erased"), head=bindparam("head"), error=None)
)
FORGET_QUESTIONS = Statement(delete(questions).where(questions.c.run == bindparam("run")))
FORGET_GRANTS = Statement(delete(grants).where(grants.c.run == bindparam("run")))
NUMBERS = Statement(select(journal.c.run).where(journal.c.run > bindparam("after")).order_by(journal.c.run).limit(1))
OWN_ROW = Statement(select(*RECORD, runs.c.head).where(runs.c.id == bindparam("number")).with_for_update())
SET_RECORD = advance(RECORDED)
MAKE_RECORD = Statement(insert(runs))


def erase(transaction: Transaction, run_id: str, now: int) -> None:
    """Erase the content of a run that has ended."""
    locked(transaction, run_id)
    own = own_row(transaction, run_id)
    record, number, head = own.record, own.number, head_of(run_id, own.head)
    if record.status not in ENDED:
        raise Conflict(f"Run {run_id!r} is not over, it is {record.status}. Erase it when it is, or purge it.")
    if record.erased is not None:
        return
    rows = [row._replace(text=redacted(row.text)) for row in checked(transaction, own, 0)]
    transaction.many(REDACT, [{"of_run": number, "of_seq": row.seq, "fact": row.text.decode()} for row in rows])
    transaction.do(FORGET_BLOBS, run=number)
    transaction.do(FORGET_CONTEXT, run=number)
    sound = sealed_questions(transaction, number, run_id)
    transaction.do(EMPTY_QUESTIONS, of_run=number)
    seal_again(transaction, number, run_id, sound)
    transaction.do(EMPTY_GRANTS, of_run=number)
    left = Head(head.hash, tally_of(rows, now), context_mark(SavedContext()))
    transaction.do(MARK_ERASED, number=number, erased=now, head=left.packed())


@functools.cache
def _old(statuses: int) -> Statement:
    return Statement(
        select(runs.c.id)
        .where(
            runs.c.status.in_([bindparam(f"status{number}") for number in range(statuses)]),
            runs.c.changed <= bindparam("until"),
        )
        .order_by(runs.c.id)
        .limit(BATCH)
        .with_for_update(skip_locked=True)
    )


_FORGET = tuple(
    Statement(delete(table).where(table.c[name] == bindparam("number")))
    for table, name in (
        (journal, "run"),
        (blobs, "run"),
        (contexts, "run"),
        (questions, "run"),
        (grants, "run"),
        (runs, "id"),
    )
)


def purge(transaction: Transaction, statuses: Sequence[str], until: int) -> int:
    """Delete up to `BATCH` runs with these statuses that did not change after `until`; return their number."""
    if not statuses:
        return 0
    named = {f"status{number}": status for number, status in enumerate(statuses)}
    numbers = [{"number": number} for (number,) in transaction.rows(_old(len(named)), **named, until=until)]
    if numbers:
        for statement in _FORGET:
            transaction.many(statement, numbers)
    return len(numbers)


def next_number(transaction: Transaction, after: int) -> int | None:
    """Return the number of the next journal, with or without a run record; None after the last."""
    row = transaction.row(NUMBERS, after=after)
    return None if row is None else int(row[0])


def rebuild(transaction: Transaction, number: int, now: int) -> None:
    """Rebuild the records of one run from its journal. The records of an erased run are kept."""
    row = transaction.row(OWN_ROW, number=number)
    if row is None:
        _make(transaction, number, now)
        return
    record = record_from(row)
    if record.erased is not None:
        return
    rows = transaction.rows(ROWS, run=number, after=0)
    checked_rows = chained(record.id, rows, 0, _last(rows), head_of(record.id, row[-1]), None)
    change = anew(record.id, facts_of(transaction, record.id, number, checked_rows), checked_rows[-1].at)
    transaction.do(SET_RECORD, number=number, **_recorded(change.record))
    _write(transaction, number, change)


def _make(transaction: Transaction, number: int, now: int) -> None:
    """Rebuild a run whose own row is lost; its id is in the first fact."""
    rows = transaction.rows(ROWS, run=number, after=0)
    try:
        id = msgspec.json.decode(rows[0][2])["run"]
    except (msgspec.DecodeError, TypeError, KeyError):
        raise UnreadableState(f"Journal {number} is damaged: its first fact does not say which run it is.") from None
    checked_rows = chained(id, rows, 0, _last(rows), None, None)
    change = anew(id, facts_of(transaction, id, number, checked_rows), checked_rows[-1].at)
    context = SavedContext(*(transaction.row(CONTEXT, run=number) or (None, None)))
    head = Head(checked_rows[-1].hash, tally_of(checked_rows, None), context_mark(context))
    values = _recorded(change.record) | {"id": number, "run": id, "head": head.packed()}
    # The fence is lost too. The new fence must be above all earlier ones, and a run has fewer leases than `now` has
    # milliseconds.
    values |= {"worker": None, "until": None, "fence": now, "failures": 0, "error": None, "erased": None}
    transaction.do(MAKE_RECORD, **values)
    _write(transaction, number, change)


def _last(rows: list[tuple[Any, ...]]) -> int:
    """Return the highest number of a fact; 0 without rows."""
    return max((row[0] for row in rows), default=0)


def _recorded(record: RunRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in RECORDED}


def _write(transaction: Transaction, number: int, change: Change) -> None:
    transaction.do(FORGET_QUESTIONS, run=number)
    transaction.do(FORGET_GRANTS, run=number)
    project(transaction, number, change)
