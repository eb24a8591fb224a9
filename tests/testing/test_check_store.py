"""`check_store` finds what a store does wrong: each of these stores has one fault."""

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from assentry.approval.decision import Approve, decision_from
from assentry.approval.tool_snapshot import ToolSnapshot
from assentry.core.facts import AnyFact
from assentry.errors import AlreadyDecided, Overtaken, StoreFailed, UnreadableState, UsageError
from assentry.store import (
    Change,
    Entry,
    GrantRecord,
    Lease,
    MemoryStore,
    Page,
    Question,
    RunRecord,
    SavedContext,
    Store,
    Stored,
)
from assentry.store import memory as inside
from assentry.store.filter import Filter, cursor
from assentry.store.row_codec import START, is_erased, link, pack, payloads, redacted
from assentry.store.rules import is_driven
from assentry.store.wakeup import Wakeup
from assentry.testing import check_store
from assentry.testing import store as checks
from assentry.testing.store_checks import lease as lease_checks

T = TypeVar("T")
FAULTS: list[tuple[type[MemoryStore], str]] = []


def fault(sentence: str) -> Callable[[type[MemoryStore]], type[MemoryStore]]:
    """A store with a fault, and the beginning of what is said of it."""

    def note(kind: type[MemoryStore]) -> type[MemoryStore]:
        FAULTS.append((kind, sentence))
        return kind

    return note


class Row(NamedTuple):
    text: bytes
    hash: bytes


class Chained(MemoryStore):
    """A store as a database keeps it: its facts are rows with hashes, which a test can change behind its back."""

    keeps_hashes = True

    def __init__(self, *, clock: Callable[[], float]) -> None:
        super().__init__(clock=clock)
        self.rows: dict[str, list[Row]] = {}

    async def append(self, change: Change) -> None:
        await super().append(change)
        rows = self.rows.setdefault(change.record.id, [])
        for fact in change.facts:
            text = pack(fact)[0]
            rows.append(Row(text, link(rows[-1].hash if rows else START, change.record.id, len(rows) + 1, text)))

    def check(self, run_id: str, after: int = 0) -> None:
        before, erased = START, self._kept(run_id).record.erased is not None
        for seq, row in enumerate(self.rows[run_id], 1):
            intact = link(before, run_id, seq, row.text) == row.hash or (erased and is_erased(row.text))
            if seq > after and not intact:
                raise UnreadableState(f"Fact {seq} of run {run_id!r} is not what was written.")
            before = row.hash

    async def read(self, run_id: str, after: int = 0) -> Stored:
        stored = await super().read(run_id, after)
        self.check(run_id, after)
        return stored

    def entries(self, run_id: str) -> list[Entry]:
        times = [line.at for line in self._kept(run_id).lines()]
        rows = enumerate(zip(times, self.rows[run_id], strict=True), 1)
        return [Entry(seq, at, msgspec.json.decode(row.text), row.hash.hex()) for seq, (at, row) in rows]

    async def lines(self, run_id: str) -> list[Entry]:
        self._kept(run_id)
        self.check(run_id)
        return self.entries(run_id)

    async def erase(self, run_id: str) -> None:
        await super().erase(run_id)
        self.rows[run_id] = [row._replace(text=redacted(row.text)) for row in self.rows[run_id]]

    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        count = await super().purge(unchanged_for=unchanged_for, statuses=statuses)
        self.rows = {id: rows for id, rows in self.rows.items() if id in self._runs}
        return count

    async def rebuild(self) -> int:
        for run_id in self._runs:
            self.check(run_id)
        return await super().rebuild()


# -- writing -----------------------------------------------------------------------------------------


@fault("A run of 5 facts takes no change after 4.")
class IgnoresSeq(MemoryStore):
    async def append(self, change: Change) -> None:
        kept = self._runs.get(change.record.id)
        if kept is not None and change.seq:
            change = replace(change, seq=kept.record.seq)
        await super().append(change)


@fault("A run that is there cannot be made again.")
class MakesRunsAgain(MemoryStore):
    async def append(self, change: Change) -> None:
        if change.seq == 0:
            self._runs.pop(change.record.id, None)
        await super().append(change)


@fault("Only a change with seq=0 makes a run.")
class MakesRunsWithAnySeq(MemoryStore):
    async def append(self, change: Change) -> None:
        if change.record.id not in self._runs:
            change = replace(change, seq=0)
        await super().append(change)


@fault("A change by somebody who lost the run is refused.")
class IgnoresFences(MemoryStore):
    async def append(self, change: Change) -> None:
        if change.lease is not None and (kept := self._runs.get(change.record.id)) is not None:
            change = replace(change, lease=replace(change.lease, fence=kept.fence, worker=kept.record.worker or ""))
        await super().append(change)


@fault("A change by somebody who lost the run is refused.")
class AllowsHigherFences(MemoryStore):
    async def append(self, change: Change) -> None:
        kept, lease = self._runs.get(change.record.id), change.lease
        if kept is not None and lease is not None and lease.fence > kept.fence:
            change = replace(change, lease=replace(lease, fence=kept.fence))
        await super().append(change)


@fault("What somebody who lost the run writes changes nothing.")
class LosesTheLeaseAfterWriting(MemoryStore):
    async def append(self, change: Change) -> None:
        kept, lease = self._runs.get(change.record.id), change.lease
        if kept is not None and lease is not None and lease.fence != kept.fence:
            newest = replace(lease, fence=kept.fence, worker=kept.record.worker or "")
            await super().append(replace(change, lease=newest))
            change = replace(change, seq=kept.record.seq)
        await super().append(change)


@fault("Whoever gave the run back writes nothing with that lease.")
class ComparesFencesOnly(MemoryStore):
    async def append(self, change: Change) -> None:
        kept, lease = self._runs.get(change.record.id), change.lease
        if kept is not None and lease is not None and kept.record.worker is None and lease.fence == kept.fence:
            change = replace(change, lease=None)
        await super().append(change)


@fault("Facts come back as they were written, to the last byte.")
class LosesLargePayloads(MemoryStore):
    async def read(self, run_id: str, after: int = 0) -> Stored:
        stored = await super().read(run_id, after)
        if any(pack(fact)[1] for fact in stored.facts):
            raise UnreadableState("A payload is not there.")
        return stored


@fault("Facts come back in their order and as they were written.")
class TidiesPayloads(MemoryStore):
    async def append(self, change: Change) -> None:
        await super().append(replace(change, facts=[tidy(fact) for fact in change.facts]))


def tidy(fact: AnyFact) -> AnyFact:
    for name in payloads(type(fact)):
        text = getattr(fact, name)
        if text:
            with suppress(msgspec.DecodeError):
                fact = replace(fact, **{name: Raw(msgspec.json.encode(msgspec.json.decode(text)))})
    return fact


@fault("Facts come back in their order and as they were written.")
class ForgetsPaths(MemoryStore):
    async def append(self, change: Change) -> None:
        await super().append(replace(change, facts=[replace(fact, path=()) for fact in change.facts]))


@fault("Facts come back in their order and as they were written.")
class TurnsFactsRound(MemoryStore):
    async def append(self, change: Change) -> None:
        await super().append(replace(change, facts=change.facts[::-1]))


def without(field: str, empty: Any) -> type[MemoryStore]:
    """A store that forgets a part of a change."""

    class Forgets(MemoryStore):
        async def append(self, change: Change) -> None:
            await super().append(replace(change, **{field: copy(empty)}))

    Forgets.__name__ = f"Forgets{field.title()}"
    return Forgets


FAULTS += [
    (without("asked", []), "An open question is listed."),
    (without("settled", []), "Only questions without an end are open."),
    (without("evidence", {}), "The question shows it."),
    (without("granted", []), "Changing an object after it was written"),
    (without("used", {}), "A grant says how often it was used"),
    (without("revoked", []), "grants({}) gives those that fit."),
    (without("definitions", {}), "A tool is found by its fingerprint."),
    (without("context", None), "A context is kept as it was written."),
    (without("hold", None), "A change with `hold`"),
    (without("release", False), "A change with `release`"),
]


@fault("A change without a context leaves it as it is.")
class ForgetsOldContexts(MemoryStore):
    async def append(self, change: Change) -> None:
        await super().append(replace(change, context=change.context or SavedContext()))


@fault("A change without facts can bring another context.")
class SkipsChangesWithoutFacts(MemoryStore):
    async def append(self, change: Change) -> None:
        if change.facts:
            await super().append(change)


@fault("A change with the id of a question of another run is refused.")
class OverwritesQuestions(MemoryStore):
    def _see_that_ids_are_new(self, asked: list[Question]) -> None:
        pass


@fault("Of a change with the id of a question of another run nothing is written.")
class WritesHalfOfIt(MemoryStore):
    async def append(self, change: Change) -> None:
        if any(question.id in self._questions for question in change.asked):
            await super().append(replace(change, asked=[]))
            raise StoreFailed("The question is there already.")
        await super().append(change)


@fault("Of a change with text that UTF-8 cannot hold nothing is written.")
class WritesFactByFact(MemoryStore):
    async def append(self, change: Change) -> None:
        try:
            await super().append(change)
        except UnicodeEncodeError:
            await super().append(replace(change, facts=change.facts[:-1]))
            raise


@fault("Of several that write after the same fact, one does.")
class ComparesTooEarly(MemoryStore):
    async def append(self, change: Change) -> None:
        if (kept := self._runs.get(change.record.id)) is not None and change.seq:
            if kept.record.seq != change.seq:
                raise Overtaken()
            await asyncio.sleep(0)
            change = replace(change, seq=kept.record.seq)
        await super().append(change)


@fault("A write that is cancelled is whole or not there.")
class WritesInParts(MemoryStore):
    async def append(self, change: Change) -> None:
        [pack(fact) for fact in change.facts]
        self._see_that_ids_are_new(change.asked)
        first, rest = change.facts[:1], change.facts[1:]
        if change.seq == 0 and rest and change.lease is None:
            await super().append(replace(change, facts=first, record=replace(change.record, seq=1)))
            await asyncio.sleep(0)
            self._questions = {k: v for k, v in self._questions.items() if v.run != change.record.id}
            self._grants = {k: v for k, v in self._grants.items() if v.run != change.record.id}
            change = replace(change, seq=1, facts=rest, take=True, release=True)
            change.lease = Lease(change.record.id, "parts", 1)
        await super().append(change)


@fault("Changing an object after it was written changes nothing in the store.")
class KeepsWhatItWasGiven(MemoryStore):
    def _note(self, change: Change, asked: list[Question], granted: list[GrantRecord]) -> None:
        super()._note(change, change.asked, change.granted)


@fault("Changing an object that was handed out changes nothing in the store.")
class HandsOutItsOwn(MemoryStore):
    async def question(self, question_id: str) -> Question:
        await super().question(question_id)
        return self._questions[question_id]


@fault("Changing an object that was handed out changes nothing in the store.")
class HandsOutItsOwnRecords(MemoryStore):
    async def read(self, run_id: str, after: int = 0) -> Stored:
        stored = await super().read(run_id, after)
        stored.record = self._runs[run_id].record
        return stored


@fault("A new run is driven by nobody and has not failed.")
class BelievesTheRecord(MemoryStore):
    def _record_after(self, kept: Any, change: Change, now: int) -> RunRecord:
        return copy(change.record)


@fault("A run can be made with its first lease.")
class MakesRunsWithoutLeases(MemoryStore):
    async def append(self, change: Change) -> None:
        await super().append(replace(change, lease=None) if change.seq == 0 else change)


# -- reading -----------------------------------------------------------------------------------------


@fault("A line's hash is that of `row_codec.link`.")
class ChainsNoRuns(Chained):
    async def lines(self, run_id: str) -> list[Entry]:
        lines = await super().lines(run_id)
        before = bytes(32)
        for n, line in enumerate(lines):
            before = link(before, "", line.seq, self.rows[run_id][n].text)
            lines[n] = replace(line, hash=before.hex())
        return lines


@fault("Lines are numbered from 1.")
class CountsFromZero(MemoryStore):
    async def lines(self, run_id: str) -> list[Entry]:
        return [replace(line, seq=line.seq - 1) for line in await super().lines(run_id)]


@fault("A line says when it was written.")
class StampsLinesOnReading(MemoryStore):
    async def lines(self, run_id: str) -> list[Entry]:
        return [replace(line, at=self._now()) for line in await super().lines(run_id)]


@fault("`record` gives a run's record.")
class GivesAnOlderRecord(MemoryStore):
    async def record(self, run_id: str) -> RunRecord:
        return replace(await super().record(run_id), seq=1)


@fault("A part of a history is that part of the whole.")
class GivesOneTooMany(MemoryStore):
    async def history(self, run_id: str, *, limit: int | None = None, **more: Any) -> list[Entry]:
        return await super().history(run_id, limit=None if limit is None else limit + 1, **more)


@fault("A history can be of some kinds of facts.")
class GivesEveryKind(MemoryStore):
    async def history(self, run_id: str, *, kinds: Any = None, **more: Any) -> list[Entry]:
        return await super().history(run_id, **more)


@fault("A text finds the facts whose JSON has it.")
class LooksForNoText(MemoryStore):
    async def history(self, run_id: str, *, kinds: Any = None, **more: Any) -> list[Entry]:
        return await super().history(run_id, kinds=None if kinds is None else dict.fromkeys(kinds, ""), **more)


@fault("A text is looked for in facts of every kind.")
class LooksOnlyInKindsThatAreNamed(MemoryStore):
    async def history(self, run_id: str, *, kinds: Any = None, **more: Any) -> list[Entry]:
        return await super().history(run_id, kinds={} if kinds and "" in kinds else kinds, **more)


@fault("Kinds hold after a number.")
class FindsKindsFromTheStart(MemoryStore):
    async def history(self, run_id: str, *, kinds: Any = None, after: int = 0, **more: Any) -> list[Entry]:
        return await super().history(run_id, kinds=kinds, after=after if kinds is None else 0, **more)


@fault("With `payloads`, every fact is whole.")
class GivesHashesOfPayloads(Chained):
    async def history(self, run_id: str, *, payloads: bool = False, **more: Any) -> list[Entry]:
        return await super().history(run_id, **more)


@fault("Each run has its own history.")
class GivesOneHistoryToAll(MemoryStore):
    async def histories(self, run_ids: Collection[str]) -> dict[str, list[Entry]]:
        found = await super().histories(run_ids)
        return {run_id: next(iter(found.values())) for run_id in found}


@fault("Only these runs are read.")
class GivesAllHistories(MemoryStore):
    async def histories(self, run_ids: Collection[str]) -> dict[str, list[Entry]]:
        return await super().histories(self._runs if run_ids else ())


@fault("An erased run has the history that is left of it.")
class LeavesOutErasedRuns(MemoryStore):
    async def histories(self, run_ids: Collection[str]) -> dict[str, list[Entry]]:
        found = await super().histories(run_ids)
        return {run_id: each for run_id, each in found.items() if not any("erased" in entry.fact for entry in each)}


@fault("The open question about the same call took a settled one's place.")
class FollowsWithAnyQuestion(MemoryStore):
    async def successor(self, question_id: str, *, known: Question | None = None) -> Question | None:
        settled = (await self.question(question_id)).verdict is not None
        return (await self.questions()).items[0] if settled else None


@fault("after=1 leaves out the first 1 facts.")
class ReadsFromTheStart(MemoryStore):
    async def read(self, run_id: str, after: int = 0) -> Stored:
        return await super().read(run_id)


@fault("Facts come back in their order and as they were written.")
class ReadsOneTooFew(MemoryStore):
    async def read(self, run_id: str, after: int = 0) -> Stored:
        return await super().read(run_id, after + 1 if type(self._runs.get(run_id)) is inside._Kept else after)


@fault("A run that is not there cannot be read or erased.")
class KnowsEverything(MemoryStore):
    async def read(self, run_id: str, after: int = 0) -> Stored:
        if run_id not in self._runs:
            record = RunRecord(id=run_id, agent="", status="idle", seq=0, began=0, changed=0)
            return Stored(record=record, facts=[])
        return await super().read(run_id, after)


# -- lists -------------------------------------------------------------------------------------------


def ignoring(method: str, name: str) -> type[MemoryStore]:
    """A store that ignores a filter of a list."""
    plain = getattr(MemoryStore, method)

    async def find(self: MemoryStore, **chosen: Any) -> Any:
        chosen.pop(name, None)
        return await plain(self, **chosen)

    return type(f"Ignores{name.title()}In{method.title()}", (MemoryStore,), {method: find})


FAULTS += [
    (ignoring("questions", "run"), "questions({'run':"),
    (ignoring("questions", "agent"), "questions({'agent': 'Bailiff'})"),
    (ignoring("questions", "tool"), "questions({'tool': 'shred'})"),
    (ignoring("questions", "decider"), "Only questions that ann may decide are listed."),
    (ignoring("count_questions", "decider"), "What is counted is what is listed."),
    (ignoring("count_questions", "most"), "Counting stops at `most`."),
    (ignoring("questions", "older_than"), "questions({'older_than': 60})"),
    (ignoring("questions", "settled"), "An open question is not among the settled ones."),
    (ignoring("questions", "limit"), "A page is full if there is more."),
    (ignoring("questions", "after"), "No question is on two pages"),
    (ignoring("runs", "agent"), "runs({'agent': 'Clerk'})"),
    (ignoring("runs", "status"), "runs({'status': 'waiting'})"),
    (ignoring("runs", "thread"), "runs({'thread':"),
    (ignoring("runs", "unchanged_for"), "runs({'unchanged_for': 10})"),
    (ignoring("runs", "limit"), "A limit of 0 is refused."),
    (ignoring("runs", "after"), "Pages of one give all there is, each once."),
    (ignoring("grants", "run"), "grants({'run':"),
    (ignoring("grants", "agent"), "grants({'agent':"),
    (ignoring("grants", "tool"), "grants({'tool':"),
    (ignoring("grants", "revoked"), "grants({'revoked': True})"),
    (ignoring("grants", "after"), "Pages of one give all there is, each once."),
]


@fault("No more calls are approved than the terms say.")
class CountsNoUses(MemoryStore):
    """Lets a standing grant decide any number of calls."""

    def _uses(self, change: Change) -> dict[str, Any]:
        return {}


@fault("The gate gets the grants of the tools that it judges.")
class GivesTheGateRevokedGrants(MemoryStore):
    """Has the gate judge by grants that were revoked."""

    async def grants_for(self, tools: Any) -> list[Any]:
        return [grant for grant in (await self._all_standing())[0] if grant.tool in tools]


@fault("Revoking twice is once.")
class RevokesAgain(MemoryStore):
    """Says that whoever revoked a grant last has revoked it."""

    async def _end_standing(self, grant_id: str, by: str) -> Any:
        gone = await super()._end_standing(grant_id, by)
        return replace(gone, revoked_by=by)


@fault("No question is left out between two pages")
class PagesByOffset(MemoryStore):
    async def questions(self, *, limit: int = 50, after: str | None = None, **chosen: Any) -> Page[Question]:
        skipped = int(after) if after is not None else 0
        every = (await super().questions(limit=1000, **chosen)).items
        more = str(skipped + limit) if len(every) > skipped + limit else None
        return Page(every[skipped : skipped + limit], more)


@fault("No question is on two pages")
class PagesOverlap(MemoryStore):
    async def questions(self, *, limit: int = 50, **chosen: Any) -> Page[Question]:
        page = await super().questions(limit=limit, **chosen)
        if page.next is not None and len(page.items) > 1:
            page.next = cursor(page.items[-2].at, page.items[-2].id)
        return page


@fault("The last page has no next one")
class AlwaysHasMore(MemoryStore):
    async def questions(self, **chosen: Any) -> Page[Question]:
        page = await super().questions(**chosen)
        if page.next is None and page.items:
            page.next = cursor(page.items[-1].at, page.items[-1].id)
        return page


@fault("No question is on two pages")
class PagesByTimeOnly(MemoryStore):
    async def questions(self, *, after: str | None = None, **chosen: Any) -> Page[Question]:
        if after is not None:
            at, _ = msgspec.json.decode(after)
            after = cursor(at, "")
        return await super().questions(after=after, **chosen)


@fault("A page of a search looks at no more questions than it may.")
class SearchesEverything(MemoryStore):
    async def page(self, filter: Filter[T]) -> Page[T]:
        return await super().page(replace(filter, reach=1_000_000))


@fault("A search that has not looked at all questions says where it goes on.")
class SearchesNoFurther(MemoryStore):
    async def page(self, filter: Filter[T]) -> Page[T]:
        page = await super().page(filter)
        return page if page.items or filter.search is None else Page([])


@fault("A search that has looked at all questions has no next page.")
class AlwaysSearchesOn(MemoryStore):
    async def page(self, filter: Filter[T]) -> Page[T]:
        page = await super().page(filter)
        if filter.search is not None and page.next is None and page.items:
            page.next = cursor(*filter.place(page.items[-1]))
        return page


@fault("Without a search, the whole list is looked at.")
class LooksNoFurther(MemoryStore):
    async def page(self, filter: Filter[T]) -> Page[T]:
        page = await super().page(filter)
        return page if filter.search is not None else Page(page.items[: filter.reach], page.next)


@fault("The pages of a search find each question once")
class SearchesPastWhatItFound(MemoryStore):
    async def page(self, filter: Filter[T]) -> Page[T]:
        page = await super().page(filter)
        if filter.search is None or page.next is None:
            return page
        every = await super().page(replace(filter, search=None, limit=filter.reach))
        return Page(page.items, every.next)


@fault("The oldest questions come first.")
class NewestFirst(MemoryStore):
    async def questions(self, *, limit: int = 50, after: str | None = None, **chosen: Any) -> Page[Question]:
        every = (await super().questions(limit=1000, **chosen)).items[::-1]
        ids = [question.id for question in every]
        start = ids.index(after) + 1 if after in ids else 0
        page = every[start : start + limit]
        return Page(page, page[-1].id if len(every) > start + limit else None)


@fault("Pages have the order of the whole.")
class RunsNewestFirst(MemoryStore):
    async def runs(self, **chosen: Any) -> Page[RunRecord]:
        page = await super().runs(**chosen)
        return page if chosen.get("limit") == 1 else Page(page.items[::-1], page.next)


@fault("A limit of 1001 is refused.")
class ClipsLimits(MemoryStore):
    async def questions(self, *, limit: int = 50, **chosen: Any) -> Page[Question]:
        return await super().questions(limit=min(limit, 1000), **chosen)


@fault("'' is not where a page begins.")
class StartsAgainAtBadCursors(MemoryStore):
    async def questions(self, *, after: str | None = None, **chosen: Any) -> Page[Question]:
        try:
            return await super().questions(after=after, **chosen)
        except UsageError:
            if after is None:
                raise
            return await super().questions(**chosen)


@fault("A question of an agent within a run is kept with all its fields.")
class ForgetsWhereItWasAsked(MemoryStore):
    async def append(self, change: Change) -> None:
        await super().append(replace(change, asked=[replace(question, path=()) for question in change.asked]))


@fault("A question that was never asked is `QuestionNotFound`.")
class GuessesQuestions(MemoryStore):
    async def question(self, question_id: str) -> Question:
        found = (each for id, each in self._questions.items() if question_id and id.startswith(question_id))
        guessed = next(found, None)
        return deepcopy(guessed) if guessed is not None else await super().question(question_id)


@fault("A tool is found by the first eight characters")
class WantsWholeFingerprints(MemoryStore):
    async def definition(self, fingerprint: str) -> bytes | None:
        return self._definitions.get(fingerprint)


@fault("Seven characters of a fingerprint are not enough.")
class TakesAnyStart(MemoryStore):
    async def definition(self, fingerprint: str) -> bytes | None:
        found = [text for mark, text in self._definitions.items() if mark.startswith(fingerprint)]
        return found[0] if len(found) == 1 else None


@fault("Characters that fit two tools find neither.")
class TakesTheFirstThatFits(MemoryStore):
    async def definition(self, fingerprint: str) -> bytes | None:
        found = (text for mark, text in self._definitions.items() if mark.startswith(fingerprint))
        return next(found, None) if len(fingerprint) >= 8 else None


# -- leases ------------------------------------------------------------------------------------------


class Claims(MemoryStore):
    """Claims by rules of its own."""

    def due(self, record: RunRecord, agents: Sequence[str] | None) -> bool:
        now = self._now()
        return (
            record.wake is not None
            and record.wake <= now
            and not is_driven(record.worker, record.until, now)
            and (agents is None or record.agent in agents)
        )

    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        due = [kept for kept in self._runs.values() if self.due(kept.record, agents)]
        return [self._lease(kept, worker, hold) for kept in sorted(due, key=inside._due_at)[:limit]]


@fault("Runs that are done, cancelled or wait for a person are not claimed.")
class ClaimsWhatIsNotDue(Claims):
    def due(self, record: RunRecord, agents: Sequence[str] | None) -> bool:
        return super().due(replace(record, wake=0), agents)


@fault("Runs that are done, cancelled or wait for a person are not claimed.")
class ClaimsTooEarly(Claims):
    def due(self, record: RunRecord, agents: Sequence[str] | None) -> bool:
        return super().due(replace(record, wake=None if record.wake is None else 0), agents)


@fault("After a deadline a run is claimed.")
class ForgetsDeadlines(Claims):
    def due(self, record: RunRecord, agents: Sequence[str] | None) -> bool:
        return super().due(record, agents) and record.status == "working"


@fault("A run that is resumed is claimed.")
class ClaimsTwice(Claims):
    def due(self, record: RunRecord, agents: Sequence[str] | None) -> bool:
        return super().due(replace(record, worker=None), agents)


@fault("A run whose lease ran out is claimed again.")
class NeverClaimsAgain(Claims):
    def due(self, record: RunRecord, agents: Sequence[str] | None) -> bool:
        return super().due(record, agents) and record.worker is None


@fault("Of no agents, no run is claimed.")
class ClaimsForAnyAgent(Claims):
    def due(self, record: RunRecord, agents: Sequence[str] | None) -> bool:
        return super().due(record, None)


@fault("Of no agents, no run is claimed.")
class TakesNoAgentsForAll(Claims):
    def due(self, record: RunRecord, agents: Sequence[str] | None) -> bool:
        return super().due(record, agents or None)


@fault("With a limit of 0 no run is claimed.")
class ClaimsMoreThanTheLimit(Claims):
    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        return await super().claim(worker, agents=agents, hold=hold, limit=limit or 100, outside=outside)


@fault("The run that has waited longest comes first.")
class ClaimsInAnyOrder(Claims):
    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        due = [kept for kept in self._runs.values() if self.due(kept.record, agents)]
        return [self._lease(kept, worker, hold) for kept in due[:limit]]


@fault("What ended is counted as it ended, of {}.")
class CountsWhatEndedWithThePart(MemoryStore):
    """Takes the end of a part for a time that is in it."""

    async def count_part(self, part: Any) -> Any:
        return await super().count_part(part._replace(end=part.end + 1))


@fault("What was open then is counted.")
class CountsWhatIsOpenNow(MemoryStore):
    """Counts the questions that are open now, whatever the time."""

    async def count_open(self, part: Any) -> int:
        return (await self.tally()).open


@fault("Runs are found by the beginning 'run_1'.")
class FindsIdsAnywhere(MemoryStore):
    """Finds the ids that have a text in them, in the order in which they were made."""

    async def ids(self, kind: Any, beginning: str, *, limit: int = 10) -> list[str]:
        return [each.id for each in self._items(kind) if beginning in each.id][:limit]


@fault("A stop of one agent leaves the runs of others.")
class LooksAtNoStop(MemoryStore):
    """Keeps stops and looks at none."""

    def _stop_of(self, agents: Sequence[str]) -> Any:
        return None


@fault("Nothing begins in a run whose agent is stopped.")
class BeginsDespiteStops(MemoryStore):
    """Looks at stops before a claim, and not before a call begins."""

    def _check_stops(self, change: Change) -> None:
        pass


@fault("A stop of the agent of a call holds in any run.")
class StopsOnlyTheRunsAgent(MemoryStore):
    """Does not look at the agents that calls begin for."""

    def _check_stops(self, change: Change) -> None:
        super()._check_stops(replace(change, starting=()))


@fault("A stop of the agent that makes a call holds in the runs of others too")
class StopsCopies(MemoryStore):
    """Refuses what an engine has recorded already."""

    def _check_stops(self, change: Change) -> None:
        super()._check_stops(replace(change, copied=False))


@fault("No worker gets the run of a program outside.")
class ClaimsForPrograms(MemoryStore):
    """Gives workers the runs of programs outside."""

    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        found = await super().claim(worker, agents=agents, hold=hold, limit=limit, outside=outside)
        if not outside:
            found += await super().claim(worker, agents=agents, hold=hold, limit=limit, outside=True)
        return found


@fault("With `outside`, the runs that programs have left are claimed, and no others.")
class TendsToEveryRun(MemoryStore):
    """Gives whoever tends to the runs of programs the runs of workers too."""

    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        found = await super().claim(worker, agents=agents, hold=hold, limit=limit, outside=outside)
        if outside:
            found += await super().claim(worker, agents=agents, hold=hold, limit=limit)
        return found


@fault("Of several that claim at the same time, no two get the same run.")
class ClaimsWithoutLocking(Claims):
    async def claim(
        self, worker: str, *, agents: Sequence[str] | None, hold: float, limit: int, outside: bool = False
    ) -> list[Lease]:
        due = [kept for kept in self._runs.values() if self.due(kept.record, agents)]
        await asyncio.sleep(0)
        return [self._lease(kept, worker, hold) for kept in sorted(due, key=inside._due_at)[:limit]]


@fault("Whoever takes a run over has a higher fence.")
class HasOneFence(MemoryStore):
    def _lease(self, kept: Any, worker: str, hold: float) -> Lease:
        lease = super()._lease(kept, worker, hold)
        kept.fence = 1
        return replace(lease, fence=1)


@fault("A run is not taken while it is driven.")
class TakesWhatIsDriven(MemoryStore):
    async def take(self, run_id: str, worker: str, *, seq: int, hold: float) -> Lease:
        if run_id in self._runs:
            self._runs[run_id].record.worker = None
        return await super().take(run_id, worker, seq=seq, hold=hold)


@fault("A run is not taken by somebody who does not know all of it.")
class TakesWithoutComparing(MemoryStore):
    async def take(self, run_id: str, worker: str, *, seq: int, hold: float) -> Lease:
        seq = self._kept(run_id).record.seq
        return await super().take(run_id, worker, seq=seq, hold=hold)


@fault("A run is not taken with a change while it is driven.")
class TakesWithAChangeWhatIsDriven(MemoryStore):
    def _expected(self, change: Change, now: int) -> inside._Kept | None:
        if change.take:
            self._kept(change.record.id).record.worker = None
        return super()._expected(change, now)


@fault("A run is not taken by somebody who does not know who had it.")
class TakesWithAnyFence(MemoryStore):
    def _expected(self, change: Change, now: int) -> inside._Kept | None:
        if change.take and change.lease is not None:
            next = replace(change.lease, fence=self._kept(change.record.id).fence + 1)
            return super()._expected(replace(change, lease=next), now)
        return super()._expected(change, now)


@fault("A driver's fact is refused without a lease.")
class TakesAnythingForADecision(MemoryStore):
    def _expected(self, change: Change, now: int) -> inside._Kept | None:
        return super()._expected(change if change.lease is not None else replace(change, facts=[]), now)


@fault("Whoever takes a run with a change has the next fence.")
class TakesWithoutAFence(MemoryStore):
    async def append(self, change: Change) -> None:
        fence = self._runs[change.record.id].fence if change.take else 0
        await super().append(change)
        if change.take:
            self._runs[change.record.id].fence = fence


@fault("A run is taken with a change.")
class DoesNotTakeWithAChange(MemoryStore):
    async def append(self, change: Change) -> None:
        await super().append(replace(change, take=False, lease=None) if change.take else change)


@fault("A run that is read says which fence its newest lease has.")
class DoesNotSayTheFence(MemoryStore):
    async def read(self, run_id: str, after: int = 0) -> Stored:
        return replace(await super().read(run_id, after), fence=None)

    async def newest(self, thread: str) -> Stored | None:
        found = await super().newest(thread)
        return None if found is None else replace(found, fence=None)


@fault("The newest run of a thread is the one that was made last.")
class NewestByClock(MemoryStore):
    async def newest(self, thread: str) -> Stored | None:
        page = await self.runs(thread=thread, limit=1000)
        return await self.read(page.items[-1].id) if page.items else None


@fault("The newest run of a thread comes with its facts.")
class NewestWithoutFacts(MemoryStore):
    async def newest(self, thread: str) -> Stored | None:
        found = await super().newest(thread)
        return None if found is None else replace(found, facts=[])


@fault("A lease that was taken over cannot be renewed.")
class RenewsAnything(MemoryStore):
    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        leases = list(leases)
        await super().renew(leases, hold=hold)
        return leases


@fault("A lease that is renewed holds on")
class OnlySaysThatItRenews(MemoryStore):
    async def renew(self, leases: Iterable[Lease], *, hold: float) -> list[Lease]:
        until = {id: kept.record.until for id, kept in self._runs.items()}
        held = await super().renew(leases, hold=hold)
        for id, kept in self._runs.items():
            kept.record.until = until[id]
        return held


@fault("A lease that was taken over cannot be given back.")
class ReleasesAnything(MemoryStore):
    async def release(self, lease: Lease, **more: Any) -> None:
        kept = self._runs.get(lease.run)
        if kept is not None and kept.record.worker is not None:
            lease = Lease(lease.run, kept.record.worker, kept.fence)
        await super().release(lease, **more)


@fault("A run is taken by whoever knows all of it")
class NeverReleases(MemoryStore):
    async def release(self, lease: Lease, **more: Any) -> None:
        pass


@fault("A run says how often in a row driving it has failed.")
class ForgetsFailures(MemoryStore):
    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        await super().release(lease, again_in=again_in, seq=seq)


@fault("A run that failed is left alone as long as was said.")
class TriesAgainAtOnce(MemoryStore):
    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        await super().release(lease, again_in=None if again_in is None else 0, error=error, seq=seq)


@fault("A run that failed, and is not to be looked at again, is left alone.")
class TriesForEver(MemoryStore):
    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        await super().release(lease, again_in=again_in or (error and 60), error=error, seq=seq)


@fault("A run that failed is due if the drive did not know all of it.")
class MissesWhatCame(MemoryStore):
    async def release(self, lease: Lease, *, seq: int | None = None, **more: Any) -> None:
        await super().release(lease, **more)


@fault("Driving that did not fail ends the row of failures.")
class NeverForgetsFailures(MemoryStore):
    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        before = self._runs[lease.run].record.failures if lease.run in self._runs else 0
        await super().release(lease, again_in=again_in, error=error, seq=seq)
        if error is None and lease.run in self._runs:
            self._runs[lease.run].record.failures = before


@fault("A run that failed is looked at as soon as something is written to it.")
class SulksAfterFailures(MemoryStore):
    def _record_after(self, kept: Any, change: Change, now: int) -> RunRecord:
        record = super()._record_after(kept, change, now)
        if kept is not None and kept.record.failures and kept.record.wake is None:
            record.wake = None
        return record


@fault("Whoever waits, in any event loop, is woken")
class NeverWakes(MemoryStore):
    def __init__(self, *, clock: Callable[[], float]) -> None:
        super().__init__(clock=clock)
        self._wakeup = Silent()

    async def close(self) -> None:
        await super().close()
        Wakeup.ring(self._wakeup)  # lets the thread of the check end


class Silent(Wakeup):
    def ring(self) -> None:
        pass


@fault("Whoever waits, in any event loop, is woken")
class WakesOneLoop(MemoryStore):
    def __init__(self, *, clock: Callable[[], float]) -> None:
        super().__init__(clock=clock)
        self._wakeup = OfOneLoop()

    async def close(self) -> None:
        await super().close()
        Wakeup.ring(self._wakeup)  # lets the thread of the check end


class OfOneLoop(Wakeup):
    def ring(self) -> None:
        loop = asyncio.get_running_loop()
        for woken in [each for each in self._waiting if each.get_loop() is loop and not each.done()]:
            woken.set_result(None)


@fault("Waiting ends when a run becomes ready, and after its time at the latest.")
class WaitsForEver(MemoryStore):
    async def wait(self, timeout: float) -> None:
        await super().wait(1_000)


LIMITS: dict[type[MemoryStore], tuple[str, float]] = {
    NeverWakes: ("TRIES", 5),
    WakesOneLoop: ("TRIES", 5),
    WaitsForEver: ("LONG", 0.05),
}
"""The limits that these faults run into. All other stores keep the long ones, which a busy machine does not reach."""


# -- decisions ---------------------------------------------------------------------------------------


@fault("A decision about something else is refused.")
class IgnoresDigests(MemoryStore):
    async def decide(self, question_id: str, decision: Any, *, by: str, digest: str, grant: Any = None) -> Question:
        if type(digest) is str and question_id in self._questions:
            digest = self._questions[question_id].digest
        return await super().decide(question_id, decision, by=by, digest=digest, grant=grant)


@fault("Who is second is told so.")
class KeepsQuietAboutTheFirst(MemoryStore):
    async def decide(self, question_id: str, decision: Any, **more: Any) -> Question:
        try:
            return await super().decide(question_id, decision, **more)
        except AlreadyDecided:
            return await self.question(question_id)


@fault("Who is second is told who decided what, when.")
class DoesNotSayWhoDecided(MemoryStore):
    async def decide(self, question_id: str, decision: Any, **more: Any) -> Question:
        try:
            return await super().decide(question_id, decision, **more)
        except AlreadyDecided as error:
            raise AlreadyDecided(str(error)) from None


@fault("Of several decisions the first counts")
class TakesTheSameForAnother(MemoryStore):
    async def decide(self, question_id: str, decision: Any, **more: Any) -> Question:
        found = self._questions.get(question_id)
        if found is not None and found.verdict is not None:
            raise AlreadyDecided(by=found.by, verdict=found.verdict, at=found.decided)
        return await super().decide(question_id, decision, **more)


class Careless(ToolSnapshot, frozen=True):
    def bind(self, args: dict[str, Any]) -> None:
        pass


@fault("Edit(arguments={}, tool=None, note=None) does not fit the question.")
class ChecksNoEdits(MemoryStore):
    async def _frozen(self, *what: Any) -> Any:
        tools = await super()._frozen(*what)
        return lambda state, name: Careless(**msgspec.structs.asdict(tools(state, name)))


@fault("Of several that decide at the same time, one does")
class DecidesInMemoryFirst(MemoryStore):
    async def append(self, change: Change) -> None:
        await asyncio.sleep(0)
        try:
            await super().append(change)
        except Overtaken:
            if not change.settled or len(change.facts) > 1:
                raise


@fault("After the deadline nobody approves.")
class ForgetsTheTime(MemoryStore):
    async def decide(self, question_id: str, decision: Any, **more: Any) -> Question:
        found = self._questions.get(question_id)
        if found is not None and found.until is not None and type(decision) is Approve:
            before, self._clock = self._clock, lambda: found.at / 1000
            try:
                return await super().decide(question_id, decision, **more)
            finally:
                self._clock = before
        return await super().decide(question_id, decision, **more)


@fault("Expiring rejects what nobody decided in time.")
class NeverExpires(MemoryStore):
    async def expire(self, run_id: str) -> None:
        await self.read(run_id)


@fault("A grant has its terms.")
class GrantsWithoutTerms(MemoryStore):
    async def decide(self, question_id: str, decision: Any, *, grant: Any = None, **more: Any) -> Question:
        return await super().decide(question_id, decision, grant=True if grant else None, **more)


@fault("A grant is taken back in its own run.")
class RevokesAnywhere(MemoryStore):
    async def revoke(self, grant_id: str, *, by: str, run: str) -> None:
        run = next((each.run for each in self._grants.values() if each.id == grant_id), run)
        await super().revoke(grant_id, by=by, run=run)


@fault("What came too late is in the journal.")
class DropsEvidence(MemoryStore):
    async def witness(self, run_id: str, facts: Any) -> None:
        await self.read(run_id)


@fault("What several say at the same time is all there.")
class GivesUpWhenOvertaken(MemoryStore):
    async def append(self, change: Change) -> None:
        await asyncio.sleep(0)
        await super().append(change)

    async def say(self, run_id: str, input: str, *, by: str = "user") -> None:
        before = self._runs[run_id].record.seq if run_id in self._runs else 0
        await asyncio.sleep(0)
        if run_id not in self._runs or self._runs[run_id].record.seq == before:
            await super().say(run_id, input, by=by)


# -- keeping -----------------------------------------------------------------------------------------


@fault("A run that is not over cannot be erased.")
class ErasesAnything(MemoryStore):
    async def erase(self, run_id: str) -> None:
        kept = self._kept(run_id)
        before, kept.record.status = kept.record.status, "done"
        await super().erase(run_id)
        kept.record.status = before


@fault("Nothing that was said in an erased run is left.")
class LeavesTheRows(MemoryStore):
    async def erase(self, run_id: str) -> None:
        lines = self._kept(run_id).lines()
        await super().erase(run_id)
        self._runs[run_id].left = lines


@fault("Nothing that was said in an erased run is left.")
class LeavesTheQuestions(MemoryStore):
    async def erase(self, run_id: str) -> None:
        before = {id: copy(question) for id, question in self._questions.items()}
        await super().erase(run_id)
        self._questions = before


@fault("Nothing of what came too late is left in an erased run.")
class LeavesTheEvidence(MemoryStore):
    async def erase(self, run_id: str) -> None:
        before = {id: question.evidence for id, question in self._questions.items()}
        await super().erase(run_id)
        for id, evidence in before.items():
            self._questions[id].evidence = evidence


@fault("Nothing that was said in an erased run is left.")
class LeavesTheGrants(MemoryStore):
    async def erase(self, run_id: str) -> None:
        before = {key: copy(grant) for key, grant in self._grants.items()}
        await super().erase(run_id)
        self._grants = before


@fault("An erased run has no facts and no context to read.")
class LeavesTheContext(MemoryStore):
    async def erase(self, run_id: str) -> None:
        context = self._kept(run_id).context
        await super().erase(run_id)
        self._runs[run_id].context = context


@fault("Erasing leaves the hashes as they are.")
class ChainsAnew(Chained):
    async def erase(self, run_id: str) -> None:
        await super().erase(run_id)
        before = bytes(32)
        for n, row in enumerate(self.rows[run_id]):
            before = link(before, run_id, n + 1, row.text)
            self.rows[run_id][n] = row._replace(hash=before)


@fault("Erasing leaves who decided.")
class ErasesWhoDecided(MemoryStore):
    async def erase(self, run_id: str) -> None:
        await super().erase(run_id)
        for question in self._questions.values():
            if question.run == run_id:
                question.by = ""


@fault("Erasing one run leaves others as they are, even what both have.")
class ErasesWhatOthersNeed(MemoryStore):
    async def erase(self, run_id: str) -> None:
        gone = self._kept(run_id).context
        await super().erase(run_id)
        for kept in self._runs.values():
            kept.context = SavedContext() if kept.context == gone else kept.context


@fault("Nothing is added to a run that was erased.")
class DeletesInsteadOfErasing(MemoryStore):
    async def erase(self, run_id: str) -> None:
        await super().erase(run_id)
        del self._runs[run_id]


@fault("What has changed since is not deleted.")
class PurgesTooMuch(MemoryStore):
    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        return await super().purge(unchanged_for=0, statuses=statuses)


@fault("Purging says how many runs there were.")
class PurgesAnyStatus(MemoryStore):
    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        return await super().purge(unchanged_for=unchanged_for, statuses=[*statuses, "waiting"])


@fault("Questions and grants go with their run.")
class PurgesRunsOnly(MemoryStore):
    async def purge(self, *, unchanged_for: float, statuses: Sequence[str] = ("done", "closed")) -> int:
        questions, grants = dict(self._questions), dict(self._grants)
        gone = await super().purge(unchanged_for=unchanged_for, statuses=statuses)
        self._questions, self._grants = questions, grants
        return gone


@fault("What is made anew from the journals is what was there.")
class RebuildsAtThisTime(MemoryStore):
    async def rebuild(self) -> int:
        count = await super().rebuild()
        for kept in self._runs.values():
            kept.record.changed = self._now()
        return count


@fault("What is made anew from the journals is what was there.")
class RebuildsWithoutGrants(MemoryStore):
    async def rebuild(self) -> int:
        count = await super().rebuild()
        self._grants = {}
        return count


@fault("What is made anew from the journals is what was there.")
class OpensQuestionsAgain(MemoryStore):
    async def rebuild(self) -> int:
        count = await super().rebuild()
        for question in self._questions.values():
            question.verdict = question.by = question.decided = None
        return count


@fault("Rebuilding leaves facts and context as they are.")
class RebuildsFences(MemoryStore):
    async def rebuild(self) -> int:
        count = await super().rebuild()
        for kept in self._runs.values():
            kept.fence, kept.record.worker = 0, None
        return count


@fault("Closing twice is once.")
class ClosesOnce(MemoryStore):
    async def close(self) -> None:
        if self._closed and not self._runs:
            return
        if self._closed and any(frame.function == "closes" for frame in inspect.stack(0)):
            raise StoreFailed("It is closed.")
        await super().close()


@fault("A store is usable from any thread and event loop.")
class StaysInItsLoop(MemoryStore):
    def __init__(self, *, clock: Callable[[], float]) -> None:
        super().__init__(clock=clock)
        self.loop = asyncio.get_running_loop()

    async def append(self, change: Change) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("attached to a different loop")
        await super().append(change)


@fault("A question that is shown with another arguments than the journal's is not decided on.")
class DecidesOnWhateverIsShown(MemoryStore):
    async def decide(self, question_id: str, decision: Any, *, by: str, digest: str, grant: Any = None) -> Question:
        if type(digest) is not str:
            raise UsageError("A digest is text.")
        shown = await self.question(question_id)
        await self.decide_all(
            shown.run, lambda run: [(question_id, decision_from(decision), digest)], by=by, grant=grant
        )
        return await MemoryStore.question(self, question_id)


@fault("A decision reads nothing after it was written.")
class LooksAgainAfterDeciding(MemoryStore):
    async def decide(self, question_id: str, decision: Any, **more: Any) -> Question:
        await super().decide(question_id, decision, **more)
        return await self.question(question_id)


@fault("What is kept of a run fits its journal.")
class KeepsEvidenceAsText(MemoryStore):
    async def questions(self, **more: Any) -> Page[Question]:
        page = await super().questions(**more)
        for question in page.items:
            question.evidence = tuple(replace(each, output=str(each.output)) for each in question.evidence)
        return page


@fault("A store uses the clock that it was made with.")
class HasItsOwnClock(MemoryStore):
    def clock(self) -> float:
        return super().clock() + 1


# -- the tests ---------------------------------------------------------------------------------------


def damage(store: Store, run_id: str, seq: int, text: bytes) -> None:
    assert isinstance(store, Chained)
    store.rows[run_id][seq - 1] = store.rows[run_id][seq - 1]._replace(text=text)


class NeverChecks(Chained):
    """Believes its rows."""

    def check(self, run_id: str, after: int = 0) -> None:
        pass


class ChecksFactsOnly(Chained):
    """Shows lines that are not what was written."""

    async def lines(self, run_id: str) -> list[Entry]:
        return self.entries(run_id)


class DoesNotSayWhere(Chained):
    """Knows that something is wrong."""

    async def read(self, run_id: str, after: int = 0) -> Stored:
        try:
            return await super().read(run_id, after)
        except UnreadableState:
            raise UnreadableState() from None


class BelievesThatItWasErased(Chained):
    """Takes the word of a row for it."""

    async def read(self, run_id: str, after: int = 0) -> Stored:
        kept = self._kept(run_id)
        if any(is_erased(row.text) for row in self.rows[run_id]):
            return Stored(record=copy(kept.record), facts=[])
        return await super().read(run_id, after)


class RebuildsFromAnything(Chained):
    """Makes records of rows that are not what was written."""

    async def rebuild(self) -> int:
        with suppress(UnreadableState):
            return await super().rebuild()
        return len(self._runs)


@pytest.mark.parametrize(("kind", "sentence"), FAULTS, ids=[kind.__name__ for kind, _ in FAULTS])
async def test_a_fault_is_found(kind: type[MemoryStore], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind in LIMITS:
        monkeypatch.setattr(lease_checks, *LIMITS[kind])
    with pytest.raises(AssertionError) as caught:
        await check_store(lambda clock: kind(clock=clock))
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "kind", [NeverChecks, ChecksFactsOnly, DoesNotSayWhere, BelievesThatItWasErased, RebuildsFromAnything]
)
async def test_a_store_that_does_not_notice_damage_is_found_out(kind: type[MemoryStore]) -> None:
    await check_store(lambda clock: kind(clock=clock))
    with pytest.raises(AssertionError):
        await check_store(lambda clock: kind(clock=clock), damage=damage)


async def test_damage_may_take_time() -> None:
    async def later(store: Store, run_id: str, seq: int, text: bytes) -> None:
        await asyncio.sleep(0)
        damage(store, run_id, seq, text)

    await check_store(lambda clock: Chained(clock=clock), damage=later)


async def test_a_store_that_notices_damage_passes() -> None:
    await check_store(lambda clock: Chained(clock=clock), damage=damage)


async def test_a_store_may_take_time_to_make() -> None:
    async def make(clock: Callable[[], float]) -> Store:
        await asyncio.sleep(0)
        return MemoryStore(clock=clock)

    await check_store(make)


async def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(AssertionError, match="A store is a subclass of `Store`; dict is not"):
        await check_store(lambda clock: {})  # type: ignore[arg-type, return-value]


async def test_a_store_that_does_not_answer_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hangs(MemoryStore):
        async def append(self, change: Change) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(checks, "CHECK_TIMEOUT", 0.01)
    with pytest.raises(AssertionError, match="did not answer"):
        await check_store(lambda clock: Hangs(clock=clock))


async def test_every_store_that_is_made_is_closed() -> None:
    made: list[MemoryStore] = []

    def make(clock: Callable[[], float]) -> Store:
        made.append(MemoryStore(clock=clock))
        return made[-1]

    await check_store(make)
    assert len(made) == len(checks.STORE_CHECKS)
    assert all(store._closed for store in made)


def test_every_check_says_what_it_is_about() -> None:
    assert [check.__name__ for check in checks.STORE_CHECKS if not (check.__doc__ or "").endswith(".")] == []
    assert len({check.__name__ for check in checks.STORE_CHECKS}) == len(checks.STORE_CHECKS)
