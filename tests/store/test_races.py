"""Many at once, in processes of their own, and databases that fail: every call is executed once, or is in doubt."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from assentry import Agent, Approve, RunConfig, Runner, function_tool
from assentry.core import facts as f
from assentry.engines import Worker
from assentry.errors import LeaseLost, StoreFailed, UnreadableState
from assentry.store import Change, Lease, Question, Store
from assentry.store.postgres import PostgresStore
from assentry.store.sqlite import SQLiteStore
from assentry.testing import FakeClock, ScriptedModel, call
from tests.runtime.support import HANGS, UNRENEWED, sending, soon
from tests.sessions.test_postgres_sessions import Proxy
from tests.store import race_program as program
from tests.store.postgres import Server

ROOT = Path(__file__).parents[2]


class Place:
    """A database, and a file of what was done."""

    def __init__(self, address: str, effects: Path) -> None:
        self.address, self.effects = address, effects

    def store(self, **options: Any) -> Store:
        if self.address.startswith("postgresql"):
            return PostgresStore(self.address, upgrade=True, **options)
        return SQLiteStore(self.address, **options)

    def execute(self, statement: str, **values: Any) -> None:
        """Behind the store's back."""
        url = self.address.replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(url if url != self.address else f"sqlite:///{self.address}", poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(text(statement), values)
        engine.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(str(tmp_path / "runs.db"), tmp_path / "effects")
    return Place(request.getfixturevalue("postgres").database(), tmp_path / "effects")


def race(place: Place, *parts: tuple[str, str]) -> list[Any]:
    """Let processes begin together; what each came to."""
    command = [sys.executable, "-m", "tests.store.race_program"]
    running = [
        subprocess.Popen(
            [*command, part, place.address, str(place.effects), argument],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for part, argument in parts
    ]
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [json.loads(process.communicate(timeout=3 * HANGS)[0].splitlines()[-1]) for process in running]


async def approve_all(store: Store) -> None:
    for question in (await store.questions(limit=1000)).items:
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)


async def only(store: Store) -> Question:
    [question] = (await store.questions()).items
    return question


async def kinds(store: Store, run_id: str) -> list[str]:
    return [type(fact).__name__ for fact in (await store.load(run_id)).facts]


# -- many at once --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("processes", "each"), [(2, 1), (2, 4), (4, 8)], ids=["2", "8", "32"])
def test_workers_in_processes_of_their_own_execute_each_call_of_200_runs_once(
    place: Place, processes: int, each: int
) -> None:
    asyncio.run(two_hundred(place))
    drives = race(place, *[("work", str(each))] * processes)
    assert sum(drives) >= 200
    asyncio.run(all_done_once(place))


async def two_hundred(place: Place) -> None:
    async with place.store() as store:
        for number in range(200):
            await program.begin(store, place.effects, str(number))
        await approve_all(store)


async def all_done_once(place: Place) -> None:
    done = program.done(place.effects)
    assert done == Counter(f"{what} {number}" for what in program.EFFECTS for number in range(200))
    async with place.store() as store:
        runs = (await store.runs(limit=1000)).items
        assert Counter((run.status, run.worker, run.failures) for run in runs) == {("done", None, 0): 200}
        for run in runs:
            assert (await kinds(store, run.id)).count("Started") == 3


def test_approve_racing_reject_from_two_processes_is_decided_once_each_time(place: Place) -> None:
    async def begin() -> None:
        async with place.store() as store:
            for number in range(25):
                await program.begin(store, place.effects, str(number))

    async def end(winners: Counter[str]) -> None:
        async with place.store() as store:
            await Worker(store, program.agent()).run_until_idle()
            assert sum(each.startswith("send ") for each in program.done(place.effects)) == winners["approve"]
            for question in (await store.questions(settled=True, limit=1000)).items:
                assert question.by == question.verdict

    asyncio.run(begin())
    one, two = race(place, ("decide", "approve"), ("decide", "reject"))
    winners: Counter[str] = Counter()
    for id in one:
        assert sorted([one[id][0], two[id][0]]) == ["lost", "won"]
        assert one[id][1:] == two[id][1:], "who lost is told what the winner decided"
        winners[one[id][1]] += 1
    asyncio.run(end(winners))


def test_a_run_that_two_processes_resume_is_driven_by_one(place: Place) -> None:
    async def begin() -> str:
        async with place.store() as store:
            runs = [await program.begin(store, place.effects, str(number)) for number in range(10)]
            await approve_all(store)
            return ",".join(runs)

    runs = asyncio.run(begin())
    one, two = race(place, ("resume", runs), ("resume", runs))
    for run in runs.split(","):
        [lost] = {one[run], two[run]} - {program.OUTPUT}
        assert lost in ("RunBusy", "Overtaken", "RunFinished")
    assert program.done(place.effects) == Counter(f"{what} {n}" for what in program.EFFECTS for n in range(10))


# -- what changes while a question waits ---------------------------------------------------------------


def shop(**options: Any) -> tuple[Agent[Any], list[Any]]:
    """An agent as one process has it."""
    send, sent = sending(**{"needs_approval": True} | options)
    steps = [lambda request: "done" if len(request.input) > 1 else call("send", {"to": "bob"})] * 9
    return Agent("agent", tools=[send], model=ScriptedModel(steps)), sent


@pytest.mark.parametrize("when", ["before it is decided", "after it is decided"])
async def test_a_tool_that_another_process_has_in_another_version_is_asked_about_again(place: Place, when: str) -> None:
    old, sent = shop()
    new, again = shop(version="2")
    async with place.store() as store, place.store() as other:
        run = (await Runner.run(old, "go", store=store)).run_id
        first = await only(store)
        if when == "after it is decided":
            await store.decide(first.id, Approve(), by="ann", digest=first.digest)
        result = await Runner.run(new, await other.load(run), store=other)
        [item] = result.interruptions
        second = await only(store)
        assert second.id == item.id != first.id and "has changed" in second.reason and sent == again == []
        if when == "before it is decided":
            assert second.replaces == first.id
        await store.decide(second.id, Approve(), by="ann", digest=second.digest)
        assert (await Runner.run(new, await other.load(run), store=other)).final_output == "done"
        assert (sent, again) == ([], [("bob", 1)])


async def test_a_policy_that_another_process_has_not_lets_nothing_pass_that_was_asked(place: Place) -> None:
    strict, sent = shop()
    loose, passed = shop(needs_approval=False)
    async with place.store() as store, place.store() as other:
        run = (await Runner.run(strict, "go", store=store)).run_id
        first = await only(store)
        result = await Runner.run(loose, await other.load(run), store=other)
        assert [item.kind for item in result.interruptions] == ["approval"] and sent == passed == []
        question = await only(store)
        await store.decide(question.id, {"type": "reject"}, by="ann", digest=question.digest)
        await Runner.run(loose, await other.load(run), store=other)
        assert sent == passed == [] and (await store.question(first.id)).verdict is not None


# -- clocks --------------------------------------------------------------------------------------------


class Slow:
    """A tool that takes as long as it is told, and how often it was entered."""

    def __init__(self) -> None:
        self.entered, self.leave, self.times = asyncio.Event(), asyncio.Event(), 0

        @function_tool
        async def slow() -> str:
            self.times += 1
            self.entered.set()
            await soon(self.leave.wait())
            return "late"

        self.tool = slow

    def agent(self) -> Agent[Any]:
        def think(request: Any) -> Any:
            return "done" if len(request.input) > 1 else call("slow")

        return Agent("Shop", tools=[self.tool], model=ScriptedModel([think] * 9))


async def test_a_clock_that_jumps_ahead_has_a_run_taken_over_and_what_comes_late_is_evidence(place: Place) -> None:
    clock, slow = FakeClock(), Slow()
    async with place.store(clock=clock) as store, place.store(clock=clock) as other:
        first = asyncio.create_task(Runner.run(slow.agent(), "go", store=store, run_config=UNRENEWED))
        await soon(slow.entered.wait())
        clock.advance(3600)
        worker = Worker(other, slow.agent())
        assert await soon(worker.run_until_idle()) == 1
        doubt = await only(other)
        assert doubt.kind == "doubt" and slow.times == 1
        slow.leave.set()
        with pytest.raises(LeaseLost):
            await soon(first)
        assert (await kinds(store, doubt.run))[-2:] == ["Asked", "Witnessed"]
        await other.decide(doubt.id, {"type": "respond", "output": "late"}, by="ann", digest=doubt.digest)
        assert await soon(worker.run_until_idle()) == 1
        assert (await store.load(doubt.run)).record.status == "done" and slow.times == 1


async def test_a_clock_that_jumps_back_breaks_nothing(place: Place) -> None:
    clock, slow = FakeClock(), Slow()
    async with place.store(clock=clock) as store, place.store(clock=clock) as other:
        first = asyncio.create_task(Runner.run(slow.agent(), "go", store=store, run_config=UNRENEWED))
        await soon(slow.entered.wait())
        clock.advance(-7 * 86400)
        assert await soon(Worker(other, slow.agent()).run_until_idle()) == 0, "it is still driven"
        slow.leave.set()
        result = await soon(first)
        assert (result.final_output, slow.times) == ("done", 1)
        asking, sent = shop()
        run = (await Runner.run(asking, "go", store=store)).run_id
        clock.advance(-86400)
        question = await only(other)
        await other.decide(question.id, Approve(), by="ann", digest=question.digest)
        assert await soon(Worker(other, asking).run_until_idle()) == 1
        assert sent == [("bob", 1)] and (await store.load(run)).record.status == "done"
        assert all(entry.fact.get("at", 0) >= 0 for entry in await store.history(run))


async def test_a_lease_that_ran_out_and_came_back_with_the_clock_is_still_the_newest(place: Place) -> None:
    clock, slow = FakeClock(), Slow()
    async with place.store(clock=clock) as store, place.store(clock=clock) as other:
        first = asyncio.create_task(Runner.run(slow.agent(), "go", store=store, run_config=UNRENEWED))
        await soon(slow.entered.wait())
        clock.advance(3600)
        [lease] = await other.claim("other", agents=None, hold=30, limit=5)
        clock.advance(-3600)
        slow.leave.set()
        with pytest.raises(LeaseLost):
            await soon(first)
        assert lease.fence == 2 and "Finished" not in await kinds(store, lease.run)


# -- databases that fail -------------------------------------------------------------------------------


class Watched(PostgresStore):
    """A store that does something before each write, and says when a write is one."""

    before: Any = None

    async def append(self, change: Change) -> None:
        if self.before is not None:
            await self.before(change)
        await super().append(change)

    async def take(self, run_id: str, worker: str, *, seq: int, hold: float) -> Lease:
        if self.before is not None:
            await self.before(None)
        return await super().take(run_id, worker, seq=seq, hold=hold)


LAGS = pytest.mark.parametrize(("lag", "writes"), [(0, 7), (0.01, 5)])
"""How soon things are written, and how many writes there are at least."""


async def through(agent: Agent[Any], start: Any, store: Store, **options: Any) -> tuple[Any, int]:
    """Go on until the run stops by itself; how often the store has failed on the way."""
    for failures in range(20):
        try:
            return await Runner.run(agent, start, store=store, **options), failures
        except StoreFailed as error:
            start = error.state or start
    raise AssertionError("the store fails for ever")


@LAGS
async def test_a_database_that_is_restarted_inside_a_body_or_before_a_write_has_nothing_done_twice(
    lag: float, writes: int, postgres: Server, tmp_path: Path
) -> None:
    place = Place(postgres.database(), tmp_path / "effects")
    for number in range(1, writes + 1):
        effects, seen = tmp_path / f"effects_{number}", 0

        async def restart(change: Any, number: int = number) -> None:
            nonlocal seen
            seen += 1
            if seen == number:
                await asyncio.to_thread(postgres.restart)

        async with Watched(place.address, upgrade=True) as store:
            store.before = restart
            context = {"effects": str(effects), "name": "x"}
            config = RunConfig(write_lag=lag)
            result, _ = await through(program.agent(), "go", store, context=context, run_config=config)
            for question in (await store.questions(run=result.run_id)).items:
                await store.decide(question.id, Approve(), by="ann", digest=question.digest)
            result, _ = await through(program.agent(), await store.load(result.run_id), store, run_config=config)
            assert result.final_output == program.OUTPUT
            assert program.done(effects) == Counter(f"{what} x" for what in program.EFFECTS)
            await store.history(result.run_id)
    assert seen >= number, "there were as many writes"


async def test_a_database_that_is_away_for_good_leaves_a_state_that_goes_on_when_it_is_back(
    postgres: Server, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    async with Watched(postgres.database(), upgrade=True) as store:
        run = await program.begin(store, effects)
        await approve_all(store)

        async def stop(change: Change | None) -> None:
            if change is not None and any(type(fact) is f.Finished for fact in change.facts):
                store.before = None
                await asyncio.to_thread(postgres.stop)

        store.before = stop
        try:
            with pytest.raises(StoreFailed) as failed:
                await Runner.run(program.agent(), await store.load(run), store=store)
        finally:
            await asyncio.to_thread(postgres.start)
        assert program.done(effects) == {"send one": 1}
        result = await Runner.run(program.agent(), failed.value.state, store=store)
        assert result.final_output == program.OUTPUT
        assert program.done(effects) == Counter(f"{what} one" for what in program.EFFECTS)
        assert len(await store.history(run)) == (await store.load(run)).record.seq


async def test_a_disk_that_is_full_in_the_middle_has_nothing_done_twice_and_nothing_lost(tmp_path: Path) -> None:
    full = 0
    for room in range(100, 1_000_000, 4_000):  # a little more each time, until there is enough for the whole run
        if not await filled(Place(str(tmp_path / f"runs_{room}.db"), tmp_path / f"effects_{room}"), room):
            break
        full += 1
    assert full > 2, "the disk was full at several moments of the run"


async def filled(place: Place, room: int) -> list[str]:
    """How a run fails for which there is only so much room, and that it goes on when there is more."""
    async with place.store() as store:
        run = await program.begin(store, place.effects)
        await approve_all(store)
    command = [sys.executable, "-m", "tests.store.race_program", "fill", place.address, str(place.effects), str(room)]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    out, _ = await soon(process.communicate())
    output, failures = json.loads(out.splitlines()[-1])
    assert output == program.OUTPUT
    assert program.done(place.effects) == Counter(f"{what} one" for what in program.EFFECTS)
    async with place.store() as store:
        assert len(await store.history(run)) == (await store.load(run)).record.seq
    return list(failures)


async def test_a_hostile_row_is_refused_and_named_and_nothing_runs(place: Place) -> None:
    async with place.store() as store:
        run = await program.begin(store, place.effects)
        await approve_all(store)
        rows = await store.history(run)
        [row] = [entry for entry in rows if entry.fact["fact"] == "replied"]
        place.execute(
            "UPDATE assentry_journal SET fact = replace(CAST(fact AS TEXT), 'bob', 'eve') WHERE seq = :seq",
            seq=row.seq,
        )
        named = f"{row.seq} of run '{run}'"
        for refused in (store.load(run), store.history(run), store.cancel(run, by="ann"), store.say(run, "hello")):
            with pytest.raises(UnreadableState, match=named):
                await refused
        assert await Worker(store, program.agent()).run_until_idle() == 1
        [record] = (await store.runs()).items
        assert record.error is not None and named in record.error and record.worker is None
        assert await Worker(store, program.agent()).run_until_idle() == 0, "it is left alone"
        assert program.done(place.effects) == {}


# -- answers that are lost -----------------------------------------------------------------------------


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    folder = Path(tempfile.mkdtemp(prefix="assentry-px-", dir="/tmp"))
    made = Proxy(postgres, folder)  # type: ignore[arg-type]
    made.commits += (b"\0assentry_append_",)  # a statement that is a transaction of its own
    yield made
    made.close()
    shutil.rmtree(folder)


@LAGS
async def test_an_answer_to_any_write_that_is_lost_is_looked_up_and_nothing_is_done_twice(
    lag: float, writes: int, postgres: Server, proxy: Proxy, tmp_path: Path
) -> None:
    address = postgres.database()
    async with PostgresStore(address, upgrade=True) as plain:
        await plain.runs(limit=1)
    through_proxy = address.replace(str(postgres.folder), str(proxy._folder))
    assert through_proxy != address
    for number in range(1, writes + 1):
        seen, effects = 0, tmp_path / f"effects_{number}"

        async def lose(change: Any, number: int = number) -> None:
            nonlocal seen
            seen += 1
            proxy.loses = 1 if seen == number else 0

        async with Watched(through_proxy) as store:
            store.before = lose
            context = {"effects": str(effects), "name": "x"}
            config = RunConfig(write_lag=lag)
            result = await Runner.run(program.agent(), "go", store=store, context=context, run_config=config)
            question = (await store.questions(run=result.run_id)).items[0]
            for _ in range(2):  # whoever is not told decides again, and that is no error
                try:
                    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
                    break
                except StoreFailed as error:
                    if not error.unknown:
                        raise
            loaded = await store.load(result.run_id)
            result = await Runner.run(program.agent(), loaded, store=store, run_config=config)
            assert result.final_output == program.OUTPUT
        assert program.done(effects) == Counter(f"{what} x" for what in program.EFFECTS)
        async with PostgresStore(address) as plain:
            facts = (await plain.load(result.run_id)).facts
            assert len(await plain.history(result.run_id)) == len(facts)
            assert sum(type(fact) is f.Approved and fact.by == "ann" for fact in facts) == 1
    assert seen >= number, "there were as many writes"
