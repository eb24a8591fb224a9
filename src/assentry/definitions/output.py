"""Output types: the schema that a model's answer must fit, and the answer as an instance of the type.

    output_type ── json_schema ──► the model ── its text ── parse ──► instance ── dump ──► JSON ── load ──► instance

Providers require a JSON object. A type whose JSON is something else (a list, a number, a union) is therefore offered as
`{"response": ...}`. Only the model's text has that wrapper. The journal, questions and edits hold the bare value.

JSON is read strictly. JSON in a Markdown fence, or with words around it, is refused: picking out a part of the text
would decide what the model meant. Calling the model, and handling an answer that does not fit, belong elsewhere.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum
from types import EllipsisType, NoneType, UnionType
from typing import Annotated, Any, Final, ForwardRef, Literal, NewType, Protocol, Union, get_args, get_origin

import msgspec
import typing_extensions
from msgspec import Raw, Struct

from ..core.digest import BadJSON, canonical, digest, parse, plain
from ..core.wording import clean_text, described, holds, worded
from ..errors import InvalidDefinition, InvalidOutput

Json = dict[str, Any]

TRY_AGAIN = "resume error.state after state.add_input(...) to let the model try again"


class AgentOutputSchema:
    """The form of an agent's final output: text (`str`), or a type that the answer becomes an instance of.

    The type may be a pydantic model, a dataclass, a TypedDict, a NamedTuple, a `msgspec.Struct`, an enum, a number, or
    a list, union or `Literal` of such types. `Agent(output_type=T)` makes an `AgentOutputSchema(T)`. For a type that no
    strict schema can describe, make one yourself with `strict_json_schema=False`.

    Pydantic types are validated by pydantic's `validate_json`, with their own config: text may become a date, and a
    missing field gets its default. Structs, and lists and unions of them, are validated by msgspec.
    """

    output_type: Any
    name: str
    """The type as written in source code: `list[Order]`."""
    strict: bool
    """True if the schema is strict: every property is required, and no other is allowed."""
    json_schema: dict[str, Any] | None
    """The schema that the model is given; None for text."""
    is_wrapped: bool
    """True if the model answers with `{"response": ...}`, because the type's JSON is no object."""
    fingerprint: str
    """The fingerprint of the name and the schema."""

    def __init__(self, output_type: Any, strict_json_schema: bool = True) -> None:
        """Make the schema, or raise `InvalidDefinition` if the type cannot be used.

        Args:
            output_type: The type; `str` or None for text.
            strict_json_schema: True for a strict schema, which providers enforce. A type that allows any keys or any
                value needs False.
        """
        if output_type is None:
            output_type = str
        if not _is_type(output_type):
            raise InvalidDefinition(f"An output type must be a type, got {described(output_type)}.")
        self.output_type = output_type
        self.name = _type_name(output_type)
        self.strict = strict_json_schema
        self._codec, schema = _make_codec(self.name, output_type)
        self.json_schema, self.is_wrapped = (None, False) if self.is_plain_text() else self._offer(schema)
        self.fingerprint = digest({"name": self.name, "schema": self.json_schema})[:32]

    def __repr__(self) -> str:
        return f"<AgentOutputSchema {self.name}>"

    def is_plain_text(self) -> bool:
        """Return True if the output is the model's text, unchanged."""
        return self.output_type is str

    def _is_always_wrapped(self) -> bool:
        """Return True if the model must answer with the wrapper also if the type's JSON is an object."""
        return False

    def parse(self, text: str) -> Any:
        """Return the model's text as an instance of the type, or raise `InvalidOutput`."""
        try:
            if self.is_plain_text():
                return _checked_text(text)
            data = _checked_json(text)
            return self._codec.read(_unwrap(data) if self.is_wrapped else data)
        except Exception as error:  # a user's validator may raise anything
            raise self._refusal("The model's output", error, TRY_AGAIN) from _cause(error)

    def dump(self, value: Any) -> Raw:
        """Return an instance of the type, or its JSON form, as JSON that `load` takes, or raise `InvalidOutput`."""
        failures: list[InvalidOutput] = []
        for write in self._codec.writers:
            try:
                data = write(value)
            except Exception as error:  # a user's serializer may raise anything
                failures.insert(0, self._refusal("The value", error))
                continue
            try:
                self.load(data)
            except InvalidOutput as error:
                failures.append(error)  # last, so this one is raised: a bad fit says more than a failed write
            else:
                return Raw(data)
        raise failures[-1]

    def load(self, data: Any) -> Any:
        """Return an instance of the type, from JSON bytes or from its JSON form, or raise `InvalidOutput`.

        The data has no wrapper. A `str` is a JSON string's value, not JSON text.
        """
        try:
            if isinstance(data, bytes | Raw):
                return self._codec.read(_checked_json(bytes(data).decode()))
            return self._codec.read(_plain_json(data))
        except Exception as error:  # a user's validator may raise anything
            raise self._refusal("The value", error) from _cause(error)

    def as_written(self, data: Any) -> Any:
        """Return an instance of the type whose JSON form agrees with `data`, or raise `InvalidOutput`.

        Use this for data that a person has seen or written. A model's text may be converted more freely, because
        people are shown the converted value. A missing field may get its default.
        """
        value = self.load(data)
        written = msgspec.json.decode(self.dump(value))
        if not _says(written, data):
            said, meant = (_short(canonical(each).decode(), NAME) for each in (data, written))
            name = _short(self.name, NAME)
            raise InvalidOutput(f"The value is not {name} as it is written: {said} would be read as {meant}")
        return value

    def _refusal(self, what: str, error: Exception, then: str = "") -> InvalidOutput:
        problem = f"{what} is not {_short(self.name, NAME)}: {_problem(error)}"
        return InvalidOutput(clean_text(f"{problem}; {then}." if then else problem)[0])

    def _offer(self, schema: Json) -> tuple[Json, bool]:
        """Return the schema in the form that providers require, and True if the schema needed the wrapper."""
        from ..schema.strict import referred

        definitions = schema.pop("$defs", {})
        root = schema
        while "$ref" in root:  # providers want an object at the root, not a reference
            root = definitions[referred(root)]
        wraps = root.get("type") != "object" or self._is_always_wrapped()
        if wraps:
            root = {"type": "object", "properties": {WRAPPER: schema}, "required": [WRAPPER]}
            root["additionalProperties"] = False
        if not self.strict:
            return _with_definitions(root, definitions), wraps
        return _tighten(self.name, {**root, "$defs": definitions}, wraps), wraps


class AgentOutputSchemaBase(ABC):
    """An output type of your own: a JSON schema, and a function that makes the output from the model's JSON text."""

    @abstractmethod
    def is_plain_text(self) -> bool:
        """Return True if the output is the model's text, unchanged."""

    @abstractmethod
    def name(self) -> str:
        """Return the name of the type."""

    @abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """Return the schema that the model is given."""

    @abstractmethod
    def is_strict_json_schema(self) -> bool:
        """Return True if the schema is strict."""

    @abstractmethod
    def validate_json(self, json_str: str) -> Any:
        """Return the output for the model's JSON text, or raise an exception if the text does not fit."""

    def adapted(self) -> AgentOutputSchema:
        """Return the schema in the form that a run uses."""
        return _CustomOutputSchema(self)


class _CustomOutputSchema(AgentOutputSchema):
    """The form of a final output that a user's own schema describes."""

    def __init__(self, given: AgentOutputSchemaBase) -> None:
        self.output_type = str if given.is_plain_text() else given
        self.name = given.name()
        self.strict = given.is_strict_json_schema()
        self.is_wrapped = False
        try:
            self.json_schema = None if self.is_plain_text() else plain(given.json_schema())
        except BadJSON as error:
            raise InvalidDefinition(f"Output type {self.name}: its JSON schema is none; {error}.") from None
        self._codec = _Made(lambda data: given.validate_json(data.decode()), _plain_json, _json_of_object)
        self.fingerprint = digest({"name": self.name, "schema": self.json_schema})[:32]


def _json_of_object(value: Any) -> bytes:
    from pydantic_core import to_json

    return to_json(value)


# Types


def _is_type(kind: Any) -> bool:
    """Return True if `kind` can be a type. Pydantic alone would also accept a name, a function, or a dict."""
    return isinstance(kind, type | NewType) or _is_alias(kind) or get_origin(kind) is not None


def _is_alias(kind: Any) -> bool:
    # In some versions of Python, `typing` and `typing_extensions` have different classes.
    ours = typing_extensions.TypeAliasType
    return isinstance(kind, (ours, getattr(typing, "TypeAliasType", ours)))


def _type_name(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type_name(args[0])
    if origin in (Union, UnionType):
        return " | ".join(map(_type_name, args))
    if origin is Literal:
        return f"Literal[{', '.join(map(_worth, args))}]"
    if isinstance(kind, str | ForwardRef):  # a forward reference in brackets
        return kind if isinstance(kind, str) else kind.__forward_arg__
    if isinstance(kind, NoneType | EllipsisType) or kind is NoneType:
        return "..." if kind is ... else "None"
    name = getattr(origin or kind, "__name__", type(kind).__name__)
    return f"{name}[{', '.join(map(_type_name, args))}]" if args else str(name)


def _worth(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


# Schemas


def _tighten(name: str, schema: Json, wraps: bool) -> Json:
    from ..schema.strict import Tightening

    def refusal(path: tuple[str, ...], what: str = "have any keys") -> str:
        inside = path[1:] if wraps and path[0] == WRAPPER else path  # the developer does not know the wrapper
        return _not_strict(name, inside, what)

    tight = Tightening(name, schema, refusal).top()
    for path in _vague(tight):
        raise InvalidDefinition(refusal(path, "be anything"))
    return tight


def _not_strict(name: str, path: tuple[str, ...], what: str) -> str:
    name = _short(name, NAME)
    return (
        f"Output type {name}: {'.'.join(path) or 'it'} may {what}, which a strict schema cannot say; "
        f"use AgentOutputSchema({name}, strict_json_schema=False), or a type that says more."
    )


def _vague(schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield each path where the schema says nothing. Providers refuse such a strict schema."""
    if not schema.keys() - {"title", "description", "examples"}:
        yield path
    for key in ("properties", "$defs"):
        for name, each in schema.get(key, {}).items():
            yield from _vague(each, (*path, name))
    for each in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from _vague(each, path)


def _with_definitions(root: Json, definitions: Json) -> Json:
    """Return the schema with only the definitions that are used. A definition that became the root may be unused."""
    whole = canonical({**root, "$defs": definitions})
    used = {name: each for name, each in definitions.items() if f'"#/$defs/{name}"'.encode() in whole}
    return {**root, "$defs": used} if used else root


# JSON


class _Codec(Protocol):
    """The functions by which a library reads and writes a type."""

    writers: tuple[Callable[[Any], bytes], ...]
    """The functions that write a value; the first one whose JSON can be read again is used."""

    def read(self, data: bytes) -> Any: ...


def _make_codec(name: str, kind: Any) -> tuple[_Codec, Json]:
    """Return the type's codec and its schema, or raise `InvalidDefinition`."""
    from ..schema.signature import mentions

    try:
        by_msgspec = kind is str or mentions(kind, (Struct,))
        codec, schema = _msgspec(kind) if by_msgspec else _pydantic(kind)
        return codec, plain(schema)
    except Exception as error:
        raise InvalidDefinition(
            f"Output type {_short(name, NAME)}: no schema can be made of it ({_problem(error)}); "
            "use a type that JSON can carry and pydantic or msgspec knows."
        ) from error


class _Made:
    """A codec made from functions."""

    def __init__(self, read: Callable[[bytes], Any], *writers: Callable[[Any], bytes]) -> None:
        self.read = read
        self.writers = writers


def _msgspec(kind: Any) -> tuple[_Codec, Json]:
    schema = msgspec.json.schema(kind)
    for each in schema.get("$defs", {}).values():
        each.pop("title", None)  # it repeats the definition's name
    return _Made(msgspec.json.Decoder(kind).decode, msgspec.json.encode), schema


def _pydantic(kind: Any) -> tuple[_Codec, Json]:
    from pydantic import TypeAdapter  # slow to import, like the next one

    from ..schema.schema import Generator

    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def writer(by_alias: bool) -> Callable[[Any], bytes]:
        # Without warnings="error", pydantic would write a value of another type and only warn.
        return lambda value: adapter.dump_json(value, by_alias=by_alias, round_trip=True, warnings="error")

    codec = _Made(adapter.validate_json, writer(True), writer(False), _plain_json)
    return codec, adapter.json_schema(schema_generator=Generator)


def _says(written: Any, given: Any) -> bool:
    """Return True if the written JSON contains all of the given JSON unchanged. 1 and 1.0 count as equal."""
    kinds = {type(written), type(given)}
    if kinds == {dict}:
        return all(key in written and _says(written[key], given[key]) for key in given)
    if kinds == {list}:
        return len(written) == len(given) and all(map(_says, written, given))
    return bool(written == given) and (len(kinds) == 1 or kinds == {int, float})


def _checked_text(given: str) -> str:
    if not holds(given):
        raise BadJSON("it holds half of a surrogate pair, which UTF-8 cannot carry")
    return given


def _checked_json(given: str) -> bytes:
    """Return the text as bytes, or raise `BadJSON` if it is not JSON with one meaning."""
    try:
        parse(given)
    except BadJSON as error:
        if not given.strip():
            raise BadJSON("it is empty") from None
        if given.lstrip().startswith("```"):
            raise BadJSON(f"{error}; it is in a Markdown fence, and must be JSON alone") from None
        raise
    return given.encode()


def _plain_json(value: Any) -> bytes:
    return msgspec.json.encode(plain(value))


WRAPPER: Final = "response"


class _Wrapper(Struct, forbid_unknown_fields=True):
    """The wrapper in a model's text. The value inside stays raw JSON, so that a decimal keeps its digits."""

    response: Raw


_wrapper: Final = msgspec.json.Decoder(_Wrapper)


def _unwrap(data: bytes) -> bytes:
    try:
        return bytes(_wrapper.decode(data).response)
    except msgspec.ValidationError as error:
        raise BadJSON(f'it must be {{"{WRAPPER}": ...}} ({error})') from None


# Error messages

NAME: Final = 80
PROBLEM: Final = 300
"""The limit of an error text, in characters: bad data may be megabytes long, and a person must see the problem."""


def _problem(error: Exception) -> str:
    if isinstance(error, BadJSON | msgspec.ValidationError):
        return _short(str(error), PROBLEM)
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        from ..schema.binding import path_of
        from ..schema.form import join_problems

        found = error.errors(include_url=False, include_context=False, include_input=False)
        return join_problems(f"{path_of(each['loc']) or 'output'}: {each['msg']}" for each in found)
    words = worded(error).partition("\n\n")[0]  # pydantic's explanations follow the blank line
    return _short(" ".join(words.split()), PROBLEM)


def _cause(error: Exception) -> Exception | None:
    """Return the error to chain. Return None for a validator's error, which would show all of the bad data."""
    return None if isinstance(error, ValueError | msgspec.ValidationError) else error


def _short(words: str, limit: int) -> str:
    return words if len(words) <= limit else f"{words[: limit - 3]}..."
