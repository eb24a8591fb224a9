"""A local server that speaks OpenAI's Responses protocol: what to answer is a script, and what was asked is kept."""

import json
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Item = dict[str, Any]
Answer = Callable[["Exchange"], None]


@dataclass
class Asked:
    """A request as it came over the wire."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    port: int
    """The client's: the same for all requests of one connection."""


@dataclass
class Exchange:
    """One request that is being answered, in a thread of its own."""

    handler: BaseHTTPRequestHandler
    server: "OpenAIServer"

    def begin(self) -> None:
        """The head of a stream."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()

    def write(self, data: bytes) -> None:
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def send(self, events: Iterable[Item]) -> None:
        """Events, numbered as OpenAI numbers them."""
        for event in events:
            data = json.dumps({"sequence_number": self.server.count(), **event})
            self.write(f"event: {event['type']}\ndata: {data}\n\n".encode())

    def end(self) -> None:
        self.write(b"")

    def drop(self) -> None:
        """Break the line in the middle."""
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RDWR)

    def until_gone(self) -> None:
        """Wait until the client has closed the line, and say so."""
        with suppress(ConnectionError):
            self.handler.rfile.read(1)
        self.handler.close_connection = True
        self.server.gone.set()


@dataclass
class OpenAIServer:
    """Gives one answer after another; with none left it fails the test by a status that nobody expects."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    judge: Callable[[Asked], str | None] = lambda asked: None
    """What is wrong with a request, if anything; it is then refused with status 400."""
    gone: threading.Event = field(default_factory=threading.Event)
    """Whether a client has closed the line on an answer that was not at its end."""
    url: str = ""
    _count: int = 0

    def count(self) -> int:
        self._count += 1
        return self._count

    def script(self, *answers: Answer) -> None:
        self.answers += answers

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [each.body for each in self.asked]

    def __enter__(self) -> "OpenAIServer":
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.path, headers, json.loads(data), self.client_address[1])
                server.asked.append(asked)
                wrong = server.judge(asked)
                if wrong:
                    answer = refusing(400, wrong)
                else:
                    answer = server.answers.pop(0) if server.answers else refusing(418, "there is no answer left")
                with suppress(ConnectionError):
                    answer(Exchange(self, server))

            def log_message(self, format: str, *args: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True  # a client may keep its connection open

            def handle_error(self, request: Any, client_address: Any) -> None: ...

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


# -- items ---------------------------------------------------------------------------------------------


def message(text: str, id: str = "msg_1") -> Item:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": id, "type": "message", "status": "completed", "role": "assistant", "content": content}


def refusal(text: str) -> Item:
    content = [{"type": "refusal", "refusal": text}]
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}


def calling(name: str, arguments: dict[str, Any], call_id: str = "call_1") -> Item:
    text = json.dumps(arguments)
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "status": "completed",
        "arguments": text,
        "call_id": call_id,
        "name": name,
    }


def thought(id: str = "rs_1", **more: Any) -> Item:
    return {"id": id, "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], **more}


USAGE = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 60},
    "total_tokens": 123,
}


def response(*items: Item, id: str = "resp_1", **more: Any) -> Item:
    """A response, as it is at the end of a stream."""
    return {
        "id": id,
        "object": "response",
        "created_at": 1754000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5.2-2026-01-01",
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
        **more,
    }


# -- answers -------------------------------------------------------------------------------------------


def deltas(items: Iterable[Item]) -> Iterable[Item]:
    """How items are told of before they are complete."""
    for index, item in enumerate(items):
        where = {"item_id": item["id"], "output_index": index}
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}}
        for part in item.get("content") or ():
            kind, key = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
            for word in part[key].split(" "):
                yield {"type": f"response.{kind}.delta", **where, "content_index": 0, "delta": f"{word} "}
        if item["type"] == "function_call":
            yield {"type": "response.function_call_arguments.delta", **where, "delta": item["arguments"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


def begun(id: str = "resp_1") -> Item:
    return {"type": "response.created", "response": response(id=id, status="in_progress", usage=None)}


def replying(*items: Item, id: str = "resp_1", **more: Any) -> Answer:
    """A whole stream, and a complete reply."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        exchange.send([begun(id), *deltas(items)])
        exchange.send([{"type": "response.completed", "response": response(*items, id=id, **more)}])
        exchange.end()

    return answer


def saying(text: str, id: str = "resp_1") -> Answer:
    return replying(message(text), id=id)


def telling(*events: Item) -> Answer:
    """A stream of just these events, and its end."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        exchange.send(events)
        exchange.end()

    return answer


def endless(exchange: Exchange) -> None:
    """A stream that goes on until its reader leaves."""
    exchange.begin()
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    exchange.send([begun(), {"type": "response.output_text.delta", **where, "delta": "And "}])
    exchange.until_gone()


def refusing(status: int, text: str, code: str | None = None, **headers: str) -> Answer:
    """An HTTP error."""

    def answer(exchange: Exchange) -> None:
        body = json.dumps({"error": {"message": text, "type": "some_error", "param": None, "code": code}}).encode()
        handler = exchange.handler
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer
