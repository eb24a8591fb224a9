"""Anthropic's Messages API: a request as its parameters, and content blocks as items.

Blocks that items have no form for, such as those of server tools, are kept as they came and sent back unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

from ..core import allowed
from ..core.digest import BadJSON, parse_object
from ..core.facts import Usage
from ..core.transcript import Item
from ..core.wording import install_hint
from ..errors import ModelFailed, UsageError
from .client import client_with, share_client
from .failure import (
    arguments_failure,
    incomplete_failure,
    is_passing,
    status_failure,
    stream_failure,
    unreachable_failure,
    without_secrets,
)
from .model import ModelRequest, ModelResponse, ModelSettings, OutputSpec
from .wire import (
    OPENAI_SETTINGS,
    ItemDraft,
    Kind,
    call_ids,
    check_supported,
    chosen_tool,
    fresh_id,
    message_parts,
    said_texts,
    settings_as_named,
    turns,
    unsupported,
    wire_data,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

WHERE = "Anthropic's Messages API"
DIALECT = "anthropic"
MAX_TOKENS = 16_384
"""The limit of a reply's tokens, which the API must be told, if ModelSettings has none."""
MAX_PAUSES = 20
"""The limit of how often one reply may pause."""
SAME = ("temperature", "top_p", "metadata", "extra_headers", "extra_query", "extra_body")
"""Settings that the client has under the same name."""
UNKNOWN = ("frequency_penalty", "presence_penalty", "truncation", "verbosity", "store", *OPENAI_SETTINGS)
CHOICES = {"auto": "auto", "required": "any", "none": "none"}
BLOCKS: dict[str, tuple[Kind, str]] = {
    "text": ("text", "text"),
    "thinking": ("reasoning", "thinking"),
    "redacted_thinking": ("reasoning", ""),
    "tool_use": ("call", "input"),
}
"""The blocks that are items, each with the kind of item and the name of the field that is its text."""
OWN_FIELDS: dict[Kind, tuple[str, ...]] = {
    "text": ("type", "text"),
    "reasoning": ("thinking",),
    "call": ("type", "id", "name", "input"),
}
"""The fields of blocks that their items hold; the others are wire data."""
OWN_PARTS = ("text", "image", "document", "search_result", "tool_reference")
"""Types of content parts that are in the API's own form."""
CACHEABLE = ("text", "image", "document", "tool_use", "tool_result")
INVALID = "INVALID_JSON"
"""The key under which arguments that are no JSON object are sent back, as Anthropic's documentation advises."""
INCOMPLETE = {
    "max_tokens": "Allow more with ModelSettings(max_tokens=...).",
    "model_context_window_exceeded": "The conversation is too long for the model.",
}
PASSING_TYPES = ("overloaded_error", "api_error", "rate_limit_error", "timeout_error")
"""Types of errors that a retry may fix."""
JSON_ONLY = "Reply with JSON alone, without any other text, that fits this JSON schema:\n"

CLIENT = client_with("messages", "an anthropic.AsyncAnthropic")
CACHING = allowed.one_of("5m", "1h").or_none


class AnthropicModel:
    """A model of Anthropic's Messages API. Needs `pip install ".[anthropic]"`.

    Without a `client`, an `anthropic.AsyncAnthropic`, one is made for each event loop when the model is first asked,
    from `ANTHROPIC_API_KEY` and the other `ANTHROPIC_...` environment variables. Retries and timeouts are the client's.
    With `prompt_caching`, "5m" or "1h", the tools, the instructions and the conversation are cached for that long. A
    failure raises `ModelFailed`, whose cause is the client's own exception.
    """

    provider = "anthropic"
    """The provider's name in traces."""

    def __init__(
        self, model: str, client: AsyncAnthropic | None = None, *, prompt_caching: Literal["5m", "1h"] | None = None
    ) -> None:
        allowed.check_option("AnthropicModel", "model", model, allowed.NAME)
        allowed.check_option("AnthropicModel", "client", client, CLIENT)
        allowed.check_option("AnthropicModel", "prompt_caching", prompt_caching, CACHING)
        self.name = model
        """The model's name."""
        self._client = client
        self._caching = prompt_caching

    def __repr__(self) -> str:
        return f"AnthropicModel({self.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        """Yield events in the form of the Responses API, and then the reply. Closing it closes the HTTP response."""
        client = self._client if self._client is not None else await share_client("ANTHROPIC_", _make_client)
        wanted = anthropic_parameters(self.name, request, self._caching)
        messages = wanted["messages"]
        reply = AnthropicReply(self.name, call_ids(request))
        for pause in range(MAX_PAUSES + 1):
            if pause:
                wanted = {**wanted, "messages": [*messages, reply.paused()]}
            events = await self._create(client, wanted)
            try:
                while (shown := await _next(reply, events)) is not None:
                    for event in shown:
                        yield event
            finally:
                await events.close()
            if reply.stop != "pause_turn":
                break
        response = reply.response()
        for draft in reply.drafts:
            yield draft.done()
        yield response

    async def _create(self, client: AsyncAnthropic, wanted: dict[str, Any]) -> Any:
        try:
            return await client.messages.create(**wanted, stream=True)
        except TypeError as error:
            raise arguments_failure("Anthropic's client", error) from error
        except Exception as error:
            raise _client_failure(self.name, error) from error


async def _next(reply: AnthropicReply, events: Any) -> list[Item] | None:
    """Return what the next event shows; None at the end, or if the connection breaks after a complete reply."""
    try:
        event = await anext(events, None)
        if event is None:
            return None
        return list(reply.read(event.model_dump(mode="json", exclude_unset=True, warnings=False)))
    except Exception as error:
        if reply.stop is not None:
            return None
        raise _client_failure(reply.name, error) from error


def _make_client() -> AsyncAnthropic:
    try:
        from anthropic import AsyncAnthropic
    except ImportError as error:
        raise UsageError(
            f"Anthropic's models need the anthropic package, which is not installed ({error}): "
            + install_hint("anthropic")
        ) from error
    try:
        client = AsyncAnthropic()
        client.messages  # noqa: B018  # loaded at its first use, so load it in this thread
    except Exception as error:  # the client or its HTTP client may raise anything
        raise UsageError(
            f"Anthropic's client cannot be made from the ANTHROPIC_... variables that are set: {error}"
        ) from error
    if not (client.api_key or client.auth_token or getattr(client, "credentials", None)):
        raise UsageError(
            "There is no key for Anthropic: set the environment variable ANTHROPIC_API_KEY, or give a client, "
            "AnthropicModel(name, AsyncAnthropic(api_key=...))."
        )
    return client


def _client_failure(name: str, error: Exception) -> ModelFailed:
    """Return the `ModelFailed` for a failure of the client."""
    return without_secrets(error, _failure(name, error))


def _failure(name: str, error: Exception) -> ModelFailed:
    from anthropic import APIConnectionError, APIStatusError

    if isinstance(error, APIConnectionError):
        return unreachable_failure(name, error)
    if not isinstance(error, APIStatusError):
        return stream_failure(name, f"{type(error).__name__}: {error}")
    body = error.body if isinstance(error.body, dict) else {}
    said: Item = body["error"] if isinstance(body.get("error"), dict) else {}
    why = ": ".join(filter(None, (said.get("type"), said.get("message")))) or error.message
    retryable = is_passing(error.status_code) or said.get("type") in PASSING_TYPES
    return status_failure(name, error.status_code, why, retryable=retryable, request=error.request_id)


# -- requests ------------------------------------------------------------------------------------------


def anthropic_parameters(name: str, request: ModelRequest, caching: str | None = None) -> dict[str, Any]:
    """Return the arguments for the client's `messages.create`."""
    check_supported(WHERE, request, UNKNOWN)
    settings, output = request.settings, request.output
    system = [{"type": "text", "text": request.instructions}] if request.instructions else []
    format = _format(output)
    if output is not None and format is None:
        system.append({"type": "text", "text": JSON_ONLY + json.dumps(output.schema)})
    first, messages = _messages(request)
    system += first
    tools = [
        {"name": spec.name, "description": spec.description, "input_schema": spec.parameters} for spec in request.tools
    ]
    if caching is not None:
        _cache(caching, tools, system, messages)
    reasoning = dict(settings.reasoning or {})
    config = {"effort": reasoning.pop("effort", None), "format": format}
    wanted: dict[str, Any] = {
        "model": name,
        "max_tokens": settings.max_tokens or MAX_TOKENS,
        "system": system or None,
        "messages": messages,
        "tools": tools or None,
        "tool_choice": _choice(settings, bool(tools)),
        "thinking": reasoning or None,
        "output_config": {key: value for key, value in config.items() if value is not None} or None,
        **settings_as_named(settings, SAME),
        **(settings.extra_args or {}),
    }
    return {key: value for key, value in wanted.items() if value is not None}


def _messages(request: ModelRequest) -> tuple[list[Item], list[Item]]:
    """Return the system messages that come first, as blocks, and then the others, with one message for each turn."""
    first: list[Item] = []
    messages: list[Item] = []
    for made, items in turns(request):
        for item in items:
            role = "assistant" if made else "system" if item.get("role") in ("system", "developer") else "user"
            blocks = _made_blocks(item) if made else _given_blocks(item)
            if role == "system" and not messages:
                first += blocks
            elif messages and messages[-1]["role"] == role:
                messages[-1]["content"] += blocks
            elif blocks:
                messages.append({"role": role, "content": blocks})
    return first, messages


def _made_blocks(item: Item) -> list[Item]:
    """Return what the model made as blocks. Reasoning of another dialect is left out: it means nothing here."""
    kind, data = item.get("type", "message"), wire_data(item, DIALECT)
    if kind == "message":
        texts = [text for _, text in said_texts(item, WHERE) if text]  # the API refuses empty text
        return [{**(data or {}), "type": "text", "text": text} for text in texts]
    if kind == "function_call":
        call = {"type": "tool_use", "id": _id(item), "name": item["name"], "input": _input(item["arguments"])}
        return [{**(data or {}), **call}]
    if kind == "reasoning":
        if data is None:
            return []
        text = "".join(part.get("text", "") for part in item.get("content") or ())
        return [{**data, "thinking": text} if data.get("type") == "thinking" else deepcopy(data)]
    if data is not None:
        return [deepcopy(data)]
    raise unsupported(WHERE, f"an item of type {kind!r}")


def _given_blocks(item: Item) -> list[Item]:
    if item.get("type") != "function_call_output":
        return [_part(part) for part in message_parts(item.get("content"), WHERE)]
    output = item.get("output")
    content = output if isinstance(output, str) else [_part(part) for part in message_parts(output, WHERE)]
    result = {"type": "tool_result", "tool_use_id": _id(item), "content": content}
    return [{**result, "is_error": True} if item.get("status") == "incomplete" else result]


def _id(item: Item) -> str:
    """Return the id of a call with characters that the API allows; other providers have ids such as `send:0`."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", str(item.get("call_id")))


def _input(arguments: str) -> dict[str, Any]:
    try:
        return parse_object(arguments)
    except BadJSON:
        return {INVALID: arguments}


def _part(part: Item) -> Item:
    kind = part.get("type")
    if kind == "input_image":
        return {"type": "image", "source": _source(part, "image_url", "a part of type 'input_image'")}
    if kind == "input_file":
        title = {"title": part["filename"]} if part.get("filename") else {}
        name = "file_data" if part.get("file_data") else "file_url"
        return {"type": "document", "source": _source(part, name, "a part of type 'input_file'"), **title}
    if kind in OWN_PARTS:
        return {**part}
    if not isinstance(part.get("text"), str):
        raise unsupported(WHERE, f"a part of type {kind!r}")
    return {"type": "text", "text": part["text"]}


def _source(part: Item, name: str, what: str) -> Item:
    if part.get("file_id"):
        return {"type": "file", "file_id": part["file_id"]}
    url = part.get(name)
    if not isinstance(url, str):
        raise unsupported(WHERE, f"{what} without {name} or file_id")
    data = re.fullmatch(r"data:([\w/.+-]+);base64,(.*)", url, re.DOTALL)
    if data:
        return {"type": "base64", "media_type": data[1], "data": data[2]}
    if name == "file_data":
        return {"type": "base64", "media_type": "application/pdf", "data": url}
    return {"type": "url", "url": url}


def _choice(settings: ModelSettings, tools: bool) -> Item | None:
    choice, single = chosen_tool(WHERE, settings), settings.parallel_tool_calls is False
    if not tools and choice in (None, "auto", "none"):
        return None
    if choice is None and not single:
        return None
    kind = CHOICES.get(choice or "auto")
    wanted: Item = {"type": kind} if kind is not None else {"type": "tool", "name": choice}
    return {**wanted, "disable_parallel_tool_use": True} if single and kind != "none" else wanted


def _format(output: OutputSpec | None) -> Item | None:
    """Return the format of the output; None for text, or if its schema is one that the API does not take."""
    if output is None or not output.strict:
        return None
    from anthropic import transform_schema

    try:
        return {"type": "json_schema", "schema": transform_schema(output.schema)}
    except ValueError:
        return None


def _cache(caching: str, tools: list[Item], system: list[Item], messages: list[Item]) -> None:
    """Mark the ends of the tools, of the system prompt and of the conversation for the cache."""
    last = [block for block in (messages[-1]["content"] if messages else ()) if block.get("type") in CACHEABLE]
    for blocks in (tools, system, last):
        if blocks:
            blocks[-1]["cache_control"] = {"type": "ephemeral", "ttl": caching}


# -- replies -------------------------------------------------------------------------------------------


class AnthropicReply:
    """A reply that is put together from events."""

    def __init__(self, name: str, used: set[str]) -> None:
        self.name = name
        self.id: str | None = None
        self.stop: str | None = None
        """The reason why the model stopped; None while it has not."""
        self.drafts: list[ItemDraft] = []
        self._used = used
        self._why: Item = {}
        self._open: dict[int, ItemDraft] = {}
        self._usage: Item = {}
        self._before = Usage()
        """The usage of the parts before a pause."""

    def read(self, event: Item) -> Iterator[Item]:
        """Yield the events that show an event of the API."""
        kind = event.get("type")
        if kind == "message_start":
            self._begin(event["message"])
        elif kind == "content_block_start":
            draft, text = self._block(event["content_block"])
            self._open[event["index"]] = draft
            yield draft.added()
            if text:
                yield draft.grow(text)
        elif kind == "content_block_delta":
            yield from self._delta(self._open[event["index"]], event["delta"])
        elif kind == "content_block_stop":
            draft = self._open[event["index"]]
            if draft.kind == "block" and draft.pieces:
                draft.wire["input"] = _input(draft.text)
        elif kind == "message_delta":
            self._usage |= {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            self.stop = event["delta"].get("stop_reason") or self.stop
            self._why = event["delta"].get("stop_details") or {}

    def paused(self) -> Item:
        """Return the reply so far as a message, for the API to go on with it, and wait for the rest."""
        self._before, self.stop = self._used_tokens(), None
        blocks = [block for draft in self.drafts for block in _made_blocks(draft.item())]
        return {"role": "assistant", "content": blocks}

    def response(self) -> ModelResponse:
        """Return the whole reply, or raise `ModelFailed` if it is not whole."""
        if self.stop is None:
            raise stream_failure(self.name, "it ended without a stop_reason")
        if self.stop in INCOMPLETE:
            raise incomplete_failure(self.name, self.stop, INCOMPLETE[self.stop])
        if self.stop == "pause_turn":
            raise incomplete_failure(self.name, f"it paused more than {MAX_PAUSES} times")
        if self.stop == "refusal":  # nothing that was said before counts, calls least of all
            text = self._why.get("explanation") or "".join(each.text for each in self.drafts if each.kind == "text")
            self.drafts = [ItemDraft("refusal", 0, DIALECT)]
            self.drafts[0].grow(text or "The model refused to answer.")
        return ModelResponse([draft.item() for draft in self.drafts], self._used_tokens(), self.id)

    def _begin(self, message: Item) -> None:
        self.id, self._open = message.get("id"), {}
        self._usage = dict(message.get("usage") or {})

    def _block(self, block: Item) -> tuple[ItemDraft, str]:
        """Return the draft of a block, and the text that the block begins with."""
        kind, field = BLOCKS.get(str(block.get("type")), ("block", ""))
        fields: Item = {}
        if kind == "call":
            fields = {"call_id": fresh_id(block.get("id"), self._used), "name": block["name"]}
        elif kind == "block":
            fields = {"type": f"anthropic:{block.get('type')}"}
        draft = ItemDraft(kind, len(self.drafts), DIALECT, **fields)
        self.drafts.append(draft)
        draft.wire = {name: value for name, value in block.items() if name not in OWN_FIELDS.get(kind, ())}
        if kind == "text" and not block.get("citations"):
            draft.wire.pop("citations", None)
        begins = block.get(field) if field else None
        return draft, json.dumps(begins) if kind == "call" and begins else begins or ""

    def _delta(self, draft: ItemDraft, delta: Item) -> Iterator[Item]:
        kind = str(delta.get("type"))
        if kind in ("text_delta", "thinking_delta"):
            yield draft.grow(delta[kind.removesuffix("_delta")])
        elif kind == "input_json_delta" and draft.kind == "call":
            yield draft.grow(delta["partial_json"])
        elif kind == "input_json_delta":  # of a tool that the provider runs
            draft.pieces.append(delta["partial_json"])
        elif kind == "citations_delta":
            draft.wire["citations"] = [*draft.wire.get("citations", ()), delta["citation"]]
        else:  # a signature, or something new
            for name, value in delta.items():
                before = draft.wire.get(name)
                if name != "type":
                    draft.wire[name] = before + value if isinstance(before, str) and isinstance(value, str) else value

    def _used_tokens(self) -> Usage:
        used = {name: value or 0 for name, value in self._usage.items() if isinstance(value, int | None)}
        read, written = used.get("cache_read_input_tokens", 0), used.get("cache_creation_input_tokens", 0)
        thought = (self._usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0
        usage = Usage(1, used.get("input_tokens", 0) + read + written, used.get("output_tokens", 0), read, thought)
        usage.add(self._before)
        return usage
