"""A store in the memory of one process, for tests and for programs that need no more.

The store behaves like a database: callers cannot change it through the objects they pass in or get back, and a change
is written in full or not at all. Facts are immutable and kept as objects; the rows that a database would have, with
their hash chain, are made on demand.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from ..core.facts import AnyFact, Began, Defined
from ..core.run import ENDED, UNDER_WAY
from ..errors import (
    Conflict,
    QuestionNotFound,
    RunNotFound,
    StoreFailed,
    UnreadableState,
    UsageError,
)
from .projection import anew, note
from .record import (
    MARK,
    Change,
    Entry,
    GrantRecord,
    Lease,
    Page,
    Question,
    RunRecord,
    SavedContext,
    Stored,
    check_counts,
    check_seconds,
    cursor,
    page_start,
)
from .row_codec import START, is_erased, link, pack, redacted, unpack
from .rules import RunRow, check_append, check_take, is_driven
from .store import Store

T = TypeVar("T")


class _Row(NamedTuple):
    at: int
    text: bytes
    hash: bytes


class _Kept(Struct, eq=False):
    """Everything stored of one run, except its questions and grants."""

    record: RunRecord
    packed: list[_Row] = []
    """The rows made so far."""
    fresh: list[tuple[int, AnyFact]] = []
    """The facts after the last row in `packed`, each with its time."""
    blobs: dict[str, bytes] = {}
    context: SavedContext = SavedContext()
    fence: int = 0

    @property
    def seq(self) -> int:
        """The number of facts."""
        return len(self.packed) + len(self.fresh)

    @property
    def row(self) -> RunRow:
        """The values that the rules of appends and leases compare."""
        record = self.record
        return RunRow(self.seq, self.fence, record.worker, record.until, record.erased)

    @property
    def rows(self) -> list[_Row]:
        """All rows, as a database would have them. Moves the fresh facts into `packed`."""
        rows, before = self.packed, self.packed[-1].hash if self.packed else START
        for at, fact in self.fresh:
            text, blobs = pack(fact)
            before = link(before, self.record.id, len(rows) + 1, text)
            rows.append(_Row(at, text, before))
            self.blobs |= blobs
        self.fresh.clear()
        return rows

    @rows.setter
    def rows(self, rows: list[_Row]) -> None:
        self.packed, self.fresh = rows, []


class MemoryStore(Store):
    """A store in the memory of this process, for any number of threads and event loops.

    Args:
        clock: A function that returns the time in seconds since 1970.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: dict[str, _Kept] = {}
        self._threads: dict[str, list[str]] = {}
        """The ids of the runs of each thread, oldest first: an index."""
        self._questions: dict[str, Question] = {}
        self._grants: dict[tuple[str, str], GrantRecord] = {}
        self._definitions: dict[str, bytes] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._runs)} runs>"

    def clock(self) -> float:
        """Return the time on the store's clock, in seconds since 1970."""
        return self._clock()

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _locked(self) -> threading.Lock:
        """Return the lock; raise `StoreFailed` if the store is closed."""
        if self._closed:
            raise StoreFailed("This store is closed; make another one.")
        return self._lock

    def _kept(self, run_id: str) -> _Kept:
        kept = self._runs.get(run_id) if type(run_id) is str else None
        if kept is None:
            raise RunNotFound(f"The store has no run {run_id!r:.80}.")
        return kept

    # -- writing -----------------------------------------------------------------------------------

    async def append(self, change: Change) -> None:
        """Write all of a change, or nothing."""
        encode(change.facts)  # refuse what a database could not hold
        asked, granted = [_question(each) for each in change.asked], [_grant(each) for each in change.granted]
        definitions = {name: bytes(text) for name, text in change.definitions.items()}
        with self._locked():
            kept = self._expected(change)
            self._see_that_ids_are_new(asked)
            now = self._now()
            record = self._record_after(kept, change, now)
            # Nothing can fail from here on, so that the change is written in full.
            if record.thread is not None and record.id not in self._runs:
                self._threads.setdefault(record.thread, []).append(record.id)
            self._runs[record.id] = kept
            kept.record = record
            if change.take and change.lease is not None:
                kept.fence = change.lease.fence
            kept.fresh += [(record.changed, _fact(fact)) for fact in change.facts]
            kept.context = kept.context if change.context is None else change.context
            self._note(change, asked, granted)
            self._definitions |= definitions
            if record.wake is not None and not is_driven(record.worker, record.until, now):
                self._wake()

    def _expected(self, change: Change) -> _Kept:
        """Return the run of a change; raise unless the run is in the state that the change expects."""
        id, lease = change.record.id, change.lease
        if change.seq == 0 and id not in self._runs:
            kept = _Kept(replace(change.record, worker=None, until=None, failures=0, error=None, erased=None))
            if lease is not None:  # the change that creates a run may bring its first lease
                kept.fence, kept.record.worker, kept.record.until = lease.fence, lease.worker, self._now()
            return kept
        kept = self._kept(id)
        check_append(kept.row, change, self._now())
        return kept

    def _see_that_ids_are_new(self, asked: list[Question]) -> None:
        ids = [question.id for question in asked]
        for id in ids:
            if id in self._questions or ids.count(id) > 1:
                raise StoreFailed(f"There is a question {id!r} already; nothing was written.")

    def _record_after(self, kept: _Kept, change: Change, now: int) -> RunRecord:
        """Return the run's record after a change, with the fields that the store keeps itself."""
        record = _own(change.record, kept.record)
        if not change.facts:
            record.changed = kept.record.changed
        if change.take and change.lease is not None:
            record.worker, record.until = change.lease.worker, now
        if change.lease is not None and change.hold is not None:
            record.until = now + int(change.hold * 1000)
        if change.lease is not None and change.release:
            _give_back(record)
        return record

    def _note(self, change: Change, asked: list[Question], granted: list[GrantRecord]) -> None:
        """Update the questions and the grants."""
        self._questions |= {question.id: question for question in asked}
        self._grants |= {(change.record.id, grant.id): grant for grant in granted}
        note(self._questions, self._grants, change)

    def _until(self, hold: float) -> int:
        return self._now() + int(hold * 1000)

    # -- reading -----------------------------------------------------------------------------------

    async def read(self, run_id: str, after: int = 0) -> Stored:
        """Return a run, with all facts but the first `after`. An erased run has no facts."""
        with self._locked():
            return _stored(self._kept(run_id), after)

    async def newest(self, thread: str) -> Stored | None:
        """Return the newest run of a thread; None if there is no such thread."""
        with self._locked():
            made = self._threads.get(thread) if type(thread) is str else None
            return None if not made else _stored(self._runs[made[-1]])

    async def lines(self, run_id: str) -> list[Entry]:
        """Return the journal rows of a run with their hashes."""
        with self._locked():
            kept = self._kept(run_id)
            _check_chain(kept)
            return [Entry(seq, row.at, decode(row.text), row.hash.hex()) for seq, row in enumerate(kept.rows, start=1)]

    async def questions(
        self,
        *,
        run: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        older_than: float | None = None,
        settled: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Question]:
        """Return a page of open questions, or with `settled` of decided, replaced and void ones; the oldest first."""
        if older_than is not None:
            check_seconds(older_than=older_than)
        with self._locked():
            found = (
                question
                for question in self._questions.values()
                if (question.verdict is not None) is settled
                and run in (None, question.run)
                and agent in (None, question.agent)
                and tool in (None, question.tool)
                and self._was(question.at, older_than)
            )
            return _page(found, _asked_at, limit, after, _question)

    def _was(self, at: int, seconds: float | None) -> bool:
        """Return True if a time is at least so many seconds ago."""
        return seconds is None or at <= self._now() - seconds * 1000

    async def question(self, question_id: str) -> Question:
        """Return a question, open or not."""
        with self._locked():
            question = self._questions.get(question_id) if type(question_id) is str else None
            if question is None:
                raise QuestionNotFound(f"The store has no question {question_id!r:.80}.")
            return _question(question)

    async def runs(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        thread: str | None = None,
        unchanged_for: float | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[RunRecord]:
        """Return a page of runs, the oldest first."""
        if unchanged_for is not None:
            check_seconds(unchanged_for=unchanged_for)
        with self._locked():
            every = self._runs.values() if thread is None else self._of_thread(thread)
            found = (
                kept.record
                for kept in every
                if agent in (None, kept.record.agent)
                and status in (None, kept.record.status)
                and self._was(kept.record.changed, unchanged_for)
            )
            return _page(found, _began_at, limit, after, copy)

    def _of_thread(self, thread: str) -> list[_Kept]:
        return [self._runs[id] for id in self._threads.get(thread, ())]

    async def grants(
        self,
        *,
        run: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        revoked: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[GrantRecord]:
        """Return a page of the grants in force, or with `revoked` of all grants; the oldest first."""
        with self._locked():
            found = (
                grant
                for grant in self._grants.values()
                if (revoked or grant.revoked is None)
                and run in (None, grant.run)
                and agent in (None, grant.agent)
                and tool in (None, grant.tool)
            )
            return _page(found, _asked_at, limit, after, _grant)

    async def definition(self, fingerprint: str) -> bytes | None:
        """Return a tool's definition as it was offered; None too if a prefix fits several fingerprints."""
        with self._locked():
            whole = self._definitions.get(fingerprint) if type(fingerprint) is str else None
            if whole is not None or type(fingerprint) is not str or len(fingerprint) < MARK:
                return whole
            found = [text for mark, text in self._definitions.items() if mark.startswith(fingerprint)]
            return found[0] if len(found) == 1 else None

    # -- driving -----------------------------------------------------------------------------------

    async def claim(self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int) -> list[Lease]:
        """Acquire the leases of up to `limit` runs of these agents that are due."""
        check_seconds(hold=hold)
        check_counts(limit=limit)
        with self._locked():
            now = self._now()
            due = (
                kept
                for kept in self._runs.values()
                if kept.record.wake is not None
                and kept.record.wake <= now
                and not is_driven(kept.record.worker, kept.record.until, now)
                and (agents is None or kept.record.agent in agents)
            )
            first = heapq.nsmallest(limit, due, key=_due_at)
            return [self._lease(kept, worker, hold) for kept in first]

    async def take(self, run_id: str, worker: str, *, seq: int, hold: float) -> Lease:
        """Acquire the lease of a run."""
        check_seconds(hold=hold)
        check_counts(seq=seq)
        with self._locked():
            kept = self._kept(run_id)
            check_take(kept.row, run_id, worker, seq, self._now())
            return self._lease(kept, worker, hold)

    def _lease(self, kept: _Kept, worker: str, hold: float) -> Lease:
        until = self._until(hold)  # first, since reading the clock may fail
        kept.fence += 1
        kept.record.worker, kept.record.until = worker, until
        return Lease(kept.record.id, worker, kept.fence)

    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        """Extend the leases that still hold to `hold` seconds from now, and return them."""
        check_seconds(hold=hold)
        with self._locked():
            held, until = [lease for lease in leases if _holds(self._runs.get(lease.run), lease)], self._until(hold)
            for lease in held:
                self._runs[lease.run].record.until = until
            return held

    async def release(self, lease: Lease, *, again_in: float | None = None, error: str | None = None) -> None:
        """Release a lease, if the lease still holds."""
        if again_in is not None:
            check_seconds(again_in=again_in)
        with self._locked():
            kept = self._runs.get(lease.run)
            if kept is None or not _holds(kept, lease):
                return
            failures, until = kept.record.failures + 1, self._until(again_in or 0)
            _give_back(kept.record)
            if error is not None:
                kept.record.failures, kept.record.error = failures, error
            if error is not None or again_in is not None:
                due = again_in is not None and kept.record.status in UNDER_WAY
                kept.record.wake = until if due else None
            if kept.record.wake is not None:
                self._wake()

    async def wait(self, timeout: float) -> None:
        """Wait until a run may be ready to claim, at most `timeout` seconds."""
        check_seconds(timeout=timeout)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._locked():
            self._waiting.add(woken)
        try:
            await asyncio.wait([woken], timeout=timeout)
        finally:
            with self._lock:
                self._waiting.discard(woken)

    def _wake(self) -> None:
        for woken in self._waiting:
            with suppress(RuntimeError):  # its event loop is closed, so nobody waits
                woken.get_loop().call_soon_threadsafe(_set, woken)
        self._waiting = set()

    # -- keeping -----------------------------------------------------------------------------------

    async def erase(self, run_id: str) -> None:
        """Erase the content of a run that has ended."""
        with self._locked():
            kept = self._kept(run_id)
            if kept.record.status not in ENDED:
                raise Conflict(
                    f"Run {run_id!r} is not over, it is {kept.record.status}. Erase it when it is, or purge it."
                )
            if kept.record.erased is not None:
                return
            now, rows = self._now(), [row._replace(text=redacted(row.text)) for row in kept.rows]
            kept.rows, kept.blobs, kept.context = rows, {}, SavedContext()
            kept.record.erased, kept.record.error = now, None
            for question in self._questions.values():
                if question.run == run_id:
                    question.arguments = question.reason = ""
                    question.prompt = question.schema = None
                    question.evidence = ()
            for grant in self._grants.values():
                if grant.run == run_id:
                    grant.message = grant.pins = None

    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        """Delete all of the runs with these statuses that did not change for so many seconds; return their number."""
        check_seconds(unchanged_for=unchanged_for)
        if isinstance(statuses, str):
            raise UsageError(f"statuses are a list of statuses, got {statuses!r}.")
        with self._locked():
            gone = {
                id
                for id, kept in self._runs.items()
                if kept.record.status in statuses and self._was(kept.record.changed, unchanged_for)
            }
            self._runs = {id: kept for id, kept in self._runs.items() if id not in gone}
            left = {thread: [id for id in ids if id not in gone] for thread, ids in self._threads.items()}
            self._threads = {thread: ids for thread, ids in left.items() if ids}
            self._questions = {id: each for id, each in self._questions.items() if each.run not in gone}
            self._grants = {key: each for key, each in self._grants.items() if each.run not in gone}
            return len(gone)

    async def rebuild(self) -> int:
        """Rebuild all records from the journals, and return the number of runs. Records of erased runs are kept."""
        with self._locked():
            made = {id: _projected(kept) for id, kept in self._runs.items() if kept.record.erased is None}
            self._questions = {id: each for id, each in self._questions.items() if each.run not in made}
            self._grants = {key: each for key, each in self._grants.items() if each.run not in made}
            for id, change in made.items():
                self._note(change, change.asked, change.granted)
                self._runs[id].record = _own(change.record, self._runs[id].record)
            return len(self._runs)

    async def close(self) -> None:
        """Close the store and wake everybody in `wait`. Later calls raise `StoreFailed`."""
        with self._lock:
            self._closed = True
            self._wake()


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _holds(kept: _Kept | None, lease: Lease) -> bool:
    """Return True if the lease is the run's newest and was not released."""
    return kept is not None and (kept.fence, kept.record.worker) == (lease.fence, lease.worker)


def _give_back(record: RunRecord) -> None:
    record.worker = record.until = record.error = None
    record.failures = 0


def _own(new: RunRecord, old: RunRecord) -> RunRecord:
    """Return a new record with the old one's fields that the store keeps itself."""
    return replace(new, worker=old.worker, until=old.until, failures=old.failures, error=old.error, erased=old.erased)


def _question(question: Question) -> Question:
    """Return a copy of a question that shares no mutable value with it."""
    own = copy(question)
    if own.prompt is not None or own.schema is not None or own.evidence:
        own.prompt, own.schema, own.evidence = deepcopy((own.prompt, own.schema, own.evidence))
    return own


def _grant(grant: GrantRecord) -> GrantRecord:
    return replace(grant, pins=deepcopy(grant.pins))


def _asked_at(record: Question | GrantRecord) -> tuple[int, str]:
    return record.at, record.id


def _began_at(record: RunRecord) -> tuple[int, str]:
    return record.began, record.id


def _due_at(kept: _Kept) -> tuple[int, str]:
    return kept.record.wake or 0, kept.record.id


def _page(
    found: Iterable[T], place: Callable[[T], tuple[int, str]], limit: int, after: str | None, own: Callable[[T], T]
) -> Page[T]:
    """Return the items after the cursor, as copies."""
    start = page_start(limit, after)
    first = heapq.nsmallest(limit + 1, (each for each in found if start is None or place(each) > start), key=place)
    more = cursor(*place(first[limit - 1])) if len(first) > limit else None
    return Page([own(each) for each in first[:limit]], more)


def _check_chain(kept: _Kept, after: int = 0) -> None:
    """Raise `UnreadableState` at the first damaged row after the first `after` rows."""
    skipped = min(max(after, 0), len(kept.rows))
    before = kept.rows[skipped - 1].hash if skipped else START
    for seq, row in enumerate(kept.rows[skipped:], skipped + 1):
        gone = kept.record.erased is not None and is_erased(row.text)
        if not gone and link(before, kept.record.id, seq, row.text) != row.hash:
            raise UnreadableState(f"Fact {seq} of run {kept.record.id!r} is not what was written: its hash is wrong.")
        before = row.hash


def _stored(kept: _Kept, after: int = 0) -> Stored:
    if not kept.packed and kept.record.erased is None:
        facts = [_fact(fact) for _, fact in (kept.fresh[after:] if after > 0 else kept.fresh)]
    else:
        _check_chain(kept, after)
        facts = [] if kept.record.erased is not None else _facts(kept, after)
    return Stored(record=copy(kept.record), facts=facts, context=kept.context, fence=kept.fence)


def _fact(fact: AnyFact) -> AnyFact:
    """Return a fact that shares no mutable value with the given one: some facts have a dict in them."""
    if type(fact) is Defined:
        return replace(fact, tools=dict(fact.tools))
    if type(fact) is Began and (fact.trace or fact.conversation):
        return deepcopy(fact)
    return fact


def _facts(kept: _Kept, after: int = 0) -> list[AnyFact]:
    skipped = max(after, 0)
    return [
        unpack(kept.record.id, seq, row.text, kept.blobs) for seq, row in enumerate(kept.rows[skipped:], skipped + 1)
    ]


def _projected(kept: _Kept) -> Change:
    """Rebuild all records of a run from its facts."""
    _check_chain(kept)
    return anew(kept.record.id, _facts(kept), kept.rows[-1].at)
