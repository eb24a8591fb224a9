"""Chapters: the snapshots of a long run, so that a decision and a drive need not fold the whole journal.

A chapter is derived from the journal and never the authority. It is written with the change that ends it, bound to the
run, the number of facts, the journal's hash there and the form of the snapshot, and checked when it is used. What does
not fit is not used: the whole journal is read instead, and the next chapter replaces all that do not fit.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, insert, select

from ...core.facts import AnyFact
from ...core.fold import fold
from ...core.run import Run
from ...core.snapshot import (
    EMPTY,
    Chapter,
    Past,
    Restored,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    hash_bodies,
    mark,
    same_chapter,
    take_chapter,
)
from ...errors import IllegalFact
from ..chain import JournalRow, check_chain
from ..record import Change
from ..row_codec import Head, link
from .schema import chapters, journal
from .statement import Statement, Transaction

_OF_RUN = chapters.c.run == bindparam("run")
_STATE = (chapters.c.seq, chapters.c.hash, chapters.c.snapshot, chapters.c.seal)
LAST = Statement(select(*_STATE).where(_OF_RUN).order_by(chapters.c.seq.desc()).limit(1))
ALL = Statement(select(*_STATE, chapters.c.body).where(_OF_RUN).order_by(chapters.c.seq), binary=True)
ADD_CHAPTER = Statement(insert(chapters))
HASH_BEFORE = Statement(
    select(journal.c.prev_hash).where(journal.c.run == bindparam("run"), journal.c.seq == bindparam("seq"))
)
SEQ = Statement(select(chapters.c.seq).where(_OF_RUN, chapters.c.seq == bindparam("seq")))
REPLACE = Statement(delete(chapters).where(_OF_RUN, chapters.c.seq > bindparam("before")))

MOST_COUNTING = 500
"""The most facts that a snapshot may count on; with more, the whole journal is read. Databases limit parameters."""


def seal_of(run: str, hash: bytes, snapshot: bytes) -> str:
    """Return the seal of a chapter: it binds the snapshot to the run, and to the journal's hash at its last fact."""
    return sha256(b"%s\n%s\n%s" % (run.encode(), hash, snapshot)).hexdigest()


def add_chapter(transaction: Transaction, number: int, change: Change, texts: list[bytes], hashes: list[bytes]) -> None:
    """Write a change's chapter, instead of all that are not before it. It may end before the change.

    Without facts the change has no hash to bind the chapter to, so the chapter is not kept. Nor is it if the chapter
    before is gone, because the run was rebuilt meanwhile: the facts between would be missing.
    """
    chapter = change.chapter
    if chapter is None or not texts:
        return
    run, seq, before = change.record.id, chapter.snapshot.seq, chapter.snapshot.before
    if before and transaction.row(SEQ, run=number, seq=before) is None:
        return
    place, text = seq - change.seq, encode_snapshot(chapter.snapshot)
    if place < 0:
        found = transaction.row(HASH_BEFORE, run=number, seq=seq + 1)
        hash = as_bytes(found[0]) if found is not None else b""
    else:
        hash = hashes[place] if place < len(hashes) else link(hashes[-1], run, seq, texts[-1])
    transaction.execute(REPLACE, run=number, before=before)
    transaction.execute(
        ADD_CHAPTER,
        run=number,
        seq=seq,
        hash=hash,
        snapshot=text.decode(),
        seal=seal_of(run, hash, text),
        body=chapter.body,
    )


# -- reading -----------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A run to look up: its id and number, its number of facts, and the end of its chain."""

    run: str
    number: int
    last: int
    head: Head


class Recent(NamedTuple):
    """The snapshot to go on from, and the rows of the journal that it needs: those that count, and those after it."""

    snapshot: Snapshot
    past: Past
    counting: list[JournalRow]
    tail: list[JournalRow]

    def restored(self, facts: Mapping[int, AnyFact]) -> Restored:
        """Return what a run is restored from, given the facts of the rows that count, by number."""
        return Restored(self.snapshot, {row.seq: facts[row.seq] for row in self.counting}, self.past)


def recent(transaction: Transaction, place: Place, *, whole: bool) -> Recent | None:
    """Return the newest snapshot of a run and the rows after it; None if there is none that fits the journal.

    With `whole` the past can be looked at.
    """
    found = transaction.rows(ALL if whole else LAST, run=place.number)
    last = _snapshot(place, found[-1]) if found else None
    if last is None:
        return None
    snapshot, hash = last
    bodies = [as_bytes(row[4]) for row in found] if whole else None
    if bodies is not None and hash_bodies(bodies) != snapshot.bodies:
        return None
    numbers = snapshot.numbers()
    if len(numbers) > MOST_COUNTING:
        return None
    places = _named(numbers)
    rows = transaction.rows(_needed(len(places)), run=place.number, after=snapshot.seq, **places)
    tail = [row for row in rows if row[0] > snapshot.seq]
    counting = _check_rows(place, {row[0]: row for row in rows}, numbers, hash)
    if counting is None or as_bytes(tail[0][3] if tail else place.head.hash) != hash:
        return None
    return Recent(
        snapshot, Past(bodies), counting, check_chain(place.run, tail, snapshot.seq, place.last, place.head, None)
    )


def _snapshot(place: Place, row: tuple[Any, ...]) -> tuple[Snapshot, bytes] | None:
    """Return the snapshot of a chapter's row, and the journal's hash there; None if the row is not what was written."""
    seq, hash, text, seal, *_ = row
    if type(text) is not str or not isinstance(hash, bytes | memoryview):
        return None
    data = text.encode("utf-8", "surrogateescape")
    snapshot = decode_snapshot(data) if seal == seal_of(place.run, bytes(hash), data) else None
    return None if snapshot is None or snapshot.seq != seq or seq > place.last else (snapshot, bytes(hash))


@functools.cache
def _needed(count: int) -> Statement:
    """Return the query of the rows after a snapshot, and of `count` rows before it."""
    places: list[Any] = [bindparam(f"row{number}") for number in range(count)]
    rows = select(journal.c.seq, journal.c.at, journal.c.fact, journal.c.prev_hash)
    of_run = rows.where(journal.c.run == bindparam("run"))
    after, counting = of_run.where(journal.c.seq > bindparam("after")), of_run.where(journal.c.seq.in_(places))
    return Statement(after.union(counting).order_by("seq"))


def _named(numbers: list[int]) -> dict[str, int]:
    """Return the numbers of rows, and of the row after each, as parameters: 8 of them, or 16, 32, ..."""
    every = [seq + more for seq in numbers for more in (0, 1)]
    every += every[-1:] * ((1 << max(3, (len(every) - 1).bit_length())) - len(every))
    return {f"row{place}": seq for place, seq in enumerate(every)}


def _check_rows(
    place: Place, rows: Mapping[int, tuple[Any, ...]], numbers: list[int], end: bytes
) -> list[JournalRow] | None:
    """Return these rows; None unless the hash of each is in the row after it."""
    made: list[JournalRow] = []
    for seq in numbers:
        row, after = rows.get(seq), rows.get(seq + 1)
        if row is None or type(row[2]) is not str:
            return None
        text = row[2].encode("utf-8", "surrogateescape")
        hash = link(as_bytes(row[3]), place.run, seq, text)
        if hash != (end if after is None else as_bytes(after[3])):
            return None
        made.append(JournalRow(seq, row[1], text, hash))
    return made


def as_bytes(value: Any) -> bytes:
    """Return bytes from their column. SQLite keeps any type in any column: what is none is found by its hash."""
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode("utf-8", "surrogateescape")


# -- comparing ---------------------------------------------------------------------------------------


def compare_chapters(transaction: Transaction, place: Place, rows: list[JournalRow], facts: list[AnyFact]) -> list[str]:
    """Return one sentence for each chapter that is not what the journal gives."""
    said: list[str] = []
    run, before = Run(), EMPTY
    for row in transaction.rows(ALL, run=place.number):
        found, body = _snapshot(place, row), as_bytes(row[4])
        if found is None or found[0].before != before.seq or found[0].bodies != hash_bodies([body], before.bodies):
            said.append(_unlike(place.run, row[0]))
            break
        snapshot, hash = found
        try:
            for fact in facts[before.seq : snapshot.seq]:
                fold(run, fact)
        except IllegalFact:
            break  # the journal itself is damaged; whoever compares the records with it says so
        derived = take_chapter(run, facts[before.seq : snapshot.seq], mark(run), before)
        same = derived is not None and same_chapter(Chapter(snapshot, body), derived)
        if hash != rows[snapshot.seq - 1].hash or not same:
            said.append(_unlike(place.run, snapshot.seq))
        before = snapshot
    return said


def _unlike(run: str, seq: Any) -> str:
    return (
        f"The snapshot at fact {seq} of run {run!r} is not what the journal gives. `assentry db rebuild` removes it; "
        "the run's next drive makes another."
    )
