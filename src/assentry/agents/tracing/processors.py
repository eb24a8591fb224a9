"""The names of `agents.tracing.processors`: a processor that sends in batches, and an exporter that prints."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from ..absent import find_absent
from .processor_interface import TracingExporter, TracingProcessor
from .spans import Span
from .traces import Trace

__all__ = ["BatchTraceProcessor", "ConsoleSpanExporter"]

log = logging.getLogger("assentry")


class ConsoleSpanExporter(TracingExporter):
    """Prints traces and spans."""

    def export(self, items: list[Trace | Span[Any]]) -> None:
        """Print these traces and spans, each on a line."""
        for item in items:
            if isinstance(item, Trace):
                sys.stdout.write(f"[Exporter] Export trace_id={item.trace_id}, name={item.name}\n")
            else:
                sys.stdout.write(f"[Exporter] Export span: {item.export()}\n")


class BatchTraceProcessor(TracingProcessor):
    """Gives traces as they begin, and spans as they end, to an exporter, in batches and in a thread of its own."""

    def __init__(
        self,
        exporter: TracingExporter,
        max_queue_size: int = 8192,
        max_batch_size: int = 128,
        schedule_delay: float = 5.0,
        export_trigger_ratio: float = 0.7,
    ) -> None:
        self._exporter = exporter
        self._most = max_queue_size
        self._batch = max_batch_size
        self._delay = schedule_delay
        self._trigger = max(1, int(max_queue_size * export_trigger_ratio))
        self._waiting: deque[Trace | Span[Any]] = deque()
        self._changed = threading.Condition()
        self._exporting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._over = False

    def on_trace_start(self, trace: Trace) -> None:
        """Keep a trace for the next batch."""
        self._keep(trace)

    def on_trace_end(self, trace: Trace) -> None:
        """Do nothing: a trace is sent when it begins."""

    def on_span_start(self, span: Span[Any]) -> None:
        """Do nothing: a span is sent when it ends."""

    def on_span_end(self, span: Span[Any]) -> None:
        """Keep a span for the next batch."""
        self._keep(span)

    def shutdown(self, timeout: float | None = None) -> None:
        """Send what is left, and end the thread."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)
        if self._thread is None or not self._thread.is_alive():
            self.force_flush()

    def force_flush(self) -> None:
        """Send now what is not sent yet."""
        with self._exporting:
            while batch := self._next_batch():
                try:
                    self._exporter.export(batch)
                except Exception:
                    log.warning("%d traces and spans could not be exported", len(batch), exc_info=True)

    def _keep(self, item: Trace | Span[Any]) -> None:
        with self._changed:
            if len(self._waiting) >= self._most:
                log.warning("A trace or span is dropped: %d are waiting to be exported", self._most)
                return
            self._waiting.append(item)
            if self._thread is None or not self._thread.is_alive():  # after a fork the child begins its own
                self._thread = threading.Thread(target=self._work, name="assentry-traces", daemon=True)
                self._thread.start()
            if len(self._waiting) >= self._trigger:
                self._changed.notify_all()

    def _next_batch(self) -> list[Trace | Span[Any]]:
        with self._changed:
            return [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]

    def _work(self) -> None:
        while not self._over:
            with self._changed:
                self._changed.wait_for(lambda: self._over or len(self._waiting) >= self._trigger, self._delay)
            self.force_flush()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
