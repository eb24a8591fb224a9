"""Two drivers, two workers and two people over one store, on an event loop whose order is drawn.

Every await is a place to be overtaken at: around each verb of the store, in bodies, and wherever the runtime itself
waits; and a timer may fire at any of them. Nobody dies and no lease runs out. So whatever the order is, each effect
happens once, every result is recorded, nobody is asked what became of a call, and no drive loses its run.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from assent import (
    Agent,
    Approve,
    Edit,
    Reject,
    Respond,
    RunConfig,
    Runner,
    Tool,
    ToolContext,
    function_tool,
)
from assent.core import facts as f
from assent.engines import Worker
from assent.errors import AlreadyDecided, NotPending, Overtaken, RunBusy, RunFinished, RunNotFound
from assent.store import MemoryStore, PostgresStore, SQLiteStore, Store
from assent.testing import FakeClock, ScriptedModel, call
from tests.property.drawn_loop import Choose, by_chance, by_list, play
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

    async def driver(self, store: Store, first: bool) -> None:
        """Somebody with `Runner.run`: begins the runs, or goes on with what is there."""
        for run in range(self.runs):
            if first:
                await Runner.run(self.agent(), str(run), store=store, run_config=self.config)
        while not self.over:
            await asyncio.sleep(0.003)
            for record in (await store.runs()).items:
                with suppress(RunBusy, Overtaken, RunFinished, RunNotFound):
                    stored = await store.load(record.id)
                    await Runner.run(self.agent(), stored, store=store, run_config=self.config)

    async def person(self, store: Store, name: str) -> None:
        """Looks at what is open, and decides."""
        while not self.over:
            await asyncio.sleep(0.002)
            for question in (await store.questions()).items:
                if question.kind == "doubt":
                    self.faults.append(f"asked what became of a call: {question.reason}")
                decision = self.decision(question)
                with suppress(AlreadyDecided, NotPending):
                    await store.decide(question.id, decision, by=name, digest=question.digest)

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
                with suppress(NotPending, RunFinished):
                    await store.cancel(record.id, by="cat")
                with suppress(NotPending, RunFinished):
                    await store.resume(record.id, by="cat")
                    await store.say(record.id, "Go on.", by="cat")

    async def play(self, store: Store, people: Store, others: Store) -> None:
        """Everybody at once, until all runs are done."""
        workers = [Worker(each, self.agent(), poll=0.05, run_config=self.config) for each in (store, others)]
        work = [
            self.driver(store, True),
            self.driver(others, False),
            self.person(people, "ann"),
            self.person(people, "bob"),
            *(worker.run(signals=False) for worker in workers),
        ]
        meddling = asyncio.ensure_future(self.meddler(people))
        tasks = [meddling, *map(asyncio.ensure_future, work)]
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


@settings(max_examples=150, suppress_health_check=slow, deadline=None)
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


@settings(max_examples=12, suppress_health_check=slow, deadline=None)
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


@settings(max_examples=12, suppress_health_check=slow, deadline=None)
@given(scene=scenes, choose=orders)
def test_nor_in_postgres(postgres: Server, scene: Scene, choose: Choose) -> None:
    in_postgres(scene, choose, postgres.database())
