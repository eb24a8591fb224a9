"""Stops in databases and in runs that no worker drives: nobody begins a call on what was known before the stop."""

import asyncio
from typing import Any

import pytest

from assentry import Approve, Runner
from assentry.core import facts as f
from assentry.errors import AgentStopped, InvalidDecision, InvalidInput, UsageError
from assentry.store import Lease, MemoryStore, Store
from assentry.testing import FakeClock, ScriptedModel, call
from assentry.testing.store_checks.draft import SEND, RunDraft
from assentry.threads import InMemorySaver, create_agent
from tests.runtime.support import HANGS, scripted, sending, soon
from tests.store.place import Place

GO = call("send", {"to": "ann"})
WHY = {"by": "ann", "why": "It repeats itself."}


async def ready(store: Store, clock: FakeClock, agent: str = "Clerk") -> tuple[RunDraft, Lease]:
    """A stored run whose next fact is the `Started` of a call, and its lease."""
    draft = RunDraft(clock, agent=agent)
    (made,) = draft.propose(SEND, agent=agent)
    await draft.add(f.Approved(made, "rule", at=draft.now)).write(store)
    lease = await store.take(draft.id, "w1", seq=draft.seq, hold=60)
    draft.add(f.Started(made, fence=lease.fence, at=draft.now))
    return draft, lease


# -- databases ---------------------------------------------------------------------------------------


async def test_a_process_that_has_often_seen_no_stop_sees_the_first_one(place: Place) -> None:
    async with place.store() as store, place.store() as other:
        for _ in range(7):  # the statement is prepared by then
            draft, lease = await ready(store, place.clock)
            await draft.write(store, lease=lease)
        draft, lease = await ready(store, place.clock)
        stop = await other.stop("Clerk", **WHY)
        change = draft.change(lease=lease)
        with pytest.raises(AgentStopped):
            await store.append(change)
        await other.lift(stop.id, by="bob")
        await store.append(change)
        assert await store.verify(draft.id) == []


async def test_of_stops_and_calls_at_once_each_call_is_stored_before_its_stop_or_never(place: Place) -> None:
    async with place.store() as store, place.store() as other:
        for number in range(10):
            agent = f"Agent {number}"
            drafts = [await ready(store, place.clock, agent) for _ in range(3)]
            changes = [draft.change(lease=lease) for draft, lease in drafts]
            done: list[str] = []

            async def write(change: Any, done: list[str] = done) -> None:
                try:
                    await store.append(change)
                    done.append(change.record.id)
                except AgentStopped:
                    pass

            async def halt(agent: str = agent, changes: list[Any] = changes) -> set[str]:
                await other.stop(agent, **WHY)
                return {each.record.id for each in changes if await begun(other, each.record.id)}

            *_, there = await asyncio.gather(*(write(each) for each in changes), halt())
            after = {each.record.id for each in changes if await begun(other, each.record.id)}
            assert there == after == set(done)  # nothing that was stored came after the stop had returned


async def begun(store: Store, run: str) -> bool:
    return any(type(fact) is f.Started for fact in (await store.read(run)).facts)


async def test_a_call_waits_for_a_stop_that_is_being_stored_and_then_sees_it(place: Place) -> None:
    if place.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    async with place.store() as store:
        for _ in range(7):
            draft, lease = await ready(store, place.clock)
            await draft.write(store, lease=lease)
        draft, lease = await ready(store, place.clock)
        with place.engine.begin() as connection:
            connection.exec_driver_sql("LOCK TABLE assentry_stops IN EXCLUSIVE MODE")
            connection.exec_driver_sql(
                "INSERT INTO assentry_stops (id, agent, stopped_by, why, at) VALUES ('s1', 'Clerk', 'ann', 'x', 1)"
            )
            writing = asyncio.create_task(store.append(draft.change(lease=lease)))
            await _waiting(place)
            listed = await soon(store.stops())  # whoever only looks does not wait
            assert listed.items == []
        with pytest.raises(AgentStopped, match="ann has stopped the agent 'Clerk'"):
            await soon(writing)
        assert not await begun(store, draft.id)


async def test_a_stop_waits_for_the_calls_that_are_being_stored(place: Place) -> None:
    if place.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    async with place.store() as store:
        await store.stops()
        with place.engine.begin() as connection:
            connection.exec_driver_sql("SELECT id FROM assentry_stops WHERE lifted_at IS NULL FOR KEY SHARE")
            stopping = asyncio.create_task(store.stop("Clerk", **WHY))
            await _waiting(place)
            assert not stopping.done()
        await soon(stopping)


async def _waiting(place: Place) -> None:
    """Wait until somebody waits for a lock on the table of stops."""
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'assentry_stops'::regclass"
    async with asyncio.timeout(HANGS):
        while not place.execute(waits):  # noqa: ASYNC110 - there is nothing that tells it
            await asyncio.sleep(0)


async def test_a_stop_that_was_changed_behind_the_stores_back_is_named_and_holds(place: Place) -> None:
    async with place.store() as store:
        stop = await store.stop("Clerk", **WHY)
        assert await store.strays() == []
        place.execute("UPDATE assentry_stops SET agent = NULL")
        [said] = await store.strays()
        assert stop.id in said and "all agents" in said
        draft, lease = await ready(store, place.clock, "Other")
        with pytest.raises(AgentStopped):
            await draft.write(store, lease=lease)
        await store.lift(stop.id, by="bob")
        assert len(await store.strays()) == 1  # lifting it does not make it what was written


async def test_a_stop_reaches_the_news_of_other_processes(place: Place) -> None:
    async with place.store() as store, place.store() as other:
        await store.news(0)
        watching = asyncio.create_task(store.watch(HANGS))
        await asyncio.sleep(0)
        stop = await other.stop("Clerk", **WHY)
        await soon(watching)
        listening = asyncio.create_task(store.wait(HANGS))
        await asyncio.sleep(0)
        await other.lift(stop.id, by="ann")
        await soon(listening)


async def test_a_stop_is_found_behind_a_page_of_others(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.store.store.MOST", 1)
    async with place.store() as store:
        stop = await store.stop("Clerk", **WHY)
        place.clock.advance(1)  # the newest is on the first page
        await store.stop("Other", **WHY)
        assert await store.holding_stop("Nobody", "Clerk") == stop
        assert await store.holding_stop("Nobody") is None


# -- runs that no worker drives ------------------------------------------------------------------------


async def test_a_new_run_of_a_stopped_agent_asks_its_model_and_begins_no_call() -> None:
    send, sent = sending()
    agent = scripted(GO, "done", tools=[send], name="Shop")
    async with MemoryStore() as store:
        stop = await store.stop("Shop", **WHY)
        with pytest.raises(AgentStopped, match="ann has stopped the agent 'Shop'") as caught:
            await Runner.run(agent, "go", store=store)
        assert not sent
        assert (caught.value.stop, caught.value.agent, caught.value.status) == (stop.id, "Shop", 409)
        [record] = (await store.runs()).items
        assert (record.status, record.worker) == ("working", None)
        await store.lift(stop.id, by="bob")
        result = await Runner.run(agent, caught.value.state, store=store)
        assert (result.final_output, sent) == ("done", [("ann", 1)])
        assert await store.verify(result.run_id) == []


async def test_a_run_that_waited_goes_on_from_the_error_or_from_the_store() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(GO, "done", tools=[send], name="Shop")
    async with MemoryStore() as store:
        waiting = await Runner.run(agent, "go", store=store)
        [question] = (await store.questions()).items
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        stop = await store.stop(**WHY)
        with pytest.raises(AgentStopped, match="all agents"):
            await Runner.run(agent, await store.load(waiting.run_id), store=store)
        await store.lift(stop.id, by="bob")
        result = await Runner.run(agent, await store.load(waiting.run_id), store=store)
        assert (result.final_output, sent) == ("done", [("ann", 1)])


async def test_a_handoff_to_a_stopped_agent_is_made_and_its_calls_do_not_begin() -> None:
    send, sent = sending()
    second = scripted(GO, "done", tools=[send], name="Second")
    first = scripted(call("transfer_to_second", {}), handoffs=[second], name="First")
    async with MemoryStore() as store:
        await store.stop("Second", **WHY)
        with pytest.raises(AgentStopped, match="'Second'"):
            await Runner.run(first, "go", store=store)
        assert not sent
        run = (await store.runs()).items[0].id
        kinds = [type(fact).__name__ for fact in (await store.load(run)).facts]
        assert "HandedOff" in kinds and kinds.count("Started") == 1


async def test_a_stop_needs_somebody_and_a_reason_for_a_name_that_can_be_seen() -> None:
    async with MemoryStore() as store:
        with pytest.raises(InvalidDecision):
            await store.stop("Shop", by="\u200b", why="Because.")
        with pytest.raises(UsageError):
            await store.stop("Shop", by="ann", why="")
        assert (await store.stops(lifted=True)).items == []


@pytest.mark.parametrize("why", [5, ["no"], "\ud800", "x" * 2001])
async def test_a_reason_that_no_journal_holds_cancels_nothing(why: Any, place: Place) -> None:
    send, _ = sending(needs_approval=True)
    async with place.store() as store:
        run = (await Runner.run(scripted(GO, tools=[send]), "go", store=store)).run_id
        with pytest.raises(InvalidInput, match="A reason is text of at most 2,000 characters"):
            await store.cancel(run, by="ann", why=why)
        assert (await store.record(run)).status == "waiting" and await store.verify(run) == []


async def test_a_thread_of_a_stopped_agent_begins_no_call_and_goes_on_where_it_was() -> None:
    ran: list[str] = []

    def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    saver = InMemorySaver()
    model = ScriptedModel([call("pay", {"to": "ann"}), "done"])
    agent = create_agent(model, [pay], checkpointer=saver, name="Shop")
    stop = await saver.store.stop("Shop", **WHY)
    config: Any = {"configurable": {"thread_id": "t"}}
    with pytest.raises(AgentStopped, match="'Shop'"):
        await agent.ainvoke({"messages": [{"role": "user", "content": "go"}]}, config)
    assert not ran
    await saver.store.lift(stop.id, by="bob")
    await agent.ainvoke(None, config)
    assert ran == ["ann"]
