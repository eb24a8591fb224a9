"""The official clients alone: the least loop over a client that reads replies, calls tools and sends their answers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from ..conversation import LOOKUP, PROMPT, SYSTEM, WIRE, body
from ..recordings import MODEL
from . import dialects

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "the city"},
        "days": {"type": "integer", "description": "how many days"},
        "note": {"type": "string", "description": "free text"},
    },
    "required": ["city", "days", "note"],
    "additionalProperties": False,
}
TOOLS = {LOOKUP: "Look something up.", WIRE: "Wire money."}

Called = tuple[str, str, str]
"""The id of a call, its tool and its arguments."""


class Client(ABC):
    """A client with the talk's form in its dialect."""

    def __init__(self, client: Any) -> None:
        self.client = client

    @abstractmethod
    def talk(self) -> list[Any]:
        """The talk's beginning."""

    @abstractmethod
    async def stream(self, talk: list[Any], read: list[str]) -> Called | None:
        """Ask, read the deltas of text, and add the reply to the talk; the call in it."""

    @abstractmethod
    async def ask(self, talk: list[Any], read: list[str]) -> Called | None:
        """The same without a stream."""

    @abstractmethod
    def answered(self, called: Called, answer: str) -> dict[str, Any]:
        """A tool's answer as a part of the talk."""


class Responses(Client):
    """OpenAI Responses."""

    tools: ClassVar = [
        {"type": "function", "name": name, "description": text, "parameters": SCHEMA, "strict": True}
        for name, text in TOOLS.items()
    ]

    def talk(self) -> list[Any]:
        return [{"role": "user", "content": PROMPT}]

    def _asked(self, talk: list[Any], **more: Any) -> Any:
        wanted = {"model": MODEL["responses"], "instructions": SYSTEM, "input": talk, "tools": self.tools}
        return self.client.responses.create(**wanted, **more)

    async def stream(self, talk: list[Any], read: list[str]) -> Called | None:
        called = None
        async for event in await self._asked(talk, stream=True):
            if event.type == "response.output_text.delta":
                read.append(event.delta)
            elif event.type == "response.completed":
                called = self._added(talk, event.response)
        return called

    async def ask(self, talk: list[Any], read: list[str]) -> Called | None:
        response = await self._asked(talk)
        read.append(response.output_text)
        return self._added(talk, response)

    def _added(self, talk: list[Any], response: Any) -> Called | None:
        called = None
        for item in response.output:
            talk.append(item.to_dict(mode="json"))
            if item.type == "function_call":
                called = item.call_id, item.name, item.arguments
        return called

    def answered(self, called: Called, answer: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": called[0], "output": answer}


class Chat(Client):
    """OpenAI Chat Completions."""

    tools: ClassVar = [
        {"type": "function", "function": {"name": name, "description": text, "parameters": SCHEMA, "strict": True}}
        for name, text in TOOLS.items()
    ]

    def talk(self) -> list[Any]:
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]

    def _asked(self, talk: list[Any], **more: Any) -> Any:
        return self.client.chat.completions.create(model=MODEL["chat"], messages=talk, tools=self.tools, **more)

    async def stream(self, talk: list[Any], read: list[str]) -> Called | None:
        id, name, arguments, began = "", "", list[str](), len(read)
        async for chunk in await self._asked(talk, stream=True, stream_options={"include_usage": True}):
            for choice in chunk.choices:
                if choice.delta.content:
                    read.append(choice.delta.content)
                for call in choice.delta.tool_calls or ():
                    id, name = call.id or id, call.function.name or name
                    arguments.append(call.function.arguments)
        return self._added(talk, (id, name, "".join(arguments)) if id else None, "".join(read[began:]))

    async def ask(self, talk: list[Any], read: list[str]) -> Called | None:
        message = (await self._asked(talk)).choices[0].message
        read.append(message.content or "")
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        return self._added(talk, calls[0] if calls else None, message.content)

    def _added(self, talk: list[Any], called: Called | None, text: str) -> Called | None:
        if called is None:
            talk.append({"role": "assistant", "content": text})
        else:
            function = {"name": called[1], "arguments": called[2]}
            calls = [{"id": called[0], "type": "function", "function": function}]
            talk.append({"role": "assistant", "content": None, "tool_calls": calls})
        return called

    def answered(self, called: Called, answer: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": called[0], "content": answer}


class Anthropic(Client):
    """Anthropic Messages."""

    tools: ClassVar = [{"name": name, "description": text, "input_schema": SCHEMA} for name, text in TOOLS.items()]

    def talk(self) -> list[Any]:
        return [{"role": "user", "content": PROMPT}]

    def _asked(self, talk: list[Any], **more: Any) -> Any:
        wanted = {"model": MODEL["anthropic"], "max_tokens": 4096, "system": SYSTEM, "tools": self.tools}
        return self.client.messages.create(messages=talk, **wanted, **more)

    async def stream(self, talk: list[Any], read: list[str]) -> Called | None:
        id, name, arguments, began = "", "", list[str](), len(read)
        async for event in await self._asked(talk, stream=True):
            if event.type == "content_block_delta":
                if event.delta.type == "text_delta":
                    read.append(event.delta.text)
                elif event.delta.type == "input_json_delta":
                    arguments.append(event.delta.partial_json)
            elif event.type == "content_block_start" and event.content_block.type == "tool_use":
                id, name = event.content_block.id, event.content_block.name
        return self._added(talk, (id, name, "".join(arguments)) if id else None, "".join(read[began:]))

    async def ask(self, talk: list[Any], read: list[str]) -> Called | None:
        called, text = None, ""
        for block in (await self._asked(talk)).content:
            if block.type == "tool_use":
                called = block.id, block.name, json.dumps(block.input)
            else:
                text = block.text
        read.append(text)
        return self._added(talk, called, text)

    def _added(self, talk: list[Any], called: Called | None, text: str) -> Called | None:
        block: dict[str, Any] = {"type": "text", "text": text}
        if called is not None:
            block = {"type": "tool_use", "id": called[0], "name": called[1], "input": json.loads(called[2])}
        talk.append({"role": "assistant", "content": [block]})
        return called

    def answered(self, called: Called, answer: str) -> dict[str, Any]:
        result = {"type": "tool_result", "tool_use_id": called[0], "content": answer}
        return {"role": "user", "content": [result]}


CLIENTS = {"responses": Responses, "chat": Chat, "anthropic": Anthropic}


class Driver(dialects.Driver):
    """A client alone, driven."""

    def made(self, dialect: str, client: Any) -> Client:
        return CLIENTS[dialect](client)

    async def streamed(self, agent: Client) -> list[str]:
        return await self._run(agent, agent.stream)

    async def unstreamed(self, agent: Client) -> str:
        return "".join(await self._run(agent, agent.ask))

    async def _run(self, client: Client, ask: Any) -> list[str]:
        talk, read = client.talk(), list[str]()
        while called := await ask(talk, read):
            _, tool, arguments = called
            talk.append(client.answered(called, body(tool, **json.loads(arguments))))
        return read


def make() -> Driver:
    """The driver."""
    return Driver()
