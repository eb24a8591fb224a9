"""Retention of runs: erasing their content, deleting them, and rebuilding their records."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import bindparam, delete, insert, select, update

from ...core.run import ENDED
from ...errors import Conflict, UnreadableState
from ..chain import JournalRow, check_chain, tally_of
from ..comparing import EMPTIED
from ..projection import anew
from ..record import GrantRecord, Question, SavedContext
from ..row_codec import Head, context_mark, head_of, redacted
from .reading import CONTEXT, RECORD, ROWS, check_rows, facts_of, own_row, record_from
from .schema import blobs, chapters, contexts, grants, journal, questions, runs
from .statement import Statement, Transaction
from .writing import FORGET, RECORDED, advance, locked, project, seal_again, sealed_questions

BATCH = 200
"""The most runs deleted in one transaction, so that other writers get their turn."""

REDACT = Statement(
    update(journal)
    .where(journal.c.run == bindparam("of_run"), journal.c.seq == bindparam("of_seq"))
    .values(fact=bindparam("fact"))
)
EMPTY = {
    table: Statement(update(table).where(table.c.run == bindparam("of_run")).values(values))
    for table, values in ((questions, EMPTIED[Question] | {"evidence": None}), (grants, EMPTIED[GrantRecord]))
}
MARK_ERASED = Statement(
    update(runs)
    .where(runs.c.id == bindparam("number"))
    .values(erased=bindparam("erased"), head=bindparam("head"), error=None)
)
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
    rows = [row._replace(text=redacted(row.text)) for row in check_rows(transaction, own, 0)]
    transaction.many(REDACT, [{"of_run": number, "of_seq": row.seq, "fact": row.text.decode()} for row in rows])
    transaction.do(FORGET[blobs], run=number)
    transaction.do(FORGET[chapters], run=number)
    transaction.do(FORGET[contexts], run=number)
    sound = sealed_questions(transaction, number, run_id)
    transaction.do(EMPTY[questions], of_run=number)
    seal_again(transaction, number, run_id, sound)
    transaction.do(EMPTY[grants], of_run=number)
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


FORGET_RUN = Statement(delete(runs).where(runs.c.id == bindparam("run")))


def purge(transaction: Transaction, statuses: Sequence[str], until: int) -> int:
    """Delete up to `BATCH` runs with these statuses that did not change after `until`; return their number."""
    if not statuses:
        return 0
    named = {f"status{number}": status for number, status in enumerate(statuses)}
    numbers = [{"run": number} for (number,) in transaction.rows(_old(len(named)), **named, until=until)]
    if numbers:
        for statement in (*FORGET.values(), FORGET_RUN):
            transaction.many(statement, numbers)
    return len(numbers)


def next_number(transaction: Transaction, after: int) -> int | None:
    """Return the number of the next journal, with or without a run record; None after the last."""
    row = transaction.row(NUMBERS, after=after)
    return None if row is None else int(row[0])


def rebuild(transaction: Transaction, number: int, now: int) -> None:
    """Rebuild the records of one run from its journal. The records of an erased run are kept."""
    own = transaction.row(OWN_ROW, number=number)
    record = None if own is None else record_from(own)
    if record is not None and record.erased is not None:
        return
    rows = transaction.rows(ROWS, run=number, after=0)
    id = _id(number, rows) if record is None else record.id
    head = None if own is None else head_of(id, own[-1])
    checked_rows = check_chain(id, rows, 0, max((row[0] for row in rows), default=0), head, None)
    change = anew(id, facts_of(transaction, id, number, checked_rows), checked_rows[-1].at)
    values = {name: getattr(change.record, name) for name in RECORDED}
    if record is not None:
        transaction.do(SET_RECORD, number=number, **values)
    else:
        transaction.do(MAKE_RECORD, id=number, run=id, **values, **_lost(transaction, number, checked_rows, now))
    for table in (questions, grants, chapters):
        transaction.do(FORGET[table], run=number)
    project(transaction, number, change)


def _id(number: int, rows: list[tuple[Any, ...]]) -> str:
    """Return the id of a run whose own row is lost, from its first fact."""
    try:
        return str(msgspec.json.decode(rows[0][2])["run"])
    except (msgspec.DecodeError, TypeError, KeyError, RecursionError):
        raise UnreadableState(f"Journal {number} is damaged: its first fact does not say which run it is.") from None


def _lost(transaction: Transaction, number: int, rows: list[JournalRow], now: int) -> dict[str, Any]:
    """Return the columns of a lost row that are not in the record.

    The fence is lost too. The new fence must be above all earlier ones, and a run has fewer leases than `now` has
    milliseconds.
    """
    context = SavedContext(*(transaction.row(CONTEXT, run=number) or (None, None)))
    head = Head(rows[-1].hash, tally_of(rows, None), context_mark(context))
    lease = {"worker": None, "until": None, "fence": now, "failures": 0, "error": None}
    return {"head": head.packed(), "erased": None, **lease}
