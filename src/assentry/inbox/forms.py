"""Forms from JSON schemas, and JSON back from what was sent: works without any script.

A form is a tree of fields, made from a schema and a value. Every control is named by a letter and the JSON pointer of
its value: `v` the text of a value, `s` its state (a value, null, left out), `n` the length of a list, `o` an object,
`j` a value that is written as JSON. Numbers stay text from the form to the JSON: they never pass through a float.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ..core.number import counted
from ..core.wording import shortened
from .escaping import hidden_characters
from .json_values import WrittenNumber, read_json, write_json

Kind = Literal["text", "lines", "number", "choice", "switch", "json", "group", "list"]
Schema = dict[str, Any]
ABSENT: Any = object()
"""The value of something that is left out."""
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
LONG_LINE = 70
DEEPEST = 12
"""Fields nested deeper than this are written as JSON."""


class Field(Struct, kw_only=True):
    """One field of a form, with the fields inside it."""

    at: str
    """The JSON pointer of the value."""
    label: str
    kind: Kind
    text: str = ""
    options: list[tuple[str, str]] = []
    hint: str = ""
    about: str = ""
    state: Literal["value", "null", "absent"] = "value"
    states: list[tuple[str, str]] = []
    """The states to choose from, besides a value; empty if there must be a value."""
    fields: list[Field] = []
    hidden: list[str] = []
    """The names of characters in the text that cannot be seen."""
    problem: str = ""


def pointer(at: str, name: str | int) -> str:
    """Return the JSON pointer of a member."""
    return f"{at}/{str(name).replace('~', '~0').replace('/', '~1')}"


class SchemaForm:
    """A form of one schema: makes fields from a value, and reads a value from what was sent."""

    def __init__(self, schema: Any) -> None:
        self.schema: Schema = schema if isinstance(schema, dict) else {}

    def fields(self, value: Any, problems: Mapping[str, str] | None = None) -> Field:
        """Return the form of a value from `read_json`."""
        return self._field("", "", self.schema, value, True, problems or {}, 0)

    # -- the schema -------------------------------------------------------------------------------

    def plain(self, schema: Any) -> tuple[Schema, bool]:
        """Return a schema without references, and True if null fits too."""
        null = False
        about: Schema = {}
        for _ in range(20):
            if not isinstance(schema, dict):
                return about, null
            about = {**{name: schema[name] for name in ("description", "title") if name in schema}, **about}
            if isinstance(ref := schema.get("$ref"), str):
                schema = self._resolved(ref)
                continue
            several = schema.get("anyOf") or schema.get("oneOf")
            kinds = schema.get("type")
            if isinstance(several, list):
                rest = [each for each in several if not (isinstance(each, dict) and each.get("type") == "null")]
                null = null or len(rest) < len(several)
                if len(rest) != 1:
                    return {**about}, null
                schema = rest[0]
            elif isinstance(kinds, list):
                null = null or "null" in kinds
                rest = [each for each in kinds if each != "null"]
                schema = {**schema, "type": rest[0]} if len(rest) == 1 else {**about}
            elif isinstance(whole := schema.get("allOf"), list) and len(whole) == 1:
                schema = whole[0]
            else:
                return {**schema, **about}, null
        return about, null

    def _resolved(self, ref: str) -> Any:
        found: Any = self.schema
        for part in ref.removeprefix("#").split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            found = found.get(part) if isinstance(found, dict) else None
        return found if ref.startswith("#") else None

    # -- fields -----------------------------------------------------------------------------------

    def _field(
        self, at: str, label: str, schema: Any, value: Any, required: bool, problems: Mapping[str, str], depth: int
    ) -> Field:
        plain, null = self.plain(schema)
        kind = field_kind(plain, value) if depth < DEEPEST else "json"
        states = [("null", "null")] if null else []
        states += [] if required else [("absent", "left out")]
        made = Field(at=at, label=label, kind=kind, states=states, hint=hint_of(plain), problem=problems.get(at, ""))
        made.about = str(plain.get("description") or "")
        made.state = "absent" if value is ABSENT else "null" if value is None and null else "value"
        if states and made.state == "absent" and required:
            made.state = "value"
        if kind == "group":
            self._fill_group(made, plain, value, problems, depth)
        elif kind == "list":
            given = value if isinstance(value, list) else []
            inner = plain.get("items", {})
            made.fields = [
                self._field(pointer(at, n), str(n + 1), inner, each, True, problems, depth + 1)
                for n, each in enumerate(given)
            ]
        else:
            _fill(made, plain, value)
        return made

    def _fill_group(self, made: Field, plain: Schema, value: Any, problems: Mapping[str, str], depth: int) -> None:
        if made.state != "value":
            return
        given = value if isinstance(value, dict) else {}
        required = plain.get("required") or []
        names = plain.get("properties") or {}
        made.fields = [
            self._field(
                pointer(made.at, name),
                name,
                names[name],
                given.get(name, ABSENT),
                name in required,
                problems,
                depth + 1,
            )
            for name in sorted(names, key=lambda name: name not in required)  # what must be given comes first
        ]
        more = {name: each for name, each in given.items() if name not in names}
        made.fields += [
            self._field(pointer(made.at, name), name, {}, each, False, problems, depth + 1)
            for name, each in more.items()
        ]

    # -- reading ----------------------------------------------------------------------------------

    def read(self, sent: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
        """Return the value of what was sent, and the problems by JSON pointer."""
        problems: dict[str, str] = {}
        children: dict[str, list[str]] = {}
        for name in sent:
            if name[:2] in ("v:", "s:", "n:", "o:", "j:") and "/" in name:
                at = name[2:]
                siblings = children.setdefault(at.rpartition("/")[0], [])
                if at not in siblings[-3:]:  # the controls of one field come together
                    siblings.append(at)
        return self._read("", self.schema, sent, problems, children, 0), problems

    def _read(
        self,
        at: str,
        schema: Any,
        sent: Mapping[str, str],
        problems: dict[str, str],
        children: dict[str, list[str]],
        depth: int,
    ) -> Any:
        state = sent.get(f"s:{at}", "value")
        if state != "value":
            return None if state == "null" else ABSENT
        plain, _ = self.plain(schema)
        if f"n:{at}" in sent and depth < DEEPEST:
            count = _index(sent[f"n:{at}"]) or 0
            given = {_index(each.rpartition("/")[2]) for each in children.get(at, ())}
            items = [
                self._read(pointer(at, n), plain.get("items"), sent, problems, children, depth + 1)
                for n in sorted(n for n in given if n is not None and n < count)
            ]
            return [each for each in items if each is not ABSENT]
        if f"o:{at}" in sent and depth < DEEPEST:
            names = {pointer(at, name): (name, each) for name, each in (plain.get("properties") or {}).items()}
            made: dict[str, Any] = {}
            order = {place: n for n, place in enumerate(names)}  # the schema's, so that a difference has no other
            for inside in sorted(dict.fromkeys(children.get(at, ())), key=lambda place: order.get(place, len(order))):
                last = inside.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
                name, each = names.get(inside, (last, {}))
                value = self._read(inside, each, sent, problems, children, depth + 1)
                if value is not ABSENT:
                    made[name] = value
            return made
        return _read_leaf(at, plain, sent, problems)


def _index(text: str) -> int | None:
    """Return the index in a list that a text says; None if it says none, or more than a form has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else None


def _read_leaf(at: str, plain: Schema, sent: Mapping[str, str], problems: dict[str, str]) -> Any:
    text = sent.get(f"v:{at}")
    if text is None:
        return ABSENT
    if text == "" and ("enum" in plain or "const" in plain):
        problems[at] = "Choose one."
        return ABSENT
    if f"j:{at}" in sent or "enum" in plain or "const" in plain:
        try:
            return read_json(text)
        except ValueError:
            problems[at] = "This is not JSON. A text needs quotation marks."
            return text
    kind = plain.get("type")
    if kind in ("integer", "number"):
        words = text.strip()
        if not NUMBER.match(words) or (kind == "integer" and not words.lstrip("-").isdecimal()):
            problems[at] = "This is not a whole number." if kind == "integer" else "This is not a number."
            return words
        return WrittenNumber(words)
    if kind == "boolean":
        return text == "true"
    return text.replace("\r\n", "\n").replace("\r", "\n")  # a browser sends other line breaks than it was given


def field_kind(plain: Schema, value: Any) -> Kind:
    """Return the kind of field for a schema; JSON if the schema, or the value in it, fits no other."""
    here = value is not ABSENT and value is not None
    if "enum" in plain or "const" in plain:
        return "choice"
    kind = plain.get("type")
    if kind == "object" and plain.get("properties") and (not here or isinstance(value, dict)):
        return "group"
    if kind == "array" and isinstance(plain.get("items"), dict) and "prefixItems" not in plain:
        return "list" if not here or isinstance(value, list) else "json"
    if kind in ("integer", "number"):
        return "number"
    if kind == "boolean" and (not here or type(value) is bool):
        return "switch"
    if kind == "string" and (not here or (type(value) is str and _can_type(value))):
        long = here and (len(value) > LONG_LINE or "\n" in value)
        return "lines" if long else "text"
    return "json"


def _can_type(text: str) -> bool:
    """Return True if a browser's form gives the text back unchanged."""
    return all(char >= " " or char in "\n\t" for char in text) and "\ufffe" not in text and "\uffff" not in text


def _fill(made: Field, plain: Schema, value: Any) -> None:
    """Set the text of a field without fields inside."""
    here = value is not ABSENT and not (value is None and made.state == "null")
    if made.kind == "choice":
        every = plain.get("enum", [plain.get("const")])
        texts = [write_json(_numbers(each)) for each in every]
        known = [(text, each if isinstance(each, str) else text) for text, each in zip(texts, every, strict=True)]
        made.text = write_json(value) if here else ""
        other = here and made.text not in [text for text, _ in known]
        made.options = [*([] if here else [("", "choose…")]), *known]
        made.options += [(made.text, f"{made.text} (not allowed)")] if other else []
    elif made.kind == "switch":
        made.text = write_json(value) if here else ""
    elif made.kind == "json":
        made.text = write_json(value, 2) if here else ""
    else:
        made.text = str(value) if here else ""
        if made.kind == "number" and here and not isinstance(value, str):
            made.text = write_json(value)
    if made.kind in ("text", "lines"):
        made.hidden = hidden_characters(made.text)


def _numbers(value: Any) -> Any:
    """Return a value of the schema as `read_json` would give it."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return WrittenNumber(repr(value)) if isinstance(value, int | float) else read_json(write_json(value))


WORDS = {"integer": "whole number", "number": "number", "boolean": "", "string": "", "array": "", "object": ""}
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "format": "{}",
}


def hint_of(plain: Schema) -> str:
    """Return what fits a field, in a few words: "number, above 0"."""
    kind = plain.get("type")
    parts = [WORDS.get(kind, "") if isinstance(kind, str) else "JSON"]
    if "enum" in plain or "const" in plain:
        parts = []
    parts += [words.format(plain[name]) for name, words in LIMITS.items() if name in plain]
    if isinstance(least := plain.get("minItems"), int):
        parts.append(f"at least {counted(least, 'item')}")
    if isinstance(most := plain.get("maxItems"), int):
        parts.append(f"at most {counted(most, 'item')}")
    if plain.get("default") is not None and not isinstance(plain["default"], dict | list):
        default = "empty" if plain["default"] == "" else shortened(write_json(_numbers(plain["default"])), 40)
        parts.append(f"{default} if left out")
    return ", ".join(part for part in parts if part)


def empty(schema: Any, form: SchemaForm) -> Any:
    """Return the value that a new field begins with."""
    plain, null = form.plain(schema)
    if "default" in plain:
        return read_json(write_json(_numbers(plain["default"])))
    if "const" in plain:
        return _numbers(plain["const"])
    if "enum" in plain:
        return ABSENT  # a person chooses; nothing is chosen for them
    if null:
        return None
    kind = plain.get("type")
    if kind == "object":
        required = plain.get("required") or []
        names = plain.get("properties") or {}
        return {name: each for name in required if (each := empty(names.get(name), form)) is not ABSENT}
    return {"array": [], "string": ""}.get(str(kind), ABSENT)


def apply_button(value: Any, form: SchemaForm, act: str) -> Any:
    """Return the value after a button of the form: "add:/items", "remove:/items/0", "set:/note", "unset:/note"."""
    verb, _, at = act.partition(":")
    parts = [part.replace("~1", "/").replace("~0", "~") for part in at.split("/")[1:]]
    if verb not in ("add", "remove", "set", "unset", "null"):
        return value
    if not parts:
        schema, _ = form.plain(form.schema)
        if verb == "add" and isinstance(value, list):
            return [*value, _new(schema.get("items"), form)]
        return value
    return _changed(value, form.schema, form, verb, parts)


def _new(schema: Any, form: SchemaForm) -> Any:
    made, plain = empty(schema, form), form.plain(schema)[0]
    if made is ABSENT and plain.get("enum"):
        return _numbers(plain["enum"][0])
    return made if made is not ABSENT else False if plain.get("type") == "boolean" else ""


def _changed(value: Any, schema: Any, form: SchemaForm, verb: str, parts: list[str]) -> Any:
    plain, _ = form.plain(schema)
    name, rest = parts[0], parts[1:]
    if isinstance(value, list):
        n = _index(name)
        if n is None or n >= len(value):
            return value
        if not rest and verb == "remove":
            return [*value[:n], *value[n + 1 :]]
        inner = plain.get("items")
        return [*value[:n], _inside(value[n], inner, form, verb, rest), *value[n + 1 :]]
    if not isinstance(value, dict):
        return value
    inner = (plain.get("properties") or {}).get(name)
    if not rest and verb in ("unset", "remove"):
        return {key: each for key, each in value.items() if key != name}
    if not rest and verb == "set":
        return {**value, name: _new(form.plain(inner)[0], form)}
    if not rest and verb == "null":
        return {**value, name: None}
    return {**value, name: _inside(value.get(name, ABSENT), inner, form, verb, rest)} if name in value else value


def _inside(value: Any, schema: Any, form: SchemaForm, verb: str, rest: list[str]) -> Any:
    if rest:
        return _changed(value, schema, form, verb, rest)
    plain, _ = form.plain(schema)
    if verb == "add" and isinstance(value, list):
        return [*value, _new(plain.get("items"), form)]
    return value
