"""Forms from JSON schemas, and JSON back from what was sent: works without any script.

A form is a tree of fields, made from a schema and a value. Every control is named by a letter and the JSON pointer of
its value: `v` the text of a value, `s` its state (a value, null, left out), `n` the length of a list, `o` an object,
`j` a value that is written as JSON, `z` the zone of a time. Numbers stay text from the form to the JSON: they never
pass through a float.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from ..core.wording import shortened
from .escaping import hidden_characters
from .json_values import WrittenNumber, grouped_digits, read_json, write_json
from .language import translate, translate_count
from .picked_time import PickedTime, picked_time_in, picked_time_kind

Kind = Literal["text", "lines", "number", "choice", "switch", "json", "group", "list", "date", "date-time", "time"]
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
    required: bool = False
    """True if there must be a value, and an empty one is none."""
    zone: str = ""
    """The zone of a time, as it is written: "Z", "+02:00", or "" without any."""
    grouped: str = ""
    """A number with its digits in groups, for people; empty if it reads like that already."""

    @property
    def name(self) -> str:
        """The name of the field for people."""
        return self.label or translate("Answer")

    @property
    def id(self) -> str:
        """The id of the field's control on the page."""
        return f"v:{self.at}"


def pointer(at: str, name: str | int) -> str:
    """Return the JSON pointer of a member."""
    return f"{at}/{str(name).replace('~', '~0').replace('/', '~1')}"


class SchemaForm:
    """A form of one schema: makes fields from a value, and reads a value from what was sent."""

    def __init__(self, schema: Any, before: Any = None) -> None:
        self.schema: Schema = schema if isinstance(schema, dict) else {}
        self._may_be_empty = frozenset(_empty_texts(before))
        """The JSON pointers of texts that were empty before, and so may stay empty."""

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
        states = [("null", translate("null"))] if null else []
        states += [] if required else [("absent", translate("left out"))]
        made = Field(at=at, label=label, kind=kind, states=states, hint=hint_of(plain), problem=problems.get(at, ""))
        made.about = str(plain.get("description") or "")
        made.required = not states and kind not in ("group", "list")
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
            for name in names  # in the author's order
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
            if name[:2] in ("v:", "s:", "n:", "o:", "j:", "z:") and "/" in name:
                at = name[2:]
                siblings = children.setdefault(at.rpartition("/")[0], [])
                if at not in siblings[-3:]:  # the controls of one field come together
                    siblings.append(at)
        return self._read("", self.schema, sent, problems, children, 0, True), problems

    def _read(
        self,
        at: str,
        schema: Any,
        sent: Mapping[str, str],
        problems: dict[str, str],
        children: dict[str, list[str]],
        depth: int,
        needed: bool,
    ) -> Any:
        state = sent.get(f"s:{at}", "value")
        if state != "value":
            return None if state == "null" else ABSENT
        plain, _ = self.plain(schema)
        if f"n:{at}" in sent and depth < DEEPEST:
            count = _index(sent[f"n:{at}"]) or 0
            given = {_index(each.rpartition("/")[2]) for each in children.get(at, ())}
            items = [
                self._read(pointer(at, n), plain.get("items"), sent, problems, children, depth + 1, True)
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
                needed = name in (plain.get("required") or ())
                value = self._read(inside, each, sent, problems, children, depth + 1, needed)
                if value is not ABSENT:
                    made[name] = value
            return made
        return _read_leaf(at, plain, sent, problems, needed and at not in self._may_be_empty)


def in_author_order(shape: Any, strict: Any) -> Any:
    """Return a schema with the properties of each object in the author's order.

    A stored definition has sorted keys. Its strict schema for models requires every property, in the author's order.
    """
    if isinstance(shape, list):
        others = strict if isinstance(strict, list) and len(strict) == len(shape) else [None] * len(shape)
        return [in_author_order(each, other) for each, other in zip(shape, others, strict=True)]
    if not isinstance(shape, dict):
        return shape
    other = strict if isinstance(strict, dict) else {}
    made = {name: in_author_order(each, other.get(name)) for name, each in shape.items()}
    names = made.get("properties")
    if isinstance(names, dict):
        order = [*(other.get("required") or ()), *(made.get("required") or ())]
        made["properties"] = {name: names[name] for name in [*order, *names] if name in names}
    return made


def _index(text: str) -> int | None:
    """Return the index in a list that a text says; None if it says none, or more than a form has."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else None


def _empty_texts(value: Any, at: str = "") -> Iterator[str]:
    """Yield the JSON pointers of the texts in a value that are empty."""
    if value == "":
        yield at
    elif isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _empty_texts(each, pointer(at, name))


def _read_leaf(at: str, plain: Schema, sent: Mapping[str, str], problems: dict[str, str], needed: bool) -> Any:
    text = sent.get(f"v:{at}")
    if text is None:
        return ABSENT
    if text == "" and ("enum" in plain or "const" in plain):
        problems[at] = translate("Choose one.")
        return ABSENT
    if f"z:{at}" in sent:
        return _read_moment(at, plain, text, sent[f"z:{at}"], problems)
    if not text.strip() and (needed or (at and plain.get("type") in ("integer", "number"))):
        problems[at] = translate("This needs a value.")
        return text
    if f"j:{at}" in sent or "enum" in plain or "const" in plain:
        try:
            return read_json(text)
        except ValueError:
            problems[at] = translate("This is not JSON. A text needs quotation marks.")
            return text
    kind = plain.get("type")
    if kind in ("integer", "number"):
        words = text.strip()
        if not NUMBER.match(words) or (kind == "integer" and not words.lstrip("-").isdecimal()):
            whole = translate("This is not a whole number.")
            problems[at] = whole if kind == "integer" else translate("This is not a number.")
            return words
        return WrittenNumber(words)
    if kind == "boolean":
        return text == "true"
    return text.replace("\r\n", "\n").replace("\r", "\n")  # a browser sends other line breaks than it was given


def _read_moment(at: str, plain: Schema, text: str, zone: str, problems: dict[str, str]) -> Any:
    """Return a date or time as it was written before, if it is the same; else as the control gives it."""
    kind = picked_time_kind(plain)
    made = PickedTime(kind, text, zone).written() if kind is not None else None
    if made is None:
        problems[at] = translate("This is no date or time.") if text.strip() else translate("This needs a value.")
        return text
    return made


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
    if kind == "string" and (moment := picked_time_kind(plain)) and (not here or picked_time_in(moment, value)):
        return moment
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
        made.options = [*([] if here else [("", translate("choose…"))]), *known]
        made.options += [(made.text, translate("{value} (not allowed)", value=made.text))] if other else []
    elif made.kind == "switch":
        made.text = write_json(value) if here else ""
    elif made.kind == "json":
        made.text = write_json(value, 2) if here else ""
    elif made.kind in ("date", "date-time", "time"):
        found = picked_time_in(made.kind, value) if here else None
        made.text, made.zone = (found.local, found.zone) if found is not None else ("", "")
    else:
        made.text = str(value) if here else ""
        if made.kind == "number" and here and not isinstance(value, str):
            made.text = write_json(value)
        if made.kind == "number":
            made.grouped = grouped_digits(made.text)
    if made.kind in ("text", "lines"):
        made.hidden = hidden_characters(made.text)


def _numbers(value: Any) -> Any:
    """Return a value of the schema as `read_json` would give it."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return WrittenNumber(repr(value)) if isinstance(value, int | float) else read_json(write_json(value))


def hint_of(plain: Schema) -> str:
    """Return what fits a field, in a few words: "number, above 0"."""
    kind = plain.get("type")
    words = {"integer": translate("whole number"), "number": translate("number")}
    parts = [words.get(kind, "") if isinstance(kind, str) else "JSON"]
    if "enum" in plain or "const" in plain:
        parts = []
    limits = {
        "minimum": translate("at least {value}", value=plain.get("minimum")),
        "exclusiveMinimum": translate("above {value}", value=plain.get("exclusiveMinimum")),
        "maximum": translate("at most {value}", value=plain.get("maximum")),
        "exclusiveMaximum": translate("below {value}", value=plain.get("exclusiveMaximum")),
        "multipleOf": translate("a multiple of {value}", value=plain.get("multipleOf")),
        "minLength": translate("at least {value} characters", value=plain.get("minLength")),
        "maxLength": translate("at most {value} characters", value=plain.get("maxLength")),
        "pattern": translate("matching {value}", value=plain.get("pattern")),
    }
    parts += [said for name, said in limits.items() if name in plain]
    if "format" in plain and picked_time_kind(plain) is None:
        parts.append(str(plain["format"]))
    if isinstance(least := plain.get("minItems"), int):
        parts.append(translate_count("at least {n} item", "at least {n} items", least))
    if isinstance(most := plain.get("maxItems"), int):
        parts.append(translate_count("at most {n} item", "at most {n} items", most))
    if plain.get("default") is not None and not isinstance(plain["default"], dict | list):
        default = shortened(write_json(_numbers(plain["default"])), 40)
        empty_words, said = translate("empty if left out"), translate("{value} if left out", value=default)
        parts.append(empty_words if plain["default"] == "" else said)
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


_PLACE = re.compile(r'"?(?P<place>[^":]{1,200})"?: (?P<what>.+)', re.DOTALL)


def problem_at_field(form: Field, problem: str) -> dict[str, str]:
    """Return a problem of the tool by the JSON pointer of its field: '"lines[0].article": expected text'."""
    found = _PLACE.match(problem)
    if found is None:
        return {}
    at = "/" + re.sub(r"\[([0-9]+)\]|\.", lambda part: f"/{part[1] or ''}", found["place"]).replace("//", "/")
    return {at: found["what"]} if any(field.at == at for field in _every_field(form)) else {}


def _every_field(field: Field) -> Iterator[Field]:
    yield field
    for each in field.fields:
        yield from _every_field(each)


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
