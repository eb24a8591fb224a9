"""Replies as providers send them, in each dialect: a stream's events, each as bytes, and the whole reply as JSON.

A reply is a text of so many deltas, or a call of `lookup`. Imported in every peer's environment, so nothing here may
import a peer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from .conversation import FINAL, LOOKUP, WORD, arguments, arguments_json, call_id

DIALECTS = {
    "responses": "OpenAI Responses",
    "chat": "OpenAI Chat Completions",
    "anthropic": "Anthropic Messages",
}
MODEL = {"responses": "gpt-5.2", "chat": "gpt-5.2", "anthropic": "claude-opus-5"}
PIECES = 8
"""The number of deltas that a call's arguments come in."""
PADDING = "Yh3kPq0ZbT4m"  # OpenAI's streams carry such a field, against readers of their lengths

Json = dict[str, Any]


class Reply:
    """A reply in both forms."""

    def __init__(self, events: list[bytes], whole: bytes) -> None:
        self.events, self.whole = events, whole


@cache
def text(dialect: str, deltas: int) -> Reply:
    """A reply that says WORD so many times, each in a delta."""
    return _reply(dialect, [WORD] * deltas, None)


@cache
def call(dialect: str, turn: int) -> Reply:
    """A reply that calls `lookup`."""
    said = arguments_json(turn)
    step = -(-len(said) // PIECES)
    return _reply(dialect, [said[at : at + step] for at in range(0, len(said), step)], turn)


@cache
def final(dialect: str) -> Reply:
    """A reply that says FINAL, a word in a delta."""
    return _reply(dialect, [f"{word} " for word in FINAL.split()[:-1]] + FINAL.split()[-1:], None)


def _reply(dialect: str, pieces: Sequence[str], turn: int | None) -> Reply:
    events, whole = _FORMS[dialect](pieces, turn)
    return Reply(events, _dumped(whole))


def _dumped(data: Json) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _named(event: Json) -> bytes:
    return b"event: " + event["type"].encode() + b"\ndata: " + _dumped(event) + b"\n\n"


# -- OpenAI Responses ------------------------------------------------------------------------------


def _responses(pieces: Sequence[str], turn: int | None) -> tuple[list[bytes], Json]:
    item, part = _item(pieces, turn)
    whole = _response("completed", [item])
    events = _text_events(pieces, item, part) if turn is None else _call_events(pieces, item)
    told = [
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.in_progress", "response": _response("in_progress", [])},
        *events,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [_named({**event, "sequence_number": number}) for number, event in enumerate(told)], whole


def _item(pieces: Sequence[str], turn: int | None) -> tuple[Json, Json]:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "".join(pieces)}
    if turn is None:
        return {
            "id": "msg_1", "type": "message", "status": "completed", "content": [part], "role": "assistant"
        }, part  # fmt: skip
    made = {"id": f"fc_{turn}", "type": "function_call", "status": "completed", "arguments": "".join(pieces)}
    return {**made, "call_id": call_id(turn), "name": LOOKUP}, {}


def _text_events(pieces: Sequence[str], item: Json, part: Json) -> Iterator[Json]:
    where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    begun = {**item, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
    yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
    for piece in pieces:
        delta = {"delta": piece, "logprobs": [], "obfuscation": PADDING}
        yield {"type": "response.output_text.delta", **where, **delta}
    yield {"type": "response.output_text.done", **where, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **where, "part": part}


def _call_events(pieces: Sequence[str], item: Json) -> Iterator[Json]:
    where = {"item_id": item["id"], "output_index": 0}
    begun = {**item, "status": "in_progress", "arguments": ""}
    yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
    for piece in pieces:
        delta = {"delta": piece, "obfuscation": PADDING}
        yield {"type": "response.function_call_arguments.delta", **where, **delta}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **where, **done}


def _response(status: str, output: list[Json]) -> Json:
    used = {"input_tokens": 90, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 30}
    used |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120}
    made = {"id": "resp_1", "object": "response", "created_at": 1760000000, "status": status, "background": False}
    made |= {"error": None, "incomplete_details": None, "instructions": None, "max_output_tokens": None}
    made |= {"model": MODEL["responses"], "output": output, "parallel_tool_calls": True, "previous_response_id": None}
    made |= {"reasoning": {"effort": None, "summary": None}, "service_tier": "default", "store": True}
    made |= {"temperature": 1.0, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": []}
    made |= {"top_p": 1.0, "truncation": "disabled", "user": None, "metadata": {}}
    return {**made, "usage": used if output else None}


# -- OpenAI Chat Completions -----------------------------------------------------------------------


def _chat(pieces: Sequence[str], turn: int | None) -> tuple[list[bytes], Json]:
    made = {"id": "chatcmpl-1", "created": 1760000000, "model": MODEL["chat"], "service_tier": "default"}
    made |= {"system_fingerprint": "fp_1"}
    used = {"prompt_tokens": 90, "completion_tokens": 30, "total_tokens": 120}
    finish = "stop" if turn is None else "tool_calls"

    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        more = {"object": "chat.completion.chunk", "choices": [choice], "usage": None, "obfuscation": PADDING}
        return {**made, **more}

    chunks = [*(chunk(delta) for delta in _chat_deltas(pieces, turn)), chunk({}, finish)]
    chunks.append({**chunks[-1], "choices": [], "usage": used})
    message = _chat_message(pieces, turn)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    whole = {**made, "object": "chat.completion", "choices": [choice], "usage": used}
    return [*(b"data: " + _dumped(each) + b"\n\n" for each in chunks), b"data: [DONE]\n\n"], whole


def _chat_deltas(pieces: Sequence[str], turn: int | None) -> Iterator[Json]:
    if turn is None:
        yield {"role": "assistant", "content": "", "refusal": None}
        for piece in pieces:
            yield {"content": piece}
        return
    called = {"index": 0, "id": call_id(turn), "type": "function", "function": {"name": LOOKUP, "arguments": ""}}
    yield {"role": "assistant", "content": None, "tool_calls": [called], "refusal": None}
    for piece in pieces:
        yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _chat_message(pieces: Sequence[str], turn: int | None) -> Json:
    said = "".join(pieces)
    if turn is None:
        return {"role": "assistant", "content": said, "refusal": None, "annotations": []}
    called = {"id": call_id(turn), "type": "function", "function": {"name": LOOKUP, "arguments": said}}
    return {"role": "assistant", "content": None, "tool_calls": [called], "refusal": None, "annotations": []}


# -- Anthropic Messages ----------------------------------------------------------------------------


def _anthropic(pieces: Sequence[str], turn: int | None) -> tuple[list[bytes], Json]:
    used = {"input_tokens": 90, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    made = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL["anthropic"]}
    stop = "end_turn" if turn is None else "tool_use"
    if turn is None:
        block, empty = {"type": "text", "text": "".join(pieces)}, {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    else:
        block = {"type": "tool_use", "id": call_id(turn), "name": LOOKUP, "input": arguments(turn)}
        empty = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    begun = {**made, "content": [], "stop_reason": None, "stop_sequence": None, "usage": used}
    ended = {"stop_reason": stop, "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {**used, "output_tokens": 30}},
        {"type": "message_stop"},
    ]
    whole = {**made, "content": [block], **ended, "usage": {**used, "output_tokens": 30}}
    return [_named(event) for event in events], whole


_FORMS = {"responses": _responses, "chat": _chat, "anthropic": _anthropic}
