"""The names of `agents.realtime.items`: the history of a live session as pydantic models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import to_builtins
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from ...realtime import item as native
from ..absent import find_absent

__all__ = [
    "AssistantAudio",
    "AssistantMessageItem",
    "AssistantText",
    "InputAudio",
    "InputImage",
    "InputText",
    "RealtimeItem",
    "RealtimeMessageItem",
    "RealtimeResponse",
    "RealtimeToolCallItem",
    "SystemMessageItem",
    "UserMessageItem",
]


class InputText(BaseModel):
    """Text of the user or the system."""

    model_config = ConfigDict(extra="allow")

    type: Literal["input_text"] = "input_text"
    text: str | None = None


class InputAudio(BaseModel):
    """Speech of the user. `audio` is always None: a history has no audio."""

    model_config = ConfigDict(extra="allow")

    type: Literal["input_audio"] = "input_audio"
    audio: str | None = None
    transcript: str | None = None


class InputImage(BaseModel):
    """An image of the user."""

    model_config = ConfigDict(extra="allow")

    type: Literal["input_image"] = "input_image"
    image_url: str | None = None
    detail: str | None = None


class AssistantText(BaseModel):
    """Text of the model."""

    model_config = ConfigDict(extra="allow")

    type: Literal["text"] = "text"
    text: str | None = None


class AssistantAudio(BaseModel):
    """Speech of the model. `audio` is always None: a history has no audio."""

    model_config = ConfigDict(extra="allow")

    type: Literal["audio"] = "audio"
    audio: str | None = None
    transcript: str | None = None


class SystemMessageItem(BaseModel):
    """A message of the system."""

    model_config = ConfigDict(extra="allow")

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["system"] = "system"
    content: list[InputText]


class UserMessageItem(BaseModel):
    """A message of the user, typed or spoken."""

    model_config = ConfigDict(extra="allow")

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["user"] = "user"
    content: list[Annotated[InputText | InputAudio | InputImage, Field(discriminator="type")]]


class AssistantMessageItem(BaseModel):
    """A message of the model."""

    model_config = ConfigDict(extra="allow")

    item_id: str
    previous_item_id: str | None = None
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    content: list[Annotated[AssistantText | AssistantAudio, Field(discriminator="type")]]


RealtimeMessageItem = Annotated[SystemMessageItem | UserMessageItem | AssistantMessageItem, Field(discriminator="role")]
"""A message of a session's history."""


class RealtimeToolCallItem(BaseModel):
    """A tool call of the model."""

    model_config = ConfigDict(extra="allow")

    item_id: str
    previous_item_id: str | None = None
    call_id: str | None
    type: Literal["function_call"] = "function_call"
    status: Literal["in_progress", "completed"]
    arguments: str
    name: str
    output: str | None = None


RealtimeItem = RealtimeMessageItem | RealtimeToolCallItem
"""An item of a session's history."""


class RealtimeResponse(BaseModel):
    """A reply of the model."""

    id: str
    output: list[RealtimeMessageItem]


_ITEM: TypeAdapter[Any] = TypeAdapter(RealtimeItem)


def item_shown(item: native.RealtimeItem) -> RealtimeItem:
    """Return an item of Assentry's own history in this form."""
    shown: RealtimeItem = _ITEM.validate_python(to_builtins(item))
    return shown


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
