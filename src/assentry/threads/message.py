"""Messages of a thread, and their conversion to and from a run's items.

A run stores provider items, each once. Messages are made from the items on demand, with ids that are the same in every
process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct
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
    kept_items,
    output_text,
    provider_id,
    without_notes,
)
from ..core.wording import described, holds
from ..errors import InvalidInput
from ..ids import new_id
from ..runtime.session_sync import accepted_items
from ..runtime.tool_pause import asked_at

ToolCall = dict[str, Any]
"""A tool call of the model: `{"name": ..., "args": {...}, "id": ..., "type": "tool_call"}`."""


def tool_call(name: Any, args: Any, id: Any) -> ToolCall:
    """Return a tool call in the form that messages and requests have."""
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


class Message(Struct, repr_omit_defaults=True):
    """The base of all messages."""

    type: ClassVar[str] = ""
    content: Any = ""
    """Text, or a list of parts."""
    id: str | None = None
    name: str | None = None

    @property
    def text(self) -> str:
        """The text of the content."""
        return content_text(self.content)


class HumanMessage(Message):
    """A message from the user."""

    type: ClassVar[str] = "human"


class SystemMessage(Message):
    """An instruction to the model from the program."""

    type: ClassVar[str] = "system"


class AIMessage(Message):
    """A message from the model, with its tool calls."""

    type: ClassVar[str] = "ai"
    tool_calls: list[ToolCall] = []
    invalid_tool_calls: list[ToolCall] = []
    """Calls whose arguments are not JSON; `args` is the text that the model wrote."""
    usage_metadata: dict[str, int] | None = None
    response_metadata: dict[str, Any] = {}


class AIMessageChunk(AIMessage):
    """A part of a streamed message from the model. Join parts with `+`."""

    type: ClassVar[str] = "AIMessageChunk"
    tool_call_chunks: list[dict[str, Any]] = []
    """Parts of calls: the first part of a call has its name and id, and all parts of a call have the same `index`."""

    def __add__(self, other: Any) -> AIMessageChunk:
        if not isinstance(other, AIMessageChunk):
            return NotImplemented
        chunks = _join_chunks([*self.tool_call_chunks, *other.tool_call_chunks])
        whole = [call for each in chunks if (call := _whole(each)) is not None]
        return AIMessageChunk(
            content=_put_together(self.content, other.content),
            id=self.id or other.id,
            name=self.name or other.name,
            tool_calls=whole if chunks else [*self.tool_calls, *other.tool_calls],
            invalid_tool_calls=[*self.invalid_tool_calls, *other.invalid_tool_calls],
            usage_metadata=_summed(self.usage_metadata, other.usage_metadata),
            response_metadata={**self.response_metadata, **other.response_metadata},
            tool_call_chunks=chunks,
        )


def _put_together(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    parts = [[{"type": "text", "text": each}] if isinstance(each, str) else each for each in (one, other) if each]
    return [part for each in parts for part in each]


def _join_chunks(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the parts of each call."""
    out: dict[Any, dict[str, Any]] = {}
    for number, chunk in enumerate(chunks):
        index = chunk.get("index")
        key = ("alone", number) if index is None else index
        was = out.setdefault(key, {**chunk, "args": ""})
        args = was["args"] + (chunk.get("args") or "")
        name, id = was.get("name") or chunk.get("name"), was.get("id") or chunk.get("id")
        out[key] = {**was, "name": name, "args": args, "id": id}
    return list(out.values())


def _whole(chunk: dict[str, Any]) -> ToolCall | None:
    """Return the call that joined parts make; None while the call is incomplete."""
    try:
        args = parse_object(chunk.get("args") or "")
    except BadJSON:
        return None
    name = chunk.get("name")
    return tool_call(name, args, chunk.get("id")) if name else None


def _summed(one: dict[str, int] | None, other: dict[str, int] | None) -> dict[str, int] | None:
    if one is None or other is None:
        return one or other
    return {key: one.get(key, 0) + other.get(key, 0) for key in one | other}


class ToolMessage(Message):
    """The output of a call. With status "error", the call failed or did not run."""

    type: ClassVar[str] = "tool"
    tool_call_id: str = ""
    status: Literal["success", "error"] = "success"
    artifact: Any = None
    """The value that the tool returned, for middleware that needs more than the text."""


# -- from a run -----------------------------------------------------------------------------------


def messages_of(runs: Iterable[Run]) -> list[Message]:
    """Return the messages of consecutive runs."""
    out: list[Message] = []
    for run in runs:
        out += run_messages(run)
    return out


def run_messages(run: Run, saw: int | None = None, last: Turn | None = None) -> list[Message]:
    """Return the messages of one run; inputs that the model has not answered yet come last.

    With `saw`, only the first `saw` inputs of the run count. With a `last` turn, the messages end with that turn's
    reply, without the outputs of its calls.
    """
    out: list[Message] = []
    id, unheard, asked = run.id, run.unheard if saw is None else run.news(saw), asked_at(run)
    upto = len(unheard if asked is None else run.news(asked))
    reply = None  # reserves the number of the reply under way, which precedes inputs given since
    for number, entry in enumerate([*entries_of(run), *unheard[:upto], reply, *unheard[upto:]]):
        if type(entry) is Turn:
            out += turn_messages(entry, f"{id}.{number}", outputs=entry is not last)
            if entry is last:
                break
        elif type(entry) is f.Said:
            out += messages_from(kept_items(entry), f"{id}.{number}")
    return out


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
    if type(last) is AIMessage and reply.usage:
        used = usage_of(reply)
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
    return ToolMessage(
        content=text,
        id=f"{id}.{state.call.id}",
        name=state.call.tool,
        tool_call_id=provider_id(state),
        status="error" if failed else "success",
    )


def messages_from(items: Sequence[Item], id: str) -> list[Message]:
    """Return items as messages; consecutive items from the model become one message."""
    out: list[Message] = []
    for group in _groups(items):
        known = group[0].get(NOTE) or {}
        own = known.get("id") or numbered_id(id, len(out))
        made = _input_message(group[0]) or ai_message(group, own)
        made.id, made.name = own, known.get("name")
        out.append(made)
    return out


def _groups(items: Sequence[Item]) -> list[list[Item]]:
    """Group items by message: each input is a message, and so are the model's items up to the next input or mark."""
    groups: list[list[Item]] = []
    goes_on = False
    for item in items:
        given = is_given(item)
        if goes_on and not given and NOTE not in item:
            groups[-1].append(item)
        else:
            groups.append([item])
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
        status: Any = (item.get(NOTE) or {}).get("status") or "success"
        return ToolMessage(content=item.get("output", ""), tool_call_id=item.get("call_id") or "", status=status)
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

ROLES: dict[str, type[Message]] = {
    "user": HumanMessage,
    "human": HumanMessage,
    "assistant": AIMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
    "tool": ToolMessage,
}


def given_messages(input: Any) -> list[Message]:
    """Return the messages of the user's input, or raise `InvalidInput`."""
    given = input.get("messages") if isinstance(input, dict) else None
    if given is None:
        raise InvalidInput(
            'The input is {"messages": [{"role": "user", "content": ...}]}, a Command(resume=...) of assentry.threads, '
            f"or None to go on; got {described(input)}."
        )
    if input.keys() != {"messages"}:
        other = ", ".join(sorted(map(repr, input.keys() - {"messages"})))
        raise InvalidInput(f"The state of a thread is its messages; there is no {other}. Give it as the context.")
    messages = [message(each) for each in as_list(given)]
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


def message(given: Any) -> Message:
    """Make a message from a `Message`, a dict with role and content, a pair of the two, or the user's text."""
    if isinstance(given, Message):
        return _check_message(given)
    if isinstance(given, str):
        return HumanMessage(given)
    if isinstance(given, tuple) and len(given) == 2:
        given = {"role": given[0], "content": given[1]}
    role: Any = (given.get("role") or given.get("type")) if isinstance(given, dict) else None
    kind = ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        raise InvalidInput(
            f'A message is {{"role": "user", "content": ...}}, or one of assentry.threads, such as HumanMessage(...); '
            f"got {described(given)}."
        )
    _check_keys(given, kind)
    fields = {name: given[name] for name in kind.__struct_fields__ if given.get(name) is not None}
    return _check_message(kind(**fields))


def _check_keys(given: dict[str, Any], kind: type[Message]) -> None:
    """Raise `InvalidInput` for a dict without content, or with something that no field of the message would keep."""
    known = {"role", "type", *kind.__struct_fields__}
    lost = [key for key, value in given.items() if key not in known and value not in (None, "", [], {}, False)]
    if lost:
        raise InvalidInput(
            f"A message of role {given.get('role') or given['type']!r} has no {described(lost[0])}, which would be "
            f'lost; it has {", ".join(kind.__struct_fields__)}. Text is its "content".'
        )
    if given.get("content") is None and not given.get("tool_calls"):
        raise InvalidInput(
            f'A message needs its "content": {{"role": "user", "content": ...}}; got {described(given)}.'
        )


def _check_message(given: Message) -> Message:
    known: dict[str, Any] = {"id": given.id, "name": given.name}
    for key, value in known.items():
        if value is not None and (not isinstance(value, str) or not holds(value)):
            raise InvalidInput(f"The {key} of a message is text, got {described(value)}.")
    return given


def items_of(message: Message) -> list[Item]:
    """Return a message as items; the first item keeps its id and name, and a status of "error"."""
    items = _bare_items(message)
    known: dict[str, str | None] = {"id": message.id, "name": message.name}
    if isinstance(message, ToolMessage) and message.status == "error":
        known["status"] = "error"
    kept = {key: value for key, value in known.items() if value}
    if items and kept:
        items[0][NOTE] = kept
    return items


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
        if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
            raise InvalidInput(f"A message's content is text or a list of parts, got {described(content)}.")
        content = [{**part, "type": "input_text"} if part.get("type") == "text" else part for part in content]
    return [{"role": role, "content": content}]


def _spoken(message: AIMessage) -> list[Item]:
    if not message.text:
        return []
    content = [{"type": "output_text", "text": message.text, "annotations": []}]
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
