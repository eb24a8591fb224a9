"""Two drivers, two workers and two people over one store, on an event loop whose order is drawn.

Every await is a place to be overtaken at: around each verb of the store, in bodies, and wherever the runtime itself
waits; and a timer may fire at any of them. Nobody dies and no lease runs out. So whatever the order is, each effect
happens once, every result is recorded, nobody is asked what became of a call, and no drive loses its run.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from assentry import (
    Agent,
    Approve,
    Edit,
    Reject,
    Respond,
    RunConfig,
    RunHooks,
    Runner,
    Tool,
    ToolContext,
    function_tool,
)
from assentry.core import facts as f
from assentry.engines import Worker
from assentry.errors import AlreadyDecided, NotPending, Overtaken, RunBusy, RunFinished, RunNotFound
from assentry.store import MemoryStore, PostgresStore, Question, RunRecord, SQLiteStore, Store
from assentry.testing import FakeClock, ScriptedModel, call
from tests.draws import examples
from tests.property.drawn_loop import Choose, DrawnLoop, by_chance, by_list, play
from tests.store.postgres import Server

VERBS = ("append", "read", "take", "renew", "release", "claim", "question", "questions", "definition")
TURNS = (
    ("gated", "plain"),
    ("plain",),
    ("plain", "plain"),
    ("gated",),
    ("gated", "gated", "plain"),
    ("asking", "plain"),
    ("stepping", "gated"),
)
slow = list(HealthCheck)


def overtakable(kind: type[Store]) -> type[Any]:
    """A store whose every verb lets others go first, before it and after it."""

    def verb(name: str) -> Callable[..., Awaitable[Any]]:
        async def work(self: Any, *args: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            found = await getattr(kind, name)(self, *args, **options)
            await asyncio.sleep(0)
            return found

        return work

    return type(kind.__name__, (kind,), {name: verb(name) for name in VERBS})


class Scene:
    """A few runs of one agent, and everybody who has to do with them."""

    def __init__(self, turns: list[tuple[str, ...]], runs: int, lag: float, mixed: bool, meddled: int) -> None:
        self.turns, self.runs, self.mixed, self.meddled = turns, runs, mixed, meddled
        self.config = RunConfig(write_lag=lag)
        self.done: Counter[str] = Counter()
        self.over = False
        self.faults: list[str] = []
        self.tools = self.make_tools()

    # -- the agent -------------------------------------------------------------------------------------

    def agent(self) -> Agent[Any]:
        """The agent, with a model of its own, as each process would make it."""
        return Agent("agent", tools=self.tools, model=ScriptedModel([self.think] * 99))

    def make_tools(self) -> list[Tool]:

        async def work(name: str) -> str:
            for _ in range(3):
                await asyncio.sleep(0)
            await asyncio.sleep(0.004)
            self.done[name] += 1
            return f"did {name}"

        @function_tool
        async def plain(name: str) -> str:
            return await work(name)

        @function_tool(needs_approval=True)
        async def gated(name: str) -> str:
            return await work(name)

        @function_tool
        async def asking(ctx: ToolContext[Any], name: str) -> str:
            await ctx.ask("Which?", schema=str)
            return await work(name)

        @function_tool
        async def stepping(ctx: ToolContext[Any], name: str) -> str:
            await ctx.step("first", partial(work, f"{name} first"))
            return await work(name)

        return [plain, gated, asking, stepping]

    def think(self, request: Any) -> Any:
        """The reply to what was said so far: the next turn of the script, or the end."""
        run = next(item["content"] for item in request.input if item.get("role") == "user")
        made = sum(item.get("type") == "function_call" for item in request.input)
        for turn in self.turns:
            if made == 0:
                first = self.turns.index(turn)
                return [call(tool, {"name": f"{run}.{first}.{n}"}) for n, tool in enumerate(turn)]
            made -= len(turn)
        return "done"

    # -- who does what ---------------------------------------------------------------------------------

    async def begin(self, store: Store) -> None:
        """Begin the runs, and drive each until it waits."""
        for run in range(self.runs):
            await Runner.run(self.agent(), str(run), store=store, run_config=self.config)

    async def drive(self, store: Store, record: RunRecord) -> None:
        """Go on with a run, as somebody with `Runner.run` does."""
        with suppress(RunBusy, Overtaken, RunFinished, RunNotFound):
            stored = await store.load(record.id)
            await Runner.run(self.agent(), stored, store=store, run_config=self.config)

    async def decide(self, store: Store, name: str, question: Question) -> None:
        """Decide on a question, which somebody else may have done meanwhile."""
        if question.kind == "doubt":
            self.faults.append(f"asked what became of a call: {question.reason}")
        with suppress(AlreadyDecided, NotPending):
            await store.decide(question.id, self.decision(question), by=name, digest=question.digest)

    async def stop(self, store: Store, record: RunRecord) -> None:
        """Stop a run."""
        with suppress(NotPending, RunFinished):
            await store.cancel(record.id, by="cat")

    async def resume(self, store: Store, record: RunRecord) -> None:
        """Let a run that was stopped go on, and say something to it."""
        with suppress(NotPending, RunFinished):
            await store.resume(record.id, by="cat")
            await store.say(record.id, "Go on.", by="cat")

    async def driver(self, store: Store, first: bool) -> None:
        """Somebody with `Runner.run`: begins the runs, or goes on with what is there."""
        if first:
            await self.begin(store)
        while not self.over:
            await asyncio.sleep(0.003)
            for record in (await store.runs()).items:
                await self.drive(store, record)

    async def person(self, store: Store, name: str) -> None:
        """Looks at what is open, and decides."""
        while not self.over:
            await asyncio.sleep(0.002)
            for question in (await store.questions()).items:
                await self.decide(store, name, question)

    def decision(self, question: Any) -> Any:
        """The same for each question, whoever decides."""
        if question.kind != "approval":
            return Respond("Porto")
        kinds = (Approve(), Edit(json.loads(question.arguments)), Reject("no"), Respond("by hand"))
        return kinds[int(question.digest[:4], 16) % 4] if self.mixed else kinds[0]

    async def meddler(self, store: Store) -> None:
        """Stops runs, lets them go on, and says something, a few times."""
        for _ in range(self.meddled):
            await asyncio.sleep(0.003)
            for record in (await store.runs()).items:
                await self.stop(store, record)
                await self.resume(store, record)

    def workers(self, *stores: Store) -> list[Worker]:
        """A worker for each store."""
        return [Worker(store, self.agent(), poll=0.05, run_config=self.config) for store in stores]

    async def play(self, store: Store, people: Store, others: Store) -> None:
        """Everybody at once, until all runs are done."""
        workers = self.workers(store, others)
        meddling = asyncio.ensure_future(self.meddler(people))
        work = [self.driver(store, True), *(worker.run(signals=False) for worker in workers)]
        await self.end(store, people, others, workers, [meddling, *map(asyncio.ensure_future, work)])

    async def end(
        self, store: Store, people: Store, others: Store, workers: list[Worker], tasks: list[asyncio.Future[None]]
    ) -> None:
        """Two people and a driver more, until all runs are done; then look at what was done."""
        meddling = tasks[0]
        work = [self.driver(others, False), self.person(people, "ann"), self.person(people, "bob")]
        tasks += map(asyncio.ensure_future, work)
        for _ in range(2000):
            await asyncio.sleep(0.01)
            was_meddled, records = meddling.done(), (await people.runs()).items
            failed = [task for task in tasks if task.done() and task.exception() is not None]
            done = len(records) == self.runs and all(each.status == "done" for each in records)
            if failed or (done and was_meddled):
                break
        self.over = True
        for worker in workers:
            worker.stop()
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(end, BaseException):
                raise end
        await self.check(people)

    async def check(self, store: Store) -> None:
        assert self.faults == []
        expected: Counter[str] = Counter()
        for record in (await store.runs()).items:
            assert record.status == "done", record
            facts = (await store.load(record.id)).facts
            kinds = Counter(type(fact).__name__ for fact in facts)
            assert not kinds["Witnessed"] and (self.meddled or not kinds["Left"]), kinds
            calls = {each.id: each for fact in facts if type(fact) is f.Replied for each in fact.calls}
            ended = Counter(fact.call for fact in facts if type(fact) in (f.Finished, f.Told))
            assert ended == Counter(calls.keys()), "each call has one outcome"
            expected += self.expected(facts)
        assert self.done == expected, "each effect happened once"

    def expected(self, facts: list[Any]) -> Counter[str]:
        """The effects that the journal says there were."""
        effects: Counter[str] = Counter()
        for fact in facts:
            if type(fact) is f.Replied:
                items = json.loads(bytes(fact.items))
                for each in fact.calls:
                    name = json.loads(items[each.item]["arguments"])["name"]
                    if any(type(end) is f.Finished and end.call == each.id and end.by == "tool" for end in facts):
                        effects[name] += 1
                    if each.tool == "stepping":
                        effects[f"{name} first"] += 1
        return effects


scenes = st.builds(
    Scene,
    turns=st.lists(st.sampled_from(TURNS), min_size=1, max_size=3),
    runs=st.integers(1, 2),
    lag=st.sampled_from([0.01, 0.0, 0.001]),
    mixed=st.booleans(),
    meddled=st.sampled_from([0, 0, 1, 3]),
)
orders = st.one_of(
    st.builds(by_chance, st.integers(0, 2**32 - 1), st.sampled_from([0.02, 0.1, 0.3, 0.7])),
    st.builds(by_list, st.dictionaries(st.integers(1, 3000), st.integers(1, 9), max_size=40)),
)


def in_memory(scene: Scene, choose: Choose) -> None:
    store = overtakable(MemoryStore)(clock=FakeClock())
    play(scene.play(store, store, store), choose)


@settings(max_examples=examples(150), suppress_health_check=slow, deadline=None)
@given(scenes, orders)
def test_nothing_happens_twice_and_nothing_is_lost_in_any_order(scene: Scene, choose: Choose) -> None:
    in_memory(scene, choose)
    event(f"{scene.runs} runs of {len(scene.turns)} turns")


def in_a_file(scene: Scene, choose: Choose, on_threads: bool) -> None:
    clock, kind = FakeClock(), overtakable(SQLiteStore)

    async def work() -> None:
        with TemporaryDirectory() as folder:
            stores = [kind(f"{folder}/runs.db", clock=clock) for _ in range(3)]
            for store in stores:
                await store.upgrade()
                store._writer.pace = 1e9 if on_threads else 0.0
            try:
                await scene.play(*stores)
            finally:
                for store in stores:
                    await store.close()

    play(work(), choose, threads=True)


@settings(max_examples=examples(12), suppress_health_check=slow, deadline=None)
@given(scenes, orders, st.booleans())
def test_nor_in_a_file(scene: Scene, choose: Choose, on_threads: bool) -> None:
    in_a_file(scene, choose, on_threads)


def in_postgres(scene: Scene, choose: Choose, url: str) -> None:
    clock, kind = FakeClock(), overtakable(PostgresStore)

    async def work() -> None:
        stores = [kind(url, clock=clock) for _ in range(3)]
        await stores[0].upgrade()
        try:
            await scene.play(*stores)
        finally:
            for store in stores:
                await store.close()

    play(work(), choose, threads=True)


@settings(max_examples=examples(12), suppress_health_check=slow, deadline=None)
@given(scene=scenes, choose=orders)
def test_nor_in_postgres(postgres: Server, scene: Scene, choose: Choose) -> None:
    in_postgres(scene, choose, postgres.database())


@pytest.mark.parametrize("turns", [1, 2])
def test_nothing_goes_on_from_a_call_that_fails_its_branch_in_any_order(turns: int) -> None:
    """The call has its outcome before its task ends, and until then the drive does not know that the branch failed."""

    @function_tool(failure_error_function=None)
    async def fails() -> str:
        for _ in range(4):
            await asyncio.sleep(0)
        raise RuntimeError("no")

    @function_tool(needs_approval=True)
    async def gated() -> str:
        return "done"

    class Slow(RunHooks[Any]):
        async def on_approval_requested(self, context: Any, agent: Any, question: Any) -> None:
            for _ in range(9):
                await asyncio.sleep(0)

    async def work() -> None:
        once = ScriptedModel([call("fails"), "not to be asked for"])
        failing = Agent("failing", tools=[fails], model=once)
        asking = Agent("asking", tools=[gated], model=ScriptedModel([call("gated")] * 3))
        tools = [
            failing.as_tool("fail", "Fail.", max_turns=turns),
            *(asking.as_tool(f"ask_{n}", "Ask.") for n in range(3)),
        ]
        model = ScriptedModel([[call(tool.name, {"input": "?"}) for tool in tools]])
        result = await Runner.run(Agent("outer", tools=tools, model=model), "Go.", hooks=Slow())
        facts = result.to_state()._journal.facts
        assert [fact.error for fact in facts if type(fact) is f.Closed] == ["RuntimeError"]
        assert len(once.requests) == 1

    for seed in range(100):
        play(work(), by_chance(seed, 0.4))


# -- the same, where hypothesis says who goes next -----------------------------------------------------


class Office(RuleBasedStateMachine):
    """Two workers are always there; who else comes, and who is quick, is a step of the machine each."""

    server: Server | None = None
    """A Postgres server, or None for memory."""

    @initialize(
        turns=st.lists(st.sampled_from(TURNS), min_size=1, max_size=3),
        runs=st.integers(1, 2),
        lag=st.sampled_from([0.01, 0.0, 0.001]),
        mixed=st.booleans(),
    )
    def opens(self, turns: list[tuple[str, ...]], runs: int, lag: float, mixed: bool) -> None:
        self.scene, self.turns = Scene(turns, runs, lag, mixed, meddled=0), list[int]()
        self.loop = DrawnLoop(self.choose, threads=self.server is not None)
        self.runner = asyncio.Runner(loop_factory=lambda: self.loop)
        self.runner.run(self.begin())

    async def begin(self) -> None:
        clock = FakeClock()
        if self.server is None:
            self.stores = [overtakable(MemoryStore)(clock=clock)] * 3
        else:
            url = self.server.database()
            self.stores = [overtakable(PostgresStore)(url, clock=clock) for _ in range(3)]
            await self.stores[0].upgrade()
        self.workers = self.scene.workers(*self.stores[:2])
        self.tasks = [asyncio.ensure_future(worker.run(signals=False)) for worker in self.workers]
        self.tasks.append(asyncio.ensure_future(self.scene.begin(self.stores[0])))

    def choose(self, count: int) -> int:
        """The next of the drawn turns; after the last of them the loop stands still."""
        if not self.turns:
            return 0
        if len(self.turns) == 1:
            self.loop.stop()
        return self.turns.pop(0) % count

    @rule(turns=st.lists(st.integers(0, 15), min_size=1, max_size=80))
    def take_turns(self, turns: list[int]) -> None:
        """So many callbacks, each the one that is drawn; a number beyond them is a timer that fires too early."""
        self.turns = turns
        self.loop.run_forever()

    @rule(which=st.sampled_from([0, 1]), number=st.integers(0, 1))
    def somebody_drives(self, which: int, number: int) -> None:
        self.soon(self.with_run(self.scene.drive, self.stores[which], number))

    @rule(name=st.sampled_from(["ann", "bob"]), number=st.integers(0, 3))
    def a_person_decides(self, name: str, number: int) -> None:
        self.soon(self.look(name, number))

    @rule(number=st.integers(0, 1))
    def a_run_is_stopped(self, number: int) -> None:
        self.scene.meddled += 1
        self.soon(self.with_run(self.scene.stop, self.stores[2], number))

    @rule(number=st.integers(0, 1))
    def a_run_goes_on(self, number: int) -> None:
        self.soon(self.with_run(self.scene.resume, self.stores[2], number))

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(self.loop.create_task(work))

    async def with_run(self, act: Callable[[Any, RunRecord], Awaitable[None]], store: Any, number: int) -> None:
        for record in (await store.runs()).items[number : number + 1]:
            await act(store, record)

    async def look(self, name: str, number: int) -> None:
        for question in (await self.stores[2].questions()).items[number : number + 1]:
            await self.scene.decide(self.stores[2], name, question)

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        self.turns = []
        try:
            self.runner.run(self.close())
        finally:
            self.runner.close()

    async def close(self) -> None:
        store, others, people = self.stores
        resumed = asyncio.ensure_future(self.resume_all())
        try:
            await self.scene.end(store, people, others, self.workers, [resumed, *self.tasks])
        finally:
            for each in self.stores:
                await each.close()

    async def resume_all(self) -> None:
        """Nothing stays stopped: what was about to stop a run has done so when all others have come to their end."""
        await asyncio.gather(*self.tasks[len(self.workers) :])
        for number in range(self.scene.runs):
            await self.with_run(self.scene.resume, self.stores[2], number)


TestOffice = Office.TestCase
TestOffice.settings = settings(
    max_examples=examples(60), stateful_step_count=30, suppress_health_check=slow, deadline=None
)


def test_the_office_in_postgres(postgres: Server) -> None:
    class InPostgres(Office):
        server = postgres

    run_state_machine_as_test(
        InPostgres,
        settings=settings(max_examples=examples(6), stateful_step_count=30, suppress_health_check=slow, deadline=None),
    )
