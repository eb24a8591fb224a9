"""Events of the Realtime API, and a listener that remembers what it was told."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from functools import cache
from typing import Any

from openai.types.realtime import RealtimeClientEvent, RealtimeServerEvent
from pydantic import TypeAdapter

from assentry.realtime.model import RealtimeModelEvent, RealtimeModelListener
from assentry.realtime.wire import OpenAIRealtimeProtocol
from assentry.testing import RealtimeServer


@cache
def _adapter(events: Any) -> TypeAdapter[Any]:
    return TypeAdapter(events)


def check_server_event(event: dict[str, Any]) -> None:
    """Fail if the official client cannot read an event of a server."""
    _adapter(RealtimeServerEvent).validate_python(event)


def check_client_event(event: dict[str, Any]) -> None:
    """Fail if an event of a client is none of the official client's."""
    parsed = _adapter(RealtimeClientEvent).validate_python(event)
    assert parsed.type == event["type"]


def check_wire(server: RealtimeServer) -> None:
    """Check all that went over the wire, both ways."""
    for events in server.sent:
        for event in events:
            check_server_event(event)
    for events in server.received:
        for event in events:
            check_client_event(event)


class Ears(RealtimeModelListener):
    """A listener that remembers all events, and waits for some."""

    def __init__(self) -> None:
        self.events: list[RealtimeModelEvent] = []
        self._more = asyncio.Event()

    def on_event(self, event: RealtimeModelEvent) -> None:
        self.events.append(event)
        self._more.set()

    def of(self, type: str) -> list[Any]:
        return [event for event in self.events if event.type == type]

    async def until(self, type: str, count: int = 1) -> Any:
        """Wait for the event of this type that is the `count`th."""
        async with asyncio.timeout(60):
            while len(self.of(type)) < count:
                self._more.clear()
                await self._more.wait()
        return self.of(type)[count - 1]

    async def other(self, type: str, count: int = 1) -> dict[str, Any]:
        """Wait for an event of the provider that has no type of its own."""
        async with asyncio.timeout(60):
            while len(found := [each.data for each in self.of("other") if each.data["type"] == type]) < count:
                self._more.clear()
                await self._more.wait()
        return found[count - 1]


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Wire:
    """A protocol that is fed events, and what it made of them."""

    def __init__(self, tracker: Any = None) -> None:
        self.clock = Clock()
        self.protocol = OpenAIRealtimeProtocol(tracker, self.clock)
        self.events: list[Any] = []
        self.messages: list[dict[str, Any]] = []
        self._count = 0

    def get(self, type: str, **fields: Any) -> list[Any]:
        """Receive an event with an id of its own, and return the model's events."""
        self._count += 1
        return self.raw(json.dumps({"type": type, "event_id": f"event_{self._count}", **fields}))

    def raw(self, text: str | bytes) -> list[Any]:
        reaction = self.protocol.received(text)
        self.events += reaction.events
        self.messages += reaction.messages
        return list(reaction.events)

    def send(self, event: Any) -> list[dict[str, Any]]:
        """Send an event, and return the messages."""
        reaction = self.protocol.sent(event)
        self.events += reaction.events
        self.messages += reaction.messages
        for message in reaction.messages:
            check_client_event(message)
        return list(reaction.messages)

    def types(self) -> list[str]:
        return [message["type"] for message in self.messages]

    def created(self, id: str = "resp_1") -> list[Any]:
        return self.get("response.created", response={"id": id, "status": "in_progress", "output": []})

    def done(self, id: str = "resp_1", status: str = "completed", output: Any = (), **more: Any) -> list[Any]:
        return self.get("response.done", response={"id": id, "status": status, "output": list(output), **more})

    def audio(self, ms: int = 100, item: str = "item_1", response: str = "resp_1") -> list[Any]:
        """Receive so many milliseconds of PCM."""
        where = {"response_id": response, "item_id": item, "output_index": 0, "content_index": 0}
        return self.get("response.output_audio.delta", **where, delta=b64encode(bytes(48 * ms)).decode())

    def audio_done(self, item: str = "item_1", response: str = "resp_1") -> list[Any]:
        where = {"response_id": response, "item_id": item, "output_index": 0, "content_index": 0}
        return self.get("response.output_audio.done", **where)

    def said(self, delta: str, item: str = "item_1", response: str = "resp_1", kind: str = "audio_transcript") -> Any:
        where = {"response_id": response, "item_id": item, "output_index": 0, "content_index": 0}
        return self.get(f"response.output_{kind}.delta", **where, delta=delta)

    def speech(self) -> list[Any]:
        return self.get("input_audio_buffer.speech_started", audio_start_ms=0, item_id="item_user")


def message(text: str | None, id: str = "item_1", status: str = "completed") -> dict[str, Any]:
    """A spoken message of the model."""
    content = [{"type": "output_audio", "transcript": text}]
    return {"id": id, "type": "message", "role": "assistant", "status": status, "content": content}


def function_call(id: str = "item_2", status: str = "completed", **more: Any) -> dict[str, Any]:
    fields = {"id": id, "type": "function_call", "status": status, "call_id": "call_1", "name": "send"}
    return {**fields, "arguments": '{"to": "ann"}', **more}
