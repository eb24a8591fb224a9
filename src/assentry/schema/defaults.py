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


MOST_DEFAULTS = 100_000
"""The most defaults to fill into one call's arguments: a default may have members with defaults of their own."""
MOST_BRANCHES = 1000
"""The most branches of a schema to look at for the one that describes a value: references may lead round and round."""


def with_defaults(schema: Json, args: Json) -> Json:
    """Return a copy of the arguments with the defaults filled in at every depth; nothing present is changed."""
    try:
        return _Filling(schema.get("$defs", {})).object(args, schema, beside_unknown=True)  # no other names
    except RecursionError:
        raise InvalidArguments("arguments: nested too deeply") from None


_SCALARS: Final = frozenset({str, int, float, bool, NoneType})
"""Types whose values need no copying."""


class _Filling:
    """Fills in the defaults of one call's arguments."""

    def __init__(self, definitions: Json) -> None:
        self._definitions = definitions
        self._defaults = 0
        self._shapes: dict[tuple[int, str], Json] = {}

    def object(self, value: Json, schema: Any, *, beside_unknown: bool = False) -> Json:
        shape = self._branch(schema, "object")
        members, rest = shape.get("properties", {}), shape.get("additionalProperties")
        filled = {key: self._value(each, members.get(key, rest)) for key, each in value.items()}
        # An unknown key may be another name of a field, and a default must not win against it.
        if beside_unknown or value.keys() <= members.keys():
            for name, default in defaults_of(shape).items():
                if name not in filled:
                    self._defaults += 1
                    if self._defaults > MOST_DEFAULTS:
                        raise InvalidArguments(f"arguments: more than {MOST_DEFAULTS:,} defaults would be filled in")
                    filled[name] = self._value(default, members[name])
        return filled

    def _value(self, value: Any, schema: Any) -> Any:
        if type(value) in _SCALARS:
            return value
        if type(value) is dict:
            return self.object(value, schema)
        if type(value) is list:
            items = self._branch(schema, "array").get("items")
            return [self._value(each, items) for each in value]
        return deepcopy(value)

    def _branch(self, schema: Any, kind: str) -> Json:
        """Return the one branch of a schema that describes values of this type; empty if there are several, or none."""
        if type(schema) is not dict:
            return {}
        shape = self._shapes.get((id(schema), kind))
        if shape is None:
            found = [each for each in self._branches(schema) if each.get("type", kind) == kind]
            shape = self._shapes[id(schema), kind] = found[0] if len(found) == 1 else {}
        return shape

    def _branches(self, schema: Json) -> list[Json]:
        """Return the branches of a schema; none if there are too many to look at."""
        leaves: list[Json] = []
        rest: list[Any] = [schema]
        for _ in range(MOST_BRANCHES):
            if not rest:
                return leaves
            part = rest.pop()
            if type(part) is not dict:
                continue
            if "$ref" in part:
                rest.append(self._definitions[referred(part)])
            elif branches := part.get("anyOf") or part.get("oneOf"):
                rest += branches
            else:
                leaves.append(part)
        return []
