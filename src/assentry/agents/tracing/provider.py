"""The names of `agents.tracing.provider`: the maker of traces and spans, and its processors."""

from __future__ import annotations

import functools
import logging
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..absent import find_absent
from .config import TracingConfig
from .interface import NO_OP, Span, Trace, TSpanData, new_span_id, new_trace_id, time_text
from .processor_interface import TracingProcessor
from .scope import Scope
from .spans import NoOpSpan, SpanImpl
from .traces import NoOpTrace, TraceImpl

__all__ = ["DefaultTraceProvider", "SynchronousMultiTracingProcessor", "TraceProvider"]

log = logging.getLogger("assentry")


@functools.cache
def warn_of_key() -> None:
    """Log once that a key for OpenAI is not used."""
    log.warning(
        "Assentry sends no traces to OpenAI, so the tracing key is not used. Set up OpenTelemetry, or add a processor "
        "with add_trace_processor, to send them where you like."
    )


class SynchronousMultiTracingProcessor(TracingProcessor):
    """All processors, one after the other. An exception of one is logged, and the others still hear."""

    def __init__(self) -> None:
        self.processors: tuple[TracingProcessor, ...] = ()

    def add_tracing_processor(self, tracing_processor: TracingProcessor) -> None:
        """Add a processor."""
        self.processors = (*self.processors, tracing_processor)

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        """Replace the processors."""
        self.processors = tuple(processors)

    def on_trace_start(self, trace: Trace) -> None:
        """Tell all of a trace that has begun."""
        self._tell(lambda each: each.on_trace_start(trace))

    def on_trace_end(self, trace: Trace) -> None:
        """Tell all of a trace that is over."""
        self._tell(lambda each: each.on_trace_end(trace))

    def on_span_start(self, span: Span[Any]) -> None:
        """Tell all of a span that has begun."""
        self._tell(lambda each: each.on_span_start(span))

    def on_span_end(self, span: Span[Any]) -> None:
        """Tell all of a span that is over."""
        self._tell(lambda each: each.on_span_end(span))

    def shutdown(self) -> None:
        """Shut all down."""
        self._tell(lambda each: each.shutdown())

    def force_flush(self) -> None:
        """Flush all."""
        self._tell(lambda each: each.force_flush())

    def _tell(self, tell: Callable[[TracingProcessor], None]) -> None:
        for each in self.processors:
            try:
                tell(each)
            except Exception:
                log.warning("A trace processor failed; the program goes on", exc_info=True)


class TraceProvider(ABC):
    """The maker of traces and spans. Subclass it to make your own; see `set_trace_provider`."""

    @abstractmethod
    def register_processor(self, processor: TracingProcessor) -> None:
        """Add a processor."""

    @abstractmethod
    def set_processors(self, processors: list[TracingProcessor]) -> None:
        """Replace the processors."""

    @abstractmethod
    def get_current_trace(self) -> Trace | None:
        """Return the current trace, if there is one."""

    @abstractmethod
    def get_current_span(self) -> Span[Any] | None:
        """Return the current span, if there is one."""

    @abstractmethod
    def set_disabled(self, disabled: bool) -> None:
        """Turn tracing off, or on again."""

    @abstractmethod
    def time_iso(self) -> str:
        """Return the current time as ISO 8601 text."""

    @abstractmethod
    def gen_trace_id(self) -> str:
        """Return a new trace id."""

    @abstractmethod
    def gen_span_id(self) -> str:
        """Return a new span id."""

    @abstractmethod
    def gen_group_id(self) -> str:
        """Return a new group id."""

    @abstractmethod
    def create_trace(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        disabled: bool = False,
        tracing: TracingConfig | None = None,
    ) -> Trace:
        """Return a new trace that is not started."""

    @abstractmethod
    def create_span(
        self,
        span_data: TSpanData,
        span_id: str | None = None,
        parent: Trace | Span[Any] | None = None,
        disabled: bool = False,
    ) -> Span[TSpanData]:
        """Return a new span that is not started."""

    def force_flush(self) -> None:  # noqa: B027 - a provider may have nothing to flush
        """Send now what is not sent yet."""

    def shutdown(self) -> None:  # noqa: B027 - a provider may have nothing to close
        """Send what is left; called as the process exits."""


class DefaultTraceProvider(TraceProvider):
    """The provider of Assentry. It sends nothing anywhere by itself."""

    def __init__(self) -> None:
        self._listeners = SynchronousMultiTracingProcessor()
        self._disabled: bool | None = None

    @property
    def heard(self) -> bool:
        """True if there is a processor."""
        return bool(self._listeners.processors)

    @property
    def disabled(self) -> bool:
        """True if tracing is off, by `set_disabled` or by OPENAI_AGENTS_DISABLE_TRACING, which is read once."""
        if self._disabled is None:
            self._disabled = os.environ.get("OPENAI_AGENTS_DISABLE_TRACING", "").lower() in ("1", "true")
        return self._disabled

    def register_processor(self, processor: TracingProcessor) -> None:
        """Add a processor."""
        self._listeners.add_tracing_processor(processor)

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        """Replace the processors."""
        self._listeners.set_processors(processors)

    def get_current_trace(self) -> Trace | None:
        """Return the current trace, if there is one."""
        return Scope.get_current_trace()

    def get_current_span(self) -> Span[Any] | None:
        """Return the current span, if there is one."""
        return Scope.get_current_span()

    def set_disabled(self, disabled: bool) -> None:
        """Turn tracing off, or on again."""
        self._disabled = disabled

    def time_iso(self) -> str:
        """Return the current time as ISO 8601 text."""
        return time_text()

    def gen_trace_id(self) -> str:
        """Return a new trace id: `trace_` and 32 hex digits."""
        return new_trace_id()

    def gen_span_id(self) -> str:
        """Return a new span id: `span_` and 24 hex digits."""
        return new_span_id()

    def gen_group_id(self) -> str:
        """Return a new group id: `group_` and 24 hex digits."""
        return f"group_{uuid.uuid4().hex[:24]}"

    def create_trace(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        disabled: bool = False,
        tracing: TracingConfig | None = None,
        *,
        mirrored: bool = True,
    ) -> Trace:
        """Return a new trace that is not started; one that nobody hears of if tracing is off."""
        if disabled or self.disabled:
            return NoOpTrace()
        key = tracing.get("api_key") if tracing else None
        if key is not None and not self.heard:
            warn_of_key()
        return TraceImpl(
            name, trace_id, group_id, metadata, self._listeners, key, mirrored=mirrored, make_id=self.gen_trace_id
        )

    def create_span(
        self,
        span_data: TSpanData,
        span_id: str | None = None,
        parent: Trace | Span[Any] | None = None,
        disabled: bool = False,
    ) -> Span[TSpanData]:
        """Return a new span that is not started, under `parent` or where the program is now.

        It is one that nobody hears of if tracing is off, or there is no trace.
        """
        trace, above = (parent, None) if isinstance(parent, Trace) else (Scope.get_current_trace(), parent)
        if parent is None:
            above = Scope.get_current_span()
        owner = above if isinstance(parent, Span) else trace
        off = disabled or self.disabled or span_id == NO_OP or owner is None
        if off or owner is None or owner.trace_id == NO_OP or (above is not None and above.span_id == NO_OP):
            return NoOpSpan(span_data)
        mirrored = parent if isinstance(parent, TraceImpl | SpanImpl) else None
        return SpanImpl(
            owner.trace_id,
            span_id or self.gen_span_id(),
            above.span_id if above is not None else None,
            self._listeners,
            span_data,
            owner.tracing_api_key,
            owner.trace_metadata if isinstance(owner, Span) else getattr(owner, "metadata", None),
            above=mirrored.mirror if mirrored is not None else None,
        )

    def force_flush(self) -> None:
        """Have the processors send now what is not sent yet."""
        self._listeners.force_flush()

    def shutdown(self) -> None:
        """Shut the processors down."""
        self._listeners.shutdown()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
