"""A store in the memory of one process, for tests and for programs that need no more.

Callers cannot change the store through the objects that they pass in or get back, and a change is written in full or
not at all. There is no hash chain: nobody can change the rows behind the store's back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, ClassVar, TypeVar

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import asdict, replace

from ..approval.decision import checked_name
from ..approval.standing import StandingGrant
from ..core.facts import AnyFact, Began, Defined
from ..core.run import ENDED, UNDER_WAY
from ..core.snapshot import NOTHING_BEFORE, Chapter, Past, Restored
from ..errors import Conflict, GrantNotFound, QuestionNotFound, RunNotFound, StoreFailed, UsageError
from . import news
from .chain import ExactJournal
from .comparing import EMPTIED
from .filter import Filter, cursor, page_start
from .news import News, Tally
from .outbox import MemoryOutbox
from .preview_requests import MemoryPreviewRequests
from .projection import anew, note
from .record import (
    MARK,
    AgentRecord,
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
)
from .row_codec import redacted
from .rules import RunRow, check_append, check_take, is_driven, lease_after
from .standing import LogEntry, LogRow, grant_ended, is_same_grant, log_journal, next_row
from .statistics import Counted, TimeSlice, count_among, count_open_among
from .stop import AgentStop, agents_of, new_stop, same_stop, stop_not_found, stopped
from .store import Store
from .wakeup import Wakeup

T = TypeVar("T")
R = TypeVar("R", Question, GrantRecord)
PLAIN = (str, int, type(None))
"""The types of values that nobody can change."""


class _Kept(Struct, eq=False):
    """Everything stored of one run, except its questions and grants."""

    record: RunRecord
    facts: list[tuple[int, AnyFact]] = []
    """The facts, each with the time at which it was written. Empty once the run is erased."""
    left: list[Entry] = []
    """The rest of the facts after erasing."""
    chapters: list[Chapter] = []
    """The snapshots, in order."""
    context: SavedContext = SavedContext()
    fence: int = 0

    @property
    def row(self) -> RunRow:
        """The values that the rules of appends and leases compare."""
        record = self.record
        return RunRow(record.seq, self.fence, record.worker, record.until, record.erased)

    def lines(self) -> list[Entry]:
        """Return the journal."""
        return [Entry(seq, at, decode(encode(fact))) for seq, (at, fact) in enumerate(self.facts, 1)] or list(self.left)

    def stored(self, after: int = 0) -> Stored:
        """Return the run, with all facts but the first `after`."""
        facts = [_fact(fact) for _, fact in self.facts[max(after, 0) :]]
        return Stored(record=copy(self.record), facts=facts, context=self.context, fence=self.fence)

    def loaded(self, *, whole: bool = True) -> Stored:
        """Return the run as it goes on from its newest snapshot; with `whole`, the past can be looked at."""
        if not self.chapters:
            return replace(self.stored(), before=NOTHING_BEFORE)
        snapshot = self.chapters[-1].snapshot
        stored = self.stored(snapshot.seq)
        counting = {number: _fact(self.facts[number - 1][1]) for number in snapshot.numbers()}
        past = Past([chapter.body for chapter in self.chapters] if whole else None)
        stored.before = before = Restored(snapshot, counting, past)
        stored.facts = before.facts(stored.facts)  # type: ignore[assignment]
        return stored

    def add_chapter(self, chapter: Chapter) -> None:
        """Keep a snapshot, instead of all that are not before it, unless the one before is gone."""
        before = [each for each in self.chapters if each.snapshot.seq <= chapter.snapshot.before]
        if chapter.snapshot.before == (before[-1].snapshot.seq if before else 0):
            self.chapters = [*before, chapter]

    def holds(self, lease: Lease) -> bool:
        """Return True if the lease is the run's newest and was not released."""
        return (self.fence, self.record.worker) == (lease.fence, lease.worker)


class MemoryStore(Store):
    """A store in the memory of this process, for any number of threads and event loops.

    Args:
        clock: A function that returns the time in seconds since 1970.
    """

    keeps_hashes: ClassVar[bool] = False

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: dict[str, _Kept] = {}
        self._threads: dict[str, list[str]] = {}
        """The ids of the runs of each thread, oldest first: an index."""
        self._questions: dict[str, Question] = {}
        self._grants: dict[tuple[str, str], GrantRecord] = {}
        self._definitions: dict[str, bytes] = {}
        self._agents: dict[str, AgentRecord] = {}
        self._standing: dict[str, StandingGrant] = {}
        self._standing_log: list[LogRow] = []
        self._stops: dict[str, AgentStop] = {}
        self._wakeup, self._news = Wakeup(), Wakeup()
        self._closed = False
        self._outbox = MemoryOutbox(self._locked, self._now)
        self._previews = MemoryPreviewRequests(self._locked, self._now)

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._runs)} runs>"

    def clock(self) -> float:
        """Return the time on the store's clock, in seconds since 1970."""
        return self._clock()

    @property
    def outbox(self) -> MemoryOutbox:
        """The webhooks of the store, and the messages that wait for them."""
        return self._outbox

    @property
    def previews(self) -> MemoryPreviewRequests:
        """The requests for previews of edits, which workers answer."""
        return self._previews

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
        asked, granted = [_copy(each) for each in change.asked], [_copy(each) for each in change.granted]
        definitions = {name: bytes(text) for name, text in change.definitions.items()}
        with self._locked():
            now = self._now()
            kept = self._expected(change, now)
            self._check_stops(change)
            self._see_that_ids_are_new(asked)
            standing = self._uses(change)
            record = self._record_after(kept, change, now)
            # Nothing can fail from here on, so that the change is written in full.
            if kept is None:
                kept = self._runs[record.id] = _Kept(record)
                if record.thread is not None:
                    self._threads.setdefault(record.thread, []).append(record.id)
            kept.record = record
            kept.fence = kept.fence if change.lease is None else change.lease.fence
            kept.facts += [(record.changed, _fact(fact)) for fact in change.facts]
            kept.context = kept.context if change.context is None else change.context
            if change.chapter is not None:
                kept.add_chapter(change.chapter)
            self._note(change, asked, granted)
            self._standing |= standing
            self._outbox.note(change)
            self._definitions |= definitions
            ready = record.wake is not None and not is_driven(record.worker, record.until, now)
        if ready:
            self._wakeup.ring()
        if news.is_news(change):
            self._news.ring()

    async def define(self, definitions: Mapping[str, bytes]) -> None:
        """Keep definitions of tools."""
        with self._locked():
            self._definitions |= {name: bytes(text) for name, text in definitions.items()}

    def _expected(self, change: Change, now: int) -> _Kept | None:
        """Return the run of a change, None for a new one; raise unless it is in the state that the change expects."""
        if change.seq == 0 and change.record.id not in self._runs:
            return None
        kept = self._kept(change.record.id)
        check_append(kept.row, change, now)
        return kept

    def _check_stops(self, change: Change) -> None:
        """Raise `AgentStopped` if the change begins a call, and a stop holds for the run's agent or the call's."""
        agents = agents_of(change)
        if agents and (stop := self._stop_of(agents)) is not None:
            raise stopped(stop, change.record.id)

    def _stop_of(self, agents: Sequence[str]) -> AgentStop | None:
        return next((each for each in self._stops.values() if each.covers(agents)), None)

    def _see_that_ids_are_new(self, asked: list[Question]) -> None:
        ids = [question.id for question in asked]
        for id in ids:
            if id in self._questions or ids.count(id) > 1:
                raise StoreFailed(f"There is a question {id!r} already; nothing was written.")

    def _record_after(self, kept: _Kept | None, change: Change, now: int) -> RunRecord:
        """Return the run's record after a change, with the fields that the store keeps itself."""
        worker, until, _ = lease_after(None if kept is None else kept.row, change, now)
        if kept is None:
            return replace(change.record, worker=worker, until=until, failures=0, error=None, erased=None)
        record = replace(_own(change.record, kept.record), worker=worker, until=until)
        if not change.facts:
            record.changed = kept.record.changed
        if change.lease is not None and change.release:
            record.failures, record.error = 0, None
        return record

    def _note(self, change: Change, asked: list[Question], granted: list[GrantRecord]) -> None:
        """Update the questions and the grants."""
        self._questions |= {question.id: question for question in asked}
        self._grants |= {(change.record.id, grant.id): grant for grant in granted}
        note(self._questions, self._grants, change)

    # -- reading -----------------------------------------------------------------------------------

    async def read(self, run_id: str, after: int = 0) -> Stored:
        """Return a run, with all facts but the first `after`. An erased run has no facts."""
        with self._locked():
            return self._kept(run_id).stored(after)

    async def newest(self, thread: str) -> Stored | None:
        """Return the newest run of a thread; None if there is no such thread."""
        with self._locked():
            made = self._threads.get(thread) if type(thread) is str else None
            return None if not made else self._runs[made[-1]].loaded()

    async def load(self, run_id: str) -> Stored:
        """Return a run, to continue it. The facts before its newest snapshot are decoded when somebody looks."""
        with self._locked():
            return self._kept(run_id).loaded()

    async def _recent(self, run_id: str) -> Stored:
        with self._locked():
            return self._kept(run_id).loaded(whole=False)

    async def lines(self, run_id: str) -> list[Entry]:
        """Return the journal of a run."""
        with self._locked():
            return self._kept(run_id).lines()

    async def page(self, filter: Filter[T]) -> Page[T]:
        """Return a page of questions, runs or grants."""
        with self._locked():
            return deepcopy(filter.page(self._items(filter.kind), self._now()))

    async def count(self, filter: Filter[Any]) -> int:
        """Return the number of items that fit, at most the filter's `limit`."""
        with self._locked():
            return len(filter.page(self._items(filter.kind), self._now()).items)

    def _items(self, kind: type) -> Iterable[Any]:
        items: dict[type, Iterable[Any]] = {
            Question: self._questions.values(),
            GrantRecord: self._grants.values(),
            RunRecord: (kept.record for kept in self._runs.values()),
        }
        return items[kind]

    async def question(self, question_id: str) -> Question:
        """Return a question, open or not."""
        with self._locked():
            question = self._questions.get(question_id) if type(question_id) is str else None
            if question is None:
                raise QuestionNotFound(f"The store has no question {question_id!r:.80}.")
            return _copy(question)

    @property
    def definitions(self) -> dict[str, bytes]:
        """The definitions of tools that questions were asked about, by fingerprint."""
        return dict(self._definitions)

    async def definition(self, fingerprint: str) -> bytes | None:
        """Return a tool's definition as it was offered; None too if a prefix fits several fingerprints."""
        with self._locked():
            whole = self._definitions.get(fingerprint) if type(fingerprint) is str else None
            if whole is not None or type(fingerprint) is not str or len(fingerprint) < MARK:
                return whole
            found = [text for mark, text in self._definitions.items() if mark.startswith(fingerprint)]
            return found[0] if len(found) == 1 else None

    # -- standing grants ---------------------------------------------------------------------------

    async def grants_for(self, tools: Collection[str]) -> list[StandingGrant]:
        """Return the standing grants for these tools that are not revoked."""
        with self._locked():
            every = self._standing.values()
            return [deepcopy(grant) for grant in every if grant.tool in tools and grant.revoked is None]

    async def _add_standing(self, grant: StandingGrant) -> StandingGrant:
        grant = deepcopy(grant)
        with self._locked():
            for other in self._standing.values():
                if is_same_grant(grant, other):
                    return deepcopy(other)
            self._add_entry(LogEntry(grant.at, grant.by, given=grant))
            self._standing[grant.id] = grant
            return deepcopy(grant)

    async def _end_standing(self, grant_id: str, by: str) -> StandingGrant:
        with self._locked():
            grant = self._standing.get(grant_id)
            if grant is None:
                raise GrantNotFound(f"The store has no standing grant {grant_id!r:.80}.")
            if grant.revoked is None:
                now = self._now()
                self._add_entry(LogEntry(now, by, revoked=grant_id))
                grant = self._standing[grant_id] = replace(grant, revoked=now, revoked_by=by)
            return deepcopy(grant)

    def _add_entry(self, entry: LogEntry) -> None:
        last = self._standing_log[-1] if self._standing_log else None
        self._standing_log.append(next_row(None if last is None else (last.seq, last.hash), entry))

    def _uses(self, change: Change) -> dict[str, StandingGrant]:
        """Return the standing grants after a change; raise `GrantEnded` if one is revoked or used up."""
        after = {}
        for id, count in change.standing.items():
            grant = self._standing.get(id)
            if grant is None or grant.revoked is not None or grant.used + count > (grant.max_uses or 2**63):
                raise grant_ended(id)
            after[id] = replace(grant, used=grant.used + count)
        return after

    async def _all_standing(self) -> tuple[list[StandingGrant], list[str]]:
        with self._locked():
            return deepcopy(list(self._standing.values())), []

    async def standing_log(self) -> ExactJournal:
        """Return the log of standing grants to the letter."""
        with self._locked():
            return log_journal([(row.seq, row.text, row.hash) for row in self._standing_log])

    # -- driving -----------------------------------------------------------------------------------

    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        """Acquire the leases of up to `limit` runs of these agents that are due."""
        check_seconds(hold=hold)
        check_counts(limit=limit)
        self._wakeup.listen()
        with self._locked():
            now = self._now()
            due = [
                kept
                for kept in self._runs.values()
                if kept.record.wake is not None
                and kept.record.wake <= now
                and not is_driven(kept.record.worker, kept.record.until, now)
                and (agents is None or kept.record.agent in agents)
                and (kept.record.caller is not None) is outside
                and self._stop_of((kept.record.agent,)) is None
            ]
            return [self._lease(kept, worker, hold) for kept in sorted(due, key=_due_at)[:limit]]

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

    def _until(self, hold: float) -> int:
        return self._now() + int(hold * 1000)

    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        """Extend the leases that still hold to `hold` seconds from now, and return them."""
        check_seconds(hold=hold)
        with self._locked():
            until = self._until(hold)
            held = [lease for lease in leases if lease.run in self._runs and self._runs[lease.run].holds(lease)]
            for lease in held:
                self._runs[lease.run].record.until = until
            return held

    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        """Release a lease, if the lease still holds."""
        if again_in is not None:
            check_seconds(again_in=again_in)
        with self._locked():
            kept = self._runs.get(lease.run)
            if kept is None or not kept.holds(lease):
                return
            record, wake = kept.record, self._until(again_in or 0)
            record.worker = record.until = None
            record.failures, record.error = (0, None) if error is None else (record.failures + 1, error)
            if error is not None or again_in is not None:
                due = again_in is not None or seq not in (None, record.seq)
                record.wake = wake if due and record.status in UNDER_WAY else None
            ready = record.wake is not None
        if ready:
            self._wakeup.ring()

    async def wait(self, timeout: float) -> None:
        """Wait until a run may be ready to claim, at most `timeout` seconds."""
        check_seconds(timeout=timeout)
        self._locked()  # raises if the store is closed
        await self._wakeup.wait(timeout)

    # -- stops -------------------------------------------------------------------------------------

    async def stop(self, agent: str | None = None, *, by: str, why: str) -> AgentStop:
        """Stop an agent, or all agents."""
        with self._locked():
            new = new_stop(agent, by, why, self._now())
            made = same_stop(self._stops.values(), new) or new
            self._stops[made.id] = made
        self._news.ring()
        return made

    async def lift(self, stop_id: str, *, by: str) -> AgentStop:
        """Lift a stop."""
        checked_name(by)
        with self._locked():
            stop = self._stops.get(stop_id) if type(stop_id) is str else None
            if stop is None:
                raise stop_not_found(stop_id)
            if stop.lifted is None:
                stop = self._stops[stop_id] = replace(stop, lifted=self._now(), lifted_by=by)
        self._wakeup.ring()
        self._news.ring()
        return stop

    async def stops(self, *, lifted: bool = False, limit: int = 50, after: str | None = None) -> Page[AgentStop]:
        """Return a page of the stops that hold, or with `lifted` of all stops, the newest first."""
        start = page_start(limit, after)
        with self._locked():
            every = sorted(self._stops.values(), key=lambda each: (each.at, each.id), reverse=True)
        wanted = [each for each in every if lifted or each.lifted is None]
        found = [each for each in wanted if start is None or (each.at, each.id) < start]
        last = found[limit - 1] if len(found) > limit else None
        return Page(found[:limit], None if last is None else cursor(last.at, last.id))

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
            kept.record.erased, kept.record.error = self._now(), None
            kept.left = [replace(line, fact=decode(redacted(encode(line.fact)))) for line in kept.lines()]
            kept.facts, kept.chapters, kept.context = [], [], SavedContext()
            for id, question in self._questions.items():
                if question.run == run_id:
                    self._questions[id] = replace(question, **EMPTIED[Question])
            for key, grant in self._grants.items():
                if grant.run == run_id:
                    self._grants[key] = replace(grant, **EMPTIED[GrantRecord])

    async def announce(self, agents: Mapping[str, str]) -> None:
        """Record the agents that a worker drives."""
        with self._locked():
            seen = self._now()
            self._agents |= {name: AgentRecord(name, began, seen) for name, began in agents.items()}

    async def agents(self) -> list[AgentRecord]:
        """Return the agents that workers have announced."""
        with self._locked():
            return [self._agents[name] for name in sorted(self._agents)]

    async def watch(self, timeout: float) -> None:
        """Wait until there may be news, at most `timeout` seconds."""
        check_seconds(timeout=timeout)
        self._locked()  # raises if the store is closed
        await self._news.wait(timeout)

    async def news(self, since: int, watched: Sequence[str] = ()) -> list[News]:
        """Return what happened since a time."""
        self._news.listen()
        with self._locked():
            questions = self._questions.values()
            asked = [news.question_news(each) for each in questions if each.verdict is None and each.at >= since]
            ended = [news.question_end_news(each) for each in questions if (each.decided or -1) >= since]
            records = [kept.record for kept in self._runs.values() if kept.record.changed >= since]
            rested = [news.changed(each) for each in records if each.status != "working"]
            begun = [news.run_begun_news(each) for each in records if each.status == "working" and each.began >= since]
            seen = [news.changed(each) for each in records if each.id in watched]
            stops = [news.stop_news(each) for each in self._stops.values() if max(each.at, each.lifted or 0) >= since]
            lists = (asked, ended, rested, begun, seen, stops)
            return news.merged([news.in_order(each)[: news.MOST_NEWS] for each in lists])

    async def tally(self) -> Tally:
        """Return the number of open questions, and the time of the oldest."""
        with self._locked():
            times = [each.at for each in self._questions.values() if each.verdict is None]
            return Tally(len(times), min(times, default=None))

    async def count_part(self, part: TimeSlice) -> Counted:
        """Count the questions that were asked, and those that ended, in a part of a period."""
        with self._locked():
            return count_among(self._questions.values(), part)

    async def count_open(self, part: TimeSlice) -> int:
        """Return the number of questions that were open at the end of a part."""
        with self._locked():
            return count_open_among(self._questions.values(), part)

    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        """Delete all of the runs with these statuses that did not change for so many seconds; return their number."""
        check_seconds(unchanged_for=unchanged_for)
        if isinstance(statuses, str):
            raise UsageError(f"statuses are a list of statuses, got {statuses!r}.")
        with self._locked():
            until = self._now() - unchanged_for * 1000
            records = [kept.record for kept in self._runs.values()]
            gone = {each.id for each in records if each.status in statuses and each.changed <= until}
            self._runs = {id: kept for id, kept in self._runs.items() if id not in gone}
            left = {thread: [id for id in ids if id not in gone] for thread, ids in self._threads.items()}
            self._threads = {thread: ids for thread, ids in left.items() if ids}
            self._forget(gone)
            return len(gone)

    def _forget(self, runs: Iterable[str]) -> None:
        """Delete the questions and grants of these runs."""
        self._questions = {id: each for id, each in self._questions.items() if each.run not in runs}
        self._grants = {key: each for key, each in self._grants.items() if each.run not in runs}

    async def rebuild(self) -> int:
        """Rebuild all records from the journals, and return the number of runs. Records of erased runs are kept."""
        with self._locked():
            whole = {id: kept for id, kept in self._runs.items() if kept.record.erased is None}
            made = {id: anew(id, [fact for _, fact in kept.facts], kept.facts[-1][0]) for id, kept in whole.items()}
            self._forget(made)
            for id, change in made.items():
                self._note(change, change.asked, change.granted)
                whole[id].record, whole[id].chapters = _own(change.record, whole[id].record), []
            return len(self._runs)

    async def close(self) -> None:
        """Close the store and wake everybody in `wait`. Later calls raise `StoreFailed`."""
        with self._lock:
            self._closed = True
        self._wakeup.ring()
        self._news.ring()
        self._previews.wakeup.ring()


def _own(new: RunRecord, old: RunRecord) -> RunRecord:
    """Return a new record with the old one's fields that the store keeps itself."""
    return replace(new, worker=old.worker, until=old.until, failures=old.failures, error=old.error, erased=old.erased)


def _due_at(kept: _Kept) -> tuple[int, str]:
    return kept.record.wake or 0, kept.record.id


def _copy(record: R) -> R:
    """Return a record that shares no mutable value with the given one. Most values are text and numbers."""
    values = asdict(record)
    changed = {name: deepcopy(value) for name, value in values.items() if type(value) not in PLAIN and value != ()}
    return replace(record, **changed)


def _fact(fact: AnyFact) -> AnyFact:
    """Return a fact that shares no mutable value with the given one: some facts have a dict in them."""
    if type(fact) is Defined:
        return replace(fact, tools=dict(fact.tools), redact=None if fact.redact is None else dict(fact.redact))
    if type(fact) is Began and (fact.trace or fact.conversation):
        return deepcopy(fact)
    return fact
