"""JSON with one spelling: strict parsing, canonical text, digests, text that UTF-8 can hold.

What a rule judges, a person sees, a digest covers and a tool receives must be one value. So
arguments are parsed here and nowhere else: a fast decoder would keep the last of two equal keys,
or let NaN pass, and two readers would then see two different calls.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode
SHORT = 4096
"""Characters up to which it is worth a try to read a text fast, and see whether writing it gives it back."""


class BadJSON(ValueError):
    """The text is not JSON that has one meaning."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise BadJSON(f"the key {twice[:80]!r} occurs twice")
    return out


def _constant(name: str) -> Any:
    raise BadJSON(f"{name} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise BadJSON(f"the number {text[:40]} is too large")
    return value


DEPTH = 200
"""How deep JSON may be nested: far deeper than anyone can read, and far from what a stack can hold."""


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
    """The value of a JSON text, or `BadJSON`: no duplicate keys, no NaN or Infinity, no lone surrogates."""
    if len(text) < SHORT and text.count("[") + text.count("{") <= DEPTH:
        try:
            value = _decode(text)
            if _encode(value) == text.encode():  # nothing was dropped, rounded or replaced: both readers would agree
                return value
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass  # why, is said below
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
    """Raise `BadJSON` if a key occurs twice in an object of a JSON text, at any depth: readers take either."""
    try:
        _pairs_only.decode(text)
    except BadJSON:
        raise
    except RecursionError:
        raise BadJSON("it is nested too deeply") from None
    except ValueError as error:
        raise BadJSON(str(error)) from None


def parse_object(text: str) -> dict[str, Any]:
    """The value of a JSON text that must be an object."""
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
    """The one JSON text of a JSON value: keys in RFC 8785's order, no white space.

    Numbers keep what they are: RFC 8785 would round an integer above 2**53, and an order number
    that was shown rounded is not the one that runs.
    """
    text = _encode_sorted(value)
    return text if text.isascii() else _encode(_ordered(value))  # in ASCII all orders of text are one


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; 1 and True are not, nor are values that are no JSON."""
    try:
        return canonical(one) == canonical(other)
    except (TypeError, ValueError, RecursionError):
        return False


def digest(value: dict[str, Any]) -> str:
    """SHA-256 of the canonical text, in hex."""
    made: str = _sha256()(canonical(value)).hexdigest()
    return made


@functools.cache
def _sha256() -> Callable[[bytes], Any]:
    """Found when it is first needed: it loads a library of its own, and nobody needs it before there is a tool."""
    from hashlib import sha256

    return sha256


def text(value: str) -> tuple[str, int]:
    """The text with what UTF-8 cannot hold replaced by U+FFFD, and how many characters were."""
    if value.isascii():
        return value, 0
    try:
        value.encode()
        return value, 0
    except UnicodeEncodeError:
        joined = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return joined, joined.count("\ufffd") - value.count("\ufffd")


def holds(value: str) -> bool:
    """Whether UTF-8 can hold the text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(value: Any) -> Any:
    """A user's value as plain JSON data of its own, or `BadJSON`: what cannot be said in JSON is not let in."""
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
    if isinstance(value, str):  # a subclass, such as an enum's member, is what it holds
        return str.__str__(value)
    if isinstance(value, int | float):
        return _plain(int(value) if isinstance(value, int) else float(value))
    raise BadJSON(f"a value of type {kind.__name__} is not JSON")


def described(value: Any) -> str:
    """A value for a message: short, and whatever its `repr` does."""
    try:
        return text(f"{value!r:.80}")[0]
    except Exception:
        return f"a {type(value).__name__}"


def worded(error: BaseException) -> str:
    """An exception for a message: its type and its words, whatever its `str` does."""
    try:
        words = str(error)
    except Exception:
        words = ""
    name = type(error).__name__
    return text(f"{name}: {words}" if words else name)[0]
