"""A realtime model in this process: a test says what it brings, and sees what it is sent."""

import asyncio
from typing import Any

from assentry.core.facts import Usage
from assentry.errors import ModelFailed
from assentry.realtime import (
    RealtimeModel,
    RealtimeModelConnectionStatusEvent,
    RealtimeModelEvent,
    RealtimeModelListener,
    RealtimeModelSendItems,
    RealtimeModelSendSessionUpdate,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)


def called(name: str, arguments: str = "{}", call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call", "id": f"item_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}


def said(text: str, id: str = "item_m") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "id": id, "status": "completed", "content": [part]}


class FakeModel(RealtimeModel):
    name = "fake"

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.listeners: list[RealtimeModelListener] = []
        self.connects = self.closes = self.responses = 0
        self.failures: list[Exception] = []
        self.up = False

    async def connect(self, options: Any) -> None:
        self.connects += 1
        if self.failures:
            raise self.failures.pop(0)
        self.up = True

    def add_listener(self, listener: RealtimeModelListener) -> None:
        self.listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        self.listeners.remove(listener)

    async def send_event(self, event: Any) -> None:
        if not self.up:
            raise ModelFailed("There is no connection.")
        self.sent.append(event)

    async def close(self) -> None:
        self.closes += 1
        self.up = False

    # -- for tests -----------------------------------------------------------------------------------

    def push(self, *events: RealtimeModelEvent) -> None:
        for event in events:
            for listener in list(self.listeners):
                listener.on_event(event)

    def reply(self, *items: dict[str, Any], status: Any = "completed") -> None:
        """Bring a whole reply."""
        self.responses += 1
        id = f"resp_{self.responses}"
        self.push(RealtimeModelTurnStartedEvent(id))
        self.push(RealtimeModelTurnEndedEvent(id, list(items), Usage(1, 10, 5), status))

    def drop(self, reason: str = "gone") -> None:
        self.up = False
        self.push(RealtimeModelConnectionStatusEvent("disconnected", reason))

    @property
    def items(self) -> list[dict[str, Any]]:
        """All items that the model was sent, in order."""
        return [dict(item) for event in self.sent if isinstance(event, RealtimeModelSendItems) for item in event.items]

    @property
    def updates(self) -> list[RealtimeModelSendSessionUpdate]:
        return [event for event in self.sent if isinstance(event, RealtimeModelSendSessionUpdate)]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return [item for item in self.items if item.get("type") == "function_call_output"]


async def settle(times: int = 30) -> None:
    """Let everything that is ready on the loop run."""
    for _ in range(times):
        await asyncio.sleep(0)


async def until(condition: Any) -> Any:
    """Wait for a condition, which other tasks bring about."""
    async with asyncio.timeout(60):
        while not (found := condition()):  # noqa: ASYNC110 - the condition is whatever a test asks for
            await asyncio.sleep(0.001)
    return found
