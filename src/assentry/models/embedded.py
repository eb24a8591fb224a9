"""The embedded model: 135 million parameters in this process, with no key and no network.

It chooses a tool, or words, in one generation, and writes the arguments or the words in a second one. A grammar made of
the tool's JSON schema holds the second one to it, so calls are valid even where they are wrong. The engine belongs in
`embedded_engine`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from ..core.digest import BadJSON, parse_object
from ..core.facts import Usage
from ..core.transcript import Item, as_function
from ..core.wording import described
from ..errors import UsageError
from .embedded_engine import Generated, generate, grammar
from .embedded_parts import check_installed
from .failure import incomplete_failure
from .model import ModelRequest, ModelResponse, ModelSettings, ToolSpec
from .wire import (
    OPENAI_SETTINGS,
    ItemDraft,
    call_ids,
    check_supported,
    chosen_tool,
    fresh_id,
    message_parts,
    settings_as_named,
    unsupported,
)

WHERE = "The embedded model"
NAME = "embedded"
MAX_TOKENS, MAX_JSON_TOKENS = 256, 1024
"""The limits of words and of JSON, if ModelSettings has none. Words may be cut; half a JSON text is of no use."""
SAME = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
"""Settings that the engine has under the same name."""
UNKNOWN = ("reasoning", "truncation", "verbosity", "store", "extra_headers", "extra_query", *OPENAI_SETTINGS)
ANSWER = "answer"
"""The choice of words instead of a tool."""
SMALL_TALK = ("Hello!", "What is love?")
"""Messages that are answered in words, as examples for the choice."""
TEXTS = ("input_text", "output_text", "text")
MAX_STRING, MAX_ITEMS, MAX_NUMBER, FINE = 200, 10, 10**12, 1e-6
"""Bounds where a schema has none, since a small model often goes on without end: characters, items, numbers."""
FORM = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
"""Options of the engine's grammar: one way to write spaces; keywords that it does not know are left out."""


class EmbeddedModel:
    """A small model that runs in this process, with no key and no network. Needs `assentry models install embedded`.

    It is for trying things out: it is often wrong. A reply has one call at most. With the tool choice "auto" it calls
    one tool for each message of the user, and then answers in words. All `EmbeddedModel` objects of a process share one
    engine, which works for one request at a time and never on the event loop.
    """

    provider = "assentry"
    """The provider's name in traces."""
    name = NAME
    """The model's name."""

    def __repr__(self) -> str:
        return "EmbeddedModel()"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        """Yield events in the form of the Responses API, and then the reply. Closing it stops the engine."""
        check_supported(WHERE, request, UNKNOWN)
        check_installed()
        used = TokenTally()
        tool = await _choose_tool(request, used)
        if tool is not None:
            prompt = f'{_prompt(request, tool)}{{"name": "{tool.name}", "arguments":'
            draft = ItemDraft("call", 0, NAME, name=tool.name, call_id=fresh_id(None, call_ids(request)))
        else:
            prompt, draft = _prompt(request), ItemDraft("text", 0, NAME)
        yield draft.added()
        schema = tool.parameters if tool is not None else request.output.schema if request.output is not None else None
        limit = request.settings.max_tokens or (MAX_TOKENS if schema is None else MAX_JSON_TOKENS)
        held = await asyncio.to_thread(_grammar_of, schema)  # the first time it reads the whole library
        body = {**_body(request.settings), "max_tokens": limit, "prompt": prompt, **held}
        async with aclosing(_pieces(body, used)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                yield draft.grow(piece if draft.pieces else piece.lstrip())
        if schema is not None:
            _check_whole(draft.text)
        status = "completed" if used.complete else "incomplete"
        yield {**draft.done(), "item": {**draft.item(), "status": status}}
        yield ModelResponse([{**draft.item(), "status": status}], used.usage, f"resp_{uuid4().hex}")


class TokenTally:
    """The tokens of a reply's generations, and True if the last one ended by itself."""

    def __init__(self) -> None:
        self.usage = Usage(1)
        self.complete = True

    def add(self, ended: Generated) -> None:
        """Add the counts of a generation."""
        self.usage.add(ended.usage)
        self.complete = ended.complete


async def _pieces(body: dict[str, Any], used: TokenTally) -> AsyncIterator[str]:
    """Yield the text of a generation, and count its tokens."""
    async with aclosing(generate(body)) as pieces:  # type: ignore[type-var]
        async for piece in pieces:
            if isinstance(piece, Generated):
                used.add(piece)
            else:
                yield piece


def _check_whole(text: str) -> None:
    """Raise `ModelFailed` if the text is no JSON object: it was cut off, or its schema has no grammar."""
    try:
        parse_object(text)
    except BadJSON as error:
        raise incomplete_failure(
            NAME,
            f"its JSON is incomplete: {error}",
            "Allow more with ModelSettings(max_tokens=...), or use a smaller schema.",
        ) from None


# -- choosing a tool -----------------------------------------------------------------------------------


async def _choose_tool(request: ModelRequest, used: TokenTally) -> ToolSpec | None:
    """Return the tool that the model calls; None for words."""
    tools = {tool.name: tool for tool in request.tools}
    choice = chosen_tool(WHERE, request.settings) or "auto"
    if choice in tools:
        return tools[choice]
    if choice not in ("auto", "required", "none"):
        raise UsageError(f"{WHERE}: tool_choice names {described(choice)}, which is not among the tools.")
    if not tools or choice == "none" or (choice == "auto" and _has_called(request.input, tools)):
        return None
    words = ANSWER
    while words in tools:
        words += "_"
    names = [*tools, words] if choice == "auto" else [*tools]
    if len(names) > 1:
        body = {**_body(request.settings), "max_tokens": MAX_TOKENS}
        body |= {"prompt": _choice_prompt(request, words), "grammar": _one_of(names)}
        chosen = "".join([piece async for piece in _pieces(body, used)])
        if chosen not in names:
            raise incomplete_failure(NAME, f"it chose {described(chosen)}, which it is not offered")
        names = [chosen]
    return tools.get(names[0])


def _has_called(items: Sequence[Item], tools: dict[str, ToolSpec]) -> bool:
    """Return True if one of these tools was called after the last message of the user."""
    for item in reversed(items):
        if item.get("role") == "user":
            return False
        if as_function(item).get("type") == "function_call" and as_function(item).get("name") in tools:
            return True
    return False


def _choice_prompt(request: ModelRequest, words: str) -> str:
    """Return the prompt for the choice: the tools' descriptions as examples, and the user's last message."""
    asked = next((_text(item) for item in reversed(request.input) if item.get("role") == "user"), "")
    examples = [(text, words) for text in SMALL_TALK]
    examples += [
        (tool.description.partition("\n")[0] or tool.name.replace("_", " "), tool.name) for tool in request.tools
    ]
    shown = "".join(_as_said("user", text) + _as_said("assistant", f'{{"name": "{name}"}}') for text, name in examples)
    told = _as_said("system", "Name the function for what the user wants.")
    return f'{told}{shown}{_as_said("user", asked)}<|im_start|>assistant\n{{"name": "'


def _one_of(names: Sequence[str]) -> str:
    return "root ::= " + " | ".join(json.dumps(name) for name in names)


# -- prompts -------------------------------------------------------------------------------------------


def _prompt(request: ModelRequest, tool: ToolSpec | None = None) -> str:
    """Return the prompt for a call of this tool, or for words: the whole conversation, as far as it is text."""
    told = [request.instructions] if request.instructions else []
    if tool is not None:
        signature = f"{tool.name}({', '.join(tool.parameters.get('properties', {}))}): {tool.description}"
        told.append(f"Take the values from what the user says.\n{signature}")
    elif request.output is not None:
        told.append(f"Answer with JSON: {', '.join(request.output.schema.get('properties', {}))}.")
    heard = [as_function(item) for item in request.input]
    names = {item.get("call_id"): item.get("name") for item in heard if item.get("type") == "function_call"}
    system = _as_said("system", "\n".join(told)) if told else ""
    return system + "".join(_turn(item, names) for item in heard) + "<|im_start|>assistant\n"


def _turn(item: Item, names: dict[Any, Any]) -> str:
    """Return an item as the model reads it.

    Reasoning and other items that only another model understands are left out.
    """
    kind = item.get("type", "message")
    if kind == "function_call":
        return _as_said("assistant", f"I called {item.get('name')}.")
    if kind == "function_call_output":
        name = names.get(item.get("call_id"))
        return _as_said("user", f"The result of {name}: {_text(item)}\nTell me the result.")
    if kind == "message":
        role = item.get("role")
        return _as_said("system" if role == "developer" else str(role), _text(item))
    return ""


def _as_said(role: str, text: str) -> str:
    plain = text.replace("<|", "< |")  # text of others cannot begin a turn
    return f"<|im_start|>{role}\n{plain}<|im_end|>\n"


def _text(item: Item) -> str:
    """Return the text of a message or an output; raise `UsageError` if there is more than text."""
    parts = message_parts(item.get("output", item.get("content")), WHERE)
    for part in parts:
        if part.get("type") not in (*TEXTS, "refusal"):
            raise unsupported(WHERE, f"a part of type {described(part.get('type'))}")
    return "".join(str(part.get("text", part.get("refusal", ""))) for part in parts)


def _body(settings: ModelSettings) -> dict[str, Any]:
    """Return the settings for the engine. Without a temperature, the likeliest token is taken every time."""
    body = {"temperature": 0.0, **settings_as_named(settings, SAME)}
    return {**body, **(settings.extra_body or {}), **(settings.extra_args or {})}


# -- schemas -------------------------------------------------------------------------------------------


def _grammar_of(schema: dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments that hold a generation to a schema; without one, words that repeat themselves less."""
    if schema is None:
        return {"repeat_penalty": 1.1}
    return {"grammar": grammar({**bounded(schema), "x-guidance": FORM})}


def bounded(schema: Any) -> Any:
    """Return a schema with bounds for strings, lists and numbers that have none."""
    if isinstance(schema, list):
        return [bounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {
        key: {name: bounded(each) for name, each in value.items()}
        if key in ("properties", "$defs", "definitions")
        else value
        if key in ("enum", "const", "default", "examples", "required")
        else bounded(value)
        for key, value in schema.items()
    }
    kinds = out.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        out = {**BOUNDS.get(kind, {}), **out} if not out.keys() & UNBOUND else out
    return out


UNBOUND = {"enum", "const", "pattern", "format"}
BOUNDS: dict[Any, dict[str, Any]] = {
    "string": {"maxLength": MAX_STRING},
    "array": {"maxItems": MAX_ITEMS},
    "integer": {"minimum": -MAX_NUMBER, "maximum": MAX_NUMBER},
    "number": {"minimum": -MAX_NUMBER, "maximum": MAX_NUMBER, "multipleOf": FINE},
}
