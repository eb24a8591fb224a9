"""A process is killed at every moment of a run, and another one goes on: nothing is lost, and nothing is done twice.

Each effect happened once; or it was in doubt, and was done again because a person, who had looked, said so. Every
question was asked and decided once. The output is what it would have been, the chain holds, and the records are what
can be made anew from the journal.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from assentry.core.rules import verdict_of
from assentry.errors import Overtaken
from assentry.store import Question, Store
from tests.store import crash_program as program
from tests.store.crash_program import Case, Effects

ROOT = Path(__file__).parents[2]
LATER = 3600.0
"""Seconds after which the lease of a dead process has run out."""
LEAST = {
    "before a write": 20,
    "after a write": 20,
    "inside a write": 20,
    "at a fact": 40,
    "before an effect": 13,
    "after an effect": 13,
}
"""How many of each moment there are at least in a life."""


class Life(NamedTuple):
    """One process of a run: what it does outside, and where the run lives."""

    effects: Effects
    store: str
    died: bool = False


class Place:
    """Where runs live, and a nursery of processes: an SQLite file for each run, or one Postgres for all."""

    def __init__(self, folder: Path, postgres: str | None) -> None:
        self.folder, self.postgres = folder, postgres
        self.numbers = itertools.count(1)
        self.empty = folder / "empty.db"
        asyncio.run(prepared(self.postgres or str(self.empty)))
        command = [sys.executable, "-m", "tests.store.crash_program"]
        self.nursery = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        first = self.life()
        self.begin(first, "", 0)

    def life(self) -> Life:
        """A run that is to begin."""
        effects = Effects(self.folder / f"effects_{next(self.numbers)}")
        if self.postgres is not None:
            return Life(effects, self.postgres)
        address = effects.path.with_suffix(".db")
        shutil.copy(self.empty, address)
        return Life(effects, str(address))

    def begin(self, life: Life, moment: str, number: int, later: float = 0.0) -> None:
        """Let a process live; it may go on while something else is done."""
        assert self.nursery.stdin is not None
        self.nursery.stdin.write(json.dumps(Case(life.store, str(life.effects.path), moment, number, later)) + "\n")
        self.nursery.stdin.flush()

    def end(self, life: Life) -> Life:
        """When the process that was begun first is over: whether its moment came, and it died of it."""
        assert self.nursery.stdout is not None
        ended = int(self.nursery.stdout.readline())
        assert ended in (0, -signal.SIGKILL), "it died of something else; see above"
        return life._replace(died=ended != 0)

    def lives(self, moment: str) -> Iterator[Life]:
        """A life that ends at each of these moments, and one in which it does not come any more."""
        life = self.life()
        self.begin(life, moment, 1)
        for number in itertools.count(2):
            ended, life = self.end(life), self.life()
            if not ended.died:
                yield ended
                return
            self.begin(life, moment, number)  # meanwhile
            try:
                yield ended
            except GeneratorExit:  # the test has failed, and others follow
                self.end(life)
                raise

    def close(self) -> None:
        self.nursery.communicate(timeout=program.HANGS)
        assert self.nursery.returncode == 0


async def prepared(address: str) -> None:
    """Make the tables."""
    async with program.store_at(address) as store:
        await store.upgrade()  # type: ignore[attr-defined]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    postgres = request.getfixturevalue("postgres").database() if request.param == "postgres" else None
    made = Place(tmp_path_factory.mktemp("killed"), postgres)
    yield made
    made.close()


# -- the next process ----------------------------------------------------------------------------------


async def go_on(life: Life, later: float = LATER) -> None:
    """Be the process that finds what was left, when its lease has run out; then look at everything."""
    async with program.store_at(life.store, later) as store:
        before = await program.taken_up(store, life.effects)
        known = [*before.facts] if before is not None else []
        telling = program.telling(store, life.effects)
        try:
            output = await program.work(telling, life.effects)
        except Overtaken:  # by the dead: what it had sent, the server wrote after we had looked
            output = await program.work(telling, life.effects)
        assert output == program.OUTPUT
        await holds(store, life.effects, known)
        if not life.store.startswith("postgresql"):
            await records_are_what_the_journals_say(store)


async def holds(store: Store, effects: Effects, known: list[Any]) -> None:
    """What was known is still known, what was done was not done again, and what was to be done is."""
    run = program.run_of(effects)
    assert run is not None
    stored = await store.load(run)
    facts = stored.facts
    assert facts[: len(known)] == known, "what was written stays"
    assert len(await store.history(run)) == len(facts) == stored.record.seq, "and its chain holds"
    assert stored.record.status == "done"
    assert stored.record.worker is None or (stored.record.until or 0) < store.clock() * 1000, "and nobody drives it"
    settled = (await store.questions(run=run, settled=True, limit=1000)).items
    assert not (await store.questions(run=run)).items
    asked = sorted((each.kind, each.tool, each.arguments) for each in settled if each.kind != "doubt")
    assert asked == program.QUESTIONS, "no question is lost, and none is asked twice"
    assert all(each.by == "ann" for each in settled)
    decided = Counter(each.asked for each in facts if verdict_of(each) is not None)  # type: ignore[union-attr]
    assert decided == Counter(each.id for each in settled), "a decision happens once"
    once_or_in_doubt(effects, settled)
    [grant] = (await store.grants(run=run)).items
    assert (grant.used, grant.max_uses) == (1, 1)


def once_or_in_doubt(effects: Effects, settled: list[Question]) -> None:
    """Nothing is done again unless a person was asked about that call, and said so."""
    done, keys = Counter[str](), dict[str, set[str]]()
    for effect in effects.all():
        done[effect["what"]] += 1
        keys.setdefault(effect["what"], set()).add(effect["key"])
    again: Counter[tuple[str, ...]] = Counter()
    for question in settled:
        if question.kind == "doubt" and question.verdict == "approve":
            again[program.done_by(question)] += 1
    assert done.keys() == program.DONE
    assert all(len(each) == 1 for each in keys.values()), "the key is the same for every attempt"
    calls = [program.SHIPPED, *((what,) for what in program.DONE - program.AGAIN - {*program.SHIPPED})]
    for whats in calls:  # of several steps, those that were done stay done
        times = sum(done[what] - 1 for what in whats)
        assert times <= again[whats], f"{whats} was done again {times} times, and {again[whats]} times somebody said so"


async def everything(store: Store) -> list[Any]:
    """All records of a store."""
    return [
        *[each async for each in pages(store.runs)],
        *[each async for each in pages(store.questions)],
        *[each async for each in pages(store.questions, settled=True)],
        *[each async for each in pages(store.grants, revoked=True)],
    ]


async def pages(listing: Any, **options: Any) -> AsyncIterator[Any]:
    page = await listing(limit=1000, **options)
    while True:
        for item in page.items:
            yield item
        if page.next is None:
            return
        page = await listing(limit=1000, after=page.next, **options)


async def records_are_what_the_journals_say(store: Store) -> None:
    before = await everything(store)
    assert await store.rebuild() > 0
    assert await everything(store) == before


async def all_records_are_what_the_journals_say(place: Place) -> None:
    if place.postgres is not None:  # the others were looked at one by one
        async with program.store_at(place.postgres, LATER) as store:
            await records_are_what_the_journals_say(store)


# -- the tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", program.MOMENTS)
def test_a_process_that_is_killed_at_any_moment_leaves_a_run_that_goes_on(place: Place, moment: str) -> None:
    count = 0
    for life in place.lives(moment):
        asyncio.run(go_on(life))
        count += life.died
    assert count >= LEAST[moment], "every moment of the life was tried"


def test_a_run_goes_on_however_many_of_its_processes_are_killed(place: Place) -> None:
    chance = Random(8)
    for _ in range(6):
        life, later = place.life(), 0.0
        for _ in range(chance.randint(2, 4)):
            place.begin(life, chance.choice(program.MOMENTS), chance.randint(1, 14), later)
            place.end(life)
            later += LATER
        asyncio.run(go_on(life, later))
    asyncio.run(all_records_are_what_the_journals_say(place))
