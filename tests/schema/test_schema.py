"""A function as a tool's schema, and JSON arguments as what the function gets."""

import asyncio
import copy
import functools
import json
import logging
import os
import subprocess
import sys
import textwrap
import timeit
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar, Union, Unpack
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    WithJsonSchema,
    field_validator,
)
from typing_extensions import TypedDict

from assentry.errors import InvalidArguments, InvalidDefinition
from assentry.schema.docstring import Docstring, parse_docstring
from assentry.schema.schema import FunctionSchema, function_schema
from tests.draws import examples

T = TypeVar("T")


class Context(Generic[T]):
    pass


class Special(Context[T]):
    pass


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    country: str = "NL"


class Person(BaseModel):
    name: str
    title: str = "Dr"
    home: Address | None = None
    tags: list[str] = []


class Node(BaseModel):
    name: str = "leaf"
    child: Union["Node", None] = None
    children: list["Node"] = []


class Box(BaseModel, Generic[T]):
    content: T


@dataclass
class Range:
    start: int
    stop: int = 10
    steps: list[int] = field(default_factory=list)


class Options(TypedDict):
    depth: int
    verbose: NotRequired[bool]


class Point(NamedTuple):
    x: int
    y: int


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: int = 0


CONTEXTS = (Context,)


def schema_of(function: Any, **options: Any) -> FunctionSchema:
    return function_schema(function, context_types=CONTEXTS, **options)


def loose(function: Any) -> dict[str, Any]:
    return schema_of(function, strict=False).json_schema


def strict(function: Any) -> dict[str, Any]:
    return schema_of(function).json_schema


def property_of(hint: Any, *, tight: bool = True) -> dict[str, Any]:
    def tool(value): ...

    tool.__annotations__ = {"value": hint}
    return schema_of(tool, strict=tight).json_schema["properties"]["value"]


def bound(hint: Any, value: Any) -> Any:
    """What a parameter of this type gets for a JSON value."""

    def tool(value): ...

    tool.__annotations__ = {"value": hint}
    [result], keywords = schema_of(tool, strict=False).bind({"value": value})
    assert keywords == {}
    return result


def defined(source: str, name: str = "tool") -> Any:
    """A function of a module of its own."""
    module: dict[str, Any] = {"__name__": "somewhere"}
    exec(textwrap.dedent(source), module)
    return module[name]


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every object schema in a schema."""
    if isinstance(schema, list):
        return [each for item in schema for each in objects(item)]
    if not isinstance(schema, dict):
        return []
    here = [schema] if schema.get("type") == "object" else []
    return here + [each for item in schema.values() for each in objects(item)]


# Names and descriptions


def test_a_plain_function_becomes_a_strict_object_schema():
    def weather(city: str, days: int = 3) -> str:
        """Look up the weather."""

    schema = schema_of(weather)
    assert schema.name == "weather"
    assert schema.description == "Look up the weather."
    assert schema.required == {"city"}
    assert schema.takes_context is False
    assert schema.json_schema == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    }


def test_name_and_description_can_be_overridden():
    def weather() -> str:
        """Look up the weather."""

    schema = schema_of(weather, name="get-weather", description="Rain or shine.")
    assert (schema.name, schema.description) == ("get-weather", "Rain or shine.")


def test_an_empty_description_overrides_too():
    def weather() -> str:
        """Look up the weather."""

    assert schema_of(weather, description="").description == ""


def test_a_function_without_parameters_has_an_empty_closed_schema():
    schema = schema_of(lambda: None, name="now")
    assert schema.json_schema == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert schema.bind({}) == ([], {})


def test_the_docstring_is_not_read_when_told_not_to():
    def weather(city: str):
        """Look up the weather.

        Args:
            city: Where.
        """

    schema = schema_of(weather, use_docstring=False)
    assert schema.description == ""
    assert schema.json_schema["properties"]["city"] == {"type": "string"}


def test_parameter_descriptions_come_from_the_docstring():
    def weather(city: str, *days: int, units: str = "C", **more: str):
        """Look up the weather.

        It is often right.

        Args:
            city: Where
                to look.
            *days: Which days.
            units (str, optional): Celsius or not.
            **more: Anything else.

        Returns:
            Rain or shine.
        """

    schema = schema_of(weather, strict=False)
    assert schema.description == "Look up the weather.\n\nIt is often right."
    described = {name: each.get("description") for name, each in schema.json_schema["properties"].items()}
    assert described == {
        "city": "Where\nto look.",
        "days": "Which days.",
        "units": "Celsius or not.",
        "more": "Anything else.",
    }


def test_an_annotated_text_wins_over_the_docstring():
    def weather(city: Annotated[str, "The town."], day: Annotated[int, Field(description="Which day.")] = 1):
        """Look up the weather.

        Args:
            city: Where.
            day: When.
        """

    properties = strict(weather)["properties"]
    assert properties["city"]["description"] == "The town."
    assert properties["day"]["description"] == "Which day."


def test_a_field_as_the_default_gives_description_default_and_limits():
    def weather(day: int = Field(3, description="Which day.", ge=1), city: str = Field(description="Where.")):
        """Look up the weather.

        Args:
            day: When.
        """

    schema = schema_of(weather, strict=False)
    assert schema.json_schema["properties"]["day"] == {
        "type": "integer",
        "description": "Which day.",
        "default": 3,
        "minimum": 1,
    }
    assert schema.required == {"city"}
    assert schema.bind({"city": "Delft"}) == ([3, "Delft"], {})
    with pytest.raises(InvalidArguments, match='"day": Input should be greater than or equal to 1'):
        schema.bind({"city": "Delft", "day": 0})


def test_a_default_inside_annotated_counts_as_a_default():
    def weather(day: Annotated[int, Field(default=3)]): ...

    schema = schema_of(weather)
    assert schema.required == frozenset()
    assert schema.canonical({}) == {"day": 3}


def test_the_description_of_an_optional_parameter_stays_on_the_property():
    def weather(city: Annotated[str, Field(description="Where.", min_length=2)] = None): ...  # noqa: RUF013

    city = strict(weather)["properties"]["city"]
    assert city["description"] == "Where."
    assert {"type": "null"} in city["anyOf"]


# Docstrings


def test_a_summary_only_docstring_never_imports_griffe():
    program = """
    import sys
    from assentry.schema.schema import function_schema

    def weather(city: str):
        '''Look up the weather.

        Note: it is a guess. Parameters: one of them. See `:param` for more; returns: nothing.
        '''

    function_schema(weather)
    sys.exit("griffe" in sys.modules)
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=env, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_no_docstring_says_nothing(text):
    assert parse_docstring(text) == Docstring("", {})


def test_a_docstring_without_sections_is_kept_as_it_is():
    text = "Send a letter.\n\nBe careful:\n    1. Write it.\n\n    2. Post it.\n\nNote:\n    No stamps."
    assert parse_docstring(text) == Docstring(text, {})


GOOGLE = """
    Send a letter.

    It takes a day.

    Args:
        to (str): Who gets it.
        body: What it says,
            in full.
        nothing:

    Keyword Args:
        stamp: How it is paid.

    Raises:
        OSError: No ink.

    Returns:
        str: A receipt.
    """
NUMPY = """
    Send a letter.

    It takes a day.

    Parameters
    ----------
    to : str
        Who gets it.
    body
        What it says,
        in full.

    Other Parameters
    ----------------
    stamp : int, optional
        How it is paid.

    Returns
    -------
    str
        A receipt.
    """
SPHINX = """
    Send a letter.

    It takes a day.

    :param str to: Who gets it.
    :param body: What it says,
        in full.
    :type body: str
    :keyword stamp: How it is paid.
    :returns: A receipt.
    :rtype: str
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_three_styles_say_the_same(text):
    assert parse_docstring(text) == Docstring(
        "Send a letter.\n\nIt takes a day.",
        {"to": "Who gets it.", "body": "What it says,\nin full.", "stamp": "How it is paid."},
    )


@pytest.mark.parametrize(
    "text",
    [
        "Send.\n\nReturns:\n    A receipt.",
        "Send.\n\nReturns\n-------\nstr\n    A receipt.",
        "Send.\n\n:returns: A receipt.",
        "Send.\n\n:raises OSError: no ink",
        "Send.\n\nExamples:\n    >>> send()",
    ],
)
def test_sections_that_are_no_prose_are_left_out_of_the_description(text):
    assert parse_docstring(text) == Docstring("Send.", {})


def test_a_last_line_without_an_end_is_a_field_too():
    assert parse_docstring(":param to: Who gets it.") == Docstring("", {"to": "Who gets it."})


def test_notes_for_the_model_survive_beside_sections_and_those_for_developers_do_not():
    text = """
    Send.

    Warning:
        It cannot be undone.

    Args:
        to: Who.

    Example:
        >>> send()

    The end.
    """
    assert parse_docstring(text).description == "Send.\n\nWarning:\n    It cannot be undone.\n\nThe end."


def test_starred_names_describe_the_parameter_itself():
    assert parse_docstring("Send.\n\n:param \\*to: Who.").params == {"to": "Who."}
    assert parse_docstring("Send.\n\nParameters\n----------\n*to\n    Who.").params == {"to": "Who."}
    assert parse_docstring("Send.\n\nArgs:\n    **to: Who.").params == {"to": "Who."}


def test_a_google_docstring_that_ends_in_a_returns_field_is_still_google():
    assert parse_docstring("Send.\n\nArgs:\n    to: Who.\n\n:returns: A receipt.").params == {"to": "Who."}


def test_a_google_docstring_needs_no_blank_line_before_its_sections():
    read = parse_docstring("Send a mail.\nArgs:\n    to: The recipient.\n    cc: Copies.\nReturns:\n    Its id.\n")
    assert read.description == "Send a mail."
    assert read.params == {"to": "The recipient.", "cc": "Copies."}


def test_a_style_that_is_given_is_not_guessed():
    text = "Send.\n\n:param to: The recipient.\n\nArgs:\n    to: Somebody.\n"
    assert parse_docstring(text, "google").params == {"to": "Somebody."}
    assert parse_docstring(text).params["to"].startswith("The recipient.")


def test_a_sloppy_docstring_writes_nothing_to_the_log(caplog):
    with caplog.at_level(logging.DEBUG):
        parse_docstring("Send.\n\nArgs:\n    what is this\n    to (1 +): Who.\n   body: Off.\n")
        parse_docstring("Send.\n\n:param a b c d: Who.\n:param\n:type: x\n")
    assert caplog.records == []


GOOGLE_LINES = ["Args:", "Returns:", "Examples:", "Note:", "Warning: no", "    x: one", "  y (int): two", "    f(x: ["]
NUMPY_LINES = ["Parameters", "Returns", "----------", "x : int", "x, y : {1, 2}", "    three"]
SPHINX_LINES = [":param x: one", ":param:", ":returns:", ":rtype: x", "", "    ", ">>> x", "```"]
LINES = st.sampled_from([*GOOGLE_LINES, *NUMPY_LINES, *SPHINX_LINES])


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(LINES | st.text(max_size=10), max_size=12).map("\n".join))
def test_no_docstring_can_break_a_definition(text):
    for said in (found := parse_docstring(text)).params.values():
        assert said == said.strip() != ""
    assert found.description == found.description.strip()


# Types


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (datetime, {"type": "string", "format": "date-time"}),
        (UUID, {"type": "string", "format": "uuid"}),
        (Annotated[int, Field(gt=0, le=9)], {"type": "integer", "exclusiveMinimum": 0, "maximum": 9}),
        (Color, {"$ref": "#/$defs/Color"}),
        (Person, {"$ref": "#/$defs/Person"}),
        (Range, {"$ref": "#/$defs/Range"}),
        (Options, {"$ref": "#/$defs/Options"}),
    ],
)
def test_a_hint_becomes_a_property(hint, expected):
    assert property_of(hint) == expected


def test_a_parameter_without_a_hint_takes_anything():
    schema = schema_of(lambda value: None, name="tool")
    assert schema.json_schema["properties"] == {"value": {}}
    assert schema.bind({"value": [1, {"a": None}]}) == ([[1, {"a": None}]], {})


@pytest.mark.parametrize(
    ("hint", "given", "got"),
    [
        (datetime, "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (date, "2026-01-02", date(2026, 1, 2)),
        (timedelta, "PT90S", timedelta(seconds=90)),
        (Decimal, "1.10", Decimal("1.10")),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        (Path, "a/b", Path("a/b")),
        (bytes, "abc", b"abc"),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[int], [1, 2], {1, 2}),
        (frozenset[str], ["a"], frozenset({"a"})),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Color, "red", Color.RED),
        (Point, [1, 2], Point(1, 2)),
        (Range, {"start": 1}, Range(1, 10, [])),
        (Options, {"depth": 1}, {"depth": 1}),
        (Person, {"name": "Ada"}, Person(name="Ada")),
        (list[Person], [{"name": "Ada"}], [Person(name="Ada")]),
        (Box[int], {"content": 1}, Box[int](content=1)),
        (int, 2**70, 2**70),
        (float, 3, 3.0),
        (str, "NaN and Infinity", "NaN and Infinity"),
        (Cat | Dog, {"kind": "dog"}, Dog(kind="dog")),
    ],
)
def test_json_becomes_what_the_hint_says(hint, given, got):
    result = bound(hint, given)
    assert result == got and type(result) is type(got)


def test_a_type_that_is_strict_in_python_still_reads_json():
    class Booking(BaseModel):
        model_config = ConfigDict(strict=True)
        when: datetime
        seats: tuple[int, ...]

    booking = bound(Booking, {"when": "2026-01-02T03:04:05Z", "seats": [1, 2]})
    assert booking.seats == (1, 2) and booking.when.year == 2026


def test_hints_that_are_text_are_resolved():
    tool = defined("""
    from __future__ import annotations
    from typing import Annotated, Optional
    import datetime

    def tool(day: Annotated[datetime.date, "Which day."], note: Optional[str] = None) -> Unknown: ...
    """)
    schema = schema_of(tool)
    assert schema.json_schema["properties"]["day"] == {
        "type": "string",
        "format": "date",
        "description": "Which day.",
    }
    assert schema.bind({"day": "2026-01-02"}) == ([date(2026, 1, 2), None], {})


@pytest.mark.parametrize("name", ["schema", "json", "copy", "model_config", "model_fields", "_private", "p0", "self"])
def test_any_parameter_name_is_offered_as_it_is(name):
    tool = defined(f"def tool({name}: int, p1: int = 2): return {name}, p1")
    schema = schema_of(tool)
    assert list(schema.json_schema["properties"]) == [name, "p1"]
    assert schema.bind({name: 1}) == ([1, 2], {})
    assert schema.canonical({name: 1}) == {name: 1, "p1": 2}
    with pytest.raises(InvalidArguments, match=f'^"{name}": is missing$'):
        schema.bind({})


def test_a_parameter_of_a_type_named_like_the_function_is_told_apart():
    def Address_arguments(value: Address): ...  # noqa: N802

    assert "Address" in strict(Address_arguments)["$defs"]


# Kinds of parameters


def test_every_kind_of_parameter_goes_where_the_function_wants_it():
    def tool(a: int, /, b: int, *c: int, d: int, e: int = 5, **f: int):
        return a, b, c, d, e, f

    schema = schema_of(tool, strict=False)
    assert list(schema.json_schema["properties"]) == ["a", "b", "c", "d", "e", "f"]
    assert schema.json_schema["properties"]["c"] == {"type": "array", "items": {"type": "integer"}}
    assert schema.required == {"a", "b", "d"}
    args, kwargs = schema.bind({"a": 1, "b": 2, "c": [3, 3], "d": 4, "f": {"g": 6, "a": 7}})
    assert tool(*args, **kwargs) == (1, 2, (3, 3), 4, 5, {"g": 6, "a": 7})
    args, kwargs = schema.bind({"a": 1, "b": 2, "d": 4})
    assert tool(*args, **kwargs) == (1, 2, (), 4, 5, {})


def test_star_args_are_a_list_in_a_strict_schema():
    def tool(*names: str): ...

    assert strict(tool)["properties"]["names"] == {"type": "array", "items": {"type": "string"}}


def test_keywords_cannot_smuggle_in_a_parameter():
    def tool(ctx: Context[Any], a: int, /, b: int, **more: int): ...

    def other(ctx: Context[Any], **more: int): ...

    with pytest.raises(InvalidArguments, match=r"more\.b: is a parameter of its own"):
        schema_of(tool, strict=False).bind({"a": 1, "b": 2, "more": {"b": 3}})
    with pytest.raises(InvalidArguments, match=r"more\.ctx"):
        schema_of(other, strict=False).bind({"more": {"ctx": 1}})


def test_keywords_of_a_typed_dict_can_be_strict():
    def tool(**options: Unpack[Options]): ...

    schema = schema_of(tool)
    assert schema.json_schema["properties"]["options"] == {"$ref": "#/$defs/Options"}
    assert schema.bind({"options": {"depth": 1}}) == ([], {"depth": 1})


# What can be a tool


def test_methods_partials_wrapped_and_async_functions_and_callable_objects_work():
    class Desk:
        """A desk."""

        def write(self, text: str, times: int = 1):
            """Write it down."""

        async def __call__(self, text: "str", times: int = 1): ...

    @functools.wraps(Desk.write)
    def wrapped(*args, **kwargs): ...

    desk = Desk()
    method = schema_of(desk.write)
    assert (method.name, method.description) == ("write", "Write it down.")
    partial = schema_of(functools.partial(desk.write, times=2))
    assert (partial.name, partial.canonical({"text": "x"})) == ("write", {"text": "x"})
    assert partial.bind({"text": "x"}) == (["x"], {})  # the partial fills in the rest
    callable_object = schema_of(desk, name="desk")
    assert (callable_object.description, callable_object.required) == ("A desk.", {"text"})
    assert schema_of(wrapped).required == {"self", "text"}

    async def later(text: str): ...

    assert schema_of(later).name == "later"


def test_what_has_no_name_needs_one():
    with pytest.raises(InvalidDefinition, match="give one"):
        schema_of(lambda: None)
    assert schema_of(lambda: None, name="now").name == "now"


def test_what_cannot_be_called_is_no_tool():
    with pytest.raises(InvalidDefinition, match="a int cannot be called"):
        schema_of(3)


def test_a_signature_that_cannot_be_read_is_said():
    with pytest.raises(InvalidDefinition, match=r"'dict'.*signature"):
        schema_of(dict)


def test_a_hint_that_cannot_be_resolved_names_function_and_parameter():
    tool = defined("def tool(a: int, b: 'Nowhere'): ...")
    with pytest.raises(InvalidDefinition, match=r"'tool': parameter 'b'.*'Nowhere'.*import or define"):
        schema_of(tool)


def test_a_type_pydantic_does_not_know_names_function_and_parameter():
    class Custom:
        pass

    def tool(a: int, b: Custom): ...

    with pytest.raises(InvalidDefinition, match=r"'tool': parameter 'b'.*annotate it"):
        schema_of(tool)


def test_a_type_without_a_json_form_names_function_and_parameter():
    def tool(a: int, b: Callable[[int], int]): ...

    with pytest.raises(InvalidDefinition, match="'tool': parameter 'b'"):
        schema_of(tool)


def test_what_is_no_type_at_all_names_function_and_parameter():
    def tool(a: int, b: 5 = None): ...

    with pytest.raises(InvalidDefinition, match="'tool': parameter 'b'"):
        schema_of(tool)


@pytest.mark.parametrize(
    "annotation", [Annotated[int, Field(alias="n")], Annotated[int, Field(validation_alias="n", description="x")]]
)
def test_an_alias_is_refused_since_the_parameter_has_a_name(annotation):
    def tool(number: annotation): ...

    with pytest.raises(InvalidDefinition, match="parameter 'number' has an alias"):
        schema_of(tool)

    def other(number: int = Field(alias="n")): ...

    with pytest.raises(InvalidDefinition, match="parameter 'number' has an alias"):
        schema_of(other)


# The context


@pytest.mark.parametrize(
    "annotation", [Context, Context[int], Special, Special[str], Annotated[Context[int], "the run"], Context["Nowhere"]]
)
def test_a_first_parameter_of_a_context_type_is_left_out(annotation):
    def tool(ctx: annotation, city: str): ...

    schema = schema_of(tool)
    assert schema.takes_context
    assert list(schema.json_schema["properties"]) == ["city"]
    assert schema.required == {"city"}
    assert schema.bind({"city": "Delft"}) == (["Delft"], {})


@pytest.mark.parametrize("annotation", ["Context", "Context[int]", "runs.Context[Nowhere]", " Context [ 'Nowhere' ]"])
def test_a_context_that_is_text_is_one_even_if_its_parts_exist_for_type_checkers_only(annotation):
    tool = defined(f"def tool(ctx: {annotation!r}, city: str): ...")
    assert schema_of(tool).takes_context


def test_a_type_that_only_has_a_contexts_name_is_none():
    tool = defined("""
    class Context: ...
    def tool(ctx: "Context", city: str): ...
    """)
    with pytest.raises(InvalidDefinition, match="parameter 'ctx'"):
        schema_of(tool)


@pytest.mark.parametrize("annotation", [Context, Context[int], Context | None, list[Context]])
def test_a_context_in_any_other_place_is_refused(annotation):
    def tool(city: str, ctx: annotation): ...

    with pytest.raises(InvalidDefinition, match="'tool': parameter 'ctx' is a context; only the first"):
        schema_of(tool)


def test_a_context_that_may_be_none_is_refused():
    def tool(ctx: Context | None, city: str): ...

    with pytest.raises(InvalidDefinition, match="by itself"):
        schema_of(tool)


def test_a_context_must_be_positional():
    def tool(*, ctx: Context): ...

    with pytest.raises(InvalidDefinition, match="must be positional"):
        schema_of(tool)


def test_without_context_types_nothing_is_a_context():
    def tool(city: str): ...

    assert function_schema(tool).takes_context is False


# Strict schemas


def everything(
    who: Person,
    where: Address,
    tree: Node,
    span: Range,
    options: Options,
    boxes: list[Box[Person]],
    pet: Annotated[Cat | Dog, Field(discriminator="kind")],
    maybe: Address | None = None,
    color: Color = Color.RED,
    at: tuple[int, str] = (1, "a"),
    ids: set[int] | None = None,
):
    """Take everything.

    Args:
        who: Somebody.
        tree: A tree.
        color: A colour.
    """


def test_every_object_of_a_strict_schema_is_closed_and_requires_everything():
    found = objects(strict(everything))
    assert len(found) > 8
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])


def test_a_strict_schema_has_no_keyword_that_strict_mode_does_not_know():
    text = json.dumps(strict(everything))
    for keyword in ("default", "oneOf", "discriminator", "prefixItems", "uniqueItems"):
        assert f'"{keyword}"' not in text


def test_a_reference_stands_alone_in_a_strict_schema():
    schema = strict(everything)
    assert schema["properties"]["where"] == {"$ref": "#/$defs/Address"}
    assert schema["properties"]["who"]["description"] == "Somebody."
    assert "$ref" not in schema["properties"]["who"]
    assert schema["properties"]["color"] == {
        "enum": ["red", "blue"],
        "type": "string",
        "description": "A colour.",
    }
    assert schema["properties"]["tree"]["properties"]["child"]["anyOf"][0] == {"$ref": "#/$defs/Node"}


def test_every_definition_of_a_strict_schema_is_used_and_every_used_one_is_there():
    schema = strict(everything)
    text = json.dumps(schema)
    for name in schema["$defs"]:
        assert f'"#/$defs/{name}"' in text
    assert text.count('"$ref"') == sum(text.count(f'"$ref": "#/$defs/{name}"') for name in schema["$defs"])


def test_a_type_described_inside_itself_does_not_unfold_for_ever():
    class Chain(BaseModel):
        next: "Chain" = Field(description="The next one.")

    def tool(chain: Annotated[Chain, "The first one."]): ...

    chain = strict(tool)["properties"]["chain"]
    assert chain["description"] == "The first one."
    assert chain["properties"]["next"] == {"$ref": "#/$defs/Chain"}


def test_a_name_of_a_type_is_a_reference_to_what_it_names():
    class Home(RootModel[Address]):
        pass

    def tool(home: Annotated[Home, "Where."]): ...

    home = strict(tool)["properties"]["home"]
    assert home["description"] == "Where." and home["required"] == ["street", "country"]


def test_items_of_a_tuple_are_any_of_its_types():
    items = property_of(tuple[int, str, int])["items"]
    assert items == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert property_of(tuple[float, float])["items"] == {"type": "number"}


LOOKAHEAD = WithJsonSchema({"type": "string", "pattern": "^(?!x).*$"})


@pytest.mark.parametrize("hint", [Path, bytes, SecretStr, Annotated[str, LOOKAHEAD]])
def test_a_format_or_pattern_that_strict_mode_refuses_is_left_out(hint):
    assert property_of(hint) == {"type": "string"}


def test_a_pattern_that_strict_mode_knows_is_kept():
    assert property_of(Annotated[str, Field(pattern="^x+$")]) == {"type": "string", "pattern": "^x+$"}


@pytest.mark.parametrize(
    "hint",
    [dict, dict[str, Any], dict[str, int], list[dict[str, int]], dict[str, int] | None, tuple[dict[str, int], int]],
)
def test_free_form_keys_cannot_be_strict(hint):
    def tool(city: str, extra: hint): ...

    with pytest.raises(InvalidDefinition, match=r"'tool': parameter 'extra'.*strict_mode=False"):
        schema_of(tool)
    assert "extra" in loose(tool)["properties"]


def test_free_form_keys_deep_inside_are_named_with_their_path():
    class Inner(BaseModel):
        labels: dict[str, str]

    class Outer(BaseModel):
        inner: list[Inner]

    def tool(outer: Outer): ...

    with pytest.raises(InvalidDefinition, match=r"parameter 'outer': outer\.inner\.labels may have any keys"):
        schema_of(tool)


def test_a_model_that_allows_other_keys_cannot_be_strict():
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        name: str

    def tool(value: Open): ...

    with pytest.raises(InvalidDefinition, match="strict_mode=False"):
        schema_of(tool)


def test_keyword_arguments_cannot_be_strict():
    def tool(**more: Any): ...

    with pytest.raises(InvalidDefinition, match=r"'tool': parameter 'more'.*strict_mode=False"):
        schema_of(tool)


# Loose schemas


def test_a_loose_schema_is_pydantics_with_closed_objects():
    def tool(who: Person, days: int = 3): ...

    schema = loose(tool)
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["who"]
    assert schema["properties"] == {"who": {"$ref": "#/$defs/Person"}, "days": {"type": "integer", "default": 3}}
    assert schema["$defs"]["Person"]["required"] == ["name"]
    assert schema["$defs"]["Person"]["additionalProperties"] is False


@pytest.mark.parametrize("tight", [True, False])
def test_titles_that_pydantic_makes_up_are_gone_and_a_property_named_title_is_not(tight):
    def tool(title: str, everything: Person, boxes: list[Box[Point]], colors: list[Color], span: Range): ...

    schema = schema_of(tool, strict=tight).json_schema
    assert schema["properties"]["title"] == {"type": "string"}
    assert "title" in schema["$defs"]["Person"]["properties"]

    def titles(value: Any, named: bool = False) -> list[Any]:
        if isinstance(value, list):
            return [each for item in value for each in titles(item)]
        if not isinstance(value, dict):
            return []
        here = [value["title"]] if "title" in value and not named else []
        return here + [each for key, item in value.items() for each in titles(item, key in ("properties", "$defs"))]

    assert titles(schema) == []


def test_a_title_that_somebody_wrote_stays():
    class Titled(BaseModel):
        model_config = ConfigDict(title="An address")
        street: str = Field(title="Street and number")

    def tool(home: Titled): ...

    home = strict(tool)["$defs"]["Titled"]
    assert home["title"] == "An address"
    assert home["properties"]["street"]["title"] == "Street and number"


# Canonical arguments


def person_tool(who: Person, others: list[Person] = [], by_name: dict[str, Person] = {}, days: int = 3):  # noqa: B006
    """Use nested types."""


def test_canonical_fills_in_defaults_at_every_depth():
    args = {
        "who": {"name": "Ada", "home": {"street": "A"}},
        "others": [{"name": "Bob"}],
        "by_name": {"x": {"name": "C"}},
    }
    assert schema_of(person_tool, strict=False).canonical(args) == {
        "who": {"name": "Ada", "title": "Dr", "home": {"street": "A", "country": "NL"}, "tags": []},
        "others": [{"name": "Bob", "title": "Dr", "home": None, "tags": []}],
        "by_name": {"x": {"name": "C", "title": "Dr", "home": None, "tags": []}},
        "days": 3,
    }


def test_a_strict_tool_has_the_same_canonical_arguments_as_a_loose_one():
    def tool(who: Person, days: int = 3): ...

    args = {"who": {"name": "Ada"}}
    assert schema_of(tool).canonical(args) == schema_of(tool, strict=False).canonical(args)
    assert schema_of(tool).canonical(args)["days"] == 3


def test_canonical_follows_a_type_that_refers_to_itself():
    def tool(tree: Node): ...

    assert schema_of(tool).canonical({"tree": {"children": [{"child": {}}]}}) == {
        "tree": {
            "name": "leaf",
            "child": None,
            "children": [
                {"name": "leaf", "child": {"name": "leaf", "child": None, "children": []}, "children": []},
            ],
        }
    }


def test_canonical_fills_dataclasses_and_optional_lists():
    def tool(span: Range, people: list[Person] | None = None): ...

    schema = schema_of(tool)
    assert schema.canonical({"span": {"start": 1}}) == {"span": {"start": 1, "stop": 10}, "people": None}
    assert schema.canonical({"span": {}, "people": [{}]})["people"] == [{"title": "Dr", "home": None, "tags": []}]


def test_canonical_fills_an_object_beside_a_text():
    def tool(where: Address | str): ...

    schema = schema_of(tool)
    assert schema.canonical({"where": {"street": "A"}}) == {"where": {"street": "A", "country": "NL"}}
    assert schema.canonical({"where": "A"}) == {"where": "A"}


@pytest.mark.parametrize("hint", [Cat | Dog, Address | dict[str, str], Address | Any])
def test_canonical_fills_nothing_where_it_cannot_know_which_object_it_is(hint):
    def tool(value: hint): ...

    args = {"value": {"kind": "dog", "street": "A"}}
    assert schema_of(tool, strict=False).canonical(args) == args


def test_canonical_coerces_nothing_and_keeps_what_it_does_not_know():
    def tool(days: int = 3, when: datetime | None = None): ...

    args = {"days": "7", "when": "2026-01-02", "bogus": {"x": [1]}}
    assert schema_of(tool).canonical(args) == args


def test_canonical_does_not_let_a_default_win_over_another_name_of_the_same_field():
    class Page(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        max_items: int = Field(10, alias="maxItems")

    def tool(page: Page): ...

    schema = schema_of(tool)
    assert schema.canonical({"page": {}}) == {"page": {"maxItems": 10}}
    assert schema.canonical({"page": {"max_items": 5}}) == {"page": {"max_items": 5}}
    with pytest.raises(InvalidArguments, match=r'"page[.]max_items": there is no such argument'):
        schema.bind({"page": {"max_items": 5}})
    [page], _ = schema.bind({"page": {"maxItems": 5}})
    assert page.max_items == 5


def test_canonical_shares_nothing_with_the_arguments_or_the_defaults():
    def tool(who: Person, tags: list[str] = ["a"]): ...  # noqa: B006

    schema = schema_of(tool)
    args = {"who": {"name": "Ada", "tags": ["x"]}, "bogus": [{"y": (1, [2])}]}
    before = copy.deepcopy(args)
    canonical = schema.canonical(args)
    canonical["tags"].append("b")
    canonical["who"]["tags"].append("b")
    canonical["bogus"][0]["y"][1].append("b")
    assert args == before
    assert schema.canonical({"who": {"name": "Ada"}})["tags"] == ["a"]


def test_arguments_of_plain_types_are_bound_as_they_are_and_others_are_validated():
    def tool(name: str, count: int, share: float, sure: bool = True): ...

    schema = schema_of(tool)
    assert schema.bind({"name": "a", "count": 1, "share": 0.5, "sure": False}) == (["a", 1, 0.5, False], {})
    assert schema.bind({"share": 0.5, "count": 1, "name": "a"}) == (["a", 1, 0.5, True], {})
    [_, count, share, _], _ = schema.bind({"name": "a", "count": 2, "share": 3, "sure": True})
    assert (type(count), type(share)) == (int, float)
    for wrong in ({"count": 2.0}, {"count": "2"}, {"count": True}, {"sure": 1}, {"sure": "no"}, {"share": "3"}):
        with pytest.raises(InvalidArguments, match=f'"{next(iter(wrong))}": expected'):
            schema.bind({"name": "a", "count": 1, "share": 0.5, "sure": True, **wrong})
    for wrong in ({"name": 1}, {"count": "x"}, {"count": None}, {"sure": []}, {"more": 1}):
        with pytest.raises(InvalidArguments):
            schema.bind({"name": "a", "count": 1, "share": 0.5, "sure": True, **wrong})
    with pytest.raises(InvalidArguments, match="count"):
        schema.bind({"name": "a", "share": 0.5})


def test_a_plain_type_with_more_to_say_is_validated():
    def limited(count: int = Field(gt=3)): ...

    def annotated(count: Annotated[int, Field(gt=3)]): ...

    def keyword(*, count: int): ...

    for tool in (limited, annotated):
        with pytest.raises(InvalidArguments, match="greater than 3"):
            schema_of(tool).bind({"count": 1})
    assert schema_of(keyword).bind({"count": 1}) == ([], {"count": 1})


def test_canonical_of_a_tool_without_defaults_is_a_copy():
    def tool(who: Address, n: int): ...

    def plain(n: int): ...

    args = {"n": [1, {"a": 2}]}
    schema = schema_of(plain)
    copied = schema.canonical(args)
    assert copied == args and copied is not args and copied["n"] is not args["n"]
    assert schema_of(tool).canonical({"who": {}}) == {"who": {"country": "NL"}}


def test_arguments_nested_beyond_all_measure_are_refused_and_not_a_crash():
    def tool(value: Any, days: int = 3): ...

    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    schema = schema_of(tool)
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        schema.canonical({"value": deep})
    with pytest.raises(InvalidArguments):
        schema.bind({"value": deep})
    while deep:  # taken apart here, lest the interpreter does it in one go
        deep = deep.pop()


# Defaults


def test_a_default_of_none_admits_none_whatever_the_hint_says():
    def tool(city: str = None, who: Address = None, what: Literal["a"] = None, anything=None): ...  # noqa: RUF013

    schema = schema_of(tool)
    assert schema.json_schema["properties"]["city"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert schema.json_schema["properties"]["anything"] == {}
    nothing = {"city": None, "who": None, "what": None, "anything": None}
    assert schema.canonical({}) == nothing
    assert schema.bind(nothing) == schema.bind({}) == ([None, None, None, None], {})


def test_a_hint_that_admits_none_already_is_left_alone():
    assert schema_of(
        defined("""
    from typing import Annotated, Literal, Optional
    def tool(a: Annotated[Optional[int], "An a."] = None, b: Literal["x", None] = None, c: object = None): ...
    """)
    ).json_schema["properties"] == {
        "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "An a."},
        "b": {"enum": ["x", None]},
        "c": {},
    }


def test_defaults_are_offered_in_their_json_form():
    def tool(
        color: Color = Color.BLUE,
        day: date = date(2026, 1, 2),
        where: Path = Path("a"),
        price: Decimal = Decimal("1.10"),
        who: Address = Address(street="A"),  # noqa: B008
        ids: frozenset[int] = frozenset({2, 1}),
    ): ...

    schema = schema_of(tool)
    canonical = schema.canonical({})
    assert canonical == json.loads(json.dumps(canonical))
    assert canonical["color"] == "blue" and canonical["day"] == "2026-01-02" and canonical["where"] == "a"
    assert canonical["who"] == {"street": "A", "country": "NL"}
    assert schema.bind(canonical) == schema.bind({})


def test_a_default_of_another_type_than_its_hint_is_read_as_the_hint_says():
    def tool(where: Path = ".", tags: list[str] = ()): ...

    schema = schema_of(tool)
    assert schema.canonical({}) == {"where": ".", "tags": []}
    assert schema.bind({}) == schema.bind(schema.canonical({})) == ([Path("."), []], {})


def test_a_default_that_json_does_not_bring_back_is_left_to_the_function():
    unique, hush = object(), SecretStr("hush")

    class Login(BaseModel):
        secret: SecretStr = hush
        note: str = None

    def tool(login: Login, secret: SecretStr = hush, thing: Any = unique, count: int = "many"): ...

    schema = schema_of(tool)
    assert schema.canonical({"login": {}}) == {"login": {}}
    assert schema.required == {"login"}
    (login, secret, thing, count), _ = schema.bind({"login": {}})
    assert secret == login.secret == hush
    assert thing is unique and count == "many" and login.note is None


def test_a_default_that_its_own_validator_refuses_is_left_to_the_function():
    def words(text: Any) -> list[str]:
        return text.split()

    read = BeforeValidator(words, json_schema_input_type=str)

    def tool(names: Annotated[list[str], read] = ["a", "b"]): ...  # noqa: B006

    schema = schema_of(tool)
    assert schema.canonical({}) == {}
    assert schema.bind({}) == ([["a", "b"]], {})
    assert schema.bind({"names": "c d"}) == ([["c", "d"]], {})


def test_a_mutable_default_is_new_in_every_call():
    def tool(tags: list[str] = []): ...  # noqa: B006

    schema = schema_of(tool)
    [tags], _ = schema.bind({})
    tags.append("x")
    assert schema.bind({}) == ([[]], {})


def test_an_ellipsis_as_the_default_is_none():
    def tool(city: str = ...): ...

    assert schema_of(tool).required == {"city"}


# Binding


def test_what_the_function_gets_is_not_what_the_caller_holds():
    def tool(value: Any, numbers: list[int]): ...

    args = {"value": {"a": [1]}, "numbers": [1]}
    (value, numbers), _ = schema_of(tool, strict=False).bind(args)
    value["a"].append(2)
    numbers.append(2)
    assert args == {"value": {"a": [1]}, "numbers": [1]}


def test_problems_are_listed_with_their_paths():
    def tool(days: int, note: str, who: list[Address]): ...

    with pytest.raises(InvalidArguments) as caught:
        schema_of(tool).bind({"days": "many", "who": [{"street": "A"}, {"street": 1}], "bogus": 1})
    assert set(str(caught.value).split("; ")) == {
        '"days": expected a whole number, got the text "many"',
        '"note": is missing',
        '"who[1].street": expected text, got the number 1',
        '"bogus": there is no such argument',
    }


@pytest.mark.parametrize(
    "args",
    [
        {"days": "x" * 5_000_000},
        {"x" * 5_000_000: 1},
        {f"key {n}": n for n in range(5_000)},
        {"days": 1, "pet": {"kind": "x" * 5_000_000}},
        {"days": 1, "pet": "\ud800" * 1000},
        {"days": 1, "picky": "x" * 5_000_000},
        {"days": 1, "rude": "x" * 5_000_000},
    ],
)
def test_a_message_never_repeats_much_of_what_was_wrong(args):
    def picky(text: str) -> str:
        raise ValueError(f"not {text}")

    def rude(text: str) -> str:
        raise RuntimeError(f"not {text}")

    def tool(
        days: int,
        pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat(kind="cat"),  # noqa: B008
        picky: Annotated[str, AfterValidator(picky)] = "",
        rude: Annotated[str, AfterValidator(rude)] = "",
    ): ...

    with pytest.raises(InvalidArguments) as caught:
        schema_of(tool).bind(args)
    assert 0 < len(str(caught.value)) <= 500


def test_problems_that_do_not_fit_are_counted():
    def tool(): ...

    with pytest.raises(InvalidArguments, match=r'"key 0": .*; and \d+ more$') as caught:
        schema_of(tool).bind({f"key {n}": n for n in range(300)})
    shown, _, more = str(caught.value).rpartition("; and ")
    assert shown.count("; ") + 1 + int(more.split()[0]) == 300


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, RuntimeError, asyncio.TimeoutError, RecursionError])
def test_whatever_a_validator_raises_the_arguments_are_invalid(error):
    class Picky(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def never(cls, value):
            raise error("no such name")

    def tool(value: Picky): ...

    with pytest.raises(InvalidArguments, match="no such name"):
        schema_of(tool).bind({"value": {"name": "x"}})


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), [{"a": float("nan")}], "\ud800", object()]
)
def test_what_is_not_json_is_refused(value):
    def tool(value: Any): ...

    with pytest.raises(InvalidArguments, match="arguments: not JSON"):
        schema_of(tool).bind({"value": value})


def test_a_refusal_maps_to_unprocessable_content():
    with pytest.raises(InvalidArguments) as caught:
        schema_of(defined("def tool(n: int): ...")).bind({})
    assert caught.value.status == 422


def test_binding_three_scalars_is_a_matter_of_microseconds():
    def tool(city: str, days: int, metric: bool): ...

    schema = schema_of(tool)
    args = {"city": "Delft", "days": 3, "metric": True}
    best = min(timeit.repeat(lambda: schema.bind(args), number=500, repeat=20)) / 500
    assert best < 50e-6  # an order of magnitude of room for slow machines


# Properties


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


def partly(required: dict[str, Any], optional: dict[str, Any]) -> Any:
    return st.fixed_dictionaries(required, optional=optional)


TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
ADDRESSES = partly({"street": TEXT}, {"country": TEXT})
PEOPLE = partly({"name": TEXT}, {"title": TEXT, "home": ADDRESSES | st.none(), "tags": st.lists(TEXT, max_size=2)})
NODES = st.recursive(
    partly({}, {"name": TEXT}),
    lambda inner: partly({}, {"name": TEXT, "child": inner | st.none(), "children": st.lists(inner, max_size=2)}),
    max_leaves=5,
)
ARGUMENTS = partly(
    {"who": PEOPLE, "tree": NODES},
    {
        "span": partly({"start": st.integers()}, {"stop": st.integers()}),
        "others": st.lists(PEOPLE, max_size=2),
        "color": st.sampled_from(["red", "blue"]),
        "pet": partly({"kind": st.just("cat")}, {"lives": st.integers()}) | partly({"kind": st.just("dog")}, {}),
        "days": st.integers(),
        "more": st.dictionaries(st.sampled_from("xyz"), PEOPLE, max_size=2),
    },
)


def rich(
    who: Person,
    tree: Node,
    span: Range = Range(1),  # noqa: B008
    others: list[Person] = [],  # noqa: B006
    *,
    color: Color = Color.RED,
    pet: Cat | Dog | None = None,
    days: int = 3,
    **more: Person,
):
    """Use most kinds of types."""


RICH = schema_of(rich, strict=False)


def kept(given: Any, canonical: Any) -> bool:
    """Whether everything given is still there."""
    if type(given) is not type(canonical):
        return False
    if type(given) is dict:
        return all(key in canonical and kept(given[key], canonical[key]) for key in given)
    if type(given) is list:
        return len(given) == len(canonical) and all(map(kept, given, canonical))
    return bool(given == canonical)


@given(ARGUMENTS)
def test_canonical_arguments_bind_to_the_same_call(args):
    assert RICH.bind(RICH.canonical(args)) == RICH.bind(args)


@given(ARGUMENTS | st.dictionaries(st.sampled_from(["who", "tree", "span", "others", "days"]), VALUES))
def test_canonical_is_idempotent_and_changes_nothing_present(args):
    before = copy.deepcopy(args)
    canonical = RICH.canonical(args)
    assert args == before
    assert kept(args, canonical)
    assert RICH.canonical(canonical) == canonical


@given(st.dictionaries(st.sampled_from(["who", "tree", "span", "others", "days", "pet", "more"]), VALUES))
def test_binding_gives_a_call_or_says_why_not_and_never_changes_the_arguments(args):
    before = copy.deepcopy(args)
    refusal = ""
    try:
        RICH.bind(args)
    except InvalidArguments as error:
        refusal = str(error) or "no reason"
    assert len(refusal) <= 500 and refusal != "no reason"
    assert args == before
