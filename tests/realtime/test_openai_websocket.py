"""OpenAI's Realtime API over a real WebSocket on loopback: keys, refusals, losses, interruptions."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from assentry.errors import ModelFailed, UsageError
from assentry.models.model import ToolSpec
from assentry.realtime.model import (
    RealtimeModelEvent,
    RealtimeModelListener,
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendItems,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
)
from assentry.realtime.openai_websocket import OpenAIRealtimeWebSocketModel, _address
from assentry.testing import RealtimeServer, call
from assentry.testing.realtime_voice import tone
from tests.realtime.fake_model import until
from tests.realtime.support import Ears, check_wire

SECRET = "sk-a-very-secret-key"
HELLO = RealtimeModelSendItems([{"role": "user", "content": "hello"}], start_response=True)
SESSION = RealtimeModelSendSessionUpdate({}, "Be brief.", [ToolSpec("send", "Send a mail.", {"type": "object"})])
LOUD = tone("audio/pcm", 300, 200)
SILENCE = bytes(48 * 600)


@asynccontextmanager
async def connected(
    server: RealtimeServer, model: OpenAIRealtimeWebSocketModel | None = None
) -> AsyncIterator[tuple[OpenAIRealtimeWebSocketModel, Ears]]:
    """A model that is connected to a server, and its listener. What went over the wire is checked at the end."""
    model, ears = model or OpenAIRealtimeWebSocketModel(), Ears()
    model.add_listener(ears)
    await model.connect({"url": server.url})
    try:
        yield model, ears
    finally:
        await model.close()
    check_wire(server)


def statuses(ears: Ears) -> list[str]:
    return [event.status for event in ears.of("connection_status")]


async def test_a_reply_comes_over_the_wire() -> None:
    async with (
        RealtimeServer(["Good morning.", call("send", {"to": "ann"})]) as server,
        connected(server) as (model, ears),
    ):
        await model.send_event(SESSION)
        await model.send_event(HELLO)
        first = await ears.until("turn_ended")
        assert first.output[0]["content"][0]["text"] == "Good morning."
        assert "".join(event.delta for event in ears.of("transcript_delta")) == "Good morning."
        assert sum(len(event.data) for event in ears.of("audio")) == 2 * 200 * 48
        await model.send_event(HELLO)
        second = await ears.until("turn_ended", 2)
        assert [item["name"] for item in second.output] == ["send"]
        output = {"type": "function_call_output", "call_id": second.output[0]["call_id"], "output": "sent"}
        await model.send_event(RealtimeModelSendItems([output]))
        await ears.other("conversation.item.done")
        assert second.usage.input_tokens > 0 and ears.of("error") == []
        assert statuses(ears) == ["connecting", "connected"]


async def test_text_comes_as_text() -> None:
    async with RealtimeServer(["Good morning."]) as server, connected(server) as (model, ears):
        await model.send_event(RealtimeModelSendSessionUpdate({"output_modalities": ["text"]}))
        await model.send_event(HELLO)
        await ears.until("turn_ended")
        assert "".join(event.delta for event in ears.of("output_text_delta")) == "Good morning."
        assert ears.of("audio") == []


# -- keys ----------------------------------------------------------------------------------------


async def fetched() -> str:
    return SECRET


@pytest.mark.parametrize(
    "options",
    [
        {"api_key": SECRET},
        {"api_key": lambda: SECRET},
        {"api_key": fetched},
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
    ],
)
async def test_a_key_may_be_text_a_function_or_a_header(options: Any) -> None:
    async with RealtimeServer(api_key=SECRET) as server:
        model = OpenAIRealtimeWebSocketModel()
        await model.connect({"url": server.url, **options})
        await model.close()


async def test_a_wrong_key_is_refused_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with RealtimeServer(api_key="another") as server:
        with pytest.raises(ModelFailed, match="Incorrect API key") as caught:
            await OpenAIRealtimeWebSocketModel().connect({"url": server.url, "api_key": SECRET})
    assert not caught.value.retryable
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    client = [record for record in caplog.records if not record.name.startswith("websockets.server")]
    assert SECRET not in " ".join(record.getMessage() for record in client)


async def test_a_server_that_repeats_the_key_does_not_make_the_error_show_it() -> None:
    async with RealtimeServer() as server:
        server.refuse = (403, f"The key {SECRET} may not do this.")
        for options in ({"api_key": SECRET}, {"headers": {"Authorization": f"Bearer {SECRET}"}}):
            with pytest.raises(ModelFailed, match=r"The key \*\*\* may not") as caught:
                await OpenAIRealtimeWebSocketModel().connect({"url": server.url, **options})  # type: ignore[typeddict-item]
            assert SECRET not in "".join(traceback.format_exception(caught.value))


async def test_the_key_of_the_environment_is_not_sent_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    async with RealtimeServer(api_key=SECRET) as server:
        with pytest.raises(ModelFailed, match="401"):
            await OpenAIRealtimeWebSocketModel().connect({"url": server.url})


async def test_openai_is_not_asked_without_a_key() -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        await OpenAIRealtimeWebSocketModel().connect({})
    with pytest.raises(UsageError, match="no key"):
        await OpenAIRealtimeWebSocketModel().connect({"api_key": lambda: ""})


async def test_a_redirect_is_not_followed() -> None:
    async with RealtimeServer() as elsewhere:

        async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 302 Found\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(redirect, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ModelFailed, match="302") as caught:
                await OpenAIRealtimeWebSocketModel().connect({"url": f"ws://127.0.0.1:{port}", "api_key": SECRET})
        assert not caught.value.retryable and elsewhere.received == []


# -- connections that are not made ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(200, False), (400, False), (401, False), (403, False), (404, False), (429, True), (503, True)],
)
async def test_a_refusal_says_so_and_if_a_retry_may_help(status: int, retryable: bool) -> None:
    async with RealtimeServer() as server:
        server.refuse = (status, "Not like this.")
        model, ears = OpenAIRealtimeWebSocketModel(), Ears()
        model.add_listener(ears)
        with pytest.raises(ModelFailed, match="Not like this") as caught:
            await model.connect({"url": server.url})
        assert caught.value.retryable is retryable and str(status) in str(caught.value)
        server.refuse = None
        await model.connect({"url": server.url})
        await model.close()
        assert statuses(ears) == ["connecting", "connecting", "connected"]


async def test_a_server_that_is_not_there_may_be_tried_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # it stays taken, so nobody else can listen there
        with pytest.raises(ModelFailed, match="could not be reached") as caught:
            await OpenAIRealtimeWebSocketModel().connect({"url": f"ws://127.0.0.1:{port}"})
    assert caught.value.retryable


async def test_a_server_that_hangs_up_during_the_handshake_may_be_tried_again() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ModelFailed) as caught:
            await OpenAIRealtimeWebSocketModel().connect({"url": f"ws://127.0.0.1:{port}"})
    assert caught.value.retryable


async def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    async with RealtimeServer() as server:
        server.stall()
        with pytest.raises(ModelFailed, match="could not be reached") as caught:
            await OpenAIRealtimeWebSocketModel().connect({"url": server.url, "connect_timeout": 0.05})
        assert caught.value.retryable


async def test_a_model_that_is_closed_while_it_connects_is_not_connected() -> None:
    async with RealtimeServer() as server:
        server.stall()
        model = OpenAIRealtimeWebSocketModel()
        ears = Ears()
        model.add_listener(ears)
        connecting = asyncio.create_task(model.connect({"url": server.url}))
        await ears.until("connection_status")
        with pytest.raises(UsageError, match="connected already"):
            await model.connect({"url": server.url})
        await model.close()
        server.resume()
        with pytest.raises(ModelFailed, match="closed while"):
            await connecting
        assert statuses(ears) == ["connecting"]


async def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
    with pytest.raises(UsageError, match=r'pip install "\.\[realtime\]"'):
        await OpenAIRealtimeWebSocketModel().connect({"url": "ws://127.0.0.1:1"})


@pytest.mark.parametrize(
    "options",
    [
        5,
        {"call": "x"},
        {"url": "ws://x", "call_id": 5},
        {"url": "ws://x", "call_id": "x", "initial_model_settings": {"model_name": "y"}},
        {"url": "http://localhost"},
        {"url": "ws://"},
        {"url": "ws://[x"},
        {"url": 5},
        {"url": "ws://localhost:99999"},
        {"url": "ws://localhost:x"},
        {"url": "ws://localhost/#part"},
        {"url": "ws://x", "connect_timeout": 0},
        {"url": "ws://x", "connect_timeout": True},
        {"url": "ws://x", "api_key": 5},
        {"url": "ws://x", "api_key": "two\nlines"},
        {"url": "ws://x", "headers": {"a": 5}},
        {"url": "ws://x", "headers": {"a": "b\r\nc: d"}},
        {"url": "ws://x", "headers": {"a\n": "b"}},
        {"url": "ws://x", "headers": []},
        {"url": "ws://x", "playback_tracker": 5},
        {"url": "ws://x", "initial_model_settings": 5},
        {"url": "ws://x", "initial_model_settings": {"model_name": ""}},
    ],
)
async def test_options_that_do_not_fit_are_refused(options: Any) -> None:
    with pytest.raises(UsageError):
        await OpenAIRealtimeWebSocketModel().connect(options)


def test_the_address_names_the_model_or_the_call_to_join() -> None:
    assert _address({}, "a b") == "wss://api.openai.com/v1/realtime?model=a%20b"
    assert _address({"call_id": "rtc/1"}, "a") == "wss://api.openai.com/v1/realtime?call_id=rtc%2F1"


async def test_a_call_that_is_joined_keeps_its_formats_of_audio() -> None:
    async with RealtimeServer() as server:
        model = OpenAIRealtimeWebSocketModel()
        await model.connect({"url": server.url, "call_id": "rtc_1"})
        await model.send_event(SESSION)
        await model.send_event(RealtimeModelSendSessionUpdate({"output_audio_format": "g711_ulaw"}))
        await until(lambda: len(server.received[0]) == 2)
        await model.close()
        first, second = (event["session"]["audio"] for event in server.received[0])
        assert "format" not in first["input"] and "format" not in first["output"]
        assert "format" not in second["input"] and second["output"]["format"] == {"type": "audio/pcmu"}


# -- connections that end ------------------------------------------------------------------------


async def test_a_loss_is_told_and_the_same_model_connects_again() -> None:
    async with RealtimeServer(["Hello."]) as server, connected(server) as (model, ears):
        await ears.other("session.created")
        server.drop()
        lost = await ears.until("connection_status", 3)
        assert lost.status == "disconnected" and "lost" in lost.reason
        with pytest.raises(ModelFailed, match="not connected"):
            await model.send_event(HELLO)
        await model.connect({"url": server.url})
        await model.send_event(HELLO)
        await ears.until("turn_ended")
        assert len(server.received) == 2


async def test_the_servers_reason_for_closing_is_told() -> None:
    async with RealtimeServer() as server, connected(server) as (_, ears):
        await ears.other("session.created")
        await server.close_all(1001, "Your session has expired")
        lost = await ears.until("connection_status", 3)
        assert lost.reason == "The server closed the connection (code 1001, Your session has expired)."


async def test_closing_is_not_a_loss_and_closing_twice_does_no_harm() -> None:
    async with RealtimeServer() as server, connected(server) as (model, ears):
        await asyncio.gather(model.close(), model.close())
        await model.close()
        assert statuses(ears) == ["connecting", "connected"]
        with pytest.raises(ModelFailed, match="not connected"):
            await model.send_event(HELLO)


async def test_closing_does_not_wait_for_a_server_that_stalls() -> None:
    model = OpenAIRealtimeWebSocketModel(close_timeout=0.05)
    async with RealtimeServer() as server, connected(server, model) as (_, ears):
        await ears.other("session.created")
        server.stall()
        audio = RealtimeModelSendAudio(bytes(4_000_000))
        sending = asyncio.create_task(model.send_event(audio))  # more than fits into the socket
        await asyncio.sleep(0)
        await model.close()
        with pytest.raises(ModelFailed):
            await sending
        assert statuses(ears) == ["connecting", "connected"]


async def test_a_server_that_stalls_is_given_up_when_it_answers_no_ping() -> None:
    model = OpenAIRealtimeWebSocketModel(ping_interval=0.02, ping_timeout=0.05, close_timeout=0.05)
    async with RealtimeServer() as server, connected(server, model) as (_, ears):
        server.stall()  # at once: a busy machine may miss a ping even before it
        lost = await ears.until("connection_status", 3)
        assert "ping" in lost.reason


async def test_a_message_that_is_too_large_ends_the_connection() -> None:
    model = OpenAIRealtimeWebSocketModel(max_size=10_000)
    async with RealtimeServer() as server, connected(server, model) as (_, ears):
        await ears.other("session.created")
        await server.send_garbage("x" * 20_000)
        lost = await ears.until("connection_status", 3)
        assert "too large" in lost.reason


# -- what a server does wrong --------------------------------------------------------------------


async def test_garbage_is_an_error_and_the_conversation_goes_on() -> None:
    async with RealtimeServer(["Hello."]) as server, connected(server) as (model, ears):
        await ears.other("session.created")
        for garbage in ("{", "[]", b"\x00\xff", '{"type": "response.done"}'):
            await server.send_garbage(garbage)
        await ears.until("error", 4)
        await model.send_event(HELLO)
        await ears.until("turn_ended")


async def test_events_that_are_repeated_make_nothing_twice() -> None:
    async with RealtimeServer([[call("send", {"to": "ann"})], "Hello."]) as server, connected(server) as (model, ears):
        await model.send_event(HELLO)
        await ears.until("turn_ended")
        before = [event for event in ears.events if event.type != "other"]
        await server.repeat_last(20)
        await model.send_event(HELLO)
        await ears.until("turn_ended", 2)
        after = [event for event in ears.events if event.type != "other"]
        assert after[: len(before)] == before
        assert [event.type for event in after[len(before) :]][:2] == ["item_updated", "turn_started"]


async def test_what_the_server_refuses_is_an_error() -> None:
    async with RealtimeServer() as server:
        async with connected(server) as (model, ears):
            output = {"type": "function_call_output", "call_id": "unknown", "output": "x"}
            await model.send_event(RealtimeModelSendItems([output]))
            error = await ears.until("error")
            assert error.error["code"] == "invalid_tool_call_id"
        async with connected(server) as (model, ears):
            own = {"type": "input_audio_buffer.commit"}
            await model.send_event(RealtimeModelSendRawMessage(own))
            assert (await ears.until("error")).error["code"] == "input_audio_buffer_commit_empty"


class Failing(RealtimeModelListener):
    """A listener that fails on every event."""

    def on_event(self, event: RealtimeModelEvent) -> None:
        raise ValueError("not for me")


async def test_a_listener_that_fails_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    model = OpenAIRealtimeWebSocketModel()
    failing = Failing()
    model.add_listener(failing)
    async with RealtimeServer(["Hello.", "Hello."]) as server, connected(server, model) as (_, ears):
        await model.send_event(HELLO)
        await ears.until("turn_ended")
        assert "not for me" in caplog.text
        model.remove_listener(failing)
        caplog.clear()
        await model.send_event(HELLO)
        await ears.until("turn_ended", 2)
        assert caplog.text == ""


# -- sending, and interrupting -------------------------------------------------------------------


async def test_events_are_sent_in_the_order_in_which_they_were_given() -> None:
    async with RealtimeServer() as server, connected(server) as (model, _):
        texts = [f"number {n}" for n in range(50)]
        await asyncio.gather(
            *(model.send_event(RealtimeModelSendItems([{"role": "user", "content": text}])) for text in texts)
        )
        await server.until("conversation.item.create", 50)
        assert [event["item"]["content"][0]["text"] for event in server.received[0]] == texts


async def test_the_next_reply_is_asked_for_when_the_one_under_way_has_ended() -> None:
    gate = asyncio.Event()
    async with RealtimeServer([["One", gate], "Two"]) as server, connected(server) as (model, ears):
        await model.send_event(HELLO)
        await ears.until("transcript_delta")
        await model.send_event(HELLO)
        await model.send_event(HELLO)
        await server.until("conversation.item.create", 3)
        gate.set()
        await ears.until("turn_ended", 2)
        assert len(await _all(server, "response.create")) == 2 and ears.of("error") == []


async def _all(server: RealtimeServer, type: str) -> list[dict[str, Any]]:
    return [event for events in server.received for event in events if event["type"] == type]


async def test_the_users_speech_interrupts_the_models() -> None:
    gate = asyncio.Event()
    transcripts = ["Stop, please."]
    steps = [["One two three four five six seven eight nine ten", gate], "I stop."]
    async with RealtimeServer(steps, transcripts=transcripts) as server, connected(server) as (model, ears):
        await model.send_event(SESSION)
        await model.send_event(HELLO)
        await ears.until("audio", 20)
        await model.send_event(RealtimeModelSendAudio(LOUD))
        await ears.until("audio_interrupted")
        cut = await ears.until("turn_ended")
        assert cut.status == "cancelled" and cut.output[0]["status"] == "incomplete"
        await ears.other("conversation.item.truncated")
        await model.send_event(RealtimeModelSendAudio(SILENCE))
        assert (await ears.until("input_audio_transcription_completed")).transcript == "Stop, please."
        assert (await ears.until("turn_ended", 2)).status == "completed"
        assert len(ears.of("audio_interrupted")) == 1 and ears.of("error") == []
        assert await _all(server, "response.cancel") == []


async def test_an_interruption_stops_the_reply_and_its_call_never_runs() -> None:
    gate = asyncio.Event()
    steps = [["One two three four five", call("send", {"to": "ann"}), gate]]
    async with RealtimeServer(steps) as server, connected(server) as (model, ears):
        await model.send_event(HELLO)
        await ears.other("response.function_call_arguments.delta")
        await model.send_event(RealtimeModelSendInterrupt())
        ended = await ears.until("turn_ended")
        assert ended.status == "cancelled" and ended.reason == "it was interrupted"
        assert [item["type"] for item in ended.output] == ["message"]
        await ears.other("conversation.item.truncated")
        assert ears.of("error") == []


async def test_a_turn_that_the_user_ends_is_replied_to() -> None:
    settings = RealtimeModelSendSessionUpdate({"turn_detection": None})
    async with RealtimeServer(["Hello."]) as server, connected(server) as (model, ears):
        await model.send_event(settings)
        await ears.other("session.updated")
        await model.send_event(RealtimeModelSendAudio(LOUD, commit=True))
        await ears.until("input_audio_committed")
        await ears.until("turn_ended")


async def test_fifty_models_speak_at_once() -> None:
    async def talk(server: RealtimeServer, n: int) -> None:
        model, ears = OpenAIRealtimeWebSocketModel(), Ears()
        model.add_listener(ears)
        await model.connect({"url": server.url})
        await model.send_event(RealtimeModelSendItems([{"role": "user", "content": f"I am {n}"}], True))
        ended = await ears.until("turn_ended")
        assert f"I am {n}" in ended.output[0]["content"][0]["text"]
        await model.close()

    async with RealtimeServer() as server:
        await asyncio.gather(*(talk(server, n) for n in range(50)))
        assert len(server.received) == 50
