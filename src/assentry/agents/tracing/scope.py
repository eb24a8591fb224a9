"""The names of `agents.tracing.scope`: the current trace and the current span of a task or thread."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from ..absent import find_absent
from .interface import Span, Trace

__all__ = ["Scope"]

_current_span: ContextVar[Span[Any] | None] = ContextVar("assentry_current_span", default=None)
_current_trace: ContextVar[Trace | None] = ContextVar("assentry_current_trace", default=None)


class Scope:
    """The current trace and span. A new asyncio task begins with those of the code that made it."""

    @classmethod
    def get_current_span(cls) -> Span[Any] | None:
        """Return the current span, if there is one."""
        return _current_span.get()

    @classmethod
    def set_current_span(cls, span: Span[Any] | None) -> Token[Span[Any] | None]:
        """Make a span the current one."""
        return _current_span.set(span)

    @classmethod
    def reset_current_span(cls, token: Token[Span[Any] | None]) -> None:
        """Make the span before the current one again."""
        _current_span.reset(token)

    @classmethod
    def get_current_trace(cls) -> Trace | None:
        """Return the current trace, if there is one."""
        return _current_trace.get()

    @classmethod
    def set_current_trace(cls, trace: Trace | None) -> Token[Trace | None]:
        """Make a trace the current one."""
        return _current_trace.set(trace)

    @classmethod
    def reset_current_trace(cls, token: Token[Trace | None]) -> None:
        """Make the trace before the current one again."""
        _current_trace.reset(token)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
