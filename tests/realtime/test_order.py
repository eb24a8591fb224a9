"""The order of a live conversation: speech, typed messages, replies and outcomes, whichever comes late or twice."""

import asyncio
from typing import Any

import pytest

from assentry import Runner, function_tool
from assentry.errors import InvalidInput
from assentry.realtime import (
    RealtimeAgent,
    RealtimeModelInputAudioCommittedEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimeRunner,
    RealtimeSession,
)
from assentry.testing import ScriptedModel
from tests.realtime.fake_model import FakeModel, called, said, settle, until

ONCE = {"reconnect": {"attempts": 1, "delay": 0}}
LONG = {"transcript_wait": 10_000}


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    return f"refunded {amount}"


@function_tool
async def look(order: int) -> str:
    """Look an order up."""
    return f"order {order} is late"


def desk(*text: str) -> RealtimeAgent:
    return RealtimeAgent("Desk", tools=[refund, look], model=ScriptedModel(list(text)))


def start(model: FakeModel, agent: RealtimeAgent | None = None, **config: Any) -> Any:
    return RealtimeRunner(agent or desk(), model=model, config=config or None).run()


def committed(id: str) -> RealtimeModelInputAudioCommittedEvent:
    return RealtimeModelInputAudioCommittedEvent(id)


def transcript(id: str, words: str | None) -> RealtimeModelInputAudioTranscriptionCompletedEvent:
    return RealtimeModelInputAudioTranscriptionCompletedEvent(id, words)


def talk(session: RealtimeSession) -> tuple[list[str], list[str]]:
    """The texts of the conversation that were answered, or are answers, and those that wait for an answer."""
    run = session.to_state()._journal.run
    unheard = [bytes(each.items).decode().strip('"') for each in run.unheard]
    every = []
    for entry in run.entries:
        raw = bytes(getattr(entry, "items", b"") if not hasattr(entry, "reply") else entry.reply.items).decode()
        every.append(raw.split('"text":"')[-1].split('"')[0] if '"text":"' in raw else raw.strip('"'))
    return every, unheard


def test_a_transcript_that_comes_during_the_reply_stands_before_the_reply() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model)
        async with session:
            model.push(committed("u1"), RealtimeModelTurnStartedEvent("r1"), transcript("u1", "Hello there"))
            model.push(RealtimeModelTurnEndedEvent("r1", [said("Good day.")]))
        assert talk(session) == (["Hello there", "Good day."], [])

    asyncio.run(main())


def test_speech_that_interrupts_a_reply_stands_after_it_and_waits_for_an_answer() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model, **LONG)
        async with session:
            model.push(RealtimeModelTurnStartedEvent("r1"), committed("u1"))
            model.push(RealtimeModelTurnEndedEvent("r1", [said("Once upon")], status="cancelled"))
            model.push(transcript("u1", "Stop."))
        assert talk(session) == (["Once upon"], ["Stop."])

    asyncio.run(main())


def test_a_message_typed_while_words_are_awaited_is_sent_and_stays_unanswered_until_it_is() -> None:
    async def main() -> None:
        model, agent = FakeModel(), desk("It comes tomorrow.")
        session = await start(model, agent, **LONG)
        async with session:
            model.push(committed("u1"))
            model.reply(said("Good day."))
            await session.send_message("And my order?")
            model.push(transcript("u1", "Hello there"))
            await until(lambda: model.items)
            assert [item["content"] for item in model.items] == ["And my order?"]
        assert talk(session) == (["Hello there", "Good day."], ["And my order?"])
        assert (await Runner.run(agent, session.to_state())).final_output == "It comes tomorrow."

    asyncio.run(main())


def test_a_message_typed_between_two_spoken_ones_is_sent_too() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model, **LONG)
        async with session:
            model.push(committed("u1"))
            await session.send_message("By the way.")
            model.push(committed("u2"), transcript("u2", "Two"))
            model.reply(said("Good day."))
            model.push(transcript("u1", "One"))
            await until(lambda: model.items)
            assert [item["content"] for item in model.items] == ["By the way."]
        assert talk(session)[0] == ["One", "By the way.", "Two", "Good day."]

    asyncio.run(main())


def test_a_typed_message_waits_only_so_long_for_words() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await start(model, transcript_wait=0) as session:
            model.push(committed("u1"))
            await session.send_message("Hello?")
            await until(lambda: model.items)

    asyncio.run(main())


def test_speech_and_words_that_are_repeated_are_recorded_once() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model)
        async with session:
            for _ in range(3):
                model.push(committed("u1"), transcript("u1", "Hello there"))
            model.push(committed("u2"), transcript("u2", None), committed("u2"), transcript("u2", None))
            for _ in range(2):
                model.push(transcript("u2", "late"))
        heard = talk(session)[1]
        assert heard[0] == "Hello there" and len(heard) == 3 and heard[2].endswith("late")

    asyncio.run(main())


def test_words_that_utf_8_cannot_hold_do_not_stop_the_conversation() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model)
        async with session:
            model.push(committed("u1"), transcript("u1", "Hi \ud800"))
            model.reply(said("Good day."))
        assert talk(session) == (["Hi \ufffd", "Good day."], [])

    asyncio.run(main())


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": 5},
        {"content": []},
        {"content": ""},
        {"content": ["text"]},
        {"content": [{"type": "input_text"}]},
        {"content": [{"type": "input_file", "file_id": "f"}]},
        {"content": [{"type": "input_image", "image_url": 5}]},
        {"content": [{"type": ["input_text"], "text": "x"}]},
    ],
)
def test_a_message_that_no_model_can_be_told_is_refused_and_not_recorded(message: Any) -> None:
    async def main() -> None:
        session = await start(FakeModel())
        async with session:
            with pytest.raises(InvalidInput):
                await session.send_message(message)
        assert talk(session) == ([], [])

    asyncio.run(main())


def test_a_message_sent_while_there_is_no_connection_is_answered_though_a_call_waits() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await start(model, **ONCE) as session:
            model.reply(called("refund", '{"amount": 9}'))
            await until(lambda: session.pending_approvals)
            model.reply(said("I have asked."))
            await settle()
            model.sent.clear()
            model.drop()
            await session.send_message("Are you there?")
            await until(lambda: model.items)
            assert model.sent[1].start_response is True
            assert [item for item in model.items if item.get("content") == "Are you there?"]

    asyncio.run(main())


def test_a_model_that_takes_over_a_conversation_is_told_of_a_waiting_call_once() -> None:
    async def main() -> None:
        model, agent = FakeModel(), desk()
        session = await start(model, agent)
        async with session:
            model.reply(called("refund", '{"amount": 9}'))
            await until(lambda: session.pending_approvals)
        model = FakeModel()
        async with await RealtimeRunner(agent, model=model).run(state=session.to_state()) as session:
            await settle()
            notes = [item for item in model.items if item.get("role") == "system"]
            assert len(notes) == 1 and model.sent[-1].start_response is True
            await session.close()
            assert [event.type async for event in session] == ["tool_approval_required"]

    asyncio.run(main())


def test_what_ends_while_there_is_no_connection_is_told_to_the_user() -> None:
    async def main() -> None:
        model, up = FakeModel(), asyncio.Event()
        up.set()
        connect = model.connect

        async def slowly(options: Any) -> None:
            await up.wait()
            await connect(options)

        model.connect = slowly  # type: ignore[method-assign]
        billing = RealtimeAgent("Billing")
        agent = RealtimeAgent("Desk", tools=[look], handoffs=[billing])
        async with await start(model, agent, **ONCE) as session:
            model.drop()
            up.clear()
            model.reply(called("look", '{"order": 1}', "a"), called("transfer_to_billing", "{}", "b"))
            await until(lambda: session.agent is billing)
            up.set()
            await until(lambda: len(model.updates) == 2)
            await settle()
            await session.close()
            types = [event.type async for event in session]
        assert types.count("tool_end") == 2 and types.count("handoff") == 1

    asyncio.run(main())


def test_a_call_that_an_agent_made_before_it_handed_over_is_refused() -> None:
    async def main() -> None:
        model, ready = FakeModel(), asyncio.Event()

        async def instructions(ctx: Any, agent: Any) -> str:
            await ready.wait()
            return "Bill."

        billing = RealtimeAgent("Billing", instructions=instructions)
        agent = RealtimeAgent("Desk", tools=[look], handoffs=[billing])
        async with await start(model, agent) as session:
            model.reply(called("transfer_to_billing", "{}", "a"))
            await until(lambda: session.agent is billing)
            model.reply(called("look", '{"order": 1}', "b"))
            ready.set()
            await until(lambda: len(model.outputs) == 2)
            assert "There is no tool named 'look'" in model.outputs[1]["output"]

    asyncio.run(main())
