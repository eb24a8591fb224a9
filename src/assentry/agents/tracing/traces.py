"""The names of `agents.tracing.traces`: a workflow, which all its runs and spans belong to."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...tracing.settings import is_set_up
from ..absent import find_absent
from .interface import NO_OP, Trace, new_trace_id
from .processor_interface import TracingProcessor
from .scope import Scope

if TYPE_CHECKING:
    from ...tracing.manual_span import ManualSpan

__all__ = ["NoOpTrace", "Trace", "TraceImpl"]

log = logging.getLogger("assentry")


class _CurrentTrace(Trace):
    """A trace that can be the current one."""

    _previous: Token[Trace | None] | None = None

    def __enter__(self) -> Trace:
        self.start(mark_as_current=True)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if exc_type is not GeneratorExit:
            self.finish(reset_current=True)
            return
        self.finish()  # another task may close a generator, and cannot change the current trace of this one
        try:
            self._restore()
        except ValueError:
            log.debug("The current trace is left as it is: it belongs to another task")

    def _restore(self) -> None:
        previous, self._previous = self._previous, None
        if previous is not None:
            Scope.reset_current_trace(previous)


class NoOpTrace(_CurrentTrace):
    """A trace that nobody hears of, because tracing is off."""

    def start(self, mark_as_current: bool = False) -> None:
        """Become the current trace, if asked to."""
        if mark_as_current and self._previous is None:
            self._previous = Scope.set_current_trace(self)

    def finish(self, reset_current: bool = False) -> None:
        """Make the trace before the current one again, if asked to."""
        if reset_current:
            self._restore()

    @property
    def trace_id(self) -> str:
        """The id of all such traces."""
        return NO_OP

    @property
    def name(self) -> str:
        """The name of all such traces."""
        return NO_OP

    @property
    def tracing_api_key(self) -> str | None:
        """No key."""
        return None

    def export(self) -> dict[str, Any] | None:
        """Return None."""
        return None


class TraceImpl(_CurrentTrace):
    """A trace that processors hear of, and OpenTelemetry if the program has set it up."""

    def __init__(
        self,
        name: str,
        trace_id: str | None,
        group_id: str | None,
        metadata: dict[str, Any] | None,
        processor: TracingProcessor,
        tracing_api_key: str | None = None,
        *,
        mirrored: bool = True,
        make_id: Callable[[], str] = new_trace_id,
    ) -> None:
        self._name = name
        self._make_id = make_id
        self._trace_id = trace_id
        self.group_id = group_id
        self.metadata = metadata
        self._processor = processor
        self._tracing_api_key = tracing_api_key
        self._mirrored = mirrored
        """True if this trace is a span of OpenTelemetry; a run's own trace is not, since its run is one."""
        self._started = False
        self.resumed = False
        """True if processors have heard of the trace before: a resumed run goes on with it."""
        self.mirror: ManualSpan | None = None

    @property
    def trace_id(self) -> str:
        """The trace's id: `trace_` and 32 hex digits, unless the program gave another text."""
        if self._trace_id is None:
            self._trace_id = self._make_id()
        return self._trace_id

    @property
    def name(self) -> str:
        """The workflow's name."""
        return self._name

    @property
    def tracing_api_key(self) -> str | None:
        """The key of `tracing={"api_key": ...}`, for processors."""
        return self._tracing_api_key

    def start(self, mark_as_current: bool = False) -> None:
        """Begin the trace; a second start does nothing."""
        if self._started:
            return
        self._started = True
        if self._mirrored and is_set_up():
            self._begin_mirror(mark_as_current)
        if not self.resumed:
            self._processor.on_trace_start(self)
            _remember(self.trace_id)
        if mark_as_current:
            self._previous = Scope.set_current_trace(self)

    def _begin_mirror(self, mark_as_current: bool) -> None:
        from ...tracing.manual_span import begin_span

        attributes = {"gen_ai.workflow.name": self.name} | trace_attributes(self.group_id, self.metadata)
        given = None if self._trace_id is None else hex_id(self._trace_id)
        self.mirror = begin_span(self.name, attributes, trace_id=given)
        if self.mirror is None:
            return
        if self._trace_id is None and self.mirror.trace_id is not None:
            self._trace_id = f"trace_{self.mirror.trace_id}"
        if mark_as_current:
            self.mirror.enter()

    def finish(self, reset_current: bool = False) -> None:
        """End the trace."""
        if not self._started:
            return
        mirror, self.mirror = self.mirror, None
        if mirror is not None:
            if reset_current:
                mirror.leave()
            mirror.end({})
        if not self.resumed:
            self._processor.on_trace_end(self)
        if reset_current:
            self._restore()

    def export(self) -> dict[str, Any] | None:
        """Return the trace as a dict."""
        return {
            "object": "trace",
            "id": self.trace_id,
            "workflow_name": self.name,
            "group_id": self.group_id,
            "metadata": self.metadata,
        }


_heard: dict[str, None] = {}
MOST_HEARD = 4096
"""The number of traces that a process remembers."""


def _remember(trace_id: str) -> None:
    _heard[trace_id] = None
    while len(_heard) > MOST_HEARD:
        del _heard[next(iter(_heard))]


def was_heard(trace_id: str) -> bool:
    """Return True if processors of this process have heard of a trace."""
    return trace_id in _heard


def trace_attributes(group_id: str | None, metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Return the attributes that OpenTelemetry gets of a trace's group and metadata."""
    group = {} if group_id is None else {"gen_ai.conversation.id": group_id}
    return {**group, **{f"assentry.metadata.{key}": value for key, value in (metadata or {}).items()}}


def hex_id(trace_id: str) -> str:
    """Return the 32 hex digits that OpenTelemetry has for a trace id; those of a hash, if the id is another text."""
    digits = trace_id.removeprefix("trace_").lower()
    if re.fullmatch(r"(?!0+$)[0-9a-f]{32}", digits):
        return digits
    return hashlib.sha256(trace_id.encode()).hexdigest()[:32]


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
