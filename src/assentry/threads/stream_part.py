"""Results and chunks of calls with `version="v2"`: a state and its interrupts, and chunks that name their type."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypedDict

from msgspec import Struct
from typing_extensions import TypeVar

from .interrupts import Interrupt
from .message import Message

T = TypeVar("T", default=dict[str, Any])


class GraphOutput(Struct, Generic[T], frozen=True):
    """The result of `invoke(..., version="v2")`."""

    value: T
    """The state of the thread."""
    interrupts: tuple[Interrupt, ...] = ()
    """The interrupts that the thread waits for."""

    def __getitem__(self, key: str) -> Any:
        """Return a key of the state, or the interrupts for "__interrupt__", as in the result of version "v1"."""
        if key == "__interrupt__":
            return self.interrupts
        return self.value[key]  # type: ignore[index]

    def __contains__(self, key: object) -> bool:
        return bool(self.interrupts) if key == "__interrupt__" else key in self.value  # type: ignore[operator]


class ValuesStreamPart(TypedDict):
    """A chunk of `stream_mode="values"`: the whole state after a step."""

    type: Literal["values"]
    ns: tuple[str, ...]
    data: Any
    interrupts: tuple[Interrupt, ...]


class UpdatesStreamPart(TypedDict):
    """A chunk of `stream_mode="updates"`: the result of a node, or the interrupts at a pause."""

    type: Literal["updates"]
    ns: tuple[str, ...]
    data: dict[str, Any]


class MessagesStreamPart(TypedDict):
    """A chunk of `stream_mode="messages"`: a token, or a tool's message, and its metadata."""

    type: Literal["messages"]
    ns: tuple[str, ...]
    data: tuple[Message, dict[str, Any]]


class CustomStreamPart(TypedDict):
    """A chunk of `stream_mode="custom"`: a value that was passed to `get_stream_writer()`."""

    type: Literal["custom"]
    ns: tuple[str, ...]
    data: Any


StreamPart = ValuesStreamPart | UpdatesStreamPart | MessagesStreamPart | CustomStreamPart
"""A chunk of `stream(..., version="v2")`; its `type` is the mode, and its `ns` names the agent that is a tool."""
