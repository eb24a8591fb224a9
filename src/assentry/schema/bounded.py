"""Checking values by JSON schemas of strangers, within bounds: no schema and no value makes a check take long.

A pattern is matched in linear time where it can be. What a check does is counted, and it ends when it did too much.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..core.digest import canonical
from .strict import referred

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from pydantic_core import SchemaValidator

Json = dict[str, Any]

STEPS = 250_000
"""The most steps of a check: a step is a keyword of the schema, looked at with one value."""
GROUP = 16
"""A keyword takes one step more for this many members of a list or an object that it looks at."""
QUOTED = 500
"""An error takes one step more for this many bytes of value and schema, as its message may quote all of them."""
SEARCHED = 200
"""A reference by name takes one step more for this many bytes of the schema, all of which may be searched."""
PATTERN_STEP = 1000
"""A pattern takes one step more for this product of its own size and the text's."""
LONGEST_PATTERN = 2000
_PARTS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+),?(\d*)\}|.", re.DOTALL)
"""The parts of a pattern: a character, a class of characters, or a count."""
_READ_OTHERWISE = re.compile(r"&&|--|~~|\[\^?\]?(?:\\.|[^\]\\])*\[|\\[<>z]")
"""Parts of a pattern that the two engines read differently: set operations, classes within classes, some escapes."""
UNBOUNDED = "what cannot be checked in bounded time: a pattern that looks around or refers back, or unevaluated..."
"""The parts that `without_unbounded` leaves out, in words."""
_UNCOUNTED = ("unevaluatedProperties", "unevaluatedItems")
"""Keywords that follow references without end, in one step."""


class TooMuchToCheck(Exception):
    """A check would take too long."""


class _Check:
    """The steps that a check has left."""

    def __init__(self, value: Any, schema: Any) -> None:
        self._left = STEPS
        size = len(canonical(schema))
        self.error = 1 + (len(canonical(value)) + size) // QUOTED
        """The steps of an error."""
        self.search = 1 + size // SEARCHED
        """The steps of a search for a name in the whole schema."""

    def spend(self, steps: int) -> None:
        """Take some steps, or raise `TooMuchToCheck`."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchToCheck("it would take too long to check this")


_check: ContextVar[_Check] = ContextVar("check")


def best_error(validator: Any, value: Any) -> Any:
    """Return the error that says most about a value; None if it fits. Raises `TooMuchToCheck` if that takes long.

    The validator is of a class of `bounded_validator`.
    """
    from jsonschema.exceptions import best_match

    token = _check.set(_Check(value, validator.schema))
    try:
        return best_match(validator.iter_errors(value))
    finally:
        _check.reset(token)


@functools.cache
def bounded_validator(kind: type[Validator]) -> Any:
    """Return a validator class of the same draft, whose checks are counted."""
    from jsonschema.validators import extend, validator_for

    own: dict[str, Any] = dict(kind.VALIDATORS)
    changed: dict[str, Any] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": functools.partial(_additional_properties, own.get("additionalProperties")),
        "uniqueItems": _unique_items,
    }
    own.update({name: check for name, check in changed.items() if name in own})
    counted = {name: _counted(name, check) for name, check in own.items()}
    made: Any = extend(kind, counted)  # type: ignore[no-untyped-call]
    fields = [(field.name, field.alias) for field in made.__attrs_attrs__ if field.init]

    def evolve(self: Any, **changes: Any) -> Any:
        """Return a validator for a part of the schema, counted too if that part is of another draft."""
        draft = validator_for(changes.get("schema", self.schema), kind)
        other = made if draft is kind else bounded_validator(draft)
        return other(**{alias: getattr(self, name) for name, alias in fields} | changes)

    made.evolve = evolve
    return made


def _counted(name: str, check: Callable[..., Iterable[Any] | None]) -> Callable[..., Iterator[Any]]:
    def counted(validator: Any, limit: Any, instance: Any, schema: Any) -> Iterator[Any]:
        count = _check.get()
        count.spend(1 + (_members(limit) + _members(instance)) // GROUP)
        if name in ("$ref", "$dynamicRef", "$recursiveRef") and not (limit == "#" or str(limit).startswith("#/")):
            count.spend(count.search)
        for error in check(validator, limit, instance, schema) or ():
            count.spend(count.error)
            yield error

    return counted


def _members(value: Any) -> int:
    return len(value) if type(value) in (list, dict) else 0


def check_json_schema(schema: Any) -> None:
    """Raise an error unless this is a JSON schema; `TooMuchToCheck` if it takes too long to tell."""
    from jsonschema import Draft202012Validator, FormatChecker, SchemaError
    from jsonschema.validators import validator_for

    kind = validator_for(schema, Draft202012Validator)
    formats = FormatChecker(formats=())
    formats.checks("regex")(is_pattern)
    meta = bounded_validator(validator_for(kind.META_SCHEMA, kind))
    if (error := best_error(meta(kind.META_SCHEMA, format_checker=formats), schema)) is not None:
        raise SchemaError.create_from(error)


# -- keywords ----------------------------------------------------------------------------------------


def _pattern(validator: Any, pattern: str, instance: Any, schema: Json) -> Iterator[Any]:
    from jsonschema import ValidationError

    if type(instance) is str and not _found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Json, instance: Any, schema: Json) -> Iterator[Any]:
    for pattern, inner in patterns.items() if type(instance) is dict else ():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(own: Any, validator: Any, rest: Any, instance: Any, schema: Json) -> Iterator[Any]:
    patterns = schema.get("patternProperties")
    if type(instance) is dict and patterns:
        known = {name for name in instance if any(_found(pattern, name) for pattern in patterns)}
        instance = {name: value for name, value in instance.items() if name not in known}
        schema = {name: value for name, value in schema.items() if name != "patternProperties"}
    yield from own(validator, rest, instance, schema) or ()


def _unique_items(validator: Any, unique: Any, instance: Any, schema: Json) -> Iterator[Any]:
    from jsonschema import ValidationError

    if unique is not True or type(instance) is not list:
        return
    count, seen = _check.get(), set[bytes]()
    for each in instance:
        text = canonical(_number_apart(each))
        count.spend(len(text) // QUOTED)
        seen.add(text)
    if len(seen) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _number_apart(value: Any) -> Any:
    """Return a value in which equal numbers are written in one way: JSON Schema takes 1 for 1.0."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is list:
        return [_number_apart(each) for each in value]
    return {name: _number_apart(each) for name, each in value.items()} if type(value) is dict else value


# -- patterns ----------------------------------------------------------------------------------------


def _found(pattern: str, text: str) -> bool:
    """Return True if a pattern is found in a text. One that has no linear form is a trusted author's."""
    count = _check.get()
    count.spend(1 + len(text) * _size(pattern) // PATTERN_STEP)
    linear = _linear(pattern)
    if linear is None:
        return re.search(pattern, text) is not None
    return bool(linear.isinstance_python(text))


@functools.lru_cache(1000)
def _linear(pattern: str) -> SchemaValidator | None:
    """Return a pattern for the engine that matches in linear time; None if it cannot, or would read it otherwise."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if len(pattern) > LONGEST_PATTERN or _READ_OTHERWISE.search(pattern):
        return None
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except SchemaError:
        return None


@functools.lru_cache(1000)
def _size(pattern: str) -> int:
    """Return about the number of parts that a pattern has when its repetitions are written out."""
    sizes, last = [0], 0
    for part in _PARTS.finditer(pattern):
        text = part[0]
        if text == "(":
            sizes.append(0)
            continue
        if part[1] is not None:  # as often as this, the part before it
            added = last * (max(1, int(part[2] or part[1])) - 1)
            last += added
        else:
            added = last = sizes.pop() if text == ")" and len(sizes) > 1 else 1
        sizes[-1] += added
    return 1 + sum(sizes)


def is_pattern(text: object) -> bool:
    """Return True unless this is text that no engine here reads as a pattern."""
    if type(text) is not str or _linear(text) is not None:
        return True
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def without_unbounded(schema: Any) -> Any:
    """Return a schema without the parts that cannot be checked within bounds. It lets more pass, and never less.

    These are patterns that look around or refer back, what other keywords leave over (`unevaluatedProperties`), and
    other drafts within.
    """
    return _without(schema, outermost=True)


def _without(schema: Any, *, outermost: bool = False) -> Any:
    if type(schema) is list:
        return [_without(each) for each in schema]
    if type(schema) is not dict:
        return schema
    out = {name: _without(each) for name, each in schema.items() if name not in _UNCOUNTED}
    if type(out.get("pattern")) is str and _linear(out["pattern"]) is None:
        del out["pattern"]
    if type(out.get("$schema")) is str and not outermost:
        del out["$schema"]
    patterns = out.get("patternProperties")
    if type(patterns) is dict and any(_linear(pattern) is None for pattern in patterns):
        del out["patternProperties"]
        out.pop("additionalProperties", None)
    return out


def is_small_schema(schema: Any, most: int = 10_000) -> bool:
    """Return True if a schema has at most so many parts when its references are written out; False if they go round."""
    definitions = schema.get("$defs") if type(schema) is dict else None
    left, open_ = most, [schema]
    while open_ and left > 0:
        left -= 1
        part = open_.pop()
        if type(part) is list:
            open_ += part
        elif type(part) is dict:
            open_ += [each for name, each in part.items() if name != "$defs"]
            if "$ref" in part:
                open_.append((definitions or {}).get(referred(part)))
            elif "$dynamicRef" in part or "$recursiveRef" in part:
                return False
    return not open_
