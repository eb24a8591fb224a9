"""Items on the wire, for dialects other than OpenAI's Responses: drafts of a reply's items, and data of one dialect.

Items have the form of the Responses API everywhere in Assentry, and so do the events that show a reply as it comes.
Each dialect's own form belongs in its module.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any, Literal
from uuid import uuid4

from ..core.transcript import Item, as_function, is_given
from ..core.wording import described
from ..errors import UsageError
from .model import MCPToolChoice, ModelRequest, ModelSettings

log = logging.getLogger("assentry")

WIRE = "assent:wire"
"""The key of an item's wire data: fields that an item has no place for, by the name of the dialect that gave them.

A dialect sends its own data back unchanged, and never another's. The Responses API gets none."""

OPENAI_SETTINGS = ("prompt_cache_retention", "prompt_cache_options", "top_logprobs")
"""The settings that only OpenAI's two APIs have."""
Kind = Literal["text", "refusal", "reasoning", "call", "block"]
DELTAS: dict[Kind, str] = {
    "text": "response.output_text.delta",
    "refusal": "response.refusal.delta",
    "reasoning": "response.reasoning_text.delta",
    "call": "response.function_call_arguments.delta",
}


class ItemDraft:
    """An item of a reply while its text comes in pieces."""

    def __init__(self, kind: Kind, index: int, dialect: str, **fields: Any) -> None:
        self.kind = kind
        self.index = index
        """The item's place in the output."""
        self.fields = fields
        self.wire: dict[str, Any] = {}
        self.pieces: list[str] = []
        self._dialect = dialect
        self._where: Item = {"item_id": f"{kind}_{index}", "output_index": index}
        if kind != "call":
            self._where["content_index"] = 0

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    def grow(self, piece: str) -> Item:
        """Add a piece of text, and return the event that shows it."""
        self.pieces.append(piece)
        return {"type": DELTAS[self.kind], **self._where, "delta": piece}

    def added(self) -> Item:
        """Return the event that shows that the item has begun."""
        return {"type": "response.output_item.added", "output_index": self.index, "item": self._item("")}

    def done(self) -> Item:
        """Return the event that shows the whole item, which the consumer may change."""
        return {"type": "response.output_item.done", "output_index": self.index, "item": deepcopy(self.item())}

    def item(self) -> Item:
        """Return the item with its text so far."""
        text = self.text
        item = self._item(text or "{}" if self.kind == "call" else text)  # no arguments may be written as no text
        # Reasoning always tells its dialect: no other one takes it.
        return {**item, WIRE: {self._dialect: self.wire}} if self.wire or self.kind == "reasoning" else item

    def _item(self, text: str) -> Item:
        if self.kind == "block":
            return {**self.fields}
        if self.kind == "call":
            return {"type": "function_call", **self.fields, "arguments": text, "status": "completed"}
        if self.kind == "reasoning":
            content = [{"type": "reasoning_text", "text": text}] if text else []
            return {"type": "reasoning", "summary": [], "content": content}
        part: Item = {"type": "output_text", "text": text, "annotations": []}
        if self.kind == "refusal":
            part = {"type": "refusal", "refusal": text}
        return {"type": "message", "role": "assistant", "status": "completed", "content": [part]}


def fresh_id(given: Any, used: set[str]) -> str:
    """Return the provider's id of a call, or a new one if it is missing or was used before, and remember it."""
    id = given if isinstance(given, str) and given and given not in used else f"call_{uuid4().hex[:24]}"
    used.add(id)
    return id


def call_ids(request: ModelRequest) -> set[str]:
    """Return the ids of the calls in a request's input."""
    return {item["call_id"] for item in request.input if item.get("type") == "function_call" and item.get("call_id")}


def turns(request: ModelRequest) -> Iterator[tuple[bool, list[Item]]]:
    """Yield items that follow each other and belong together: True and what a model made, or False and the rest.

    Calls of the shell and of patches, which the Responses API has a form of its own for, are calls of functions here.
    """
    names: dict[str, str] = {tool.native: tool.name for tool in request.tools if tool.native is not None}
    for given, group in groupby(request.input, is_given):
        yield not given, [as_function(item, names) for item in group]


def wire_data(item: Item, dialect: str) -> dict[str, Any] | None:
    """Return the data of an item that this dialect gave; None if it gave none."""
    data = item.get(WIRE)
    return data.get(dialect) if isinstance(data, dict) else None


def responses_items(items: Sequence[Item]) -> list[Item]:
    """Return items for the Responses API: without other dialects' data, and without reasoning that another made."""
    if not any(WIRE in item for item in items):
        return list(items)
    out = []
    for item in items:
        if WIRE not in item:
            out.append(item)
        elif str(item.get("type")).startswith("anthropic:"):
            raise unsupported("OpenAI's Responses API", f"an item of type {item['type']!r}")
        elif item.get("type") != "reasoning":
            out.append({name: value for name, value in item.items() if name != WIRE})
    return out


def message_parts(content: Any, where: str) -> list[Item]:
    """Return a message's content, which is text or a list, as a list of parts."""
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}] if content else []
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise unsupported(where, f"the content {described(content)}")
    return content


def said_texts(item: Item, where: str) -> list[tuple[str, str]]:
    """Return the texts of a message of the model, each with its kind: "text" or "refusal"."""
    out = []
    for part in message_parts(item.get("content"), where):
        kind = "refusal" if part.get("type") == "refusal" else "text"
        if not isinstance(part.get(kind), str):
            raise unsupported(where, f"a part of type {part.get('type')!r}")
        out.append((kind, part[kind]))
    return out


def unsupported(where: str, what: str) -> UsageError:
    """Return the error for something that a dialect has no form for."""
    return UsageError(
        f"{where} has no form for {what}. Leave it out of the input, or use another model; a "
        "handoff's input_filter may leave items out."
    )


def check_supported(where: str, request: ModelRequest, unknown: Sequence[str]) -> None:
    """Raise `UsageError` if the request has a setting, or a conversation id, that a dialect does not know."""
    if request.previous_response_id is not None or request.conversation_id is not None:
        raise UsageError(
            f"{where} keeps no conversation: leave out conversation_id, previous_response_id and "
            "auto_previous_response_id, or use an OpenAIResponsesModel."
        )
    if request.prompt is not None:
        raise UsageError(f"{where} keeps no prompts; give the agent instructions, or use an OpenAIResponsesModel.")
    if request.hosted:
        kinds = ", ".join(sorted({str(each.get("type")) for each in request.hosted}))
        raise UsageError(f"{where} has no tools that the provider runs ({kinds}); use an OpenAIResponsesModel.")
    for name in ("context_management", *unknown):
        if getattr(request.settings, name) is not None:
            refuse_setting(
                request.settings,
                f"{where} has no setting {name}; leave it out of ModelSettings, or give it under the provider's name, "
                "with extra_args.",
            )


def refuse_setting(settings: ModelSettings, words: str) -> None:
    """Raise `UsageError` for a setting that a provider does not have; or warn, if the settings are not strict."""
    if settings.STRICT:
        raise UsageError(words)
    log.warning("%s It is not sent.", words)


def chosen_tool(where: str, settings: ModelSettings) -> str | None:
    """Return the `tool_choice`; raise `UsageError` for a tool that the provider calls."""
    choice = settings.tool_choice
    if isinstance(choice, MCPToolChoice):
        raise UsageError(f"{where} calls no MCP servers; leave out MCPToolChoice, or use an OpenAIResponsesModel.")
    return choice


def settings_as_named(settings: ModelSettings, names: Sequence[str]) -> dict[str, Any]:
    """Return the settings with these names that are set."""
    every = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in every.items() if value is not None}
