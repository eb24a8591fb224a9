"""A trace and a span, as everybody else knows them. Their implementations do not belong here."""

from __future__ import annotations

import abc
import uuid
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Generic

from typing_extensions import TypedDict, TypeVar

from .span_data import SpanData

NO_OP = "no-op"
"""The id of traces and spans that nobody hears of."""
TSpanData = TypeVar("TSpanData", bound=SpanData)


def time_text() -> str:
    """Return the current time as ISO 8601 text."""
    return datetime.now(UTC).isoformat()


def new_trace_id() -> str:
    """Return a new trace id: `trace_` and 32 hex digits."""
    return f"trace_{uuid.uuid4().hex}"


def new_span_id() -> str:
    """Return a new span id: `span_` and 24 hex digits."""
    return f"span_{uuid.uuid4().hex[:24]}"


class Trace(abc.ABC):
    """A workflow. Use it as a context manager, or call `start` and `finish`.

    Runs and spans that begin while it is the current trace belong to it.
    """

    @abc.abstractmethod
    def __enter__(self) -> Trace: ...

    @abc.abstractmethod
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None: ...

    @abc.abstractmethod
    def start(self, mark_as_current: bool = False) -> None:
        """Begin the trace; with `mark_as_current` it becomes the current one."""

    @abc.abstractmethod
    def finish(self, reset_current: bool = False) -> None:
        """End the trace; with `reset_current` the trace before becomes the current one again."""

    @property
    @abc.abstractmethod
    def trace_id(self) -> str:
        """The trace's id: `trace_` and 32 hex digits."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The workflow's name."""

    @abc.abstractmethod
    def export(self) -> dict[str, Any] | None:
        """Return the trace as a dict; None if nobody hears of it."""

    @property
    @abc.abstractmethod
    def tracing_api_key(self) -> str | None:
        """The key of `tracing={"api_key": ...}`, for processors."""

    def to_json(self, *, include_tracing_api_key: bool = False) -> dict[str, Any] | None:
        """Return the trace as a dict, with the key only if asked for; None if nobody hears of it."""
        shown = self.export()
        if shown is not None and include_tracing_api_key and self.tracing_api_key:
            return {**shown, "tracing_api_key": self.tracing_api_key}
        return shown


class SpanError(TypedDict):
    """An error of an operation: a text, and more about it."""

    message: str
    data: dict[str, Any] | None


class Span(abc.ABC, Generic[TSpanData]):
    """One operation. Use it as a context manager, or call `start` and `finish`."""

    @property
    @abc.abstractmethod
    def trace_id(self) -> str:
        """The id of the span's trace."""

    @property
    @abc.abstractmethod
    def span_id(self) -> str:
        """The span's id."""

    @property
    @abc.abstractmethod
    def span_data(self) -> TSpanData:
        """The span's contents, which may be changed until the span ends."""

    @abc.abstractmethod
    def start(self, mark_as_current: bool = False) -> None:
        """Begin the span; with `mark_as_current` it becomes the current one."""

    @abc.abstractmethod
    def finish(self, reset_current: bool = False) -> None:
        """End the span; with `reset_current` the span before becomes the current one again."""

    @abc.abstractmethod
    def __enter__(self) -> Span[TSpanData]: ...

    @abc.abstractmethod
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None: ...

    @property
    @abc.abstractmethod
    def parent_id(self) -> str | None:
        """The id of the span above; None directly under the trace."""

    @abc.abstractmethod
    def set_error(self, error: SpanError) -> None:
        """Say that the operation failed."""

    @property
    @abc.abstractmethod
    def error(self) -> SpanError | None:
        """The error, if the operation failed."""

    @abc.abstractmethod
    def export(self) -> dict[str, Any] | None:
        """Return the span as a dict; None if nobody hears of it."""

    @property
    @abc.abstractmethod
    def started_at(self) -> str | None:
        """The time of the start as ISO 8601 text."""

    @property
    @abc.abstractmethod
    def ended_at(self) -> str | None:
        """The time of the end as ISO 8601 text."""

    @property
    @abc.abstractmethod
    def tracing_api_key(self) -> str | None:
        """The key of the trace's `tracing={"api_key": ...}`, for processors."""

    @property
    def trace_metadata(self) -> dict[str, Any] | None:
        """The metadata of the span's trace."""
        return None
