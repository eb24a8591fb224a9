"""Reading a run, and checking its facts against the hash chain."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, func, select

from ...core.digest import holds
from ...core.facts import AnyFact
from ...errors import UnreadableState
from ..record import MARK, Entry, RunRecord, SavedContext, Stored
from ..row_codec import (
    START,
    Head,
    context_mark,
    erased_tally,
    head_of,
    is_erased,
    link,
    needed,
    tallied,
    unpack,
)
from .schema import blobs, contexts, definitions, journal, runs
from .statement import Statement, Transaction
from .writing import missing

RECORD = (runs.c.run, *(runs.c[name] for name in RunRecord.__struct_fields__ if name != "id"))
"""The columns of a run's record, in the order of the record's fields."""

FEW = 500
"""The most facts of a run that an event loop reads itself, which is faster than a thread.

A longer run would block the event loop too long.
"""

HIGHEST_FENCE = 2**63 - 1
"""No lease can come after it."""

FOUND = (*RECORD, runs.c.fence, runs.c.id, runs.c.head)
"""The columns read from a run's own row."""
READ = Statement(select(*FOUND).where(runs.c.run == bindparam("run")))
# Runs are numbered in the order of their creation, and a thread's next run is created after the one before.
_last = select(func.max(runs.c.id)).where(runs.c.thread == bindparam("thread")).scalar_subquery()
NEWEST = Statement(select(*FOUND).where(runs.c.id == _last))
ROWS = Statement(
    select(journal.c.seq, journal.c.at, journal.c.fact, journal.c.prev_hash)
    .where(journal.c.run == bindparam("run"), journal.c.seq > bindparam("after"))
    .order_by(journal.c.seq)
)
BLOBS = Statement(select(blobs.c.hash, blobs.c.body).where(blobs.c.run == bindparam("run")))
CONTEXT = Statement(select(contexts.c.body, contexts.c.kind).where(contexts.c.run == bindparam("run")))
DEFINITIONS = Statement(
    select(definitions.c.fingerprint, definitions.c.body)
    .where(definitions.c.fingerprint >= bindparam("start"), definitions.c.fingerprint < bindparam("end"))
    .order_by(definitions.c.fingerprint)
    .limit(2)
)


class Row(NamedTuple):
    """A row of a journal, with its own hash."""

    seq: int
    at: int
    text: bytes
    hash: bytes


def read(transaction: Transaction, run_id: str, after: int) -> Stored:
    """Return a run with all facts but the first `after`. An erased run has no facts."""
    return _stored(transaction, _found(transaction, run_id), after)


def read_short(transaction: Transaction, run_id: str, after: int, most: int) -> Stored | None:
    """Return a run as `read` does; None if it has more than `most` facts."""
    row = _found(transaction, run_id)
    return _stored(transaction, row, after) if record_from(row).seq <= most else None


def newest(transaction: Transaction, thread: str) -> Stored | None:
    """Return the newest run of a thread; None if there is no such thread."""
    row = _newest(transaction, thread)
    return None if row is None else _stored(transaction, row, 0)


def newest_short(transaction: Transaction, thread: str, most: int) -> tuple[Stored | None] | None:
    """Return a tuple of the newest run of a thread, as `newest` does; None if the run has more than `most` facts."""
    row = _newest(transaction, thread)
    if row is None:
        return (None,)
    return (_stored(transaction, row, 0),) if record_from(row).seq <= most else None


def _newest(transaction: Transaction, thread: str) -> tuple[Any, ...] | None:
    return transaction.row(NEWEST, thread=thread) if type(thread) is str and holds(thread) else None


def _stored(transaction: Transaction, row: tuple[Any, ...], after: int) -> Stored:
    record, number = record_from(row), row[-2]
    rows = transaction.rows(ROWS, run=number, after=min(max(after, 0), record.seq))
    context = transaction.row(CONTEXT, run=number) or (None, None)
    head = head_of(record.id, row[-1])
    lines = lines_from(record, head, rows, after)
    payloads = transaction.rows(BLOBS, run=number) if have_payloads(lines) else []
    return stored_from(record, row[-3], head, lines, payloads, context)


def lines_from(record: RunRecord, head: Head, rows: list[tuple[Any, ...]], after: int) -> list[Row]:
    """Return the checked rows of a run's journal but the first `after`."""
    first = min(max(after, 0), record.seq)
    return chained(record.id, rows, first, record.seq, head, record.erased)


def have_payloads(lines: list[Row]) -> bool:
    """Return True if some of the rows have blobs, which must be read too."""
    return any(needed(line.text) for line in lines)


def stored_from(
    record: RunRecord,
    fence: int,
    head: Head,
    lines: list[Row],
    payloads: Sequence[tuple[Any, ...]],
    context: tuple[Any, ...],
) -> Stored:
    """Return a run, made from its journal rows, its blobs with their hashes, and its context."""
    _see_that_its_lease_is_one(record, fence)
    saved = _context(record.id, head, *context)
    facts = [] if record.erased is not None else _facts(record.id, lines, payloads)
    return Stored(record=record, facts=facts, context=saved, fence=fence)


def _see_that_its_lease_is_one(record: RunRecord, fence: Any) -> None:
    """Raise `UnreadableState` if no lease can follow: a fence that no fact can hold would spoil the journal."""
    if not (type(fence) is int and 0 <= fence < HIGHEST_FENCE and type(record.until) in (int, NoneType)):
        raise UnreadableState(f"The lease in the record of run {record.id!r} is damaged.")


def _context(run: str, head: Head, body: Any, kind: Any) -> SavedContext:
    """Return the context; raise `UnreadableState` unless its hash is the head's."""
    text = isinstance(body, bytes | memoryview | None) and isinstance(kind, str | None)
    saved = SavedContext(None if body is None else as_bytes(body), kind) if text else None
    if saved is None or context_mark(saved) != head.context:
        raise UnreadableState(f"The context of run {run!r} is not what was written.")
    return saved


def lines(transaction: Transaction, run_id: str) -> list[Entry]:
    """Return the journal rows of a run with their hashes."""
    record, number, head = found(transaction, run_id)
    rows = checked(transaction, record, number, head, 0)
    return [Entry(row.seq, row.at, msgspec.json.decode(row.text), row.hash.hex()) for row in rows]


def definition(transaction: Transaction, fingerprint: str) -> bytes | None:
    """Return a tool's definition; None too if a prefix fits several fingerprints."""
    if type(fingerprint) is not str or not fingerprint or not holds(fingerprint):
        return None
    rows = transaction.rows(DEFINITIONS, start=fingerprint, end=fingerprint + "\U0010ffff")
    whole = bool(rows) and rows[0][0] == fingerprint
    if whole or (len(rows) == 1 and len(fingerprint) >= MARK):
        return as_bytes(rows[0][1])
    return None


def found(transaction: Transaction, run_id: str) -> tuple[RunRecord, int, Head]:
    """Return a run's record, its number, and its head."""
    row = _found(transaction, run_id)
    return record_from(row), row[-2], head_of(run_id, row[-1])


def _found(transaction: Transaction, run_id: str) -> tuple[Any, ...]:
    row = transaction.row(READ, run=run_id) if type(run_id) is str and holds(run_id) else None
    if row is None:
        raise missing(run_id)
    record = record_from(row)
    if type(record.seq) is not int or not (record.erased is None or type(record.erased) is int):
        raise UnreadableState(f"The record of run {run_id!r} is damaged.")
    return row


def record_from(row: tuple[Any, ...]) -> RunRecord:
    """Return the record in the first columns of a row."""
    return RunRecord(**dict(zip(RunRecord.__struct_fields__, row, strict=False)))


def checked(transaction: Transaction, record: RunRecord, number: int, head: Head, after: int) -> list[Row]:
    """Return the rows after the first `after`; raise `UnreadableState` at the first damaged row."""
    rows = transaction.rows(ROWS, run=number, after=after)
    return chained(record.id, rows, after, record.seq, head, record.erased)


def chained(
    run: str, rows: list[tuple[Any, ...]], after: int, last: int, head: Head | None, erased: int | None
) -> list[Row]:
    """Check that rows (seq, at, fact, prev_hash) are complete, in order and undamaged, and return them.

    The hash of a row is in the next row, and the hash of the last row in the run's head. With `head` None the last
    row's hash is unknown and not checked.
    """
    made: list[Row] = []
    end = None if head is None else head.hash
    before = START if after == 0 else (rows[0][3] if rows else end)
    if rows and rows[0][3] != before:
        raise UnreadableState(f"Fact {after + 1} of run {run!r} is damaged: nothing can have come before it.")
    for place, (seq, at, fact, _) in enumerate(rows):
        expected = after + 1 + place
        if seq != expected:
            raise UnreadableState(f"Fact {expected} of run {run!r} is missing.")
        if seq > last:
            raise UnreadableState(f"Run {run!r} has {last} facts, and fact {seq} was not written by its store.")
        text = _text(run, seq, at, fact)
        after_it = rows[place + 1][3] if place + 1 < len(rows) else end
        if erased is None or not is_erased(text):
            before = link(before or START, run, seq, text)
            if after_it is not None and before != after_it:
                raise UnreadableState(_broken(run, rows, place, last))
        else:
            before = after_it
        made.append(Row(seq, at, text, before or START))
    if after + len(rows) != last:
        raise UnreadableState(f"Fact {after + len(rows) + 1} of run {run!r} is missing.")
    if head is not None and after == 0:
        _see_that_it_tallies(run, made, head, erased)
    return made


def tally_of(rows: Sequence[Row], erased: int | None) -> bytes:
    """Return the tally of all rows of a run. For an erased run it covers the redacted texts and the erasure time."""
    tally = START
    for row in rows:
        tally = tallied(tally, row.hash, row.seq, row.at, b"" if erased is None else row.text)
    return tally if erased is None else erased_tally(tally, erased)


def _see_that_it_tallies(run: str, rows: list[Row], head: Head, erased: int | None) -> None:
    if tally_of(rows, erased) == head.tally:
        return
    if erased is None:
        raise UnreadableState(f"The times of the facts of run {run!r} are not what was written.")
    if tally_of(rows, None) == head.tally:
        raise UnreadableState(f"Run {run!r} is marked as erased, and was not erased.")
    raise UnreadableState(f"What is left of erased run {run!r} is not what erasing left, or its time is not.")


def _broken(run: str, rows: list[tuple[Any, ...]], place: int, last: int) -> str:
    seq = rows[place][0]
    if place + 1 < len(rows):
        if rows[place + 1][0] != seq + 1:
            return f"Fact {seq + 1} of run {run!r} is missing."
        return f"Fact {seq} of run {run!r} is not what was written: its hash is not the one in fact {seq + 1}."
    if seq < last:
        return f"Fact {seq + 1} of run {run!r} is missing."
    return f"Fact {seq} of run {run!r} is not what was written: its hash is not the one in the run's record."


def _text(run: str, seq: int, at: Any, fact: Any) -> bytes:
    if type(fact) is not str:
        raise UnreadableState(f"Fact {seq} of run {run!r} is damaged: it is not text.")
    if type(at) is not int:
        raise UnreadableState(f"Fact {seq} of run {run!r} is damaged: its time is not a number.")
    return fact.encode("utf-8", "surrogateescape")


def as_bytes(value: Any) -> bytes:
    """Return bytes from their column. SQLite keeps any type in any column: what is none is found by its hash."""
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode("utf-8", "surrogateescape")


def facts_of(transaction: Transaction, run: str, number: int, rows: list[Row]) -> list[AnyFact]:
    """Return the facts of checked rows."""
    return _facts(run, rows, transaction.rows(BLOBS, run=number) if have_payloads(rows) else [])


def _facts(run: str, rows: list[Row], payloads: Sequence[tuple[Any, ...]]) -> list[AnyFact]:
    kept = {as_bytes(hash).hex(): as_bytes(body) for hash, body in payloads}
    return [unpack(run, row.seq, row.text, kept) for row in rows]
