"""The view that somebody has of questions, journals and grants: secret arguments only if they may decide about them."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ..approval.decide import may_decide
from ..core.facts import AnyFact
from ..store.record import MOST, Entry, GrantRecord, Question
from ..store.store import Store
from .identity import Identity
from .mask import EVERYTHING, AnyQuestion, masked, masked_grant, masked_journal


def may_see(who: Identity, question: Question) -> bool:
    """Return True if somebody may decide a question, and so sees all of its arguments."""
    return who.may("decide") and question.started_by != who.name and may_decide(question.reviewers, who.decider())


def seen_by(who: Identity, question: AnyQuestion) -> AnyQuestion:
    """Return a question as somebody may see it."""
    return question if may_see(who, question) else masked(question)


def listed_for(who: Identity, question: AnyQuestion) -> AnyQuestion:
    """Return a question for a list: masked for everybody, with its digests for whoever may decide it."""
    hides = masked(question)
    if hides is question or not may_see(who, question):
        return hides
    return replace(hides, digest=question.digest, shown=question.shown)


def journal_seen_by(
    who: Identity,
    entries: list[Entry],
    questions: list[Question],
    started_by: str | None,
    shown: slice = EVERYTHING,
) -> list[Entry]:
    """Return a run's journal, or a part of it, as somebody may see it; `questions` are all of the run's."""
    trusted = who.may("decide") and (started_by is None or started_by != who.name)
    return masked_journal(entries, questions, lambda each: may_see(who, each), trusted=trusted, shown=shown)


def facts_seen_by(
    who: Identity, facts: list[AnyFact], questions: list[Question], started_by: str | None
) -> list[AnyFact]:
    """Return a run's facts as somebody may see them."""
    entries = [Entry(n, 0, msgspec.json.decode(msgspec.json.encode(fact)), "") for n, fact in enumerate(facts)]
    seen = journal_seen_by(who, entries, questions, started_by)
    return [
        fact if one.fact is two.fact else _decode(msgspec.json.encode(two.fact))
        for fact, one, two in zip(facts, entries, seen, strict=True)
    ]


_decode = msgspec.json.Decoder(AnyFact).decode


async def questions_of(store: Store, run: str) -> list[Question]:
    """Return all questions of a run, open and settled."""
    found: list[Question] = []
    for settled in (False, True):
        after: str | None = None
        while True:
            page = await store.questions(run=run, settled=settled, limit=MOST, after=after)
            found += page.items
            after = page.next
            if after is None:
                break
    return found


async def grants_seen_by(who: Identity, store: Store, grants: list[GrantRecord]) -> list[GrantRecord]:
    """Return grants as somebody may see them."""
    runs = {grant.run for grant in grants if grant.pins}
    barred = {run: [each for each in await questions_of(store, run) if not may_see(who, each)] for run in runs}
    return [masked_grant(grant, barred.get(grant.run, ())) for grant in grants]


async def may_have_journal(who: Identity, store: Store, run: str) -> bool:
    """Return True if nothing in the journal of a run is masked for somebody; an administrator sees everything."""
    if who.may("manage"):
        return True
    record, lines = (await store.read(run, 2**31 - 1)).record, await store.lines(run)
    return journal_seen_by(who, lines, await questions_of(store, run), record.started_by) == lines
