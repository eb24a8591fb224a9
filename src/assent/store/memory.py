"""A store in memory, as long as its process lives: for tests, and for programs that need no more.

It behaves as a database does: nobody can change what is stored by changing an object that was given to it or came from
it, and a change is written whole or not at all. Facts cannot be changed, so they are kept as they are; the rows that a
database would have, with their chain of hashes, are made when somebody looks at them.
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
)
from .packing import START, is_erased, link, pack, redacted, unpack
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
from .rules import RunRow, check_append, check_take, is_driven
from .store import Store

T = TypeVar("T")


class _Row(NamedTuple):
    at: int
    text: bytes
    hash: bytes


class _Kept(Struct, eq=False):
    """All there is of one run, but for its questions and grants."""

    record: RunRecord
    packed: list[_Row] = []
    """The rows, as far as somebody has looked at them,"""
    fresh: list[tuple[int, AnyFact]] = []
    """and the facts that come after them, with their times."""
    blobs: dict[str, bytes] = {}
    context: SavedContext = SavedContext()
    fence: int = 0

    @property
    def seq(self) -> int:
        """How many facts there are."""
        return len(self.packed) + len(self.fresh)

    @property
    def row(self) -> RunRow:
        """What the rules of appending and of leases look at."""
        record = self.record
        return RunRow(self.seq, self.fence, record.worker, record.until, record.erased)

    @property
    def rows(self) -> list[_Row]:
        """What a database would have of them."""
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
    """Runs in the memory of this process; they end with it. For any number of threads and event loops.

    Args:
        clock: The time in seconds since 1970.
    """

    @property
    def immediate(self) -> bool:
        """One that does something of its own may wait for it."""
        kind = type(self)
        return kind is MemoryStore or all(
            getattr(kind, name) is getattr(MemoryStore, name) for name in ("append", "read", "take")
        )

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: dict[str, _Kept] = {}
        self._threads: dict[str, list[str]] = {}
        """The runs of each thread, so that nobody looks through those of all others."""
        self._questions: dict[str, Question] = {}
        self._grants: dict[tuple[str, str], GrantRecord] = {}
        self._definitions: dict[str, bytes] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._runs)} runs>"

    def clock(self) -> float:
        """The time on the store's clock, in seconds since 1970."""
        return self._clock()

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _locked(self) -> threading.Lock:
        """The lock, of a store that is open."""
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
        """Write a change at one go, or nothing of it."""
        encode(change.facts)  # what a database could not hold is refused
        asked, granted = [_question(each) for each in change.asked], [_grant(each) for each in change.granted]
        definitions = {name: bytes(text) for name, text in change.definitions.items()}
        with self._locked():
            kept = self._expected(change)
            self._see_that_ids_are_new(asked)
            now = self._now()
            record = self._record_after(kept, change, now)
            # From here on nothing can fail: what is written is written whole.
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
        """The run that a change is for, if it is as the change expects it to be."""
        id, lease = change.record.id, change.lease
        if change.seq == 0 and id not in self._runs:
            kept = _Kept(replace(change.record, worker=None, until=None, failures=0, error=None, erased=None))
            if lease is not None:  # whoever makes a run may drive it at once
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
        """The run's record, with what the store keeps itself, after a change."""
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
        """Bring the questions and the grants up to date."""
        self._questions |= {question.id: question for question in asked}
        self._grants |= {(change.record.id, grant.id): grant for grant in granted}
        note(self._questions, self._grants, change)

    def _until(self, hold: float) -> int:
        return self._now() + int(hold * 1000)

    # -- reading -----------------------------------------------------------------------------------

    async def read(self, run_id: str, after: int = 0) -> Stored:
        """A run, with its facts but the first `after`. An erased run has none any more."""
        with self._locked():
            return _stored(self._kept(run_id), after)

    async def newest(self, thread: str) -> Stored | None:
        """The run of a thread that was made last; None if there is no such thread."""
        with self._locked():
            made = self._threads.get(thread) if type(thread) is str else None
            return None if not made else _stored(self._runs[made[-1]])

    async def lines(self, run_id: str) -> list[Entry]:
        """The rows of a run as they are, with their hashes."""
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
        """The open questions, the oldest first; with `settled` those that have come to their end."""
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
        """Whether this was at least so many seconds ago."""
        return seconds is None or at <= self._now() - seconds * 1000

    async def question(self, question_id: str) -> Question:
        """A question, open or not."""
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
        """The runs, the oldest first."""
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
        """The grants that are not revoked, the oldest first; with `revoked` all of them."""
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
        """A tool as it was offered; None too if the start of a fingerprint fits several."""
        with self._locked():
            whole = self._definitions.get(fingerprint)
            if whole is not None or len(fingerprint) < MARK:
                return whole
            found = [text for mark, text in self._definitions.items() if mark.startswith(fingerprint)]
            return found[0] if len(found) == 1 else None

    # -- driving -----------------------------------------------------------------------------------

    async def claim(self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int) -> list[Lease]:
        """Take up to `limit` runs of these agents that a worker should look at now."""
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
        """The right to drive this run."""
        check_seconds(hold=hold)
        check_counts(seq=seq)
        with self._locked():
            kept = self._kept(run_id)
            check_take(kept.row, run_id, worker, seq, self._now())
            return self._lease(kept, worker, hold)

    def _lease(self, kept: _Kept, worker: str, hold: float) -> Lease:
        until = self._until(hold)  # before anything is changed: it may fail
        kept.fence += 1
        kept.record.worker, kept.record.until = worker, until
        return Lease(kept.record.id, worker, kept.fence)

    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        """Let the leases hold for `hold` seconds from now; those that still do."""
        check_seconds(hold=hold)
        with self._locked():
            held, until = [lease for lease in leases if _holds(self._runs.get(lease.run), lease)], self._until(hold)
            for lease in held:
                self._runs[lease.run].record.until = until
            return held

    async def release(self, lease: Lease, *, again_in: float | None = None, error: str | None = None) -> None:
        """Give a lease back, if it still holds."""
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
        """Return when a run may have become ready to be claimed, and after `timeout` seconds at the latest."""
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
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                woken.get_loop().call_soon_threadsafe(_set, woken)
        self._waiting = set()

    # -- keeping -----------------------------------------------------------------------------------

    async def erase(self, run_id: str) -> None:
        """Erase what was said in a run that is over."""
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
        """Delete runs of these statuses that did not change for so many seconds, wholly."""
        check_seconds(unchanged_for=unchanged_for)
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
        """Make all records anew from the journals; those of erased runs are kept as they are."""
        with self._locked():
            made = {id: _projected(kept) for id, kept in self._runs.items() if kept.record.erased is None}
            self._questions = {id: each for id, each in self._questions.items() if each.run not in made}
            self._grants = {key: each for key, each in self._grants.items() if each.run not in made}
            for id, change in made.items():
                self._note(change, change.asked, change.granted)
                self._runs[id].record = _own(change.record, self._runs[id].record)
            return len(self._runs)

    async def close(self) -> None:
        """Let everybody go who waits, and take nothing more."""
        with self._lock:
            self._closed = True
            self._wake()


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def _holds(kept: _Kept | None, lease: Lease) -> bool:
    """Whether nobody has taken the run over since, and the lease was not given back."""
    return kept is not None and (kept.fence, kept.record.worker) == (lease.fence, lease.worker)


def _give_back(record: RunRecord) -> None:
    record.worker = record.until = record.error = None
    record.failures = 0


def _own(new: RunRecord, old: RunRecord) -> RunRecord:
    """A new record, with what the store keeps itself."""
    return replace(new, worker=old.worker, until=old.until, failures=old.failures, error=old.error, erased=old.erased)


def _question(question: Question) -> Question:
    """A question of one's own, with what in it could be changed."""
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
    """The first of what was found that come after the page before, as copies."""
    start = page_start(limit, after)
    first = heapq.nsmallest(limit + 1, (each for each in found if start is None or place(each) > start), key=place)
    more = cursor(*place(first[limit - 1])) if len(first) > limit else None
    return Page([own(each) for each in first[:limit]], more)


def _check_chain(kept: _Kept, after: int = 0) -> None:
    """Raise `UnreadableState` at the first row, but for the first `after`, that is not what was written."""
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
    """A fact of one's own: some have a table in them, which could be changed."""
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
    """All records of a run, made anew."""
    _check_chain(kept)
    return anew(kept.record.id, _facts(kept), kept.rows[-1].at)
