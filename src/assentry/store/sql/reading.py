"""Reading a run, and checking its facts against the hash chain."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import NoneType
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, and_, bindparam, func, literal, or_, select, true

from ...core.facts import AnyFact
from ...core.snapshot import NOTHING_BEFORE, is_long
from ...core.wording import holds
from ...errors import UnreadableState
from ..chain import ExactJournal, JournalRow, check_chain, check_row
from ..record import MARK, Entry, RunRecord, SavedContext, Stored
from ..row_codec import blob_names, context_mark, has_blobs, head_of, unpack
from .chapter import Place, as_bytes, compare_chapters, recent
from .schema import blobs, contexts, definitions, journal, runs
from .statement import PositionOf, Statement, Transaction
from .writing import run_not_found

RECORD = (runs.c.run, *(runs.c[name] for name in RunRecord.__struct_fields__ if name != "id"))
"""The columns of a run's record, in the order of the record's fields."""

FEW = 500
"""The most facts of a run that an event loop reads itself, which is faster than a thread.

A longer run would block the event loop too long.
"""
LONG = 20
"""The number of times longer that a run may be which goes on from a snapshot: the facts before it are not decoded."""

MOST_AT_ONCE = 100
"""The most runs whose histories one statement reads."""

HIGHEST_FENCE = 2**63 - 1
"""No lease can come after it."""

_FOUND = select(*RECORD, runs.c.fence, runs.c.id, runs.c.head, contexts.c.body, contexts.c.kind).outerjoin_from(
    runs, contexts, contexts.c.run == runs.c.id
)
READ = Statement(_FOUND.where(runs.c.run == bindparam("run")))
# Runs are numbered in the order of their creation, and a thread's next run is created after the one before.
_last = select(func.max(runs.c.id)).where(runs.c.thread == bindparam("thread")).scalar_subquery()
NEWEST = Statement(_FOUND.where(runs.c.id == _last))
_ROWS = (
    select(journal.c.seq, journal.c.at, journal.c.fact, journal.c.prev_hash)
    .where(journal.c.run == bindparam("run"), journal.c.seq > bindparam("after"))
    .order_by(journal.c.seq)
)
ROWS = Statement(_ROWS)
SOME_ROWS = Statement(_ROWS.where(journal.c.seq <= bindparam("upto")))
BLOBS = Statement(select(blobs.c.hash, blobs.c.body).where(blobs.c.run == bindparam("run")))
BLOB = Statement(
    select(blobs.c.hash, blobs.c.body).where(blobs.c.run == bindparam("run"), blobs.c.hash == bindparam("hash"))
)
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


def read(transaction: Transaction, run_id: str, after: int) -> Stored:
    """Return a run with all facts but the first `after`. An erased run has no facts."""
    return _stored(transaction, own_row(transaction, run_id), after)


def read_short(transaction: Transaction, run_id: str, after: int) -> Stored | None:
    """Return a run as `read` does; None if it has more than `FEW` facts."""
    own = own_row(transaction, run_id)
    return _stored(transaction, own, after) if own.record.seq <= FEW else None


def load_run(transaction: Transaction, run_id: str, *, whole: bool = True, most: int | None = None) -> Stored | None:
    """Return a run as it goes on from its newest snapshot; None if more than `most` facts come after it.

    Without `whole` the facts before the snapshot are not read, and nobody may look at them.
    """
    return _loaded(transaction, own_row(transaction, run_id), whole, most)


def newest(transaction: Transaction, thread: str, most: int | None = None) -> Stored | None:
    """Return the newest run of a thread, as `load_run` does; None too if there is no such thread."""
    row = transaction.row(NEWEST, thread=thread) if type(thread) is str and holds(thread) else None
    return None if row is None else _loaded(transaction, _own(row), True, most)


def newest_short(transaction: Transaction, thread: str, most: int) -> tuple[Stored | None] | None:
    """Return the newest run of a thread, or that there is none; None if the run is too long to be read at once."""
    found = newest(transaction, thread, most)
    there = (
        found is None and type(thread) is str and holds(thread) and transaction.row(NEWEST, thread=thread) is not None
    )
    return None if there else (found,)


def _loaded(transaction: Transaction, own: Own, whole: bool, most: int | None) -> Stored | None:
    record = own.record
    if most is not None and record.seq > most * LONG:
        return None
    may = is_long(record.seq) and record.erased is None
    late = recent(transaction, _place(own), whole=whole) if may else None
    if late is None and most is not None and record.seq > most:
        return None
    if late is None:
        return replace(_stored(transaction, own, 0), before=NOTHING_BEFORE)
    if most is not None and len(late.tail) > most:
        return None
    _check_lease(record, own.fence)
    kept = _blobs(transaction, own.number, [*late.counting, *late.tail], few=True)
    facts = {row.seq: unpack(record.id, row.seq, row.text, kept) for row in (*late.counting, *late.tail)}
    before = late.restored(facts)
    tail = before.facts([facts[row.seq] for row in late.tail])
    context, head = _context(own), head_of(record.id, own.head).hash
    return Stored(record=record, facts=tail, context=context, fence=own.fence, before=before, head=head)  # type: ignore[arg-type]


def _place(own: Own) -> Place:
    return Place(own.record.id, own.number, own.record.seq, head_of(own.record.id, own.head))


def chapters_differ(transaction: Transaction, run_id: str) -> list[str]:
    """Compare a run's snapshots with its journal, and return one sentence for each difference."""
    own = own_row(transaction, run_id)
    if own.record.erased is not None:
        return []
    rows = check_rows(transaction, own, 0)
    return compare_chapters(transaction, _place(own), rows, facts_of(transaction, run_id, own.number, rows))


def _stored(transaction: Transaction, own: Own, after: int) -> Stored:
    record = own.record
    rows = check_rows(transaction, own, min(max(after, 0), record.seq))
    _check_lease(record, own.fence)
    context = _context(own)
    facts = [] if record.erased is not None else facts_of(transaction, record.id, own.number, rows)
    head = head_of(record.id, own.head).hash
    return Stored(record=record, facts=facts, context=context, fence=own.fence, head=head)


def _check_lease(record: RunRecord, fence: Any) -> None:
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


def history(
    transaction: Transaction,
    run_id: str,
    after: int = 0,
    limit: int | None = None,
    kinds: Mapping[str, str] | None = None,
    payloads: bool = False,
) -> list[Entry]:
    """Return journal rows of a run with their hashes; see `Store.history`."""
    own = own_row(transaction, run_id)
    after = min(max(after, 0), own.record.seq)
    if kinds is None:
        rows = check_rows(transaction, own, after, limit)
    else:
        rows = _rows_of_kinds(transaction, own, after, kinds)[:limit]
    kept = _blobs(transaction, own.number, rows, few=True) if payloads and own.record.erased is None else None
    return [Entry(row.seq, row.at, _fact_as_json(run_id, row, kept), row.hash.hex()) for row in rows]


def histories(transaction: Transaction, run_ids: Collection[str]) -> dict[str, list[Entry]]:
    """Return the whole histories of runs, without those that are not there or damaged; see `Store.histories`."""
    ids = sorted({each for each in run_ids if type(each) is str and holds(each)})
    found: dict[str, list[Entry]] = {}
    for start in range(0, len(ids), MOST_AT_ONCE):
        some = ids[start : start + MOST_AT_ONCE]
        own_rows = transaction.rows(_own_of_some(len(some)), **{f"run{n}": run_id for n, run_id in enumerate(some)})
        numbers = {f"run{n}": each[-2] for n, each in enumerate(own_rows)}
        rows: dict[Any, list[tuple[Any, ...]]] = {number: [] for number in numbers.values()}
        for number, *row in transaction.rows(_rows_of_some(len(numbers)), **numbers) if numbers else ():
            rows[number].append(tuple(row))
        for each in own_rows:
            with suppress(UnreadableState):
                own = _own((*each, None, None))
                found[own.record.id] = _whole_history(own, rows[own.number])
    return found


def _whole_history(own: Own, rows: list[tuple[Any, ...]]) -> list[Entry]:
    record = own.record
    checked = check_chain(record.id, rows, 0, record.seq, head_of(record.id, own.head), record.erased)
    return [Entry(row.seq, row.at, _fact_as_json(record.id, row, None), row.hash.hex()) for row in checked]


@functools.cache
def _own_of_some(count: int) -> Statement:
    """Return the query of the own rows of so many runs, without their contexts."""
    found = select(*RECORD, runs.c.fence, runs.c.id, runs.c.head)
    return Statement(found.where(runs.c.run.in_([bindparam(f"run{number}") for number in range(count)])))


@functools.cache
def _rows_of_some(count: int) -> Statement:
    """Return the query of all journal rows of so many runs, by their numbers."""
    found = select(journal.c.run, journal.c.seq, journal.c.at, journal.c.fact, journal.c.prev_hash)
    wanted = journal.c.run.in_([bindparam(f"run{number}") for number in range(count)])
    return Statement(found.where(wanted).order_by(journal.c.run, journal.c.seq))


def _fact_as_json(run: str, row: JournalRow, kept: Mapping[str, bytes] | None) -> dict[str, Any]:
    if kept is not None and has_blobs(row.text):
        return msgspec.json.decode(msgspec.json.encode(unpack(run, row.seq, row.text, kept)), type=dict[str, Any])
    return msgspec.json.decode(row.text, type=dict[str, Any])


def _rows_of_kinds(transaction: Transaction, own: Own, after: int, kinds: Mapping[str, str]) -> list[JournalRow]:
    """Return the rows of these kinds; raise `UnreadableState` if one is damaged."""
    texts = {f"text{number}": text for number, text in enumerate(kinds.values()) if text}
    query = _of_kinds(tuple((kind, bool(text)) for kind, text in kinds.items()))
    record, head = own.record, head_of(own.record.id, own.head)
    return [
        check_row(
            record.id,
            (seq, at, fact, as_bytes(before)),
            head.hash if following is None else as_bytes(following),
            record.seq,
            record.erased,
        )
        for seq, at, fact, before, following in transaction.rows(query, run=own.number, after=after, **texts)
    ]


@functools.cache
def _of_kinds(kinds: tuple[tuple[str, bool], ...]) -> Statement:
    """Return the query of the rows of these kinds, and of the hash in the row after each.

    A row without its payload, which is a blob or was erased, begins with something else than its kind. Its text is not
    looked at. The beginnings are compared first: that is enough for nearly all rows.
    """
    fact, following = journal.c.fact, journal.alias()
    is_part = func.substr(fact, 1, 9) != '{"fact":"'
    wanted: list[ColumnElement[bool]] = []
    for number, (kind, has_text) in enumerate(kinds):
        begins = f'{{"fact":"{kind}"' if kind else '{"fact":'
        held = PositionOf(fact, bindparam(f"text{number}")) > 0 if has_text else true()
        wanted.append(and_(func.substr(fact, 1, len(begins)) == begins, held))
        wanted.append(and_(is_part, PositionOf(fact, begins[1:]) > 0))
    beginnings = sorted({f'{{"fact":"{kind[:3]}' for kind, _ in kinds})
    may_be = or_(func.substr(fact, 1, 12).in_([literal(each) for each in beginnings]), is_part)
    may_be = true() if "" in dict(kinds) else may_be
    after = and_(following.c.run == journal.c.run, following.c.seq == journal.c.seq + 1)
    return Statement(_ROWS.add_columns(following.c.prev_hash).outerjoin(following, after).where(may_be, or_(*wanted)))


def journal_of(transaction: Transaction, run_id: str) -> ExactJournal:
    """Return a run's journal to the letter."""
    own = own_row(transaction, run_id)
    rows, head = check_rows(transaction, own, 0), head_of(run_id, own.head)
    return ExactJournal(run_id, rows, head, own.record.erased, _blobs(transaction, own.number, rows))


def find_definition(transaction: Transaction, fingerprint: str) -> bytes | None:
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
        raise run_not_found(run_id)
    return _own(row)


def _own(row: tuple[Any, ...]) -> Own:
    record = record_from(row)
    if type(record.seq) is not int or type(record.erased) not in (int, NoneType):
        raise UnreadableState(f"The record of run {record.id!r} is damaged.")
    return Own(record, *row[len(RECORD) :])


def record_from(row: tuple[Any, ...]) -> RunRecord:
    """Return the record in the first columns of a row."""
    return RunRecord(**dict(zip(RunRecord.__struct_fields__, row, strict=False)))


def check_rows(transaction: Transaction, own: Own, after: int, limit: int | None = None) -> list[JournalRow]:
    """Return the rows after the first `after`, at most `limit`; raise `UnreadableState` at the first damaged row."""
    record = own.record
    upto = record.seq if limit is None else after + limit
    if upto >= record.seq:
        rows = transaction.rows(ROWS, run=own.number, after=after)
        return check_chain(record.id, rows, after, record.seq, head_of(record.id, own.head), record.erased)
    rows = transaction.rows(SOME_ROWS, run=own.number, after=after, upto=upto + 1)  # the next has the last one's hash
    return check_chain(record.id, rows, after, upto + 1, None, record.erased)[:-1]


def facts_of(transaction: Transaction, run: str, number: int, rows: list[JournalRow]) -> list[AnyFact]:
    """Return the facts of checked rows."""
    kept = _blobs(transaction, number, rows)
    return [unpack(run, row.seq, row.text, kept) for row in rows]


def _blobs(transaction: Transaction, number: int, rows: list[JournalRow], *, few: bool = False) -> dict[str, bytes]:
    """Return the blobs of a run by their hashes, if its rows have any; with `few`, only those of these rows."""
    large = [row for row in rows if has_blobs(row.text)]
    if few:
        names = {bytes.fromhex(name) for row in large for name in blob_names(row.text)}
        payloads = [found for name in names for found in transaction.rows(BLOB, run=number, hash=name)]
    else:
        payloads = transaction.rows(BLOBS, run=number) if large else []
    return {as_bytes(hash).hex(): as_bytes(body) for hash, body in payloads}
