"""Audit: the heads of runs, to find runs that were rewritten as a whole, and exports that anybody can check.

An export is JSON Lines: a line for each fact with its exact text and hash, a line at the end of each run, and one at
the end of the file. It is checked without any database.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import DecodeError, Struct, ValidationError

from ..core.number import is_count
from ..errors import UnreadableState, UsageError
from .chain import ExactJournal, JournalRow, check_chain
from .record import MOST, Entry
from .row_codec import START, Head, is_erased, tallied, unpack
from .standing import LOG, read_entry
from .store import Store

_encode = msgspec.json.Encoder().encode

# -- heads -------------------------------------------------------------------------------------------


class SavedHead(Struct, frozen=True):
    """The length and hash of a run's journal when its head was saved."""

    run: str
    facts: int
    hash: str
    """Hash of the facts up to this point, and of their times."""


def head_of_lines(run: str, entries: list[Entry]) -> SavedHead:
    """Make the head of these lines of a run. Erasing does not change the head."""
    tally = START
    for entry in entries:
        tally = tallied(tally, bytes.fromhex(entry.hash), entry.seq, entry.at)
    return SavedHead(run, len(entries), tally.hex())


def read_heads(path: Path) -> list[SavedHead]:
    """Read the heads that `assentry db verify --write` wrote; raise `UsageError` if it did not write the file."""
    try:
        return [msgspec.json.decode(line, type=SavedHead) for line in path.read_bytes().splitlines()]
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} was not written by `assentry db verify --write`: {error}") from None


class Heads:
    """Saved heads, to compare runs with.

    Args:
        heads: The heads.
        purged: True if a run that is gone may have been purged, and is no fault.
    """

    def __init__(self, heads: Iterable[SavedHead], *, purged: bool = False) -> None:
        self._left = {head.run: head for head in heads}
        self.given, self.purged = bool(self._left), purged

    def compared(self, run: str, entries: list[Entry]) -> list[str]:
        """Return the differences from the saved head of a run."""
        head = self._left.pop(run, None)
        if head is None:
            return []
        if len(entries) < head.facts:
            return [f"Run {run!r} has {len(entries)} facts, and had {head.facts} when its head was written down."]
        same = head_of_lines(run, entries[: head.facts]) == head
        return [] if same else [f"The first {head.facts} facts of run {run!r} are not those that were written down."]

    def missing(self) -> list[str]:
        """Return a sentence for each saved head whose run does not exist any more."""
        return [
            f"Run {head.run!r}, of {head.facts} facts, is not there: purged, or removed."
            for head in self._left.values()
            if not self.purged or head.run == LOG
        ]


async def runs_of(store: Store, run: str | None = None) -> AsyncIterator[str]:
    """Yield the ids of all runs, the oldest first, or only this one."""
    if run is not None:
        yield run
        return
    after: str | None = None
    while True:
        page = await store.runs(limit=MOST, after=after)
        for record in page.items:
            yield record.id
        if page.next is None:
            return
        after = page.next


async def heads_of(store: Store) -> tuple[list[SavedHead], list[str]]:
    """Return the heads of all runs, and a sentence for each run that is damaged and has none."""
    heads, damaged = [], []
    async for run in runs_of(store):
        try:
            heads.append(head_of_lines(run, _entries((await store.journal(run)).rows)))
        except UnreadableState as error:
            damaged.append(str(error))
    try:
        head = await head_of_log(store)
    except UnreadableState as error:
        damaged.append(str(error))
    else:
        heads += [] if head is None else [head]
    return heads, damaged


async def head_of_log(store: Store) -> SavedHead | None:
    """Return the head of the log of standing grants; None if it is empty."""
    entries = await log_entries(store)
    return head_of_lines(LOG, entries) if entries else None


async def log_entries(store: Store) -> list[Entry]:
    """Return the numbers, times and hashes of the log of standing grants."""
    return _entries((await store.standing_log()).rows)


def _entries(rows: Iterable[JournalRow]) -> list[Entry]:
    return [Entry(row.seq, row.at, {}, row.hash.hex()) for row in rows]


# -- export ------------------------------------------------------------------------------------------


class FactLine(Struct, kw_only=True, omit_defaults=True):
    """A line of an export: one fact."""

    run: str
    seq: int
    at: int
    """The time at which the fact was written, in milliseconds since 1970."""
    hash: str
    """The hash of this fact and of the hash before it."""
    fact: str
    """The fact as JSON text, to the letter."""
    blobs: dict[str, str] = {}
    """The large payloads of the fact, by their hashes."""


class RunLine(Struct, kw_only=True, omit_defaults=True):
    """The last line of a run."""

    run: str
    facts: int
    hash: str
    """The hash of the last fact."""
    tally: str
    """The hash of the number and the times of all facts, and of their texts once they are erased."""
    erased: int | None = None


class LastLine(Struct, kw_only=True, omit_defaults=True):
    """The last line of an export."""

    runs: int
    facts: int
    damaged: list[str]
    """A sentence for each run that is left out because it is damaged."""
    withheld: list[str] = []
    """The runs that are left out because whoever asked may not see all of them."""
    grants: int = 0
    """The number of entries of the log of standing grants, which comes before this line as a run does."""


async def export_journals(
    store: Store, damaged: list[str] | None = None, may_have: Callable[[str], Awaitable[bool]] | None = None
) -> AsyncIterator[bytes]:
    """Yield the lines of an export of all runs.

    Damaged runs are left out. A sentence for each is in the last line, and is added to `damaged` if it is given. Runs
    for which `may_have` returns False are left out too, and named in the last line.
    """
    runs = facts = 0
    damaged, withheld = [] if damaged is None else damaged, list[str]()
    async for run in runs_of(store):
        try:
            journal = await store.journal(run)  # first: what is written later is looked at too, and not exported
            if may_have is not None and not await may_have(run):
                withheld.append(run)
                continue
            lines = list(_lines(journal))
        except UnreadableState as error:
            damaged.append(str(error))
            continue
        for line in lines:
            yield line
        runs, facts = runs + 1, facts + len(journal.rows)
    log = await _standing_log(store, damaged)
    for line in log:
        yield line
    end = LastLine(runs=runs, facts=facts, damaged=damaged, withheld=withheld, grants=max(0, len(log) - 1))
    yield _encode(end) + b"\n"


async def _standing_log(store: Store, damaged: list[str]) -> list[bytes]:
    """Return the lines of the log of standing grants; none if it is empty."""
    try:
        log = await store.standing_log()
    except UnreadableState as error:
        damaged.append(str(error))
        return []
    return list(_lines(log)) if log.rows else []


def _lines(journal: ExactJournal) -> Iterator[bytes]:
    run, kept = journal.run, journal.blobs
    for row in journal.rows:
        if journal.erased is None and run != LOG:
            unpack(run, row.seq, row.text, kept)  # raises if a blob is missing or damaged
        text = row.text.decode()
        blobs = {name: body.decode() for name, body in kept.items() if name in text}
        line = FactLine(run=run, seq=row.seq, at=row.at, hash=row.hash.hex(), fact=text, blobs=blobs)
        yield _encode(line) + b"\n"
    head = journal.head
    end = RunLine(run=run, facts=len(journal.rows), hash=head.hash.hex(), tally=head.tally.hex(), erased=journal.erased)
    yield _encode(end) + b"\n"


class Checked(Struct):
    """The result of checking an export."""

    runs: int = 0
    """The number of runs that were checked."""
    damaged: int = 0
    """The number of runs that are damaged."""
    problems: list[str] = []
    """Sentences about the damaged runs; of an export, the first broken link of each."""
    others: list[str] = []
    """A sentence for whatever else is wrong with the file."""
    withheld: list[str] = []
    """The runs that the export leaves out because whoever asked for it may not see all of them."""


def check_export(lines: Iterable[bytes], heads: Heads | None = None) -> Checked:
    """Check an export, and compare it with saved heads if they are given. No database is needed."""
    found, seen, facts, grants = Checked(), set[str](), 0, 0
    pending: list[FactLine] = []
    last: LastLine | None = None
    for number, line in enumerate(lines, 1):
        if last is not None:
            found.others.append(f"Line {number} comes after the last line of the export.")
            break
        read = _read(number, line)
        if isinstance(read, FactLine):
            pending.append(read)
        elif isinstance(read, RunLine):
            if read.run == LOG:
                grants = len(pending)
            else:
                found.runs, facts = found.runs + 1, facts + len(pending)
            problem = _problem(read, pending, seen)
            if problem is None and heads is not None:
                entries = [Entry(each.seq, each.at, {}, each.hash) for each in pending]
                problem = next(iter(heads.compared(read.run, entries)), None)
            found.damaged += problem is not None
            found.problems += [] if problem is None else [problem]
            pending = []
        else:
            last = read
    found.others += _end(found.runs, facts, grants, pending, last)
    found.withheld = [] if last is None else last.withheld
    found.others += heads.missing() if heads is not None else ()
    return found


def _end(runs: int, facts: int, grants: int, pending: list[FactLine], last: LastLine | None) -> list[str]:
    """Return what is wrong with the end of an export."""
    if pending:
        return [f"The export ends in the middle of run {pending[0].run!r}, after fact {pending[-1].seq}."]
    if last is None:
        return ["The export has lost its last line: it was cut off."]
    if (last.runs, last.facts) != (runs, facts):
        return [f"The export had {last.runs} runs of {last.facts} facts, and has {runs} of {facts}."]
    if last.grants != grants:
        return [f"The export had {last.grants} entries of the log of standing grants, and has {grants}."]
    return [f"Left out as damaged: {sentence}" for sentence in last.damaged]


def last_line(line: bytes) -> LastLine | None:
    """Return the last line of an export; None if this is another line."""
    try:
        read = _read(0, line)
    except UnreadableState:
        return None
    return read if isinstance(read, LastLine) else None


def _read(number: int, line: bytes) -> FactLine | RunLine | LastLine:
    try:
        value: Any = msgspec.json.decode(line)
        if "fact" in value:
            return msgspec.convert(value, FactLine)
        return msgspec.convert(value, RunLine) if "tally" in value else msgspec.convert(value, LastLine)
    except (DecodeError, ValidationError, UnicodeDecodeError, TypeError, RecursionError) as error:
        raise UnreadableState(f"Line {number} is not a line of an export: {error}.") from None


def _problem(end: RunLine, lines: list[FactLine], seen: set[str]) -> str | None:
    """Return the first broken link of a run, or None."""
    run = end.run
    if run in seen:
        return f"Run {run!r} is in the export twice."
    seen.add(run)
    strange = next((line for line in lines if line.run != run), None)
    if strange is not None:
        return f"Fact {strange.seq} of run {strange.run!r} is among those of run {run!r}."
    try:
        hashes = [START, *(bytes.fromhex(line.hash) for line in lines)]
        head = Head(bytes.fromhex(end.hash), bytes.fromhex(end.tally), START)
    except ValueError:
        return f"A hash of run {run!r} is damaged."
    if end.erased is not None and not is_count(end.erased, 0):
        return f"The time at which run {run!r} was erased is damaged."
    rows = [(line.seq, line.at, line.fact, hash) for line, hash in zip(lines, hashes, strict=False)]
    try:
        for row, line in zip(check_chain(run, rows, 0, end.facts, head, end.erased), lines, strict=True):
            if row.hash.hex() != line.hash:
                return f"Fact {row.seq} of run {run!r} is not what was written: its hash is another."
            if run == LOG:
                read_entry(row.seq, row.text)
            elif not is_erased(row.text):
                unpack(run, row.seq, row.text, {name: text.encode() for name, text in line.blobs.items()})
            elif end.erased is None:
                return f"Fact {row.seq} of run {run!r} is erased, and the run is not."
    except UnreadableState as error:
        return str(error)
    return None
