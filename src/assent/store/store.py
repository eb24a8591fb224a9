"""The store: where runs live, and the authority on them.

A store keeps journals. There is one way to write facts, `append`: after the fact that the writer knows as the last,
in one transaction with the records that can be read off them, or not at all. Whoever decides, says something or drives
a run does so by it; of two that do it at once, one is told that it was overtaken, and looks again.

What a store must do itself is abstract here. The rest (deciding, revoking, cancelling) is the same for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

from msgspec import Raw
from msgspec.json import encode
from msgspec.structs import replace

from ..approval.decide import decided
from ..approval.decision import Decision, Edit, checked_name, decision_from
from ..approval.frozen import FrozenTool
from ..approval.terms import GrantTerms
from ..core import facts as f
from ..core.codec import replay
from ..core.digest import holds
from ..core.facts import AnyFact
from ..core.fold import fold
from ..core.rules import verdict_of
from ..core.run import CallState, Run, overdue
from ..errors import (
    DefinitionChanged,
    GrantNotFound,
    IllegalFact,
    InvalidDecision,
    NotPending,
    Overtaken,
    RunFinished,
    UnreadableState,
    UsageError,
)
from .comparing import differences, kept_tool, records_of, see_that_it_was_asked
from .projection import Projection, Proposal, open_question
from .record import MOST, Change, Entry, GrantRecord, Lease, Page, Question, RunRecord, Stored

T = TypeVar("T")

Decided = f.Approved | f.Refused | f.Finished | f.Answered
ATTEMPTS = 50
"""How often a decision that was overtaken is tried again; each time somebody else got something done."""

Choose = Callable[[Run], Sequence[tuple[str, Decision, str]]]
"""Which questions of a run, by their ids, get which decisions, and the digests of what was shown."""
Make = Callable[[Run, int], list[AnyFact] | Awaitable[list[AnyFact]]]
"""What somebody outside of a run has to say, given the run as it is and the time."""


class Store(ABC):
    """Where runs live. Usable from any thread and event loop.

    A store that cannot be reached, is full or is damaged raises `StoreFailed`; then nothing was written,
    unless the error says that this is not known.
    """

    @property
    def immediate(self) -> bool:
        """Whether its methods often have nothing to wait for, and do not care in whose task they are: they are begun
        where they are called, and have a task of their own only for what is left when they wait."""
        return False

    # -- what a store must do ----------------------------------------------------------------------

    @abstractmethod
    def clock(self) -> float:
        """The time on the store's clock, in seconds since 1970. Quick: it is asked for every fact."""

    @abstractmethod
    async def append(self, change: Change) -> None:
        """Write a change in one transaction; durable when it returns.

        A change with `seq=0` makes the run, and may bring its first lease. One without facts is compared by
        `seq` like any other. A question's id that another run has used is refused. With `take` the lease is a new
        one, whose fence must be the one after the run's newest; given back at once, it leaves only its fence.

        `Overtaken` if the run does not have exactly `change.seq` facts, or was taken by others since; `LeaseLost` if
        `change.lease` is not the run's newest, or if there is none and a fact is a driver's; `RunBusy` if it is to be
        taken and somebody else drives it; `RunNotFound` if there is no such run. Then nothing was written.
        `store.rules.check_append` is all of this.
        """

    @abstractmethod
    async def read(self, run_id: str, after: int = 0) -> Stored:
        """A run, with its facts but the first `after`; `RunNotFound`, or `UnreadableState` naming the row
        that is damaged. The chain of hashes is checked over what is read. A run that was erased has its record,
        and no facts and no context."""

    @abstractmethod
    async def newest(self, thread: str) -> Stored | None:
        """The run of a thread that was made last, as `read` gives it; None if there is no such thread."""

    @abstractmethod
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
        """The open questions, the oldest first; with `settled` those that have come to their end.

        Args:
            run: Only of this run.
            agent: Only of agents of this name.
            tool: Only about this tool.
            older_than: Only those asked at least so many seconds ago.
            settled: Those that are not open any more instead.
            limit: How many on a page, at most 1,000.
            after: The `next` of the page before.
        """

    @abstractmethod
    async def question(self, question_id: str) -> Question:
        """A question, open or not; `QuestionNotFound` if there is none."""

    @abstractmethod
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
        """The runs, the oldest first: of an agent, a status or a thread, or unchanged for at least so many seconds."""

    @abstractmethod
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
        """The grants that are not revoked, the oldest first; with `revoked` all of them. `agent` is a place."""

    @abstractmethod
    async def definition(self, fingerprint: str) -> bytes | None:
        """A tool as it was offered, as JSON; by the whole fingerprint or by its first eight characters or more.
        A start that fits two finds none."""

    @abstractmethod
    async def claim(self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int) -> list[Lease]:
        """Take up to `limit` runs of these agents (None: of all) that a worker should look at now.

        Those whose `wake` has come and that nobody drives, the ones that have waited longest first. No run
        is given to two at once. Each lease holds for `hold` seconds.
        """

    @abstractmethod
    async def take(self, run_id: str, worker: str, *, seq: int, hold: float) -> Lease:
        """The right to drive this run. `RunBusy` if somebody else has it, `Overtaken` if the run does not
        have exactly `seq` facts."""

    @abstractmethod
    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        """Let the leases hold for `hold` seconds from now; those that still do."""

    @abstractmethod
    async def release(self, lease: Lease, *, again_in: float | None = None, error: str | None = None) -> None:
        """Give a lease back, if it still holds.

        With `error`: driving failed; the run is to be looked at again in `again_in` seconds or, without
        that, when something is appended to it. Without `error`: it did not fail, `failures` is 0 again, and
        `wake` is as it was, or `again_in` seconds from now. A run that is neither working nor waiting is never
        to be looked at.
        """

    @abstractmethod
    async def wait(self, timeout: float) -> None:
        """Return when a run may have become ready to be claimed, and after `timeout` seconds at the latest."""

    @abstractmethod
    async def lines(self, run_id: str) -> list[Entry]:
        """The rows of a run as they are, erased ones too, numbered from 1, with their hashes; `UnreadableState` if
        the chain is broken."""

    @abstractmethod
    async def erase(self, run_id: str) -> None:
        """Erase what was said in a run that is over: payloads, questions, context. That it happened, when and who
        decided stays, and so does the chain. `Conflict` if the run is not over."""

    @abstractmethod
    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        """Delete runs of these statuses that did not change for so many seconds, wholly; how many there were."""

    @abstractmethod
    async def rebuild(self) -> int:
        """Make all records anew from the journals; how many runs there are. Leases, fences and what is left of erased
        runs stay as they are."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of what the store holds. Closing twice is once."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Have at hand what `clock` needs, where that takes its time. A store whose clock is here needs nothing."""
        return

    # -- what follows from it ----------------------------------------------------------------------

    async def load(self, run_id: str) -> Stored:
        """A run, to go on with: `Runner.run(agent, await store.load(run_id), store=store)`."""
        return await self.read(run_id)

    async def history(self, run_id: str) -> list[Entry]:
        """What happened in a run, line by line, with times and the chain of hashes."""
        return await self.lines(run_id)

    async def decide(
        self,
        question_id: str,
        decision: Decision | dict[str, Any],
        *,
        by: str,
        digest: str,
        grant: GrantTerms | dict[str, Any] | bool | None = None,
    ) -> Question:
        """Record a decision on an open question; the question as it is then.

        Of several deciders the first wins, and the others get `AlreadyDecided`, with who, what and
        when. The same decision again is no error and changes nothing.

        Args:
            question_id: Which question.
            decision: `Approve()`, `Edit(...)`, `Reject(...)`, `Respond(...)`, or the JSON of one.
            by: Who decides.
            digest: The question's digest, as it was shown to whoever decides.
            grant: Let an approval or a rejection hold for later calls of the run too: True, or terms.
        """
        if type(digest) is not str:
            raise UsageError(f"digest is that of the question as it was shown, got {digest!r:.80}.")
        given = decision_from(decision)
        checked_name(by)
        shown = await self.question(question_id)
        asked: list[Question | None] = []

        def choose(run: Run) -> list[tuple[str, Decision, str]]:
            found = open_question(run, question_id)
            if found is not None:
                see_that_it_was_asked(shown, found)
            asked.append(found)
            return [(question_id, given, digest)]

        stored = await self.decide_all(shown.run, choose, by=by, grant=grant)
        # The decision is written: from here on nothing is read that could fail.
        return _settled(shown, asked[-1], stored)

    async def decide_all(
        self,
        run_id: str,
        choose: Choose,
        *,
        by: str,
        grant: GrantTerms | dict[str, Any] | bool | None = None,
        say: Raw | None = None,
        known: Stored | None = None,
    ) -> Stored:
        """Record decisions on open questions of one run at one go, or none of them; the run as it is then.

        Args:
            run_id: Which run.
            choose: Which questions, by their ids, get which decisions, and the digests of what was shown. It looks at
                the run as it is; where others have changed that meanwhile, it looks again. What it raises, this raises.
            by: Who decides.
            grant: Let approvals and rejections hold for later calls of the run too: True, or terms.
            say: What the user says besides: a JSON text, or a list of items.
            known: The run as it was read a moment ago, to begin with.
        """
        expired: set[str] = set()
        stored = await self._record(run_id, self._deciding(choose, by, grant, say, expired), known)
        if expired:
            raise NotPending(f"Question {min(expired)} is not open any more: its deadline has passed.")
        return stored

    async def propose(self, known: Stored, choose: Choose, *, by: str) -> Proposal | None:
        """What `decide_all` would record in a run as it was read a moment ago, for whoever goes on with it and writes
        this with what comes next. None if there is nothing to record, or time has decided."""
        expired: set[str] = set()
        made = await self._proposed(known, self._deciding(choose, by, None, None, expired))
        return None if expired or not made.facts else made

    def _deciding(self, choose: Choose, by: str, grant: Any, say: Raw | None, expired: set[str]) -> Make:
        """The facts of decisions; or, where it is too late for one of them, which is noted, those of time's."""
        checked_name(by)

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
                    made += decided(run, question, given, by=by, at=at, digest=digest, tool_of=tool_of, terms=grant)
                except InvalidDecision as error:
                    error.question = question
                    raise
            return made if say is None else [*made, f.Said(say, at=at)]

        return facts

    async def revoke(self, grant_id: str, *, by: str, run: str) -> None:
        """Take a grant of a run back: later calls are judged without it."""
        checked_name(by)

        def facts(run: Run, at: int) -> list[AnyFact]:
            if grant_id not in run.grants:
                raise GrantNotFound(f"Run {run.id!r} has no grant {grant_id!r:.80}; see store.grants(run=...).")
            return [f.Revoked(grant_id, by, at=at)]

        await self._record(run, facts)

    async def cancel(self, run_id: str, *, by: str, why: str | None = None) -> None:
        """Stop a run: nothing new is begun in it until it is resumed. Whoever drives it is told when it next writes."""
        checked_name(by)

        def facts(run: Run, at: int) -> list[AnyFact]:
            return [] if run.cancelled is not None else [f.Cancelled(by, why, at=at)]

        await self._record(run_id, facts)

    async def resume(self, run_id: str, *, by: str) -> None:
        """Let a cancelled run go on."""
        checked_name(by)

        def facts(run: Run, at: int) -> list[AnyFact]:
            return [] if run.cancelled is None else [f.Resumed(by, at=at)]

        await self._record(run_id, facts)

    async def say(self, run_id: str, input: str, *, by: str = "user") -> None:
        """Say something more in a run; the model hears it after the outputs of the open calls."""
        checked_name(by)
        if type(input) is not str or not input or not holds(input):
            raise UsageError(f"Input is text that is not empty, got {input!r:.80}.")
        said = Raw(encode([{"role": "user", "content": input}]))
        await self._record(run_id, lambda run, at: [f.Said(said, by, at=at)])

    async def witness(self, run_id: str, facts: Iterable[f.Witnessed]) -> None:
        """Keep results that came too late to count as evidence."""
        late = list(facts)
        await self._record(run_id, lambda run, at: list(late))

    async def expire(self, run_id: str) -> None:
        """Reject what nobody has decided in time."""
        await self._record(run_id, lambda run, at: list(overdue(run, at)))

    async def verify(self, run_id: str) -> list[str]:
        """Compare all that is kept of a run with its journal, and return what differs, a sentence each.

        The journal's chain is checked; the run's record, its questions and its grants are made anew from it and
        compared; its context and the tools that were asked about are compared with their hashes. Leases, and what
        workers note of failures, are not in the journal.
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
                continue  # somebody wrote meanwhile
            found = differences(stored, lines, questions, grants)
            found += [
                f"The row of {id!r}, of run {run_id!r}, is not what was written."
                for id in damaged
                if not any(repr(id) in sentence for sentence in found)
            ]
            return found + await self._changed_tools(questions)
        raise Overtaken(f"Run {run_id!r} changes faster than it could be compared; try again.")

    async def _questions_of(self, run_id: str) -> tuple[list[Question], list[str]]:
        """All questions of a run, and the ids of those whose rows are not what was written."""
        found: list[Question] = []
        damaged: list[str] = []
        for settled in (False, True):
            async for page in _pages(self.questions, run=run_id, settled=settled):
                found += page.items
                damaged += page.damaged
        return found, damaged

    async def _changed_tools(self, questions: list[Question]) -> list[str]:
        """Name the tools that were asked about and are not kept as they were."""
        said = []
        for mark in sorted({question.definition for question in questions if question.definition is not None}):
            text = await self.definition(mark)
            try:
                if text is not None:
                    kept_tool(mark, text)
            except UnreadableState as error:
                said.append(str(error))
        return said

    async def _record(self, run_id: str, make: Make, known: Stored | None = None) -> Stored:
        """Append what somebody outside of the run has to say, as often as it takes to be in time."""
        for _ in range(ATTEMPTS):
            stored, known = known or await self.read(run_id), None
            made = await self._proposed(stored, make)
            if not made.facts:
                return stored
            change = made.projection.change(made.run, len(stored.facts), made.facts, self.clock())
            try:
                await self.append(change)
            except Overtaken:
                continue
            return replace(stored, record=change.record, facts=[*stored.facts, *made.facts])
        raise Overtaken(f"Run {run_id!r} changes faster than this could be recorded; try again.")

    async def _proposed(self, stored: Stored, make: Make) -> Proposal:
        """What somebody has to say, folded into the run as it is."""
        run_id = stored.record.id
        if stored.record.erased is not None:
            raise RunFinished(f"Run {run_id!r} was erased.")
        run = replay(stored.facts)
        assert run.began is not None
        projection = Projection()
        given = make(run, max(0, int(self.clock() * 1000) - run.began.at))
        facts = given if isinstance(given, list) else await given
        try:
            for fact in facts:
                fold(run, fact)
                projection.note(run, fact)
        except IllegalFact as error:
            raise NotPending(f"This cannot be recorded in run {run_id!r} any more: {error}") from None
        return Proposal(stored, run, facts, projection)

    async def _frozen(
        self, run: Run, chosen: Sequence[tuple[str, Decision, str]], all_: bool
    ) -> Callable[[CallState, str], FrozenTool]:
        """The tools that edits need, or all decisions, as they were when the questions were asked."""
        found: dict[tuple[int, str], FrozenTool] = {}
        for question, given, _ in chosen:
            path, call = run.asked.get(question, ((), ""))
            state = run.at(path).calls.get(call)
            if state is None or not (all_ or type(given) is Edit):
                continue
            for name, fingerprint in _definitions(run, state, getattr(given, "tool", None)).items():
                text = await self.definition(fingerprint) if fingerprint is not None else None
                if text is not None and fingerprint is not None:
                    found[id(state), name] = kept_tool(fingerprint, text)

        def tool_of(state: CallState, name: str) -> FrozenTool:
            tool = found.get((id(state), name))
            if tool is None and name == state.tool:
                raise DefinitionChanged(f"The store does not know how tool {name!r} was defined; nothing was recorded.")
            if tool is None:
                raise InvalidDecision(f"The agent has no tool named {name!r}; choose one of its tools.")
            if tool.kind != state.call.kind:
                raise InvalidDecision(f"{name!r} is not of the kind that was proposed; choose another.")
            return tool

        return tool_of


def _settled(shown: Question, asked: Question | None, stored: Stored) -> Question:
    """The question as it is after a decision was recorded; `asked` is what the journal had of it while it was open."""
    if asked is None:  # the same was decided before
        return records_of(shown.run, stored, stored.record.changed)[1][shown.id]
    fact = next(each for each in reversed(stored.facts) if isinstance(each, Decided) and each.asked == shown.id)
    at = stored.record.began + fact.at
    return replace(shown, evidence=asked.evidence, verdict=verdict_of(fact), by=fact.by, decided=at)


async def _pages(find: Callable[..., Awaitable[Page[T]]], **filters: Any) -> AsyncIterator[Page[T]]:
    after: str | None = None
    while True:
        page = await find(**filters, limit=MOST, after=after)
        yield page
        if page.next is None:
            return
        after = page.next


def _definitions(run: Run, state: CallState, other: str | None) -> dict[str, str | None]:
    """The fingerprints, or their beginnings, of the tools that an edit of this call can be about."""
    names: dict[str, str | None] = {state.call.tool: state.call.definition}
    if state.fingerprint is not None:
        names[state.tool] = state.fingerprint
    if other is not None and other not in names:
        was = state.turn.definition
        marks = (was.tools or run.marks.get(was.digest, {})) if was is not None else {}
        names[other] = marks.get(other)
    return names
