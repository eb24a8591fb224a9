"""The names of `agents.tracing`: traces and spans, over OpenTelemetry, and for processors written for the SDK.

Nothing is sent anywhere unless the program adds a processor, or sets up OpenTelemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...tracing.settings import Tracing, is_set_up
from ..absent import find_absent
from .config import TracingConfig
from .context import TraceCtxManager
from .create import (
    agent_span,
    custom_span,
    function_span,
    generation_span,
    get_current_span,
    get_current_trace,
    guardrail_span,
    handoff_span,
    mcp_tools_span,
    response_span,
    speech_group_span,
    speech_span,
    task_span,
    trace,
    transcription_span,
    turn_span,
)
from .processor_interface import TracingProcessor
from .provider import TraceProvider, warn_of_key
from .setup import get_trace_provider, set_trace_provider
from .span_data import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpanData,
    SpeechGroupSpanData,
    SpeechSpanData,
    TaskSpanData,
    TranscriptionSpanData,
    TurnSpanData,
)
from .spans import Span, SpanError
from .traces import Trace
from .util import gen_span_id, gen_trace_id

__all__ = [
    "AgentSpanData",
    "CustomSpanData",
    "FunctionSpanData",
    "GenerationSpanData",
    "GuardrailSpanData",
    "HandoffSpanData",
    "MCPListToolsSpanData",
    "ResponseSpanData",
    "Span",
    "SpanData",
    "SpanError",
    "SpeechGroupSpanData",
    "SpeechSpanData",
    "TaskSpanData",
    "Trace",
    "TraceCtxManager",
    "TraceProvider",
    "TracingConfig",
    "TracingProcessor",
    "TranscriptionSpanData",
    "TurnSpanData",
    "add_trace_processor",
    "agent_span",
    "custom_span",
    "flush_traces",
    "function_span",
    "gen_span_id",
    "gen_trace_id",
    "generation_span",
    "get_current_span",
    "get_current_trace",
    "get_trace_provider",
    "guardrail_span",
    "handoff_span",
    "mcp_tools_span",
    "response_span",
    "set_trace_processors",
    "set_trace_provider",
    "set_tracing_disabled",
    "set_tracing_export_api_key",
    "speech_group_span",
    "speech_span",
    "task_span",
    "trace",
    "transcription_span",
    "turn_span",
]


def add_trace_processor(span_processor: TracingProcessor) -> None:
    """Add a processor, which hears of all traces and spans from now on."""
    get_trace_provider().register_processor(span_processor)


def set_trace_processors(processors: list[TracingProcessor]) -> None:
    """Replace the processors."""
    get_trace_provider().set_processors(processors)


def set_tracing_disabled(disabled: bool) -> None:
    """Turn tracing off for the whole process, or on again."""
    get_trace_provider().set_disabled(disabled)


def set_tracing_export_api_key(api_key: str) -> None:
    """Log that the key is not used: no traces are sent to OpenAI."""
    warn_of_key()


def flush_traces() -> None:
    """Send now what processors and OpenTelemetry have not sent yet."""
    get_trace_provider().force_flush()
    if is_set_up():
        Tracing().flush()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
