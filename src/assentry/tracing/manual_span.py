"""Spans that a program begins itself, through OpenTelemetry's global provider. An error in here is only logged."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.json import encode
from opentelemetry import context, trace
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags

from ..version import __version__

log = logging.getLogger("assentry")


class ManualSpan:
    """A span from `begin_span` to `end`. It is the current one of OpenTelemetry between `enter` and `leave`."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._token: Any = None

    @property
    def trace_id(self) -> str | None:
        """The id of the trace as 32 hex digits; None if nothing is recorded."""
        found = self.span.get_span_context()
        return trace.format_trace_id(found.trace_id) if found.is_valid else None

    def enter(self) -> None:
        """Make this the current span."""
        self._token = context.attach(trace.set_span_in_context(self.span))

    def leave(self) -> None:
        """Make the span before the current one again."""
        if self._token is not None:
            context.detach(self._token)
            self._token = None

    def end(self, attributes: Mapping[str, Any], error: str | None = None) -> None:
        """End the span with these attributes, and with an error's text if it failed."""
        try:
            self.span.set_attributes({name: attribute_value(value) for name, value in attributes.items()})
            if error is not None:
                self.span.set_status(Status(StatusCode.ERROR, error))
            self.span.end()
        except Exception:
            log.warning("A span could not be ended; the program goes on", exc_info=True)


def begin_span(
    name: str, attributes: Mapping[str, Any], *, trace_id: str | None = None, parent: ManualSpan | None = None
) -> ManualSpan | None:
    """Begin a span under `parent`, or under the current span; None if it cannot be begun.

    A `trace_id`, of 32 hex digits, begins a trace with this id, unless the current span is in that trace.
    """
    try:
        provider = trace.get_tracer_provider()
        root = chosen_root(provider, trace_id, name)
        here = trace.get_current_span().get_span_context()
        links: Sequence[Link] = [Link(here)] if root is not None and here.is_valid else ()
        above = NonRecordingSpan(root) if root is not None else parent.span if parent is not None else None
        where = trace.set_span_in_context(above) if above is not None else None
        shown = {key: attribute_value(value) for key, value in attributes.items()}
        tracer = provider.get_tracer("assentry", __version__)
        return ManualSpan(tracer.start_span(name, where, attributes=shown, links=links))
    except Exception:
        log.warning("A span could not be begun; the program goes on without it", exc_info=True)
        return None


def chosen_root(provider: Any, trace_id: str | None, name: str) -> SpanContext | None:
    """Return the parent of a trace's first span that gives it a chosen id; None if the current span is in the trace.

    The provider's own sampler says if the trace is recorded: a parent would otherwise decide for it.
    """
    if trace_id is None or trace.get_current_span().get_span_context().trace_id == int(trace_id, 16):
        return None
    number = int(trace_id, 16)
    sampler = getattr(provider, "sampler", None)  # a provider that is not of OpenTelemetry's SDK need not have one
    sampled = sampler is None or sampler.should_sample(None, number, name).decision.is_sampled()
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(number, secrets.randbits(63) + 1, is_remote=True, trace_flags=flags)


def attribute_value(value: Any) -> Any:
    """Return a value that an attribute may have: text, numbers and truth as they are, all else as JSON text."""
    if isinstance(value, str | bool | int | float):
        return value
    return encode(value, enc_hook=repr).decode()
