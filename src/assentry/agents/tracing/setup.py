"""The names of `agents.tracing.setup`: the one provider of traces and spans."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from ..absent import find_absent
from .provider import DefaultTraceProvider, TraceProvider

__all__ = ["get_trace_provider", "set_trace_provider"]

_provider: TraceProvider | None = None


def set_trace_provider(provider: TraceProvider) -> None:
    """Make another provider the one that makes all traces and spans."""
    global _provider
    _provider = provider


def get_trace_provider() -> TraceProvider:
    """Return the provider of traces and spans. The default one sends nothing anywhere."""
    global _provider
    if _provider is None:
        _provider = DefaultTraceProvider()
    return _provider


@atexit.register
def _leave() -> None:
    if _provider is not None:
        _provider.shutdown()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
