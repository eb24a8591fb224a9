"""A local OTLP/HTTP receiver for tests, and what it received as a tree that can be read."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assentry.tracing import provider


@dataclass
class Span:
    """A span as it came over the wire."""

    name: str
    id: str
    parent: str
    trace: str
    start: int
    end: int
    failed: bool
    words: str
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    links: list[str]
    resource: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]


def value(any_value: Any) -> Any:
    return getattr(any_value, any_value.WhichOneof("value"))


def pairs(attributes: Any) -> dict[str, Any]:
    return {each.key: value(each.value) for each in attributes}


def spans_of(body: bytes) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Span(
            span.name,
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.trace_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.status.code == 2,
            span.status.message,
            pairs(span.attributes),
            [(event.name, pairs(event.attributes)) for event in span.events],
            [link.trace_id.hex() for link in span.links],
            pairs(resource.resource.attributes),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@dataclass
class Receiver:
    """Takes spans over HTTP, as a collector does."""

    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    answer: Callable[[dict[str, str]], tuple[int, str]] = lambda headers: (200, "OK")
    """The status and its words, made of the request's headers; it may take its time."""
    url: str = ""

    def __enter__(self) -> "Receiver":
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                headers = {name.lower(): text for name, text in self.headers.items()}
                body = self.rfile.read(int(headers["content-length"]))
                status, words = receiver.answer(headers)
                receiver.paths.append(self.path)
                receiver.headers.append(headers)
                receiver.bodies.append(body)
                self.send_response(status, words)
                self.end_headers()
                self.wfile.write(words.encode())

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        for key in [key for key in provider._providers if key[0].startswith(self.url)]:
            provider._providers.pop(key).shutdown()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def spans(self) -> list[Span]:
        """What was received so far, in the order in which it began."""
        return sorted((span for body in self.bodies for span in spans_of(body)), key=lambda span: span.start)

    def named(self, name: str) -> Span:
        """The one span of this name."""
        [span] = [span for span in self.spans if span.name == name]
        return span


def tree(spans: list[Span]) -> list[str]:
    """The names of spans, each indented under its parent; a parent that is not there is no parent."""
    known = {span.id for span in spans}

    def under(parent: Span | None, depth: int) -> list[str]:
        inside = [s for s in spans if (s.parent == parent.id if parent else s.parent not in known)]
        return [line for s in inside for line in ["  " * depth + s.name, *under(s, depth + 1)]]

    return under(None, 0)
