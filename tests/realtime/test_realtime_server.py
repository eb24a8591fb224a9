"""The local realtime server: the official client talks to it, and it refuses what the API refuses."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from assentry.errors import UsageError
from assentry.testing import RealtimeServer, call, reply_by_rules
from assentry.testing.realtime_rules import arguments_for
from assentry.testing.realtime_voice import SpeechDetector, loudness, tone
from tests.realtime.support import check_server_event

LOUD = b64encode(tone("audio/pcm", 300, 200)).decode()
SILENCE = b64encode(bytes(48 * 600)).decode()
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}


class Line:
    """A connection of a client that checks every event of the server."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.events: list[dict[str, Any]] = []

    async def send(self, type: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": type, **fields}))

    async def until(self, type: str) -> dict[str, Any]:
        """Return the next event of this type."""
        async with asyncio.timeout(60):
            while True:
                event = json.loads(await self.connection.recv())
                check_server_event(event)
                self.events.append(event)
                if event["type"] == type:
                    return event

    async def refused(self, type: str, **fields: Any) -> str:
        """Send an event, and return the code with which it is refused."""
        await self.send(type, **fields)
        return str((await self.until("error"))["error"]["code"])

    async def reply(self) -> dict[str, Any]:
        await self.send("response.create")
        response: dict[str, Any] = (await self.until("response.done"))["response"]
        return response


@asynccontextmanager
async def line(server: RealtimeServer) -> AsyncIterator[Line]:
    async with connect(server.url) as connection:
        made = Line(connection)
        await made.until("session.created")
        yield made


async def test_the_official_client_talks_to_it() -> None:
    async with RealtimeServer(["Good morning."]) as server:
        client = openai.AsyncOpenAI(api_key="none", websocket_base_url=server.url.removesuffix("/realtime"))
        async with client, client.realtime.connect(model="gpt-realtime") as connection:
            await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
            await connection.conversation.item.create(item=USER)  # type: ignore[arg-type]
            await connection.response.create()
            said = ""
            async for event in connection:
                if event.type == "response.output_text.delta":
                    said += event.delta
                if event.type == "response.done":
                    break
            assert said == "Good morning."


async def test_a_reply_has_the_events_of_the_api_in_their_order() -> None:
    async with RealtimeServer([["Hello", call("send", {"to": "ann"}, "call_9")]]) as server, line(server) as client:
        response = await client.reply()
        types = [event["type"] for event in client.events[1:]]
        begun = ["response.output_item.added", "conversation.item.added"]
        ended = ["response.output_item.done", "conversation.item.done"]
        assert types == [
            "response.created",
            *begun,
            "response.content_part.added",
            "response.output_audio_transcript.delta",
            "response.output_audio.delta",
            "response.output_audio.delta",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            *ended,
            *begun,
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            *ended,
            "response.done",
        ]
        assert response["output"][1]["call_id"] == "call_9" and response["usage"]["total_tokens"] > 0
        assert [event["event_id"] for event in client.events] == [f"event_{n + 1}" for n in range(len(client.events))]


async def test_a_step_may_be_a_function_of_the_conversation() -> None:
    seen: list[Any] = []

    async def later(items: list[Any]) -> str:
        return f"There were {len(items)}."

    def step(items: list[Any]) -> Any:
        seen.extend(items)
        return [call("send")]

    async with RealtimeServer([step, later]) as server, line(server) as client:
        await client.send("conversation.item.create", item=USER)
        assert (await client.reply())["output"][0]["name"] == "send"
        assert (await client.reply())["output"][0]["content"][0]["transcript"] == "There were 2."
        assert [item["role"] for item in seen] == ["user"]


async def test_a_script_that_ends_fails_the_reply() -> None:
    async with RealtimeServer([]) as server, line(server) as client:
        response = await client.reply()
        assert response["status"] == "failed"
        assert response["status_details"]["error"]["code"] == "script_exhausted"


async def test_a_step_that_is_none_is_raised_at_the_end() -> None:
    with pytest.raises(UsageError, match="step of a RealtimeServer"):
        async with RealtimeServer([lambda items: 5]) as server, line(server) as client:
            assert (await client.reply())["status"] == "failed"


async def test_what_the_api_refuses_is_refused() -> None:
    gate = asyncio.Event()
    async with RealtimeServer([["One two", gate]]) as server, line(server) as client:
        assert await client.refused("session.create") == "invalid_value"
        assert await client.refused("session.update", session={"instructions": "x"}) == "invalid_value"
        realtime = {"type": "realtime"}
        assert await client.refused("session.update") == "missing_required_parameter"
        assert await client.refused("session.update", session={**realtime, "voice": "ash"}) == "unknown_parameter"
        both = {**realtime, "output_modalities": ["text", "audio"]}
        assert await client.refused("session.update", session=both) == "invalid_value"
        inner = {**realtime, "audio": {"input": {"voice": "ash"}}}
        assert await client.refused("session.update", session=inner) == "unknown_parameter"
        odd = {**realtime, "audio": {"input": 5}}
        assert await client.refused("session.update", session=odd) == "invalid_type"
        output = {"type": "function_call_output", "call_id": "call_x", "output": "x"}
        assert await client.refused("conversation.item.create", item=output) == "invalid_tool_call_id"
        for item in ({"type": "x"}, {**USER, "role": "x"}, {**USER, "content": [{"type": "output_text", "text": "x"}]}):
            assert await client.refused("conversation.item.create", item=item) == "invalid_value"
        assert (
            await client.refused("conversation.item.create", item={**USER, "id": "x" * 33}) == "string_above_max_length"
        )
        await client.send("conversation.item.create", item={**USER, "id": "mine"})
        assert (
            await client.refused("conversation.item.create", item={**USER, "id": "mine"})
            == "item_create_duplicate_item"
        )
        after = {"previous_item_id": "x"}
        code = await client.refused("conversation.item.create", item=USER, **after)
        assert code == "item_create_invalid_previous_item_id"
        assert await client.refused("conversation.item.delete", item_id="x") == "item_delete_invalid_item_id"
        assert await client.refused("input_audio_buffer.append", audio="?") == "invalid_value"
        assert await client.refused("input_audio_buffer.commit") == "input_audio_buffer_commit_empty"
        assert await client.refused("response.cancel") == "response_cancel_not_active"
        await client.send("response.create")
        await client.until("response.created")
        active = "conversation_already_has_active_response"
        assert await client.refused("response.create", event_id="mine") == active
        assert client.events[-1]["error"]["event_id"] == "mine"
        gate.set()
        spoken = (await client.until("response.done"))["response"]["output"][0]["id"]
        cut = {"content_index": 0, "audio_end_ms": 401}
        assert await client.refused("conversation.item.truncate", item_id=spoken, **cut) == "invalid_value"
        assert await client.refused("conversation.item.truncate", item_id="mine", **cut) == "invalid_value"
        changed = {**realtime, "audio": {"output": {"voice": "ash"}}}
        assert await client.refused("session.update", session=changed) == "cannot_update_voice"
        await client.connection.send("{")
        assert (await client.until("error"))["error"]["code"] == "invalid_json"
        await client.connection.send(b"{}")
        assert (await client.until("error"))["error"]["code"] == "invalid_message"


async def test_items_are_kept_truncated_and_deleted() -> None:
    async with RealtimeServer(["One two"]) as server, line(server) as client:
        spoken = (await client.reply())["output"][0]["id"]
        await client.send("conversation.item.truncate", item_id=spoken, content_index=0, audio_end_ms=400)
        assert (await client.until("conversation.item.truncated"))["audio_end_ms"] == 400
        await client.send("conversation.item.retrieve", item_id=spoken)
        item = (await client.until("conversation.item.retrieved"))["item"]
        assert item["content"] == [{"type": "output_audio"}]  # what was not heard is not left as text
        await client.send("conversation.item.create", item={**USER, "id": "first"}, previous_item_id="root")
        assert (await client.until("conversation.item.added"))["previous_item_id"] is None
        await client.send("conversation.item.delete", item_id="first")
        await client.until("conversation.item.deleted")


async def test_speech_is_detected_by_its_loudness_and_replied_to() -> None:
    transcripts = ["Good morning.", None]
    async with RealtimeServer(["One", "Two"], transcripts=transcripts) as server, line(server) as client:
        session = {"type": "realtime", "audio": {"input": {"transcription": {"model": "whisper-1"}}}}
        await client.send("session.update", session=session)
        for kind in ("completed", "failed"):
            for audio in (SILENCE, LOUD, LOUD, SILENCE):
                await client.send("input_audio_buffer.append", audio=audio)
            started = await client.until("input_audio_buffer.speech_started")
            stopped = await client.until("input_audio_buffer.speech_stopped")
            committed = await client.until("input_audio_buffer.committed")
            assert started["item_id"] == stopped["item_id"] == committed["item_id"]
            assert stopped["audio_end_ms"] - started["audio_start_ms"] >= 400
            assert (await client.until("conversation.item.added"))["item"]["role"] == "user"
            await client.until(f"conversation.item.input_audio_transcription.{kind}")
            assert (await client.until("response.done"))["response"]["status"] == "completed"


async def test_a_reply_that_is_cancelled_ends_with_what_was_said() -> None:
    gate = asyncio.Event()
    async with RealtimeServer([["One two", gate, "three"]]) as server, line(server) as client:
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        await client.send("response.cancel")
        response = (await client.until("response.done"))["response"]
        assert response["status"] == "cancelled" and len(response["output"]) == 1
        assert response["output"][0]["status"] == "incomplete"


@pytest.mark.parametrize(("kind", "size"), [("audio/pcm", 9600), ("audio/pcmu", 1600), ("audio/pcma", 1600)])
async def test_a_word_lasts_as_long_in_every_format(kind: str, size: int) -> None:
    async with RealtimeServer(["Hello"]) as server, line(server) as client:
        format = {"type": kind, **({"rate": 24000} if kind == "audio/pcm" else {})}
        session = {"type": "realtime", "audio": {"output": {"format": format}}}
        await client.send("session.update", session=session)
        await client.reply()
        deltas = [event["delta"] for event in client.events if event["type"] == "response.output_audio.delta"]
        assert sum(len(delta) * 3 // 4 for delta in deltas) == pytest.approx(size, abs=6)


async def test_faults_happen_on_demand() -> None:
    async with RealtimeServer(["Hello"]) as server, line(server) as client:
        await client.reply()
        await client.until("rate_limits.updated")
        await server.repeat_last(2)
        assert json.loads(await client.connection.recv()) == client.events[-2]
        assert json.loads(await client.connection.recv()) == client.events[-1]
        await server.send_garbage(b"\x00")
        assert await client.connection.recv() == b"\x00"
        server.stall()
        await client.send("conversation.item.create", item=USER)
        server.resume()
        await client.until("conversation.item.done")
        assert (await server.until("conversation.item.create"))["item"] == USER
        server.drop()
        with pytest.raises(ConnectionClosed):
            await client.connection.recv()


# -- rules ---------------------------------------------------------------------------------------

REFUND = {
    "type": "function",
    "name": "refund_order",
    "description": "Pay an order back.",
    "parameters": {
        "type": "object",
        "properties": {
            "order": {"type": "integer"},
            "amount": {"type": "number"},
            "reason": {"type": "string"},
            "currency": {"enum": ["EUR", "USD"]},
            "express": {"type": "boolean"},
        },
        "required": ["order", "amount", "reason"],
    },
}
MAIL = {
    "type": "function",
    "name": "send_mail",
    "description": "Send a mail to a person.",
    "parameters": {
        "type": "object",
        "properties": {"to": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Name"}]}, "tags": {"type": "array"}},
        "$defs": {"Name": {"type": "string"}},
    },
}


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def test_a_tool_that_the_words_name_is_called_with_arguments_from_them() -> None:
    made: Any = reply_by_rules([user('Refund order 17 with 12.50 USD because of "a crack"')], [MAIL, REFUND])
    assert made.name == "refund_order"
    assert json.loads(made.arguments) == {
        "order": 17,
        "amount": 12.5,
        "reason": "a crack",
        "currency": "USD",
        "express": True,
    }
    assert arguments_for("Please mail Ann", MAIL)["to"] == "Ann"


def test_a_tools_output_is_said() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": "12.5 USD were paid back."}
    assert reply_by_rules([user("refund"), output], [REFUND]) == "This came out: 12.5 USD were paid back."
    system = {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "It was approved."}]}
    assert reply_by_rules([user("refund"), output, system], [REFUND]) == "This came out: It was approved."


def test_other_words_get_a_sentence() -> None:
    assert reply_by_rules([user("What is this?")], [MAIL]) == 'You said: "What is this?". I can help with: send mail.'
    assert reply_by_rules([], []) == 'You said: "". I have no tools.'
    said = {"type": "message", "role": "assistant", "content": []}
    assert reply_by_rules([user("mail"), said], [MAIL]) == "Is there anything else?"


# -- sound ---------------------------------------------------------------------------------------


def test_speech_is_heard_once_however_it_is_cut_into_pieces() -> None:
    sound = bytes(48 * 100) + tone("audio/pcm", 300, 300) + bytes(48 * 400) + tone("audio/pcm", 300, 300)
    for size in (7, 960, 5000, len(sound)):
        detector = SpeechDetector()
        heard = [what for at in range(0, len(sound), size) for what in detector.detect(sound[at : at + size], 200)]
        assert heard == ["started", "stopped", "started"]
    assert loudness(b"") == 0 and loudness(bytes(100)) == 0
