"""A live session whose connection fails, and one whose run is in a store: nothing that waits is lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import AgentRegistry, Approve, Reject, Runner, RunState, function_tool, handoff
from assentry.engines import Worker
from assentry.errors import AgentStopped, AlreadyDecided, Conflict, ModelFailed, RunUnfinished, UsageError
from assentry.realtime import (
    RealtimeAgent,
    RealtimeModelInputAudioCommittedEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeRunner,
)
from assentry.store import MemoryStore, PostgresStore, SQLiteStore, Store
from assentry.testing import ScriptedModel
from tests.inbox.support import client
from tests.realtime.fake_model import FakeModel, called, said, settle, until

ran: list[Any] = []
ONCE = {"reconnect": {"attempts": 1, "delay": 0}}
NEVER = {"reconnect": {"attempts": 0}}


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    ran.append(amount)
    return f"refunded {amount}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def desk(*text: str) -> RealtimeAgent:
    return RealtimeAgent("Desk", instructions="Help.", tools=[refund], model=ScriptedModel(list(text)))


async def waiting(model: FakeModel, session: Any) -> Any:
    await session.send_message("My money back!")
    await until(lambda: model.items)
    model.reply(called("refund", '{"amount": 9}'))
    [question] = await until(lambda: session.pending_approvals)
    await settle()
    return question


def test_after_a_reconnect_the_model_has_the_conversation_and_the_call_still_waits() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(desk(), model=model, config=ONCE).run() as session:
            await waiting(model, session)
            model.reply(said("I have asked.", "item_2"))
            model.sent.clear()
            model.drop("wifi")
            await until(lambda: model.connects == 2 and len(model.sent) == 2)
            update, history = model.sent
            assert update.instructions == "Help."
            kinds = [item.get("type", item.get("role")) for item in history.items]
            assert kinds == ["user", "function_call", "message", "system"]
            assert "waits for a person" in history.items[-1]["content"] and not history.start_response
            await session.approve_tool_call("call_1")
            [output] = await until(lambda: model.outputs)
            assert output["call_id"] == "call_1" and ran == [9]
            assert len(session.history) == 0
            await session.close()
            events = [event async for event in session]
        assert [str(event.error) for event in events if event.type == "error"] == [
            "The connection to the realtime model was lost: wifi."
        ]
        assert sum(event.type == "tool_approval_required" for event in events) == 1

    asyncio.run(main())


def test_what_was_decided_and_said_while_there_was_no_connection_is_told_with_the_next() -> None:
    async def main() -> None:
        model = FakeModel()
        model_up = asyncio.Event()
        connect = model.connect

        async def slowly(options: Any) -> None:
            if model.connects:
                await model_up.wait()
            await connect(options)

        model.connect = slowly  # type: ignore[method-assign]
        async with await RealtimeRunner(desk(), model=model, config=ONCE).run() as session:
            await waiting(model, session)
            model.sent.clear()
            model.drop()
            await session.approve_tool_call("call_1")
            await session.send_message("Are you there?")
            audio = asyncio.create_task(session.send_audio(b"\0\0"))
            await until(lambda: ran == [9])
            await settle()
            assert not model.sent and not audio.done()
            model_up.set()
            await audio
            await until(lambda: len(model.sent) >= 3)
            history = model.sent[[type(event).__name__ for event in model.sent].index("RealtimeModelSendItems")]
            kinds = [item.get("type", item.get("role")) for item in history.items]
            assert kinds == ["user", "function_call", "user", "function_call_output"] and history.start_response
            await settle()
            assert len(model.outputs) == 1

    asyncio.run(main())


def test_attempts_run_out_and_the_error_has_the_run() -> None:
    async def main() -> None:
        model = FakeModel()
        agent = desk("All done.")
        session = await RealtimeRunner(agent, model=model, config={"reconnect": {"attempts": 2, "delay": 0}}).run()
        async with session:
            await waiting(model, session)
            with pytest.raises(RunUnfinished):
                session.to_state()
            model.failures = [ModelFailed("busy"), ModelFailed("busy still")]
            model.drop()
            with pytest.raises(ModelFailed, match="busy still") as caught:
                async for _ in session:
                    pass
        assert model.connects == 3
        state = await RunState.from_string(agent, caught.value.state.to_string())
        state.approve(state.get_interruptions()[0], by="ann")
        assert (await Runner.run(agent, state)).final_output == "All done." and ran == [9]

    asyncio.run(main())


def test_a_refusal_that_is_final_is_not_tried_again() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await RealtimeRunner(desk(), model=model, config={"reconnect": {"delay": 0}}).run()
        async with session:
            await settle()
            model.failures = [ModelFailed("no such key", retryable=False)]
            model.drop()
            with pytest.raises(ModelFailed, match="no such key"):
                async for _ in session:
                    pass
        assert model.connects == 2

    asyncio.run(main())


def test_a_session_that_cannot_begin_says_why_and_keeps_the_run() -> None:
    async def main() -> None:
        model = FakeModel()
        model.failures = [ModelFailed("refused")]
        with pytest.raises(ModelFailed, match="refused") as caught:
            async with await RealtimeRunner(desk(), model=model).run():
                pass
        assert model.closes == 1 and not model.listeners and caught.value.state is not None

    asyncio.run(main())


def test_a_saved_run_goes_on_in_another_live_session() -> None:
    async def main() -> None:
        first, second = FakeModel(), FakeModel()
        agent = desk()
        session = await RealtimeRunner(agent, model=first, config=NEVER).run()
        async with session:
            await waiting(first, session)
        state = await RunState.from_string(agent, session.to_state().to_string())
        state.approve(state.get_interruptions()[0], by="ann")
        async with await RealtimeRunner(agent, model=second).run(state=state) as session:
            await until(lambda: second.outputs)
            assert ran == [9]
            kinds = [item.get("type", item.get("role")) for item in second.items]
            assert kinds == ["user", "function_call", "function_call_output"]
            second.reply(said("There you are."))
        with pytest.raises(Conflict):
            await RealtimeRunner(agent, model=FakeModel()).run(state=state)

    asyncio.run(main())


def test_a_text_run_goes_on_live() -> None:
    async def main() -> None:
        agent = desk("Good day.")
        result = await Runner.run(agent, "Hello.")
        model = FakeModel()
        async with await RealtimeRunner(agent, model=model).run(state=result.to_state()) as session:
            await until(lambda: model.items)
            assert [item.get("role") for item in model.items] == ["user", "assistant"]
            await session.send_message("And now?")
            await until(lambda: len(model.items) == 3)
            model.reply(said("Live."))

    asyncio.run(main())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a function that opens the store, each time as another process would."""
    if request.param == "sqlite":
        return lambda: SQLiteStore(tmp_path / "runs.db")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").database()
        return lambda: PostgresStore(url, upgrade=True)
    one = MemoryStore()
    return lambda: one


def test_a_decision_made_elsewhere_reaches_the_session_at_once(stores: Any) -> None:
    async def main() -> None:
        model, here, there = FakeModel(), stores(), stores()
        async with await RealtimeRunner(desk(), model=model, store=here).run() as session:
            shown = await waiting(model, session)
            [question] = (await until_stored(there)).items
            assert (question.id, question.tool, question.run) == (shown.id, "refund", session.run_id)
            await there.decide(question.id, Approve(), by="ann", digest=question.digest)
            [output] = await until(lambda: model.outputs)
            assert output["output"] == "refunded 9.0"
            with pytest.raises(AlreadyDecided, match="ann"):
                await session.reject_tool_call("call_1")
            await session.close()
            [decided] = [event async for event in session if event.type == "tool_approval_decided"]
        assert (decided.decision, decided.by, decided.call_id) == ("approve", "ann", "call_1")
        for store in {id(here): here, id(there): there}.values():
            await store.close()

    asyncio.run(main())


async def until_stored(store: Store) -> Any:
    async with asyncio.timeout(60):
        while not (page := await store.questions()).items:  # noqa: ASYNC110 - another store writes it
            await asyncio.sleep(0.001)
    return page


def test_of_two_who_decide_one_wins_and_the_session_tells_the_other(stores: Any) -> None:
    async def main() -> None:
        model, here, there = FakeModel(), stores(), stores()
        async with await RealtimeRunner(desk(), model=model, store=here).run() as session:
            await waiting(model, session)
            [question] = (await until_stored(there)).items
            decisions = await asyncio.gather(
                there.decide(question.id, Reject("No."), by="bob", digest=question.digest),
                session.approve_tool_call("call_1", by="ann"),
                return_exceptions=True,
            )
            assert sum(isinstance(each, AlreadyDecided) for each in decisions) == 1
            await until(lambda: model.outputs)
        assert len(ran) == isinstance(decisions[0], AlreadyDecided)
        for store in {id(here): here, id(there): there}.values():
            await store.close()

    asyncio.run(main())


def test_a_decision_after_the_connection_is_gone_is_carried_out_by_a_worker(stores: Any) -> None:
    async def main() -> None:
        model, here, there = FakeModel(), stores(), stores()
        agent = desk("It is on its way.")
        session = await RealtimeRunner(agent, model=model, store=here, config=NEVER).run()
        async with session:
            await waiting(model, session)
            model.drop()
            with pytest.raises(ModelFailed):
                async for _ in session:
                    pass
        [question] = (await there.questions()).items
        await there.decide(question.id, Approve(), by="ann", digest=question.digest)
        registry = AgentRegistry()
        registry.add(agent, version="1")
        await Worker(there, registry).run_until_idle()
        record = (await there.runs()).items[0]
        assert (record.id, record.status, ran) == (session.run_id, "done", [9])
        await there.verify(session.run_id)
        for store in {id(here): here, id(there): there}.values():
            await store.close()

    asyncio.run(main())


def test_a_run_that_others_cancel_ends_the_session(stores: Any) -> None:
    async def main() -> None:
        model, here = FakeModel(), stores()
        async with await RealtimeRunner(desk(), model=model, store=here).run() as session:
            await waiting(model, session)
            await here.cancel(session.run_id, by="ops")
            async for _ in session:
                pass
            assert not ran
        await here.close()

    asyncio.run(main())


def test_a_stop_of_the_agent_ends_the_session_before_the_call_begins_and_a_worker_goes_on(stores: Any) -> None:
    async def main() -> None:
        model, here, there = FakeModel(), stores(), stores()
        agent = desk("It is on its way.")
        session = await RealtimeRunner(agent, model=model, store=here).run()
        async with session:
            await waiting(model, session)
            stop = await there.stop("Desk", by="otto", why="It refunds too much.")
            [question] = (await until_stored(there)).items
            await there.decide(question.id, Approve(), by="ann", digest=question.digest)
            with pytest.raises(AgentStopped, match="otto has stopped the agent 'Desk'"):
                async for _ in session:
                    pass
        assert not ran
        assert await there.verify(session.run_id) == []
        assert await Worker(there, agent).run_until_idle() == 0
        await there.lift(stop.id, by="otto")
        await Worker(there, agent).run_until_idle()
        assert (ran, (await there.record(session.run_id)).status) == ([9], "done")
        for store in {id(here): here, id(there): there}.values():
            await store.close()

    asyncio.run(main())


def test_a_live_run_is_driven_by_nobody_else_meanwhile(stores: Any) -> None:
    async def main() -> None:
        model, here, there = FakeModel(), stores(), stores()
        agent = desk("Stolen.")
        async with await RealtimeRunner(agent, model=model, store=here).run() as session:
            await waiting(model, session)
            await until_stored(there)
            with pytest.raises(Conflict):
                await Runner.run(agent, await there.load(session.run_id), store=there)
            await session.approve_tool_call("call_1")
            await until(lambda: model.outputs)
        assert ran == [9]
        for store in {id(here): here, id(there): there}.values():
            await store.close()

    asyncio.run(main())


def test_a_session_is_entered_once() -> None:
    async def main() -> None:
        session = await RealtimeRunner(desk(), model=FakeModel()).run()
        async with session:
            with pytest.raises(UsageError, match="entered"):
                await session.__aenter__()
        await session.close()

    asyncio.run(main())


def test_a_spoken_message_keeps_its_id_and_a_late_outcome_comes_last_after_a_reconnect() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(desk(), model=model, config=ONCE).run() as session:
            model.push(RealtimeModelInputAudioCommittedEvent("item_u"))
            model.push(RealtimeModelInputAudioTranscriptionCompletedEvent("item_u", "My money!"))
            model.reply(called("refund", '{"amount": 9}'))
            await until(lambda: session.pending_approvals)
            model.reply(said("I have asked.", "item_2"))
            await settle()
            model.up = False  # the outcome cannot be sent any more
            await session.approve_tool_call("call_1")
            await until(lambda: ran == [9])
            await settle()
            model.sent.clear()
            model.drop()
            await until(lambda: model.connects == 2 and len(model.sent) == 2)
            history = model.sent[1]
            assert [item.get("id") or item["type"] for item in history.items] == [
                "item_u",
                "item_call_1",
                "item_2",
                "function_call_output",
            ]
            assert history.start_response

    asyncio.run(main())


async def test_a_decision_made_in_the_inbox_reaches_the_session(tmp_path: Path) -> None:
    model = FakeModel()
    async with (
        SQLiteStore(tmp_path / "runs.db") as here,
        SQLiteStore(tmp_path / "runs.db") as there,
        client(there) as inbox,
        await RealtimeRunner(desk(), model=model, store=here).run() as session,
    ):
        await waiting(model, session)
        [question] = (await until_stored(there)).items
        sent = {"If-Match": f'"{question.digest}"'}
        path = f"/api/questions/{question.id}/decision"
        answer = await inbox.post(path, json={"type": "edit", "arguments": {"amount": 4}}, headers=sent)
        assert answer.status_code == 200
        [output] = await until(lambda: model.outputs)
    assert ran == [4] and "A person changed this call" in output["output"]


def test_who_is_told_of_a_question_finds_it_in_the_store(stores: Any) -> None:
    async def main() -> None:
        model, here, there = FakeModel(), stores(), stores()
        async with await RealtimeRunner(desk(), model=model, store=here).run() as session:
            await session.send_message("My money back!")
            await until(lambda: model.items)
            model.reply(called("refund", '{"amount": 9}'))
            async for event in session:
                if event.type == "tool_approval_required":
                    break
            assert (await there.question(event.item.id)).digest == event.item.digest
        for store in {id(here): here, id(there): there}.values():
            await store.close()

    asyncio.run(main())


def test_an_agent_that_takes_over_while_the_model_is_connected_again_speaks_then() -> None:
    async def main() -> None:
        model, begun, may_end = FakeModel(), asyncio.Event(), asyncio.Event()
        send_event = model.send_event

        async def take_over(ctx: Any) -> None:
            begun.set()
            await may_end.wait()

        async def send_during_handoff(event: Any) -> None:
            await send_event(event)
            if model.connects == 2 and not may_end.is_set():  # the model was told that it is still the first agent
                may_end.set()
                await until(lambda: session.agent.name == "Billing")

        billing = RealtimeAgent("Billing", instructions="Bill.", tools=[refund])
        agent = RealtimeAgent("Desk", instructions="Help.", handoffs=[handoff(billing, on_handoff=take_over)])
        async with await RealtimeRunner(agent, model=model, config=ONCE).run() as session:
            model.reply(called("transfer_to_billing"))
            await begun.wait()
            model.send_event = send_during_handoff  # type: ignore[method-assign]
            model.drop()
            await until(lambda: model.connects == 2 and may_end.is_set())
            await settle(100)
            assert [update.instructions for update in model.updates] == ["Help.", "Help.", "Bill."]
            model.reply(called("refund", '{"amount": 9}', "call_2"))
            [question] = await until(lambda: session.pending_approvals)
            assert question.name == "refund"

    asyncio.run(main())
