"""The names of `agents.realtime.model_inputs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from ..absent import find_absent
from .config import RealtimeSessionModelSettings
from .model_events import RealtimeModelToolCallEvent

__all__ = [
    "RealtimeModelInputImageContent",
    "RealtimeModelInputTextContent",
    "RealtimeModelRawClientMessage",
    "RealtimeModelSendAudio",
    "RealtimeModelSendEvent",
    "RealtimeModelSendInterrupt",
    "RealtimeModelSendRawMessage",
    "RealtimeModelSendSessionUpdate",
    "RealtimeModelSendToolOutput",
    "RealtimeModelSendUserInput",
    "RealtimeModelUserInput",
    "RealtimeModelUserInputMessage",
]


class RealtimeModelRawClientMessage(TypedDict):
    """A message of the provider's own protocol: its type, and its other fields."""

    type: str
    other_data: NotRequired[dict[str, Any]]


class RealtimeModelInputTextContent(TypedDict):
    """Text of a user's message."""

    type: Literal["input_text"]
    text: str


class RealtimeModelInputImageContent(TypedDict, total=False):
    """An image of a user's message."""

    type: Literal["input_image"]
    image_url: str
    detail: str


class RealtimeModelUserInputMessage(TypedDict):
    """A user's message."""

    type: Literal["message"]
    role: Literal["user"]
    content: list[RealtimeModelInputTextContent | RealtimeModelInputImageContent]


RealtimeModelUserInput: TypeAlias = str | RealtimeModelUserInputMessage
"""A user's message, or its text."""


@dataclass
class RealtimeModelSendRawMessage:
    """Send an event of the provider's own protocol."""

    message: RealtimeModelRawClientMessage


@dataclass
class RealtimeModelSendUserInput:
    """Send a message of the user."""

    user_input: RealtimeModelUserInput


@dataclass
class RealtimeModelSendAudio:
    """Send audio of the user; with `commit`, the user's turn ends with it."""

    audio: bytes
    commit: bool = False


@dataclass
class RealtimeModelSendToolOutput:
    """Send the output of a tool."""

    tool_call: RealtimeModelToolCallEvent
    output: str
    start_response: bool


@dataclass
class RealtimeModelSendInterrupt:
    """Stop the reply under way."""

    force_response_cancel: bool = False
    response_id: str | None = None
    cancel_response_only: bool = False
    playback_only: bool = False


@dataclass
class RealtimeModelSendSessionUpdate:
    """Change the settings of the session."""

    session_settings: RealtimeSessionModelSettings


RealtimeModelSendEvent: TypeAlias = (
    RealtimeModelSendRawMessage
    | RealtimeModelSendUserInput
    | RealtimeModelSendAudio
    | RealtimeModelSendToolOutput
    | RealtimeModelSendInterrupt
    | RealtimeModelSendSessionUpdate
)
"""An event that a model is sent."""

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
