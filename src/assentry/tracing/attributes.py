"""The attributes of spans, named and shaped by OpenTelemetry's GenAI semantic conventions.

Names that the conventions do not have begin with `assentry.`. Making spans is not done here.
"""

from __future__ import annotations

from typing import Any

from msgspec.json import encode

from ..core.facts import Usage
from ..core.run import CallState
from ..core.transcript import Item, as_function, provider_id
from ..models.model import Model, ModelRequest

Attributes = dict[str, Any]


def provider_name(model: Model) -> str:
    """Return the provider of a model: its `provider` attribute, or the name of its class."""
    said = getattr(model, "provider", None)
    return said if isinstance(said, str) else type(model).__name__


def request_attributes(model: Model, request: ModelRequest) -> Attributes:
    """Return the attributes of a model request, without the messages."""
    settings = request.settings
    wanted = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_name(model),
        "gen_ai.request.model": model.name,
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.request.frequency_penalty": settings.frequency_penalty,
        "gen_ai.request.presence_penalty": settings.presence_penalty,
        "gen_ai.request.max_tokens": settings.max_tokens,
        "gen_ai.output.type": "json" if request.output is not None else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def usage_attributes(used: Usage) -> Attributes:
    """Return the attributes of token usage."""
    counted = {
        "gen_ai.usage.input_tokens": used.input_tokens,
        "gen_ai.usage.output_tokens": used.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": used.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": used.reasoning_tokens,
    }
    always = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
    return {name: count for name, count in counted.items() if count or name in always}


def tool_attributes(state: CallState) -> Attributes:
    """Return the attributes of an `execute_tool` span."""
    return {"gen_ai.operation.name": "execute_tool", **call_attributes(state)}


def call_attributes(state: CallState) -> Attributes:
    """Return the attributes that identify a call."""
    return {
        "gen_ai.tool.name": state.tool,
        "gen_ai.tool.call.id": provider_id(state),
        "assentry.call.id": state.call.id,
    }


# -- messages, in the conventions' shape -------------------------------------------------------------


def message_attributes(request: ModelRequest) -> Attributes:
    """Return the attributes of a request's messages and instructions."""
    attributes: Attributes = {"gen_ai.input.messages": json_text([item_message(item) for item in request.input])}
    if request.instructions is not None:
        attributes["gen_ai.system_instructions"] = json_text([{"type": "text", "content": request.instructions}])
    return attributes


def reply_message(output: list[Item]) -> dict[str, Any]:
    """Return a model's reply as one message."""
    calls = any(as_function(item).get("type") == "function_call" for item in output)
    parts = [part for item in output for part in item_message(item)["parts"]]
    return {"role": "assistant", "parts": parts, "finish_reason": "tool_call" if calls else "stop"}


def item_message(item: Item) -> dict[str, Any]:
    """Return an item of the conversation as a message with its parts."""
    item = as_function(item)
    kind = item.get("type", "message")
    if kind == "function_call":
        part = {"type": "tool_call", "id": item.get("call_id"), "name": item.get("name")}
        return {"role": "assistant", "parts": [{**part, "arguments": item.get("arguments")}]}
    if kind == "function_call_output":
        part = {"type": "tool_call_response", "id": item.get("call_id"), "response": item.get("output")}
        return {"role": "tool", "parts": [part]}
    if kind != "message":
        return {"role": "assistant", "parts": [dict(item)]}
    content = item.get("content")
    parts = [_part(each) for each in (content if isinstance(content, list) else [{"text": content}])]
    return {"role": item.get("role", "user"), "parts": parts}


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, dict) and "text" not in part:
        return {"type": "unknown", **part}
    return {"type": "text", "content": part["text"] if isinstance(part, dict) else part}


def json_text(value: Any) -> str:
    """Return a value as JSON text, because not every OpenTelemetry backend accepts objects as attributes yet."""
    return encode(value).decode()
