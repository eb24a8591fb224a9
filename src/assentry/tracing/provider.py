"""Span providers: one for each endpoint, and a thread that flushes them."""

from __future__ import annotations

import atexit
import functools
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from queue import SimpleQueue
from typing import Any, Protocol

from opentelemetry import trace

log = logging.getLogger("assentry")

EXIT = 3.0
"""The maximum seconds for which the end of the process waits for spans that are not sent yet."""

SECRET = 7
"""The minimum length of a part of a header's value that may be a secret; `Bearer` and `Basic` are shorter."""

_providers: dict[tuple[Any, ...], Any] = {}
_making = threading.Lock()


class Destination(Protocol):
    """The part of `Tracing` that says where spans go."""

    @property
    def endpoint(self) -> str | None: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def tracer_provider(self) -> Any: ...


def provider_of(tracing: Destination) -> Any:
    """Return the span provider: the user's, the global one, or the process's own for this endpoint."""
    if tracing.tracer_provider is not None:
        return tracing.tracer_provider
    if tracing.endpoint is None:
        return trace.get_tracer_provider()
    key = tracing.endpoint, tracing.api_key, *sorted(tracing.headers.items())
    flush_thread()
    with _making:
        if key not in _providers:
            _providers[key] = _provider(tracing)
        return _providers[key]


def _provider(tracing: Destination) -> Any:
    from opentelemetry.exporter.otlp.proto.http import trace_exporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    headers = dict(tracing.headers)
    if tracing.api_key is not None:
        headers["authorization"] = f"Bearer {tracing.api_key}"
    logging.getLogger(trace_exporter.__name__).addFilter(SecretFilter(headers.values()))
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "assentry"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = trace_exporter.OTLPSpanExporter(tracing.endpoint, headers=headers)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class SecretFilter(logging.Filter):
    """A log filter that removes secrets from the exporter's log, which repeats the receiver's responses."""

    def __init__(self, values: Iterable[str]) -> None:
        super().__init__()
        parts = {part for value in values for part in value.split() if len(part) >= SECRET}
        self.secrets = sorted(parts, key=len, reverse=True)

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove the secrets from a record and let it pass."""
        said = record.getMessage()
        words = functools.reduce(lambda text, secret: text.replace(secret, "***"), self.secrets, said)
        if words != said:
            record.msg, record.args = words, None
        return True


# -- flushing ----------------------------------------------------------------------------------------


class FlushThread:
    """A thread that flushes providers, so that no caller waits longer than its timeout.

    The thread lives as long as the process, because no thread can be started any more when the process ends.
    """

    def __init__(self) -> None:
        self.orders: SimpleQueue[tuple[Any, int, list[bool], threading.Event]] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="assentry-flush", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while True:
            provider, milliseconds, taken, done = self.orders.get()
            try:
                taken.append(provider.force_flush(milliseconds))
            except Exception:
                log.warning("Spans could not be flushed", exc_info=True)
            done.set()

    def flush(self, provider: Any, timeout: float) -> bool:
        """Send a provider's spans; return True if that was done within the timeout."""
        taken: list[bool] = []
        done = threading.Event()
        self.orders.put((provider, int(timeout * 1000), taken, done))
        return done.wait(timeout) and taken == [True]


_flush_thread: FlushThread | None = None


def flush_thread() -> FlushThread:
    """Return the process's courier; after a fork the child gets its own."""
    global _flush_thread
    with _making:
        if _flush_thread is None or not _flush_thread.thread.is_alive():
            _flush_thread = FlushThread()
        return _flush_thread


def flush(tracing: Destination, timeout: float) -> bool:
    """Send the spans that are not sent yet; return True if that was done within the timeout."""
    provider = provider_of(tracing)
    if not hasattr(provider, "force_flush"):  # such a provider keeps no spans back
        return True
    return flush_thread().flush(provider, timeout)


@atexit.register
def _leave() -> None:
    end = time.monotonic() + EXIT
    if _flush_thread is not None and _flush_thread.thread.is_alive():
        for provider in _providers.values():
            _flush_thread.flush(provider, max(0.0, end - time.monotonic()))
