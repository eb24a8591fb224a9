"""The order of messages that providers accept: each call has its output right after it, and each output its call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from .message import AIMessage, Message, ToolMessage
from .message_items import given_message

CALL_BLOCKS = ("tool_use", "function_call", "tool_call")
"""The types of content blocks that repeat a call."""
CALL_FIELDS = ("tool_calls", "function_call")
"""The fields of `additional_kwargs` that repeat the calls of a message."""


def messages_in_order(messages: Sequence[Message], answered: set[Any]) -> list[Message]:
    """Return messages in an order that providers accept: nothing stands between a call and its output.

    Messages from between the two move before the call. `answered` are the ids of the calls that have an output, or will
    get one.
    """
    out: list[Message] = []
    open_: set[Any] = set()
    place = 0
    for each in messages:
        calls = answered.intersection(call_ids_of(each))
        if not open_:
            place = len(out)
        if not open_ or calls or isinstance(each, ToolMessage):
            out.append(each)
        else:
            out.insert(place, each)
            place += 1
        open_.update(calls)
        if isinstance(each, ToolMessage):
            open_.discard(each.tool_call_id)
    return out


def answered_ids(messages: Sequence[Message]) -> set[Any]:
    """Return the ids of the calls that have an output among the messages."""
    return {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}


def call_ids_of(message: Message | None) -> list[Any]:
    """Return the ids of a message's calls."""
    calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    return [call.get("id") for call in calls if isinstance(call, dict)]


def answered_messages(messages: Sequence[Any]) -> list[Any]:
    """Return messages as a provider accepts them: each call has its output after it, and each output its call.

    Messages that need no change are the same objects.
    """
    given = [given_message(each) for each in messages]
    same = {id(one): each for one, each in zip(given, messages, strict=True) if isinstance(each, Message)}
    answered, called = answered_ids(given), {call for each in given for call in call_ids_of(each)}
    out: list[Any] = []
    for each in messages_in_order(given, answered):
        if isinstance(each, ToolMessage) and each.tool_call_id not in called:
            continue
        sent = _only_answered(each, answered) if isinstance(each, AIMessage) else each
        if sent is not None:
            out.append(same.get(id(sent), sent))
    return out


def _only_answered(message: AIMessage, answered: set[Any]) -> AIMessage | None:
    """Return a message without the calls that have no output, and without what repeats such calls.

    None if nothing is left of it; the same object if nothing is left out.
    """
    calls = [call for call in message.tool_calls if call.get("id") in answered]
    invalid = [call for call in message.invalid_tool_calls if call.get("id") in answered]
    content, more, kept = message.content, message.additional_kwargs, {call.get("id") for call in (*calls, *invalid)}
    if isinstance(content, list):
        content = [block for block in content if not _repeats_other_call(block, kept)]
    if not kept and any(name in more for name in CALL_FIELDS):
        more = {name: value for name, value in more.items() if name not in CALL_FIELDS}
    sent = replace(message, tool_calls=calls, invalid_tool_calls=invalid, content=content, additional_kwargs=more)
    if sent == message:
        return message
    return sent if kept or content else None


def _repeats_other_call(block: Any, kept: set[Any]) -> bool:
    if not isinstance(block, dict) or block.get("type") not in CALL_BLOCKS:
        return False
    return (block.get("call_id") or block.get("id")) not in kept
