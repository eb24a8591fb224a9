"""Answers of a server that speaks Anthropic's Messages protocol, and a judge that refuses what the API refuses."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import anthropic
from anthropic.types.message_create_params import MessageCreateParamsStreaming

from assentry.testing import ScriptedCall
from tests.models.openai_server import Answer, Asked, Exchange, Item
from tests.models.wire_types import misfit

USAGE = {"input_tokens": 30, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 1}
ENDED = {"output_tokens": 87, "output_tokens_details": {"thinking_tokens": 60}}
NEW = ("something_new",)
"""Types of blocks that the client has no type for."""


def judge(asked: Asked) -> str | None:
    """What is wrong with a request, if anything."""
    if asked.path.partition("?")[0] != "/v1/messages":
        return f"there is nothing at {asked.path}"
    key = asked.headers.get("x-api-key") or asked.headers.get("authorization")  # older clients send the first
    if not key or not asked.headers.get("anthropic-version"):
        return "a key and anthropic-version are required"
    body = asked.body
    known = [
        {**each, "content": [block for block in each["content"] if block.get("type") not in NEW]}
        for each in body.get("messages", ())
    ]
    if not hasattr(anthropic.types, "SystemMessageParam"):  # older clients have no type for it
        known = [each for each in known if each["role"] != "system"]
    wrong = misfit({**body, "messages": known}, MessageCreateParamsStreaming)
    if wrong is None and "tool_choice" in body and "tools" not in body:
        wrong = "tool_choice: may only be specified while providing tools"
    if wrong is None and _breakpoints(body) > 4:
        wrong = "a maximum of 4 blocks with cache_control may be provided"
    return wrong or _judge_talk(body["messages"])


def _breakpoints(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_breakpoints, value))
    return sum(map(_breakpoints, value.values())) + ("cache_control" in value) if isinstance(value, dict) else 0


def _judge_talk(messages: list[Item]) -> str | None:
    open_calls: list[str] = []
    seen: set[str] = set()
    for n, message in enumerate(messages):
        blocks = message["content"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(open_calls):
            return f"messages.{n}: tool_use ids {open_calls} and tool_result blocks {results} do not match"
        if [block["type"] for block in blocks[: len(results)]] != ["tool_result"] * len(results):
            return f"messages.{n}: tool_result blocks come first"
        if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return f"messages.{n}: text content blocks must be non-empty"
        if any(block["type"] == "thinking" and not block["signature"].startswith("sig") for block in blocks):
            return f"messages.{n}: Invalid `signature` in `thinking` block"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in open_calls:
            if call in seen or not re.fullmatch(r"[a-zA-Z0-9_-]+", call):
                return f"messages.{n}: tool_use id {call!r} is no id, or is not unique"
            seen.add(call)
    return f"tool_use ids were found without tool_result blocks: {open_calls}" if open_calls else None


def begun(**usage: Any) -> Item:
    message = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**USAGE, **usage},
    }
    return {"type": "message_start", "message": message}


def stopped(reason: str | None = "end_turn", **delta: Any) -> list[Item]:
    ends = {"stop_reason": reason, "stop_sequence": None, **delta}
    return [{"type": "message_delta", "delta": ends, "usage": ENDED}, {"type": "message_stop"}]


def block_events(index: int, block: Item) -> Iterable[Item]:
    """How the API streams a block: its start without its text, and then the text in pieces."""
    kind = block["type"]
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}.get(kind, {})
    if "tool_use" in kind:
        empty = {"input": {}}
    yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
    for delta in _deltas(block):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _deltas(block: Item) -> Iterable[Item]:
    kind = block["type"]
    if kind in ("text", "thinking"):
        yield from ({"type": f"{kind}_delta", kind: piece} for piece in pieces(block[kind]))
    if kind == "thinking":
        yield {"type": "signature_delta", "signature": block["signature"]}
    if "tool_use" in kind:
        written = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(written)))


def pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def streaming(*events: Item | bytes, whole: bool = True) -> Answer:
    """A stream of these events, and its end."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for each in ({"type": "ping"}, *events):
            data = each if isinstance(each, bytes) else f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode()
            exchange.write(data)
        (exchange.end if whole else exchange.drop)()

    return answer


def replying(*blocks: Item, stop: str | None = None, **delta: Any) -> Answer:
    """A whole reply of these blocks."""
    calls = any(block["type"] == "tool_use" for block in blocks)
    events = [event for n, block in enumerate(blocks) for event in block_events(n, block)]
    return streaming(begun(), *events, *stopped(stop or ("tool_use" if calls else "end_turn"), **delta))


def text(text: str) -> Item:
    return {"type": "text", "text": text}


def using(name: str, input: Any, id: str = "toolu_1", **more: Any) -> Item:
    """A `tool_use` block; its input may be text, as the model wrote it."""
    return {"type": "tool_use", "id": id, "name": name, "input": input, **more}


def thinking(thought: str = "Hm.", signature: str = "sig_1") -> Item:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def saying(said: str) -> Answer:
    return replying(text(said))


def refusing(status: int, kind: str, message: str, **headers: str) -> Answer:
    """An HTTP error."""

    def answer(exchange: Exchange) -> None:
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        exchange.handler.send_response(status)
        exchange.handler.send_header("Content-Type", "application/json")
        exchange.handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            exchange.handler.send_header(name.replace("_", "-"), value)
        exchange.handler.end_headers()
        exchange.handler.wfile.write(body)

    return answer


def playing(numbered: Callable[[], int], step: Any) -> Answer:
    """A step of a script, as the server answers it."""
    if isinstance(step, Exception):
        return refusing(500, "api_error", "The provider failed.")
    parts = step if isinstance(step, list) else [step]
    return replying(
        *(
            using(part.name, part.arguments, part.call_id or f"toolu_{numbered()}")
            if isinstance(part, ScriptedCall)
            else text(part)
            for part in parts
        )
    )


def endless(exchange: Exchange) -> None:
    """A stream that goes on until its reader leaves."""
    exchange.begin()
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "And "}}
    for each in (begun(), start, delta):
        exchange.write(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode())
    exchange.until_gone()
