"""The trace of a run of the skin's agents: the program's current one, or one of the run's own.

OpenTelemetry gets the spans that it gets of any run, if the program has set it up or named a place for them.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from ...core import facts as f
from ...runtime.hook_dispatch import Observer
from ...runtime.scope import Scope as Drive
from ...tracing.settings import Tracing, is_set_up
from ..run_config import RunConfig
from .interface import NO_OP, Trace
from .provider import DefaultTraceProvider
from .run_trace import RunTrace
from .scope import Scope
from .setup import get_trace_provider
from .traces import NoOpTrace, TraceImpl, hex_id, was_heard


@functools.cache
def _default() -> RunConfig:
    return RunConfig()


def observe_run(drive: Drive, began: f.Began, resumed: bool) -> Observer:
    """Return the observer of a drive whose agent is one of the skin's."""
    config = drive.config if isinstance(drive.config, RunConfig) else _default()
    provider, current = get_trace_provider(), Scope.get_current_trace()
    own = provider if isinstance(provider, DefaultTraceProvider) else None
    if config.tracing_disabled or (own is not None and own.disabled):
        return RunTrace(NoOpTrace(), True, None)
    if current is not None and current.trace_id == NO_OP:
        return RunTrace(current, False, None)
    inner = _span_observer(drive, config, current, began, resumed)
    if current is not None:
        trace = current
    else:
        kept = inner.trace if inner is not None else began.trace if resumed else None
        id = config.trace_id or (f"trace_{kept['id']}" if kept else None)
        make = functools.partial(own.create_trace, mirrored=False) if own is not None else provider.create_trace
        trace = make(
            config.workflow_name,
            trace_id=id,
            group_id=config.group_id,
            metadata=config.trace_metadata,
            tracing=config.tracing_config,
        )
        if resumed and isinstance(trace, TraceImpl) and was_heard(trace.trace_id):
            trace.resumed = True
    if own is not None and not own.heard:
        return RunTrace(trace, current is None, inner)
    from .run_spans import RunSpans

    return RunSpans(trace, current is None, inner, drive, config)


def _span_observer(
    drive: Drive, config: RunConfig, current: Trace | None, began: f.Began, resumed: bool
) -> Observer | None:
    """Return the maker of OpenTelemetry's spans; None if the program wants none."""
    given = drive.config.tracing
    if given is None and not is_set_up():
        return None
    from ...runtime.span_observer import SpanObserver
    from ...tracing.manual_span import attribute_value

    metadata = {key: str(attribute_value(value)) for key, value in (config.trace_metadata or {}).items()}
    chosen = current.trace_id if current is not None else config.trace_id
    settings = given or Tracing(include_sensitive_data=config.trace_include_sensitive_data)
    return SpanObserver(
        drive,
        replace(
            settings,
            workflow_name=settings.workflow_name or config.workflow_name,
            group_id=settings.group_id or config.group_id,
            metadata={**metadata, **settings.metadata},
            trace_id=settings.trace_id or (hex_id(chosen) if chosen is not None else None),
        ),
        began,
        resumed,
    )
