"""The history of a live session, as its users see it. Audio is never part of it: only the transcript is."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace


class InputText(Struct):
    """Text of the user or the system."""

    text: str | None = None
    type: Literal["input_text"] = "input_text"


class InputAudio(Struct):
    """Speech of the user; `transcript` is None until it is known."""

    transcript: str | None = None
    type: Literal["input_audio"] = "input_audio"


class InputImage(Struct):
    """An image of the user."""

    image_url: str | None = None
    detail: str | None = None
    type: Literal["input_image"] = "input_image"


class AssistantText(Struct):
    """Text of the model."""

    text: str | None = None
    type: Literal["text"] = "text"


class AssistantAudio(Struct):
    """Speech of the model, as its transcript."""

    transcript: str | None = None
    type: Literal["audio"] = "audio"


class SystemMessageItem(Struct):
    """A message of the system."""

    item_id: str
    content: list[InputText]
    role: Literal["system"] = "system"
    type: Literal["message"] = "message"


class UserMessageItem(Struct):
    """A message of the user, typed or spoken."""

    item_id: str
    content: list[InputText | InputAudio | InputImage]
    role: Literal["user"] = "user"
    type: Literal["message"] = "message"


class AssistantMessageItem(Struct):
    """A message of the model."""

    item_id: str
    content: list[AssistantText | AssistantAudio]
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    role: Literal["assistant"] = "assistant"
    type: Literal["message"] = "message"


class RealtimeToolCallItem(Struct):
    """A tool call, and its output once there is one."""

    item_id: str
    call_id: str | None
    name: str
    arguments: str
    status: Literal["in_progress", "completed"] = "in_progress"
    output: str | None = None
    type: Literal["function_call"] = "function_call"


RealtimeItem = SystemMessageItem | UserMessageItem | AssistantMessageItem | RealtimeToolCallItem
"""An item of a session's history."""


class SessionHistory:
    """The items of a history in the order in which they came. Each method returns True if it changed something."""

    def __init__(self) -> None:
        self.items: list[RealtimeItem] = []
        self._places: dict[str, int] = {}

    def put(self, item: RealtimeItem) -> bool:
        """Add an item, or replace the item with the same id."""
        place = self._places.setdefault(item.item_id, len(self.items))
        before, self.items[place : place + 1] = self.items[place : place + 1], [item]
        return before != [item]

    def delete(self, item_id: str) -> bool:
        """Delete an item."""
        place = self._places.pop(item_id, None)
        if place is not None:
            del self.items[place]
            self._places = {item.item_id: n for n, item in enumerate(self.items)}
        return place is not None

    def set_transcript(self, item_id: str, words: str | None) -> bool:
        """Set the words of a spoken message of the user."""
        place = self._places.get(item_id)
        item = self.items[place] if place is not None else None
        if place is None or words is None or not isinstance(item, UserMessageItem):
            return False
        content = [InputAudio(words) if isinstance(part, InputAudio) else part for part in item.content]
        self.items[place] = replace(item, content=content)
        return True
