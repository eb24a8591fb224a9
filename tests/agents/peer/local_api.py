"""A local server that speaks OpenAI's APIs and answers from the request alone: two clients get the same answers.

Its model calls each tool that it is offered once, with arguments that fit the schema, and then answers with a text that
repeats what it was asked and what the tools returned. Each program has a path of its own, and its requests are kept.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Item = dict[str, Any]
WORDS = {"city": "Tokyo", "name": "Ann"}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OUTPUTS = ("function_call_output", "shell_call_output", "apply_patch_call_output")


def fitting(schema: Item, name: str = "value", types: Item | None = None) -> Any:
    """Return a value that fits a schema."""
    types = schema.get("$defs", {}) if types is None else types
    if "$ref" in schema:
        return fitting(types[schema["$ref"].rsplit("/", 1)[-1]], name, types)
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    if "anyOf" in schema:
        return fitting(schema["anyOf"][0], name, types)
    match schema.get("type", "object" if "properties" in schema else "string"):
        case "object":
            return {key: fitting(each, key, types) for key, each in schema.get("properties", {}).items()}
        case "array":
            return [fitting(schema.get("items") or {}, name, types)]
        case "integer":
            return 2
        case "number":
            return 2.5
        case "boolean":
            return True
        case "null":
            return None
    return WORDS.get(name, f"some {name}")


class Account:
    """The responses and conversations of one program, and what it has asked."""

    def __init__(self) -> None:
        self.requests: list[Item] = []
        self.stored: dict[str, list[Item]] = {}
        self.conversations: dict[str, list[Item]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def id(self, kind: str) -> str:
        with self._lock:
            self._count += 1
            return f"{kind}_{self._count:08d}"


# -- the model -----------------------------------------------------------------------------------------


def reply(account: Account, body: Item, context: list[Item]) -> list[Item]:
    """Return what the model says: calls of tools, or an answer."""
    asked = [n for n, item in enumerate(context) if item.get("role") == "user"]
    turn = context[asked[-1] + 1 :] if asked else context
    thoughts = _thoughts(account, body)
    calls = [] if body.get("tool_choice") == "none" else _calls(account, body, context, turn)
    if calls:
        return [*thoughts, *calls]
    hosted = _hosted(account, body, turn)
    if any(item["type"] == "mcp_approval_request" for item in hosted):
        return [*thoughts, *hosted]
    return [*thoughts, *hosted, _message(account, body, context, turn)]


def _thoughts(account: Account, body: Item) -> list[Item]:
    reasoning = body.get("reasoning") or {}
    if reasoning.get("effort") in (None, "none"):
        return []
    summary = [{"type": "summary_text", "text": "I think."}] if reasoning.get("summary") else []
    more = {"encrypted_content": "HIDDEN"} if "reasoning.encrypted_content" in (body.get("include") or ()) else {}
    return [{"id": account.id("rs"), "type": "reasoning", "summary": summary, **more}]


def _calls(account: Account, body: Item, context: list[Item], turn: list[Item]) -> list[Item]:
    done = {item.get("name") or item.get("type") for item in turn}
    choice = body.get("tool_choice")
    only = choice.get("name") if isinstance(choice, dict) else None
    functions = [each for each in body.get("tools") or () if each["type"] == "function"]
    wanted = [each for each in functions if each["name"] not in done and only in (None, each["name"])]
    calls = [_call(account, each) for each in wanted if not each["name"].startswith("transfer_to_")]
    if body.get("parallel_tool_calls") is False:
        del calls[1:]
    kinds = {each["type"] for each in body.get("tools") or ()}
    common = {"status": "completed"}
    if "shell" in kinds and "shell_call" not in done:
        action = {"commands": ["echo hello"], "timeout_ms": 5000, "max_output_length": 1000}
        calls.append(
            {"id": account.id("sh"), "type": "shell_call", "call_id": account.id("call"), "action": action, **common}
        )
    if "apply_patch" in kinds and "apply_patch_call" not in done:
        patch = {"type": "create_file", "path": "tasks.md", "diff": "+milk\n"}
        calls.append(
            {
                "id": account.id("ap"),
                "type": "apply_patch_call",
                "call_id": account.id("call"),
                "operation": patch,
                **common,
            }
        )
    if calls or any(str(item.get("name")).startswith("transfer_to_") for item in context):
        return calls
    return [_call(account, each) for each in wanted if each["name"].startswith("transfer_to_")][:1]


def _call(account: Account, tool: Item) -> Item:
    arguments = json.dumps(fitting(tool.get("parameters") or {}))
    ids = {"id": account.id("fc"), "call_id": account.id("call")}
    return {**ids, "type": "function_call", "status": "completed", "name": tool["name"], "arguments": arguments}


def _hosted(account: Account, body: Item, turn: list[Item]) -> list[Item]:
    done = {item.get("type") for item in turn}
    found: list[Item] = []
    for tool in body.get("tools") or ():
        kind = f"{tool['type']}_call"
        if tool["type"] == "mcp":
            found += _mcp(account, tool, turn)
        elif kind in HOSTED and kind not in done:
            found.append({"id": account.id("hosted"), "type": kind, "status": "completed", **HOSTED[kind]})
    return found


HOSTED: dict[str, Item] = {
    "web_search_call": {"action": {"type": "search", "query": "news"}},
    "file_search_call": {"queries": ["news"], "results": None},
    "code_interpreter_call": {"code": "print(1)", "container_id": "cntr_1", "outputs": None},
    "image_generation_call": {"result": PNG},
}


def _mcp(account: Account, tool: Item, turn: list[Item]) -> list[Item]:
    call = {"server_label": tool["server_label"], "name": "ask", "arguments": '{"question": "Which?"}'}
    answers = [item["approve"] for item in turn if item.get("type") == "mcp_approval_response"]
    if not answers and tool.get("require_approval") == "always":
        schema = {"type": "object", "properties": {"question": {"type": "string"}}}
        tools = [{"name": "ask", "description": "Ask.", "input_schema": schema, "annotations": None}]
        offer = {
            "id": account.id("mcpl"),
            "type": "mcp_list_tools",
            "server_label": tool["server_label"],
            "tools": tools,
        }
        return [offer, {"id": account.id("mcpr"), "type": "mcp_approval_request", **call}]
    if answers and not answers[-1]:
        return []
    return [
        {"id": account.id("mcp"), "type": "mcp_call", "output": "Python.", "error": None, "status": "completed", **call}
    ]


def _message(account: Account, body: Item, context: list[Item], turn: list[Item]) -> Item:
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        text = json.dumps(fitting(form["schema"]))
    else:
        asked = [_text(item.get("content")) for item in context if item.get("role") == "user"]
        outputs = [_text(item.get("output")) for item in turn if item.get("type") in OUTPUTS]
        text = f"Answer {len(asked)} to: {asked[-1] if asked else 'nothing'}"
        text += f" | from: {' ; '.join(outputs)}" if outputs else ""
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": account.id("msg"), "type": "message", "status": "completed", "role": "assistant", "content": content}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text") or part.get("image_url") or part) for part in content)
    return " ".join(str(content).split())


# -- the Responses API ---------------------------------------------------------------------------------


def respond(account: Account, body: Item) -> Item:
    """Answer a request, and keep what was said for those that refer to it."""
    given = body.get("input") or []
    fresh = [{"role": "user", "content": given}] if isinstance(given, str) else given
    conversation = body.get("conversation")
    before = account.stored.get(body.get("previous_response_id") or "", [])
    if conversation:
        before = account.conversations[conversation]
    items = reply(account, body, [*before, *fresh])
    id = account.id("resp")
    account.stored[id] = [*before, *fresh, *items]
    if conversation:
        account.conversations[conversation] = [kept(account, item) for item in account.stored[id]]
    usage = {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 10 * len(items),
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 20 + 10 * len(items),
    }
    own = {"id": id, "object": "response", "created_at": 1754000000, "status": "completed", "error": None}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": None}
    return {**own, **rest, "model": body.get("model") or "kept", "output": items, "usage": usage}


def events(response: Item) -> Iterator[Item]:
    """Return the events of a streamed response."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        started = {**item, "status": "in_progress"} if "status" in item else item
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}}.get(item["type"], {})
        yield {"type": "response.output_item.added", "output_index": index, "item": {**started, **empty}}
        yield from _parts(item, {"item_id": item["id"], "output_index": index})
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response}


def _parts(item: Item, where: Item) -> Iterator[Item]:
    if item["type"] == "message":
        [part] = item["content"]
        where = {**where, "content_index": 0}
        yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
        for word in re.findall(r"\S+\s*", part["text"]):
            yield {"type": "response.output_text.delta", **where, "delta": word, "logprobs": []}
        yield {"type": "response.output_text.done", **where, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **where, "part": part}
    elif item["type"] == "function_call":
        text = item["arguments"]
        for start in range(0, len(text), 9):
            yield {"type": "response.function_call_arguments.delta", **where, "delta": text[start : start + 9]}
        yield {"type": "response.function_call_arguments.done", **where, "arguments": text, "name": item["name"]}


# -- the Chat Completions API --------------------------------------------------------------------------

CHAT_USAGE = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}


def chat_message(account: Account, body: Item) -> Item:
    """Return what the model says, as a message of the other API."""
    context: list[Item] = []
    for each in body["messages"]:
        if each["role"] == "tool":
            context.append({"type": "function_call_output", "output": each["content"]})
        else:
            context.append({"role": each["role"], "content": each.get("content")})
            context += [
                {"type": "function_call", "name": call["function"]["name"]} for call in each.get("tool_calls") or ()
            ]
    tools = [{"type": "function", **each["function"]} for each in body.get("tools") or ()]
    items = reply(account, {"tools": tools}, context)
    if items[-1]["type"] == "message":
        return {"role": "assistant", "content": items[-1]["content"][0]["text"]}
    calls = [
        {"id": item["call_id"], "type": "function", "function": {key: item[key] for key in ("name", "arguments")}}
        for item in items
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_response(account: Account, body: Item, kind: str, choice: Item) -> Item:
    own = {"id": account.id("chatcmpl"), "object": kind, "created": 1754000000, "model": body["model"]}
    return {**own, "choices": [choice], "usage": CHAT_USAGE}


def chat_chunks(account: Account, body: Item) -> Iterator[str]:
    """Return the lines of a streamed completion."""
    said = chat_message(account, body)
    calls = [{"index": n, **call} for n, call in enumerate(said.pop("tool_calls", ()))]
    deltas: list[Item] = [said, *({"tool_calls": [call]} for call in calls), {}]
    for delta in deltas:
        finish = None if delta else ("tool_calls" if calls else "stop")
        chunk = chat_response(
            account, body, "chat.completion.chunk", {"index": 0, "delta": delta, "finish_reason": finish}
        )
        yield f"data: {json.dumps({**chunk, 'usage': None})}\n\n"
    last = chat_response(account, body, "chat.completion.chunk", {})
    yield f"data: {json.dumps({**last, 'choices': []})}\n\n"
    yield "data: [DONE]\n\n"


# -- conversations -------------------------------------------------------------------------------------


def kept(account: Account, item: Item) -> Item:
    """Return an item as a conversation holds it."""
    item = {"id": account.id("item"), **item}
    if "role" in item:
        item = {"type": "message", "status": "completed", **item}
        if isinstance(item["content"], str):
            item["content"] = [{"type": "input_text", "text": item["content"]}]
    return item


def conversations(account: Account, method: str, parts: list[str], options: Item, body: Any) -> Item:
    """Make a conversation; read, add or delete its items."""
    if len(parts) == 1:
        id = account.id("conv")
        account.conversations[id] = [kept(account, item) for item in (body or {}).get("items") or ()]
        return {"id": id, "object": "conversation", "created_at": 1754000000, "metadata": {}}
    items = account.conversations[parts[1]]
    if method == "POST":
        items += [kept(account, item) for item in body["items"]]
    elif method == "DELETE":
        items[:] = [item for item in items if item["id"] != parts[3]]
        return {"id": parts[1], "object": "conversation", "created_at": 1754000000, "metadata": {}}
    data = items if options.get("order") == "asc" else items[::-1]
    ids = {"first_id": data[0]["id"] if data else "", "last_id": data[-1]["id"] if data else ""}
    return {"object": "list", "data": data, "has_more": False, **ids}


# -- HTTP ----------------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Routes a request to its program's account."""

    protocol_version = "HTTP/1.1"
    server: LocalAPI

    def do_any(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        program, _, path = path.removeprefix("/").partition("/v1/")
        account, body = self.server.account(program), json.loads(data) if data else None
        account.requests.append({"method": self.command, "path": path, "query": query, "body": body})
        if path == "responses":
            response = respond(account, body)
            if not body.get("stream"):
                return self._send(response)
            numbered = ({"sequence_number": n, **each} for n, each in enumerate(events(response)))
            return self._stream(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in numbered)
        if path == "chat/completions":
            if body.get("stream"):
                return self._stream(chat_chunks(account, body))
            message = chat_message(account, body)
            choice = {
                "index": 0,
                "message": message,
                "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
            }
            return self._send(chat_response(account, body, "chat.completion", choice))
        if path.startswith("conversations"):
            options = dict(each.split("=", 1) for each in query.split("&") if each)
            return self._send(conversations(account, self.command, path.split("/"), options, body))
        return self._send({"error": {"message": f"There is nothing at {path}."}}, 404)

    do_GET = do_POST = do_DELETE = do_any  # noqa: N815 - named by the library

    def _send(self, body: Item, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, chunks: Iterable[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for each in (*(chunk.encode() for chunk in chunks), b""):
            self.wfile.write(f"{len(each):x}\r\n".encode() + each + b"\r\n")

    def log_message(self, format: str, *args: Any) -> None: ...


class LocalAPI(ThreadingHTTPServer):
    """The server, with one account for each program."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._accounts: dict[str, Account] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> LocalAPI:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def account(self, program: str) -> Account:
        with self._lock:
            return self._accounts.setdefault(program, Account())

    def url(self, program: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{program}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None: ...
