"""Chat models of LangChain: a `BaseChatModel` as a model, with the messages of the chat dialect.

Whoever has such an object has LangChain, so it is imported here only when one is asked. Its content blocks and keyword
arguments are kept as they came, and given back to it unchanged.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ..core.digest import BadJSON, parse_object
from ..core.facts import Usage
from ..core.transcript import Item
from ..errors import AssentryError, ModelFailed, UsageError
from .bound_chat import bind_inside, chat_model_in, retries, takes_config
from .failure import is_passing, status_failure, stream_failure, without_secrets
from .model import ModelRequest, ModelResponse
from .openai_chat import ChatReply, chat_messages, chat_tool
from .wire import OPENAI_SETTINGS, ItemDraft, call_ids, check_supported, chosen_tool, settings_as_named

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

WHERE = "A chat model of LangChain"
DIALECT = "langchain"
SAME = ("temperature", "top_p", "max_tokens")
"""Settings that chat models take under the same name."""
UNKNOWN = (
    *OPENAI_SETTINGS,
    "frequency_penalty",
    "presence_penalty",
    "truncation",
    "reasoning",
    "verbosity",
    "metadata",
    "store",
    "extra_headers",
    "extra_query",
    "extra_body",
)
FINISHES = {"max_tokens": "length", "length": "length", "content_filter": "content_filter", "safety": "content_filter"}
"""Reasons to stop that leave a reply incomplete, as providers call them."""
FAKES = "langchain_core.language_models.fake_chat_models"
"""The module of LangChain's chat models for tests."""
CALL_BLOCKS = ("tool_use", "function_call", "tool_call")
OWN_IDS = ("run-", "lc_run-")
"""The beginnings of ids that LangChain makes up itself."""


class ChatRequest(ModelRequest, frozen=True):
    """A request that also has the conversation as LangChain's messages, which the chat model gets as they are."""

    messages: Sequence[Any] = ()
    config: Any = None
    """The config that the thread was invoked with, for a model that is chosen by it."""


class ChatResponse(ModelResponse):
    """The reply to a `ChatRequest`: `message` is the reply as LangChain's message."""

    message: Any = None
    output_given: bool = False
    """True if the final output was given by a tool, so that it is not the text of the message."""


class LangChainModel:
    """A LangChain chat model as a model; `Agent`, `RunConfig` and `create_agent` make it from a `BaseChatModel`."""

    provider = "langchain"
    """The provider's name in traces."""
    takes_messages = True
    """True: in a thread the model is asked with a `ChatRequest`."""

    def __init__(self, chat_model: Any) -> None:
        inner = chat_model_in(chat_model)
        named = (getattr(inner, name, None) for name in ("model_name", "model", "model_id"))
        self.name = next((name for name in named if isinstance(name, str) and name), type(inner).__name__)
        """The model's name."""
        self._chat = chat_model
        self._retries = retries(chat_model)
        self._is_fake = any(base.__module__ == FAKES for base in type(chat_model).__mro__)
        self._takes_config = takes_config(chat_model)

    def __repr__(self) -> str:
        return f"LangChainModel({type(self._chat).__name__}, {self.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        """Yield events in the form of the Responses API, and then the reply. Closing it closes LangChain's stream."""
        check_supported(WHERE, request, UNKNOWN)
        output = _output_name(request)
        whole = isinstance(request, ChatRequest)
        if isinstance(request, ChatRequest):
            asked = list(request.messages)
        else:
            asked = [_message(each) for each in chat_messages(request, DIALECT)]
        settings = request.settings
        arguments = {**settings_as_named(settings, SAME), **(settings.extra_args or {})}
        reply = LangChainReply(self.name, call_ids(request), output, whole=whole)
        try:
            chunks = self._chunks(request, output, asked, arguments)
            async with aclosing(chunks):
                async for chunk in chunks:
                    for event in reply.take(chunk):
                        yield event
        except AssentryError:
            raise
        except Exception as error:
            raise without_secrets(error, _chat_failure(self.name, error)) from error
        response = reply.response()
        for draft in reply.drafts:
            yield draft.done()
        yield response

    async def _chunks(self, request: ModelRequest, output: str | None, asked: Any, more: Any) -> AsyncGenerator[Any]:
        """Yield the chunks of the reply; the whole message if the model may be asked again.

        A model is streamed even if nobody follows it: one that streams inside of `ainvoke` mends a call that was cut
        off, and the call would run with what came. LangChain's fakes for tests cannot stream a reply without text.
        """
        chat = self._bind_tools(request, output)
        if self._takes_config and isinstance(request, ChatRequest):
            more = {**more, "config": {"configurable": dict((request.config or {}).get("configurable") or {})}}
        if self._retries or (self._is_fake and not request.streamed):
            yield await chat.ainvoke(asked, **more)
            return
        async with aclosing(chat.astream(asked, **more)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _bind_tools(self, request: ModelRequest, output: str | None) -> Any:
        """Return the chat model with the tools; the final output, if it has a schema, is given by a tool, too."""
        tools = [chat_tool(spec) for spec in request.tools]
        choice = chosen_tool(WHERE, request.settings)
        if request.output is not None:
            function = {"name": output, "description": "Give the final output.", "parameters": request.output.schema}
            tools.append({"type": "function", "function": function})
            choice = {None: "any", "auto": "any", "none": output}.get(choice, choice)
        if not tools:
            return self._chat
        more: dict[str, Any] = {"tool_choice": "any" if choice == "required" else choice} if choice else {}
        if request.settings.parallel_tool_calls is not None:
            more["parallel_tool_calls"] = request.settings.parallel_tool_calls
        try:
            return bind_inside(self._chat, lambda chat: chat.bind_tools(tools, **more))
        except NotImplementedError as error:
            raise UsageError(
                f"The chat model {self.name} takes no tools, and needs them for an agent with tools or "
                "an output_type; give the agent another model."
            ) from error


def _output_name(request: ModelRequest) -> str | None:
    if request.output is None:
        return None
    taken = any(spec.name == request.output.name for spec in request.tools)
    return f"{request.output.name}_output" if taken else request.output.name


def _message(message: Item) -> BaseMessage:
    """Return a message of the chat dialect as LangChain's."""
    from langchain_core.messages import AIMessage, convert_to_messages

    if message["role"] != "assistant":
        return convert_to_messages([message])[0]
    calls, invalid = [], []
    for call in message.get("tool_calls") or ():
        own = {"name": call["function"]["name"], "id": call["id"]}
        try:
            calls.append({**own, "args": parse_object(call["function"]["arguments"]), "type": "tool_call"})
        except BadJSON as error:
            text = call["function"]["arguments"]
            invalid.append({**own, "args": text, "error": str(error), "type": "invalid_tool_call"})
    content, ids = message["content"] or "", {call["id"] for call in (*calls, *invalid)}
    if isinstance(content, list):  # a call that is no longer part of the conversation has no answer
        content = [
            each
            for each in content
            if not isinstance(each, dict) or each.get("type") not in CALL_BLOCKS or _call_id(each) in ids
        ]
    more = dict(message.get("additional_kwargs") or {})
    if message.get("refusal"):
        more["refusal"] = message["refusal"]
    made: Any = {"content": content, "tool_calls": calls, "invalid_tool_calls": invalid, "additional_kwargs": more}
    return AIMessage(**made, id=message.get("id"))


def _call_id(block: Item) -> Any:
    return block.get("call_id") or block.get("id")


def _chat_failure(name: str, error: Exception) -> ModelFailed:
    """Return the `ModelFailed` for any exception: those of providers have a status, and nothing else in common."""
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    if not isinstance(status, int):
        return ModelFailed(f"The model {name!r} failed ({type(error).__name__}: {error}); try again.")
    return status_failure(name, status, str(error), retryable=is_passing(status))


class LangChainReply(ChatReply):
    """A reply that is put together from LangChain's message chunks."""

    def __init__(self, name: str, used: set[str], output: str | None, *, whole: bool = False) -> None:
        super().__init__(name, used, DIALECT)
        self._whole = whole
        """True if the reply is a `ChatResponse`, whose message has what the items cannot hold."""
        self._output = output
        """The name of the tool that gives the final output."""
        self._giving: set[Any] = set()
        """The indexes of calls of that tool."""
        self._given: ItemDraft | None = None
        self._chunks: list[Any] = []

    def take(self, chunk: AIMessage) -> Iterator[Item]:
        """Yield the events that show a message chunk."""
        self._chunks.append(chunk)
        if self._whole and chunk.id and len(self._chunks) == 1:
            yield {"type": "response.created", "response": {"id": chunk.id}}
        content = [chunk.content] if isinstance(chunk.content, str) else chunk.content
        for block in content:
            yield from self.grow(_block_delta(block))
        thought = chunk.additional_kwargs.get("reasoning_content")
        if isinstance(thought, str) and thought:
            yield from self.grow({"reasoning": thought})
        yield from self.grow({"refusal": chunk.additional_kwargs.get("refusal"), "tool_calls": _calls(chunk)})

    def response(self) -> ModelResponse:
        """Return the whole reply, or raise `ModelFailed` if it is not whole."""
        if not self._chunks:
            raise stream_failure(self.name, "it ended without a message")
        whole = _whole(self._chunks)
        said = whole.response_metadata
        reason = str(said.get("finish_reason") or said.get("stop_reason") or said.get("done_reason") or "stop")
        self.finish = FINISHES.get(reason.lower(), reason)
        self.id = whole.id
        self.usage = _usage(whole)
        self._keep_whole(whole)
        if self._whole and not self.drafts:
            self._begin("text")  # a message without text and calls is a message, too
        if reason == "refusal":  # nothing that was said before counts, calls least of all
            text = "".join(draft.text for draft in self.drafts if draft.kind == "text")
            self.drafts, self.more = [ItemDraft("refusal", 0, DIALECT)], {}
            self.drafts[0].grow(text or "The model refused to answer.")
        spoken = self._open.get("text")
        if self._given is not None and spoken is not None:
            spoken.kind = "reasoning"  # words beside the final output are no part of it
        made = super().response()
        if not self._whole:
            return made
        return ChatResponse(made.output, made.usage, made.response_id, whole, self._given is not None)

    def _keep_whole(self, whole: AIMessage) -> None:
        for draft in self.drafts:
            draft.wire.pop("field", None)
        if self._whole:
            return
        more = {k: v for k, v in whole.additional_kwargs.items() if k not in ("tool_calls", "function_call", "refusal")}
        kept = {"content": whole.content if isinstance(whole.content, list) else None, "additional_kwargs": more}
        self.more = {name: value for name, value in kept.items() if value}
        if self.more and whole.id and not whole.id.startswith(OWN_IDS):
            self.more["id"] = whole.id

    def _call(self, delta: Item) -> Iterator[Item]:
        index, name = delta.get("index"), delta["function"]["name"]
        if name:
            (self._giving.add if name == self._output else self._giving.discard)(index)
        if index not in self._giving:
            yield from super()._call(delta)
            return
        if self._given is None:
            self._given = self._begin("text")
            yield self._given.added()
        yield self._given.grow(delta["function"]["arguments"] or "")


def _block_delta(block: Any) -> Item:
    """Return the delta of a content block: its text, or what it shows of the model's reasoning."""
    if not isinstance(block, dict):
        return {"content": block}
    if block.get("type") == "text":
        return {"content": block.get("text")}
    if block.get("type") == "refusal":
        return {"refusal": block.get("refusal")}
    thought = block.get("thinking") or block.get("reasoning")
    return {"reasoning": thought} if isinstance(thought, str) else {}


def _calls(chunk: Any) -> list[Item]:
    """Return the calls of a chunk as deltas; of a whole message, which is not streamed, all calls at once."""
    pieces = getattr(chunk, "tool_call_chunks", None)
    if pieces is None:
        every = [*chunk.tool_calls, *chunk.invalid_tool_calls]
        pieces = [{**call, "index": n} for n, call in enumerate(every)]
    out = []
    for piece in pieces:
        args = piece["args"] if isinstance(piece["args"], str | None) else json.dumps(piece["args"])
        function = {"name": piece["name"], "arguments": args}
        out.append({"index": piece.get("index"), "id": piece.get("id"), "function": function})
    return out


def _whole(chunks: list[Any]) -> AIMessage:
    from langchain_core.messages import AIMessageChunk
    from langchain_core.messages.ai import add_ai_message_chunks

    if not isinstance(chunks[0], AIMessageChunk):
        whole: AIMessage = chunks[-1]
        return whole
    return add_ai_message_chunks(chunks[0], *chunks[1:])


def _usage(message: AIMessage) -> Usage:
    used: Any = message.usage_metadata or {}
    cached = (used.get("input_token_details") or {}).get("cache_read")
    reasoned = (used.get("output_token_details") or {}).get("reasoning")
    counts = (used.get("input_tokens"), used.get("output_tokens"), cached, reasoned)
    return Usage(1, *(count or 0 for count in counts))
