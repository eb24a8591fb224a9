"""Messages of a thread, and their conversion to and from a run's items.

A run stores provider items, each once. Messages are made from the items on demand, with ids that are the same in every
process.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from msgspec import Struct, StructMeta
from msgspec.json import encode
from msgspec.json import format as format_json
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
from ..core.wording import described, holds
from ..errors import InvalidInput, UsageError
from ..ids import new_id
from ..runtime.session_sync import accepted_items
from ..runtime.value import output_json
from .foreign import is_langchain_message, message_names

ToolCall = dict[str, Any]
"""A tool call of the model: `{"name": ..., "args": {...}, "id": ..., "type": "tool_call"}`."""


def tool_call(name: Any, args: Any, id: Any) -> ToolCall:
    """Return a tool call in the form that messages and requests have."""
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


class MessageText(str):
    """The text of a message. Calling it returns it: in LangChain `text` was a method before it was a property."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


class MessageClass(StructMeta):
    """The class of message classes: a message of LangChain is an instance of ours with the same name."""

    def __instancecheck__(cls, value: Any) -> bool:  # noqa: N805
        return super().__instancecheck__(value) or cls.__name__ in _instance_names(type(value))

    def __call__(cls, *args: Any, **fields: Any) -> Any:  # noqa: N805
        if not args and "content" not in fields:
            if "content_blocks" in fields:
                fields["content"] = fields.pop("content_blocks")
            elif cls.needs_content:  # type: ignore[attr-defined]
                raise InvalidInput(f"A {cls.__name__} needs its content: {cls.__name__}(content=...).")
        try:
            return super().__call__(*args, **fields)
        except TypeError:
            known = cls.__struct_fields__
            if (other := sorted(fields.keys() - set(known))) or len(args) > len(known):
                raise InvalidInput(
                    f"A {cls.__name__} has no {other[0] if other else 'further values'!r}; it has {', '.join(known)}."
                ) from None
            raise


def _instance_names(kind: type) -> frozenset[str] | tuple[()]:
    names = message_names(kind)
    return names | {"Message"} if "BaseMessage" in names else ()


class Message(Struct, repr_omit_defaults=True, metaclass=MessageClass):
    """The base of all messages."""

    type: ClassVar[str] = ""
    needs_content: ClassVar[bool] = False
    content: Any = ""
    """Text, or a list of parts."""
    id: str | None = None
    name: str | None = None
    additional_kwargs: dict[str, Any] = {}
    """Data of a provider beside the content."""
    response_metadata: dict[str, Any] = {}
    """What the provider says of the reply, such as the reason why it ended."""

    @property
    def text(self) -> MessageText:
        """The text of the content."""
        return MessageText(content_text(self.content))

    @property
    def content_blocks(self) -> list[dict[str, Any]]:
        """The content as a list of blocks, each with its `type`."""
        parts = [self.content] if isinstance(self.content, str) else self.content
        return [_block(part) for part in parts if part != ""]

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Iterate over pairs of a field and its value, so that `dict(message)` and JSON encoders read a message."""
        return iter(self.model_dump().items())

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return the message as a dict; `exclude`, `include` and `exclude_none` choose fields as in pydantic."""
        return chosen_fields(type(self).__name__, _dumped(self), options)

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """Return the message as JSON text."""
        text = encode(self.model_dump(**options), enc_hook=str)
        return (text if indent is None else format_json(text, indent=indent)).decode()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, with these fields changed."""
        copied = copy.deepcopy(self) if deep else copy.copy(self)
        for name, value in (update or {}).items():
            if name not in self.__struct_fields__:
                raise InvalidInput(f"A {type(self).__name__} has no {name!r} that could be changed.")
            setattr(copied, name, value)
        return copied

    def pretty_repr(self, html: bool = False) -> str:
        """Return the message as text for people, under a title."""
        title = f"{PRETTY.get(self.type, self.type.title())} Message"
        lines = [title_line(title), *([f"Name: {self.name}"] if self.name else []), "", f"{self.content}"]
        return "\n".join([*lines, *self._pretty_calls()])

    def pretty_print(self) -> None:
        """Print the message for people, under a title."""
        print(self.pretty_repr())  # noqa: T201

    def _pretty_calls(self) -> list[str]:
        return []

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return how pydantic, and so FastAPI, reads and writes messages."""
        from .message_schema import message_schema

        return message_schema(cls)


class HumanMessage(Message):
    """A message from the user."""

    type: ClassVar[str] = "human"
    needs_content: ClassVar[bool] = True


class SystemMessage(Message):
    """An instruction to the model from the program."""

    type: ClassVar[str] = "system"
    needs_content: ClassVar[bool] = True


class AIMessage(Message):
    """A message from the model, with its tool calls."""

    type: ClassVar[str] = "ai"
    tool_calls: list[ToolCall] = []
    invalid_tool_calls: list[ToolCall] = []
    """Calls whose arguments are not JSON; `args` is the text that the model wrote."""
    usage_metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if any("type" not in call for call in self.tool_calls):
            self.tool_calls = [{**call, "type": "tool_call"} for call in self.tool_calls]

    @property
    def content_blocks(self) -> list[dict[str, Any]]:
        """The content as a list of blocks, each with its `type`; calls are blocks too."""
        blocks = super().content_blocks
        known = {block.get("id") for block in blocks if block.get("type") == "tool_call"}
        return [*blocks, *(call for call in self.tool_calls if call.get("id") not in known)]

    def _pretty_calls(self) -> list[str]:
        lines = ["Tool Calls:"] if self.tool_calls else []
        for call in self.tool_calls:
            lines += [f"  {call.get('name')} ({call.get('id')})", f" Call ID: {call.get('id')}", "  Args:"]
            lines += [f"    {name}: {value}" for name, value in (call.get("args") or {}).items()]
        return lines


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
    """A value beside the content, which the model does not get."""

    def __post_init__(self) -> None:
        if not isinstance(self.content, str | list | dict):
            self.content = list(self.content) if isinstance(self.content, tuple) else str(self.content)
        given: Any = self.tool_call_id
        if not isinstance(given, str):
            self.tool_call_id = str(given)


class RemoveMessage(Message):
    """The removal of the message with this id from the state. The message stays recorded, and is not heard any more."""

    type: ClassVar[str] = "remove"


AnyMessage = HumanMessage | AIMessage | SystemMessage | ToolMessage
"""Any message of a conversation, for annotations."""
BaseMessage = Message
"""Another name of `Message`."""
REMOVE_ALL_MESSAGES = "__remove_all__"
"""The id of a `RemoveMessage` that removes all messages."""
PRETTY = {"ai": "Ai", "AIMessageChunk": "AIMessageChunk"}


def title_line(title: str) -> str:
    """Return a title in the middle of a line of 80 signs."""
    sides = "=" * ((80 - len(title) - 2) // 2)
    return f"{sides} {title} {sides}{'=' if len(title) % 2 else ''}"


def _block(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict):
        return {"type": "text", "text": str(part)}
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        return {**part, "type": "text"}
    return part if kind in BLOCKS else {"type": "non_standard", "value": part}


BLOCKS = frozenset(
    [
        "text",
        "reasoning",
        "image",
        "audio",
        "video",
        "file",
        "text-plain",
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "server_tool_call",
        "server_tool_call_chunk",
        "server_tool_result",
        "non_standard",
    ]
)
"""The types of blocks that messages of all providers have in common."""
FIELDS = ("content", "additional_kwargs", "response_metadata", "type", "name", "id")
"""The fields that all messages have, in the order of their dict."""


def _dumped(message: Message) -> dict[str, Any]:
    own = [name for name in message.__struct_fields__ if name not in FIELDS]
    return {name: getattr(message, name) for name in (*FIELDS, *own)}


def chosen_fields(whose: str, fields: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the options of pydantic's `model_dump` choose, or raise `UsageError`."""
    known = ("mode", "include", "exclude", "exclude_none", "exclude_unset", "exclude_defaults", "by_alias", "warnings")
    if other := sorted(options.keys() - set(known)):
        raise UsageError(f"{whose}.model_dump has no option {other[0]!r}; it has {', '.join(known)}.")
    include, exclude = options.get("include"), options.get("exclude") or ()
    chosen = {
        name: value for name, value in fields.items() if (include is None or name in include) and name not in exclude
    }
    if options.get("exclude_none"):
        chosen = {name: value for name, value in chosen.items() if value is not None}
    if options.get("exclude_unset") or options.get("exclude_defaults"):
        chosen = {name: value for name, value in chosen.items() if value not in (None, {}, []) or name == "content"}
    return chosen


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
        for name in made.__struct_fields__ if known else ():
            if name in known:
                setattr(made, name, known[name])
        made.id = own
        out.append(made)
    return out


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
    given = input.get("messages") if isinstance(input, Mapping) else None
    if given is None:
        raise InvalidInput(
            'The input is {"messages": [{"role": "user", "content": ...}]}, a Command(resume=...) of assentry.threads, '
            f"or None to go on; got {described(input)}."
        )
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
    if is_langchain_message(given):
        from .langchain.message import from_langchain

        given = from_langchain(given)
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
    fields = {name: given[name] for name in kind.__struct_fields__ if given.get(name) is not None}
    return _check_message(kind(**fields))


def _check_message(given: Message) -> Message:
    known: dict[str, Any] = {"id": given.id, "name": given.name}
    for key, value in known.items():
        if value is not None and (not isinstance(value, str) or not holds(value)):
            raise InvalidInput(f"The {key} of a message is text, got {described(value)}.")
    return given


def items_of(message: Message) -> list[Item]:
    """Return a message as items; a note on the first item keeps the fields that the items cannot hold."""
    items = _bare_items(message)
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
