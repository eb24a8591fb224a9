"""Strict schemas, for providers that accept no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from ..errors import InvalidDefinition
from .signature import where

Json = dict[str, Any]


class Tightening:
    """Makes a schema acceptable for OpenAI's strict mode: closed objects, and every property required.

    A keyword that strict mode does not know is left out: the arguments are validated in any case.
    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """

    UNKNOWN: Final = frozenset({"default", "discriminator", "oneOf", "prefixItems", "uniqueItems", "writeOnly"})
    FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
    LOOKAROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")
    KINDS: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}

    def __init__(self, tool: str, schema: Json, refusal: Callable[[tuple[str, ...]], str] | None = None) -> None:
        """Prepare a schema; `refusal` words the error for an object with any keys, if the schema is not a tool's."""
        self._tool = tool
        self._schema = schema
        self._refusal = refusal or self._refusal_of_tool
        self._given: Json = schema.get("$defs", {})
        self._made: Json = {}

    def top(self) -> Json:
        tight = self._object({key: value for key, value in self._schema.items() if key != "$defs"}, _Place())
        return {**tight, "$defs": self._made} if self._made else tight

    def _tight(self, schema: Json, place: _Place) -> Json:
        if "$ref" in schema:
            return self._reference(schema, place)
        tight = {key: value for key, value in schema.items() if self._knows(key, value)}
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            tight["anyOf"] = [self._tight(each, place) for each in branches]
        kinds = {type(each) for each in schema.get("enum", ())}
        if "type" not in schema and len(kinds) == 1 and kinds <= self.KINDS.keys():
            tight["type"] = self.KINDS[kinds.pop()]  # pydantic sets the type, msgspec leaves it out
        if schema.get("type") == "array":
            tight["items"] = self._items(schema, place)
        return self._object(tight, place) if schema.get("type") == "object" else tight

    def _knows(self, key: str, value: Any) -> bool:
        if key == "format":
            return value in self.FORMATS
        if key == "pattern":
            return not any(each in value for each in self.LOOKAROUND)
        return key not in self.UNKNOWN

    def _object(self, schema: Json, place: _Place) -> Json:
        if "properties" not in schema or schema.get("additionalProperties"):
            raise InvalidDefinition(self._refusal(place.path))
        properties = {name: self._tight(each, place.at(name)) for name, each in schema["properties"].items()}
        return {**schema, "properties": properties, "required": list(properties), "additionalProperties": False}

    def _refusal_of_tool(self, path: tuple[str, ...]) -> str:
        place = f"{where(self._tool, path[0])}: {'.'.join(path)}" if path else f"Tool {self._tool!r}: it"
        return (
            f"{place} may have any keys, which a strict schema cannot say; "
            "use strict_mode=False, or a type with named fields."
        )

    def _items(self, schema: Json, place: _Place) -> Json:
        """Return one schema for all items, as strict mode needs: a tuple's items may fit any of its places."""
        items = schema.get("items")
        kinds: list[Json] = []
        for each in (*schema.get("prefixItems", ()), *([items] if items else ())):
            tight = self._tight(each, place)
            if tight not in kinds:
                kinds.append(tight)
        return {"anyOf": kinds} if len(kinds) > 1 else (kinds or [{}])[0]

    def _reference(self, schema: Json, place: _Place) -> Json:
        """Return a reference, or the definition itself if something stands beside the reference.

        Strict mode wants a reference to stand alone.
        """
        name = referred(schema)
        beside = {key: value for key, value in schema.items() if key not in ("$ref", "default")}
        if beside and name not in place.inside:
            return self._tight({**self._given[name], **beside}, place.within(name))
        if name not in self._made:
            self._made[name] = {}  # its own fields may refer to the definition
            self._made[name] = self._tight(self._given[name], place.within(name))
        return {"$ref": schema["$ref"]}


class _Place(Struct, frozen=True):
    """A place in a schema: the properties above it, and the definitions around it."""

    path: tuple[str, ...] = ()
    inside: frozenset[str] = frozenset()

    def at(self, name: str) -> _Place:
        return _Place((*self.path, name), self.inside)

    def within(self, name: str) -> _Place:
        return _Place(self.path, self.inside | {name})


def referred(schema: Json) -> str:
    """Return the name of the definition that a reference points to."""
    return str(schema["$ref"]).removeprefix("#/$defs/")
