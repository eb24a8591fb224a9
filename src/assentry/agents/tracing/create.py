"""The names of `agents.tracing.create`: functions that make traces and spans, and find the current ones.

None of them starts what it makes: use it as a context manager, or call `start` and `finish`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..absent import find_absent
from .config import TracingConfig
from .setup import get_trace_provider
from .span_data import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpeechGroupSpanData,
    SpeechSpanData,
    TaskSpanData,
    TranscriptionSpanData,
    TurnSpanData,
)
from .spans import Span
from .traces import Trace

__all__ = [
    "agent_span",
    "custom_span",
    "function_span",
    "generation_span",
    "get_current_span",
    "get_current_trace",
    "guardrail_span",
    "handoff_span",
    "mcp_tools_span",
    "response_span",
    "speech_group_span",
    "speech_span",
    "task_span",
    "trace",
    "transcription_span",
    "turn_span",
]

log = logging.getLogger("assentry")


def trace(
    workflow_name: str,
    trace_id: str | None = None,
    group_id: str | None = None,
    metadata: dict[str, Any] | None = None,
    tracing: TracingConfig | None = None,
    disabled: bool = False,
) -> Trace:
    """Return a new trace. Runs and spans that begin while it is the current one belong to it.

    Args:
        workflow_name: The name of the workflow.
        trace_id: The trace's id, as `gen_trace_id` makes them; by default a new one.
        group_id: The group of the trace, such as a conversation.
        metadata: More about the trace.
        tracing: The options of the trace.
        disabled: True for a trace that nobody hears of.
    """
    provider = get_trace_provider()
    if provider.get_current_trace() is not None:
        log.warning("A trace begins inside another one, which is probably a mistake")
    return provider.create_trace(
        name=workflow_name,
        trace_id=trace_id,
        group_id=group_id,
        metadata=metadata,
        tracing=tracing,
        disabled=disabled,
    )


def get_current_trace() -> Trace | None:
    """Return the current trace, if there is one."""
    return get_trace_provider().get_current_trace()


def get_current_span() -> Span[Any] | None:
    """Return the current span, if there is one."""
    return get_trace_provider().get_current_span()


def agent_span(
    name: str,
    handoffs: list[str] | None = None,
    tools: list[str] | None = None,
    output_type: str | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[AgentSpanData]:
    """Return a new span for a period in which one agent is active."""
    contents = AgentSpanData(name=name, handoffs=handoffs, tools=tools, output_type=output_type)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def task_span(
    name: str,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[TaskSpanData]:
    """Return a new span for a run."""
    contents = TaskSpanData(name=name)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def turn_span(
    turn: int,
    agent_name: str,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[TurnSpanData]:
    """Return a new span for a turn of an agent."""
    contents = TurnSpanData(turn=turn, agent_name=agent_name)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def function_span(
    name: str,
    input: str | None = None,
    output: str | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[FunctionSpanData]:
    """Return a new span for a call of a tool."""
    contents = FunctionSpanData(name=name, input=input, output=output)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def generation_span(
    input: Sequence[Mapping[str, Any]] | None = None,
    output: Sequence[Mapping[str, Any]] | None = None,
    model: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[GenerationSpanData]:
    """Return a new span for a model call, with its messages."""
    contents = GenerationSpanData(input=input, output=output, model=model, model_config=model_config, usage=usage)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def response_span(
    response: Any | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[ResponseSpanData]:
    """Return a new span for a call of OpenAI's Responses API."""
    contents = ResponseSpanData(response=response)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def handoff_span(
    from_agent: str | None = None,
    to_agent: str | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[HandoffSpanData]:
    """Return a new span for a handoff."""
    contents = HandoffSpanData(from_agent=from_agent, to_agent=to_agent)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def custom_span(
    name: str,
    data: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[CustomSpanData]:
    """Return a new span for an operation of the program's own."""
    contents = CustomSpanData(name=name, data=data or {})
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def guardrail_span(
    name: str,
    triggered: bool = False,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[GuardrailSpanData]:
    """Return a new span for a guardrail's check."""
    contents = GuardrailSpanData(name=name, triggered=triggered)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def transcription_span(
    model: str | None = None,
    input: str | None = None,
    input_format: str | None = "pcm",
    output: str | None = None,
    model_config: Mapping[str, Any] | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[TranscriptionSpanData]:
    """Return a new span for speech that is turned into text."""
    contents = TranscriptionSpanData(
        model=model, input=input, input_format=input_format, output=output, model_config=model_config
    )
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def speech_span(
    model: str | None = None,
    input: str | None = None,
    output: str | None = None,
    output_format: str | None = "pcm",
    model_config: Mapping[str, Any] | None = None,
    first_content_at: str | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[SpeechSpanData]:
    """Return a new span for text that is turned into speech."""
    contents = SpeechSpanData(
        model=model,
        input=input,
        output=output,
        output_format=output_format,
        model_config=model_config,
        first_content_at=first_content_at,
    )
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def speech_group_span(
    input: str | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[SpeechGroupSpanData]:
    """Return a new span for several spans of speech."""
    contents = SpeechGroupSpanData(input=input)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


def mcp_tools_span(
    server: str | None = None,
    result: list[str] | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[MCPListToolsSpanData]:
    """Return a new span for the tools that an MCP server lists."""
    contents = MCPListToolsSpanData(server=server, result=result)
    return get_trace_provider().create_span(contents, span_id, parent, disabled)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
