"""A local server of OpenAI's Conversations API. It refuses what the API would refuse."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)


class ConversationsServer:
    """Conversations and their items, oldest first; `failing` is the status of every answer while it is set."""

    def __init__(self) -> None:
        self.items: dict[str, list[dict[str, Any]]] = {}
        self.writes: list[int] = []
        self.failing: int | None = None
        self.url = ""
        self._number = 0
        self._lock = threading.Lock()

    def new_id(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}_{self._number:06}"

    def answer(self, method: str, url: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(url)
        with self._lock:
            if self.failing is not None:
                return self.failing, {"error": {"message": "Not now.", "type": "server_error"}}
            if (method, parts.path) == ("POST", "/v1/conversations"):
                id = self.new_id("conv")
                self.items[id] = []
                return 200, {"id": id, "object": "conversation", "created_at": 1, "metadata": {}}
            found = re.fullmatch(r"/v1/conversations/([^/]+)(/items)?(?:/([^/]+))?", parts.path)
            if found is None or found[1] not in self.items:
                return 404, {"error": {"message": f"No conversation at {parts.path}.", "type": "invalid_request_error"}}
            return self._inside(method, found, {k: v[0] for k, v in parse_qs(parts.query).items()}, body)

    def _inside(self, method: str, found: re.Match[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        id, items = found[1], self.items[found[1]]
        if method == "DELETE" and found[3]:
            self.items[id] = [item for item in items if item["id"] != found[3]]
            return 200, {"id": id, "object": "conversation", "created_at": 1, "metadata": {}}
        if method == "DELETE":
            del self.items[id]
            return 200, {"id": id, "object": "conversation.deleted", "deleted": True}
        if method == "POST":
            return self._add(items, body["items"])
        ordered = items[::-1] if query.get("order", "desc") == "desc" else items
        after = query.get("after")
        first = next((n + 1 for n, item in enumerate(ordered) if item["id"] == after), 0)
        limit = int(query.get("limit", 20))
        if not 1 <= limit <= 100:
            return 400, {"error": {"message": "limit is from 1 to 100.", "type": "invalid_request_error"}}
        return 200, self._list(ordered[first : first + limit], has_more=first + limit < len(ordered))

    def _add(self, items: list[dict[str, Any]], more: list[Any]) -> tuple[int, Any]:
        if len(more) > 20:
            return 400, {"error": {"message": "At most 20 items at once.", "type": "invalid_request_error"}}
        try:
            for item in more:
                ITEM.validate_python(item, strict=False)
        except ValidationError as error:
            return 400, {"error": {"message": str(error)[:300], "type": "invalid_request_error"}}
        self.writes.append(len(more))
        made = [{"id": self.new_id("item"), "status": "completed", **self._kept(item)} for item in more]
        items += made
        return 200, self._list(made, has_more=False)

    def _kept(self, item: dict[str, Any]) -> dict[str, Any]:
        if "role" not in item or type(item["content"]) is not str:
            return item
        kind = "output_text" if item["role"] == "assistant" else "input_text"
        return {**item, "type": "message", "content": [{"type": kind, "text": item["content"]}]}

    def _list(self, items: list[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
        ids = [item["id"] for item in items] or [""]
        return {"object": "list", "data": items, "has_more": has_more, "first_id": ids[0], "last_id": ids[-1]}


@contextmanager
def serving() -> Iterator[ConversationsServer]:
    """A server on a free port of this machine."""
    server = ConversationsServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, said = server.answer(self.command, self.path, body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    http = Server(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
