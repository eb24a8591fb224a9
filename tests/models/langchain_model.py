"""A chat model of LangChain that follows a script, and refuses what providers refuse."""

import json
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from assentry.testing import ScriptedCall

USAGE = {
    "input_tokens": 36,
    "output_tokens": 87,
    "total_tokens": 123,
    "input_token_details": {"cache_read": 4},
    "output_token_details": {"reasoning": 60},
}


class FakeChatModel(BaseChatModel):
    """Replies with one step after another: text, a call, a list of these, an exception, or ready chunks."""

    model_name: str = "fake-1"
    steps: list[Any] = Field(default_factory=list)
    streams: bool = True
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    arguments: list[dict[str, Any]] = Field(default_factory=list)
    closed: bool = False

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _should_stream(self, **kwargs: Any) -> bool:
        return self.streams

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=tools, **kwargs)  # type: ignore[return-value]

    def _next(self, messages: list[BaseMessage], arguments: dict[str, Any]) -> AIMessage:
        see_that_calls_are_answered(messages)
        self.asked.append(messages)
        self.arguments.append(arguments)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, AIMessage):
            return step
        parts = step if isinstance(step, list) else [step]
        tools = [each["function"]["name"] for each in arguments.get("tools") or ()]
        if arguments.get("tool_choice") == "any" and tools == ["Letter"] and isinstance(step, str):
            parts = [ScriptedCall("Letter", step)]  # the final output is asked for as a call
        text = "".join(part for part in parts if isinstance(part, str))
        calls = [part for part in parts if isinstance(part, ScriptedCall)]
        chunks = [
            tool_call_chunk(
                name=call.name, args=call.arguments, id=call.call_id or f"lc_{len(self.asked)}_{n}", index=n
            )
            for n, call in enumerate(calls)
        ]
        return AIMessageChunk(content=text, tool_call_chunks=chunks, usage_metadata=USAGE)

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        whole = self._next(messages, more)
        if isinstance(whole, AIMessageChunk):
            whole = AIMessage(content=whole.content, usage_metadata=whole.usage_metadata, **parsed(whole))
        return ChatResult(generations=[ChatGeneration(message=whole)])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        try:
            whole = self._next(messages, more)
            for chunk in pieces(whole):
                yield ChatGenerationChunk(message=chunk)
        finally:
            self.closed = True


def parsed(message: AIMessageChunk) -> dict[str, list[Any]]:
    """The calls of a message, as providers' classes parse them if nothing is streamed."""
    out: dict[str, list[Any]] = {"tool_calls": [], "invalid_tool_calls": []}
    for call in message.tool_call_chunks:
        own = {"name": call["name"], "id": call["id"]}
        try:
            out["tool_calls"].append({**own, "args": json.loads(call["args"] or "{}"), "type": "tool_call"})
        except ValueError as error:
            more = {"args": call["args"], "error": str(error), "type": "invalid_tool_call"}
            out["invalid_tool_calls"].append({**own, **more})
    return out


def pieces(whole: Any) -> list[AIMessageChunk]:
    """A message in pieces."""
    if not isinstance(whole.content, str) or whole.response_metadata:
        return [whole]
    text = whole.content
    out = [AIMessageChunk(content=text[start : start + 5]) for start in range(0, len(text), 5)]
    for call in whole.tool_call_chunks:
        written = call["args"] or ""
        out.append(AIMessageChunk(content="", tool_call_chunks=[{**call, "args": ""}]))
        for start in range(0, len(written), 6):
            piece = tool_call_chunk(name=None, args=written[start : start + 6], id=None, index=call["index"])
            out.append(AIMessageChunk(content="", tool_call_chunks=[piece]))
    return [*out, AIMessageChunk(content="", usage_metadata=whole.usage_metadata)]


def see_that_calls_are_answered(messages: list[BaseMessage]) -> None:
    waiting: list[Any] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
            continue
        assert not waiting, "a call has no answer"
        if isinstance(message, AIMessage):
            waiting = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
            json.dumps(message.tool_calls)
    assert not waiting, "a call has no answer"
