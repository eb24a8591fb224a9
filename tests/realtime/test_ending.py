"""The end of a live session: nothing waits for ever, nothing is left behind, and the run is complete."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import RunConfig, Runner, ToolGuardrailFunctionOutput, function_tool, tool_input_guardrail
from assentry.errors import ToolInputGuardrailTripwireTriggered, UsageError
from assentry.realtime import (
    RealtimeAgent,
    RealtimeModelInputAudioCommittedEvent,
    RealtimeModelSendSessionUpdate,
    RealtimeRunner,
)
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import ScriptedModel
from tests.realtime.fake_model import FakeModel, called, said, settle, until

LONG = {"transcript_wait": 10_000}
ran: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@function_tool
async def look(order: int) -> str:
    """Look an order up."""
    ran.append(order)
    return f"order {order} is late"


@function_tool(failure_error_function=None)
async def bad() -> str:
    """Fail."""
    raise ValueError("broken")


def desk(*text: str) -> RealtimeAgent:
    return RealtimeAgent("Desk", tools=[look, bad], model=ScriptedModel(list(text)))


async def nobody_is_left() -> None:
    await settle(5)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_nothing_is_sent_and_nobody_waits_before_the_session_is_entered() -> None:
    async def main() -> None:
        session = await RealtimeRunner(desk(), model=FakeModel()).run()
        for sent in (session.send_audio(b"\0\0"), session.interrupt(), session.send_message("Hello.")):
            with pytest.raises(UsageError, match="Enter the session"):
                await sent

    asyncio.run(main())


def test_a_run_that_is_closed_while_words_are_awaited_ends_the_session() -> None:
    @tool_input_guardrail
    async def trip(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.raise_exception()

    @function_tool(tool_input_guardrails=[trip])
    async def wipe() -> str:
        """Wipe."""
        return ""

    async def main() -> None:
        model = FakeModel()
        agent = RealtimeAgent("Desk", tools=[wipe])
        session = await RealtimeRunner(agent, model=model, config=LONG).run()
        async with session:
            model.reply(called("wipe"))
            model.push(RealtimeModelInputAudioCommittedEvent("u1"))
            with pytest.raises(ToolInputGuardrailTripwireTriggered) as caught:
                async for _ in session:
                    pass
        assert caught.value.state is session.to_state()
        await nobody_is_left()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["none", "memory", "sqlite"])
def test_words_that_are_recorded_after_a_tool_has_stopped_the_run_are_part_of_it(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        model = FakeModel()
        store = {"none": None, "memory": MemoryStore(), "sqlite": SQLiteStore(tmp_path / "runs.db")}[kind]
        session = await RealtimeRunner(desk(), model=model, config=LONG, store=store).run()
        async with session:
            model.reply(called("bad"))
            model.push(RealtimeModelInputAudioCommittedEvent("u1"))
            model.reply(said("Good day."))
            with pytest.raises(ValueError, match="broken") as caught:
                async for _ in session:
                    pass
        state = caught.value.state
        assert state is session.to_state()
        assert [fact["fact"] for fact in state.to_json()["journal"]][-2:] == ["said", "replied"]
        if store is not None:
            stored = await store.read(session.run_id)
            assert [type(fact).__name__ for fact in stored.facts][-2:] == ["Said", "Replied"]
            assert stored.record.worker is None
            await store.verify(session.run_id)
            await store.close()

    asyncio.run(main())


def test_a_session_that_cannot_begin_leaves_its_run_whatever_the_error() -> None:
    def instructions(ctx: Any, agent: Any) -> str:
        raise ValueError("no instructions today")

    async def main() -> None:
        model = FakeModel()
        session = await RealtimeRunner(RealtimeAgent("Desk", instructions=instructions), model=model).run()
        with pytest.raises(ValueError, match="today") as caught:
            await session.__aenter__()
        assert caught.value.state is session.to_state()
        with pytest.raises(UsageError, match="entered"):
            await session.__aenter__()
        with pytest.raises(UsageError, match="closed"):
            await session.send_audio(b"\0\0")
        assert not model.listeners
        await nobody_is_left()

    asyncio.run(main())


def test_an_error_of_user_code_at_a_handoff_carries_the_run() -> None:
    def instructions(ctx: Any, agent: Any) -> str:
        raise ValueError("no instructions today")

    async def main() -> None:
        model = FakeModel()
        agent = RealtimeAgent("Desk", handoffs=[RealtimeAgent("Billing", instructions=instructions)])
        session = await RealtimeRunner(agent, model=model).run()
        async with session:
            model.reply(called("transfer_to_billing"))
            with pytest.raises(ValueError, match="today") as caught:
                async for _ in session:
                    pass
        assert caught.value.state is session.to_state()
        await nobody_is_left()

    asyncio.run(main())


def test_a_model_serves_one_session_at_a_time_and_the_first_keeps_it() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(desk(), model=model).run():
            with pytest.raises(UsageError, match="another session"):
                await (await RealtimeRunner(desk(), model=model).run()).__aenter__()
            model.reply(called("look", '{"order": 1}'))
            await until(lambda: model.outputs)
            assert model.up and ran == [1]
        async with await RealtimeRunner(desk(), model=model).run():
            assert model.up

    asyncio.run(main())


def test_a_connection_that_is_lost_each_time_ends_the_session() -> None:
    async def main() -> None:
        model = FakeModel()
        send = model.send_event

        async def sent(event: Any) -> None:
            await send(event)
            if isinstance(event, RealtimeModelSendSessionUpdate) and model.connects > 1:
                asyncio.get_running_loop().call_soon(model.drop, "too large")

        model.send_event = sent  # type: ignore[method-assign]
        session = await RealtimeRunner(desk(), model=model, config={"reconnect": {"attempts": 3, "delay": 0}}).run()
        async with session:
            model.drop()
            async with asyncio.timeout(60):
                with pytest.raises(Exception, match="too large"):
                    async for _ in session:
                        pass
        assert model.connects == 4

    asyncio.run(main())


def test_attempts_are_counted_anew_after_a_reply() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(desk(), model=model, config={"reconnect": {"attempts": 1, "delay": 0}}).run():
            for connects in (2, 3, 4):
                model.drop()
                await until(lambda connects=connects: model.connects == connects and len(model.updates) == connects)
                await settle()
                model.reply(said("Here I am."))

    asyncio.run(main())


def test_a_second_task_that_iterates_is_told_so() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(desk(), model=model).run() as session:
            first = asyncio.create_task(anext(session))
            await settle(2)
            with pytest.raises(UsageError, match="iterates"):
                await anext(session)
            model.reply(said("Hello."))
            assert (await first).type == "raw_model_event"

    asyncio.run(main())


def test_a_tool_may_close_its_session_and_its_outcome_counts() -> None:
    async def main() -> None:
        model = FakeModel()
        sessions: list[Any] = []

        @function_tool
        async def hang_up() -> str:
            """End the call."""
            await sessions[0].close()
            return "goodbye"

        agent = RealtimeAgent("Desk", tools=[hang_up], model=ScriptedModel(["Over."]))
        session = await RealtimeRunner(agent, model=model, run_config=RunConfig(cancel_grace=600)).run()
        sessions.append(session)
        async with session:
            model.reply(called("hang_up"))
            async with asyncio.timeout(60):
                types = [event.type async for event in session]
        assert "tool_end" in types
        assert (await Runner.run(agent, session.to_state())).final_output == "Over."
        await nobody_is_left()

    asyncio.run(main())
