"""The names of `agents.tracing.context`."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..absent import find_absent
from .config import TracingConfig
from .create import get_current_trace
from .setup import get_trace_provider
from .traces import Trace

__all__ = ["TraceCtxManager"]


class TraceCtxManager:
    """A context manager that begins a trace if there is none, or hides the current one with `disabled`."""

    def __init__(
        self,
        workflow_name: str,
        trace_id: str | None,
        group_id: str | None,
        metadata: dict[str, Any] | None,
        tracing: TracingConfig | None,
        disabled: bool,
    ) -> None:
        self.trace: Trace | None = None
        self.workflow_name = workflow_name
        self.trace_id = trace_id
        self.group_id = group_id
        self.metadata = metadata
        self.tracing = tracing
        self.disabled = disabled

    def __enter__(self) -> TraceCtxManager:
        if self.disabled or get_current_trace() is None:
            self.trace = get_trace_provider().create_trace(
                self.workflow_name, self.trace_id, self.group_id, self.metadata, self.disabled, self.tracing
            )
            self.trace.start(mark_as_current=True)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if self.trace is not None:
            self.trace.__exit__(exc_type, exc_val, exc_tb)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
