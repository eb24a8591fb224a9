"""Whole live sessions over a real WebSocket on loopback: talk, calls, drops, stalls, garbage, repeats, many at once."""

import asyncio
from typing import Any

import pytest

from assentry import Runner, function_tool
from assentry.errors import ModelFailed
from assentry.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from assentry.store import SQLiteStore
from assentry.testing import RealtimeServer, ScriptedModel, call
from assentry.testing.realtime_voice import tone
from tests.realtime.fake_model import until
from tests.realtime.support import check_wire

LOUD, SILENCE = tone("audio/pcm", 300, 200), bytes(48 * 600)
NO_VAD: Any = {"audio": {"input": {"turn_detection": None}}}
ran: list[float] = []


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    ran.append(amount)
    return f"refunded {amount}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


class Live:
    """A session whose events are collected while a test goes on."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session, self.events = session, []  # type: ignore[var-annotated]
        self.error: BaseException | None = None

    async def __aenter__(self) -> "Live":
        await self.session.__aenter__()
        self.reading = asyncio.create_task(self.read())
        return self

    async def read(self) -> None:
        try:
            async for event in self.session:
                self.events.append(event)
        except Exception as error:
            self.error = error

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()
        await self.reading

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    async def until(self, kind: str, number: int = 1) -> Any:
        return (await until(lambda: len(self.of(kind)) >= number and self.of(kind)))[number - 1]


async def live(server: RealtimeServer, agent: RealtimeAgent | None = None, settings: Any = None, **more: Any) -> Live:
    agent = agent or RealtimeAgent("Desk", instructions="Help.", tools=[refund])
    options: Any = {"url": server.url, "api_key": "sk-test", "initial_model_settings": settings or {}}
    return Live(await RealtimeRunner(agent, **more).run(model_config=options))


async def test_from_a_typed_message_to_an_approved_tools_result() -> None:
    steps = [call("refund", {"amount": 9}, "c1"), "I have asked for it.", "It is done."]
    async with RealtimeServer(steps) as server:
        async with await live(server) as talk:
            await talk.session.send_message("My money back!")
            question = await talk.until("tool_approval_required")
            assert (question.tool.name, question.arguments, question.call_id) == ("refund", '{"amount":9}', "c1")
            await talk.until("agent_end", 2)
            await talk.session.approve_tool_call("c1", by="ann")
            end = await talk.until("tool_end")
            assert (end.output, ran) == ("refunded 9.0", [9])
            await talk.until("agent_end", 3)
            assert talk.of("audio") and not talk.of("error")
            roles = [getattr(item, "role", item.type) for item in talk.session.history]
        assert roles == ["user", "function_call", "system", "assistant", "assistant"]
        check_wire(server)


async def test_speech_in_and_speech_out() -> None:
    async with RealtimeServer(["Good day."], transcripts=["Hello there"]) as server:
        async with await live(server) as talk:
            await talk.session.send_audio(LOUD)
            await talk.session.send_audio(SILENCE)
            await talk.until("audio_end")
            await talk.until("agent_end")
            spoken = b"".join(event.audio.data for event in talk.of("audio"))
        assert len(spoken) == 2 * 200 * 48
        said = [fact for fact in talk.session.to_state().to_json()["journal"] if fact["fact"] == "said"]
        assert [fact["items"] for fact in said] == ["Hello there"]
        check_wire(server)


async def test_a_turn_that_is_ended_by_hand() -> None:
    async with RealtimeServer(["Good day."], transcripts=["Hello"]) as server:
        async with await live(server, settings=NO_VAD) as talk:
            await talk.session.send_audio(LOUD, commit=True)
            await talk.until("agent_end")
        check_wire(server)


async def test_barge_in_cuts_off_what_was_not_heard() -> None:
    hold = asyncio.Event()
    async with RealtimeServer([["A very long story indeed.", hold], "Yes?"], transcripts=["Stop"]) as server:
        async with await live(server) as talk:
            await talk.session.send_message("Tell me a story.")
            await talk.until("audio")
            await talk.session.send_audio(LOUD)
            await talk.until("audio_interrupted")
            await talk.session.send_audio(SILENCE)
            await talk.until("agent_end", 2)
        sent = [event["type"] for event in server.received[0]]
        assert "conversation.item.truncate" in sent
        check_wire(server)


async def test_a_server_that_drops_is_connected_again_and_the_call_still_waits() -> None:
    steps = [call("refund", {"amount": 9}, "c1"), "I have asked.", "Done."]
    async with RealtimeServer(steps) as server:
        async with await live(server, config={"reconnect": {"delay": 0}}) as talk:
            await talk.session.send_message("My money back!")
            await talk.until("agent_end", 2)
            server.drop()
            await until(lambda: len(server.received) == 2 and len(server.received[1]) >= 4)
            await talk.session.approve_tool_call("c1")
            await talk.until("agent_end", 3)
            assert ran == [9] and len(talk.of("tool_approval_required")) == 1
            ids = [item.item_id for item in talk.session.history]
        assert len(ids) == len(set(ids))
        kinds = [event["item"]["type"] for event in server.received[1] if event["type"] == "conversation.item.create"]
        assert kinds == ["message", "function_call", "message", "message", "function_call_output"]
        check_wire(server)


async def test_a_server_that_stays_away_leaves_a_run_to_continue() -> None:
    agent = RealtimeAgent("Desk", tools=[refund], model=ScriptedModel(["As text."]))
    async with RealtimeServer([call("refund", {"amount": 9}, "c1"), "Wait."]) as server:
        async with await live(server, agent, config={"reconnect": {"attempts": 1, "delay": 0}}) as talk:
            await talk.session.send_message("My money back!")
            await talk.until("agent_end", 2)
            server.refuse = (503, "busy")
            server.drop()
            await talk.reading
        assert isinstance(talk.error, ModelFailed)
        state = talk.session.to_state()
        state.approve(state.get_interruptions()[0])
        assert (await Runner.run(agent, state)).final_output == "As text." and ran == [9]


async def test_garbage_and_repeats_run_nothing_twice() -> None:
    async with RealtimeServer([call("refund", {"amount": 9}, "c1"), "Wait.", "Done."]) as server:
        async with await live(server) as talk:
            await talk.session.send_message("My money back!")
            await talk.until("tool_approval_required")
            await talk.until("agent_end", 2)
            for junk in ("{", "[]", '{"type": 7}', '{"type": "response.done"}', b"\0\1\2", '{"type": "no.such.event"}'):
                await server.send_garbage(junk)
            await server.repeat_last(20)
            await talk.session.approve_tool_call("c1")
            await talk.until("agent_end", 3)
            await server.repeat_last(20)
        assert ran == [9] and len(talk.of("tool_approval_required")) == 1 and talk.of("error")
        facts = [fact["fact"] for fact in talk.session.to_state().to_json()["journal"]]
        assert facts.count("replied") == 3 and facts.count("started") == 1


async def test_a_server_that_stalls_does_not_hold_up_the_end() -> None:
    async with RealtimeServer(["Never."]) as server:
        talk = await live(server)
        async with talk:
            server.stall()
            await talk.session.send_message("Hello?")
        assert talk.error is None


async def test_fifty_sessions_at_once_each_with_a_call_that_waits(tmp_path: Any) -> None:
    def brain(items: Any, tools: Any) -> Any:
        done = [item for item in items if item["type"] == "function_call_output"]
        if done:
            return "Done."
        asked = any(item["type"] == "function_call" for item in items)
        return "Wait." if asked else call("refund", {"amount": len(items)}, "c1")

    async def one(server: RealtimeServer, store: SQLiteStore) -> None:
        async with await live(server, settings={"output_modalities": ["text"]}, store=store) as talk:
            await talk.session.send_message("My money back!")
            await talk.until("tool_approval_required")
            await talk.session.approve_tool_call("c1", by="ann")
            await talk.until("tool_end")
            await talk.until("agent_end", 3)
            assert not talk.of("error")

    async with RealtimeServer(responder=brain) as server, SQLiteStore(tmp_path / "runs.db") as store:
        await asyncio.gather(*(one(server, store) for _ in range(50)))
        page = await store.runs(limit=100)
        assert len(ran) == 50 and len(page.items) == 50 and all(each.status == "idle" for each in page.items)
