"""Filling a schema's defaults into arguments, so that people and rules judge all the arguments that run."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final

from .strict import referred

Json = dict[str, Any]


@dataclass(slots=True)
class Plan:
    """The defaults for each place in a value."""

    defaults: Json = field(default_factory=dict)
    members: dict[str, Plan] = field(default_factory=dict)
    rest: Plan | None = None
    """The plan for the values of keys that are not members."""
    items: Plan | None = None
    tolerant: bool = False
    """True if defaults are filled in beside unknown keys: a field may have other names, a parameter has none."""

    def matters(self) -> bool:
        """Return True if there is any default, here or deeper."""
        seen: list[Plan] = [self]
        for plan in seen:  # the list grows during the loop
            if plan.defaults:
                return True
            below = (*plan.members.values(), plan.rest, plan.items)
            seen.extend(each for each in below if each and not any(each is old for old in seen))
        return False


class Planning:
    """Derives the plan from a schema; a type that refers to itself becomes a plan that refers to itself."""

    def __init__(self, definitions: Json) -> None:
        self._definitions = definitions
        self._made: dict[int, Plan] = {}

    def top(self, schema: Json) -> Plan:
        plan = self._plan(schema)
        plan.tolerant = True
        return plan

    def _plan(self, schema: Json) -> Plan:
        place = id(schema)  # the schema has a limited number of places, however deep a value is
        if place not in self._made:
            self._made[place] = Plan()
            self._extend(self._made[place], schema)
        return self._made[place]

    def _extend(self, plan: Plan, schema: Json) -> None:
        """Add the schema's defaults to the plan.

        If the value could be one of two types of object, add none: the type is not known.
        """
        branches = list(self._branches(schema))
        objects = [each for each in branches if each.get("type", "object") == "object"]
        arrays = [each for each in branches if each.get("type", "array") == "array"]
        if len(objects) == 1:
            for name, each in objects[0].get("properties", {}).items():
                plan.members[name] = self._plan(each)
                if "default" in each:
                    plan.defaults[name] = each["default"]
            plan.rest = self._plan_of(objects[0], "additionalProperties")
        if len(arrays) == 1:
            plan.items = self._plan_of(arrays[0], "items")

    def _plan_of(self, schema: Json, key: str) -> Plan | None:
        below = schema.get(key)
        return self._plan(below) if type(below) is dict else None

    def _branches(self, schema: Json) -> Iterator[Json]:
        while "$ref" in schema:
            schema = self._definitions[referred(schema)]
        branches = schema.get("anyOf") or schema.get("oneOf")
        if not branches:
            yield schema
        for each in branches or ():
            yield from self._branches(each)


_PLAIN: Final = frozenset({str, int, float, bool, NoneType})
"""Types whose values need no copying."""


def _filled_value(plan: Plan | None, value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return filled(plan, value)
    if kind is list:
        items = plan.items if plan else None
        return [each if type(each) in _PLAIN else _filled_value(items, each) for each in value]
    return value if kind in _PLAIN else deepcopy(value)


def filled(plan: Plan | None, value: Json) -> Json:
    """Return a copy of an object with the plan's defaults filled in; nothing present is changed."""
    if plan is None:
        return {key: each if type(each) in _PLAIN else _filled_value(None, each) for key, each in value.items()}
    members, rest = plan.members, plan.rest
    filled = {
        key: each if type(each) in _PLAIN else _filled_value(members.get(key, rest), each)
        for key, each in value.items()
    }
    # An unknown key may be another name of a known key, and a default must not win against it.
    if plan.tolerant or value.keys() <= members.keys():
        for name, default in plan.defaults.items():
            if name not in filled:
                filled[name] = _filled_value(members[name], default)
    return filled
