"""Answers of a server that speaks OpenAI's Chat Completions protocol, and a judge that refuses what the API refuses."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from assentry.testing import ScriptedCall
from tests.models.openai_server import Answer, Asked, Exchange, Item, refusing
from tests.models.wire_types import misfit

OTHERS = ("reasoning_content", "reasoning", "reasoning_details", "extra_content")
"""Fields that other servers than OpenAI's have, which come back to them."""
USAGE = {
    "prompt_tokens": 36,
    "completion_tokens": 87,
    "total_tokens": 123,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 60},
}


def judge(asked: Asked) -> str | None:
    """What is wrong with a request, if anything."""
    if asked.path.partition("?")[0] != "/v1/chat/completions":
        return f"there is nothing at {asked.path}"
    body = _without(asked.body)
    wrong = misfit(body, CompletionCreateParamsStreaming)
    if wrong is None and "tools" not in body and ("tool_choice" in body or "parallel_tool_calls" in body):
        wrong = "'tool_choice' is only allowed when 'tools' are specified."
    return wrong or _judge_talk(body["messages"])


def _without(value: Any) -> Any:
    if isinstance(value, list):
        return [_without(each) for each in value]
    if isinstance(value, dict):
        return {key: _without(each) for key, each in value.items() if key not in OTHERS}
    return value


def _judge_talk(messages: list[Item]) -> str | None:
    open_calls: list[str] = []
    for n, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"messages[{n}]: 'tool' must be a response to a preceding message with 'tool_calls'."
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"messages[{n}]: 'tool_call_ids' did not have response messages: {open_calls}"
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(open_calls)) != len(open_calls):
            return f"messages[{n}]: duplicate ids {open_calls}"
        empty = message.get("content") in (None, []) and not message.get("refusal")
        if message["role"] == "assistant" and empty and not open_calls:
            return f"messages[{n}]: content is required."
    return f"'tool_call_ids' did not have response messages: {open_calls}" if open_calls else None


def chunk(delta: Item | None, finish: str | None = None, **more: Any) -> Item:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    own = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1754000000, "model": "gpt-5.2-2026"}
    return {**own, "choices": choices, **more}


def streaming(*chunks: Item | bytes, done: bool = True) -> Answer:
    """A stream of these chunks, and its end."""

    def answer(exchange: Exchange) -> None:
        exchange.begin()
        for each in chunks:
            exchange.write(each if isinstance(each, bytes) else f"data: {json.dumps(each)}\n\n".encode())
        if done:
            exchange.write(b"data: [DONE]\n\n")
            exchange.end()
        else:
            exchange.drop()

    return answer


def replying(*deltas: Item, finish: str = "stop", usage: Item | None = USAGE) -> Answer:
    """A whole reply, with its usage at the end."""
    chunks = [chunk(delta) for delta in ({"role": "assistant", "content": ""}, *deltas)]
    return streaming(*chunks, chunk({}, finish), chunk(None, usage=usage))


def words(text: str) -> Iterable[Item]:
    return ({"content": text[start : start + 5]} for start in range(0, len(text), 5))


def saying(text: str) -> Answer:
    return replying(*words(text))


def call_deltas(index: int, name: str, arguments: str, id: str | None) -> Iterable[Item]:
    yield {"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}
    for start in range(0, len(arguments), 7):
        yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[start : start + 7]}}]}


def playing(numbered: Callable[[], int], step: Any) -> Answer:
    """A step of a script, as the server answers it."""
    if isinstance(step, Exception):
        return refusing(500, "The provider failed.")
    deltas: list[Item] = []
    calls = 0
    for part in step if isinstance(step, list) else [step]:
        if isinstance(part, ScriptedCall):
            deltas += call_deltas(calls, part.name, part.arguments, part.call_id or f"call_{numbered()}")
            calls += 1
        else:
            deltas += words(part)
    return replying(*deltas, finish="tool_calls" if calls else "stop")


def endless(exchange: Exchange) -> None:
    """A stream that goes on until its reader leaves."""
    exchange.begin()
    exchange.write(f"data: {json.dumps(chunk({'role': 'assistant', 'content': 'And '}))}\n\n".encode())
    exchange.until_gone()
