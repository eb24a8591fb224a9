"""What is recorded of a live conversation and what its model is told: speech, interruptions, handoffs, guardrails."""

import asyncio
import math
from typing import Any

import pytest

from assentry import GuardrailFunctionOutput, RunConfig, Runner, function_tool, handoff, output_guardrail
from assentry.errors import InvalidDefinition, InvalidInput, RunFinished, UsageError
from assentry.realtime import (
    RealtimeAgent,
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelErrorEvent,
    RealtimeModelInputAudioCommittedEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
    RealtimeRunner,
    RealtimeSession,
)
from assentry.testing import ScriptedModel
from tests.realtime.fake_model import FakeModel, called, said, settle, until

ran: list[Any] = []


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    ran.append(amount)
    return f"refunded {amount}"


def words(session: RealtimeSession) -> list[Any]:
    """The conversation that the journal has, as (role, text) or the type of an item."""
    items = session.to_state()._journal.run
    from assentry.runtime.view import View

    out = []
    for item in View(items, None, {}).input_list():
        content = item.get("content")
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])
        out.append((item.get("role"), text) if content is not None else item["type"])
    return out


def start(model: FakeModel, agent: RealtimeAgent | None = None, **config: Any) -> Any:
    agent = agent or RealtimeAgent("Desk", tools=[refund])
    return RealtimeRunner(agent, model=model, config=config or None).run()


def committed(id: str) -> RealtimeModelInputAudioCommittedEvent:
    return RealtimeModelInputAudioCommittedEvent(id)


def transcript(id: str, text: str | None) -> RealtimeModelInputAudioTranscriptionCompletedEvent:
    return RealtimeModelInputAudioTranscriptionCompletedEvent(id, text)


def test_speech_is_recorded_before_the_reply_to_it_however_late_its_words_come() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model, transcript_wait=math.pi * 1000)
        async with session:
            model.push(committed("u1"))
            model.reply(said("Good day."))
            model.push(transcript("u1", "Hello there"), transcript("u1", "Hello there"))
            await settle()
        assert words(session)[:2] == [("user", "Hello there"), ("assistant", "Good day.")]

    asyncio.run(main())


def test_words_that_do_not_come_are_not_waited_for() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model, transcript_wait=0)
        async with session:
            model.push(committed("u1"))
            model.reply(called("refund", '{"amount": 1}'))
            await until(lambda: session.pending_approvals)
            model.push(transcript("u1", "my money"))
            model.push(committed("u2"), transcript("u2", None))
            model.reply(said("Yes."))
            await settle()
        heard = words(session)
        assert heard[0] == ("user", "[The user said something, and there is no transcript of it.]")
        assert ("user", "[Said before, and transcribed late:] my money") in heard
        assert heard[-1] == ("assistant", "Yes.")

    asyncio.run(main())


def test_what_was_not_heard_of_a_reply_is_said_with_the_next_words() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model)
        async with session:
            model.reply(said("A long story."))
            model.push(RealtimeModelAudioInterruptedEvent("item_m", 0, 1200))
            await session.send_message("Stop.")
            await until(lambda: model.items)
            assert [item["content"] for item in model.items] == ["Stop."]
        heard = words(session)
        assert heard[1][0] == "developer" and "after 1.2 seconds" in heard[1][1] and heard[2] == ("user", "Stop.")

    asyncio.run(main())


def test_audio_goes_through_and_is_never_kept() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model)
        async with session:
            await session.send_audio(b"\1\2" * 50)
            await session.send_audio(b"", commit=True)
            assert model.sent[-2:] == [RealtimeModelSendAudio(b"\1\2" * 50), RealtimeModelSendAudio(b"", True)]
            model.push(RealtimeModelAudioEvent(b"AUDIO" * 100, "r", "i", 0))
            await session.interrupt()
            assert isinstance(model.sent[-1], RealtimeModelSendInterrupt)
            with pytest.raises(InvalidInput, match="commit"):
                await session.send_audio(b"\0\0", commit="no")
            with pytest.raises(InvalidInput, match="bytes"):
                await session.send_audio("text")
            for bad in ("", 7, {"role": "system", "content": "x"}, None):
                with pytest.raises(InvalidInput):
                    await session.send_message(bad)
            await session.close()
            audio = [event async for event in session if event.type == "audio"]
        assert audio[0].audio.data == b"AUDIO" * 100
        assert "AUDIO" not in session.to_state().to_string()

    asyncio.run(main())


def test_a_handoff_changes_who_speaks_while_an_earlier_call_goes_on_waiting() -> None:
    async def main() -> None:
        ran.clear()
        model = FakeModel()
        billing = RealtimeAgent("Billing", instructions="Bill.", voice="cedar")
        desk = RealtimeAgent("Desk", instructions="Help.", tools=[refund], handoffs=[billing])
        session = await start(model, desk)
        async with session:
            await until(lambda: model.updates)
            assert model.updates[0].instructions == "Help."
            assert [tool.name for tool in model.updates[0].tools] == ["refund", "transfer_to_billing"]
            model.reply(called("refund", '{"amount": 5}', "a"))
            await until(lambda: session.pending_approvals)
            model.reply(called("transfer_to_billing", "{}", "b"))
            await until(lambda: model.outputs)
            assert session.agent is billing
            assert (model.updates[1].instructions, model.updates[1].settings["voice"]) == ("Bill.", "cedar")
            assert model.sent.index(model.updates[1]) < len(model.sent) - 1
            await session.approve_tool_call("a")
            await until(lambda: len(model.outputs) == 2)
            await session.close()
            [event] = [event async for event in session if event.type == "handoff"]
        assert (event.from_agent, event.to_agent, ran) == (desk, billing, [5])

    asyncio.run(main())


@output_guardrail
async def no_numbers(ctx: Any, agent: Any, output: str) -> GuardrailFunctionOutput:
    if "boom" in output:
        raise RuntimeError("the check is broken")
    return GuardrailFunctionOutput("numbers", any(c.isdigit() for c in output))


def guarded() -> RealtimeAgent:
    return RealtimeAgent("Desk", output_guardrails=[no_numbers])


@pytest.mark.parametrize("spoken", ["The number is 7.", "This goes boom."])
def test_a_guardrail_stops_the_reply_and_the_conversation_goes_on(spoken: str) -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model, guarded(), guardrails_settings={"debounce_text_length": 5})
        async with session:
            model.push(RealtimeModelTurnStartedEvent("r1"))
            for word in spoken.split():
                model.push(RealtimeModelOutputTextDeltaEvent("i", f"{word} ", "r1"))
            await until(lambda: any(isinstance(event, RealtimeModelSendInterrupt) for event in model.sent))
            await until(lambda: model.items)
            assert "Do not repeat it" in model.items[-1]["content"] or "do not repeat it" in model.items[-1]["content"]
            model.push(RealtimeModelTurnEndedEvent("r1", [said(spoken)], status="cancelled"))
            model.reply(said("Sorry."))
            await session.close()
            tripped = [event async for event in session if event.type == "guardrail_tripped"]
        assert len(tripped) == 1 and spoken.startswith(tripped[0].message.strip()[:5])
        assert words(session)[-1] == ("assistant", "Sorry.")
        state = session.to_state()
        state.add_input("Go on.")
        agent = guarded().clone(model=ScriptedModel(["As text."]))
        assert (await Runner.run(agent, state)).final_output == "As text."

    asyncio.run(main())


def test_a_short_reply_is_looked_at_when_it_is_complete() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await start(model, guarded())
        async with session:
            model.push(RealtimeModelTurnStartedEvent("r1"), RealtimeModelOutputTextDeltaEvent("i", "7", "r1"))
            model.push(RealtimeModelTurnEndedEvent("r1", [said("7")]))
            await until(lambda: any(isinstance(event, RealtimeModelSendInterrupt) for event in model.sent))

    asyncio.run(main())


def test_errors_of_the_provider_and_bad_replies_are_told_and_run_nothing() -> None:
    async def main() -> None:
        ran.clear()
        model = FakeModel()
        session = await start(model)
        async with session:
            model.push(RealtimeModelErrorEvent("refused"))
            model.reply({"type": "function_call", "name": 7, "arguments": "{}", "call_id": "x"})
            model.reply(status="failed")
            model.reply(said("Still here."))
            await session.close()
            errors = [str(event.error) async for event in session if event.type == "error"]
        assert errors[0] == "refused" and "not text" in errors[1] and "failed" in errors[2]
        assert words(session) == [("assistant", "Still here.")] and not ran

    asyncio.run(main())


def test_a_tool_that_raises_to_its_user_ends_the_session_with_the_error_and_its_state() -> None:
    @function_tool(failure_error_function=None)
    async def bad() -> str:
        """Fail."""
        raise ValueError("broken")

    async def main() -> None:
        model = FakeModel()
        session = await start(model, RealtimeAgent("Desk", tools=[bad]))
        async with session:
            model.reply(called("bad"))
            with pytest.raises(ValueError, match="broken") as caught:
                async for _ in session:
                    pass
            with pytest.raises(UsageError, match="closed"):
                await session.send_message("Hello?")
        assert caught.value.state is session.to_state()

    asyncio.run(main())


def test_a_tool_that_fails_is_told_to_the_model() -> None:
    @function_tool
    async def bad() -> str:
        """Fail."""
        raise ValueError("broken")

    async def main() -> None:
        model = FakeModel()
        async with await start(model, RealtimeAgent("Desk", tools=[bad])) as session:
            model.reply(called("bad"))
            [output] = await until(lambda: model.outputs)
            assert "broken" in output["output"] and session.pending_approvals == []

    asyncio.run(main())


def test_a_body_that_does_not_end_when_the_session_closes_is_in_doubt() -> None:
    async def main() -> None:
        begun = asyncio.Event()

        @function_tool
        async def endless() -> str:
            """Never end."""
            begun.set()
            await asyncio.Event().wait()
            return ""

        model = FakeModel()
        agent = RealtimeAgent("Desk", tools=[endless], model=ScriptedModel(["Over."]))
        session = await RealtimeRunner(agent, model=model, run_config=RunConfig(cancel_grace=0)).run()
        async with session:
            model.reply(called("endless"))
            await begun.wait()
        result = await Runner.run(agent, session.to_state())
        assert [item.kind for item in result.interruptions] == ["doubt"]

    asyncio.run(main())


def test_a_conversation_that_is_over_has_nothing_left_to_do_as_text() -> None:
    async def main() -> None:
        model = FakeModel()
        agent = RealtimeAgent("Desk", model=ScriptedModel(["Unused."]))
        session = await start(model, agent)
        async with session:
            await session.send_message("Hello.")
            await until(lambda: model.items)
            model.reply(said("Good day."))
        with pytest.raises(RunFinished):
            await Runner.run(agent, session.to_state())

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"output_type": int}, "output_type"),
        ({"output_needs_approval": True}, "output_needs_approval"),
        ({"tool_use_behavior": "stop_on_first_tool"}, "tool_use_behavior"),
        ({"handoffs": [__import__("assentry").Agent("Text")]}, "RealtimeAgent"),
        ({"handoffs": [handoff(RealtimeAgent("Other"), input_filter=lambda data: data)]}, "input_filter"),
    ],
)
def test_an_agent_that_cannot_be_live_is_refused(options: Any, told: str) -> None:
    with pytest.raises(InvalidDefinition, match=told):
        RealtimeAgent("Desk", **options)


@pytest.mark.parametrize(
    "config",
    [
        {"nonsense": 1},
        {"reconnect": {"attempts": -1}},
        {"reconnect": {"delay": math.inf}},
        {"transcript_wait": "long"},
        {"guardrails_settings": {"debounce_text_length": 0}},
        {"reconnect": 5},
        {"reconnect": {"attemps": 1}},
        {"guardrails_settings": ["x"]},
        {"tool_execution": "x"},
        {"model_settings": 5},
        {"model_settings": {"volume": 5}},
        7,
    ],
)
def test_bad_settings_are_refused(config: Any) -> None:
    with pytest.raises(UsageError):
        RealtimeRunner(RealtimeAgent("Desk"), model=FakeModel(), config=config)


def test_a_filter_of_handoffs_is_refused() -> None:
    with pytest.raises(UsageError, match="handoff_input_filter"):
        RealtimeRunner(RealtimeAgent("Desk"), run_config=RunConfig(handoff_input_filter=lambda data: data))


@pytest.mark.parametrize("kept", [{"conversation_id": "conv_1"}, {"auto_previous_response_id": True}])
def test_a_run_whose_conversation_the_provider_keeps_does_not_go_on_live(kept: Any) -> None:
    async def main() -> None:
        agent = RealtimeAgent("Desk", model=ScriptedModel(["Good day.", "Yes?"]))
        state = (await Runner.run(agent, "Hello.", **kept)).to_state()
        with pytest.raises(UsageError, match="provider keeps"):
            await RealtimeRunner(agent, model=FakeModel()).run(state=state)
        state.add_input("Still there?")
        assert (await Runner.run(agent, state)).final_output == "Yes?"

    asyncio.run(main())
