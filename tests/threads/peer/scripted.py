"""A chat model of LangChain's that replies by a script, and ways to print what a user would look at.

Cases and programs import it on both sides, as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

Reply = AIMessage | str | Exception | Callable[[list[BaseMessage]], Any]
EMAIL_POLICY = {"send": {"allowed_decisions": ["approve", "edit", "reject"]}}


class Script:
    """The replies to come, and what the model has heard so far."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = iter(replies)
        self.heard: list[list[BaseMessage]] = []
        self.asked_with: list[dict[str, Any]] = []

    def next(self, messages: list[BaseMessage], settings: dict[str, Any]) -> AIMessage:
        self.heard.append(messages)
        self.asked_with.append(settings)
        reply = next(self._replies, None) or AIMessage("The script has ended.")
        if callable(reply) and not isinstance(reply, BaseMessage):
            reply = reply(messages)
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(reply) if isinstance(reply, str) else reply


class ScriptedChat(BaseChatModel):
    """A chat model with its replies written down."""

    script: Any
    model_name: str = "scripted"

    def __init__(self, *replies: Reply, **more: Any) -> None:
        super().__init__(script=Script(replies), **more)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def heard(self) -> list[list[BaseMessage]]:
        """The messages of each request."""
        return self.script.heard

    @property
    def offered(self) -> list[list[str]]:
        """The names of the tools that came with each request."""
        return [[each["function"]["name"] for each in kept.get("tools") or ()] for kept in self.script.asked_with]

    @property
    def settings(self) -> list[dict[str, Any]]:
        """The other arguments of each request."""
        left_out = ("tools", "tool_choice")
        return [{k: v for k, v in kept.items() if k not in left_out} for kept in self.script.asked_with]

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **more: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools], tool_choice=tool_choice, **more)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.script.next(messages, settings))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: Any,
    ) -> Iterator[ChatGenerationChunk]:
        reply = self.script.next(messages, settings)
        for chunk in _chunks(reply):
            made = ChatGenerationChunk(message=chunk)
            if run_manager is not None:
                run_manager.on_llm_new_token(str(chunk.content), chunk=made)
            yield made


def _chunks(reply: AIMessage) -> Iterator[AIMessageChunk]:
    if isinstance(reply.content, str):
        words = reply.content.split(" ")
        texts = [f"{word} " for word in words[:-1]] + words[-1:]
        for text in filter(None, texts):
            yield AIMessageChunk(text, id=reply.id)
    else:
        yield AIMessageChunk(reply.content, id=reply.id)
    for index, each in enumerate(reply.tool_calls):
        part = {"name": each["name"], "args": json.dumps(each["args"]), "id": each["id"], "index": index}
        yield AIMessageChunk("", tool_call_chunks=[{**part, "type": "tool_call_chunk"}], id=reply.id)
    for index, each in enumerate(reply.invalid_tool_calls, len(reply.tool_calls)):
        part = {"name": each["name"], "args": each["args"], "id": each["id"], "index": index}
        yield AIMessageChunk("", tool_call_chunks=[{**part, "type": "tool_call_chunk"}], id=reply.id)
    more = {"additional_kwargs": reply.additional_kwargs, "response_metadata": reply.response_metadata}
    yield AIMessageChunk("", usage_metadata=reply.usage_metadata, id=reply.id, **more)


def call(name: str, args: dict[str, Any] | None = None, id: str = "c1") -> dict[str, Any]:
    """Return a tool call."""
    return {"name": name, "args": args or {}, "id": id, "type": "tool_call"}


def turn(*calls: dict[str, Any], text: str = "", **more: Any) -> AIMessage:
    """Return a reply with tool calls."""
    return AIMessage(text, tool_calls=list(calls), **more)


def thread(name: str = "one") -> dict[str, Any]:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": name}}


def show(result: Any) -> None:
    """Print messages, or the messages of a result, one a line, and whether it waits."""
    messages = result["messages"] if isinstance(result, dict) else result
    for each in messages:
        line = f"{each.type}: {each.content}"
        if each.type == "ai" and each.tool_calls:
            line += " ".join(f" [{one['name']}({one['args']}) {one['id']}]" for one in each.tool_calls)
        if each.type == "tool":
            line = f"tool {each.name} {each.tool_call_id} {each.status}: {each.content}"
        print(line)
    if isinstance(result, dict) and "__interrupt__" in result:
        asked(result["__interrupt__"])


def asked(interrupts: Any) -> None:
    """Print what is asked for: the calls of each interrupt, or its value."""
    for each in interrupts:
        if isinstance(each.value, dict) and "action_requests" in each.value:
            for request, review in zip(each.value["action_requests"], each.value["review_configs"], strict=True):
                print(f"asks: {request['name']}({request['args']}) {review['allowed_decisions']}")
        else:
            print(f"asks: {each.value}")


def shown(error: BaseException) -> str:
    """Return "refused" for an error that a library raises on purpose; on our side one must be ours."""
    if os.environ.get("PEER_SIDE") == "ours":
        from assentry.errors import AssentryError

        if not isinstance(error, AssentryError):
            return f"BARE {type(error).__name__}: {error}"
    return "refused"
