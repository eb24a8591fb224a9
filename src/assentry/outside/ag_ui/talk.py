"""The conversation of a thread as AG-UI messages, and the new messages in what a front sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from ...core import facts as f
from ...core.mask import masked_text
from ...core.run import CallState, Run, Turn
from ...core.transcript import NOTE, Item, content_text, items_in, kept_items, output_text, reply_refusal
from ...core.wording import described
from ...errors import Conflict, InvalidInput
from ...runtime.view import all_said
from .interrupt import SHOWN, call_id_of

Masks = Mapping[str, Sequence[str]]
"""The arguments to mask, by tool."""


def thread_messages(runs: Iterable[Run], masks: Masks) -> list[Message]:
    """Return the conversation of a thread's runs. Instructions and the model's reasoning are no part of it."""
    return [message for run in runs for message in _messages_of_run(run, masks)]


def _messages_of_run(run: Run, masks: Masks) -> Iterator[Message]:
    turns = said = 0
    for entry in (*run.entries, *run.unheard):
        if type(entry) is f.Said:
            yield from _said_messages(entry, f"{run.id}.said{said}")
            said += 1
        elif type(entry) is Turn and type(entry.reply) is f.Replied:
            yield from _turn_messages(run, entry, entry.reply, turn_id(run, turns), masks)
            turns += 1


def turn_id(run: Run, number: int) -> str:
    """Return the id of the message with a run's reply of this number, from 0 on."""
    return f"{run.id}.{number}"


def count_replies(run: Run) -> int:
    """Return the number of a run's replies so far."""
    return sum(type(entry) is Turn and type(entry.reply) is f.Replied for entry in run.entries)


def _said_messages(said: f.Said, id: str) -> Iterator[Message]:
    for number, item in enumerate(kept_items(said)):
        own, text = _note_id(item) or f"{id}.{number}", content_text(item.get("content"))
        if item.get("role") == "user":
            yield UserMessage(id=own, content=text)
        elif item.get("role") == "assistant":
            yield AssistantMessage(id=own, content=text)


def _turn_messages(run: Run, turn: Turn, reply: f.Replied, id: str, masks: Masks) -> Iterator[Message]:
    text = text_of_reply(reply)
    calls = [
        ToolCall(
            id=call_id_of(run, state),
            function=FunctionCall(name=state.proposal.name, arguments=proposed_arguments(state, masks)),
        )
        for state in shown_calls(turn)
    ]
    if text or calls:
        yield AssistantMessage(id=id, content=text or None, tool_calls=calls or None)
    for state in shown_calls(turn):
        output = output_text(state)
        if output is not None:
            call = call_id_of(run, state)
            yield ToolMessage(id=result_id(call), tool_call_id=call, content=output)


def shown_calls(turn: Turn) -> list[CallState]:
    """Return the calls of a turn that a front sees."""
    return [state for state in turn.calls if state.call.kind in SHOWN]


def proposed_arguments(state: CallState, masks: Masks) -> str:
    """Return the arguments of a call as the model wrote them, with those masked that only deciders may see."""
    return masked_text(state.proposal.arguments, masks.get(state.proposal.name, ()))


def result_id(call: str) -> str:
    """Return the id of the message with a call's output."""
    return f"{call}.output"


def text_of_reply(reply: f.Replied) -> str:
    """Return the text of a reply for a front."""
    texts = [
        content_text(item.get("content")) for item in items_in(reply.items) if item.get("type") in (None, "message")
    ]
    return "".join(texts) or reply_refusal(reply) or ""


def ids_of(messages: Iterable[Message]) -> list[str]:
    """Return the ids of the messages that a thread keeps; a front has others of its own."""
    return [message.id for message in messages if message.role not in ("activity", "reasoning")]


def send_snapshot(has: list[str], messages: list[Message], send: Callable[[BaseEvent], None]) -> None:
    """Make a front that has the messages with these ids show these messages in this order, and correct the ids.

    A front keeps the order of the messages that it has, and puts others at the end. So one whose messages are in
    another order is told to drop them all first.
    """
    ids = ids_of(messages)
    if has != ids[: len(has)]:
        send(MessagesSnapshotEvent(messages=[]))
    send(MessagesSnapshotEvent(messages=messages))
    has[:] = ids


# -- from a front ------------------------------------------------------------------------------------


def new_messages(given: RunAgentInput, runs: Sequence[Run]) -> list[Item]:
    """Return the user's messages at the end of what a front sends that the thread does not have yet, as items.

    Nothing else of what a front sends is believed: the thread itself knows what was said in it before.
    """
    known = {id: content_text(item.get("content")) for run in runs for id, item in _noted(run)}
    found: list[Item] = []
    for message in reversed(given.messages):
        if not isinstance(message, UserMessage):
            break
        text = _text_of_message(message)
        if message.id in known:
            if known[message.id] != text:
                raise Conflict(
                    f"Message {described(message.id)} was sent before with another text; give the new one a new id."
                )
            break
        found.append({"role": "user", "content": text, NOTE: {"id": message.id}})
    return found[::-1]


def _noted(run: Run) -> Iterator[tuple[str, Item]]:
    for said in all_said(run):
        for item in kept_items(said):
            id = _note_id(item)
            if id is not None:
                yield id, item


def _note_id(item: Item) -> str | None:
    note: dict[str, Any] = item.get(NOTE) or {}
    return note.get("id")


def _text_of_message(message: UserMessage) -> str:
    parts = [TextPart(text=message.content)] if isinstance(message.content, str) else message.content
    if not all(isinstance(part, TextPart) for part in parts):
        raise InvalidInput("Only text can be sent to this agent: no images, audio or files.")
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    if not text.strip():
        raise InvalidInput("The message is empty.")
    return text
