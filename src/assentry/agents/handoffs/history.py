"""The names of `agents.handoffs.history`: the conversation before a handoff, as one message for the next agent.

The message holds the conversation as text, between two markers. At the next handoff it is read back, so that messages
are never nested in messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from ...definitions.handoff import HandoffInputData
from ...definitions.item import ToolApprovalItem

__all__ = [
    "default_handoff_history_mapper",
    "get_conversation_history_wrappers",
    "nest_handoff_history",
    "reset_conversation_history_wrappers",
    "set_conversation_history_wrappers",
]

Item = dict[str, Any]
HandoffHistoryMapper = Callable[[list[Item]], list[Item]]
"""A function that makes the next agent's input from the conversation before a handoff."""

OPENING = "For context, here is the conversation so far between the user and the previous agent:"
MARKERS = ("<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>")
ROLES = ("user", "assistant", "system", "developer")
SUMMARIZED = ("function_call", "function_call_output", "reasoning")
"""The types of items that the next agent only gets as text."""
_NUMBERED = re.compile(r"^\s*\d+\.\s*", re.MULTILINE)
_SPEAKER = re.compile(r"(\w+)(?: \((.+?)\))?:\s?(.*)", re.DOTALL)
_markers = MARKERS


def set_conversation_history_wrappers(*, start: str | None = None, end: str | None = None) -> None:
    """Set the markers around the conversation; None leaves one as it is."""
    global _markers
    _markers = (_markers[0] if start is None else start, _markers[1] if end is None else end)


def reset_conversation_history_wrappers() -> None:
    """Set the markers back to `<CONVERSATION HISTORY>` and `</CONVERSATION HISTORY>`."""
    global _markers
    _markers = MARKERS


def get_conversation_history_wrappers() -> tuple[str, str]:
    """Return the markers around the conversation."""
    return _markers


def nest_handoff_history(
    handoff_input_data: HandoffInputData, *, history_mapper: HandoffHistoryMapper | None = None
) -> HandoffInputData:
    """Return the data of a handoff with the conversation so far as one message. Nothing is masked in it."""
    given = handoff_input_data.input_history
    heard: list[Item] = (
        [{"role": "user", "content": given}] if isinstance(given, str) else [dict(each) for each in given]
    )
    talk = [item for each in heard for item in _read_back(each) or [each]]
    made = [
        (item.to_input_item(), is_new)
        for items, is_new in ((handoff_input_data.pre_handoff_items, False), (handoff_input_data.new_items, True))
        for item in items
        if not isinstance(item, ToolApprovalItem)
    ]
    if history_mapper is not None:
        history = history_mapper([*talk, *(item for item, _ in made)])
    else:
        history = _in_order(talk, made)
    return handoff_input_data.clone(input_history=tuple(deepcopy(history)), pre_handoff_items=(), input_items=())


def default_handoff_history_mapper(transcript: list[Item]) -> list[Item]:
    """Return the conversation as one message of the assistant."""
    lines = [f"{number}. {_as_text(item)}" for number, item in enumerate(transcript, 1)]
    start, end = _markers
    content = "\n".join((OPENING, start, *(lines or ["(no previous turns recorded)"]), end))
    return [{"role": "assistant", "content": content}]


def _in_order(talk: list[Item], made: list[tuple[Item, bool]]) -> list[Item]:
    """Return the items in their order: those that stay as they are, and the others as messages between them."""
    history: list[Item] = []
    waiting = list(talk)
    for item, is_new in made:
        if item.get("type") in SUMMARIZED or (item.get("role") == "assistant" and not is_new):
            waiting.append(item)
            continue
        if waiting or not history:
            history += default_handoff_history_mapper(waiting)
            waiting = []
        history.append(item)
    return history + default_handoff_history_mapper(waiting) if waiting or not history else history


def _as_text(item: Item) -> str:
    content, name = item.get("content"), item.get("name")
    is_line = content is None or (isinstance(content, str) and "\n" not in content and "\r" not in content)
    if isinstance(item.get("role"), str) and is_line:
        return f"{item['role']}{f' ({name})' if name else ''}: {content or ''}"
    return json.dumps({key: value for key, value in item.items() if key != "provider_data"}, ensure_ascii=False)


def _read_back(item: Item) -> list[Item] | None:
    """Return the conversation that a message holds; None if the message is not one that was made here."""
    content, (start, end) = item.get("content"), _markers
    if item.get("role") != "assistant" or not isinstance(content, str):
        return None
    before, after = f"{OPENING}\n{start}\n", f"\n{end}"
    if not content.startswith(before) or not content.endswith(after):
        return None
    lines = _NUMBERED.split(content[len(before) : -len(after)])
    return [read for line in lines if (read := _item_from(line.strip())) is not None]


def _item_from(line: str) -> Item | None:
    if line.startswith("{"):
        read = json.loads(line)
        return read if isinstance(read, dict) else None
    found = _SPEAKER.fullmatch(line)
    if found is None or found[1] not in ROLES:
        return None
    return {"role": found[1], **({"name": found[2]} if found[2] else {}), "content": found[3]}
