"""JSON with one meaning: strict parsing, canonical text and digests.

Rules, people, digests and tools must all get the same value. Arguments are therefore parsed only here: a fast decoder
would keep the last of two equal keys, or accept NaN, and two readers would then see two different calls.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from .wording import described, shortened

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode
SHORT = 4096
"""The number of characters below which the fast decoder is tried first. Encoding its value must give the text back."""


class BadJSON(ValueError):
    """The text is not JSON that has one meaning."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise BadJSON(f"the key {described(twice)} occurs twice")
    return out


def _constant(name: str) -> Any:
    raise BadJSON(f"{name} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise BadJSON(f"the number {shortened(text, 40)} is too large")
    return value


DEPTH = 200
"""The limit of nesting in JSON: far more than anyone can read, and far less than the stack can hold."""


def _shallow(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH):
        level = [
            inner
            for each in level
            if type(each) in (dict, list)
            for inner in (each.values() if type(each) is dict else each)
        ]
        if not level:
            return
    raise BadJSON("it is nested too deeply")


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float)


def parse(text: str) -> Any:
    """Return the value of a JSON text, or raise `BadJSON`.

    Duplicate keys, NaN, Infinity and lone surrogates are refused.
    """
    if len(text) < SHORT and text.count("[") + text.count("{") <= DEPTH:
        try:
            value = _decode(text)
            if _encode(value) == text.encode():  # nothing was lost, so the strict parser would agree
                return value
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass  # the strict parser below finds the problem
    try:
        value = _decoder.decode(text)
        if "\\u" in text or not text.isascii():
            _encode(value)
        if text.count("[") + text.count("{") > DEPTH:
            _shallow(value)
        return value
    except BadJSON:
        raise
    except json.JSONDecodeError as error:
        raise BadJSON(f"{error.msg} at character {error.pos}") from None
    except UnicodeEncodeError:
        raise BadJSON("it holds half of a surrogate pair, which UTF-8 cannot carry") from None
    except RecursionError:
        raise BadJSON("it is nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        raise BadJSON(str(error)) from None


_pairs_only = json.JSONDecoder(object_pairs_hook=_pairs)


def check_keys(text: str) -> None:
    """Raise `BadJSON` if a key occurs twice in an object, at any depth: readers differ in which value they take."""
    try:
        _pairs_only.decode(text)
    except BadJSON:
        raise
    except RecursionError:
        raise BadJSON("it is nested too deeply") from None
    except ValueError as error:
        raise BadJSON(str(error)) from None


def parse_object(text: str) -> dict[str, Any]:
    """Return the value of a JSON text, or raise `BadJSON` if it is not an object."""
    value = parse(text)
    if type(value) is not dict:
        raise BadJSON(f"expected a JSON object, got {_KINDS[type(value)]}")
    return value


_KINDS = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}


def _ordered(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {k: _ordered(value[k]) for k in sorted(value, key=lambda k: k.encode("utf-16-be"))}
    if kind is list:
        return [_ordered(v) for v in value]
    return value


def canonical(value: Any) -> bytes:
    """Return the canonical JSON text of a value: keys in RFC 8785's order, no white space.

    Numbers are not rounded. RFC 8785 would round an integer above 2**53, and a person who sees a rounded order number
    would approve another order than the one that runs.
    """
    text = _encode_sorted(value)
    return text if text.isascii() else _encode(_ordered(value))  # the orders differ only outside ASCII


def same(one: Any, other: Any) -> bool:
    """Return True if two values have the same JSON text, as digests see it. 1, 1.0 and True all differ.

    A value that is no JSON equals nothing.
    """
    try:
        return canonical(one) == canonical(other)
    except (TypeError, ValueError, RecursionError):
        return False


def digest(value: dict[str, Any]) -> str:
    """Return the SHA-256 of the canonical text, in hex."""
    made: str = _sha256()(canonical(value)).hexdigest()
    return made


@functools.cache
def _sha256() -> Callable[[bytes], Any]:
    """Return the hash function, imported on first use: the import loads a library that only tools need."""
    from hashlib import sha256

    return sha256


def plain(value: Any) -> Any:
    """Return a copy of a user's value as plain JSON data, or raise `BadJSON` if JSON cannot express it."""
    try:
        copy = _plain(value)
        _encode(copy)
        _shallow(copy)
        return copy
    except RecursionError:
        raise BadJSON("it is nested too deeply, or holds itself") from None
    except UnicodeEncodeError:
        raise BadJSON("it holds half of a surrogate pair, which UTF-8 cannot carry") from None
    except ValueError as error:  # an integer of thousands of digits
        raise error if isinstance(error, BadJSON) else BadJSON(str(error)) from None


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is bool or kind is int or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else _constant(str(value))
    if isinstance(value, Mapping):
        if not all(type(key) is str for key in value):
            raise BadJSON("an object's keys must be text")
        return {key: _plain(value[key]) for key in value}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str):  # a subclass, such as an enum's member, becomes its plain text
        return str.__str__(value)
    if isinstance(value, int | float):
        return _plain(int(value) if isinstance(value, int) else float(value))
    raise BadJSON(f"a value of type {kind.__name__} is not JSON")
