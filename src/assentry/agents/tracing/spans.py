"""The names of `agents.tracing.spans`: one operation of a trace."""

from __future__ import annotations

import logging
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...tracing.settings import is_set_up
from ..absent import find_absent
from .interface import NO_OP, Span, SpanError, TSpanData, new_span_id, time_text
from .processor_interface import TracingProcessor
from .scope import Scope

if TYPE_CHECKING:
    from ...tracing.manual_span import ManualSpan

__all__ = ["NoOpSpan", "Span", "SpanError", "SpanImpl", "TSpanData"]

log = logging.getLogger("assentry")


class _CurrentSpan(Span[TSpanData]):
    """A span that can be the current one."""

    def __init__(self, span_data: TSpanData) -> None:
        self._span_data = span_data
        self._previous: Token[Span[Any] | None] | None = None

    @property
    def span_data(self) -> TSpanData:
        """The span's contents, which may be changed until the span ends."""
        return self._span_data

    def __enter__(self) -> Span[TSpanData]:
        self.start(mark_as_current=True)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if exc_type is not GeneratorExit:
            self.finish(reset_current=True)
            return
        self.finish()  # another task may close a generator, and cannot change the current span of this one
        try:
            self._restore()
        except ValueError:
            log.debug("The current span is left as it is: it belongs to another task")

    def _restore(self) -> None:
        previous, self._previous = self._previous, None
        if previous is not None:
            Scope.reset_current_span(previous)


class NoOpSpan(_CurrentSpan[TSpanData]):
    """A span that nobody hears of: tracing is off, or there is no trace."""

    @property
    def trace_id(self) -> str:
        """The id of all such spans."""
        return NO_OP

    @property
    def span_id(self) -> str:
        """The id of all such spans."""
        return NO_OP

    @property
    def parent_id(self) -> str | None:
        """No parent."""
        return None

    def start(self, mark_as_current: bool = False) -> None:
        """Become the current span, if asked to."""
        if mark_as_current and self._previous is None:
            self._previous = Scope.set_current_span(self)

    def finish(self, reset_current: bool = False) -> None:
        """Make the span before the current one again, if asked to."""
        if reset_current:
            self._restore()

    def set_error(self, error: SpanError) -> None:
        """Do nothing."""

    @property
    def error(self) -> SpanError | None:
        """No error."""
        return None

    def export(self) -> dict[str, Any] | None:
        """Return None."""
        return None

    @property
    def started_at(self) -> str | None:
        """No time."""
        return None

    @property
    def ended_at(self) -> str | None:
        """No time."""
        return None

    @property
    def tracing_api_key(self) -> str | None:
        """No key."""
        return None


class SpanImpl(_CurrentSpan[TSpanData]):
    """A span that processors hear of, and OpenTelemetry if the program has set it up."""

    def __init__(
        self,
        trace_id: str,
        span_id: str | None,
        parent_id: str | None,
        processor: TracingProcessor,
        span_data: TSpanData,
        tracing_api_key: str | None,
        trace_metadata: dict[str, Any] | None = None,
        *,
        above: ManualSpan | None = None,
    ) -> None:
        super().__init__(span_data)
        self._trace_id = trace_id
        self._span_id = span_id or new_span_id()
        self._parent_id = parent_id
        self._processor = processor
        self._tracing_api_key = tracing_api_key
        self._trace_metadata = trace_metadata
        self._started_at: str | None = None
        self._ended_at: str | None = None
        self._error: SpanError | None = None
        self.mirrored = True
        """True if this is a span of OpenTelemetry too; those of a run are not, since the run makes its own there."""
        self.mirror: ManualSpan | None = None
        self._above = above

    @property
    def trace_id(self) -> str:
        """The id of the span's trace."""
        return self._trace_id

    @property
    def span_id(self) -> str:
        """The span's id."""
        return self._span_id

    @property
    def parent_id(self) -> str | None:
        """The id of the span above; None directly under the trace."""
        return self._parent_id

    def start(self, mark_as_current: bool = False) -> None:
        """Begin the span; a second start is only logged."""
        if self._started_at is not None:
            log.warning("The span was started before")
            return
        self._started_at = time_text()
        if self.mirrored and is_set_up():
            from ...tracing.manual_span import begin_span

            kind = self._span_data.type
            name = self._span_data.export().get("name")
            self.mirror = begin_span(
                f"{kind} {name}" if name else kind, {"assentry.span.type": kind}, parent=self._above
            )
            if self.mirror is not None and mark_as_current:
                self.mirror.enter()
        self._processor.on_span_start(self)
        if mark_as_current:
            self._previous = Scope.set_current_span(self)

    def finish(self, reset_current: bool = False) -> None:
        """End the span; a second end is only logged."""
        if self._ended_at is not None:
            log.warning("The span was finished before")
            return
        self._ended_at = time_text()
        if self.mirror is not None:
            if reset_current:
                self.mirror.leave()
            self.mirror.end({"assentry.span.data": self._span_data.export()}, self._error and self._error["message"])
        self._processor.on_span_end(self)
        if reset_current:
            self._restore()

    def set_error(self, error: SpanError) -> None:
        """Say that the operation failed."""
        self._error = error

    @property
    def error(self) -> SpanError | None:
        """The error, if the operation failed."""
        return self._error

    @property
    def started_at(self) -> str | None:
        """The time of the start as ISO 8601 text."""
        return self._started_at

    @property
    def ended_at(self) -> str | None:
        """The time of the end as ISO 8601 text."""
        return self._ended_at

    @property
    def tracing_api_key(self) -> str | None:
        """The key of the trace's `tracing={"api_key": ...}`, for processors."""
        return self._tracing_api_key

    @property
    def trace_metadata(self) -> dict[str, Any] | None:
        """The metadata of the span's trace."""
        return self._trace_metadata

    def export(self) -> dict[str, Any] | None:
        """Return the span as a dict."""
        shown: dict[str, Any] = {
            "object": "trace.span",
            "id": self._span_id,
            "trace_id": self._trace_id,
            "parent_id": self._parent_id,
            "started_at": self._started_at,
            "ended_at": self._ended_at,
            "span_data": self._span_data.export(),
            "error": self._error,
        }
        metadata = getattr(self._span_data, "metadata", None)  # only some kinds of contents have any
        return {**shown, "metadata": metadata} if isinstance(metadata, dict) and metadata else shown


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
