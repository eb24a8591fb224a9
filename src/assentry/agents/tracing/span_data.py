"""The names of `agents.tracing.span_data`: the contents of each kind of span."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..absent import find_absent

__all__ = [
    "AgentSpanData",
    "CustomSpanData",
    "FunctionSpanData",
    "GenerationSpanData",
    "GuardrailSpanData",
    "HandoffSpanData",
    "MCPListToolsSpanData",
    "ResponseSpanData",
    "SpanData",
    "SpeechGroupSpanData",
    "SpeechSpanData",
    "TaskSpanData",
    "TranscriptionSpanData",
    "TurnSpanData",
]


class SpanData(abc.ABC):
    """The contents of a span. Subclass it for spans of your own."""

    @abc.abstractmethod
    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""

    @property
    @abc.abstractmethod
    def type(self) -> str:
        """The kind of the span."""


@dataclass(eq=False)
class AgentSpanData(SpanData):
    """A period in which one agent is active."""

    name: str
    handoffs: list[str] | None = None
    tools: list[str] | None = None
    output_type: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "agent"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {
            "type": self.type,
            "name": self.name,
            "handoffs": self.handoffs,
            "tools": self.tools,
            "output_type": self.output_type,
        }


@dataclass(eq=False)
class TaskSpanData(SpanData):
    """One run, or one run inside another."""

    name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "task"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict, in the form of a custom span."""
        return _as_custom("task", {"name": self.name}, self.usage)


@dataclass(eq=False)
class TurnSpanData(SpanData):
    """One turn of an agent: a model call, and the calls of tools that it led to."""

    turn: int
    agent_name: str
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "turn"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict, in the form of a custom span."""
        return _as_custom("turn", {"turn": self.turn, "agent_name": self.agent_name}, self.usage)


def _as_custom(kind: str, contents: dict[str, Any], usage: dict[str, Any] | None) -> dict[str, Any]:
    data = {"sdk_span_type": kind, **contents, **({"usage": usage} if usage is not None else {})}
    return {"type": "custom", "name": kind, "data": data}


@dataclass(eq=False)
class FunctionSpanData(SpanData):
    """A call of a tool."""

    name: str
    input: str | None
    output: Any | None
    mcp_data: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "function"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {
            "type": self.type,
            "name": self.name,
            "input": self.input,
            "output": None if self.output is None else str(self.output),
            "mcp_data": self.mcp_data,
        }


@dataclass(eq=False)
class GenerationSpanData(SpanData):
    """A model call, with its messages."""

    input: Sequence[Mapping[str, Any]] | None = None
    output: Sequence[Mapping[str, Any]] | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    usage: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "generation"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {
            "type": self.type,
            "input": self.input,
            "output": self.output,
            "model": self.model,
            "model_config": self.model_config,
            "usage": self.usage,
        }


@dataclass(eq=False)
class ResponseSpanData(SpanData):
    """A call of OpenAI's Responses API."""

    response: Any | None = None
    """The client's `Response`."""
    input: str | list[Any] | None = None
    usage: dict[str, Any] | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "response"

    def export(self) -> dict[str, Any]:
        """Return the response's id and usage as a dict."""
        id = self.response.id if self.response is not None else None
        return {"type": self.type, "response_id": id, "usage": self.usage}


@dataclass(eq=False)
class HandoffSpanData(SpanData):
    """A handoff from one agent to another."""

    from_agent: str | None
    to_agent: str | None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "handoff"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {"type": self.type, "from_agent": self.from_agent, "to_agent": self.to_agent}


@dataclass(eq=False)
class CustomSpanData(SpanData):
    """A span of the program's own."""

    name: str
    data: dict[str, Any]

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "custom"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {"type": self.type, "name": self.name, "data": self.data}


@dataclass(eq=False)
class GuardrailSpanData(SpanData):
    """A guardrail's check."""

    name: str
    triggered: bool = False

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "guardrail"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {"type": self.type, "name": self.name, "triggered": self.triggered}


@dataclass(eq=False)
class TranscriptionSpanData(SpanData):
    """Speech turned into text."""

    input: str | None = None
    input_format: str | None = "pcm"
    output: str | None = None
    model: str | None = None
    model_config: Mapping[str, Any] | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "transcription"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {
            "type": self.type,
            "input": {"data": self.input or "", "format": self.input_format},
            "output": self.output,
            "model": self.model,
            "model_config": self.model_config,
        }


@dataclass(eq=False)
class SpeechSpanData(SpanData):
    """Text turned into speech."""

    input: str | None = None
    output: str | None = None
    output_format: str | None = "pcm"
    model: str | None = None
    model_config: Mapping[str, Any] | None = None
    first_content_at: str | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "speech"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {
            "type": self.type,
            "input": self.input,
            "output": {"data": self.output or "", "format": self.output_format},
            "model": self.model,
            "model_config": self.model_config,
            "first_content_at": self.first_content_at,
        }


@dataclass(eq=False)
class SpeechGroupSpanData(SpanData):
    """Several spans of speech that belong together."""

    input: str | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "speech_group"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {"type": self.type, "input": self.input}


@dataclass(eq=False)
class MCPListToolsSpanData(SpanData):
    """The tools that an MCP server lists."""

    server: str | None = None
    result: list[str] | None = None

    @property
    def type(self) -> str:
        """The kind of the span."""
        return "mcp_tools"

    def export(self) -> dict[str, Any]:
        """Return the contents as a dict."""
        return {"type": self.type, "server": self.server, "result": self.result}


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
