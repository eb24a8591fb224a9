"""A chat model of LangChain that follows a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr


class ScriptedChat(BaseChatModel):
    """A chat model whose replies are given: texts, messages, or exceptions. `asked` has what it heard."""

    steps: list[Any]
    model_name: str = "scripted"
    streams: bool = False
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _options: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[list[BaseMessage]]:
        """The messages of each request."""
        return self._asked

    @property
    def options(self) -> list[dict[str, Any]]:
        """The keyword arguments of each request, the tools among them."""
        return self._options

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        """Return the model with tools."""
        return self.bind(tools=tools, **options)

    def _next(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        self._asked.append(list(messages))
        self._options.append(options)
        step = self.steps[len(self._asked) - 1]
        if isinstance(step, Exception):
            raise step
        return AIMessage(step) if isinstance(step, str) else step

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages, options))])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        said = self._next(messages, options)
        for word in str(said.content).split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word, id=said.id))

    def _should_stream(self, **options: Any) -> bool:
        return self.streams and super()._should_stream(**options)


def called(name: str, id: str = "c1", **args: Any) -> AIMessage:
    """A reply that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": id}])
