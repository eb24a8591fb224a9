"""The one form in which JSON is accepted, derived from a tool's schema and read to the letter.

A rule judges the arguments as JSON, and the body gets values made from that JSON. So nothing ambiguous is accepted: no
number from a text, no bool from a number, no date from seconds. A type that JSON lacks is a text, in the one spelling
that is joined here. Limits of a value and validators belong elsewhere.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from importlib import import_module
from pathlib import PurePath
from types import NoneType
from typing import Any, Final, NamedTuple
from uuid import UUID

from .strict import referred

Json = dict[str, Any]

QUOTED: Final = 40
PROBLEM: Final = 200
TOTAL: Final = 500
"""Limits in characters, for messages about arguments that may be megabytes long."""


# Error messages


def short(text: str, limit: int) -> str:
    """Return the text, cut to `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def join_problems(problems: Iterable[str]) -> str:
    """Join problems to a few hundred characters, and count those that do not fit."""
    shown: list[str] = []
    room, more = TOTAL - len("and 1000000 more"), 0
    for each in problems:
        problem = short(each, PROBLEM)
        room -= len(problem) + len("; ")
        if more or room < 0:
            more += 1
        else:
            shown.append(problem)
    return "; ".join([*shown, f"and {more} more"] if more else shown)


def got(value: Any) -> str:
    """Name a JSON value in a few words."""
    if isinstance(value, str):
        return f"the text {json.dumps(short(value, QUOTED), ensure_ascii=False)}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if type(value) in (int, float):
        return f"the number {short(str(value), QUOTED)}"
    return short(json.dumps(value), QUOTED)


def at(place: str, what: str) -> str:
    """Put a place in the arguments in front of a problem."""
    return f'"{short(place, 80)}": {what}'


def _or(choices: Sequence[str]) -> str:
    unique = list(dict.fromkeys(choices))
    return " or ".join(unique) if len(unique) < 3 else f"{', '.join(unique[:-1])} or {unique[-1]}"


# Texts


class Spelling(NamedTuple):
    """The one spelling of a type that is a text in JSON: its name for messages, and its test."""

    says: str
    fits: Callable[[str], bool]


def _matches(pattern: str, read: Callable[[str], Any] = str) -> Callable[[str], bool]:
    matches = re.compile(pattern, re.ASCII).fullmatch

    def fits(text: str) -> bool:
        try:
            return matches(text) is not None and read(text) is not None
        except ValueError:
            return False

    return fits


def _comes_back(kind: Callable[[str], Any]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            return str(kind(text)) == text
        except ValueError:
            return False

    return fits


def _made_by(module: str, name: str) -> Callable[[str], Any]:
    """Return a constructor by its name; its module may be slow to import, and is imported on first use."""
    return lambda text: getattr(import_module(module), name)(text)


def _address(name: str, example: str) -> Spelling:
    return Spelling(f'an address such as "{example}"', _comes_back(_made_by("ipaddress", name)))


_CLOCK: Final = r"\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?"
_DURATION: Final = r"-?P(?=[\dT])(\d+Y)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,6})?S)?)?"
DECIMAL: Final = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"


def trimmed(strip: bool, lower: bool, upper: bool) -> str:
    """Name the format of a text that pydantic would strip or change to one case; empty if it would do neither."""
    case = "lowercase" if lower else "uppercase" if upper else ""
    return "-".join(["stripped"] * strip + [case] * bool(case))


SPELLINGS: Final[dict[str, Spelling]] = {
    "date": Spelling('a date such as "2026-11-17"', _matches(r"\d{4}-\d\d-\d\d", date.fromisoformat)),
    "date-time": Spelling(
        'a date and time such as "2026-11-17T09:30:00Z"',
        _matches(rf"\d{{4}}-\d\d-\d\dT{_CLOCK}", datetime.fromisoformat),
    ),
    "time": Spelling('a time such as "09:30:00"', _matches(_CLOCK, time.fromisoformat)),
    "duration": Spelling('a duration such as "P1DT2H30M"', _matches(_DURATION)),
    "decimal": Spelling('a decimal number as text, such as "19.90"', _matches(DECIMAL)),
    "uri": Spelling(
        'a URL in its normal form, such as "https://example.com/"', _comes_back(_made_by("pydantic", "AnyUrl"))
    ),
    "base64": Spelling('base64 such as "aGk="', _comes_back(lambda text: b64encode(b64decode(text)).decode())),
    "base64url": Spelling(
        'base64 for URLs, such as "aGk="', _comes_back(lambda text: urlsafe_b64encode(urlsafe_b64decode(text)).decode())
    ),
    "hex": Spelling('hexadecimal digits such as "6869"', _comes_back(lambda text: bytes.fromhex(text).hex())),
    **dict.fromkeys(
        ("uuid", "uuid1", "uuid3", "uuid4", "uuid5", "uuid6", "uuid7", "uuid8"),
        Spelling('a UUID such as "0b8ba4f2-3c1e-4d55-9d6c-0a4e3c9d2f10"', _comes_back(UUID)),
    ),
    **dict.fromkeys(
        ("path", "file-path", "directory-path"),
        Spelling('a path in its normal form, such as "folder/file.txt"', _comes_back(PurePath)),
    ),
    "ipv4": _address("IPv4Address", "192.0.2.1"),
    "ipv4network": _address("IPv4Network", "192.0.2.0/24"),
    "ipv4interface": _address("IPv4Interface", "192.0.2.1/24"),
    "ipv6": _address("IPv6Address", "2001:db8::1"),
    "ipv6network": _address("IPv6Network", "2001:db8::/32"),
    "ipv6interface": _address("IPv6Interface", "2001:db8::1/64"),
    "stripped": Spelling("text without blanks around it", _comes_back(str.strip)),
    "lowercase": Spelling("text in lowercase", _comes_back(str.lower)),
    "uppercase": Spelling("text in uppercase", _comes_back(str.upper)),
    "stripped-lowercase": Spelling(
        "text in lowercase without blanks around it", _comes_back(lambda text: text.strip().lower())
    ),
    "stripped-uppercase": Spelling(
        "text in uppercase without blanks around it", _comes_back(lambda text: text.strip().upper())
    ),
}
"""The spellings by the schema's `format`. A value has one spelling, or several that all read the same."""


# Forms


class Form:
    """The JSON that one place of a schema accepts: by default anything."""

    says = "anything"
    """The form's name in messages, after "expected"."""

    def fits(self, value: Any) -> bool:
        """Return True if the value has the form; cheap checks come first."""
        return True

    def problems(self, value: Any, place: str) -> Iterator[str]:
        """Yield the problems of a value."""
        if not self.fits(value):
            yield at(place, f"expected {self.says}, got {got(value)}")


class Kind(Form):
    """A type that JSON has."""

    def __init__(self, says: str, *kinds: type) -> None:
        self.says = says
        self.kinds = frozenset(kinds)

    def fits(self, value: Any) -> bool:
        return type(value) in self.kinds


class NumberForm(Kind):
    """A number that becomes a float; an integer only if a float can hold it exactly."""

    def fits(self, value: Any) -> bool:
        return type(value) is float or (type(value) is int and is_exact(value))

    def problems(self, value: Any, place: str) -> Iterator[str]:
        if type(value) is int and not is_exact(value):
            yield at(place, f"expected a number that a float can hold exactly, got {got(value)}")
        else:
            yield from super().problems(value, place)


def is_exact(value: int) -> bool:
    """Return True if an integer keeps its value as a float."""
    try:
        return float(value) == value
    except OverflowError:
        return False


class TextForm(Form):
    """A text with a spelling of its own."""

    def __init__(self, spelling: Spelling) -> None:
        self.says, self._spelled = spelling

    def fits(self, value: Any) -> bool:
        return type(value) is str and self._spelled(value)


class Choice(Form):
    """One of several values, with the same type: true is not 1, and neither is 1.0."""

    def __init__(self, values: Sequence[Any]) -> None:
        shown = [short(json.dumps(each, ensure_ascii=False, default=str), QUOTED) for each in values[:12]]
        self.says = _or([*shown, "..."] if len(values) > len(shown) else shown)
        self._values = values

    def fits(self, value: Any) -> bool:
        return any(type(value) is type(each) and value == each for each in self._values)


class List(Form):
    """An array: a form for each of the first positions, and one for the rest."""

    says = "a list"

    def __init__(self, first: Sequence[Form], rest: Form, unique: bool) -> None:
        self._first, self._rest, self._unique = first, rest, unique

    def fits(self, value: Any) -> bool:
        if type(value) is not list or (self._unique and _repeats(value)):
            return False
        rest = value[len(self._first) :] if self._first else value
        if not all(form.fits(each) for form, each in zip(self._first, value, strict=False)):
            return False
        if type(self._rest) is Kind or (type(self._rest) is NumberForm and int not in set(map(type, rest))):
            return set(map(type, rest)) <= self._rest.kinds
        return all(map(self._rest.fits, rest))

    def problems(self, value: Any, place: str) -> Iterator[str]:
        if type(value) is not list:
            yield at(place, f"expected a list, got {got(value)}")
            return
        for index, each in enumerate(value):
            form = self._first[index] if index < len(self._first) else self._rest
            yield from form.problems(each, f"{place}[{index}]")
        if self._unique and _repeats(value):
            yield at(place, "expected a list in which nothing occurs twice")


def _repeats(values: list[Any]) -> bool:
    written = [json.dumps(each, sort_keys=True) for each in values]
    return len(set(written)) < len(written)


class Object(Form):
    """An object with named members, and a form for the rest if other members are allowed."""

    says = "an object"

    def __init__(self, members: dict[str, Form], required: Sequence[str], rest: Form | None, names: Form) -> None:
        # Check simple members first: they tell the types of a union apart before any container is read.
        self._members = dict(sorted(members.items(), key=lambda item: _is_deep(item[1])))
        self._required, self._rest, self._names = required, rest, names

    def fits(self, value: Any) -> bool:
        if type(value) is not dict or not all(name in value for name in self._required):
            return False
        more = value.keys() - self._members.keys()
        if more and (self._rest is None or not all(map(self._names.fits, more))):
            return False
        if not all(form.fits(value[name]) for name, form in self._members.items() if name in value):
            return False
        return self._rest is None or all(self._rest.fits(value[name]) for name in more)

    def problems(self, value: Any, place: str) -> Iterator[str]:
        if type(value) is not dict:
            yield at(place, f"expected an object, got {got(value)}")
            return
        inside = f"{place}." if place else ""
        for name in self._required:
            if name not in value:
                yield at(f"{inside}{name}", "is missing")
        for name in value:
            if name not in self._members and (self._rest is None or not self._names.fits(name)):
                yield at(f"{inside}{name}", "there is no such argument" if self._rest is None else self._named())
        for name, form in self._members.items():
            if name in value:
                yield from form.problems(value[name], f"{inside}{name}")
        if self._rest is not None and self._rest is not ANYTHING:
            for name in value.keys() - self._members.keys():
                yield from self._rest.problems(value[name], f"{inside}{name}")

    def distance(self, value: Json) -> int:
        """Return the number of problems of an object, without looking into its containers."""
        missing = sum(name not in value for name in self._required)
        more = len(value.keys() - self._members.keys()) if self._rest is None else 0
        flat = [(name, form) for name, form in self._members.items() if not _is_deep(form)]
        return missing + more + sum(name in value and not form.fits(value[name]) for name, form in flat)

    def _named(self) -> str:
        return f"as a name, expected {self._names.says}"


class AnyOf(Form):
    """One of several forms."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._forms = forms
        self.says = _or([form.says for form in forms])

    def fits(self, value: Any) -> bool:
        return any(form.fits(value) for form in self._forms)

    def problems(self, value: Any, place: str) -> Iterator[str]:
        if self.fits(value):
            return
        forms = [form.resolved() if isinstance(form, Ref) else form for form in self._forms]
        objects = [form for form in forms if isinstance(form, Object)] if type(value) is dict else []
        lists = [form for form in forms if isinstance(form, List)] if type(value) is list else []
        if objects:  # report for one form only: each may contain another union
            yield from min(objects, key=lambda form: form.distance(value)).problems(value, place)
        elif lists:
            yield from lists[0].problems(value, place)
        else:
            yield at(place, f"expected {self.says}, got {got(value)}")


class All(Form):
    """Several forms at once."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._forms = forms
        self.says = forms[0].says

    def fits(self, value: Any) -> bool:
        return all(form.fits(value) for form in self._forms)

    def problems(self, value: Any, place: str) -> Iterator[str]:
        for form in self._forms:
            yield from form.problems(value, place)


class Ref(Form):
    """A form by its name, so that a form may contain itself."""

    def __init__(self, reading: _Reading, name: str) -> None:
        self._reading, self._name = reading, name
        self.says = name

    def resolved(self) -> Form:
        return self._reading.named(self._name)

    def fits(self, value: Any) -> bool:
        return self.resolved().fits(value)

    def problems(self, value: Any, place: str) -> Iterator[str]:
        return self.resolved().problems(value, place)


def _is_deep(form: Form) -> bool:
    return isinstance(form, List | Object | AnyOf | All | Ref)


ANYTHING: Final = Form()
KINDS: Final[dict[str, Form]] = {
    "string": Kind("text", str),
    "integer": Kind("a whole number", int),
    "number": NumberForm("a number", int, float),
    "boolean": Kind("true or false", bool),
    "null": Kind("null", NoneType),
}


class _Reading:
    """Makes forms from a schema."""

    def __init__(self, definitions: Json) -> None:
        self._definitions = definitions
        self._made: dict[str, Form] = {}

    def named(self, name: str) -> Form:
        if name not in self._made:
            self._made[name] = self.form(self._definitions[name])
        return self._made[name]

    def form(self, schema: Any) -> Form:
        if not isinstance(schema, dict):
            return ANYTHING
        name = referred(schema) if "$ref" in schema else None
        if name is not None:
            return Ref(self, name) if name in self._definitions else ANYTHING
        parts: list[Form] = [self.form(each) for each in schema.get("allOf", ())]
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            parts.append(AnyOf([self.form(each) for each in branches]))
        parts += self._own(schema)
        return All(parts) if len(parts) > 1 else parts[0] if parts else ANYTHING

    def _own(self, schema: Json) -> Iterator[Form]:
        if "const" in schema or "enum" in schema:
            yield Choice([schema["const"]] if "const" in schema else schema["enum"])
            return
        kinds = schema.get("type")
        if isinstance(kinds, str):
            yield self._kind(kinds, schema)
        elif isinstance(kinds, list):
            yield AnyOf([self._kind(each, schema) for each in kinds])

    def _kind(self, kind: str, schema: Json) -> Form:
        if kind == "array":
            first = [self.form(each) for each in schema.get("prefixItems", ())]
            return List(first, self.form(schema.get("items")), schema.get("uniqueItems") is True)
        if kind == "object":
            return self._object(schema)
        spelling = SPELLINGS.get(schema.get("format", "")) if kind == "string" else None
        return TextForm(spelling) if spelling is not None else KINDS.get(kind, ANYTHING)

    def _object(self, schema: Json) -> Form:
        members = {name: self.form(each) for name, each in schema.get("properties", {}).items()}
        more = schema.get("additionalProperties")
        closed = more is False and "patternProperties" not in schema
        return Object(members, schema.get("required", ()), None if closed else self.form(more), self._names(schema))

    def _names(self, schema: Json) -> Form:
        """Return the form of an object's keys.

        Keys are texts, so a schema for keys need not say so. A pattern that we generate for keys is their spelling.
        """
        said = schema.get("propertyNames")
        if not isinstance(said, dict) or "$ref" in said:
            return self.form(said)
        spelling = SPELLINGS.get(said.get("format", ""))
        if spelling is not None:
            return TextForm(spelling)
        if isinstance(pattern := said.get("pattern"), str) and pattern in NAMES.values():
            return TextForm(Spelling(f"text like {pattern}", _matches(pattern)))
        return self.form(said)


NAMES: Final = {
    "int": "^(0|-?[1-9][0-9]*)$",
    "bool": "^(true|false)$",
    "float": r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?(e[+-][0-9]+)?$",
    "decimal": f"^{DECIMAL}$",
}
"""The patterns of object keys that stand for values of another type."""


def form_of(schema: Json) -> Form:
    """Return the form of the JSON that a schema accepts."""
    definitions = schema.get("$defs")
    return _Reading(definitions if isinstance(definitions, dict) else {}).form(schema)
