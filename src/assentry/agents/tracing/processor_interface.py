"""The names of `agents.tracing.processor_interface`: what a program implements to hear of traces and spans."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from ..absent import find_absent
from .interface import Span, Trace

__all__ = ["TracingExporter", "TracingProcessor"]


class TracingProcessor(abc.ABC):
    """A listener for traces and spans, in the process and thread that makes them. An exception of it is only logged."""

    @abc.abstractmethod
    def on_trace_start(self, trace: Trace) -> None:
        """Hear of a trace that has begun."""

    @abc.abstractmethod
    def on_trace_end(self, trace: Trace) -> None:
        """Hear of a trace that is over."""

    @abc.abstractmethod
    def on_span_start(self, span: Span[Any]) -> None:
        """Hear of a span that has begun."""

    @abc.abstractmethod
    def on_span_end(self, span: Span[Any]) -> None:
        """Hear of a span that is over."""

    @abc.abstractmethod
    def shutdown(self) -> None:
        """Send what is left; called as the process exits."""

    @abc.abstractmethod
    def force_flush(self) -> None:
        """Send now what is not sent yet."""


class TracingExporter(abc.ABC):
    """A destination for traces and spans; see `BatchTraceProcessor`."""

    @abc.abstractmethod
    def export(self, items: list[Trace | Span[Any]]) -> None:
        """Send or write these traces and spans."""


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
