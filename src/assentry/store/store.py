"""The base class of all stores. A store keeps the journals of runs and is the authority on them.

`append` is the only way to write facts. It compares the run's number of facts with the number that the writer knows,
and writes the facts and their records in one transaction, or nothing. Decisions, inputs and drives all use `append`.
Of two writers at once one gets `Overtaken`, reads the run again and retries.

The abstract methods are what each store implements. The rest (deciding, revoking, cancelling) is the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal, Self, TypeVar

from msgspec import Raw
from msgspec.json import decode, encode
from msgspec.structs import replace

from ..approval.decide import FOR_ALWAYS, decide
from ..approval.decision import Decider, Decision, Edit, checked_name, decider_from, decision_from
from ..approval.grant import grant_of
from ..approval.standing import StandingGrant, StandingTerms, standing_terms_from
from ..approval.terms import GrantTerms, terms_from
from ..approval.tool_snapshot import ToolSnapshot
from ..core import facts as f
from ..core.facts import AnyFact, QuestionKind
from ..core.fold import fold
from ..core.past import past_of
from ..core.rules import verdict_of
from ..core.run import CallState, Run, overdue
from ..core.snapshot import PastNeeded
from ..core.wording import described, holds
from ..errors import (
    AgentStopped,
    AssentryError,
    Conflict,
    DefinitionChanged,
    GrantNotFound,
    IllegalFact,
    InvalidDecision,
    InvalidInput,
    NotPending,
    Overtaken,
    QuestionNotFound,
    RunElsewhere,
    RunFinished,
    RunNotFound,
    StoreFailed,
    UnreadableState,
    UsageError,
)
from ..ids import run_of_question
from .beginning import WithId, check_beginning
from .chain import ExactJournal
from .comparing import check_it_was_asked, differences, kept_tool, records_of
from .engine import RecordedByEngine, RunEngine, await_copy
from .filter import MOST_COUNTED, Filter, check_end, checked_decider, checked_search, equal, page_start
from .news import News, Tally
from .outbox import Outbox
from .preview_requests import PreviewRequests
from .projection import Projection, open_question
from .record import (
    MOST,
    AgentRecord,
    Change,
    Entry,
    GrantRecord,
    Lease,
    Page,
    Question,
    RunRecord,
    Stored,
    check_seconds,
)
from .rules import is_lost
from .standing import grant_from_question, log_differences, log_journal, order_of_grant
from .starting import engine_of, first_change, is_same_order, keyed_run
from .statistics import Counted, Statistics, TimeSlice, checked_names, period_of, statistics_of
from .stop import AgentStop, check_reason, stop_in_words

T = TypeVar("T")
AnyQuestion = TypeVar("AnyQuestion", bound=Question)

Decided = f.Approved | f.Refused | f.Finished | f.Answered
ATTEMPTS = 50
"""The most attempts to record an overtaken decision; another writer made progress each time."""

Choose = Callable[[Run], Sequence[tuple[str, Decision, str]]]
"""Chooses the decisions on a run: tuples of question id, decision, and the digest that was shown."""
Make = Callable[[Run, int], list[AnyFact] | Awaitable[list[AnyFact]]]
"""Makes the facts to record from outside of a drive, given the run and the milliseconds since the run began."""


class Store(ABC):
    """The place where runs are kept. Usable from any thread and event loop.

    A store that cannot be reached, is full or is damaged raises `StoreFailed`. Nothing was written then,
    unless the error says that the outcome is unknown.
    """

    engine: RunEngine | None = None
    """The way to the engine of the runs that this store only has a copy of; None if there is none."""

    keeps_hashes: ClassVar[bool] = True
    """True if the journal rows are hashed and chained. False for a store whose rows nobody else can change."""

    # -- what each store implements ----------------------------------------------------------------

    @abstractmethod
    def clock(self) -> float:
        """Return the time on the store's clock, in seconds since 1970. Must be fast: it is called for every fact."""

    @abstractmethod
    async def append(self, change: Change) -> None:
        """Write a change in one transaction; the change is durable on return.

        A change with `seq=0` creates the run, and may bring the run's first lease. A change without facts is compared
        by `seq` too. A question id that is already in use is refused. With `take` the change acquires a new lease,
        whose fence must be one above the run's newest. Released in the same change, the lease leaves only its fence.

        Raises `Overtaken` if the run does not have exactly `change.seq` facts, or another worker acquired the lease
        since. Raises `LeaseLost` if `change.lease` is not the run's newest lease, or if there is no lease and only a
        driver may write one of the facts. Raises `RunBusy` if the lease is to be acquired and another worker holds it.
        Raises `RunNotFound` if there is no such run. Nothing was written then. `store.rules.check_append` has these
        rules.
        """

    @abstractmethod
    async def read(self, run_id: str, after: int = 0) -> Stored:
        """Return a run, with all facts but the first `after`.

        A store with hashes checks the chain over the rows that are read. An erased run has a record, but no facts and
        no context. Raises `RunNotFound`, or `UnreadableState`, which names the damaged row.
        """

    @abstractmethod
    async def newest(self, thread: str) -> Stored | None:
        """Return the newest run of a thread, as `read` does; None if there is no such thread."""

    @abstractmethod
    async def page(self, filter: Filter[T]) -> Page[T]:
        """Return a page of the questions, runs or grants that a filter wants, the oldest first.

        A search looks at no more than `filter.reach` questions; `next` goes on after these if there are more.
        """

    @abstractmethod
    async def question(self, question_id: str) -> Question:
        """Return a question, open or not; raise `QuestionNotFound` if there is none."""

    @abstractmethod
    async def definition(self, fingerprint: str) -> bytes | None:
        """Return a tool's definition as it was offered, as JSON; None if there is none.

        The first eight characters of a fingerprint, or more, are enough. A prefix that fits two tools finds none.
        """

    @abstractmethod
    async def define(self, definitions: Mapping[str, bytes]) -> None:
        """Keep definitions of tools, as JSON by their fingerprints, for an engine whose questions are of these tools.

        What is there already stays as it is. A drive keeps definitions with its questions, by `append`.
        """

    @abstractmethod
    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        """Acquire the leases of up to `limit` runs that are due, of these agents or with None of all.

        A run is due when its `wake` has passed and no lease on the run holds. The runs that have waited longest come
        first. No run goes to two workers at once. Each lease holds for `hold` seconds. The runs that programs outside
        drive are left out; with `outside` only these are claimed, by whoever tends to them.
        """

    @abstractmethod
    async def take(self, run_id: str, worker: str, *, seq: int, hold: float) -> Lease:
        """Acquire the lease of a run.

        Raises `RunBusy` if another worker holds the lease, and `Overtaken` if the run does not have exactly `seq`
        facts.
        """

    @abstractmethod
    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        """Extend the leases that still hold to `hold` seconds from now, and return them."""

    @abstractmethod
    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        """Release a lease, if the lease still holds.

        With `error` the drive failed: the run is due again in `again_in` seconds, or without `again_in` when something
        is appended to it. `seq` is the number of facts that the drive knew: without `again_in`, a run that has other
        facts by now is due at once. Without `error` the drive succeeded: `failures` is reset to 0, and `wake` stays as
        it was, or is `again_in` seconds from now. A run that is neither working nor waiting never becomes due.
        """

    @abstractmethod
    async def wait(self, timeout: float) -> None:
        """Wait until a run may be ready to claim, at most `timeout` seconds."""

    @abstractmethod
    async def lines(self, run_id: str) -> list[Entry]:
        """Return the journal rows of a run, numbered from 1, with their hashes; erased rows are included.

        Raises `UnreadableState` if the hash chain is broken.
        """

    @abstractmethod
    async def erase(self, run_id: str) -> None:
        """Erase the content of a run that has ended: payloads, questions, context.

        The kinds and times of the facts, the names of the deciders and the hash chain are kept. Raises `Conflict` if
        the run has not ended.
        """

    @abstractmethod
    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        """Delete all of the runs with these statuses that did not change for so many seconds; return their number."""

    @abstractmethod
    async def rebuild(self) -> int:
        """Rebuild all records from the journals, and return the number of runs.

        Leases, fences and the records of erased runs stay as they are.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the store and release its resources. Closing twice does no harm."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Prepare `clock`, if that takes time. A store with a local clock does nothing here."""
        return

    # -- what a store of the inbox implements ------------------------------------------------------

    async def watch(self, timeout: float) -> None:
        """Wait until there may be news, at most `timeout` seconds. Call `news` first: nothing is missed in between."""
        await self.wait(timeout)

    async def news(self, since: int, watched: Sequence[str] = ()) -> list[News]:
        """Return what happened since a time, in milliseconds since 1970; at most 1,000 of each kind, the oldest first.

        A question that is open was asked; another one has ended. A run that began or came to rest has changed. The
        `watched` runs have changed with each fact.
        """
        raise UsageError(f"A {type(self).__name__} has no news.")

    async def tally(self) -> Tally:
        """Return the number of open questions, and the time of the oldest."""
        raise UsageError(f"A {type(self).__name__} counts no questions.")

    async def count_part(self, part: TimeSlice) -> Counted:
        """Count the questions that were asked, and those that ended, in a part of a period."""
        raise UsageError(f"A {type(self).__name__} has no statistics.")

    async def count_open(self, part: TimeSlice) -> int:
        """Return the number of questions that were open at the end of a part."""
        raise UsageError(f"A {type(self).__name__} has no statistics.")

    async def announce(self, agents: Mapping[str, str]) -> None:
        """Record the agents that a worker drives, by name, each with the first fact of a new run as JSON."""
        return

    async def agents(self) -> list[AgentRecord]:
        """Return the agents that workers have announced."""
        return []

    # -- stops -------------------------------------------------------------------------------------

    async def stop(self, agent: str | None = None, *, by: str, why: str) -> AgentStop:
        """Stop an agent, or all agents: nothing new begins in their runs until `lift`.

        On return, no worker gets one of their runs, no run of them can be started here, and no call of them is
        recorded as begun any more, so none enters its body. This holds for runs that are driven now too, and for calls
        that one of these agents, or an agent that it runs as a tool, makes in another agent's run. Bodies that run
        already go on to their end; `cancel` ends them.

        The same person's same stop, while it holds, is no second one.

        Args:
            agent: The agent's name; None for all agents.
            by: The name of the person who stops it.
            why: The reason, for those who find it stopped.
        """
        raise UsageError(f"A {type(self).__name__} cannot stop agents.")

    async def lift(self, stop_id: str, *, by: str) -> AgentStop:
        """Lift a stop, and return it. Runs that are due can be claimed at once, unless another stop holds for them.

        Lifting it again changes nothing. Raises `StopNotFound` if there is none.
        """
        raise UsageError(f"A {type(self).__name__} cannot stop agents.")

    async def stops(self, *, lifted: bool = False, limit: int = 50, after: str | None = None) -> Page[AgentStop]:
        """Return a page of the stops that hold, the newest first; with `lifted` those too that were lifted."""
        return Page([])

    async def holding_stop(self, *agents: str) -> AgentStop | None:
        """Return a stop that holds for one of these agents; None if there is none."""
        async for page in _pages(self.stops):
            for each in page.items:
                if each.covers(agents):
                    return each
        return None

    # -- starting ----------------------------------------------------------------------------------

    async def start(self, agent: str, input: str, *, by: str, key: str | None = None) -> RunRecord:
        """Start a run of an agent that a worker has announced, and return its record. A worker drives the run.

        Raises `AgentStopped` while a stop holds for the agent.

        Args:
            agent: The agent's name.
            input: The user's message.
            by: The name of the user who asks for the run, and so decides nothing in it.
            key: A text of the user's own. The same user's same request with the same key starts one run, however often
                it is sent, as long as the run is stored. Raises `Conflict` if the key was used for another request.
        """
        checked_name(by)
        run_id = None if key is None else keyed_run(by, key)
        known = {each.name: each for each in await self.agents()}
        if agent in known and engine_of(known[agent]) is not None:
            return await self._start_elsewhere(agent, input, by, run_id)
        if run_id is not None and (earlier := await self._started(run_id, agent, input)) is not None:
            return earlier
        await self._check_not_stopped(agent)
        change = first_change(agent, known, input, by, int(self.clock() * 1000), run_id)
        try:
            await self.append(change)
        except Overtaken:
            earlier = None if run_id is None else await self._started(run_id, agent, input)
            if earlier is None:
                raise
            return earlier
        return change.record

    async def _start_elsewhere(self, agent: str, input: str, by: str, run_id: str | None) -> RunRecord:
        """Have an engine start a run, and return the record of the store's copy, or what it will begin with."""
        if self.engine is None:
            raise RunElsewhere(f"Agent {agent!r} runs on an engine, to which this process has no way.")
        if type(input) is not str or not input.strip() or not holds(input):
            raise InvalidInput(f"Input is text that is not empty, got {input!r:.80}.")
        if run_id is not None and (earlier := await self._started(run_id, agent, input)) is not None:
            return earlier
        await self._check_not_stopped(agent)
        run = await self.engine.start(agent, input, id=run_id, started_by=by)
        now = int(self.clock() * 1000)
        begun = RunRecord(id=run.id, agent=agent, status="working", seq=0, began=now, changed=now, started_by=by)
        return await await_copy(self, run.id, 1) or begun

    async def _check_not_stopped(self, agent: str) -> None:
        """Raise `AgentStopped` while a stop holds for an agent."""
        if (stop := await self.holding_stop(agent)) is not None:
            raise AgentStopped(f"No run of {agent!r} can be started: {stop_in_words(stop)}.")

    async def _started(self, run_id: str, agent: str, input: str) -> RunRecord | None:
        """Return the run that was started with a key before; raise `Conflict` if it was another request."""
        try:
            stored = await self.read(run_id)
        except RunNotFound:
            return None
        if not is_same_order(stored.facts, agent, input):
            raise Conflict("This key was used for another run, with another agent or input. Choose a new key.")
        return stored.record

    @property
    def outbox(self) -> Outbox:
        """The webhooks of the store, and the messages that wait for them. A store need not have one."""
        raise UsageError(f"A {type(self).__name__} keeps no messages for webhooks.")

    @property
    def previews(self) -> PreviewRequests | None:
        """The requests for previews of edits, which workers answer; None if the store keeps none."""
        return None

    async def journal(self, run_id: str) -> ExactJournal:
        """Return a run's journal to the letter, with its hash chain, so that others can check it.

        Raises `UnreadableState` if the hash chain is broken, and `UsageError` if the store keeps no hashes.
        """
        raise UsageError(f"A {type(self).__name__} keeps no hashes, so there is nothing to check.")

    # -- what all stores share ---------------------------------------------------------------------

    async def count(self, filter: Filter[Any]) -> int:
        """Return the number of items that fit, at most the filter's `limit`; a search is not looked at.

        A store that can count without reading the items does so.
        """
        found, start, most = 0, filter.start, filter.limit
        while found < most:
            page = await self.page(replace(filter, search=None, limit=min(MOST, most - found), start=start))
            found += len(page.items) + len(page.damaged)
            if page.next is None:
                break
            start = page_start(MOST, page.next)
        return found

    async def load(self, run_id: str) -> Stored:
        """Return a run, to continue it: `Runner.run(agent, await store.load(run_id), store=store)`.

        The `facts` of a long run may be a sequence that decodes its first part when somebody looks at it; `read` always
        gives a list.
        """
        return await self.read(run_id)

    async def record(self, run_id: str) -> RunRecord:
        """Return a run's record, without its facts; raise `RunNotFound` if there is no such run."""
        return (await self.read(run_id, 2**31 - 1)).record

    async def history(
        self,
        run_id: str,
        *,
        after: int = 0,
        limit: int | None = None,
        kinds: Mapping[str, str] | None = None,
        payloads: bool = False,
    ) -> list[Entry]:
        """Return the history of a run, or a part of it: one entry for each fact, with its time and hash.

        A store with hashes checks the rows that are read, and the chain between those that follow each other.

        Args:
            run_id: The run's id.
            after: The number of the fact to begin after.
            limit: The most entries; None for all.
            kinds: Only facts of these kinds, such as "asked", or "" for any kind, each with a text that is looked for
                in the fact's JSON, or "". A fact with a payload that is stored apart may be there without the text.
            payloads: True for whole facts. Otherwise an entry may have the hash of a large payload in its place.
        """
        entries = await self.lines(run_id)
        if payloads and any("blobs" in entry.fact for entry in entries):
            facts = (await self.read(run_id)).facts
            entries = [replace(entry, fact=decode(encode(fact))) for entry, fact in zip(entries, facts, strict=False)]
        return part_of_history(entries, after, limit, kinds)

    async def histories(self, run_ids: Collection[str]) -> dict[str, list[Entry]]:
        """Return the whole histories of several runs, by their ids, as `history` does for one.

        A run that is not there or is damaged is left out: `history` says why. Meant for lists of short runs. A store
        that can read them at once does so.
        """
        found: dict[str, list[Entry]] = {}
        for run_id in run_ids:
            with suppress(RunNotFound, UnreadableState):
                found[run_id] = await self.history(run_id)
        return found

    async def successor(self, question_id: str, *, known: Question | None = None) -> Question | None:
        """Return the question that took a settled question's place; None if there is none, or the question is open.

        It is the open question about the same call. Others may have been asked in between.

        Args:
            question_id: The question's id.
            known: The question as it was just read, to save a read.
        """
        return await find_successor(self.questions, known or await self.question(question_id))

    async def questions(
        self,
        *,
        run: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        kind: QuestionKind | None = None,
        decider: str | Decider | None = None,
        by: str | None = None,
        verdict: str | None = None,
        decided_after: int | None = None,
        decided_before: int | None = None,
        search: str | None = None,
        older_than: float | None = None,
        settled: bool = False,
        limit: int = 50,
        after: str | None = None,
        newest: bool = False,
    ) -> Page[Question]:
        """Return a page of open questions, the oldest first.

        With `settled`, decided, replaced and void ones instead, those that ended first in front.

        Args:
            run: Only questions of this run.
            agent: Only questions of agents with this name.
            tool: Only questions about this tool.
            kind: Only questions of this kind: "approval", "input" or "doubt".
            decider: Only questions that this person may decide: the reviewers are open or name the person or, of a
                `Decider`, a group, and somebody else asked for the run.
            by: Only settled questions that this person or program decided.
            verdict: Only settled questions with this end, such as "reject" or "replaced".
            decided_after: Only settled questions that ended at this time or later, in milliseconds since 1970.
            decided_before: Only settled questions that ended before this time, in milliseconds since 1970.
            search: Only questions that contain this text in an id, a name, the reason, the arguments or the preview.
                Case does not matter. Of a question with masked arguments, only ids and names are searched.
                One page looks at no more than 10,000 questions. If there are more, the page has what was found among
                these, perhaps nothing, and its `next` goes on after them.
            older_than: Only questions asked at least this many seconds ago.
            settled: True for the questions that are no longer open.
            limit: The size of a page, at most 1,000.
            after: The `next` of the page before.
            newest: True for the newest first.
        """
        if older_than is not None:
            check_seconds(older_than=older_than)
        wanted = equal(run=run, agent=agent, tool=tool, kind=kind, by=by, verdict=verdict)
        check_end(settled, by=by, verdict=verdict, decided_after=decided_after, decided_before=decided_before)
        start, text, ended = page_start(limit, after), checked_search(search), bool(settled)
        return await self.page(
            Filter(
                kind=Question,
                equal=wanted,
                search=text,
                age=older_than,
                decided_after=decided_after,
                decided_before=decided_before,
                ended=ended,
                decider=checked_decider(decider),
                limit=limit,
                start=start,
                newest=newest,
            )
        )

    async def statistics(
        self,
        *,
        since: int | None = None,
        until: int | None = None,
        tool: str | None = None,
        agent: str | None = None,
        by: str | None = None,
    ) -> Statistics:
        """Return figures of the questions of a period: how many waited, how soon they were decided, how, and by whom.

        A period is read in parts, so that other reads come in between. The records are counted as they are: a row that
        was changed behind the store's back is not found here, but by `verify`.

        Args:
            since: The beginning, in milliseconds since 1970; a week before the end if left out. The period begins with
                the full hour, day or week that this time is in, in UTC.
            until: The end, in milliseconds since 1970; now if left out.
            tool: Only questions about this tool.
            agent: Only questions of agents with this name.
            by: Only decisions of this person or program. Those that wait are everybody's.
        """
        checked_names(tool=tool, agent=agent, by=by)
        await self.open()
        period = period_of(since, until, int(self.clock() * 1000))
        parts = period.parts(tool, agent, by)
        counted = [await self.count_part(part) for part in parts]
        return statistics_of(period, counted, await self.count_open(parts[-1]), by)

    async def count_questions(
        self,
        *,
        run: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        kind: QuestionKind | None = None,
        decider: str | Decider | None = None,
        by: str | None = None,
        settled: bool = False,
        most: int = MOST_COUNTED,
        after: str | None = None,
        newest: bool = False,
    ) -> int:
        """Return the number of open questions, or of settled ones, that fit; see `questions` for the filters.

        Args:
            run: Only questions of this run.
            agent: Only questions of agents with this name.
            tool: Only questions about this tool.
            kind: Only questions of this kind.
            decider: Only questions that this person may decide.
            by: Only settled questions that this person or program decided.
            settled: True for the questions that are no longer open.
            most: The number at which to stop counting, from 1 to 10,000.
            after: Only questions after this place, the `next` of a page.
            newest: True for the order of the page that `after` is of.
        """
        if type(most) is not int or not 1 <= most <= MOST_COUNTED:
            raise UsageError(f"most is a whole number from 1 to {MOST_COUNTED:,}, got {described(most)}.")
        wanted = equal(run=run, agent=agent, tool=tool, kind=kind, by=by)
        check_end(settled, by=by)
        who, start, ended = checked_decider(decider), page_start(1, after), bool(settled)
        return await self.count(
            Filter(kind=Question, equal=wanted, ended=ended, decider=who, limit=most, start=start, newest=newest)
        )

    async def runs(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        thread: str | None = None,
        unchanged_for: float | None = None,
        limit: int = 50,
        after: str | None = None,
        newest: bool = False,
    ) -> Page[RunRecord]:
        """Return a page of runs, the oldest first.

        Args:
            agent: Only runs that began with the agent of this name.
            status: Only runs with this status.
            thread: Only runs of this thread.
            unchanged_for: Only runs that did not change for at least this many seconds.
            limit: The size of a page, at most 1,000.
            after: The `next` of the page before.
            newest: True for the newest first.
        """
        if unchanged_for is not None:
            check_seconds(unchanged_for=unchanged_for)
        wanted = equal(agent=agent, status=status, thread=thread)
        start = page_start(limit, after)
        return await self.page(
            Filter(kind=RunRecord, equal=wanted, age=unchanged_for, limit=limit, start=start, newest=newest)
        )

    async def lost(self) -> list[RunRecord]:
        """Return the runs that have something to do, and that no worker will ever look at.

        No run becomes so by a failure of a worker. A crash of the database, a fault or an older version may leave one.
        """
        page, lost = Page[RunRecord]([], ""), list[RunRecord]()
        while page.next is not None:
            start = page_start(MOST, page.next or None)
            page = await self.page(
                Filter(kind=RunRecord, equal={"status": "working"}, asleep=True, limit=MOST, start=start)
            )
            now = int(self.clock() * 1000)
            lost += [record for record in page.items if is_lost(record, now)]
        return lost

    async def grants(
        self,
        *,
        run: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        revoked: bool = False,
        limit: int = 50,
        after: str | None = None,
        newest: bool = False,
    ) -> Page[GrantRecord]:
        """Return a page of the grants that were not revoked, or with `revoked` of all grants; the oldest first.

        `agent` is an agent's place, not its name.
        """
        wanted = equal(run=run, agent=agent, tool=tool)
        start = page_start(limit, after)
        return await self.page(
            Filter(
                kind=GrantRecord,
                equal=wanted,
                ended=None if revoked else False,
                limit=limit,
                start=start,
                newest=newest,
            )
        )

    async def ids(self, kind: WithId, beginning: str, *, limit: int = 10) -> list[str]:
        """Return the ids of questions, runs or grants that begin with this text, in their order; at most `limit`."""
        check_beginning(beginning, limit)
        found: list[str] = []
        start: tuple[int, str] | None = None
        while True:
            page: Page[Any] = await self.page(Filter(kind=kind, equal={}, limit=MOST, start=start))
            found += [each.id for each in page.items if each.id.startswith(beginning)]
            if page.next is None:
                return sorted(found)[:limit]
            start = page_start(MOST, page.next)

    async def decide(
        self,
        question_id: str,
        decision: Decision | dict[str, Any],
        *,
        by: str | Decider,
        digest: str,
        grant: GrantTerms | dict[str, Any] | bool | None = None,
        known: Question | None = None,
    ) -> Question:
        """Record a decision on an open question, and return the question after the decision.

        Of several deciders the first wins. The others get `AlreadyDecided`, which says who decided what and when. The
        same decision again is no error and changes nothing.

        Args:
            question_id: The question's id.
            decision: `Approve()`, `Edit(...)`, `Reject(...)`, `Respond(...)`, or the JSON of one.
            by: The name of the decider, or a `Decider` with groups.
            digest: The question's digest, as it was shown to the decider.
            grant: True, or terms, to apply an approval or a rejection to later calls of the run too.
            known: The question as it was just read, to save a read. It is compared with the journal all the same.
        """
        return (await self._decide(question_id, decision, by, digest, grant, known))[0]

    async def decide_and_grant(
        self,
        question_id: str,
        decision: Decision | dict[str, Any],
        *,
        by: str | Decider,
        digest: str,
        grant: GrantTerms | dict[str, Any] | bool,
        known: Question | None = None,
    ) -> tuple[Question, GrantRecord | None]:
        """Record a decision and its grant as `decide` does, and return both; the arguments are those of `decide`.

        The grant is None if the same decision was recorded before, without such a grant.
        """
        settled, stored = await self._decide(question_id, decision, by, digest, grant, known)
        terms = terms_from(grant, decision_from(decision))
        return settled, None if terms is None else _find_grant(stored.run(talks=False), settled, terms)

    async def _decide(
        self,
        question_id: str,
        decision: Decision | dict[str, Any],
        by: str | Decider,
        digest: str,
        grant: Any,
        known: Question | None,
    ) -> tuple[Question, Stored]:
        """Record a decision; return the question and the run after the decision."""
        if type(digest) is not str:
            raise UsageError(f"digest is that of the question as it was shown, got {digest!r:.80}.")
        given = decision_from(decision)
        decider_from(by)
        shown = known if known is not None and known.id == question_id else await self._asked(question_id)
        if shown is None:
            return await self._decide_elsewhere(question_id, given, by, digest, grant, None)
        asked: list[Question | None] = []

        def choose(run: Run) -> list[tuple[str, Decision, str]]:
            found = open_question(run, question_id)
            if found is not None:
                check_it_was_asked(shown, found)
            elif past_of(run.entries):
                raise PastNeeded  # to say how it was settled
            asked.append(found)
            return [(question_id, given, digest)]

        try:
            stored = await self._record_decisions(shown.run, choose, by, grant)
        except RunElsewhere:
            return await self._decide_elsewhere(question_id, given, by, digest, grant, shown)
        # The decision is written. A read that failed now would hide that from the caller.
        return _settled(shown, asked[-1], stored), stored

    async def _asked(self, question_id: str) -> Question | None:
        """Return a question; None if only an engine may know it, since the store's copy may be behind."""
        try:
            return await self.question(question_id)
        except QuestionNotFound:
            if self.engine is None:
                raise
            return None

    async def _decide_elsewhere(
        self, question_id: str, given: Decision, by: str | Decider, digest: str, grant: Any, shown: Question | None
    ) -> tuple[Question, Stored]:
        """Have the engine of a run record a decision; return the question and the store's copy of the run after it."""
        engine = self._engine()
        done = await engine.decide(
            question_id, given, by=by, digest=digest, grant=grant, run=None if shown is None else shown.run
        )
        run = shown.run if shown is not None else run_of_question(question_id)
        if await await_copy(self, run, done.seq) is not None:
            return await self.question(question_id), await self.load(run)
        if shown is None:
            error = StoreFailed("The decision is recorded, and the store's copy of the run is behind; look again.")
            error.unknown = True
            raise error
        settled = replace(shown, verdict=done.verdict, by=done.by, decided=done.at, shown=done.shown)
        return settled, await self.load(run)

    def _engine(self) -> RunEngine:
        if self.engine is None:
            raise RunElsewhere(
                "This run is a workflow of another engine, which alone can record this; the store has a copy. Give the "
                "inbox the way to it: assentry serve --temporal ADDRESS."
            )
        return self.engine

    async def _tell(
        self, run_id: str, make: Make, elsewhere: Callable[[RunEngine], Awaitable[RecordedByEngine]]
    ) -> None:
        """Record facts in a run, here or, if an engine is the authority on it, there."""
        try:
            await self._record(run_id, make)
        except RunElsewhere:
            done = await elsewhere(self._engine())
            await await_copy(self, run_id, done.seq)

    async def decide_all(
        self,
        run_id: str,
        choose: Choose,
        *,
        by: str | Decider,
        grant: GrantTerms | dict[str, Any] | bool | None = None,
        say: Raw | f.Said | None = None,
        known: Stored | None = None,
    ) -> Stored:
        """Record all of the decisions on one run's open questions, or none; return the run after them.

        Args:
            run_id: The run's id.
            choose: A function from the run to tuples of question id, decision, and the digest that was shown. It is
                called again if another writer changed the run meanwhile. Its exceptions are passed on.
            by: The name of the decider.
            grant: True, or terms, to apply approvals and rejections to later calls of the run too.
            say: New user input to record with the decisions: a JSON text, or a list of items; or a whole `Said`.
            known: The run as it was just read, to save the first read.
        """
        stored = known or await self.load(run_id)
        return await self._record_decisions(run_id, choose, by, grant, say, stored)

    async def _record_decisions(
        self,
        run_id: str,
        choose: Choose,
        by: str | Decider,
        grant: Any,
        say: Raw | f.Said | None = None,
        known: Stored | None = None,
    ) -> Stored:
        """Record decisions as `decide_all` does; without `known`, the returned run may lack its past."""
        expired: set[str] = set()
        stored = await self._record(run_id, self._deciding(choose, by, grant, say, expired), known)
        if expired:
            raise NotPending(f"Question {min(expired)} is not open any more: its deadline has passed.")
        return stored

    def _deciding(
        self, choose: Choose, by: str | Decider, grant: Any, say: Raw | f.Said | None, expired: set[str]
    ) -> Make:
        """Return a function that makes the facts of the decisions.

        If a chosen question's deadline has passed, the function adds the question's id to `expired` and makes only
        the facts of the passed deadlines.
        """
        decider_from(by)

        async def facts(run: Run, at: int) -> list[AnyFact]:
            chosen = choose(run)
            late = overdue(run, at)
            expired.update({fact.asked or "" for fact in late} & {question for question, _, _ in chosen})
            made: list[AnyFact] = [*late]
            if expired:
                return made
            tool_of = await self._frozen(run, chosen, grant is not None)
            for question, given, digest in chosen:
                try:
                    made += decide(run, question, given, by=by, at=at, digest=digest, tool_of=tool_of, grant=grant)
                except InvalidDecision as error:
                    error.question = question
                    raise
            if say is None:
                return made
            return [*made, replace(say, at=at) if isinstance(say, f.Said) else f.Said(say, at=at)]

        return facts

    async def revoke(self, grant_id: str, *, by: str, run: str) -> None:
        """Revoke a grant of a run. Later calls are judged without the grant."""
        checked_name(by)

        def facts(run: Run, at: int) -> list[AnyFact]:
            if grant_id not in run.grants:
                raise GrantNotFound(f"Run {run.id!r} has no grant {grant_id!r:.80}; see store.grants(run=...).")
            return [f.Revoked(grant_id, by, at=at)]

        await self._tell(run, facts, lambda engine: engine.revoke(grant_id, by=by, run=run))

    # -- standing grants ---------------------------------------------------------------------------

    async def give_standing_grant(
        self,
        question_id: str,
        *,
        by: str | Decider,
        terms: StandingTerms | dict[str, Any] | None = None,
        verdict: Literal["approve", "reject"] = "approve",
        message: str | None = None,
    ) -> StandingGrant:
        """Let a decision hold for later calls in all runs of an agent, within terms, and return the grant.

        The question, open or settled, says for which agent and tool. The grant decides neither this question nor others
        that are open. Whoever may decide the question may give it, but not who asked for its run.

        Args:
            question_id: A question about a call of the tool.
            by: The name of the person, or a `Decider` with groups.
            terms: The limits: the number of calls, the time, the conditions on arguments.
            verdict: "approve", or "reject", which beats every approval.
            message: The words for the model, with a rejection.
        """
        who = decider_from(by)
        order = order_of_grant(standing_terms_from(terms), verdict, message)
        question = await self.question(question_id)
        stored = await self.read(question.run)
        if stored.record.erased is not None:
            raise RunFinished(f"Run {question.run!r} was erased, so no grant can be given from its questions.")
        text = await self.definition(question.definition) if question.definition is not None else None
        if text is None or question.definition is None:
            raise DefinitionChanged(f"The definition of tool {question.tool!r} is not there any more.")
        tool = kept_tool(question.definition, text)
        now = int(self.clock() * 1000)
        grant = grant_from_question(stored.run(talks=False), question_id, tool, who, order, now)
        return await self._add_standing(grant)

    async def standing_grants(
        self,
        *,
        agent: str | None = None,
        tool: str | None = None,
        revoked: bool = False,
        limit: int = 50,
        after: str | None = None,
        newest: bool = False,
    ) -> Page[StandingGrant]:
        """Return a page of the standing grants that were not revoked, or with `revoked` of all; the oldest first.

        `agent` is an agent's place, not its name. The ids of damaged rows are in `damaged`.
        """
        wanted, start = equal(agent=agent, tool=tool), page_start(limit, after)
        ends = None if revoked else False
        filter = Filter(kind=StandingGrant, equal=wanted, ended=ends, limit=limit, start=start, newest=newest)
        every, damaged = await self._all_standing()
        page = filter.page(every, int(self.clock() * 1000))
        page.damaged = damaged
        return page

    async def revoke_standing_grant(self, grant_id: str, *, by: str) -> StandingGrant:
        """Revoke a standing grant. Calls that it has approved before stay approved; revoking it again is no error."""
        checked_name(by)
        if type(grant_id) is not str or not holds(grant_id):
            raise GrantNotFound(f"The store has no standing grant {grant_id!r:.80}.")
        return await self._end_standing(grant_id, by)

    async def grants_for(self, tools: Collection[str]) -> list[StandingGrant]:
        """Return the standing grants for tools of these names that are not revoked. The gate judges by them."""
        return []

    async def standing_log(self) -> ExactJournal:
        """Return the log of standing grants to the letter, with its hash chain, so that others can check it.

        Raises `UnreadableState` if the hash chain is broken.
        """
        return log_journal([])

    async def verify_standing(self) -> list[str]:
        """Compare the standing grants with their log, and return one sentence for each difference."""
        try:
            return log_differences(await self.standing_log(), *await self._all_standing())
        except UnreadableState as error:
            return [str(error)]

    async def _add_standing(self, grant: StandingGrant) -> StandingGrant:
        """Write a grant to the log and the list; return the one that is there if the request was sent twice."""
        raise UsageError(f"A {type(self).__name__} keeps no standing grants.")

    async def _end_standing(self, grant_id: str, by: str) -> StandingGrant:
        """Revoke a grant in the log and the list; raise `GrantNotFound` if there is none."""
        raise GrantNotFound(f"The store has no standing grant {grant_id!r:.80}.")

    async def _all_standing(self) -> tuple[list[StandingGrant], list[str]]:
        """Return all standing grants, and the ids of damaged rows."""
        return [], []

    async def cancel(self, run_id: str, *, by: str, why: str | None = None) -> None:
        """Cancel a run: nothing new starts until `resume`. A driver notices at its next write.

        Cancelling it again changes nothing. `why` has at most 2,000 characters.
        """
        checked_name(by)
        check_reason(why)

        def facts(run: Run, at: int) -> list[AnyFact]:
            return [] if run.cancelled is not None else [f.Cancelled(by, why, at=at)]

        await self._tell(run_id, facts, lambda engine: engine.cancel(run_id, by=by, why=why))

    async def resume(self, run_id: str, *, by: str) -> None:
        """Resume a cancelled run."""
        checked_name(by)

        def facts(run: Run, at: int) -> list[AnyFact]:
            return [] if run.cancelled is None else [f.Resumed(by, at=at)]

        await self._tell(run_id, facts, lambda engine: engine.resume(run_id, by=by))

    async def say(self, run_id: str, input: str, *, by: str = "user") -> None:
        """Add a user message to a run. The model gets the message after the outputs of the open calls."""
        if checked_name(by) in f.OWN_AUTHORS:
            raise UsageError(f"`by` must say who gives the input; {by!r} is a name that only the runtime uses.")
        if type(input) is not str or not input or not holds(input):
            raise UsageError(f"Input is text that is not empty, got {input!r:.80}.")
        said = Raw(encode([{"role": "user", "content": input}]))
        made: Make = lambda run, at: [f.Said(said, by, at=at)]  # noqa: E731
        await self._tell(run_id, made, lambda engine: engine.say(run_id, input, by=by))

    async def witness(self, run_id: str, facts: Iterable[f.Witnessed]) -> None:
        """Record late results, which no longer count, as evidence."""
        late = list(facts)
        await self._record(run_id, lambda run, at: list(late))

    async def expire(self, run_id: str) -> None:
        """Reject the open questions whose deadline has passed."""
        await self._record(run_id, lambda run, at: list(overdue(run, at)))

    async def verify(self, run_id: str) -> list[str]:
        """Compare everything stored of a run with its journal, and return one sentence for each difference.

        The hash chain is checked. The run's record, questions and grants are rebuilt from the journal and compared.
        The context and the tools of the questions are compared with their hashes. A run that has something to do, and
        that no worker will ever look at, is named too. Leases, and the failures that workers note, are not in the
        journal and not compared.
        """
        for _ in range(ATTEMPTS):
            try:
                stored, lines = await self.read(run_id), await self.lines(run_id)
            except UnreadableState as error:
                return [str(error)]
            questions, damaged = await self._questions_of(run_id)
            grants: list[GrantRecord] = []
            async for page in _pages(self.grants, run=run_id, revoked=True):
                grants += page.items
                damaged += page.damaged
            after = (await self.read(run_id, stored.record.seq)).record
            if (after.seq, after.erased, len(lines)) != (stored.record.seq, stored.record.erased, after.seq):
                continue  # another writer changed the run meanwhile
            found = differences(stored, lines, questions, grants)
            found += [
                f"The row of {id!r}, of run {run_id!r}, is not what was written."
                for id in damaged
                if not any(repr(id) in sentence for sentence in found)
            ]
            if is_lost(after, int(self.clock() * 1000)):
                found.append(
                    f"Run {run_id!r} is under way, and nothing wakes it: it has no worker, no time to look at it, and "
                    "no reason to be left alone. `assentry runs retry` makes it due."
                )
            sound = [each for each in questions if not any(repr(each.id) in sentence for sentence in found)]
            snapshots = await self._compare_snapshots(run_id)
            return found + snapshots + await self._changed_tools(run_id, sound)
        raise Overtaken(f"Run {run_id!r} changes faster than it could be compared; try again.")

    async def _questions_of(self, run_id: str) -> tuple[list[Question], list[str]]:
        """Return all questions of a run, and the ids of the questions whose rows are damaged."""
        found: list[Question] = []
        damaged: list[str] = []
        for settled in (False, True):
            async for page in _pages(self.questions, run=run_id, settled=settled):
                found += page.items
                damaged += page.damaged
        return found, damaged

    async def _changed_tools(self, run_id: str, questions: list[Question]) -> list[str]:
        """Return one sentence for each tool of a run's questions whose stored definition has changed, or is gone."""
        said = []
        for mark in sorted({question.definition for question in questions if question.definition is not None}):
            text = await self.definition(mark)
            if text is None:
                said.append(f"The definition of a tool that run {run_id!r} asks about, {mark!r}, is not there.")
                continue
            try:
                kept_tool(mark, text)
            except UnreadableState as error:
                said.append(str(error))
        return said

    async def _recent(self, run_id: str) -> Stored:
        """Return a run as `load` does, but nobody may look at the facts before its snapshot."""
        return await self.read(run_id)

    async def _compare_snapshots(self, run_id: str) -> list[str]:
        """Compare a run's snapshots with its journal, and return one sentence for each difference."""
        return []

    async def _record(self, run_id: str, make: Make, known: Stored | None = None) -> Stored:
        """Append facts from outside of a drive; retry with a new read if another writer was first.

        A snapshot saves reading the whole journal. It never refuses anything: if the facts cannot be made, or there are
        none to record, they are made again from the whole journal.
        """
        whole = known is not None
        for _ in range(ATTEMPTS):
            stored = known or await (self.read(run_id) if whole else self._recent(run_id))
            known, late = None, stored.is_late
            try:
                run, facts, projection = await self._folded(stored, make)
            except (AssentryError, PastNeeded):
                if not late:
                    raise
                whole = True
                continue
            if not facts and late and not whole:
                whole = True
                continue
            if not facts:
                return stored
            change = projection.change(run, len(stored.facts), facts, self.clock())
            try:
                await self.append(change)
            except Overtaken:
                continue
            after = stored.facts.copy()
            after += facts
            return replace(stored, record=change.record, facts=after)
        raise Overtaken(f"Run {run_id!r} changes faster than this could be recorded; try again.")

    async def _folded(self, stored: Stored, make: Make) -> tuple[Run, list[AnyFact], Projection]:
        """Make the facts for a stored run, and fold them into the run."""
        run_id = stored.record.id
        if stored.record.erased is not None:
            raise RunFinished(f"Run {run_id!r} was erased.")
        run = stored.run(talks=False)
        assert run.began is not None
        if run.began.engine is not None:
            raise RunElsewhere(f"Run {run_id!r} is a workflow on {run.began.engine}, which alone can change it.")
        projection = Projection()
        given = make(run, max(0, int(self.clock() * 1000) - run.began.at))
        facts = given if isinstance(given, list) else await given
        try:
            for fact in facts:
                fold(run, fact)
                projection.note(run, fact)
        except IllegalFact as error:
            raise NotPending(f"This cannot be recorded in run {run_id!r} any more: {error}") from None
        return run, facts, projection

    async def _frozen(
        self, run: Run, chosen: Sequence[tuple[str, Decision, str]], all_: bool
    ) -> Callable[[CallState, str], ToolSnapshot | None]:
        """Return a lookup of tools as they were when the questions were asked.

        With `all_` the lookup has the tools of all decisions, else only those of the edits.
        """
        found: dict[tuple[int, str], ToolSnapshot] = {}
        for question, given, _ in chosen:
            path, call = run.asked.get(question, ((), ""))
            state = run.at(path).calls.get(call)
            if state is None or not (all_ or type(given) is Edit):
                continue
            for name, fingerprint in _definitions(run, state, getattr(given, "tool", None)).items():
                text = await self.definition(fingerprint) if fingerprint is not None else None
                if text is not None and fingerprint is not None:
                    found[id(state), name] = kept_tool(fingerprint, text)
        return lambda state, name: found.get((id(state), name))


def _settled(shown: Question, asked: Question | None, stored: Stored) -> Question:
    """Return the question after its decision; `asked` is the question as the journal had it while open, or None."""
    if asked is None:  # the same decision was recorded before
        return records_of(shown.run, stored, stored.record.changed)[1][shown.id]
    fact = next(each for each in reversed(stored.facts) if isinstance(each, Decided) and each.asked == shown.id)
    at = stored.record.began + fact.at
    return replace(
        shown,
        evidence=asked.evidence,
        verdict=verdict_of(fact),
        by=fact.by,
        decided=at,
        shown=fact.shown,
        looked=fact.looked,
    )


def _find_grant(run: Run, settled: Question, terms: GrantTerms) -> GrantRecord | None:
    """Return the grant with these terms that came with a decision, or covered its later calls before; else None."""
    path, call = run.asked[settled.id]
    state = run.at(path).calls[call]
    fitting = [
        grant
        for fact in run.grants.values()
        if (fact.agent, fact.tool) == (state.turn.agent, state.tool)
        and (grant := grant_of(run, fact, GrantRecord, run=run.id)).until == terms.until(grant.at)
        and (grant.max_uses, grant.pins) == (terms.max_uses, terms.pins or None)
        and (grant.verdict == "reject") == (settled.verdict == "reject")
        and (terms == FOR_ALWAYS or grant.at >= (settled.decided or 0))
    ]
    return fitting[-1] if fitting else None


async def find_successor(find: Callable[..., Awaitable[Page[AnyQuestion]]], question: Question) -> AnyQuestion | None:
    """Return the question that took this one's place; `find` is `Store.questions`, or does the same elsewhere."""
    if question.verdict is None:
        return None
    async for page in _pages(find, run=question.run):
        for each in page.items:
            if each.call == question.call and each.path == question.path:
                return each
    return None


def part_of_history(
    entries: Sequence[Entry], after: int = 0, limit: int | None = None, kinds: Mapping[str, str] | None = None
) -> list[Entry]:
    """Return the entries of a whole history that `Store.history` gives for these arguments."""
    found = [entry for entry in entries[max(after, 0) :] if kinds is None or _is_wanted(entry.fact, kinds)]
    return found[:limit]


def _is_wanted(fact: dict[str, Any], kinds: Mapping[str, str]) -> bool:
    text = kinds.get(str(fact.get("fact")), kinds.get(""))
    return text is not None and ("blobs" in fact or text.encode() in encode(fact))


async def _pages(find: Callable[..., Awaitable[Page[T]]], **filters: Any) -> AsyncIterator[Page[T]]:
    after: str | None = None
    while True:
        page = await find(**filters, limit=MOST, after=after)
        yield page
        if page.next is None:
            return
        after = page.next


def _definitions(run: Run, state: CallState, other: str | None) -> dict[str, str | None]:
    """Return the fingerprints, or prefixes of them, of the tools that an edit of this call may name."""
    names: dict[str, str | None] = {state.call.tool: state.call.definition}
    if state.fingerprint is not None:
        names[state.tool] = state.fingerprint
    if other is not None and other not in names:
        was = state.turn.definition
        marks = (was.tools or run.marks.get(was.digest, {})) if was is not None else {}
        names[other] = marks.get(other)
    return names
