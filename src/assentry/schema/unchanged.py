"""The check that binding changed nothing: each value for a body is compared with its JSON.

Pydantic accepts more than the JSON says: `date | str` reads the text "0" as a date. A validator that the user wrote may
return anything; its values are not compared.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import deque
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any, Final

from msgspec import Struct
from pydantic import AliasChoices, AliasPath, BaseModel
from pydantic.types import EncodedBytes, EncodedStr

from .form import SPELLINGS, at, got, short

Json = dict[str, Any]
Place = tuple[type | None, str | None]
"""A field of a class, or all its fields (None); a value in no class has no place."""

LIBRARIES: Final = ("pydantic", "pydantic_core", "pydantic_extra_types", "annotated_types", "ipaddress")
"""Packages whose functions belong to a type rather than to the user."""
_NOT_SCHEMAS: Final = frozenset({"serialization", "metadata", "default", "config", "cls", "function", "definitions"})


class UserCode(Struct, frozen=True):
    """The user's own functions in a type."""

    places: frozenset[Place] = frozenset()
    """The fields whose values they make."""
    reads: bool = False
    """True if one of them runs before pydantic: its result may be no JSON, and cannot be validated as JSON."""


def user_code(schema: Any) -> UserCode:
    """Find the user's own functions in a core schema."""
    return _Search(schema).found()


class _Search:
    def __init__(self, schema: Any) -> None:
        self._places: set[Place] = set()
        self._reads = False
        self._definitions = {each.get("ref"): each for each in schema.get("definitions", ())}
        self._seen: set[tuple[int, Place]] = set()
        self._visit(schema.get("schema") if schema.get("type") == "definitions" else schema, (None, None))

    def found(self) -> UserCode:
        return UserCode(frozenset(self._places), self._reads)

    def _visit(self, node: Any, place: Place) -> None:
        if isinstance(node, list | tuple):
            for each in node:
                self._visit(each, place)
        if not isinstance(node, dict) or (id(node), place) in self._seen:
            return
        self._seen.add((id(node), place))
        kind = node.get("type")
        if kind == "definition-ref":
            self._visit(self._definitions.get(node.get("schema_ref")), place)
            return
        self._function(node, kind, place)
        if kind in ("model", "dataclass"):
            place = (node.get("cls"), None)
            if _begins(node):
                self._places.add(place)
        for key, value in node.items():
            if key == "fields":
                of_class = kind in ("model-fields", "dataclass-args")
                for name, each in _named(value):
                    self._visit(each, (place[0], name) if of_class else place)
            elif key not in _NOT_SCHEMAS:
                self._visit(value, place)

    def _function(self, node: Json, kind: Any, place: Place) -> None:
        if kind == "json":
            self._places.add(place)
        if not isinstance(kind, str) or not kind.startswith("function-") or not _by_user(node.get("function")):
            return
        self._reads = self._reads or kind in ("function-before", "function-wrap")
        self._places.add(place)
        inner = node.get("schema")
        while isinstance(inner, dict) and inner.get("type") not in ("model", "dataclass"):
            ref = inner.get("schema_ref")
            inner = self._definitions.get(ref) if ref is not None else inner.get("schema")
        if isinstance(inner, dict):
            self._places.add((inner.get("cls"), None))


def _named(fields: Any) -> list[tuple[str | None, Any]]:
    if isinstance(fields, dict):
        return list(fields.items())
    return [(each.get("name"), each) for each in fields if isinstance(each, dict)]


def _begins(node: Json) -> bool:
    """Return True if a class runs the user's code when an instance is made."""
    if node.get("type") == "dataclass":
        return bool(node.get("post_init"))
    return bool(node.get("custom_init")) or _by_user(getattr(node.get("cls"), "model_post_init", None))


def _by_user(function: Any) -> bool:
    if isinstance(function, dict):
        function = function.get("function")
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(getattr(function, "__self__", None), EncodedBytes | EncodedStr):
        return True  # the user set the encoding
    module = getattr(function, "__module__", None) or type(function).__module__
    return function is not None and module.partition(".")[0] not in LIBRARIES


# Comparing


def find_change(given: Any, value: Any, code: UserCode) -> str | None:
    """Return a message about the part of a value that differs from its JSON; None if nothing differs."""
    trusted = code.places
    if (None, None) in trusted or _is_same(given, value, trusted):
        return None
    parts = given.items() if type(given) is dict and not isinstance(value, Mapping) else ()
    for name, part in parts:
        if not _is_same({name: part}, value, trusted):
            return at(name, f"{got(part)} would be read as something else")
    return at("", f"{got(given)} would be read as {short(_written(value), 40)}, which is not the same")


def _is_same(given: Any, value: Any, trusted: frozenset[Place]) -> bool:
    """Return True if a value equals its JSON; a default for a missing field is no change."""
    kind = type(value)
    if kind in _SCALARS:
        return type(given) is kind and bool(given == value)
    if kind is float:
        return type(given) in (int, float) and bool(given == value)
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        return _is_same_object(given, value, trusted)
    if isinstance(value, Mapping):
        return type(given) is dict and _is_same_mapping(given, value, trusted)
    if isinstance(value, list | tuple | deque):
        return type(given) is list and _is_same_list(given, value, trusted)
    if isinstance(value, set | frozenset):
        return type(given) is list and _is_same_set(given, value, trusted)
    return _is_said(given, value)


def _is_same_object(given: Any, value: Any, trusted: frozenset[Place]) -> bool:
    kind = type(value)
    if (kind, None) in trusted:
        return True
    if getattr(kind, "__pydantic_root_model__", False):
        return _is_same(given, value.root, trusted)
    if type(given) is not dict:
        return False
    names: dict[str, str] = _names(kind)  # type: ignore[arg-type]  # a class is hashable
    extra = getattr(value, "__pydantic_extra__", None) or {}
    if len(given) > 1 and len({names.get(key, key) for key in given}) < len(given):
        return False  # two names for one field
    for key, each in given.items():
        name = names.get(key)
        if name is None:
            if key not in extra or not _is_same(each, extra[key], trusted):
                return False
        elif (kind, name) not in trusted and not _is_same(each, getattr(value, name), trusted):
            return False
    return True


@functools.lru_cache(1024)
def _names(kind: Any) -> dict[str, str]:
    """Return the fields of a class by their names in JSON; for an alias path, the name is its first step."""
    fields: Any = getattr(kind, "__pydantic_fields__", None)
    if fields is None:
        return {each.name: each.name for each in dataclasses.fields(kind)}
    names: dict[str, str] = {}
    for name, field in fields.items():
        alias = field.validation_alias
        for each in alias.choices if isinstance(alias, AliasChoices) else [alias or name]:
            first = each.path[0] if isinstance(each, AliasPath) else each
            names.setdefault(str(first), name)
    return names | {name: name for name in fields if name not in names}


def _is_same_mapping(given: Json, value: Mapping[Any, Any], trusted: frozenset[Place]) -> bool:
    found = {_key(key): each for key, each in value.items()}
    return all(key in found and _is_same(each, found[key], trusted) for key, each in given.items())


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, Enum):
        return _key(key.value)
    return key if type(key) is str else repr(key) if type(key) in (int, float) else _written(key)


def _is_same_list(given: list[Any], value: Any, trusted: frozenset[Place]) -> bool:
    if type(value) is list and _are_scalars(value) and [*map(type, given)] == [*map(type, value)]:
        return given == value
    if len(given) > len(value):  # the value may have more: a named tuple has defaults
        return False
    return all(_is_same(each, made, trusted) for each, made in zip(given, value, strict=False))


def _are_scalars(values: Any) -> bool:
    return set(map(type, values)) <= {*_SCALARS, float}


def _is_same_set(given: list[Any], value: Any, trusted: frozenset[Place]) -> bool:
    if len(given) != len(value):
        return False
    if _are_scalars(value) and {(type(each), each) for each in given} == {(type(each), each) for each in value}:
        return True
    return all(any(_is_same(each, made, trusted) for made in value) for each in given)


_SCALARS: Final = frozenset({str, int, bool, NoneType})


def _is_said(given: Any, value: Any) -> bool:
    """Return True if a value that is neither a container nor plain JSON equals its JSON."""
    if isinstance(value, Enum):
        return _is_same(given, value.value, frozenset())
    if isinstance(value, int):
        return type(given) is int and given == int(value)
    if isinstance(value, str):
        return type(given) is str and given == str.__str__(value)
    if hasattr(value, "get_secret_value"):
        return _is_same(given, value.get_secret_value(), frozenset())
    if type(given) in (list, dict):
        return True  # the contents of an unknown type cannot be compared
    return type(given) is str and _is_text_of(given, value)


def _is_text_of(given: str, value: Any) -> bool:
    if isinstance(value, bytes):
        return True  # each encoding has only one reading
    for kind, format in _SPELLED:
        if isinstance(value, kind):
            return SPELLINGS[format].fits(given)
    return given == _written(value)


_SPELLED: Final[tuple[tuple[type, str], ...]] = (
    (datetime, "date-time"),
    (date, "date"),
    (time, "time"),
    (timedelta, "duration"),
    (Decimal, "decimal"),
)


def _written(value: Any) -> str:
    if isinstance(value, re.Pattern):
        return str(value.pattern)
    return str(value).strip("()") if isinstance(value, complex) else str(value)
