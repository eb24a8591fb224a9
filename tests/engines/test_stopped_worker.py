"""Workers and stops: what is claimed, what begins and what goes on while somebody has stopped an agent."""

import asyncio
from typing import Any

import pytest

from assentry import (
    Agent,
    Approve,
    RunHooks,
    Runner,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)
from assentry.core import facts as f
from assentry.engines import Worker
from assentry.errors import AgentStopped
from assentry.store import Change, Lease, MemoryStore, Store
from assentry.testing import FakeClock, ScriptedModel, call
from tests.engines.test_worker import GO, approve_all, begun, kinds, record, serving, shop, until
from tests.runtime.support import UNRENEWED, scripted, sending, soon

WHY = {"by": "ann", "why": "It repeats itself."}


async def test_a_stopped_agents_runs_are_not_claimed_and_go_on_once_the_stop_is_lifted() -> None:
    agent, sent = shop()
    async with MemoryStore() as store:
        run = await begun(store, agent)
        await approve_all(store)
        stop = await store.stop("Shop", **WHY)
        assert await soon(Worker(store, agent).run_until_idle()) == 0
        assert not sent
        await store.lift(stop.id, by="bob")
        assert await soon(Worker(store, agent).run_until_idle()) == 1
        assert sent == [("ann", 1)]
        assert (await record(store, run)).status == "done"


class StopsBeforeStarted(MemoryStore):
    """A store in which somebody stops the agent right before the first call begins."""

    stopping: Any = False

    async def append(self, change: Change) -> None:
        if self.stopping is not False and any(type(fact) is f.Started for fact in change.facts):
            who, self.stopping = self.stopping, False
            self.made = await self.stop(who, **WHY)
        await super().append(change)


@pytest.mark.parametrize("who", ["Shop", None])
async def test_a_stop_between_claim_and_started_leaves_the_run_as_it_was(who: str | None) -> None:
    agent, sent = shop()
    async with StopsBeforeStarted() as store:
        run = await begun(store, agent)
        await approve_all(store)
        before = await kinds(store, run)
        store.stopping = who
        assert await soon(Worker(store, agent).run_until_idle()) == 1
        assert not sent
        assert await kinds(store, run) == before
        found = await record(store, run)
        assert (found.worker, found.failures, found.error, found.status) == (None, 0, None, "working")
        await store.lift(store.made.id, by="ann")
        assert await soon(Worker(store, agent).run_until_idle()) == 1
        assert sent == [("ann", 1)]
        assert (await kinds(store, run)).count("Started") == 1


async def test_what_the_model_said_before_a_stop_is_kept_and_not_asked_for_again() -> None:
    send, sent = sending()
    asked: list[Any] = []

    def think(request: Any) -> Any:
        asked.append(request)
        return "done" if any(each.get("type") == "function_call_output" for each in request.input) else GO

    agent = Agent("Shop", tools=[send], model=ScriptedModel(think for _ in range(9)))
    async with StopsBeforeStarted() as store:
        await store.announce({"Shop": '{"fact":"began","agent":"Shop","max_turns":10,"run":""}'})
        run = (await store.start("Shop", "go", by="eve")).id
        store.stopping = "Shop"
        await soon(Worker(store, agent).run_until_idle())
        assert not sent and len(asked) == 1
        assert "Replied" in await kinds(store, run) and "Started" not in await kinds(store, run)
        await store.lift(store.made.id, by="ann")
        await soon(Worker(store, agent).run_until_idle())
        assert sent == [("ann", 1)] and len(asked) == 2
        assert (await record(store, run)).status == "done"


async def test_a_body_that_runs_when_the_agent_is_stopped_goes_on_and_its_outcome_counts() -> None:
    running, may_end = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> str:
        running.set()
        await may_end.wait()
        return "paid"

    send, sent = sending()
    agent = scripted(call("slow"), GO, "done", tools=[slow, send], name="Shop")
    async with MemoryStore() as store:
        await store.announce({"Shop": '{"fact":"began","agent":"Shop","max_turns":10,"run":""}'})
        run = (await store.start("Shop", "go", by="eve")).id

        async def stop_and_lift() -> None:
            await running.wait()
            stop = await store.stop("Shop", **WHY)
            may_end.set()

            async def is_released() -> bool:
                found = await record(store, run)
                return found.worker is None and "Finished" in await kinds(store, run)

            await until(is_released)
            assert not sent
            assert (await kinds(store, run)).count("Started") == 1
            await store.lift(stop.id, by="ann")

            async def is_done() -> bool:
                return (await record(store, run)).status == "done"

            await until(is_done)

        await serving(Worker(store, agent), stop_and_lift)
        assert sent == [("ann", 1)]


async def test_a_parallel_call_whose_body_runs_is_not_cut_off_by_a_refused_one() -> None:
    running, stopped, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> str:
        running.set()
        await may_end.wait()
        return "paid"

    @tool_input_guardrail
    async def late(data: Any) -> ToolGuardrailFunctionOutput:
        await stopped.wait()
        return ToolGuardrailFunctionOutput.allow()

    send, sent = sending(tool_input_guardrails=[late])

    class Tells(MemoryStore):
        async def append(self, change: Change) -> None:
            try:
                await super().append(change)
            except AgentStopped:
                may_end.set()
                raise

    agent = scripted([call("slow"), GO], "done", tools=[slow, send], name="Shop")
    async with Tells() as store:
        driving = asyncio.create_task(Runner.run(agent, "go", store=store))
        await soon(running.wait())
        await store.stop("Shop", **WHY)
        stopped.set()
        with pytest.raises(AgentStopped) as caught:
            await soon(driving)
        assert caught.value.state is not None
        assert not sent
        run = await only_run(store)
        found = await kinds(store, run)
        assert (found.count("Started"), found.count("Finished")) == (1, 1)
        assert (await record(store, run)).worker is None


async def only_run(store: Store) -> str:
    return (await store.runs()).items[0].id


async def test_of_two_workers_none_begins_a_call_of_a_stopped_agent() -> None:
    send, sent = sending()
    names = [f"Agent {number}" for number in range(6)]
    agents = [scripted(GO, "done", tools=[send], name=name) for name in names]
    async with MemoryStore() as store:
        await store.announce({name: f'{{"fact":"began","agent":"{name}","max_turns":10,"run":""}}' for name in names})
        for name in names:
            await store.start(name, "go", by="eve")
        stop = await store.stop(names[0], **WHY)
        first, second = Worker(store, agents, concurrency=2), Worker(store, agents, concurrency=2)
        await soon(asyncio.gather(first.run_until_idle(), second.run_until_idle()))
        assert len(sent) == 5
        await store.lift(stop.id, by="ann")
        await soon(first.run_until_idle())
        assert len(sent) == 6


async def test_a_stop_of_a_nested_agent_holds_in_the_runs_of_others_which_are_looked_at_again() -> None:
    send, sent = sending()
    inner = scripted(GO, "sent", tools=[send], name="Inner")
    outer = scripted(
        call("ask_inner", {"input": "go"}),
        "done",
        tools=[inner.as_tool(tool_name="ask_inner", tool_description="Asks.")],
        name="Outer",
    )
    clock = FakeClock()
    async with MemoryStore(clock=clock) as store:
        await store.announce({"Outer": '{"fact":"began","agent":"Outer","max_turns":10,"run":""}'})
        run = (await store.start("Outer", "go", by="eve")).id
        stop = await store.stop("Inner", **WHY)
        worker = Worker(store, outer, poll=5.0, run_config=UNRENEWED)
        assert await soon(worker.run_until_idle()) == 1
        assert not sent
        found = await record(store, run)
        assert (found.status, found.failures) == ("working", 0)
        assert found.wake == int((clock() + 5) * 1000)
        await store.lift(stop.id, by="ann")
        clock.advance(6)
        await soon(worker.run_until_idle())
        assert sent == [("ann", 1)]


class StopsBeforeInnermost(StopsBeforeStarted):
    """A store in which somebody stops an agent right before the first call begins two agents deep."""

    async def append(self, change: Change) -> None:
        if any(type(fact) is f.Started and len(fact.path) == 2 for fact in change.facts):
            await super().append(change)
        else:
            await MemoryStore.append(self, change)


@pytest.mark.parametrize("who", ["Outer", "Middle", "Second", "Inner"])
async def test_a_stop_holds_for_the_calls_of_agents_that_run_as_tools_of_the_stopped_one(who: str) -> None:
    send, sent = sending()
    inner = scripted(GO, "sent", tools=[send], name="Inner")
    ask_inner = inner.as_tool(tool_name="ask_inner", tool_description="Asks.")
    second = scripted(call("ask_inner", {"input": "go"}), "asked", tools=[ask_inner], name="Second")
    middle = scripted(call("transfer_to_second", {}), handoffs=[second], name="Middle")
    ask_middle = middle.as_tool(tool_name="ask_middle", tool_description="Asks.")
    outer = scripted(call("ask_middle", {"input": "go"}), "done", tools=[ask_middle], name="Outer")
    async with StopsBeforeInnermost() as store:
        store.stopping = who
        with pytest.raises(AgentStopped, match=f"'{who}'") as caught:
            await soon(Runner.run(outer, "go", store=store))
        assert not sent
        await store.lift(store.made.id, by="ann")
        await soon(Runner.run(outer, caught.value.state, store=store))
        assert sent == [("ann", 1)]


async def test_a_run_that_is_looked_at_again_while_a_stop_holds_does_nothing_for_the_call_before_it_may_begin() -> None:
    looked: list[str] = []

    @tool_input_guardrail
    async def look(data: Any) -> ToolGuardrailFunctionOutput:
        looked.append("guardrail")
        return ToolGuardrailFunctionOutput(output_info=None)

    class Told(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            looked.append(tool.name)

    send, sent = sending(tool_input_guardrails=[look])
    inner = scripted(GO, "sent", tools=[send], name="Inner")
    asks = inner.as_tool(tool_name="ask_inner", tool_description="Asks.")
    outer = scripted(call("ask_inner", {"input": "go"}), "done", tools=[asks], name="Outer")
    clock = FakeClock()
    async with MemoryStore(clock=clock) as store:
        await store.announce({"Outer": '{"fact":"began","agent":"Outer","max_turns":10,"run":""}'})
        run = (await store.start("Outer", "go", by="eve")).id
        stop = await store.stop("Inner", **WHY)
        worker = Worker(store, outer, poll=5.0, run_config=UNRENEWED, hooks=Told())
        await soon(worker.run_until_idle())
        seq, seen = (await record(store, run)).seq, looked.copy()
        for _ in range(3):
            clock.advance(6)
            assert await soon(worker.run_until_idle()) == 1
        assert ((await record(store, run)).seq, looked, sent) == (seq, seen, [])
        await store.lift(stop.id, by="ann")
        clock.advance(6)
        await soon(worker.run_until_idle())
        assert sent == [("ann", 1)] and (await record(store, run)).status == "done"


async def test_a_claim_that_was_made_before_the_stop_gives_nobody_the_right_to_begin() -> None:
    agent, sent = shop()
    async with MemoryStore() as store:
        run = await begun(store, agent)
        await approve_all(store)
        leases: list[Lease] = await store.claim("w1", agents=None, hold=60, limit=1)
        stop = await store.stop(None, **WHY)
        for lease in leases:
            await store.release(lease)
        assert await soon(Worker(store, agent).run_until_idle()) == 0
        question = (await store.questions(settled=True)).items[0]
        assert question.verdict == "approve"
        await store.lift(stop.id, by="ann")
        await soon(Worker(store, agent).run_until_idle())
        assert sent == [("ann", 1)]
        assert (await record(store, run)).status == "done"


async def test_a_question_can_be_decided_while_its_agent_is_stopped() -> None:
    agent, sent = shop()
    async with MemoryStore() as store:
        await begun(store, agent)
        stop = await store.stop("Shop", **WHY)
        [question] = (await store.questions()).items
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        assert not sent
        await store.lift(stop.id, by="ann")
        await soon(Worker(store, agent).run_until_idle())
        assert sent == [("ann", 1)]
