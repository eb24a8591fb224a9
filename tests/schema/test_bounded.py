"""Schemas of strangers: whatever they say, a check is short, and says what JSON Schema says."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator, SchemaError

from assentry.errors import InvalidArguments
from assentry.schema.bounded import check_json_schema, is_pattern, is_small_schema, without_unbounded
from assentry.schema.defaults import with_defaults
from assentry.schema.foreign import ForeignSchema

LONG = "a" * 50 + "!"


def doubling(leaf: Any, keyword: str = "anyOf", depth: int = 40) -> dict[str, Any]:
    """Return a schema of one argument `x` that a reader of all its branches never gets to the end of."""
    definitions: dict[str, Any] = {
        f"d{number}": {keyword: [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(depth)
    }
    definitions[f"d{depth}"] = leaf
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        ({"properties": {"x": {"pattern": "^(a+)+$"}}}, {"x": LONG}),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {LONG: 1}),
        ({"propertyNames": {"pattern": "^(a|a)*$"}}, {LONG: 1}),
        ({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"x": {}}),
        (doubling({"type": "string"}), {"x": 1}),
        (doubling({"type": "string"}), {"x": {}}),
        (doubling({"type": "string"}, "allOf"), {"x": "a"}),
        (doubling({"type": "string"}, "oneOf"), {"x": []}),
        ({"allOf": [{"$ref": "#name"}] * 5000, "$defs": {"a": {"$anchor": "name", "type": "array"}}}, {"x": 1}),
        ({"allOf": [{"type": "array"}] * 5000}, {"x": "a" * 1_000_000}),
        ({"properties": {"x": {"uniqueItems": True}}}, {"x": [*({"n": n} for n in range(20_000)), {"n": 1.0}]}),
        ({"properties": {"x": {"items": {"pattern": "(?:(?:[ab]?){140}){140}c"}}}}, {"x": ["ab" * 2000] * 1000}),
    ],
)
def test_no_schema_makes_a_check_take_long(schema: dict[str, Any], args: dict[str, Any]) -> None:
    foreign = ForeignSchema(schema)
    assert foreign.filled(args) == args
    assert foreign.problem(args)
    assert not foreign.fits(args)


def test_no_schema_fills_in_defaults_without_end() -> None:
    member = {"type": "object"}
    schema: dict[str, Any] = {"$defs": {"d40": member}, "properties": {"x": {"$ref": "#/$defs/d0", "default": {}}}}
    for number in range(40):
        inner = {"$ref": f"#/$defs/d{number + 1}"}
        holder = {"anyOf": [inner]}
        schema["$defs"][f"d{number}"] = {
            "type": "object",
            "properties": {"left": {**holder, "default": {}}, "right": {**holder, "default": {}}},
        }
    schema["properties"]["x"] = {"anyOf": [{"$ref": "#/$defs/d0"}], "default": {}}
    with pytest.raises(InvalidArguments, match="more than 100,000 defaults"):
        with_defaults(schema, {})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "b"}, "abc"),
        ({"pattern": "^b$"}, "abc"),
        ({"pattern": r"^\p{L}+$"}, "Ünal"),
        ({"pattern": r"^\<[a-z]+\>$"}, "<a>"),
        ({"pattern": r"^\<[a-z]+\>$"}, "a"),
        ({"pattern": r"^[]a[b]]$"}, "a]"),
        ({"pattern": r"^[]a[b]]$"}, "a"),
        ({"pattern": r"^[a\[b]$"}, "["),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}]),
        ({"uniqueItems": True}, [1, 1.0]),
        ({"uniqueItems": True}, [{"a": [1]}, {"a": [1.0]}]),
        ({"uniqueItems": False}, [1, 1]),
        ({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, {"x-a": "b"}),
        ({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, {"x-a": 1}),
        ({"patternProperties": {"^x-": {}}, "additionalProperties": {"type": "string"}}, {"x-a": 1, "b": "c"}),
        ({"patternProperties": {"^x-": {}}, "additionalProperties": {"type": "string"}}, {"x-a": 1, "b": 2}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 2}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}, {}),
    ],
)
def test_a_check_says_what_json_schema_says(schema: dict[str, Any], value: Any) -> None:
    rows = {"type": "object", "properties": {"x": schema}} if "$defs" not in schema else schema
    args = {"x": value} if "$defs" not in schema else value
    try:
        expected = Draft202012Validator(rows).is_valid(args)
    except Exception:  # Python's own patterns know no \p
        expected = True
    assert ForeignSchema(rows).fits(args) is expected
    assert (ForeignSchema(rows).problem(args) == "") is expected


def test_a_text_with_a_line_end_does_not_fit_a_pattern_for_one_line() -> None:
    schema = ForeignSchema({"properties": {"to": {"pattern": r"^[a-z]+@example\.com$"}}})
    assert schema.fits({"to": "ann@example.com"})
    assert schema.fits({"to": "ann@example.com\n"}) is False


def test_what_cannot_be_checked_within_bounds_is_left_out() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {
            "mail": {"type": "string", "pattern": r"^(?!\.)[a-z.]+@"},
            "again": {"pattern": r"(a)\1"},
            "other": {"$schema": "http://json-schema.org/draft-04/schema#", "pattern": "^a"},
            "open": {"type": "object", "patternProperties": {"(?=a)": {}}, "additionalProperties": False},
            "pattern": {"type": "string"},
        },
        "unevaluatedProperties": False,
    }
    assert without_unbounded(schema) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {
            "mail": {"type": "string"},
            "again": {},
            "other": {"pattern": "^a"},
            "open": {"type": "object"},
            "pattern": {"type": "string"},
        },
    }


def test_a_pattern_that_looks_around_is_checked_for_whoever_is_trusted() -> None:
    schema = ForeignSchema({"properties": {"a": {"pattern": "^(?!x)"}}})
    assert schema.fits({"a": "y"})
    assert schema.fits({"a": "x"}) is False


@pytest.mark.parametrize("schema", [{"type": "strin"}, {"properties": 1}, {"pattern": "("}, {"minLength": -1}])
def test_what_is_no_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        check_json_schema(schema)


@pytest.mark.parametrize("schema", [{}, True, {"pattern": r"\p{L}"}, {"pattern": "(?=a)"}, doubling({})])
def test_what_is_a_schema_is_one(schema: Any) -> None:
    check_json_schema(schema)


def test_a_schema_with_very_many_parts_is_refused_soon() -> None:
    with pytest.raises(Exception, match="too long to check"):
        check_json_schema({"allOf": [{"type": "string", "minLength": 1}] * 50_000})


def test_only_what_no_engine_reads_is_no_pattern() -> None:
    assert all(map(is_pattern, ("a", "(?=a)", r"\p{L}", 7)))
    assert not any(map(is_pattern, ("(", "[", "a{1000000000000}(")))


def test_a_schema_is_small_with_its_references_written_out() -> None:
    assert is_small_schema(
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}
    )
    assert not is_small_schema({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}})
    assert not is_small_schema({"$dynamicRef": "#meta"})
    assert not is_small_schema(doubling({}))
    assert not is_small_schema({"enum": list(range(20_000))})


def test_a_part_of_another_draft_is_counted_too() -> None:
    inner = {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}
    assert ForeignSchema({"properties": {"x": inner}}).fits({"x": LONG}) is False
