"""The base class of the stores in SQL databases: the store's methods as functions on a transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from ...approval.decision import checked_name
from ...approval.standing import StandingGrant
from ...core.wording import holds
from ...errors import StoreFailed, UnreadableState, UsageError
from ..beginning import WithId, check_beginning
from ..chain import ExactJournal
from ..damage import damage_of
from ..filter import Filter, page_start
from ..news import News, Tally, is_news
from ..record import (
    AgentRecord,
    Change,
    Entry,
    Lease,
    Page,
    Question,
    RunRecord,
    Stored,
    check_counts,
    check_seconds,
)
from ..statistics import Counted, TimeSlice
from ..stop import AgentStop, new_stop
from ..store import Store
from ..wakeup import Wakeup
from . import standing
from .beginning import find_ids
from .leasing import claim, release, renew, take
from .listing import count, damaged_question, find_question, page, questions_of_run
from .news import announce, announced, news, tally
from .outbox import SQLOutbox
from .paging import read_in_parts, timed
from .preview_requests import SQLPreviewRequests
from .reading import chapters_differ, find_definition, histories, history, journal_of, load_run, newest, own_row, read
from .retention import erase, next_number, purge, rebuild
from .statement import Transaction
from .statistics import read_counts, read_open_count
from .stopping import add_stop, find_stops, mark_lifted
from .strays import strays
from .writing import append, define, run_not_found

R = TypeVar("R")
T = TypeVar("T")

Work = Callable[[Transaction], R]


class SQLStore(Store):
    """The base class of the stores in SQL databases."""

    keeps_dead_rows: ClassVar[bool] = False
    """True if erased and deleted rows stay in the database until `vacuum`."""
    _wakeup: Wakeup
    _news: Wakeup
    _asks: Wakeup
    _known: set[str]
    """The fingerprints of definitions that are certainly stored."""

    @abstractmethod
    async def _write(self, work: Work[R]) -> R:
        """Run `work` in one transaction, which is durable on return, or rolled back after an error."""

    @abstractmethod
    async def _read(self, work: Work[R], *, snapshot: bool = False) -> R:
        """Run `work`, which only reads; with `snapshot` all of its statements see one snapshot."""

    async def _read_short(self, work: Work[R]) -> R:
        """Run `work`, which only reads a few rows by their keys."""
        return await self._read(work)

    @abstractmethod
    async def upgrade(self) -> None:
        """Create or migrate the tables."""

    @abstractmethod
    async def vacuum(self) -> None:
        """Rewrite the database without erased, changed and deleted rows."""

    def _notify(self, transaction: Transaction, *, ready: bool = False, news: bool = False) -> None:
        """Notify other processes, at the transaction's commit, that a run may be claimed or that there is news."""

    def _notify_asks(self, transaction: Transaction) -> None:
        """Notify other processes, at the transaction's commit, of a request for a preview, or of its answer."""

    @abstractmethod
    async def _wait_for_asks(self, timeout: float) -> None:
        """Wait until there may be a new request for a preview, or an answer, at most `timeout` seconds."""

    # Read the time only inside of a transaction. By then the server's clock has been read, and the time does not
    # include the wait for a connection or a lock.
    def _now(self) -> int:
        return int(self.clock() * 1000)

    def _before(self, seconds: float) -> int:
        return self._now() - int(seconds * 1000)

    def _until(self, hold: float) -> int:
        return self._now() + int(hold * 1000)

    @property
    def outbox(self) -> SQLOutbox:
        """The webhooks of the store, and the messages that wait for them."""
        return SQLOutbox(self)

    @property
    def previews(self) -> SQLPreviewRequests:
        """The requests for previews of edits, which workers answer."""
        return SQLPreviewRequests(self)

    # -- facts -------------------------------------------------------------------------------------

    async def append(self, change: Change) -> None:
        """Write a change in one transaction; the change is durable on return."""
        self._appended(change, await self._write(lambda transaction: self._append(transaction, change)))

    def _append(self, transaction: Transaction, change: Change) -> bool:
        ready = append(transaction, change, self._now(), self._known)
        self._notify(transaction, ready=ready, news=is_news(change))
        return ready

    def _appended(self, change: Change, ready: bool) -> None:
        if change.definitions:
            self._known.update(change.definitions)
        if ready:
            self._wakeup.ring()
        if is_news(change):
            self._news.ring()

    async def define(self, definitions: Mapping[str, bytes]) -> None:
        """Keep definitions of tools, unless they are there already."""
        if definitions.keys() - self._known:
            await self._write(lambda transaction: define(transaction, definitions, self._known))
            self._known.update(definitions)

    async def read(self, run_id: str, after: int = 0) -> Stored:
        """Return a run, with all facts but the first `after`. An erased run has no facts."""
        return await self._read(lambda transaction: read(transaction, run_id, after), snapshot=True)

    async def load(self, run_id: str) -> Stored:
        """Return a run, to continue it. The facts before its newest snapshot are decoded when somebody looks."""
        return await self._load(run_id, whole=True)

    async def _recent(self, run_id: str) -> Stored:
        return await self._load(run_id, whole=False)

    async def _load(self, run_id: str, *, whole: bool) -> Stored:
        found = await self._read(lambda transaction: load_run(transaction, run_id, whole=whole), snapshot=True)
        assert found is not None  # there is no limit
        return found

    async def _compare_snapshots(self, run_id: str) -> list[str]:
        return await self._read(lambda transaction: chapters_differ(transaction, run_id), snapshot=True)

    async def newest(self, thread: str) -> Stored | None:
        """Return the newest run of a thread; None if there is no such thread."""
        return await self._read(lambda transaction: newest(transaction, thread), snapshot=True)

    async def record(self, run_id: str) -> RunRecord:
        """Return a run's record."""
        return await self._read_short(lambda transaction: own_row(transaction, run_id).record)

    async def lines(self, run_id: str) -> list[Entry]:
        """Return the journal rows of a run with their hashes."""
        return await self.history(run_id)

    async def history(
        self,
        run_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        kinds: Mapping[str, str] | None = None,
        payloads: bool = False,
    ) -> list[Entry]:
        """Return the history of a run, or a part of it; no other rows are read."""
        return await self._read(
            lambda transaction: history(transaction, run_id, after, limit, kinds, payloads), snapshot=True
        )

    async def histories(self, run_ids: Collection[str]) -> dict[str, list[Entry]]:
        """Return the whole histories of several runs in one read."""
        return await self._read(lambda transaction: histories(transaction, run_ids), snapshot=True)

    async def journal(self, run_id: str) -> ExactJournal:
        """Return a run's journal to the letter, with its blobs and its head."""
        return await self._read(lambda transaction: journal_of(transaction, run_id), snapshot=True)

    async def definition(self, fingerprint: str) -> bytes | None:
        """Return a tool's definition as it was offered; None too if a prefix fits several fingerprints."""
        return await self._read_short(lambda transaction: find_definition(transaction, fingerprint))

    # -- lists -------------------------------------------------------------------------------------

    async def page(self, filter: Filter[T]) -> Page[T]:
        """Return a page of questions, runs or grants."""
        if filter.kind is Question:
            found = await read_in_parts(self._part, filter)
            for id in found.damaged:
                damage_of(self).note("question", str(damaged_question(id)), self._now())
            return found
        return await self._read(lambda transaction: page(transaction, filter, self._now()))

    async def count(self, filter: Filter[Any]) -> int:
        """Return the number of items that fit, at most the filter's `limit`."""
        return await self._read(lambda transaction: count(transaction, filter, self._now()))

    async def _part(self, filter: Filter[T]) -> tuple[Page[T], float]:
        """Return a part of a page, and the seconds that the database took."""
        return await self._read(lambda transaction: timed(lambda: page(transaction, filter, self._now())))

    async def ids(self, kind: WithId, beginning: str, *, limit: int = 10) -> list[str]:
        """Return the ids of questions, runs or grants that begin with this text, in their order; at most `limit`."""
        check_beginning(beginning, limit)
        return await self._read_short(lambda transaction: find_ids(transaction, kind, beginning, limit))

    async def question(self, question_id: str) -> Question:
        """Return a question, open or not."""
        return await self._read_short(lambda transaction: find_question(transaction, question_id))

    async def _questions_of(self, run_id: str) -> tuple[list[Question], list[str]]:
        return await self._read(lambda transaction: questions_of_run(transaction, run_id))

    async def strays(self) -> list[str]:
        """Return one sentence for each row that belongs to no run, and for each stored tool that has changed."""
        return await self._read(strays, snapshot=True)

    # -- standing grants ---------------------------------------------------------------------------

    async def grants_for(self, tools: Collection[str]) -> list[StandingGrant]:
        """Return the standing grants for these tools that are not revoked; of a damaged tool's only rejections."""
        found, damaged = await self._read_short(lambda transaction: standing.find_standing(transaction, tools))
        self._note_damaged(damaged)
        return [grant for grant in found if grant.verdict == "reject" or grant.tool not in damaged.values()]

    async def _add_standing(self, grant: StandingGrant) -> StandingGrant:
        return await self._write(lambda transaction: standing.give_standing(transaction, grant))

    async def _end_standing(self, grant_id: str, by: str) -> StandingGrant:
        return await self._write(lambda transaction: standing.end(transaction, grant_id, by, self._now()))

    async def _all_standing(self) -> tuple[list[StandingGrant], list[str]]:
        found, damaged = await self._read(standing.every)
        self._note_damaged(damaged)
        return found, damaged

    def _note_damaged(self, grants: Iterable[str]) -> None:
        for id in grants:
            damage_of(self).note("other", standing.damaged_grant(id), self._now())

    async def standing_log(self) -> ExactJournal:
        """Return the log of standing grants to the letter."""
        return await self._read(standing.journal_of_log, snapshot=True)

    async def verify_standing(self) -> list[str]:
        """Compare the standing grants with their log, and return one sentence for each difference."""
        try:
            return await self._read(standing.standing_differences, snapshot=True)
        except UnreadableState as error:
            return [str(error)]

    # -- the inbox ---------------------------------------------------------------------------------

    async def news(self, since: int, watched: Sequence[str] = ()) -> list[News]:
        """Return what happened since a time."""
        self._news.listen()
        return await self._read(lambda transaction: news(transaction, since, watched))

    async def tally(self) -> Tally:
        """Return the number of open questions, and the time of the oldest."""
        return await self._read(tally)

    async def count_part(self, part: TimeSlice) -> Counted:
        """Count the questions that were asked, and those that ended, in a part of a period."""
        return await self._read(lambda transaction: read_counts(transaction, part), snapshot=True)

    async def count_open(self, part: TimeSlice) -> int:
        """Return the number of questions that were open at the end of a part."""
        return await self._read(lambda transaction: read_open_count(transaction, part), snapshot=True)

    async def announce(self, agents: Mapping[str, str]) -> None:
        """Record the agents that a worker drives."""
        await self._write(lambda transaction: announce(transaction, agents, self._now()))

    async def agents(self) -> list[AgentRecord]:
        """Return the agents that workers have announced."""
        return await self._read(announced)

    # -- stops -------------------------------------------------------------------------------------

    async def stop(self, agent: str | None = None, *, by: str, why: str) -> AgentStop:
        """Stop an agent, or all agents."""
        new_stop(agent, by, why, 0)  # raises before the database is asked
        made = await self._write(lambda transaction: self._add_stop(transaction, new_stop(agent, by, why, self._now())))
        self._news.ring()
        return made

    def _add_stop(self, transaction: Transaction, new: AgentStop) -> AgentStop:
        self._notify(transaction, news=True)
        return add_stop(transaction, new)

    async def lift(self, stop_id: str, *, by: str) -> AgentStop:
        """Lift a stop."""
        checked_name(by)

        def work(transaction: Transaction) -> AgentStop:
            lifted = mark_lifted(transaction, stop_id, by, self._now())
            self._notify(transaction, ready=True, news=True)
            return lifted

        lifted = await self._write(work)
        self._wakeup.ring()
        self._news.ring()
        return lifted

    async def stops(self, *, lifted: bool = False, limit: int = 50, after: str | None = None) -> Page[AgentStop]:
        """Return a page of the stops that hold, or with `lifted` of all stops, the newest first."""
        start = page_start(limit, after)
        return await self._read_short(lambda transaction: find_stops(transaction, bool(lifted), limit, start))

    # -- leases ------------------------------------------------------------------------------------

    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        """Acquire the leases of up to `limit` runs of these agents that are due."""
        check_seconds(hold=hold)
        check_counts(limit=limit)
        if (agents is not None and not agents) or limit < 1:
            return []
        self._wakeup.listen()
        return await self._write(
            lambda transaction: claim(transaction, worker, agents, self._now(), self._until(hold), limit, outside)
        )

    async def take(self, run_id: str, worker: str, *, seq: int, hold: float) -> Lease:
        """Acquire the lease of a run."""
        check_seconds(hold=hold)
        check_counts(seq=seq)
        return await self._write(
            lambda transaction: take(transaction, run_id, worker, seq, self._now(), self._until(hold))
        )

    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        """Extend the leases that still hold to `hold` seconds from now, and return them."""
        check_seconds(hold=hold)
        given = list(leases)
        if not given:
            return []
        return await self._write(lambda transaction: renew(transaction, given, self._until(hold)))

    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        """Release a lease, if the lease still holds."""
        if again_in is not None:
            check_seconds(again_in=again_in)

        def work(transaction: Transaction) -> bool:
            wake = None if again_in is None else self._until(again_in)
            ready = release(transaction, lease, wake, error, seq, self._now())
            self._notify(transaction, ready=ready)
            return ready

        if await self._write(work):
            self._wakeup.ring()

    # -- keeping -----------------------------------------------------------------------------------

    async def erase(self, run_id: str) -> None:
        """Erase the content of a run that has ended."""
        if type(run_id) is not str or not holds(run_id):
            raise run_not_found(run_id)
        await self._write(lambda transaction: erase(transaction, run_id, self._now()))

    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        """Delete all of the runs with these statuses that did not change for so many seconds; return their number."""
        check_seconds(unchanged_for=unchanged_for)
        if isinstance(statuses, str):
            raise UsageError(f"statuses are a list of statuses, got {statuses!r}.")
        until, count = await self._read(lambda transaction: self._before(unchanged_for)), 0
        try:
            while some := await self._write(lambda transaction: purge(transaction, statuses, until)):
                count += some
        except StoreFailed as error:
            raise _partly(error, f"{count} runs were deleted before that", count) from error
        return count

    async def rebuild(self) -> int:
        """Rebuild all records from the journals, run by run, and return the number of runs.

        The records of erased runs are kept. A damaged run is left as it is; after the others are done, an
        `UnreadableState` names the first damaged run.
        """
        count, damaged = 0, []
        number: int | None = -1
        try:
            while number is not None and (number := await self._next(number)) is not None:
                try:
                    await self._rebuild(number)
                except UnreadableState as error:
                    damaged.append(str(error))
                count += 1
            await self._rebuild_standing(damaged)
        except StoreFailed as error:
            done = count - len(damaged)
            raise _partly(error, f"The records of {done} runs were made anew before that", done) from error
        if damaged:
            more = f" There are {len(damaged) - 1} more." if len(damaged) > 1 else ""
            raise UnreadableState(f"{count - len(damaged)} of {count} runs were made anew. {damaged[0]}{more}")
        return count

    async def _rebuild_standing(self, damaged: list[str]) -> None:
        """Make the list of standing grants anew from its log; add a sentence to `damaged` if that cannot be read."""
        try:
            await self._write(standing.rebuild_standing)
        except UnreadableState as error:
            damaged.append(str(error))

    async def _next(self, number: int) -> int | None:
        return await self._read(lambda transaction: next_number(transaction, number))

    async def _rebuild(self, number: int) -> None:
        await self._write(lambda transaction: rebuild(transaction, number, self._now()))


def _partly(error: StoreFailed, done: str, count: int) -> StoreFailed:
    """Return the failure of work that is done run by run, with the number of runs done before."""
    if not count:
        return error
    failed = StoreFailed(f"{error} {done}. Call it again for the others.")
    failed.unknown = True
    return failed
