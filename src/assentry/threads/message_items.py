"""Conversion of messages to and from a run's items.

A run stores provider items, each once. Messages are made from the items on demand, with ids that are the same in every
process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.json import encode
from msgspec.structs import replace

from ..core import facts as f
from ..core.digest import BadJSON, parse_object, plain
from ..core.facts import decode
from ..core.run import CallState, Run, TranscriptEntry, Turn, usage_of
from ..core.transcript import (
    NOTE,
    Item,
    as_function,
    content_text,
    is_given,
    output_text,
    provider_id,
    without_notes,
)
from ..core.wording import described
from ..errors import InvalidInput
from ..ids import new_id
from ..runtime.session_sync import accepted_items
from ..runtime.value import output_json
from .foreign import is_langchain_message
from .message import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    message,
    tool_call,
)

# -- from a run -----------------------------------------------------------------------------------


def entries_of(run: Run) -> list[TranscriptEntry]:
    """Return the entries that become messages and number them: all but the questions of hooks."""
    return [entry for entry in run.entries if not _is_question(entry)]


def _is_question(entry: TranscriptEntry) -> bool:
    return type(entry) is Turn and type(entry.reply) is f.Proposed and entry.reply.proposal.kind == "hook"


def turn_messages(turn: Turn, id: str, outputs: bool = True) -> list[Message]:
    """Return the messages of a reply and, if wanted, of the outputs of its calls so far."""
    reply = turn.reply
    if type(reply) is not f.Replied:
        return []
    out = messages_from(decode(reply.items), id)
    last = out[-1] if out else None
    used = usage_of(reply) if type(last) is AIMessage and last.usage_metadata is None else None
    if type(last) is AIMessage and used is not None and used.total_tokens:
        last.usage_metadata = {
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "total_tokens": used.total_tokens,
        }
    for state in turn.calls if outputs else ():
        made = tool_message(state, id)
        if made is not None:
            out.append(made)
    return out


def tool_message(state: CallState, id: str) -> ToolMessage | None:
    """Return the output of a call as a message; None while the call has no outcome."""
    text = output_text(state)
    if text is None:
        return None
    end = state.outcome
    failed = type(end) is f.Refused or (type(end) is f.Finished and end.error is not None)
    made = ToolMessage(
        content=text,
        id=f"{id}.{state.call.id}",
        name=state.tool,
        tool_call_id=provider_id(state),
        status="error" if failed else "success",
    )
    if type(end) is f.Finished and end.more:
        for name, value in decode(end.more).items():
            setattr(made, name, value)
    return made


def messages_from(items: Sequence[Item], id: str) -> list[Message]:
    """Return items as messages; consecutive items from the model become one message."""
    out: list[Message] = []
    for known, group in groups_of(items):
        own = known.get("id") or numbered_id(id, len(out))
        made = _input_message(group[0]) or ai_message(group, own)
        made.id = own
        out.append(_with_note(made, known))
    return out


def noted_reply(items: Sequence[Item], id: str) -> AIMessage:
    """Return the items of a model's reply as one message, with what their note keeps."""
    known = (items[0].get(NOTE) or {}) if items else {}
    made = ai_message(items, known.get("id") or id)
    _with_note(made, known)
    return made


def _with_note(made: Message, known: dict[str, Any]) -> Message:
    """Set the fields of a message that its note keeps."""
    for name in made.__struct_fields__ if known else ():
        if name in known:
            setattr(made, name, known[name])
    return made


def groups_of(items: Sequence[Item]) -> list[tuple[dict[str, Any], list[Item]]]:
    """Group items by message, each group with its note.

    Each input is a message, and so are the model's items up to the next input or note.
    """
    groups: list[tuple[dict[str, Any], list[Item]]] = []
    goes_on = False
    for item in items:
        given = is_given(item)
        if goes_on and not given and NOTE not in item:
            groups[-1][1].append(item)
        else:
            groups.append((item.get(NOTE) or {}, [item]))
        goes_on = not given
    return groups


def numbered_id(id: str, number: int) -> str:
    """Return the id of the message with this number among the messages of one run entry."""
    return f"{id}-{number}" if number else id


def _input_message(item: Item) -> Message | None:
    """Return an input item as a message; None for an item that the model made, or that only a provider reads."""
    if not is_given(item) or item.get("type") == "mcp_approval_response":
        return None
    item = as_function(item)
    if item.get("type") == "function_call_output":
        return ToolMessage(content=item.get("output", ""), tool_call_id=item.get("call_id") or "")
    kind = HumanMessage if item["role"] == "user" else SystemMessage
    return kind(_content(item.get("content")))


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [{**part, "type": "text"} if part.get("type") == "input_text" else part for part in content]


def ai_message(items: Sequence[Item], id: str) -> AIMessage:
    """Return the items of one model message as an `AIMessage`."""
    text: list[str] = []
    calls: list[ToolCall] = []
    invalid: list[ToolCall] = []
    for number, item in enumerate(map(as_function, items)):
        kind = item.get("type", "message")
        if kind == "message":
            text.append(_message_text(item.get("content")))
        elif kind == "function_call":
            name, call_id = item.get("name"), item.get("call_id") or f"{id}.{number}"
            written = item.get("arguments") or ""
            try:
                args = parse_object(written) if written.strip() else {}
                calls.append(tool_call(name, args, call_id))
            except BadJSON as error:
                invalid.append(
                    {"name": name, "args": written, "id": call_id, "error": str(error), "type": "invalid_tool_call"}
                )
    return AIMessage(content="".join(text), id=id, tool_calls=calls, invalid_tool_calls=invalid)


def _message_text(content: Any) -> str:
    """Return the text of a message, or the text of its refusal if there is no other."""
    text = content_text(content)
    if text or not isinstance(content, list):
        return text
    return "".join(part.get("refusal") or "" for part in content)


# -- to a run -------------------------------------------------------------------------------------


def given_messages(input: Any) -> list[Message]:
    """Return the messages of the user's input, or raise `InvalidInput`."""
    given = input.get("messages") if isinstance(input, Mapping) else None
    if given is None:
        raise InvalidInput(
            'The input is {"messages": [{"role": "user", "content": ...}]}, a Command(resume=...) of assentry.threads, '
            f"or None to go on; got {described(input)}."
        )
    messages = [given_message(each) for each in as_list(given)]
    if not messages:
        raise InvalidInput("There is no message in this input.")
    return messages


def unknown_messages(given: Sequence[Message], known: Sequence[Message], thread: str) -> list[Message]:
    """Return the messages that the thread does not have yet, by id.

    A known id with other content raises `InvalidInput`. An unknown id that has the form of the thread's own ids is
    dropped: the thread may give that id to another message.
    """
    heard = {each.id: each for each in known}
    own = re.compile(rf"{re.escape(thread)}:\d+\.\d")
    out: list[Message] = []
    for each in given:
        id = each.id
        if id is None or (id not in heard and own.match(id)):
            out.append(replace(each, id=None))
        elif id not in heard:
            heard[id] = each
            out.append(each)
        elif not alike(heard[id], each):
            raise InvalidInput(
                f"The message {described(id)} is in the thread with other content, and recorded messages cannot "
                "be replaced. Give the new one another id, or none."
            )
    if not out:
        raise InvalidInput(
            "The thread has all messages of this input already, by their ids. To go on without a new one, give None."
        )
    return out


def alike(one: Message, other: Message) -> bool:
    """Return True if two messages are the same to a model."""
    return without_notes(items_of(one)) == without_notes(items_of(other))


def run_input(messages: Sequence[Message]) -> str | list[Item]:
    """Return messages as the input of a run, text or items; raise `InvalidInput` if no model can take them."""
    items = [item for each in messages for item in items_of(each)]
    if not items:
        raise InvalidInput("There is no message in this input.")
    if len(items) == 1 and items[0].get("role") == "user":
        text = items[0].get("content")
        alone = isinstance(text, str) and not text.startswith("{") and NOTE not in items[0]
        return text if alone else items  # type: ignore[return-value]
    if len(accepted_items(items)) < len(items):
        raise InvalidInput(
            "Each call among the messages needs its ToolMessage after it, and each ToolMessage its call."
        )
    return items


def as_list(given: Any) -> list[Any]:
    """Return the given messages as a list; a single message becomes a list of one."""
    if isinstance(given, list) or (isinstance(given, tuple) and len(given) != 2):
        return list(given)
    if not isinstance(given, str | dict | Message | tuple):
        raise InvalidInput(f"Messages are a list, or a single one; got {described(given)}.")
    return [given]


def given_message(given: Any) -> Message:
    """Return what a program gives as a message: ours, LangChain's, or anything that `message` reads."""
    if is_langchain_message(given):
        from .langchain.message import from_langchain

        given = from_langchain(given)
    made = message(given)
    return made.whole() if isinstance(made, AIMessageChunk) else made


def items_of(message: Message) -> list[Item]:
    """Return a message as items; a note on the first item keeps the fields that the items cannot hold."""
    return noted_items(_bare_items(message), message)


def noted_items(items: Sequence[Item], message: Message) -> list[Item]:
    """Return the items of a message, with a note on the first one that keeps the fields that they cannot hold."""
    items = [{name: value for name, value in item.items() if name != NOTE} for item in items]
    if not items:
        return items
    rebuilt = _input_message(items[0]) or ai_message(items, message.id or "")
    kept: dict[str, Any] = {"id": message.id, "name": message.name} if message.id or message.name else {}
    kept = {name: value for name, value in kept.items() if value}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name not in DERIVED and value != getattr(rebuilt, name):
            kept[name] = _kept_value(name, value)
    if kept:
        items[0][NOTE] = kept
    return items


DERIVED = ("id", "name", "tool_calls")
"""The fields that a note has apart, and those that items always hold."""


def _kept_value(name: str, value: Any) -> Any:
    """Return a field of a message as JSON; raise `InvalidInput` if it has no JSON form."""
    try:
        return plain(value)
    except BadJSON:
        made = decode(output_json(value)[0])
        if isinstance(value, dict | list) or not isinstance(made, str):
            return made
        raise InvalidInput(
            f"The {name} of a message has no JSON form and cannot be kept: {described(value)}."
        ) from None


def _bare_items(message: Message) -> list[Item]:
    if isinstance(message, AIMessage):
        return [*_spoken(message), *(call_item(call) for call in message.tool_calls)]
    if isinstance(message, ToolMessage):
        if not message.tool_call_id:
            raise InvalidInput("A ToolMessage needs the tool_call_id of the call that it answers.")
        text = message.content if isinstance(message.content, str) else encode(plain(message.content)).decode()
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": text}]
    role = "system" if isinstance(message, SystemMessage) else "user"
    content = message.content
    if not isinstance(content, str):
        if not isinstance(content, list) or not all(isinstance(part, dict | str) for part in content):
            raise InvalidInput(f"A message's content is text or a list of parts, got {described(content)}.")
        content = [_input_part(part) for part in content]
    return [{"role": role, "content": content}]


def _input_part(part: Any) -> Item:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {**part, "type": "input_text"} if part.get("type") == "text" else part


def _spoken(message: AIMessage) -> list[Item]:
    if not message.text and message.tool_calls:
        return []
    content = [{"type": "output_text", "text": str(message.text), "annotations": []}]
    return [{"type": "message", "role": "assistant", "content": content}]


def call_item(call: Any) -> Item:
    """Return a tool call as an item."""
    name, args = (call.get("name"), call.get("args")) if isinstance(call, dict) else (None, None)
    if not isinstance(name, str) or not name or not isinstance(args, dict):
        raise InvalidInput(f'A tool call is {{"name": ..., "args": {{...}}, "id": ...}}, got {described(call)}.')
    try:
        arguments = encode(plain(args)).decode()
    except BadJSON as error:
        raise InvalidInput(f"The arguments of a call of {name!r} are not JSON: {error}.") from None
    return {
        "type": "function_call",
        "call_id": call.get("id") or new_id("call"),
        "name": name,
        "arguments": arguments,
    }
