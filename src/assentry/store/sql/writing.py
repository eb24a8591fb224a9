"""Appending a change: the statements that compare it with the run, and write its facts and records."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Table, bindparam, delete, insert, select, update
from sqlalchemy.dialects.postgresql import Insert
from sqlalchemy.dialects.postgresql import insert as insert_new  # its ON CONFLICT is the same in SQLite

from ...errors import Overtaken, RunNotFound, StoreFailed
from ..record import Change, GrantRecord, Question, SavedContext, Settled
from ..row_codec import FIRST, Head, context_mark, head_of, link, pack, tallied
from ..rules import RunRow, check_append, is_driven, lease_after
from .chapter import add_chapter
from .outbox import write_messages
from .schema import blobs, chapters, contexts, definitions, grants, journal, questions, runs
from .seal import asked_seal, ended_seal, is_sealed
from .standing import use
from .statement import Statement, Transaction
from .stopping import look_at_stops

_json = msgspec.json.Encoder().encode

RECORDED = ("agent", "status", "thread", "seq", "began", "changed", "wake", "waiting", "started_by", "caller")
"""The columns of a run's own row that come from its record; the store sets the others."""

# SQLite has no FOR UPDATE, and SQLAlchemy leaves it out; the transaction's write lock does the same.
FIND = Statement(
    select(runs.c.id, runs.c.seq, runs.c.head, runs.c.fence, runs.c.worker, runs.c.until, runs.c.erased, runs.c.status)
    .where(runs.c.run == bindparam("run"))
    .with_for_update()
)


def _new(table: Table, *without: str) -> Insert:
    """Return the insert of a row with all columns but these, unless the row exists."""
    values: dict[str, Any] = {column.key: bindparam(column.key) for column in table.c if column.key not in without}
    return insert_new(table).values(values).on_conflict_do_nothing()


def _set(table: Table, *columns: str) -> Statement:
    """Return the update of these columns of a question or a grant."""
    row = (table.c.id == bindparam("of_id"), table.c.run == bindparam("of_run"))
    return Statement(update(table).where(*row).values({name: bindparam(name) for name in columns}))


BEGIN = Statement(_new(runs, "id").returning(runs.c.id))
ADD = Statement(insert(journal))
KEEP_BLOB = Statement(_new(blobs))
DEFINE = Statement(_new(definitions))
ASK = Statement(_new(questions))
SETTLE = _set(questions, "verdict", "by", "decided", "shown", "looked", "ended_seal")
WITNESS = _set(questions, "evidence")
RESEAL = _set(questions, "asked_seal")
QUESTIONS_OF = Statement(select(questions).where(questions.c.run == bindparam("of_run")))
GRANT = Statement(insert(grants))
USE = _set(grants, "used")
REVOKE = _set(grants, "revoked", "revoked_by")
FORGET = {
    table: Statement(delete(table).where(table.c.run == bindparam("run")))
    for table in (journal, blobs, chapters, contexts, questions, grants)
}
"""The statements that delete a run's rows of a table."""
KEEP_CONTEXT = Statement(insert(contexts))


ALWAYS = ("seq", "wake", "waiting", "head")
"""The columns of a run's own row that every change writes."""


@functools.cache
def advance(columns: tuple[str, ...]) -> Statement:
    """Return the update of these columns of a run's own row."""
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    return Statement(update(runs).where(runs.c.id == bindparam("number")).values(values))


class LockedRun(NamedTuple):
    """A run's own row, locked for the transaction."""

    id: int
    seq: int
    head: bytes
    fence: int
    worker: str | None
    until: int | None
    erased: int | None
    status: str

    @property
    def row(self) -> RunRow:
        """The values that the rules of appends and leases compare."""
        return RunRow(self.seq, self.fence, self.worker, self.until, self.erased)


def append(transaction: Transaction, change: Change, now: int, known: set[str]) -> bool:
    """Write a change; return True if the run may be claimed now. `known` are the definitions already stored."""
    ready = _begin(transaction, change, now) if change.seq == 0 else _go_on(transaction, change, now)
    define(transaction, change.definitions, known)
    return ready


def define(transaction: Transaction, definitions: Mapping[str, bytes], known: set[str]) -> None:
    """Write definitions of tools; `known` are those that are stored already."""
    fresh = [{"fingerprint": name, "body": text} for name, text in definitions.items() if name not in known]
    if fresh:
        fresh.sort(key=lambda row: str(row["fingerprint"]))  # a fixed order prevents deadlocks
        transaction.many(DEFINE, fresh)


def _begin(transaction: Transaction, change: Change, now: int) -> bool:
    texts, hashes, kept, head = linked(change, FIRST)
    row = row_after(None, change, now, head)
    check_stops = look_at_stops(transaction, change)
    found = transaction.row(BEGIN, **row)
    if found is None:
        check_append(locked(transaction, change.record.id).row, change, now)  # the run exists, so this raises
        raise Overtaken(f"There is a run {change.record.id!r} already; load it.")
    check_stops()
    _write(transaction, found[0], change, texts, hashes, kept)
    return is_ready(row, now)


def _go_on(transaction: Transaction, change: Change, now: int) -> bool:
    check_stops = look_at_stops(transaction, change)
    run = locked(transaction, change.record.id)
    check_append(run.row, change, now)
    check_stops()
    texts, hashes, kept, head = linked(change, head_of(change.record.id, run.head))
    row = row_after(run, change, now, head)
    before = run._asdict()  # a column that stays as it was is left out, since SQLite would write its indexes again
    same = {name for name in before if name not in ALWAYS and row.get(name) == before[name]}
    changed = {name: value for name, value in row.items() if name not in same}
    transaction.execute(advance(tuple(changed)), number=run.id, **changed)
    _write(transaction, run.id, change, texts, hashes, kept)
    return is_ready(row, now)


def row_after(run: LockedRun | None, change: Change, now: int, head: Head) -> dict[str, Any]:
    """Return the columns of a run's own row that a change writes; `run` is the row before, None for a new run."""
    record = change.record
    names = RECORDED if run is None else ("status", "changed", *ALWAYS[:-1])
    row = {name: getattr(record, name) for name in names} | {"head": head.packed()}
    row |= lease_after(None if run is None else run.row, change, now)._asdict()
    if run is None:
        row |= {"run": record.id, "failures": 0, "error": None, "erased": None}
    elif change.lease is not None and change.release:
        row |= {"failures": 0, "error": None}
    if run is not None and not change.facts:
        del row["changed"]
    return row


def is_ready(row: Mapping[str, Any], now: int) -> bool:
    """Return True if a run with this row of its own may be claimed, now or later."""
    return row["wake"] is not None and not is_driven(row["worker"], row["until"], now)


def locked(transaction: Transaction, run_id: str) -> LockedRun:
    """Return a run's own row, locked until the transaction ends; raise `RunNotFound` if there is none."""
    row = transaction.row(FIND, run=run_id)
    if row is None:
        raise run_not_found(run_id)
    return LockedRun(*row)


def run_not_found(run_id: object) -> RunNotFound:
    """Return the error for a run that does not exist."""
    return RunNotFound(f"The store has no run {run_id!r:.80}.")


def linked(change: Change, head: Head) -> tuple[list[bytes], list[bytes], dict[str, bytes], Head]:
    """Return the texts of the facts, the hash before each, the blobs, and the head after them."""
    texts: list[bytes] = []
    hashes: list[bytes] = []
    kept: dict[str, bytes] = {}
    hash, tally, context = head
    for seq, fact in enumerate(change.facts, change.seq + 1):
        text, large = pack(fact)
        texts.append(text)
        hashes.append(hash)
        if large:
            kept |= large
        hash = link(hash, change.record.id, seq, text)
        tally = tallied(tally, hash, seq, change.record.changed)
    if change.context is not None:
        context = context_mark(change.context)
    return texts, hashes, kept, Head(hash, tally, context)


def _write(
    transaction: Transaction,
    number: int,
    change: Change,
    texts: list[bytes],
    hashes: list[bytes],
    kept: dict[str, bytes],
) -> None:
    at, facts = change.record.changed, enumerate(zip(texts, hashes, strict=True), change.seq + 1)
    transaction.many(
        ADD,
        [
            {"run": number, "seq": seq, "at": at, "fact": text.decode(), "prev_hash": before}
            for seq, (text, before) in facts
        ],
    )
    if kept:
        transaction.many(
            KEEP_BLOB, [{"run": number, "hash": bytes.fromhex(name), "body": body} for name, body in kept.items()]
        )
    if change.chapter is not None:
        add_chapter(transaction, number, change, texts, hashes)
    if change.context is not None:
        transaction.execute(FORGET[contexts], run=number)
        if change.context != SavedContext():
            transaction.execute(KEEP_CONTEXT, run=number, body=change.context.json, kind=change.context.kind)
    if any((change.asked, change.settled, change.evidence, change.granted, change.used, change.revoked)):
        project(transaction, number, change)
    if change.asked or change.settled:
        write_messages(transaction, change)
    if change.standing:
        use(transaction, change.standing)


def project(transaction: Transaction, number: int, change: Change) -> None:
    """Write a change's questions and grants."""
    for question in change.asked:
        if not transaction.do(ASK, **columns_of(number, question)):
            raise StoreFailed(f"There is a question {question.id!r} already; nothing was written.")
    for settled in change.settled:
        transaction.execute(SETTLE, of_id=settled.id, of_run=number, **end_of(settled))
    if change.evidence:
        sound = sealed_questions(transaction, number, change.record.id)
        for id, evidence in change.evidence.items():
            transaction.execute(WITNESS, of_id=id, of_run=number, evidence=text_of(evidence))
        seal_again(transaction, number, change.record.id, sound)
    if change.granted:
        transaction.many(GRANT, [columns_of(number, grant) for grant in change.granted])
    for id, used in change.used.items():
        transaction.execute(USE, of_id=id, of_run=number, used=used)
    for taken in change.revoked:
        transaction.execute(REVOKE, of_id=taken.id, of_run=number, revoked=taken.at, revoked_by=taken.by)


def sealed_questions(transaction: Transaction, number: int, run: str) -> set[str]:
    """Return the ids of a run's questions whose rows are not damaged."""
    return {row["id"] for row in _questions_of(transaction, number, run) if is_sealed(row)}


def seal_again(transaction: Transaction, number: int, run: str, ids: set[str]) -> None:
    """Recompute the seals of these questions. The caller leaves damaged questions out, so that they stay marked."""
    for row in _questions_of(transaction, number, run):
        if row["id"] in ids:
            transaction.execute(RESEAL, of_id=row["id"], of_run=number, asked_seal=asked_seal(row))


def _questions_of(transaction: Transaction, number: int, run: str) -> list[dict[str, Any]]:
    rows = transaction.rows(QUESTIONS_OF, of_run=number)
    return [dict(zip(questions.c.keys(), row, strict=True), run=run) for row in rows]


def end_of(settled: Settled) -> dict[str, Any]:
    """Return the columns of a question's end."""
    end = {"verdict": settled.verdict, "by": settled.by, "decided": settled.at, "shown": settled.shown}
    end["looked"] = settled.looked
    return {**end, "ended_seal": ended_seal({"id": settled.id, **end})}


JSON = ("allowed", "path", "prompt", "schema", "evidence", "pins", "preview", "reviewers", "redact")
"""The columns of questions and grants that hold JSON."""


def columns_of(number: int, record: Question | GrantRecord) -> dict[str, Any]:
    """Return the columns of a question's or a grant's row."""
    values = msgspec.structs.asdict(record)
    for name in JSON:
        if values.get(name) is not None:
            values[name] = text_of(values[name])
    if type(record) is Question:
        for name in ("evidence", "reviewers", "redact"):
            values[name] = values[name] if getattr(record, name) else None
        values |= {"asked_seal": asked_seal(values), "ended_seal": ended_seal(values)}
    return values | {"run": number}


def text_of(value: Any) -> str:
    """Encode a value as JSON text."""
    return _json(value).decode()
