"""A worker is killed at every activity, and another one goes on: nothing is lost, and nothing is done twice in silence.

Each effect happened once; or its call was in doubt, and it was done again because the tool is idempotent, because its
probe had looked, or because a person, who had looked, said so.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from assentry import Approve, Decision, Edit, Respond
from assentry.engines.temporal import TemporalRun, TemporalRuns, Waiting
from assentry.store import SQLiteStore

from .processes import Nursery
from .support import Server
from .worker_program import Case, effects

pytestmark = pytest.mark.temporal

ORDERS = ("refund 1", "refund 22", "pay 3", "log 4", "weigh 5", "pay 6")
OUTPUT = " | ".join(f"done: {each}" for each in ORDERS)
AT_ONCE = 6
"""The number of workers that live at the same time."""
BEGIN = [("before begin", 1), ("in a model call", 1), ("after begin", 1)]
BODIES = [
    (moment, number)
    for moment in ("before enter", "inside a body", "at the end of a body", "after enter")
    for number in range(1, 7)
]
BETWEEN = [(moment, number) for moment in ("before advance", "after advance") for number in (1, 2)]
DECIDE = [("before decide", 1), ("after decide", 1)]
KEEP = [(moment, number) for moment in ("before keep", "after keep") for number in range(1, 8)]


class Person:
    """Somebody who decides, and looks at what was done before she answers for a call in doubt."""

    def __init__(self, runs: TemporalRuns, folder: Path) -> None:
        self.runs, self.folder = runs, folder
        self.repeated: Counter[str] = Counter()
        """What she had run again, after a body was cut in the middle or had not begun."""
        self.doubted: list[str] = []

    async def see_through(self, run: TemporalRun) -> str:
        """Decide until the run is over, and return its output."""
        while (standing := await run.settled()).status == "waiting":
            for question in standing.questions:
                await self.runs.decide(question.id, self.decision(question), by="ann", digest=question.digest)
        assert standing.failure is None, standing.failure
        output: str = await run.result()
        return output

    def decision(self, question: Waiting) -> Decision:
        if question.kind == "approval":
            return Edit({"order": 22}) if question.arguments == '{"order":2}' else Approve()
        what = f"{question.tool} {json.loads(question.arguments)['order']}"
        self.doubted.append(what)
        if f"end {what}" in effects(self.folder):
            return Respond(f"done: {what}")
        self.repeated[what] += f"begin {what}" in effects(self.folder)
        return Approve()


async def live(server: Server, nursery: Nursery, folder: Path, *deaths: tuple[str, int]) -> Person:
    """Have workers die one after another, the last one live, and see the run through."""
    queue = folder.name
    runs = TemporalRuns(await server.client(), task_queue=queue, patience=timedelta(seconds=60))
    person = Person(runs, folder)

    async def work() -> None:
        for moment, number in deaths:
            await nursery.worker(Case(server.address, queue, str(folder), moment, number)).dead()
        await nursery.worker(Case(server.address, queue, str(folder))).up()

    run = await runs.start("Office", "Settle the orders.", task_timeout=timedelta(seconds=2))
    async with asyncio.timeout(90):
        output, _ = await asyncio.gather(person.see_through(run), work())
    assert output == OUTPUT
    async with SQLiteStore(folder / "runs.db") as store:
        assert await store.verify(run.id) == []
        assert (await store.record(run.id)).status == "done"
    check(person)
    return person


def made(folder: Path, name: str) -> Path:
    """Return a new folder."""
    new = folder / name.replace(" ", "-")
    new.mkdir()
    return new


def check(person: Person) -> None:
    """Everything was done, and nothing twice that nobody had asked for."""
    done = Counter(effects(person.folder))
    for what in ORDERS:
        begun, ended = done[f"begin {what}"], done[f"end {what}"]
        if what.startswith("log"):  # it is idempotent
            assert begun in (1, 2) and ended in (1, 2)
        elif what.startswith("weigh"):  # its probe knows
            assert begun in (1, 2) and ended == 1
            assert what not in person.doubted
        else:
            assert (begun, ended) == (1 + person.repeated[what], 1), what
    assert {line.split(" ", 1)[1] for line in done} == set(ORDERS)


async def at_each(server: Server, nursery: Nursery, folder: Path, moments: list[tuple[str, int]]) -> list[Person]:
    """Have a worker die at each of these moments, some of them at the same time; a failure names its moment."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(moment: str, number: int) -> Person:
        async with turn:
            try:
                return await live(server, nursery, made(folder, f"{moment} {number}"), (moment, number))
            except (Exception, asyncio.CancelledError) as error:
                raise AssertionError(f"{moment}, the {number}. time: {error!r}") from error

    found = await asyncio.gather(*(one(*each) for each in moments), return_exceptions=True)
    wrong = [each for each in found if isinstance(each, BaseException)]
    if wrong:
        raise BaseExceptionGroup("some moments", wrong)
    return [each for each in found if isinstance(each, Person)]


async def test_killed_while_the_run_begins(temporal: Server, nursery: Nursery, tmp_path: Path) -> None:
    for person in await at_each(temporal, nursery, tmp_path, BEGIN):
        assert person.doubted == []  # no body was near


async def test_killed_around_and_inside_each_body(temporal: Server, nursery: Nursery, tmp_path: Path) -> None:
    people = await at_each(temporal, nursery, tmp_path, BODIES)
    asked = {person.folder.name for person in people if person.doubted}
    assert {"inside-a-body-6", "at-the-end-of-a-body-6", "after-enter-6", "before-enter-6"} <= asked
    assert any(person.repeated for person in people)


async def test_killed_between_the_bodies(temporal: Server, nursery: Nursery, tmp_path: Path) -> None:
    await at_each(temporal, nursery, tmp_path, BETWEEN)


async def test_killed_while_a_decision_is_looked_at(temporal: Server, nursery: Nursery, tmp_path: Path) -> None:
    await at_each(temporal, nursery, tmp_path, DECIDE)


async def test_killed_while_facts_are_kept(temporal: Server, nursery: Nursery, tmp_path: Path) -> None:
    await at_each(temporal, nursery, tmp_path, KEEP)


async def test_killed_in_a_body_and_then_in_its_probe(temporal: Server, nursery: Nursery, tmp_path: Path) -> None:
    await live(temporal, nursery, made(tmp_path, "probe"), ("before enter", 3), ("in a probe", 1))
