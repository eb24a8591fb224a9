"""Output types: the schema a model is offered, and its text as an instance of the type."""

import inspect
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypeVar
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, Struct
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    RootModel,
    computed_field,
    field_serializer,
    field_validator,
)
from typing_extensions import TypeAliasType, TypedDict

from assentry import AgentOutputSchema, InvalidDefinition, InvalidOutput, Runner, Upstream
from assentry.definitions.output import AgentOutputSchemaBase
from tests.runtime.support import python, scripted

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Order(BaseModel):
    """What somebody wants."""

    id: int
    placed: date = date(2026, 1, 2)
    tags: list[str] = []
    note: str | None = None


class Node(BaseModel):
    name: str
    children: list["Node"] = []


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: str | None = None


@dataclass
class Range:
    start: int
    stop: int = 10
    marks: list[Color] = field(default_factory=list)


@dataclass
class Pair(Generic[T]):
    left: T
    right: T


class Options(TypedDict):
    depth: int
    since: NotRequired[date]


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Parcel(Struct):
    """What is sent."""

    weight: float
    to: str = "home"
    inside: list["Parcel"] = []


class Sent(Struct, tag=True):
    parcel: Parcel
    when: datetime


class Lost(Struct, tag=True):
    reason: Literal["fire", "flood"]
    level: Level = Level.LOW


class Flat(Struct, array_like=True):
    a: int
    b: str


class Crate(Struct, Generic[T]):
    content: T


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Small = Annotated[int, Field(ge=0, le=10, description="From 0 to 10.")]
UserId = NewType("UserId", int)
Tree = TypeAliasType("Tree", "list[Tree] | int")


OBJECTS: list[tuple[Any, str, Any]] = [
    (Order, "Order", Order(id=1, placed=date(2026, 5, 6), tags=["a"], note="ü😀")),
    (Node, "Node", Node(name="a", children=[Node(name="b", children=[Node(name="c")])])),
    (Page[Order], "Page[Order]", Page[Order](items=[Order(id=1)], next="x")),
    (Range, "Range", Range(1, 2, [Color.RED])),
    (Pair[int], "Pair[int]", Pair(1, 2)),
    (Options, "Options", {"depth": 1, "since": date(2026, 1, 1)}),
    (Parcel, "Parcel", Parcel(1.5, "ann", [Parcel(0.5)])),
    (Sent, "Sent", Sent(Parcel(1.0), datetime(2026, 1, 1, tzinfo=UTC))),
    (Crate[Parcel], "Crate[Parcel]", Crate(Parcel(1.0))),
]
WRAPPED: list[tuple[Any, str, Any]] = [
    (int, "int", 5),
    (bool, "bool", True),
    (float, "float", 0.5),
    (Decimal, "Decimal", Decimal("1.10")),
    (date, "date", date(2026, 1, 1)),
    (UUID, "UUID", UUID(int=5)),
    (Color, "Color", Color.BLUE),
    (Level, "Level", Level.HIGH),
    (Literal["yes", "no"], "Literal['yes', 'no']", "no"),
    (list[Order], "list[Order]", [Order(id=1), Order(id=2, note="x")]),
    (list[list[int]], "list[list[int]]", [[1], []]),
    (tuple[int, str], "tuple[int, str]", (1, "a")),
    (tuple[int, ...], "tuple[int, ...]", (1, 2, 3)),
    (set[int], "set[int]", {1, 2}),
    (Point, "Point", Point(1, 2.5)),
    (Order | None, "Order | None", None),
    (Optional[Order], "Order | None", Order(id=1)),  # noqa: UP045
    (Order | Range, "Order | Range", Range(1)),
    (int | str, "int | str", "5"),
    (str | None, "str | None", None),
    (Pet, "Cat | Dog", Dog(kind="dog", tricks=["sit"])),
    (list[Pet], "list[Cat | Dog]", [Cat(kind="cat"), Dog(kind="dog")]),
    (Small, "int", 7),
    (UserId, "UserId", 7),
    (Tree, "Tree", [1, [2, [3]]]),
    (RootModel[list[int]], "RootModel[list[int]]", RootModel[list[int]]([1])),
    (Flat, "Flat", Flat(1, "a")),
    (list[Parcel], "list[Parcel]", [Parcel(1.0), Parcel(2.0)]),
    (Parcel | None, "Parcel | None", None),
    (Sent | Lost, "Sent | Lost", Lost("fire", Level.HIGH)),
]
LOOSE: list[tuple[Any, str, Any]] = [
    (dict[str, int], "dict[str, int]", {"b": 1, "a": 2}),
    (dict[str, Order], "dict[str, Order]", {"a": Order(id=1)}),
    (dict[str, Parcel], "dict[str, Parcel]", {"a": Parcel(1.0)}),
    (dict, "dict", {"a": [1, None]}),
    (Any, "Any", {"a": [1, None]}),
    (list, "list", [1, "a", None]),
    (list[Any], "list[Any]", [1, {"a": 1.5}]),
    (RootModel[dict[str, int]], "RootModel[dict[str, int]]", RootModel[dict[str, int]]({"a": 1})),
]
ALL = [(*each, True) for each in OBJECTS + WRAPPED] + [(*each, False) for each in OBJECTS + WRAPPED + LOOSE]
IDS = [f"{name}-{'strict' if strict else 'loose'}" for _, name, _, strict in ALL]


def said(schema: AgentOutputSchema, form: Any) -> str:
    """What a model says that means this JSON."""
    return json.dumps({"response": form} if schema.is_wrapped else form)


def form_of(schema: AgentOutputSchema, value: Any) -> Any:
    return json.loads(bytes(schema.dump(value)))


def refused(kind: Any, text: str, **options: Any) -> str:
    with pytest.raises(InvalidOutput) as caught:
        AgentOutputSchema(kind, **options).parse(text)
    return str(caught.value)


def undefined(kind: Any, strict: bool = True) -> str:
    with pytest.raises(InvalidDefinition) as caught:
        AgentOutputSchema(kind, strict)
    return str(caught.value)


def offered(kind: Any, strict: bool = True) -> dict[str, Any]:
    schema = AgentOutputSchema(kind, strict).json_schema
    assert schema is not None
    return schema


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object schema in a schema."""
    if isinstance(schema, list):
        return [each for item in schema for each in objects(item)]
    if not isinstance(schema, dict):
        return []
    return ([schema] if schema.get("type") == "object" else []) + objects(list(schema.values()))


# Every type


@pytest.mark.parametrize(("kind", "name", "value", "strict"), ALL, ids=IDS)
def test_what_the_model_says_becomes_an_instance_and_is_kept_and_comes_back(
    kind: Any, name: str, value: Any, strict: bool
) -> None:
    schema = AgentOutputSchema(kind, strict)
    parsed = schema.parse(said(schema, form_of(schema, value)))
    assert parsed == value and type(parsed) is type(value)
    kept = schema.dump(parsed)
    assert type(kept) is Raw
    for loaded in (schema.load(kept), schema.load(bytes(kept)), schema.load(json.loads(bytes(kept)))):
        assert loaded == value and type(loaded) is type(value)
    assert schema.dump(schema.load(kept)) == kept


@pytest.mark.parametrize(("kind", "name", "value", "strict"), ALL, ids=IDS)
def test_a_type_has_a_name_that_one_would_write(kind: Any, name: str, value: Any, strict: bool) -> None:
    schema = AgentOutputSchema(kind, strict)
    assert schema.name == name
    assert repr(schema) == f"<AgentOutputSchema {name}>"
    assert schema.output_type is kind and schema.strict is strict and not schema.is_plain_text()


@pytest.mark.parametrize(("kind", "name", "value", "strict"), ALL, ids=IDS)
def test_the_model_is_always_offered_an_object(kind: Any, name: str, value: Any, strict: bool) -> None:
    schema = AgentOutputSchema(kind, strict)
    offered = schema.json_schema
    assert offered is not None
    assert offered["type"] == "object" and "$ref" not in offered and "anyOf" not in offered
    if schema.is_wrapped:
        assert list(offered["properties"]) == ["response"]
        assert offered["required"] == ["response"] and offered["additionalProperties"] is False
    referred = set(re.findall(r"#/\$defs/([^\"]+)", json.dumps(offered)))
    assert referred == set(offered.get("$defs", {}))


@pytest.mark.parametrize("kind", [each[0] for each in OBJECTS], ids=[each[1] for each in OBJECTS])
def test_a_type_that_is_an_object_in_json_is_not_wrapped(kind: Any) -> None:
    assert not AgentOutputSchema(kind).is_wrapped


@pytest.mark.parametrize("kind", [each[0] for each in WRAPPED], ids=[each[1] for each in WRAPPED])
def test_a_type_that_is_no_object_in_json_is_wrapped(kind: Any) -> None:
    assert AgentOutputSchema(kind).is_wrapped


@pytest.mark.parametrize("kind", [each[0] for each in OBJECTS + WRAPPED], ids=[each[1] for each in OBJECTS + WRAPPED])
def test_a_strict_schema_is_closed_and_requires_everything(kind: Any) -> None:
    found = objects(offered(kind))
    assert found
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    assert not {"default", "oneOf", "discriminator", "prefixItems"} & set(
        re.findall(r'"(\w+)":', json.dumps(offered(kind)))
    )


@pytest.mark.parametrize("kind", [each[0] for each in OBJECTS + WRAPPED + LOOSE])
def test_a_schema_is_json(kind: Any) -> None:
    schema = offered(kind, strict=False)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema


# Text


@pytest.mark.parametrize("kind", [str, None])
def test_text_is_the_output_as_it_is(kind: Any) -> None:
    schema = AgentOutputSchema(kind)
    assert schema.is_plain_text() and schema.json_schema is None and not schema.is_wrapped
    assert schema.name == "str"
    for text in ("", "hello", '{"response": 1}', "```json\n1\n```", "ü😀\u2028\x00"):
        assert schema.parse(text) == text
        assert schema.load(schema.dump(text)) == text
        assert schema.load(text) == text
    assert bytes(schema.dump("a")) == b'"a"'


def test_none_means_text_and_has_texts_fingerprint() -> None:
    assert AgentOutputSchema(None).fingerprint == AgentOutputSchema(str).fingerprint


def test_text_that_utf8_cannot_hold_is_refused() -> None:
    assert "surrogate" in refused(str, "a\ud800")
    with pytest.raises(InvalidOutput, match="is not str"):
        AgentOutputSchema(str).dump("a\ud800")
    with pytest.raises(InvalidOutput, match="surrogate"):
        AgentOutputSchema(str).load("a\ud800")


def test_text_that_was_edited_must_be_text() -> None:
    for wrong in (5, None, ["a"], {"a": 1}, b"5"):
        with pytest.raises(InvalidOutput, match="is not str"):
            AgentOutputSchema(str).load(wrong)


# Schemas


def test_a_model_is_offered_with_its_description_and_without_made_up_titles() -> None:
    assert offered(Order) == {
        "type": "object",
        "description": "What somebody wants.",
        "properties": {
            "id": {"type": "integer"},
            "placed": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["id", "placed", "tags", "note"],
        "additionalProperties": False,
    }


def test_a_loose_schema_has_the_defaults_and_requires_only_what_has_none() -> None:
    schema = offered(Order, strict=False)
    assert schema["required"] == ["id"]
    assert schema["properties"]["placed"]["default"] == "2026-01-02"
    assert schema["additionalProperties"] is False


def test_a_recursive_model_is_written_out_at_the_root_and_referred_to_below() -> None:
    for strict in (True, False):
        schema = offered(Node, strict)
        assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
        assert schema["$defs"]["Node"]["properties"] == schema["properties"]


def test_a_struct_is_offered_as_msgspec_describes_it() -> None:
    schema = offered(Lost)
    assert schema["properties"]["type"] == {"enum": ["Lost"], "type": "string"}
    assert schema["properties"]["reason"] == {"enum": ["fire", "flood"], "type": "string"}
    assert schema["$defs"]["Level"] == {"enum": [1, 2], "type": "integer"}
    assert offered(Parcel)["description"] == "What is sent."
    loose = offered(Crate[int], strict=False)
    assert loose == {"type": "object", "properties": {"content": {"type": "integer"}}, "required": ["content"]}


def test_what_a_field_says_about_a_number_is_offered() -> None:
    assert offered(Small)["properties"]["response"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 10,
        "description": "From 0 to 10.",
    }
    assert "less than or equal to 10" in refused(Small, '{"response": 11}')


def test_a_discriminated_union_is_a_plain_one_in_a_strict_schema() -> None:
    assert offered(Pet)["properties"]["response"] == {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}
    assert AgentOutputSchema(Pet).parse('{"response": {"kind": "cat", "lives": 1}}') == Cat(kind="cat", lives=1)
    assert "'cow'" in refused(Pet, '{"response": {"kind": "cow"}}')


def test_aliases_are_what_the_model_is_offered_and_says() -> None:
    class Item(BaseModel):
        number: int = Field(alias="no")

    schema = AgentOutputSchema(Item)
    assert list(offered(Item)["properties"]) == ["no"]
    value = schema.parse('{"no": 5}')
    assert value.number == 5
    assert bytes(schema.dump(value)) == b'{"no":5}'
    assert schema.load(schema.dump(value)) == value


def test_the_fingerprint_is_of_name_and_schema() -> None:
    def made(**fields: Any) -> AgentOutputSchema:
        return AgentOutputSchema(type("Made", (BaseModel,), {"__annotations__": fields, "__module__": __name__}))

    assert made(a=int).fingerprint == made(a=int).fingerprint
    assert made(a=int).fingerprint != made(a=str).fingerprint
    assert re.fullmatch("[0-9a-f]{32}", made(a=int).fingerprint)
    marks = {AgentOutputSchema(each[0]).fingerprint for each in OBJECTS + WRAPPED}
    assert len(marks) == len(OBJECTS + WRAPPED) - 1  # `Order | None` is there in both spellings
    assert AgentOutputSchema(int | str).fingerprint != AgentOutputSchema(str | int).fingerprint
    assert AgentOutputSchema(Order).fingerprint != AgentOutputSchema(Order, strict_json_schema=False).fingerprint


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = """
        from tests.definitions.test_output_types import ALL, AgentOutputSchema
        print([AgentOutputSchema(kind, strict).fingerprint for kind, _, _, strict in ALL])
    """
    ended = python(inspect.cleandoc(code))
    assert ended.stdout.strip() == str([AgentOutputSchema(kind, strict).fingerprint for kind, _, _, strict in ALL])


# Types that cannot be


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (dict[str, int], "it may have any keys"),
        (dict, "it may have any keys"),
        (list[dict[str, int]], "it may have any keys"),
        (Page[dict[str, int]], "items may have any keys"),
        (dict[str, Parcel], "it may have any keys"),
        (Crate[dict[str, int]], "content may have any keys"),
        (RootModel[dict[str, int]], "it may have any keys"),
        (Any, "it may be anything"),
        (object, "it may be anything"),
        (list, "it may be anything"),
        (Page[Any], "items may be anything"),
        (list[Page[Any]], r"Page_Any_.items may be anything"),
    ],
)
def test_a_type_that_cannot_be_strict_is_refused_and_the_way_out_named(kind: Any, place: str) -> None:
    name = AgentOutputSchema(kind, strict_json_schema=False).name
    assert undefined(kind) == (
        f"Output type {name}: {place}, which a strict schema cannot say; "
        f"use AgentOutputSchema({name}, strict_json_schema=False), or a type that says more."
    )


def test_a_field_named_like_the_wrapper_is_named() -> None:
    class Reply(BaseModel):
        response: dict[str, int]

    class Replies(BaseModel):
        responses: dict[str, int]

    assert "Reply: response may have any keys" in undefined(Reply)
    assert "Replies: responses may have any keys" in undefined(Replies)


def test_a_model_that_allows_other_keys_cannot_be_strict() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    assert "Output type Open: it may have any keys" in undefined(Open)
    schema = AgentOutputSchema(Open, strict_json_schema=False)
    assert schema.load(schema.dump(schema.parse('{"a": 1, "b": 2}'))) == Open(a=1, b=2)  # type: ignore[call-arg]


class Plain:
    pass


class HoldsPlain(Struct):
    plain: Plain


class HoldsModel(Struct):
    order: Order


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Plain, "Plain"),
        (list[Plain], r"list\[Plain\]"),
        (Order | Plain, r"Order \| Plain"),
        (HoldsPlain, "HoldsPlain"),
        (HoldsModel, "HoldsModel"),
        (Parcel | Order, r"Parcel \| Order"),
        (Callable[[], int], r"Callable\["),
        (type, "type"),
        (list["Nowhere"], r"list\[Nowhere\]"),  # type: ignore[name-defined]  # noqa: F821
        (Literal["\ud800"], r"Literal\['\\ud800'\]"),
    ],
)
def test_a_type_that_no_schema_can_be_made_of_is_refused_by_name(kind: Any, name: str) -> None:
    for strict in (True, False):
        assert re.match(f"Output type {name}.*: no schema can be made of it", undefined(kind, strict))


def test_a_model_with_a_name_that_is_defined_nowhere_is_refused() -> None:
    class Half(BaseModel):
        other: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    assert undefined(Half).startswith("Output type Half: no schema can be made of it")


@pytest.mark.parametrize(
    "thing",
    [
        5,
        "Order",
        Order(id=1),
        Range(1),
        Parcel(1.0),
        {"type": "int"},
        {"type": "object"},
        [int],
        print,
        T,
        ...,
        Color.RED,
    ],
)
def test_what_is_no_type_is_refused(thing: Any) -> None:
    for strict in (True, False):
        assert undefined(thing, strict).startswith("An output type must be a type, got ")


def test_the_names_of_values_and_of_what_is_not_there_are_readable() -> None:
    assert AgentOutputSchema(Literal[1, None, Color.RED]).name == "Literal[1, None, Color.RED]"
    assert AgentOutputSchema(Annotated[list[Small], "words"]).name == "list[int]"
    assert AgentOutputSchema(type(None)).name == "None"


def test_a_long_name_is_cut_in_messages() -> None:
    kind = Literal[tuple(f"value {n}" for n in range(1000))]  # type: ignore[valid-type]
    assert len(refused(kind, '{"response": "other"}')) < 500
    assert len(undefined(dict[kind, int])) < 400  # type: ignore[valid-type]


# Text that does not fit


BAD: list[tuple[str, str]] = [
    ("", "it is empty"),
    (" \n", "it is empty"),
    ("null", "Input should be an object"),
    ("[]", "Input should be an object"),
    ('"id"', "Input should be an object"),
    ("{", "at character 1"),
    ('{"id": 1} and that is all', "Extra data at character 10"),
    ('Here it is: {"id": 1}', "Expecting value at character 0"),
    ('{"id": 1,}', "at character"),
    ("{'id': 1}", "at character 1"),
    ('{"id": 1, "id": 2}', "the key 'id' occurs twice"),
    ('{"id": 1, "tags": [{"a": 1, "a": 1}]}', "the key 'a' occurs twice"),
    ('{"id": NaN}', "NaN is not a JSON number"),
    ('{"id": Infinity}', "Infinity is not a JSON number"),
    ('{"id": -Infinity}', "-Infinity is not a JSON number"),
    ('{"id": 1e999}', "too large"),
    ('{"id": 1, "note": "\\ud800"}', "surrogate"),
    ('{"id": 1, "note": "\ud800"}', "surrogate"),
    ('{"id": 1, "\\udfff": 1}', "surrogate"),
    ('\ufeff{"id": 1}', "at character 0"),
    ("[" * 100_000, "nested too deeply"),
    ('{"id": 1, "x": ' + "[" * 250 + "]" * 250 + "}", "nested too deeply"),
    ("{}", "id: Field required"),
    ('{"id": "x"}', "id: Input should be a valid integer"),
    ('{"id": 1.5}', "id: Input should be a valid integer"),
    ('{"id": null}', "id: Input should be a valid integer"),
    ('{"id": 1, "placed": "soon"}', "placed: Input should be a valid date"),
    ('{"id": 1, "tags": ["a", 2]}', "tags[1]: Input should be a valid string"),
    ('{"id": 1' + "0" * 5_000 + "}", "digits"),
]


@pytest.mark.parametrize(("text", "problem"), BAD, ids=[f"{text[:20]!a}" for text, _ in BAD])
def test_what_does_not_fit_is_refused_with_what_is_wrong_and_what_to_do(text: str, problem: str) -> None:
    message = refused(Order, text)
    assert message.startswith("The model's output is not Order: ")
    assert problem in message
    assert message.endswith("; resume error.state after state.add_input(...) to let the model try again.")
    message.encode()


@pytest.mark.parametrize("fenced", ['```json\n{"id": 1}\n```', '```\n{"id": 1}\n```', '\n ```{"id": 1}```'])
def test_json_in_a_markdown_fence_is_refused_and_the_fence_named(fenced: str) -> None:
    assert "Markdown fence" in refused(Order, fenced)
    assert "Markdown fence" in refused(int, fenced)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "got `array`"),
        ("5", "got `int`"),
        ("{}", "missing required field `response`"),
        ('{"result": [1]}', "unknown field `result`"),
        ('{"response": [1], "more": 2}', "unknown field `more`"),
        ('{"response": [1], "response": [1]}', "the key 'response' occurs twice"),
        ('{"response": ["x"]}', "[0]: Input should be a valid integer"),
        ('{"response": null}', "output: Input should be a valid array"),
        ('{"response": {"response": [1]}}', "output: Input should be a valid array"),
    ],
)
def test_what_is_wrapped_must_be_in_its_wrapper_and_nothing_beside_it(text: str, problem: str) -> None:
    assert problem in refused(list[int], text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "missing required field `weight`"),
        ('{"weight": "1.5"}', "Expected `float`, got `str` - at `$.weight`"),
        ('{"weight": 1, "inside": [{}]}', "missing required field `weight` - at `$.inside[0]`"),
        ('{"weight": 1, "weight": 2}', "the key 'weight' occurs twice"),
        ('{"weight": NaN}', "NaN is not a JSON number"),
        ("[]", "Expected `object`, got `array`"),
    ],
)
def test_a_struct_is_typed_exactly(text: str, problem: str) -> None:
    message = refused(Parcel, text)
    assert message.startswith("The model's output is not Parcel: ") and problem in message


def test_an_invalid_output_is_of_the_outside_world() -> None:
    assert issubclass(InvalidOutput, Upstream) and InvalidOutput.status == 502


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, json.dumps({"response": "x" * 5_000_000})),
        (list[int], json.dumps({"response": ["x"] * 100_000})),
        (Color, json.dumps({"response": "x" * 5_000_000})),
        (Literal["a"], json.dumps({"response": "x" * 5_000_000})),
        (Pet, json.dumps({"response": {"kind": "x" * 5_000_000}})),
        (Page[int], json.dumps({"items": [], "x" * 1_000_000: 1}) + "x"),
        (dict[str, int], json.dumps({"x" * 1_000_000: "x"})),
        (int, json.dumps({"x" * 1_000_000: 1})),
        (Lost, json.dumps({"type": "Lost", "reason": "x" * 1_000_000})),
        (Order, '{"' + "x" * 1_000_000 + '": 1, "' + "x" * 1_000_000 + '": 2}'),
        (Order, "x" * 5_000_000),
    ],
)
def test_a_message_stays_short_however_large_the_wrong_is(kind: Any, text: str) -> None:
    assert len(refused(kind, text, strict_json_schema=False)) < 800


def test_problems_are_listed_and_those_that_do_not_fit_counted() -> None:
    message = refused(list[int], json.dumps({"response": ["x"] * 1000}))
    assert "[0]: Input" in message and "[1]: Input" in message and re.search(r"and 99\d more", message)


class Picky(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def check(cls, a: int) -> int:
        if a == 1:
            raise ValueError("one is " + "x" * 10_000)
        if a == 2:
            raise LookupError("two")
        if a == 3:
            raise KeyboardInterrupt
        if a == 4:
            raise LookupError("four is \ud800")
        return a


def test_a_validator_may_raise_anything() -> None:
    assert "one is" in refused(Picky, '{"a": 1}')
    assert len(refused(Picky, '{"a": 1}')) < 400
    assert "four is \ufffd" in refused(Picky, '{"a": 4}')
    with pytest.raises(InvalidOutput, match="LookupError: two") as caught:
        AgentOutputSchema(Picky).parse('{"a": 2}')
    assert isinstance(caught.value.__cause__, LookupError)
    with pytest.raises(KeyboardInterrupt):
        AgentOutputSchema(Picky).parse('{"a": 3}')


def test_an_error_does_not_hold_on_to_the_wrong_text() -> None:
    with pytest.raises(InvalidOutput) as caught:
        AgentOutputSchema(Order).parse('{"id": "x"}')
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


# What a type's own library decides


def test_what_is_left_out_has_its_default_though_a_strict_schema_requires_it() -> None:
    assert AgentOutputSchema(Order).parse('{"id": 1}') == Order(id=1)
    assert AgentOutputSchema(Parcel).parse('{"weight": 1}') == Parcel(1.0)
    assert AgentOutputSchema(Options).parse('{"depth": 1}') == {"depth": 1}


def test_pydantic_converts_by_the_rules_of_the_models_config() -> None:
    class Exact(BaseModel):
        model_config = ConfigDict(strict=True, extra="forbid")
        id: int
        placed: date = date(2026, 1, 1)

    assert AgentOutputSchema(Order).parse('{"id": "5", "unknown": 1}') == Order(id=5)
    assert "id: Input should be a valid integer" in refused(Exact, '{"id": "5"}')
    assert "unknown: Extra inputs" in refused(Exact, '{"id": 5, "unknown": 1}')
    assert AgentOutputSchema(Exact).parse('{"id": 5, "placed": "2026-02-03"}').placed == date(2026, 2, 3)


def test_a_decimal_keeps_the_digits_that_the_model_wrote() -> None:
    digits = "1.10000000000000000000000000001"
    assert AgentOutputSchema(Crate[Decimal]).parse(f'{{"content": {digits}}}') == Crate(Decimal(digits))
    wrapped = AgentOutputSchema(list[Crate[Decimal]])
    assert wrapped.parse(f'{{"response": [{{"content": {digits}}}]}}') == [Crate(Decimal(digits))]
    assert wrapped.load(wrapped.dump([Crate(Decimal(digits))])) == [Crate(Decimal(digits))]
    assert AgentOutputSchema(Decimal).parse(f'{{"response": "{digits}"}}') == Decimal(digits)


def test_a_large_integer_is_not_rounded() -> None:
    large = 2**80 + 1
    schema = AgentOutputSchema(int)
    assert schema.load(schema.dump(schema.parse(f'{{"response": {large}}}'))) == large


# Keeping and editing


def test_what_is_kept_has_no_wrapper() -> None:
    schema = AgentOutputSchema(list[int])
    assert bytes(schema.dump(schema.parse('{"response": [1, 2]}'))) == b"[1,2]"
    with pytest.raises(InvalidOutput, match=r"The value is not list\[int\]: output: Input should be a valid array"):
        schema.load({"response": [1]})


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (Order, {"id": 1, "placed": "2026-05-06", "tags": [], "note": None}),
        (list[Order], [{"id": 1}]),
        (Order | None, {"id": 1}),
        (Range, {"start": 1}),
        (Options, {"depth": 1, "since": "2026-01-01"}),
        (Color, "red"),
        (date, "2026-01-01"),
        (tuple[int, str], [1, "a"]),
        (Point, [1, 2.0]),
        (Parcel, {"weight": 1}),
        (Sent | Lost, {"type": "Lost", "reason": "fire"}),
    ],
)
def test_a_json_form_is_dumped_as_it_is_and_loads(kind: Any, form: Any) -> None:
    schema = AgentOutputSchema(kind)
    assert json.loads(bytes(schema.dump(form))) == form
    assert schema.load(form) == schema.load(schema.dump(form))


@pytest.mark.parametrize(
    ("kind", "wrong", "problem"),
    [
        (Order, {"id": "x"}, "id: Input should be a valid integer"),
        (Order, Order.model_construct(id="x"), "Expected `int`"),
        (Order, 5, "Input should be an object"),
        (Order, Range(1), "id: Field required"),
        (Color, "green", "Input should be 'red' or 'blue'"),
        (Parcel, {"weight": "x"}, "Expected `float`"),
        (Parcel, Plain(), "Plain"),
        (list[int], {1, 2}, "Expected `list"),
        (float, math.nan, "valid number"),
        (Order, Order(id=1, note="\ud800"), "is not Order"),
        (Node, {"name": "\ud800"}, "surrogate"),
        (float, "x" * 1_000_000, "valid number"),
    ],
)
def test_what_is_not_of_the_type_cannot_be_dumped(kind: Any, wrong: Any, problem: str) -> None:
    with pytest.raises(InvalidOutput) as caught:
        AgentOutputSchema(kind).dump(wrong)
    message = str(caught.value)
    assert message.startswith("The value is not ") and problem in message and len(message) < 800
    assert "resume" not in message


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is empty"),
        (b"\xff", "UnicodeDecodeError"),
        (b'{"id": 1, "id": 2}', "the key 'id' occurs twice"),
        (b'{"id": NaN}', "NaN is not a JSON number"),
        (Raw(b'{"id": "x"}'), "id: Input should be a valid integer"),
        ('{"id": 1}', "Input should be an object"),
        ({"id": math.inf}, "inf is not a JSON number"),
        ({"id": {1}}, "a value of type set is not JSON"),
        ({1: 2}, "keys must be text"),
        (None, "Input should be an object"),
    ],
)
def test_what_a_person_edited_must_fit(data: Any, problem: str) -> None:
    with pytest.raises(InvalidOutput) as caught:
        AgentOutputSchema(Order).load(data)
    message = str(caught.value)
    assert message.startswith("The value is not Order: ") and problem in message and "resume" not in message


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for use in (AgentOutputSchema(Any, strict_json_schema=False).dump, AgentOutputSchema(Tree).load):
        with pytest.raises(InvalidOutput):
            use(loop)


def test_the_order_of_keys_is_kept() -> None:
    schema = AgentOutputSchema(dict[str, int], strict_json_schema=False)
    assert list(schema.load({"b": 1, "a": 2})) == ["b", "a"]
    assert list(schema.load(schema.dump({"b": 1, "a": 2}))) == ["b", "a"]


def test_what_is_dumped_can_be_loaded_whatever_the_model_does_to_its_json() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: int = Field(validation_alias=AliasChoices("a", "b"), serialization_alias="c")
        inner: Json[list[int]]
        cents: int

        @field_validator("cents", mode="before")
        @classmethod
        def into(cls, cents: Any) -> int:
            return int(float(cents) * 100)

        @field_serializer("cents")
        def out_of(self, cents: int) -> float:
            return cents / 100

        @computed_field  # type: ignore[prop-decorator]
        @property
        def double(self) -> int:
            return self.a * 2

    schema = AgentOutputSchema(Odd)
    value = schema.parse('{"a": 1, "inner": "[1, 2]", "cents": 1.5}')
    assert (value.a, value.inner, value.cents, value.double) == (1, [1, 2], 150, 2)
    assert schema.load(schema.dump(value)) == value


def test_a_value_whose_json_would_not_load_is_refused_when_it_is_dumped() -> None:
    class OneWay(BaseModel):
        at: date

        @field_serializer("at")
        def out_of(self, at: date) -> str:
            return "some day"

    with pytest.raises(InvalidOutput, match="The value is not OneWay: at: Input should be a valid date"):
        AgentOutputSchema(OneWay).dump(OneWay(at=date(2026, 1, 1)))


# For all values


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(-(2**53), 2**53)
dates = st.dates()
orders = st.builds(Order, id=whole, placed=dates, tags=st.lists(words, max_size=3), note=st.none() | words)
nodes = st.recursive(
    st.builds(Node, name=words),
    lambda below: st.builds(Node, name=words, children=st.lists(below, max_size=2)),
    max_leaves=5,
)
ranges = st.builds(Range, start=whole, stop=whole, marks=st.lists(st.sampled_from(Color), max_size=2))
pets = st.builds(Cat, kind=st.just("cat"), lives=whole) | st.builds(
    Dog, kind=st.just("dog"), tricks=st.lists(words, max_size=2)
)
parcels = st.builds(Parcel, weight=numbers, to=words, inside=st.lists(st.builds(Parcel, weight=numbers), max_size=2))
options = st.fixed_dictionaries({"depth": whole}, optional={"since": dates})
CHOICES: list[tuple[AgentOutputSchema, st.SearchStrategy[Any]]] = [
    (AgentOutputSchema(int), st.integers(-(10**40), 10**40)),
    (AgentOutputSchema(float), numbers),
    (AgentOutputSchema(bool), st.booleans()),
    (AgentOutputSchema(str | None), st.none() | words),
    (AgentOutputSchema(int | str), whole | words),
    (AgentOutputSchema(Decimal), st.decimals(allow_nan=False, allow_infinity=False)),
    (AgentOutputSchema(Color), st.sampled_from(Color)),
    (AgentOutputSchema(datetime), st.datetimes(timezones=st.just(UTC))),
    (AgentOutputSchema(Order), orders),
    (AgentOutputSchema(Node), nodes),
    (AgentOutputSchema(Range), ranges),
    (AgentOutputSchema(Options), options),
    (AgentOutputSchema(list[Order]), st.lists(orders, max_size=3)),
    (AgentOutputSchema(Order | Range | None), st.none() | orders | ranges),
    (AgentOutputSchema(Pet), pets),
    (AgentOutputSchema(tuple[int, str]), st.tuples(whole, words)),
    (AgentOutputSchema(Point), st.builds(Point, whole, numbers)),
    (AgentOutputSchema(Page[Pet]), st.builds(Page[Pet], items=st.lists(pets, max_size=3), next=st.none() | words)),
    (AgentOutputSchema(Parcel), parcels),
    (AgentOutputSchema(list[Parcel] | None), st.none() | st.lists(parcels, max_size=2)),
    (
        AgentOutputSchema(Sent | Lost),
        st.builds(Sent, parcel=parcels, when=st.datetimes(timezones=st.just(UTC)))
        | st.builds(Lost, reason=st.sampled_from(["fire", "flood"]), level=st.sampled_from(Level)),
    ),
    (AgentOutputSchema(dict[str, Order], strict_json_schema=False), st.dictionaries(words, orders, max_size=3)),
]
drawn = st.sampled_from(CHOICES).flatmap(lambda each: st.tuples(st.just(each[0]), each[1]))


@given(drawn)
def test_whatever_is_dumped_parses_in_its_wrapper_and_loads_without(case: tuple[AgentOutputSchema, Any]) -> None:
    schema, value = case
    kept = bytes(schema.dump(value))
    text = kept.decode()
    parsed = schema.parse(f'{{"response": {text}}}' if schema.is_wrapped else text)
    for each in (parsed, schema.load(kept), schema.load(schema.dump(parsed))):
        assert each == value and type(each) is type(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | words,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(words | st.just("response"), below, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([each[0] for each in CHOICES]), json_values.map(json.dumps) | st.text(max_size=20))
def test_any_text_is_an_instance_that_can_be_kept_or_is_refused(schema: AgentOutputSchema, text: str) -> None:
    try:
        value = schema.parse(text)
    except InvalidOutput as error:
        message = str(error)
    else:
        message = ""
        assert schema.load(schema.dump(value)) == value
    assert len(message.encode()) < 2_000


# Cost


def test_the_schema_builder_is_not_loaded_before_it_is_needed() -> None:
    code = """
        import sys, assentry
        assentry.AgentOutputSchema(str).parse("hello")
        print("assentry.schema.schema" in sys.modules)
        assentry.AgentOutputSchema(int)
        print("assentry.schema.schema" in sys.modules)
    """
    ended = python(inspect.cleandoc(code))
    assert ended.stdout.split() == ["False", "True"], ended.stderr


def test_raw_json_is_what_a_fact_can_hold() -> None:
    kept = AgentOutputSchema(list[int]).dump([1])
    assert msgspec.json.encode({"output": kept}) == b'{"output":[1]}'


# -- a schema of one's own ------------------------------------------------------------------------------


class Jokes(AgentOutputSchemaBase):
    """An output whose JSON is not the output: a list, made from an object."""

    def is_plain_text(self) -> bool:
        return False

    def name(self) -> str:
        return "Jokes"

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"jokes": {"type": "object"}}}

    def is_strict_json_schema(self) -> bool:
        return False

    def validate_json(self, json_str: str) -> Any:
        return list(json.loads(json_str)["jokes"].values())


async def test_a_schema_of_ones_own_is_offered_and_makes_the_output() -> None:
    agent = scripted('{"jokes": {"1": "ha", "2": "ho"}}', output_type=Jokes())
    result = await Runner.run(agent, "go")
    assert result.final_output == ["ha", "ho"]
    [request] = agent.model.requests  # type: ignore[union-attr]
    offered = request.output
    assert (offered.name, offered.schema, offered.strict) == ("Jokes", Jokes().json_schema(), False)


@pytest.mark.parametrize("text", ["no JSON", '{"puns": {}}'])
async def test_text_that_a_schema_of_ones_own_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(InvalidOutput, match="is not Jokes"):
        await Runner.run(scripted(text, output_type=Jokes()), "go")
