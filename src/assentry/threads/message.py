"""Messages of a thread: their classes, and how a program's messages are read."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

from msgspec import Struct, StructMeta
from msgspec.json import encode
from msgspec.json import format as format_json

from ..core.digest import BadJSON, parse_object
from ..core.transcript import (
    content_text,
)
from ..core.wording import described, holds
from ..errors import InvalidInput, UsageError
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
    """The provider's data about the reply, such as the reason why it ended."""
    extra: dict[str, Any] = {}
    """Fields of a message of LangChain that messages do not have here."""

    @property
    def text(self) -> MessageText:
        """The text of the content."""
        return MessageText(content_text(self.content))

    @property
    def content_blocks(self) -> list[dict[str, Any]]:
        """The content as a list of blocks, each with its `type`."""
        parts = [self.content] if isinstance(self.content, str) else self.content
        return [_block(part) for part in parts if part != ""]

    def __eq__(self, other: object) -> bool:
        """Compare with a message of the same class, ours or LangChain's."""
        if type(other) is type(self):
            return bool(super().__eq__(other))
        if not is_langchain_message(other) or type(other).__name__ != type(self).__name__:
            return NotImplemented
        own = [name for name in self.__struct_fields__ if name != "extra"]
        theirs: Any = other
        return self.extra == (theirs.model_extra or {}) and all(getattr(self, n) == getattr(theirs, n) for n in own)

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
        from pydantic_core import core_schema as schema

        names = ("content", "type", "id", "name")
        parts = {name: schema.typed_dict_field(schema.any_schema()) for name in names}
        return schema.no_info_plain_validator_function(
            cls._read,
            json_schema_input_schema=schema.typed_dict_schema(parts, cls_name=cls.__name__),
            serialization=schema.plain_serializer_function_ser_schema(lambda value: value.model_dump()),
        )

    @classmethod
    def _read(cls, value: Any) -> Message:
        try:
            made = message(value)
        except InvalidInput as error:
            raise ValueError(str(error)) from None
        if not isinstance(made, cls):
            raise ValueError(f"a {cls.__name__} is needed, got a {type(made).__name__}")
        return made


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
    chunk_position: Literal["last"] | None = None
    """"last" for the last part of a message."""

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
            additional_kwargs={**self.additional_kwargs, **other.additional_kwargs},
            tool_call_chunks=chunks,
            chunk_position=other.chunk_position,
        )

    def whole(self) -> AIMessage:
        """Return the message that the parts so far make."""
        return AIMessage(**{name: getattr(self, name) for name in AIMessage.__struct_fields__})


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
    own = [name for name in message.__struct_fields__ if name not in (*FIELDS, "extra")]
    return {**{name: getattr(message, name) for name in (*FIELDS, *own)}, **message.extra}


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


# -- reading ---------------------------------------------------------------------------------------

ROLES: dict[str, type[Message]] = {
    "user": HumanMessage,
    "human": HumanMessage,
    "assistant": AIMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
    "tool": ToolMessage,
}


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
