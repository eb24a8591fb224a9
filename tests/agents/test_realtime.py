"""The skin of live sessions: the SDK's items and events, on Assentry's sessions."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, assert_never

import pytest
from openai.types.realtime.realtime_audio_formats import AudioPCMU

from assentry.agents import function_tool, realtime
from assentry.agents.realtime import (
    AssistantMessageItem,
    OpenAIRealtimeSIPModel,
    OpenAIRealtimeWebSocketModel,
    RealtimeAgent,
    RealtimeInputAudioTranscriptionConfig,
    RealtimeModel,
    RealtimeModelListener,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
    RealtimeModelToolCallEvent,
    RealtimeModelUsageEvent,
    RealtimeRunner,
    RealtimeSession,
    RealtimeSessionEvent,
    UserMessageItem,
    realtime_handoff,
)
from assentry.agents.realtime.audio_formats import to_realtime_audio_format
from assentry.agents.realtime.events import same_json
from assentry.agents.realtime.model_events import RealtimeModelRawServerEvent as RawServerEvent
from assentry.errors import QuestionNotFound, UsageError
from assentry.realtime import RealtimeToolApprovalDecided
from assentry.realtime import event as own_event
from assentry.testing import RealtimeServer, call
from tests.realtime.fake_model import until

MODULES = {
    "agent": ("RealtimeAgent", "RealtimeAgentHooks", "RealtimeRunHooks"),
    "audio_formats": ("to_realtime_audio_format",),
    "config": ("RealtimeRunConfig", "RealtimeUserInputMessage", "RealtimeAudioConfig", "RealtimeUserInputImage"),
    "events": ("RealtimeSessionEvent", "RealtimeInputAudioTimeoutTriggered"),
    "handoffs": ("realtime_handoff",),
    "items": ("AssistantAudio", "InputImage", "RealtimeItem", "RealtimeMessageItem", "RealtimeResponse"),
    "model": ("RealtimeModel", "RealtimeModelConfig", "RealtimeModelListener", "RealtimePlaybackTracker"),
    "model_events": ("RealtimeModelRawServerEvent", "RealtimeModelUsageEvent", "RealtimeModelEndOfStreamEvent"),
    "model_inputs": ("RealtimeModelSendRawMessage", "RealtimeModelInputImageContent"),
    "openai_realtime": ("DEFAULT_MODEL_SETTINGS", "OpenAIRealtimeSIPModel", "TransportConfig", "get_api_key"),
    "runner": ("RealtimeRunner",),
    "session": ("RealtimeSession",),
}
SEAT = {"seat": "1A", "booking": "X7"}
ran: list[str] = []


@function_tool(needs_approval=True)
def change_seat(booking: str, seat: str) -> str:
    """Change a seat."""
    ran.append(seat)
    return f"{booking} has {seat}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def desk(**options: Any) -> RealtimeAgent[Any]:
    return RealtimeAgent(name="Desk", instructions="Help.", tools=[change_seat], **options)


def shown(event: RealtimeSessionEvent) -> dict[str, Any]:  # noqa: C901 - a row for each kind of event
    """Return an event as a program of the SDK would send it to a browser."""
    out: dict[str, Any] = {"type": event.type}
    if event.type == "agent_start" or event.type == "agent_end":
        out["agent"] = event.agent.name
    elif event.type == "handoff":
        out |= {"from": event.from_agent.name, "to": event.to_agent.name}
    elif event.type == "tool_start":
        out |= {"tool": event.tool.name, "arguments": event.arguments}
    elif event.type == "tool_end":
        out |= {"tool": event.tool.name, "arguments": event.arguments, "output": event.output}
    elif event.type == "tool_approval_required":
        out |= {"tool": event.tool.name, "call_id": event.call_id, "arguments": event.arguments}
    elif event.type == "history_updated":
        out["history"] = [item.model_dump() for item in event.history]
    elif event.type == "history_added":
        out["item"] = event.item.model_dump()
    elif event.type == "guardrail_tripped":
        out["guardrails"] = [result.guardrail.name for result in event.guardrail_results]
    elif event.type == "raw_model_event":
        out["data"] = event.data.type
    elif event.type == "error":
        out["error"] = str(event.error)
    elif event.type == "audio" or event.type == "audio_end" or event.type == "audio_interrupted":
        out["item_id"] = event.item_id
    elif event.type == "input_audio_timeout_triggered":
        pass
    else:
        assert_never(event)
    return out


class Program:
    """A program that shows a session's events and decides."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session = session
        self.events: list[Any] = []
        self.seen: list[dict[str, Any]] = []
        self._news = asyncio.Condition()

    async def read(self) -> None:
        async for event in self.session:
            async with self._news:
                self.events.append(event)
                if type(event).__module__ != own_event.__name__:
                    self.seen.append(shown(event))
                self._news.notify_all()

    def updates(self) -> list[Any]:
        """Return the server's messages that a session has new settings."""
        raw = [event.data.data for event in self.events if getattr(event, "data", None).__class__ is RawServerEvent]
        return [data for data in raw if data["type"] == "session.updated"]

    async def until(self, kind: str, count: int = 1) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [each for each in self.seen if each["type"] == kind]

        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(found()) >= count)
        return found()[count - 1]


def live(
    steps: list[Any],
    drive: Callable[[Program], Awaitable[None]],
    agent: RealtimeAgent[Any] | None = None,
    **options: Any,
) -> tuple[Program, RealtimeServer]:
    """Run a program against a local server, and return both."""
    settings = options.pop("settings", {})

    async def main() -> tuple[Program, RealtimeServer]:
        async with RealtimeServer(steps) as server:
            runner = RealtimeRunner(agent or desk(), **options)
            config: Any = {"url": server.url, "api_key": "key", "initial_model_settings": settings}
            session = await runner.run(model_config=config)
            program = Program(await session.enter())
            reading = asyncio.create_task(program.read())
            await drive(program)
            await session.close()
            await reading
        return program, server

    return asyncio.run(main())


def sent(server: RealtimeServer, kind: str) -> list[dict[str, Any]]:
    return [event for event in server.received[0] if event["type"] == kind]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_modules_of_the_sdk_are_here(module: str) -> None:
    home = importlib.import_module(f"assentry.agents.realtime.{module}")
    assert set(MODULES[module]) <= set(home.__all__)
    assert all(hasattr(home, name) for name in home.__all__)


def test_every_name_of_the_package_is_in_one_of_its_modules() -> None:
    homes = [importlib.import_module(f"assentry.agents.realtime.{module}") for module in MODULES]
    assert len(realtime.__all__) == 90
    for name in realtime.__all__:
        assert any(getattr(home, name, None) is getattr(realtime, name) for home in homes), name


def test_an_approved_call_runs_and_its_events_are_those_of_the_sdk() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Seat 1A, please.")
        asked = await program.until("tool_approval_required")
        assert not ran
        await program.session.approve_tool_call(asked["call_id"])
        await program.until("tool_end")
        await program.until("agent_end", 3)

    program, _ = live([call("change_seat", SEAT), "It waits.", "Done."], drive)
    assert ran == ["1A"]
    assert {"type": "history_updated", "history": []} in program.seen
    told = [each for each in program.seen if each["type"].startswith("tool_")]
    assert told == [
        {"type": "tool_approval_required", "tool": "change_seat", "call_id": "call_1", "arguments": json.dumps(SEAT)},
        {"type": "tool_start", "tool": "change_seat", "arguments": json.dumps(SEAT)},
        {"type": "tool_end", "tool": "change_seat", "arguments": json.dumps(SEAT), "output": "X7 has 1A"},
    ]
    raw = {each["data"] for each in program.seen if each["type"] == "raw_model_event"}
    assert {"raw_server_event", "function_call", "usage", "turn_started", "turn_ended", "item_updated"} <= raw
    usage = next(
        event.data for event in program.events if isinstance(getattr(event, "data", 0), RealtimeModelUsageEvent)
    )
    assert usage.usage.input_tokens_details.cached_tokens == 0
    assert program.events[-1].info.context.usage.total_tokens >= usage.usage.total_tokens
    assert usage.usage.input_tokens > 0 and usage.input_tokens_details is not None
    assert usage.input_tokens_details.text_tokens == usage.usage.input_tokens


def test_a_rejected_call_does_not_run_and_the_history_is_pydantic() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Seat 1A, please.")
        asked = await program.until("tool_approval_required")
        await program.session.reject_tool_call(asked["call_id"])
        await program.until("agent_end", 3)
        with pytest.raises(QuestionNotFound):
            await program.session.approve_tool_call("nobody")

    program, _ = live([call("change_seat", SEAT), "It waits.", "Sorry."], drive)
    assert not ran
    assert (event := next(each for each in program.seen if each["type"] == "tool_end"))[
        "output"
    ] == "Tool execution was not approved.", event
    assert not any(each["type"] == "tool_start" for each in program.seen)
    user, called, *_, said = program.session.history
    assert isinstance(user, UserMessageItem) and isinstance(said, AssistantMessageItem)
    assert user.content[0].model_dump() == {"type": "input_text", "text": "Seat 1A, please."}
    assert json.loads(called.model_dump_json())["call_id"] == "call_1"
    assert said.content[0].model_dump() == {"type": "audio", "audio": None, "transcript": "Sorry."}
    assert program.session.history[0] is user


def test_events_that_only_assentry_has_come_if_they_are_asked_for() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Seat 1A, please.")
        asked = await program.until("tool_approval_required")
        await program.session.edit_tool_call(asked["call_id"], {**SEAT, "seat": "2B"})
        await program.until("tool_end")

    program, _ = live([call("change_seat", SEAT), "It waits.", "Done."], drive, config={"assentry_events": True})
    (decided,) = [event for event in program.events if isinstance(event, RealtimeToolApprovalDecided)]
    assert decided.decision == "edit" and ran == ["2B"]
    ended = next(each for each in program.seen if each["type"] == "tool_end")
    assert json.loads(ended["arguments"]) == {**SEAT, "seat": "2B"}


def test_a_handoff_is_one_event_and_no_tool_of_its_own() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Seat 1A, please.")
        await program.until("handoff")
        await program.until("agent_end", 2)

    agent = RealtimeAgent(name="Triage", handoffs=[realtime_handoff(desk(), tool_name_override="to_desk")])
    program, _ = live([call("to_desk", {}), "Hello."], drive, agent)
    told = [each for each in program.seen if each["type"] in ("handoff", "tool_start", "tool_end", "error")]
    assert told == [{"type": "handoff", "from": "Triage", "to": "Desk"}]


def test_a_call_of_no_tool_is_an_error_event() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Hello.")
        await program.until("error")

    program, _ = live([call("no_such_tool", {}), "Sorry."], drive)
    assert not any(each["type"] == "tool_end" for each in program.seen)


def test_the_model_takes_the_events_of_the_sdk() -> None:
    async def drive(program: Program) -> None:
        model = program.session.model
        assert isinstance(model, RealtimeModel)
        await model.send_event(RealtimeModelSendRawMessage(message={"type": "response.create", "other_data": {"x": 1}}))
        await program.until("agent_end")
        await model.send_event(RealtimeModelSendUserInput(user_input="Hello."))
        await program.until("agent_end", 2)
        await model.send_event(RealtimeModelSendInterrupt())
        await model.send_event(RealtimeModelSendSessionUpdate(session_settings={"turn_detection": None}))
        await until(lambda: len(program.updates()) == 3)
        assert not await model.send_event_if(RealtimeModelSendUserInput("Never."), lambda: False)
        told = RealtimeModelToolCallEvent("change_seat", "call_1", "{}")
        with pytest.raises(UsageError, match="respond_tool_call"):
            await model.send_event(RealtimeModelSendToolOutput(told, "done", True))

    program, server = live(["Welcome.", "Hello."], drive)
    (create, *_) = sent(server, "response.create")
    assert create["x"] == 1 and "other_data" not in create
    said = [fact for fact in program.session.to_state().to_json()["journal"] if fact["fact"] == "said"]
    assert [fact["items"] for fact in said] == ["Hello."]
    last = sent(server, "session.update")[-1]["session"]
    assert last == {"type": "realtime", "audio": {"input": {"turn_detection": None}}}


def test_the_settings_of_a_session_are_the_defaults_of_the_sdk() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Hello.")
        await program.until("agent_end")

    _, server = live(["Hello."], drive)
    first, *others = (event["session"] for event in sent(server, "session.update"))
    assert first["audio"]["output"]["voice"] == "ash" and "tracing" not in first
    assert first["audio"]["input"]["turn_detection"] == {"type": "semantic_vad", "interrupt_response": True}
    assert others == [{"type": "realtime", "tracing": "auto"}]
    assert OpenAIRealtimeWebSocketModel().model == "gpt-realtime-2.1"


def test_settings_may_be_objects_of_the_client_and_tracing_may_be_off() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Hello.")
        await program.until("agent_end")

    agent = desk(prompt={"id": "pmpt_1"})
    given = {"output_audio_format": AudioPCMU(type="audio/pcmu"), "audio": {"output": {"voice": "cedar"}}}
    _, server = live(["Hello."], drive, agent, config={"tracing_disabled": True}, settings=given)
    (only,) = (event["session"] for event in sent(server, "session.update"))
    assert only["audio"]["output"] == {"format": {"type": "audio/pcmu"}, "voice": "cedar"}
    assert only["prompt"] == {"id": "pmpt_1"}
    made = to_realtime_audio_format("g711_alaw")
    assert made is not None and made.type == "audio/pcma"


def test_hints_for_the_transcription_are_sent() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Hello.")
        await program.until("agent_end")

    hints: RealtimeInputAudioTranscriptionConfig = {"keywords": ["lamp"], "languages": ["en", "nl"], "delay": "low"}
    _, server = live(["Hello."], drive, settings={"audio": {"input": {"transcription": hints}}})
    first = sent(server, "session.update")[0]["session"]
    assert first["audio"]["input"]["transcription"].items() >= hints.items()


def test_a_listener_of_ones_own_gets_the_models_events_in_order() -> None:
    class Listener(RealtimeModelListener):
        def __init__(self) -> None:
            self.heard: list[str] = []

        async def on_event(self, event: Any) -> None:
            await asyncio.sleep(0)
            self.heard.append(event.type)
            if event.type == "usage":
                raise ValueError("a listener's own error")

    listener = Listener()

    async def drive(program: Program) -> None:
        program.session.model.add_listener(listener)
        await program.session.send_message("Hello.")
        await program.until("agent_end")
        for _ in range(50):
            await asyncio.sleep(0)
        program.session.model.remove_listener(listener)

    live(["Hello."], drive)
    kinds = [kind for kind in listener.heard if kind in ("turn_started", "usage", "turn_ended")]
    assert kinds == ["turn_started", "usage", "turn_ended"]


def test_a_phone_call_is_joined_by_its_id_and_keeps_its_audio_formats() -> None:
    async def drive(program: Program) -> None:
        await program.session.send_message("Hello.")
        await program.until("agent_end")

    async def main() -> None:
        async with RealtimeServer(["Hello."]) as server:
            runner = RealtimeRunner(desk(), model=OpenAIRealtimeSIPModel())
            config: Any = {"url": server.url, "api_key": "key", "call_id": "rtc_1"}
            async with await runner.run(model_config=config):
                pass
            first = sent(server, "session.update")[0]["session"]
            assert "format" not in first["audio"]["input"] and "format" not in first["audio"]["output"]
            with pytest.raises(UsageError, match="call_id"):
                await (await runner.run(model_config={"url": server.url, "api_key": "key"})).enter()
        payload = await OpenAIRealtimeSIPModel.build_initial_session_payload(
            desk(), overrides={"model_name": "gpt-realtime"}
        )
        assert payload.model == "gpt-realtime" and payload.instructions == "Help."
        assert [tool.name for tool in payload.tools or []] == ["change_seat"]

    asyncio.run(main())


def test_what_is_not_here_says_so() -> None:
    async def main() -> None:
        session = await RealtimeRunner(desk()).run()
        with pytest.raises(UsageError, match="handoff"):
            await session.update_agent(desk())
        for settings in ({"tools": []}, {"handoffs": []}):
            with pytest.raises(UsageError, match="belong to the RealtimeAgent"):
                await RealtimeRunner(desk()).run(model_config={"initial_model_settings": settings})  # type: ignore[typeddict-item]

    asyncio.run(main())
    with pytest.raises(UsageError, match="async_tool_calls must be True"):
        RealtimeRunner(desk(), config={"async_tool_calls": False})
    with pytest.raises(UsageError, match="RealtimeRunner"):
        RealtimeSession(model=None, agent=desk(), context=None)


def test_a_model_that_was_written_for_the_sdk_is_refused() -> None:
    class Own(RealtimeModel):
        async def connect(self, options: Any) -> None: ...
        def add_listener(self, listener: Any) -> None: ...
        def remove_listener(self, listener: Any) -> None: ...
        async def send_event(self, event: Any) -> None: ...
        async def close(self) -> None: ...

    with pytest.raises(UsageError, match=r"subclass assentry\.realtime\.RealtimeModel"):
        RealtimeRunner(desk(), model=Own())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ('{"a": 1}', '{"a":true}', False),
        ("[" * 5_000, "[" * 5_001, False),
        ("no JSON", "{}", False),
    ],
)
def test_arguments_are_shown_in_the_models_own_text_only_if_they_are_the_same(one: str, other: str, same: bool) -> None:
    assert same_json(one, other) is same
