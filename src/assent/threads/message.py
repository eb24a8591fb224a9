"""Messages: how a conversation looks in this vocabulary, and how it becomes a run's items and back.

A run keeps provider items, each once. Messages are made of them when somebody looks; they have ids that are the same in
every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct
from msgspec.json import encode

from ..approval.question import new_id
from ..core import facts as f
from ..core.digest import BadJSON, described, parse_object, plain
from ..core.facts import decode
from ..core.run import CallState, Entry, Run, Turn
from ..core.transcript import Item, content_text, output_text, provider_id, said_items
from ..errors import InvalidInput
from ..runtime.asking import asked_at
from ..runtime.history import accepted

ToolCall = dict[str, Any]
"""A call that a model proposes: `{"name": ..., "args": {...}, "id": ..., "type": "tool_call"}`."""


class Message(Struct, repr_omit_defaults=True):
    """What all messages have."""

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
    """What the user says."""

    type: ClassVar[str] = "human"


class SystemMessage(Message):
    """What the model is told by the program."""

    type: ClassVar[str] = "system"


class AIMessage(Message):
    """What the model says, and the calls that it proposes."""

    type: ClassVar[str] = "ai"
    tool_calls: list[ToolCall] = []
    invalid_tool_calls: list[ToolCall] = []
    """Calls whose arguments are not JSON: `args` is what the model wrote."""
    usage_metadata: dict[str, int] | None = None
    response_metadata: dict[str, Any] = {}


class AIMessageChunk(AIMessage):
    """A part of what the model says, as it is made."""

    type: ClassVar[str] = "AIMessageChunk"
    tool_call_chunks: list[dict[str, Any]] = []


class ToolMessage(Message):
    """What a call gave; with status "error" it failed, or did not run."""

    type: ClassVar[str] = "tool"
    tool_call_id: str = ""
    status: Literal["success", "error"] = "success"
    artifact: Any = None
    """What the tool returned, where code around it wants more than the text."""


# -- from a run -----------------------------------------------------------------------------------


def messages_of(runs: Iterable[Run]) -> list[Message]:
    """The conversation of runs that follow one another."""
    out: list[Message] = []
    for run in runs:
        out += run_messages(run)
    return out


def run_messages(run: Run, saw: int | None = None, last: Turn | None = None) -> list[Message]:
    """The conversation of one run; what the model has not heard yet, all or of the first `saw` inputs, comes last.

    With a `last` turn it is as it was when that reply was made, without what its calls gave.
    """
    out: list[Message] = []
    id, unheard, asked = run.id, run.unheard if saw is None else run.news(saw), asked_at(run)
    upto = len(unheard if asked is None else run.news(asked))
    reply = None  # which is being made, and will stand before what was said since
    for number, entry in enumerate([*entries_of(run), *unheard[:upto], reply, *unheard[upto:]]):
        if type(entry) is Turn:
            out += turn_messages(entry, f"{id}.{number}", outputs=entry is not last)
            if entry is last:
                break
        elif type(entry) is f.Said:
            out += messages_from(said_items(entry), f"{id}.{number}")
    return out


def entries_of(run: Run) -> list[Entry]:
    """The entries that messages are made of and numbered by: all but the questions of hooks."""
    return [entry for entry in run.entries if not _is_question(entry)]


def _is_question(entry: Entry) -> bool:
    return type(entry) is Turn and type(entry.reply) is f.Proposed and entry.reply.proposal.kind == "hook"


def turn_messages(turn: Turn, id: str, outputs: bool = True) -> list[Message]:
    """A reply, and the outputs of its calls so far."""
    reply = turn.reply
    if type(reply) is not f.Replied:
        return []
    out = messages_from(decode(reply.items), id)
    last = out[-1] if out else None
    if type(last) is AIMessage and reply.usage:
        used = f.Usage(*reply.usage)
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
    """What a call gave; None while it has no outcome."""
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
    """Items as messages; what a model made at one go is one message."""
    out: list[Message] = []
    made: list[Item] = []
    for item in items:
        other = _given(item)
        if other is None:
            made.append(item)
            continue
        if made:
            out.append(ai_message(made, numbered(id, len(out))))
            made = []
        other.id = numbered(id, len(out))
        out.append(other)
    if made:
        out.append(ai_message(made, numbered(id, len(out))))
    return out


def numbered(id: str, number: int) -> str:
    """The id of one of several messages that an entry of a run comes to."""
    return f"{id}-{number}" if number else id


def _given(item: Item) -> Message | None:
    """A message that was given to the model; None for what it made itself."""
    if item.get("type") == "function_call_output":
        return ToolMessage(content=item.get("output", ""), tool_call_id=item.get("call_id") or "")
    role = item.get("role")
    if role == "user":
        return HumanMessage(_content(item.get("content")))
    if role in ("system", "developer"):
        return SystemMessage(_content(item.get("content")))
    return None


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [{**part, "type": "text"} if part.get("type") == "input_text" else part for part in content]


def ai_message(items: Sequence[Item], id: str) -> AIMessage:
    """What a model made at one go, as a message."""
    text: list[str] = []
    calls: list[ToolCall] = []
    invalid: list[ToolCall] = []
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "message":
            text.append(_said(item.get("content")))
        elif kind == "function_call":
            name, call_id = item.get("name"), item.get("call_id") or f"{id}.{number}"
            written = item.get("arguments") or ""
            try:
                args = parse_object(written) if written.strip() else {}
                calls.append({"name": name, "args": args, "id": call_id, "type": "tool_call"})
            except BadJSON as error:
                invalid.append(
                    {"name": name, "args": written, "id": call_id, "error": str(error), "type": "invalid_tool_call"}
                )
    return AIMessage(content="".join(text), id=id, tool_calls=calls, invalid_tool_calls=invalid)


def _said(content: Any) -> str:
    """The text of a message; the words it refuses with, if it has no other."""
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


def said(input: Any) -> str | list[Item]:
    """What a user gives a thread to hear: a text, or items; `InvalidInput` for what no model can be told."""
    given = input.get("messages") if isinstance(input, dict) else None
    if given is None:
        raise InvalidInput(
            'The input is {"messages": [{"role": "user", "content": ...}]}, a Command(resume=...), or None to go on; '
            f"got {described(input)}."
        )
    if input.keys() != {"messages"}:
        other = ", ".join(sorted(map(repr, input.keys() - {"messages"})))
        raise InvalidInput(f"The state of a thread is its messages; there is no {other}. Give it as the context.")
    items = [item for each in listed(given) for item in items_of(message(each))]
    if not items:
        raise InvalidInput("There is no message in this input.")
    if len(items) == 1 and items[0].get("role") == "user":
        text = items[0].get("content")
        return text if isinstance(text, str) and not text.startswith("{") else items
    if len(accepted(items)) < len(items):
        raise InvalidInput(
            "Each call among the messages needs its ToolMessage after it, and each ToolMessage its call."
        )
    return items


def listed(given: Any) -> list[Any]:
    """Messages as they may be given: a list, or a single one."""
    if isinstance(given, list) or (isinstance(given, tuple) and len(given) != 2):
        return list(given)
    if not isinstance(given, str | dict | Message | tuple):
        raise InvalidInput(f"Messages are a list, or a single one; got {described(given)}.")
    return [given]


def message(given: Any) -> Message:
    """A message from an object, a dict with role and content, a pair of the two, or a user's text."""
    if isinstance(given, Message):
        return given
    if isinstance(given, str):
        return HumanMessage(given)
    if isinstance(given, tuple) and len(given) == 2:
        given = {"role": given[0], "content": given[1]}
    role: Any = (given.get("role") or given.get("type")) if isinstance(given, dict) else None
    kind = ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        raise InvalidInput(
            f'A message is {{"role": "user", "content": ...}}, or a message object such as HumanMessage(...); '
            f"got {described(given)}."
        )
    fields = {name: given[name] for name in kind.__struct_fields__ if given.get(name) is not None}
    return kind(**fields)


def items_of(message: Message) -> list[Item]:
    """A message as items."""
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
    """A tool call as an item."""
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
