"""A drive begins nothing without its lease, and writes nothing without it: the ways in which it once could."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assentry import Approve, RunConfig, Runner, ToolContext, function_tool
from assentry.core import facts as f
from assentry.core.fold import fold
from assentry.core.rules import is_drivers
from assentry.core.run import Run
from assentry.engines import Worker
from assentry.errors import Conflict, IllegalFact, LeaseLost, StoreFailed, UsageError
from assentry.runtime.lease import HELD, RELEASED, RELEASING
from assentry.store import Change, Lease, MemoryStore, Stored
from assentry.testing import FakeClock, call
from tests.core.support import began, js, replied, said
from tests.runtime.support import scripted, sending, soon
from tests.store.test_stored_runs import Watched, has, kinds, only, writer_in


async def others_go() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_background_write_never_releases_the_lease_of_a_drive_that_goes_on() -> None:
    """A decision overtakes the last write; before the drive hears of it, the timer of a background write fires."""
    send, sent = sending(needs_approval=True)
    store, seen = Watched(), list[Any]()
    writers: list[Any] = []

    @function_tool
    async def plain(ctx: ToolContext[Any]) -> str:
        writers.append(writer_in(ctx))
        return "ok"

    async def meddle(change: Change) -> None:
        if change.release:
            store.before, question = None, await only(store)
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
            seen.append(writers[0].lease.state)

    async def merged(run_id: str, after: int = 0) -> Stored:
        found = await MemoryStore.read(store, run_id, after)
        if len(seen) == 1:
            loop, writer = asyncio.get_running_loop(), writers[0]
            loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(writer._write_soon)))
            seen.append(writer.lease.state)
        return found

    store.before, store.read = meddle, merged  # type: ignore[method-assign]
    agent = scripted([call("send", {"to": "bob"}), call("plain")], "done", tools=[send, plain])
    result = await soon(Runner.run(agent, "go", store=store, run_config=RunConfig(write_lag=5)))
    assert seen == [RELEASING, RELEASING]
    assert (result.final_output, sent) == ("done", [("bob", 1)])
    assert [change.release for change in store.changes if change.lease is not None].count(True) == 1
    assert sum(change.lease is None for change in store.changes) == 1, "the decision: whoever drives has the lease"
    assert writers[0].lease.state is RELEASED


async def test_no_write_is_begun_while_the_last_one_is_under_way() -> None:
    store, states = Watched(), list[Any]()
    writers: list[Any] = []

    @function_tool
    async def plain(ctx: ToolContext[Any]) -> str:
        writers.append(writer_in(ctx))
        return "ok"

    async def late(change: Change) -> None:
        if change.release:
            writer = writers[0]
            before = len(store.changes)
            writer.kick()
            writer._write_soon()
            await others_go()
            states.append((writer.lease.state, writer.soon, len(store.changes) - before))
            with pytest.raises(LeaseLost, match="its lease is being released"):
                writer.lease.check("write")

    store.before = late
    await soon(Runner.run(scripted(call("plain"), "done", tools=[plain]), "go", store=store))
    assert states == [(RELEASING, None, 0)]


async def test_what_is_recorded_while_the_last_write_is_under_way_is_written_too() -> None:
    store = Watched()
    writers: list[Any] = []

    @function_tool
    async def plain(ctx: ToolContext[Any]) -> str:
        writers.append(writer_in(ctx))
        return "ok"

    async def record(change: Change) -> None:
        if change.release:
            store.before = None
            writers[0].journal.add(f.Said(js("one more thing"), "user"))

    store.before = record
    result = await soon(Runner.run(scripted(call("plain"), "done", tools=[plain]), "go", store=store))
    written = await kinds(store, result.run_id)
    assert written[-1] == "Said" and (await store.load(result.run_id)).record.worker is None


async def test_facts_of_another_driver_are_never_merged() -> None:
    """Somebody took the run over and gave it back: what they did is not ours to go on with."""
    clock = FakeClock()
    store = Watched(clock=clock)
    send, sent = sending()

    @function_tool
    async def slow(ctx: ToolContext[Any]) -> str:
        run = writer_in(ctx).lease.run
        clock.advance(60)
        [lease] = await store.claim("other", agents=None, hold=30, limit=1)
        stored = await store.read(run)
        change = Change(record=stored.record, seq=len(stored.facts), facts=[f.Limited(50)], lease=lease)
        change.record.seq += 1
        await MemoryStore.append(store, change)
        with pytest.raises(LeaseLost):
            await writer_in(ctx)._merge()
        return "ok"

    agent = scripted([call("slow")], call("send", {"to": "bob"}), "done", tools=[slow, send])
    with pytest.raises(LeaseLost):
        await soon(Runner.run(agent, "go", store=store))
    assert sent == []


def test_a_left_undoes_no_attempt_that_was_begun_under_another_lease() -> None:
    run = Run()
    for fact in (began(), said(), replied(1, "c1"), f.Approved("c1", "rule"), f.Started("c1", 1, fence=2)):
        fold(run, fact)
    with pytest.raises(IllegalFact, match="begun under lease 2, not 3"):
        fold(run, f.Left("c1", 1, fence=3))
    with pytest.raises(IllegalFact, match="begun under lease 2, not 0"):
        fold(run, f.Left("c1", 1, "probe"))
    fold(run, f.Left("c1", 1, fence=2))
    fold(run, f.Started("c1", 2, fence=3))
    fold(run, f.Left("c1", 2, "probe", fence=3))


async def test_a_start_that_was_refused_leaves_the_start_of_another_worker_as_it_is() -> None:
    """Both know the call as ready. One begins it; the other's `Started` is refused, and its `Left` with it."""
    send, sent = sending(needs_approval=True)
    store, clock = Watched(), FakeClock()
    store._clock = clock
    agent = scripted(call("send", {"to": "bob"}), "done", tools=[send])
    await Runner.run(agent, "go", store=store)
    question = await only(store)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    stored = await store.load(question.run)

    async def first(change: Change) -> None:
        if has(change, f.Started):
            store.before = None
            lease = await store.take(question.run, "other", seq=len(stored.facts), hold=30)
            theirs = Change(record=change.record, seq=change.seq, facts=[f.Started("c1", 1, lease.fence)], lease=lease)
            await MemoryStore.append(store, theirs)

    store.before = first
    with pytest.raises(Conflict):
        await soon(Runner.run(agent, stored, store=store))
    assert (await kinds(store, question.run))[-1] == "Started" and sent == []


# -- what the store takes without a lease ------------------------------------------------------------


OUTSIDERS: list[Any] = [
    said(),
    f.Granted("g1", "agent", "send", "approve", "ann"),
    f.Revoked("g1", "ann"),
    f.Cancelled("ann"),
    f.Resumed("ann"),
    f.Witnessed("c1", 1, js("late")),
    f.Approved("c1", "ann", "q1"),
    f.Refused("c1", "ann", "q1"),
    f.Finished("c1", js("x"), "ann", "q1"),
    f.Answered("c1", "ann", "q1", js("x")),
]
DRIVERS: list[Any] = [
    began(),
    f.Said(js("x"), path=("c1",)),
    f.Awaited(("g",)),
    f.Defined("agent"),
    replied(1, "c1"),
    f.Proposed(f.Call("c1", "final", 0, "output"), js({})),
    f.Concluded(),
    f.Continued(),
    f.Guarded("input", "g"),
    f.Limited(5),
    f.Switched(False),
    f.Saved(1),
    f.Closed("why"),
    f.Asked("c1", "q1", "why", "digest"),
    f.Approved("c1", "rule"),
    f.Refused("c1", "runtime"),
    f.Told("c1"),
    f.Redefined("c1", "x", "ann"),
    f.Started("c1"),
    f.Left("c1", 1),
    f.Stepped("c1", "name", js(1)),
    f.Finished("c1", js("x")),
    f.HandedOff("c1", "other"),
]


def test_every_kind_of_fact_is_known_as_a_drivers_or_as_anybodys() -> None:
    assert not any(map(is_drivers, OUTSIDERS)) and all(map(is_drivers, DRIVERS))
    named = {type(fact) for fact in (*OUTSIDERS, *DRIVERS)}
    assert named == {kind for kind in vars(f).values() if isinstance(kind, type) and f.Fact in kind.__bases__}


# -- inside a body -------------------------------------------------------------------------------------


def taking(store: MemoryStore, clock: FakeClock) -> Any:
    """A worker that takes the run over, since it has not heard of its driver for too long."""

    async def take_over() -> None:
        clock.advance(60)
        assert await store.claim("other", agents=None, hold=30, limit=1)

    return take_over


@pytest.mark.parametrize("sync", [False, True])
async def test_a_body_can_ask_whether_the_run_is_still_its_own(sync: bool) -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    take_over, answers = taking(store, clock), list[bool]()

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        answers.append(await ctx.holds_lease())
        await take_over()
        answers.append(await ctx.holds_lease())
        return "paid"

    @function_tool(name_override="pay")
    def pay_in_a_thread(ctx: ToolContext[Any]) -> str:
        answers.append(ctx.holds_lease_sync())
        ctx._asking._run_loop.wait_for(take_over)  # type: ignore[attr-defined]
        answers.append(ctx.holds_lease_sync())
        return "paid"

    with pytest.raises(LeaseLost):
        await soon(Runner.run(scripted(call("pay"), tools=[pay_in_a_thread if sync else pay]), "go", store=store))
    assert answers == [True, False]


async def test_a_run_without_a_store_is_always_its_own() -> None:
    answers: list[bool] = []

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        answers.append(await ctx.holds_lease())
        with pytest.raises(UsageError, match="in an async body await the other form"):
            ctx.holds_lease_sync()
        return "paid"

    await soon(Runner.run(scripted(call("pay"), "done", tools=[pay]), "go"))
    assert answers == [True]


async def test_whether_the_run_is_its_own_is_not_guessed_when_the_store_is_away() -> None:
    store = MemoryStore()

    @function_tool(failure_error_function=None)
    async def pay(ctx: ToolContext[Any]) -> str:
        async def away(*args: Any, **options: Any) -> Any:
            raise StoreFailed("The store cannot be reached.")

        store.renew = away  # type: ignore[method-assign]
        await ctx.holds_lease()
        return "paid"

    with pytest.raises(StoreFailed):
        await soon(Runner.run(scripted(call("pay"), tools=[pay]), "go", store=store))


async def test_a_step_is_not_begun_in_a_body_whose_run_was_taken_over() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    take_over, done = taking(store, clock), list[str]()

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        await ctx.step("first", lambda: done.append("first"))
        await take_over()
        assert not await ctx.holds_lease()
        await ctx.step("second", lambda: done.append("second"))
        return "paid"

    with pytest.raises(LeaseLost):
        await soon(Runner.run(scripted(call("pay"), tools=[pay]), "go", store=store))
    assert done == ["first"]


async def test_what_a_body_left_behind_takes_no_step_and_holds_no_lease() -> None:
    kept: list[ToolContext[Any]] = []
    done: list[str] = []

    @function_tool
    async def pay(ctx: ToolContext[Any]) -> str:
        kept.append(ctx)
        return "paid"

    result = await soon(Runner.run(scripted(call("pay"), "done", tools=[pay]), "go", store=MemoryStore()))
    assert result.final_output == "done"
    [ctx] = kept
    with pytest.raises(Conflict, match="it has not begun, or is over"):
        await ctx.step("late", lambda: done.append("late"))
    assert done == [] and await ctx.holds_lease() is False


async def test_a_look_that_meets_the_release_takes_the_lease_for_released_and_not_for_lost() -> None:
    store = Watched()
    writers: list[Any] = []
    looking: list[asyncio.Task[None]] = []

    @function_tool
    async def plain(ctx: ToolContext[Any]) -> str:
        writers.append(writer_in(ctx))
        whole = store.renew

        async def renew(leases: Any, *, hold: float) -> list[Lease]:
            while writers[0].lease.state is HELD:  # noqa: ASYNC110 - nobody says when it is not
                await asyncio.sleep(0)
            await others_go()
            return await whole(leases, hold=hold)

        store.renew = renew  # type: ignore[method-assign]
        looking.append(asyncio.create_task(writers[0].look()))
        return "ok"

    result = await soon(Runner.run(scripted(call("plain"), "done", tools=[plain]), "go", store=store))
    await soon(looking[0])
    assert result.final_output == "done" and writers[0].lease.state is RELEASED


async def test_a_drive_that_failed_in_a_worker_renews_no_lease_any_more() -> None:
    """Its last write leaves the lease to the worker. A heartbeat begun by that write would keep it for nobody."""
    store, writers = Watched(), list[Any]()

    @function_tool(needs_approval=True, failure_error_function=None)
    async def fail(ctx: ToolContext[Any]) -> str:
        writers.append(writer_in(ctx))
        raise ValueError("no")

    agent = scripted(call("fail"), tools=[fail])
    await Runner.run(agent, "go", store=store)
    question = await only(store)
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    await soon(Worker(store, agent).run_until_idle())
    [writer] = writers
    assert has(store.changes[-1], f.Finished) and not store.changes[-1].release, "written last, and not released"
    assert writer.heartbeat is None


class Slow(MemoryStore):
    """A store whose every write takes some turns of the loop."""

    async def append(self, change: Change) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        await super().append(change)
        await asyncio.sleep(0)


@pytest.mark.parametrize("turns", range(24))
async def test_a_run_whose_loop_ends_is_left_whole(turns: int) -> None:
    """Whoever ends a loop cancels all its tasks at once, a write that is under way or about to begin among them."""
    send, sent = sending(needs_approval=True)
    clock = FakeClock()
    store = Slow(clock=clock)
    agent = scripted([call("send", {"to": "bob"}), call("missing")], *["done"] * 3, tools=[send])
    others = asyncio.all_tasks()
    run = asyncio.create_task(Runner.run(agent, "go", store=store, run_config=RunConfig(write_lag=0)))
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - others:
        task.cancel()
    await soon(asyncio.wait([run]))
    await others_go()
    for record in (await store.runs()).items:
        assert await store.verify(record.id) == []
        clock.advance(100)
        await soon(Runner.run(agent, await store.load(record.id), store=store))
        question = await only(store)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        result = await soon(Runner.run(agent, await store.load(record.id), store=store))
        assert (result.final_output, sent) == ("done", [("bob", 1)])
