"""The hash chain of a journal: rows are checked against it, wherever they were read. No I/O here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import UnreadableState
from .row_codec import START, Head, erased_tally, is_erased, link, tallied


class JournalRow(NamedTuple):
    """A row of a journal, with its own hash."""

    seq: int
    at: int
    text: bytes
    hash: bytes


class ExactJournal(NamedTuple):
    """A run's journal to the letter, as others need it to check the chain themselves."""

    run: str
    rows: list[JournalRow]
    head: Head
    erased: int | None
    blobs: dict[str, bytes]
    """The large payloads by their hashes."""


def check_chain(
    run: str, rows: list[tuple[Any, ...]], after: int, last: int, head: Head | None, erased: int | None
) -> list[JournalRow]:
    """Check that rows (seq, at, fact, prev_hash) are complete, in order and undamaged, and return them.

    The hash of a row is in the next row, and the hash of the last row in the run's head. With `head` None the last
    row's hash is unknown and not checked.
    """
    _check_none_is_missing(run, rows, after, last)
    end = None if head is None else head.hash
    before = START if after == 0 else (rows[0][3] if rows else end)
    if rows and rows[0][3] != before:
        raise UnreadableState(f"Fact {after + 1} of run {run!r} is damaged: nothing can have come before it.")
    made: list[JournalRow] = []
    for (seq, at, fact, _), next_hash in zip(rows, [*(row[3] for row in rows[1:]), end], strict=False):
        made.append(check_row(run, (seq, at, fact, before), next_hash, last, erased))
        before = made[-1].hash
    if head is not None and after == 0:
        _check_tally(run, made, head, erased)
    return made


def check_row(run: str, row: tuple[Any, ...], next_hash: bytes | None, last: int, erased: int | None) -> JournalRow:
    """Return a row (seq, at, fact, prev_hash); raise `UnreadableState` unless `next_hash` is its hash, or unknown."""
    seq, at, fact, before = row
    text = _text(run, seq, at, fact)
    if erased is not None and is_erased(text):
        return JournalRow(seq, at, text, next_hash or START)
    hash = link(before or START, run, seq, text)
    if next_hash is not None and hash != next_hash:
        place = "the run's record" if seq == last else f"fact {seq + 1}"
        raise UnreadableState(f"Fact {seq} of run {run!r} is not what was written: its hash is not the one in {place}.")
    return JournalRow(seq, at, text, hash)


def _check_none_is_missing(run: str, rows: list[tuple[Any, ...]], after: int, last: int) -> None:
    for expected in range(after + 1, last + 1):
        if expected - after > len(rows) or rows[expected - after - 1][0] != expected:
            raise UnreadableState(f"Fact {expected} of run {run!r} is missing.")
    if after + len(rows) > last:
        seq = rows[last - after][0]
        raise UnreadableState(f"Run {run!r} has {last} facts, and fact {seq} was not written by its store.")


def tally_of(rows: Sequence[JournalRow], erased: int | None) -> bytes:
    """Return the tally of all rows of a run. For an erased run it covers the redacted texts and the erasure time."""
    tally = START
    for row in rows:
        tally = tallied(tally, row.hash, row.seq, row.at, b"" if erased is None else row.text)
    return tally if erased is None else erased_tally(tally, erased)


def _check_tally(run: str, rows: list[JournalRow], head: Head, erased: int | None) -> None:
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
