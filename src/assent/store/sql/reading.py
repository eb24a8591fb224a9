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
    has_blobs,
    head_of,
    is_erased,
    link,
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

_FOUND = select(*RECORD, runs.c.fence, runs.c.id, runs.c.head, contexts.c.body, contexts.c.kind).outerjoin_from(
    runs, contexts, contexts.c.run == runs.c.id
)
READ = Statement(_FOUND.where(runs.c.run == bindparam("run")))
# Runs are numbered in the order of their creation, and a thread's next run is created after the one before.
_last = select(func.max(runs.c.id)).where(runs.c.thread == bindparam("thread")).scalar_subquery()
NEWEST = Statement(_FOUND.where(runs.c.id == _last))
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


class Own(NamedTuple):
    """A run's own row and its context, as they are stored."""

    record: RunRecord
    fence: Any
    number: int
    head: Any
    body: Any
    kind: Any


class Row(NamedTuple):
    """A row of a journal, with its own hash."""

    seq: int
    at: int
    text: bytes
    hash: bytes


def read(transaction: Transaction, run_id: str, after: int) -> Stored:
    """Return a run with all facts but the first `after`. An erased run has no facts."""
    return _stored(transaction, own_row(transaction, run_id), after)


def read_short(transaction: Transaction, run_id: str, after: int) -> Stored | None:
    """Return a run as `read` does; None if it has more than `FEW` facts."""
    own = own_row(transaction, run_id)
    return _stored(transaction, own, after) if own.record.seq <= FEW else None


def newest(transaction: Transaction, thread: str, most: int | None = None) -> Stored | None:
    """Return the newest run of a thread; None if there is no such thread, or the run has more than `most` facts."""
    row = transaction.row(NEWEST, thread=thread) if type(thread) is str and holds(thread) else None
    own = None if row is None else _own(row)
    return None if own is None or (most is not None and own.record.seq > most) else _stored(transaction, own, 0)


def _stored(transaction: Transaction, own: Own, after: int) -> Stored:
    record = own.record
    rows = checked(transaction, own, min(max(after, 0), record.seq))
    _see_that_its_lease_is_one(record, own.fence)
    context = _context(own)
    facts = [] if record.erased is not None else facts_of(transaction, record.id, own.number, rows)
    return Stored(record=record, facts=facts, context=context, fence=own.fence)


def _see_that_its_lease_is_one(record: RunRecord, fence: Any) -> None:
    """Raise `UnreadableState` if no lease can follow: a fence that no fact can hold would spoil the journal."""
    if not (type(fence) is int and 0 <= fence < HIGHEST_FENCE and type(record.until) in (int, NoneType)):
        raise UnreadableState(f"The lease in the record of run {record.id!r} is damaged.")


def _context(own: Own) -> SavedContext:
    """Return the context; raise `UnreadableState` unless its hash is the head's."""
    body, kind, run = own.body, own.kind, own.record.id
    text = isinstance(body, bytes | memoryview | None) and isinstance(kind, str | None)
    saved = SavedContext(None if body is None else as_bytes(body), kind) if text else None
    if saved is None or context_mark(saved) != head_of(run, own.head).context:
        raise UnreadableState(f"The context of run {run!r} is not what was written.")
    return saved


def lines(transaction: Transaction, run_id: str) -> list[Entry]:
    """Return the journal rows of a run with their hashes."""
    rows = checked(transaction, own_row(transaction, run_id), 0)
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


def own_row(transaction: Transaction, run_id: str) -> Own:
    """Return a run's own row; raise `RunNotFound` or `UnreadableState`."""
    row = transaction.row(READ, run=run_id) if type(run_id) is str and holds(run_id) else None
    if row is None:
        raise missing(run_id)
    return _own(row)


def _own(row: tuple[Any, ...]) -> Own:
    record = record_from(row)
    if type(record.seq) is not int or type(record.erased) not in (int, NoneType):
        raise UnreadableState(f"The record of run {record.id!r} is damaged.")
    return Own(record, *row[len(RECORD) :])


def record_from(row: tuple[Any, ...]) -> RunRecord:
    """Return the record in the first columns of a row."""
    return RunRecord(**dict(zip(RunRecord.__struct_fields__, row, strict=False)))


def checked(transaction: Transaction, own: Own, after: int) -> list[Row]:
    """Return the rows after the first `after`; raise `UnreadableState` at the first damaged row."""
    record, rows = own.record, transaction.rows(ROWS, run=own.number, after=after)
    return chained(record.id, rows, after, record.seq, head_of(record.id, own.head), record.erased)


def chained(
    run: str, rows: list[tuple[Any, ...]], after: int, last: int, head: Head | None, erased: int | None
) -> list[Row]:
    """Check that rows (seq, at, fact, prev_hash) are complete, in order and undamaged, and return them.

    The hash of a row is in the next row, and the hash of the last row in the run's head. With `head` None the last
    row's hash is unknown and not checked.
    """
    _see_that_none_is_missing(run, rows, after, last)
    end = None if head is None else head.hash
    before = START if after == 0 else (rows[0][3] if rows else end)
    if rows and rows[0][3] != before:
        raise UnreadableState(f"Fact {after + 1} of run {run!r} is damaged: nothing can have come before it.")
    made: list[Row] = []
    for (seq, at, fact, _), next_hash in zip(rows, [*(row[3] for row in rows[1:]), end], strict=False):
        text = _text(run, seq, at, fact)
        if erased is not None and is_erased(text):
            before = next_hash
        else:
            before = link(before or START, run, seq, text)
            if next_hash is not None and before != next_hash:
                place = "the run's record" if seq == last else f"fact {seq + 1}"
                raise UnreadableState(
                    f"Fact {seq} of run {run!r} is not what was written: its hash is not the one in {place}."
                )
        made.append(Row(seq, at, text, before or START))
    if head is not None and after == 0:
        _see_that_it_tallies(run, made, head, erased)
    return made


def _see_that_none_is_missing(run: str, rows: list[tuple[Any, ...]], after: int, last: int) -> None:
    for expected in range(after + 1, last + 1):
        if expected - after > len(rows) or rows[expected - after - 1][0] != expected:
            raise UnreadableState(f"Fact {expected} of run {run!r} is missing.")
    if after + len(rows) > last:
        seq = rows[last - after][0]
        raise UnreadableState(f"Run {run!r} has {last} facts, and fact {seq} was not written by its store.")


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
    payloads = transaction.rows(BLOBS, run=number) if any(has_blobs(row.text) for row in rows) else []
    kept = {as_bytes(hash).hex(): as_bytes(body) for hash, body in payloads}
    return [unpack(run, row.seq, row.text, kept) for row in rows]
