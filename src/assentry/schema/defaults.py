"""Filling a schema's defaults into arguments, so that people and rules judge all the arguments that run."""

from __future__ import annotations

from copy import deepcopy
from types import NoneType
from typing import Any, Final

from ..errors import InvalidArguments
from .strict import referred

Json = dict[str, Any]


def defaults_of(schema: Json) -> Json:
    """Return the defaults of the members of an object schema."""
    return {name: each["default"] for name, each in schema.get("properties", {}).items() if "default" in each}


def has_defaults(schema: Any) -> bool:
    """Return True if there may be a default in a schema, at any depth."""
    if isinstance(schema, list):
        return any(map(has_defaults, schema))
    return isinstance(schema, dict) and ("default" in schema or any(map(has_defaults, schema.values())))


def with_defaults(schema: Json, args: Json) -> Json:
    """Return a copy of the arguments with the defaults filled in at every depth; nothing present is changed."""
    try:
        return _object(args, schema, schema.get("$defs", {}), beside_unknown=True)  # a parameter has no other names
    except RecursionError:
        raise InvalidArguments("arguments: nested too deeply") from None


def _filled(value: Any, schema: Any, definitions: Json) -> Any:
    if type(value) in _SCALARS:
        return value
    if type(value) is dict:
        return _object(value, schema, definitions)
    if type(value) is list:
        items = _branch(schema, "array", definitions).get("items")
        return [_filled(each, items, definitions) for each in value]
    return deepcopy(value)


_SCALARS: Final = frozenset({str, int, float, bool, NoneType})
"""Types whose values need no copying."""


def _object(value: Json, schema: Any, definitions: Json, *, beside_unknown: bool = False) -> Json:
    shape = _branch(schema, "object", definitions)
    members, rest = shape.get("properties", {}), shape.get("additionalProperties")
    filled = {key: _filled(each, members.get(key, rest), definitions) for key, each in value.items()}
    # An unknown key may be another name of a field, and a default must not win against it.
    if beside_unknown or value.keys() <= members.keys():
        for name, default in defaults_of(shape).items():
            if name not in filled:
                filled[name] = _filled(default, members[name], definitions)
    return filled


def _branch(schema: Any, kind: str, definitions: Json) -> Json:
    """Return the one branch of a schema that describes values of this type; empty if there are several, or none."""
    found = [each for each in _branches(schema, definitions) if each.get("type", kind) == kind]
    return found[0] if len(found) == 1 else {}


def _branches(schema: Any, definitions: Json) -> list[Json]:
    if type(schema) is not dict:
        return []
    while "$ref" in schema:
        schema = definitions[referred(schema)]
    branches = schema.get("anyOf") or schema.get("oneOf")
    return [schema] if not branches else [leaf for each in branches for leaf in _branches(each, definitions)]
