"""The names of `agents.tracing.util`: times and ids of traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..absent import find_absent
from .setup import get_trace_provider

__all__ = ["gen_group_id", "gen_span_id", "gen_trace_id", "time_iso"]


def time_iso() -> str:
    """Return the current time as ISO 8601 text."""
    return get_trace_provider().time_iso()


def gen_trace_id() -> str:
    """Return a new trace id: `trace_` and 32 hex digits, which are the id of the trace in OpenTelemetry."""
    return get_trace_provider().gen_trace_id()


def gen_span_id() -> str:
    """Return a new span id."""
    return get_trace_provider().gen_span_id()


def gen_group_id() -> str:
    """Return a new group id."""
    return get_trace_provider().gen_group_id()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
