"""The worker: goes on with runs that are owed something, each by one at a time, and leaves nothing behind."""

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from assentry import (
    Agent,
    AgentRegistry,
    Approve,
    InvalidDefinition,
    ModelFailed,
    RunConfig,
    RunHooks,
    Runner,
    SQLiteSession,
    UsageError,
    function_tool,
    input_guardrail,
)
from assentry.core import facts as f
from assentry.definitions.guardrail import GuardrailFunctionOutput
from assentry.engines import Worker
from assentry.engines.backoff import delay
from assentry.errors import InputGuardrailTripwireTriggered, LeaseLost, Overtaken, RunBusy, StoreFailed
from assentry.store import Change, Lease, MemoryStore, RunRecord, Store, open_store
from assentry.testing import FakeClock, ScriptedModel, call
from tests.runtime.support import HANGS, UNRENEWED, python, scripted, sending, soon

GO = call("send", {"to": "ann"})


@pytest.fixture(autouse=True)
def drained_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker that waits for the end of its drain, though nothing is left to be done, wait for ever."""
    begin: Any = Worker.__init__
    monkeypatch.setitem(begin.__kwdefaults__, "drain", 1000.0)


def shop(*steps: Any, **options: Any) -> tuple[Agent[Any], list[tuple[str, int]]]:
    """An agent that asks before it sends, and what it sent."""
    send, sent = sending(needs_approval=True)
    return scripted(*(steps or (GO, "done")), tools=[send], name="Shop", **options), sent


def thinking(*tools: Any, name: str = "Shop", text: Any = "done") -> Agent[Any]:
    """An agent for any number of runs: it calls its first tool once, and then it is done."""

    def think(request: Any) -> Any:
        if any(item.get("type") == "function_call_output" for item in request.input):
            return text() if callable(text) else text
        return call(tools[0].name, {"to": "ann"})

    return Agent(name, tools=list(tools), model=ScriptedModel(think for _ in range(10_000)))


async def begun(store: Store, agent: Agent[Any], **options: Any) -> str:
    """A run that waits for a person."""
    result = await Runner.run(agent, "go", store=store, **options)
    assert result.interruptions
    return result.run_id


async def approve_all(store: Store) -> None:
    for question in (await store.questions(limit=1000)).items:
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)


async def record(store: Store, run_id: str) -> RunRecord:
    return (await store.load(run_id)).record


async def kinds(store: Store, run_id: str) -> list[str]:
    return [type(fact).__name__ for fact in (await store.load(run_id)).facts]


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Let the others work until this is so."""
    async with asyncio.timeout(HANGS):
        while not await true():  # noqa: ASYNC110 - there is nothing that tells it
            await asyncio.sleep(0)


async def serving(worker: Worker, work: Callable[[], Awaitable[None]]) -> None:
    """Let a worker run while something is done, and stop it then."""
    running = asyncio.create_task(worker.run())
    try:
        await soon(work())
    finally:
        worker.stop()
        await soon(running)


class Counting(MemoryStore):
    """A store that notes what workers do to it, and may be told to fail."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.claims: list[int] = []
        self.released: list[tuple[float | None, str | None]] = []
        self.away = 0
        self.claimed: Callable[[], None] | None = None

    async def claim(self, worker: str, *, agents: Any, hold: float, limit: int, outside: bool = False) -> list[Lease]:
        if self.away:
            self.away -= 1
            raise StoreFailed("the database is away")
        self.claims.append(limit)
        leases = await super().claim(worker, agents=agents, hold=hold, limit=limit, outside=outside)
        if self.claimed is not None:
            self.claimed()
        return leases

    async def release(
        self, lease: Lease, *, again_in: float | None = None, error: str | None = None, seq: int | None = None
    ) -> None:
        self.released.append((again_in, error))
        await super().release(lease, again_in=again_in, error=error, seq=seq)


# -- going on ------------------------------------------------------------------------------------


async def test_a_run_that_was_decided_goes_on_and_a_run_that_waits_is_left_alone() -> None:
    store, (agent, sent) = MemoryStore(), shop(GO, GO, "done")
    run, other = await begun(store, agent), await begun(store, agent)
    worker = Worker(store, agent)
    assert await worker.run_until_idle() == 0
    [question] = (await store.questions(run=run)).items
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    assert await worker.run_until_idle() == 1
    assert sent == [("ann", 1)]
    assert [(await record(store, each)).status for each in (run, other)] == ["done", "waiting"]
    assert (await record(store, run)).worker is None, "the lease was given back"
    assert await worker.run_until_idle() == 0


async def test_a_worker_that_serves_hears_of_a_decision() -> None:
    store, (agent, sent) = MemoryStore(), shop()
    run = await begun(store, agent)
    worker = Worker(store, agent, poll=1000)

    async def decide() -> None:
        await asyncio.sleep(0)
        await approve_all(store)
        await until(lambda: is_done(store, run))

    await serving(worker, decide)
    assert sent == [("ann", 1)]


async def is_done(store: Store, run_id: str) -> bool:
    return (await record(store, run_id)).status == "done"


async def test_a_run_whose_process_died_is_taken_over_when_its_lease_has_run_out() -> None:
    clock = FakeClock()
    store, (agent, sent) = MemoryStore(clock=clock), shop()
    run = await begun(store, agent)
    await approve_all(store)
    [lease] = await store.claim("the dead", agents=None, hold=30, limit=1)
    worker = Worker(store, agent)
    assert await worker.run_until_idle() == 0
    clock.advance(31)
    assert await worker.run_until_idle() == 1
    assert sent == [("ann", 1)]
    assert not await store.renew([lease], hold=30)
    assert await is_done(store, run)


async def test_runs_of_other_agents_are_left_to_other_workers() -> None:
    store, (agent, sent) = MemoryStore(), shop()
    await begun(store, agent)
    await approve_all(store)
    assert await Worker(store, scripted(name="Other")).run_until_idle() == 0
    assert await Worker(store, [scripted(name="Other"), agent]).run_until_idle() == 1
    assert sent == [("ann", 1)]


async def test_a_run_goes_on_with_the_version_it_was_made_with() -> None:
    def version(mark: str) -> Agent[Any]:
        @function_tool(name_override="send", needs_approval=True, version=mark)
        async def send(to: str) -> str:
            return f"{mark} to {to}"

        return thinking(send)

    store, registry = MemoryStore(), AgentRegistry()
    for mark in ("old", "new"):
        registry.add(version(mark), version=mark)
    runs = [await begun(store, registry.get("Shop", mark)) for mark in ("old", "new")]
    await approve_all(store)
    assert await Worker(store, registry).run_until_idle() == 2
    for run, mark in zip(runs, ("old", "new"), strict=True):
        [done] = [fact for fact in (await store.load(run)).facts if isinstance(fact, f.Finished)]
        assert mark.encode() in bytes(done.output)


async def test_a_version_that_only_fits_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    store, registry = MemoryStore(), AgentRegistry()
    send, sent = sending(needs_approval=True)
    agent = thinking(send)
    await begun(store, agent)
    await approve_all(store)
    registry.add(agent.clone(instructions="Be kind."), version="a")
    registry.add(agent.clone(instructions="Be stern."), version="b")
    with caplog.at_level(logging.WARNING, "assentry"):
        assert await Worker(store, registry).run_until_idle() == 1
    assert "goes on with 'b'" in caplog.text
    assert sent == [("ann", 1)]


async def test_a_deadline_that_has_passed_is_a_rejection() -> None:
    clock = FakeClock()
    store, (agent, sent) = MemoryStore(clock=clock), shop()
    run = await begun(store, agent, run_config=RunConfig(deadline=60))
    worker = Worker(store, agent)
    clock.advance(59)
    assert await worker.run_until_idle() == 0
    clock.advance(2)
    assert await worker.run_until_idle() == 1
    assert sent == []
    assert await is_done(store, run)
    [refused] = [fact for fact in (await store.load(run)).facts if isinstance(fact, f.Refused)]
    assert refused.by == "deadline"


async def test_hooks_and_settings_are_those_of_the_worker() -> None:
    heard: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            heard.append(tool.name)

    store, (agent, _) = MemoryStore(), shop(GO)
    run = await begun(store, agent)
    await approve_all(store)
    config = RunConfig(model=ScriptedModel(["another model"]))
    await Worker(store, agent, hooks=Hooks(), run_config=config).run_until_idle()
    assert heard == ["send"]
    assert await is_done(store, run)


# -- many at once --------------------------------------------------------------------------------


async def test_no_more_runs_are_driven_at_once_than_there_is_room_for() -> None:
    inside, most, doors = 0, 0, asyncio.Event()

    @function_tool(needs_approval=True)
    async def send(to: str) -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 3:
            doors.set()
        await soon(doors.wait())
        await asyncio.sleep(0)
        inside -= 1
        return "sent"

    store, agent = Counting(), thinking(send)
    runs = [await begun(store, agent) for _ in range(10)]
    await approve_all(store)
    assert await Worker(store, agent, concurrency=3).run_until_idle() == 10
    assert most == 3
    assert max(store.claims) == 3
    assert all([await is_done(store, run) for run in runs])


@pytest.mark.parametrize("count", [2, 8])
async def test_workers_on_one_store_enter_each_body_once(count: int) -> None:
    store = MemoryStore()
    send, sent = sending(needs_approval=True)
    agent = thinking(send)
    runs = [await begun(store, agent) for _ in range(40)]
    workers = [Worker(store, agent, concurrency=3, poll=1000) for _ in range(count)]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    await approve_all(store)
    for run in runs:
        await until(lambda run=run: is_done(store, run))  # type: ignore[misc]
    for worker in workers:
        worker.stop()
    await soon(asyncio.gather(*running))
    assert len(sent) == 40
    for run in runs:
        assert (await kinds(store, run)).count("Started") == 1
        assert (await record(store, run)).worker is None


async def test_workers_in_threads_of_their_own_enter_each_body_once() -> None:
    store = MemoryStore()
    send, sent = sending(needs_approval=True)
    agent = thinking(send)
    runs = [await begun(store, agent) for _ in range(40)]
    await approve_all(store)
    start = threading.Barrier(4)

    def work() -> None:
        start.wait(60)
        asyncio.run(Worker(store, agent, concurrency=2).run_until_idle())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join, 60)
    assert len(sent) == 40
    assert all([await is_done(store, run) for run in runs])


async def test_a_run_that_is_driven_here_is_not_driven_twice_when_its_lease_ran_out() -> None:
    clock, entered, leave = FakeClock(), asyncio.Event(), asyncio.Event()
    bodies = 0

    @function_tool(needs_approval=True)
    async def send(to: str) -> str:
        nonlocal bodies
        bodies += 1
        entered.set()
        await soon(leave.wait())
        return "sent"

    store, agent = Counting(clock=clock), thinking(send)
    run = await begun(store, agent)
    await approve_all(store)
    worker = Worker(store, agent, poll=0.01, lease=UNRENEWED.lease)

    async def work() -> None:
        await entered.wait()
        store.claimed = claimed.set
        clock.advance(UNRENEWED.lease + 1)  # the loop was blocked, say
        await claimed.wait()
        await until(lambda: given_back(store, run))
        leave.set()

    claimed = asyncio.Event()
    await serving(worker, work)
    assert bodies == 1, "what became of it is for whoever takes the run up to find out"
    assert (await record(store, run)).worker is None


async def given_back(store: Store, run_id: str) -> bool:
    return (await record(store, run_id)).worker is None


# -- in databases --------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store of its own can be opened, any number of times."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    url: str = request.getfixturevalue("postgres").database()
    return url


@pytest.mark.parametrize("count", [2, 8])
async def test_workers_on_one_database_enter_each_body_once(count: int, address: str) -> None:
    send, sent = sending(needs_approval=True)
    agent = thinking(send)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(address, upgrade=True))
        runs = [await begun(store, agent) for _ in range(20)]
        stores = [await stack.enter_async_context(open_store(address)) for _ in range(count)]
        workers = [Worker(each, agent, concurrency=3, poll=0.2) for each in stores]
        running = [asyncio.create_task(worker.run(signals=False)) for worker in workers]
        await approve_all(store)
        for run in runs:
            await until(lambda run=run: is_done(store, run))  # type: ignore[misc]
        for worker in workers:
            worker.stop()
        await soon(asyncio.gather(*running))
        assert len(sent) == 20
        assert {(await record(store, run)).worker for run in runs} == {None}


async def test_a_run_that_failed_is_left_alone_in_a_database_too(address: str) -> None:
    agent, _ = shop(GO, ModelFailed("down\0"), ModelFailed("down"), "done")
    async with open_store(address, upgrade=True) as store:
        run = await begun(store, agent)
        await approve_all(store)
        worker = Worker(store, agent, max_failures=2, random=lambda: 0.0)
        assert await worker.run_until_idle() == 2
        assert await worker.run_until_idle() == 0
        now = await record(store, run)
        assert (now.failures, now.error, now.worker) == (2, "ModelFailed: down", None)
        await store.say(run, "again")
        assert await worker.run_until_idle() == 1
        now = await record(store, run)
        assert (now.failures, now.error, now.status) == (0, None, "done")


# -- failing -------------------------------------------------------------------------------------


def test_the_wait_grows_up_to_five_minutes_and_is_left_to_chance() -> None:
    assert [delay(failures, 1.0) for failures in (0, 1, 2, 8, 9, 5000)] == [1, 2, 4, 256, 300, 300]
    assert delay(3, 0.25) == 2
    assert delay(3, 0.0) == 0


async def test_a_failing_model_is_tried_again_later_each_time_and_success_forgets_it() -> None:
    clock, told = FakeClock(), []
    down = [ModelFailed("no model"), ModelFailed("no model"), ModelFailed("still none")]
    store, (agent, sent) = Counting(clock=clock), shop(GO, *down, "done")
    run = await begun(store, agent)
    await approve_all(store)

    async def on_error(record: RunRecord, error: BaseException) -> None:
        told.append((record.id, record.failures, str(error)))

    worker = Worker(store, agent, random=lambda: 1.0, on_error=on_error)
    for failures, wait in enumerate((1, 2, 4), start=1):
        assert await worker.run_until_idle() == 1
        now = await record(store, run)
        assert (now.failures, now.worker, now.status) == (failures, None, "working")
        assert now.wake == int((clock() + wait) * 1000)
        clock.advance(wait - 0.5)
        assert await worker.run_until_idle() == 0
        clock.advance(0.5)
    assert (await record(store, run)).error == "ModelFailed: still none"
    assert await worker.run_until_idle() == 1
    now = await record(store, run)
    assert (now.status, now.failures, now.error) == ("done", 0, None)
    assert sent == [("ann", 1)], "what was done before the model failed is not done again"
    assert told == [(run, 0, "no model"), (run, 1, "no model"), (run, 2, "still none")]


async def test_a_run_that_fails_again_and_again_is_left_alone_until_something_is_recorded() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    agent, _ = shop(GO, *(ModelFailed("down") for _ in range(4)), "done")
    run = await begun(store, agent)
    await approve_all(store)
    worker = Worker(store, agent, max_failures=3, random=lambda: 0.0)
    assert await worker.run_until_idle() == 3
    clock.advance(10 * 365 * 86400)
    assert await worker.run_until_idle() == 0
    await store.say(run, "Try again.")
    assert await worker.run_until_idle() == 1, "it has one more try"
    assert (await record(store, run)).failures == 4
    await store.say(run, "And again.")
    assert await worker.run_until_idle() == 1
    assert await is_done(store, run)


async def test_what_is_recorded_while_the_last_attempt_fails_is_not_lost() -> None:
    store = Counting()
    said: list[str] = []

    async def fail(request: Any) -> Any:
        if not said:
            said.append("x")
            await store.say(run, "Something new.")
        return ModelFailed("down")

    agent, _ = shop(GO, fail, "done")
    run = await begun(store, agent)
    await approve_all(store)
    assert await Worker(store, agent, max_failures=1).run_until_idle() == 2
    assert await is_done(store, run)


@pytest.mark.parametrize(
    ("options", "error"),
    [({}, "ContextMissing"), ({"sessions": None, "context": object()}, "SessionMissing")],
)
async def test_what_no_attempt_can_mend_is_left_alone_at_once(options: dict[str, Any], error: str) -> None:
    store, (agent, sent) = MemoryStore(), shop()
    if error == "ContextMissing":
        with pytest.warns(UserWarning, match="left out"):
            run = await begun(store, agent, context=object())
    else:
        with SQLiteSession("you") as session:
            run = await begun(store, agent, session=session)
    await approve_all(store)
    failed: list[BaseException] = []
    worker = Worker(store, agent, on_error=lambda record, error: failed.append(error), **options)
    assert await worker.run_until_idle() == 1
    assert await worker.run_until_idle() == 0
    assert [type(each).__name__ for each in failed] == [error]
    now = await record(store, run)
    assert now.error is not None and now.error.startswith(error)
    assert (now.worker, now.status, sent) == (None, "working", [])


async def test_a_run_that_no_version_fits_is_left_alone_if_it_may_not_be_asked_again() -> None:
    store, (agent, sent) = MemoryStore(), shop()
    run = await begun(store, agent)
    await approve_all(store)
    registry = AgentRegistry()
    registry.add(scripted(name="Shop"), version="a")
    registry.add(scripted("done", name="Shop", instructions="Be kind."), version="b")
    refusing = Worker(store, registry, run_config=RunConfig(on_change="refuse"))
    assert await refusing.run_until_idle() == 1
    assert await refusing.run_until_idle() == 0
    assert str((await record(store, run)).error).startswith("DefinitionChanged")
    assert sent == []


async def test_a_tool_that_changed_while_the_run_waited_is_put_to_a_person_again() -> None:
    store, (agent, sent) = MemoryStore(), shop()
    run = await begun(store, agent)
    await approve_all(store)
    send, other = sending(needs_approval=True, version="2")
    worker = Worker(store, scripted("done", tools=[send], name="Shop"))
    assert await worker.run_until_idle() == 1
    assert (sent, other) == ([], [])
    assert (await record(store, run)).status == "waiting"
    await approve_all(store)
    assert await worker.run_until_idle() == 1
    assert (sent, other) == ([], [("ann", 1)])


async def test_turns_that_are_used_up_leave_the_run_exhausted() -> None:
    store, (agent, _) = MemoryStore(), shop(GO)
    run = await begun(store, agent, max_turns=1)
    await approve_all(store)
    failed: list[str] = []
    worker = Worker(store, agent, on_error=lambda record, error: failed.append(type(error).__name__))
    assert await worker.run_until_idle() == 1
    assert await worker.run_until_idle() == 0
    assert failed == ["MaxTurnsExceeded"]
    assert (await record(store, run)).status == "exhausted"


async def test_a_tripwire_closes_the_run_for_good() -> None:
    @input_guardrail
    async def no(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered="more" in str(input))

    store, (agent, sent) = MemoryStore(), shop(input_guardrails=[no])
    run = await begun(store, agent)
    await store.say(run, "more")
    failed: list[BaseException] = []
    worker = Worker(store, agent, on_error=lambda record, error: failed.append(error))
    await approve_all(store)
    assert await worker.run_until_idle() == 1
    assert await worker.run_until_idle() == 0
    assert [type(each) for each in failed] == [InputGuardrailTripwireTriggered]
    assert (await record(store, run)).status == "closed"
    assert sent == []


async def test_a_cancelled_run_is_not_resumed_by_a_worker() -> None:
    store, (agent, sent) = MemoryStore(), shop()
    run = await begun(store, agent)
    await approve_all(store)
    await store.cancel(run, by="ann")
    worker = Worker(store, agent)
    assert await worker.run_until_idle() == 0
    lease = await store.take(run, "somebody", seq=(await record(store, run)).seq, hold=30)
    await store.release(lease, again_in=0)  # as a worker would whose drive failed just when it was cancelled
    await worker.run_until_idle()
    assert (sent, (await record(store, run)).status) == ([], "cancelled")
    await store.resume(run, by="ann")
    assert await worker.run_until_idle() == 1
    assert sent == [("ann", 1)]


async def test_being_too_late_is_no_failure() -> None:
    store, (agent, sent) = Counting(), shop()
    run = await begun(store, agent)
    await approve_all(store)
    first = [Overtaken("late"), RunBusy("busy"), LeaseLost("gone")]

    async def load(run_id: str) -> Any:
        if first:
            raise first.pop()
        return await MemoryStore.load(store, run_id)

    store.load = load  # type: ignore[method-assign]
    failed: list[Any] = []
    worker = Worker(store, agent, on_error=lambda *given: failed.append(given))
    assert await worker.run_until_idle() == 4
    assert (failed, len(sent), await is_done(store, run)) == ([], 1, True)


async def test_on_error_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    store, (agent, _) = MemoryStore(), shop(GO, ModelFailed("down"), "done")
    run = await begun(store, agent)
    await approve_all(store)

    def on_error(record: RunRecord, error: BaseException) -> None:
        raise ValueError("no pager")

    assert await Worker(store, agent, on_error=on_error, random=lambda: 0.0).run_until_idle() == 2
    assert await is_done(store, run)
    assert "on_error failed" in caplog.text


async def test_a_worker_goes_on_when_its_store_is_back(caplog: pytest.LogCaptureFixture) -> None:
    store, (agent, sent) = Counting(), shop()
    run = await begun(store, agent)
    await approve_all(store)
    store.away = 5
    waits: list[float] = []

    def chance() -> float:
        waits.append(0.0)
        return 0.0

    await serving(Worker(store, agent, random=chance), lambda: until(lambda: is_done(store, run)))
    assert len(waits) == 5
    assert sent == [("ann", 1)]
    assert "the database is away" in caplog.text


async def test_one_look_at_a_store_that_is_away_says_so() -> None:
    store, (agent, _) = Counting(), shop()
    store.away = 1
    with pytest.raises(StoreFailed, match="away"):
        await Worker(store, agent).run_until_idle()


async def test_a_store_that_fails_in_the_middle_of_a_run_enters_no_body_twice() -> None:
    class Breaking(Counting):
        broken: str | None = None

        async def append(self, change: Change) -> None:
            if self.broken and any(type(fact).__name__ == self.broken for fact in change.facts):
                self.broken = None
                raise StoreFailed("no connection")
            await super().append(change)

    for kind, bodies in (("Started", 1), ("Finished", 1), ("Concluded", 1)):
        store = Breaking()
        send, sent = sending(needs_approval=True)
        agent = thinking(send)
        run = await begun(store, agent)
        await approve_all(store)
        store.broken = kind
        await Worker(store, agent, random=lambda: 0.0).run_until_idle()
        assert len(sent) == bodies, kind
        assert (await record(store, run)).worker is None


# -- contexts and sessions -----------------------------------------------------------------------


async def seen_context(store: Store, run_context: Any, given: Any) -> tuple[Any, str]:
    seen: list[Any] = []

    @function_tool(needs_approval=True)
    async def send(to: str) -> str:
        return "sent"

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            seen.append(context.context)

    agent = thinking(send)
    run = await begun(store, agent, context=run_context)
    await approve_all(store)
    await Worker(store, agent, context=given, hooks=Hooks()).run_until_idle()
    return seen[0], run


class Live:
    """A context that cannot be saved."""


async def test_a_run_without_a_saved_context_gets_the_workers() -> None:
    live = Live()
    seen, run = await seen_context(MemoryStore(), None, live)
    assert seen is live

    async def make(record: RunRecord) -> Live:
        made.append(record.id)
        return live

    made: list[str] = []
    store = MemoryStore()
    with pytest.warns(UserWarning, match="left out"):
        seen, run = await seen_context(store, Live(), make)
    assert (seen is live, made) == (True, [run])


async def test_a_context_that_was_saved_is_kept_and_the_workers_is_not_saved() -> None:
    store = MemoryStore()
    seen, run = await seen_context(store, {"user": 7}, {"user": 8})
    assert seen == {"user": 7}
    assert (await store.load(run)).context.json == b'{"user":7}'
    seen, run = await seen_context(store, None, {"user": 8})
    assert seen == {"user": 8}
    assert (await store.load(run)).context.json is None


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_run_that_was_begun_with_a_session_gets_it(awaited: bool, tmp_path: Path) -> None:
    store, (agent, sent) = MemoryStore(), shop()
    with SQLiteSession("you", tmp_path / "talk.db") as session:
        run = await begun(store, agent, session=session)
    await approve_all(store)
    asked: list[str] = []
    with SQLiteSession("you", tmp_path / "talk.db") as session:

        def plain(id: str) -> SQLiteSession:
            asked.append(id)
            return session

        async def slow(id: str) -> SQLiteSession:
            return plain(id)

        assert await Worker(store, agent, sessions=slow if awaited else plain).run_until_idle() == 1
        assert (asked, sent, await is_done(store, run)) == (["you"], [("ann", 1)], True)
        assert any(item.get("type") == "function_call_output" for item in await session.get_items())


# -- stopping ------------------------------------------------------------------------------------


class Held:
    """A tool whose body waits until it is let go."""

    def __init__(self) -> None:
        self.entered, self.leave = asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []

        @function_tool(needs_approval=True)
        async def send(to: str) -> str:
            self.entered.set()
            try:
                await soon(self.leave.wait())
            except asyncio.CancelledError:
                self.ended.append("cut off")
                raise
            self.ended.append("done")
            return "sent"

        self.tool = send


async def test_stopping_lets_what_is_under_way_come_to_its_end_and_claims_nothing_more() -> None:
    store, held = Counting(), Held()
    agent = thinking(held.tool)
    run, later = await begun(store, agent), await begun(store, agent)
    await approve_all(store)
    worker = Worker(store, agent, concurrency=1, drain=1000)
    running = asyncio.create_task(worker.run())
    await soon(held.entered.wait())
    claims = len(store.claims)
    worker.stop()
    worker.stop()
    await asyncio.sleep(0)
    assert not running.done()
    held.leave.set()
    await soon(running)
    assert held.ended == ["done"]
    assert len(store.claims) == claims
    states = {(await record(store, each)).status for each in (run, later)}
    assert states == {"done", "working"}
    assert all([(await record(store, each)).worker is None for each in (run, later)])


async def test_after_the_drain_a_body_may_end_and_nothing_new_is_begun() -> None:
    store, held = MemoryStore(), Held()
    agent = thinking(held.tool)
    run = await begun(store, agent)
    await approve_all(store)
    worker = Worker(store, agent, drain=0, run_config=RunConfig(cancel_grace=1000))
    running = asyncio.create_task(worker.run())
    await soon(held.entered.wait())
    asked = len(agent.model.requests)  # type: ignore[union-attr]
    worker.stop()
    for _ in range(20):
        await asyncio.sleep(0)
    held.leave.set()
    await soon(running)
    now = await record(store, run)
    assert (held.ended, now.status, now.worker, now.failures) == (["done"], "working", None, 0)
    assert len(agent.model.requests) == asked  # type: ignore[union-attr]
    assert "Cancelled" not in await kinds(store, run), "the next worker goes on with it"
    assert await Worker(store, agent).run_until_idle() == 1
    assert (await kinds(store, run)).count("Started") == 1
    assert await is_done(store, run)


@pytest.mark.parametrize("how", ["no grace", "at once", "cancelled"])
async def test_a_body_that_is_cut_off_is_in_doubt_and_a_person_is_asked(how: str) -> None:
    store, held = MemoryStore(), Held()
    agent = thinking(held.tool)
    run = await begun(store, agent)
    await approve_all(store)
    patient = how != "no grace"
    config = RunConfig(cancel_grace=1000 if patient else 0)
    worker = Worker(store, agent, drain=1000 if patient else 0, run_config=config)
    running = asyncio.create_task(worker.run())
    await soon(held.entered.wait())
    if how == "cancelled":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(running)
    else:
        worker.stop()
        if how == "at once":
            worker.stop(at_once=True)
        await soon(running)
    now = await record(store, run)
    assert (held.ended, now.status, now.worker) == (["cut off"], "working", None)
    assert await Worker(store, agent).run_until_idle() == 1
    [question] = (await store.questions(run=run)).items
    assert question.kind == "doubt"
    assert held.ended == ["cut off"]


async def test_stopping_does_not_wait_for_a_model() -> None:
    asked = asyncio.Event()

    async def think(request: Any) -> Any:
        asked.set()
        await soon(asyncio.Event().wait())

    store, (agent, sent) = MemoryStore(), shop(GO, think, "done")
    run = await begun(store, agent)
    await approve_all(store)
    worker = Worker(store, agent, drain=0, run_config=RunConfig(cancel_grace=1000))
    running = asyncio.create_task(worker.run())
    await soon(asked.wait())
    worker.stop()
    await soon(running)
    assert await Worker(store, agent).run_until_idle() == 1
    assert (sent, await is_done(store, run)) == ([("ann", 1)], True)


async def test_what_is_claimed_while_the_worker_is_stopped_is_given_back() -> None:
    store, (agent, sent) = Counting(), shop()
    run = await begun(store, agent)
    await approve_all(store)
    worker = Worker(store, agent)
    store.claimed = lambda: worker._stopping.set_result(None)
    await soon(worker.run())
    now = await record(store, run)
    assert (sent, now.worker, now.failures) == ([], None, 0)
    assert now.wake is not None and now.wake <= store.clock() * 1000


async def test_a_worker_that_was_stopped_before_it_ran_claims_nothing_and_can_run_again() -> None:
    store, (agent, sent) = Counting(), shop()
    await begun(store, agent)
    await approve_all(store)
    worker = Worker(store, agent)
    worker.stop()
    await soon(worker.run())
    assert (store.claims, sent) == ([], [])
    assert await worker.run_until_idle() == 1
    assert sent == [("ann", 1)]


async def test_a_worker_runs_once_at_a_time() -> None:
    store, (agent, _) = MemoryStore(), shop()
    worker = Worker(store, agent)

    async def again() -> None:
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="runs already"):
            await worker.run_until_idle()

    await serving(worker, again)


async def test_signals_are_handled_while_the_worker_runs_and_then_as_before() -> None:
    def mine(number: int, frame: Any) -> None:
        raise AssertionError("not this one")

    store, held = MemoryStore(), Held()
    agent = thinking(held.tool)
    run = await begun(store, agent)
    await approve_all(store)
    before = {each: signal.signal(each, mine) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        running = asyncio.create_task(Worker(store, agent, drain=1000).run())
        await soon(held.entered.wait())
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
        assert not running.done()
        signal.raise_signal(signal.SIGINT)  # the second one: at once
        await soon(running)
        assert [signal.getsignal(each) for each in before] == [mine, mine]
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert held.ended == ["cut off"]
    assert (await record(store, run)).worker is None


async def test_signals_may_be_left_to_the_program() -> None:
    store, (agent, _) = MemoryStore(), shop()
    worker, before = Worker(store, agent), signal.getsignal(signal.SIGTERM)
    running = asyncio.create_task(worker.run(signals=False))
    await asyncio.sleep(0)
    assert signal.getsignal(signal.SIGTERM) is before
    worker.stop()
    await soon(running)


async def test_a_worker_in_another_thread_is_stopped_from_here() -> None:
    store, (agent, sent) = MemoryStore(), shop()
    run = await begun(store, agent)
    worker = Worker(store, agent, poll=1000)
    thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
    thread.start()
    try:
        await approve_all(store)
        await until(lambda: is_done(store, run))
    finally:
        worker.stop()
        await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    assert sent == [("ann", 1)]


# -- what it is given ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agents", "options"),
    [
        (None, {}),
        ([], {}),
        (AgentRegistry(), {}),
        (["Shop"], {}),
        (5, {}),
        *(
            (Agent("Shop"), options)
            for options in (
                {"concurrency": 0},
                {"concurrency": 1.5},
                {"concurrency": True},
                {"lease": 0},
                {"poll": 0},
                {"poll": "5"},
                {"drain": -1},
                {"drain": float("inf")},
                {"max_failures": 0},
                {"name": ""},
                {"name": 5},
                {"run_config": {}},
                {"hooks": print},
                {"sessions": {}},
                {"on_error": "log"},
            )
        ),
    ],
)
def test_a_worker_that_cannot_work_is_not_made(agents: Any, options: dict[str, Any]) -> None:
    with pytest.raises((UsageError, InvalidDefinition)):
        Worker(MemoryStore(), agents, **options)


def test_a_worker_needs_a_store() -> None:
    with pytest.raises(UsageError, match="store"):
        Worker("runs.db", Agent("Shop"))  # type: ignore[arg-type]


def test_workers_have_names_of_their_own() -> None:
    store, agent = MemoryStore(), Agent("Shop")
    assert Worker(store, agent).name != Worker(store, agent).name
    assert Worker(store, agent, name="one").name == "one"
    assert "'Shop'" in repr(Worker(store, agent))


def test_importing_assentry_brings_in_no_worker_and_no_store() -> None:
    rooms = ["assentry.engines", "assentry.store", "assentry.cli", "sqlalchemy", "alembic", "psycopg"]
    ended = python(f"import sys, assentry; print([each for each in {rooms} if each in sys.modules])")
    assert ended.stdout.strip() == "[]", ended.stderr


async def test_signals_are_as_they_were_when_the_last_of_several_workers_has_ended() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    one, two = (Worker(MemoryStore(), scripted()) for _ in range(2))
    tasks = [asyncio.create_task(worker.run()) for worker in (one, two)]
    await asyncio.sleep(0)
    for worker, task in zip((one, two), tasks, strict=True):
        worker.stop()
        await task
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize("turns", range(12))
async def test_a_worker_whose_loop_ends_comes_to_an_end_and_gives_back_what_it_claimed(turns: int) -> None:
    """Whoever ends a loop cancels all its tasks at once, a drive that is about to begin among them."""
    agent, sent = shop(GO, "done", "done")
    store = MemoryStore()
    run = await begun(store, agent)
    await approve_all(store)
    others = asyncio.all_tasks()
    working = asyncio.create_task(Worker(store, agent).run(signals=False))
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - others:
        task.cancel()
    await soon(asyncio.wait([working]))
    assert (await record(store, run)).worker is None
    assert len(sent) <= 1
