"""The Chat Completions API, of OpenAI and of the many servers that speak it: requests as messages, chunks as items.

LiteLLM and LangChain have messages and chunks in the same form, so their modules use this one. Servers differ in how
they stream tool calls: some leave out the index or the id, or repeat them. The client belongs in `openai_client`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ..core import allowed
from ..core.digest import BadJSON, parse_object
from ..core.facts import Usage
from ..core.transcript import Item
from ..errors import ModelFailed
from .client import client_with
from .failure import arguments_failure, incomplete_failure, stream_failure
from .model import ModelRequest, ModelResponse, ModelSettings, OutputSpec, ToolSpec
from .openai_client import limit_retries, openai_failure, shared_client
from .wire import (
    ItemDraft,
    Kind,
    call_ids,
    check_supported,
    chosen_tool,
    fresh_id,
    message_parts,
    refuse_setting,
    said_texts,
    settings_as_named,
    turns,
    unsupported,
    wire_data,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

WHERE = "The Chat Completions API"
DIALECT = "chat"
OPENAI_HOSTS = ("api.openai.com", ".openai.azure.com")
CHOICES = ("auto", "required", "none")
SAME = (
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "verbosity",
    "metadata",
    "store",
    "top_logprobs",
    "prompt_cache_retention",
    "prompt_cache_options",
    "extra_headers",
    "extra_query",
    "extra_body",
)
"""Settings that the client has under the same name."""
OWN_PARTS = ("text", "image_url", "file", "input_audio")
"""Types of content parts that are in the API's own form."""
DELTA_FIELDS = ("role", "content", "refusal", "tool_calls", "function_call", "reasoning_content", "reasoning")
CARRIED = "assent:message"
"""The key under which a call carries fields of its message, if the message has no other item."""
CALL_FIELDS = ("index", "id", "type", "function")
INCOMPLETE = {
    "length": "Allow more with ModelSettings(max_tokens=...).",
    "content_filter": "The provider's content filter stopped it; change the request.",
}


class OpenAIChatCompletionsModel:
    """A model of the Chat Completions API, OpenAI's or any server's. Needs `pip install ".[openai]"`.

    Another server is named by the client, `AsyncOpenAI(base_url=..., api_key=...)`, or by `OPENAI_BASE_URL`. Without an
    `openai_client` one is made for each event loop when the model is first asked, as for `OpenAIResponsesModel`.
    Retries and timeouts are the client's. A failure raises `ModelFailed`.
    """

    provider = "openai"
    """The provider's name in traces."""

    def __init__(self, model: str, openai_client: AsyncOpenAI | None = None) -> None:
        allowed.check_option("OpenAIChatCompletionsModel", "model", model, allowed.NAME)
        allowed.check_option("OpenAIChatCompletionsModel", "openai_client", openai_client, client_with("chat"))
        self.name = model
        """The model's name."""
        self._client = openai_client

    def __repr__(self) -> str:
        return f"OpenAIChatCompletionsModel({self.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        """Yield events in the form of the Responses API, and then the reply. Closing it closes the HTTP response."""
        client = limit_retries(self._client or await shared_client(), request)
        # OpenAI's own models refuse the older name, and many other servers do not know the newer one.
        limit = "max_completion_tokens" if client.base_url.host.endswith(OPENAI_HOSTS) else "max_tokens"
        wanted = chat_parameters(self.name, request, limit)
        try:
            chunks: Any = await client.chat.completions.create(**wanted, stream=True)
        except TypeError as error:
            raise arguments_failure("OpenAI's client", error) from error
        except Exception as error:
            raise openai_failure(self.name, error) from error
        reply = ChatReply(self.name, call_ids(request))
        async with aclosing(stream_reply(reply, chunks, chunks.close)) as events:
            async for each in events:
                yield each


async def stream_reply(
    reply: ChatReply, chunks: AsyncIterator[Any], close: Callable[[], Awaitable[Any]], key: str | None = None
) -> AsyncGenerator[Item | ModelResponse, None]:
    """Yield a reply's events as its chunks come, and then the reply. No error shows the key."""
    try:
        # Read to the end, not only to the reply: a connection that was not read to its end is not used again.
        while (events := await _next(reply, chunks, key)) is not None:
            for event in events:
                yield event
    finally:
        await close()
    response = reply.response()
    for draft in reply.drafts:
        yield draft.done()
    yield response


async def _next(reply: ChatReply, chunks: AsyncIterator[Any], key: str | None) -> list[Item] | None:
    """Return the events of the next chunk; None at the end, or if the connection breaks after a complete reply."""
    try:
        chunk = await anext(chunks, None)
        if chunk is None:
            return None
        return list(reply.read(chunk.model_dump(mode="json", exclude_unset=True, warnings=False)))
    except Exception as error:
        if reply.finish is not None:
            return None
        raise openai_failure(reply.name, error, key) from error


# -- requests ------------------------------------------------------------------------------------------


def chat_parameters(
    name: str, request: ModelRequest, limit: str = "max_tokens", dialect: str = DIALECT
) -> dict[str, Any]:
    """Return the arguments for the client's `chat.completions.create`."""
    check_supported(WHERE, request, ("truncation",))
    settings = request.settings
    wanted: dict[str, Any] = {
        "model": name,
        "messages": chat_messages(request, dialect),
        "stream_options": None if settings.include_usage is False else {"include_usage": True},
        "tools": [chat_tool(spec) for spec in request.tools] or None,
        "tool_choice": _choice(chosen_tool(WHERE, settings), bool(request.tools)),
        "parallel_tool_calls": settings.parallel_tool_calls if request.tools else None,
        "response_format": _format(request.output),
        "reasoning_effort": _effort(settings),
        limit: settings.max_tokens,
        "logprobs": True if settings.top_logprobs is not None else None,
        **settings_as_named(settings, SAME),
        **(settings.extra_args or {}),
    }
    return {key: value for key, value in wanted.items() if value is not None}


def chat_messages(request: ModelRequest, dialect: str = DIALECT) -> list[Item]:
    """Return the instructions and the items of a request as messages."""
    out: list[Item] = [{"role": "system", "content": request.instructions}] if request.instructions else []
    for made, items in turns(request):
        if made:
            said = assistant_message(items, dialect)
            out += [said] if said else []
        else:
            out += map(_given_message, items)
    return out


def assistant_message(items: list[Item], dialect: str = DIALECT) -> Item | None:
    """Return the items of a turn as one message of the model; None if nothing is left to say.

    Reasoning is sent back only to the dialect that gave it: it means nothing to another.
    """
    said: list[tuple[str, str]] = []
    calls: list[Item] = []
    more: Item = {}
    for item in items:
        kind, data = item.get("type", "message"), wire_data(item, dialect)
        if kind == "message":
            said += said_texts(item, WHERE)
            more |= data or {}
        elif kind == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            own = {name: value for name, value in (data or {}).items() if name != CARRIED}
            calls.append({**own, "id": item.get("call_id"), "type": "function", "function": function})
            more |= (data or {}).get(CARRIED, {})
        elif kind == "reasoning":
            more |= _reasoning(item, data) if data else {}
        else:
            raise unsupported(WHERE, f"an item of type {kind!r}")
    if not (said or calls or more):
        return None
    texts = [text for kind, text in said if kind == "text"]
    refusals = [text for kind, text in said if kind == "refusal"]
    content: Any = texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts] or None
    message: Item = {"role": "assistant", "content": content, **more}
    if refusals:
        message["refusal"] = "".join(refusals)
    return {**message, "tool_calls": calls} if calls else message


def _reasoning(item: Item, data: Item) -> Item:
    text = "".join(part.get("text", "") for part in item.get("content") or ())
    more = {name: value for name, value in data.items() if name != "field"}
    return {data["field"]: text, **more} if "field" in data else more


def _given_message(item: Item) -> Item:
    if item.get("type") == "function_call_output":
        output = item.get("output")
        if not isinstance(output, str):
            output = [_output_part(part) for part in message_parts(output, WHERE)]
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": output}
    content = item.get("content")
    if not isinstance(content, str):
        content = [_part(part) for part in message_parts(content, WHERE)]
    return {"role": item["role"], "content": content}


def _output_part(part: Item) -> Item:
    """Return a part of a tool's output. The dialect has no images or files there, so the model is told of them."""
    if part.get("type") not in ("input_image", "input_file"):
        return _text_part(part, "an output of a tool")
    what = "an image" if part["type"] == "input_image" else "a file"
    return {"type": "text", "text": f"[The tool gave {what}, which cannot be shown here.]"}


def _text_part(part: Item, what: str) -> Item:
    if not isinstance(part.get("text"), str):
        raise unsupported(WHERE, f"{what} of type {part.get('type')!r}")
    return {"type": "text", "text": part["text"]}


def _part(part: Item) -> Item:
    kind = part.get("type")
    if kind == "input_image" and part.get("image_url"):
        image = {"url": part["image_url"], "detail": part.get("detail")}
        return {"type": "image_url", "image_url": {name: value for name, value in image.items() if value is not None}}
    if kind == "input_file" and not part.get("file_url"):
        names = ("file_id", "file_data", "filename")
        return {"type": "file", "file": {name: part[name] for name in names if part.get(name) is not None}}
    if kind in OWN_PARTS:
        return part
    return _text_part(part, "a part")


def chat_tool(spec: ToolSpec) -> Item:
    """Return a tool in the form of the API."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": {**function, "strict": True} if spec.strict else function}


def _choice(choice: str | None, tools: bool) -> str | Item | None:
    if choice in (None, "auto", "none") and not tools:
        return None  # servers refuse a choice without tools
    return choice if choice is None or choice in CHOICES else {"type": "function", "function": {"name": choice}}


def _format(output: OutputSpec | None) -> Item | None:
    if output is None:
        return None
    schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"type": "json_schema", "json_schema": schema}


def _effort(settings: ModelSettings) -> Any:
    for name in settings.reasoning or ():
        if name != "effort":
            refuse_setting(settings, f"{WHERE} has no setting {name!r} of reasoning; leave it out of ModelSettings.")
    return (settings.reasoning or {}).get("effort")


# -- replies -------------------------------------------------------------------------------------------


class ChatReply:
    """A reply that is put together from chunks."""

    def __init__(self, name: str, used: set[str], dialect: str = DIALECT) -> None:
        self.name = name
        self.id: str | None = None
        self.finish: str | None = None
        """The reason why the model stopped; None while it has not."""
        self.drafts: list[ItemDraft] = []
        """The items, in the order in which they began."""
        self.usage = Usage(1)
        self._used = used
        """The ids of calls that cannot be used again."""
        self._dialect = dialect
        self._open: dict[Kind, ItemDraft] = {}
        self.more: Item = {}
        """Fields of the message that are the server's own."""
        self._calls: list[CallDraft] = []

    def read(self, chunk: Item) -> Iterator[Item]:
        """Yield the events that show a chunk."""
        self.id = self.id or chunk.get("id")
        if chunk.get("usage"):
            self.usage = chat_usage(chunk["usage"])
        for choice in chunk.get("choices") or ():
            if not choice.get("index"):
                yield from self.grow(choice.get("delta") or {})
                self.finish = choice.get("finish_reason") or self.finish

    def grow(self, delta: Item) -> Iterator[Item]:
        """Yield the events that show the delta of a message."""
        for field in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(field), str) and delta[field]:
                yield from self._text("reasoning", delta[field])
                self._open["reasoning"].wire["field"] = field
                break  # some servers send the same text under both names
        content = delta.get("content")
        if isinstance(content, list):
            yield from self._parts(content)
        elif content:
            yield from self._text("text", content)
        if delta.get("refusal"):
            yield from self._text("refusal", delta["refusal"])
        more = {name: delta[name] for name in delta if name not in DELTA_FIELDS and delta[name] not in (None, [], {})}
        self._keep(more)
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)

    def response(self) -> ModelResponse:
        """Return the whole reply, or raise `ModelFailed` if it is not whole."""
        if self.finish is None:
            raise stream_failure(self.name, "it ended without a finish_reason")
        if self.finish in INCOMPLETE:
            raise incomplete_failure(self.name, self.finish, INCOMPLETE[self.finish])
        if any(not draft.fields["name"] for draft in self.drafts if draft.kind == "call"):
            raise ModelFailed(f"The model {self.name!r} sent a call without the name of a tool.")
        if self.more:
            self._carry()
        return ModelResponse([draft.item() for draft in self.drafts], self.usage, self.id)

    def _carry(self) -> None:
        """Give the fields that are kept to the item that carries them: the message, or else the first one."""
        carrier = self._open.get("text") or next(iter(self.drafts), None) or self._begin("text")
        carrier.wire |= {CARRIED: self.more} if carrier.kind == "call" else self.more

    def _begin(self, kind: Kind, **fields: Any) -> ItemDraft:
        draft = ItemDraft(kind, len(self.drafts), self._dialect, **fields)
        self.drafts.append(draft)
        return draft

    def _text(self, kind: Kind, piece: str) -> Iterator[Item]:
        draft = self._open.get(kind)
        if draft is None:
            draft = self._open[kind] = self._begin(kind)
            yield draft.added()
        yield draft.grow(piece)

    def _parts(self, parts: list[Any]) -> Iterator[Item]:
        """Read a content that is a list: show its texts, and keep the list to send it back."""
        self._keep({"content": parts})
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield from self._text("text", part["text"])

    def _keep(self, more: Item) -> None:
        """Keep fields of the server's own, to send them back: pieces of texts and lists are joined."""
        for name, value in more.items():
            joins = isinstance(value, str | list) and type(self.more.get(name)) is type(value)
            self.more[name] = self.more[name] + value if joins else value

    def _call(self, delta: Item) -> Iterator[Item]:
        function = delta.get("function") or {}
        name, arguments, id = function.get("name") or "", function.get("arguments"), delta.get("id")
        call = self._call_of(delta.get("index"), id, name)
        if call is None:
            draft = self._begin("call", call_id=fresh_id(id, self._used), name=name)
            call = CallDraft(draft, delta.get("index"), id)
            self._calls.append(call)
            yield draft.added()
        elif name and name != call.draft.fields["name"]:
            call.draft.fields["name"] += name
        call.id = call.id or id
        call.draft.wire |= {key: delta[key] for key in delta if key not in CALL_FIELDS and delta[key] is not None}
        if arguments:
            yield call.draft.grow(arguments if isinstance(arguments, str) else json.dumps(arguments))

    def _call_of(self, index: int | None, id: str | None, name: str) -> CallDraft | None:
        """Return the call that a delta goes on with; None if it begins another."""
        before = [call for call in self._calls if index is None or call.index == index][-1:]
        if not before or (id and before[0].id and id != before[0].id):
            return None
        # Without an index, a name begins another call, unless the server only repeats itself.
        begins = index is None and name and (not id or before[0].complete())
        return None if begins else before[0]


class CallDraft:
    """A call that is put together: its draft, and the index and id that the server gave it."""

    def __init__(self, draft: ItemDraft, index: int | None, id: str | None) -> None:
        self.draft = draft
        self.index = index
        self.id = id

    def complete(self) -> bool:
        """Return True if the arguments are a whole JSON object."""
        try:
            parse_object(self.draft.text)
        except BadJSON:
            return False
        return True


def chat_usage(used: Item) -> Usage:
    """Return the token usage. Servers may leave out some counts, or all."""
    cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens") or used.get("prompt_cache_hit_tokens")
    reasoned = (used.get("completion_tokens_details") or {}).get("reasoning_tokens")
    counts = (used.get("prompt_tokens"), used.get("completion_tokens"), cached, reasoned)
    return Usage(1, *(count or 0 for count in counts))
