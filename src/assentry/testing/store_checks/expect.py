"""Assertions for the checks: each takes the sentence of the rule that a store breaks."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, structs

from ...core.facts import AnyFact
from ...store.row_codec import pack

E = TypeVar("E", bound=Exception)
T = TypeVar("T")


def alike(found: Any, expected: Any, sentence: str) -> None:
    """Raise `AssertionError` with this sentence unless the two values are equal."""
    if found != expected:
        found, expected = _difference(found, expected)
        raise AssertionError(f"{sentence} It gave {found!r:.300}, not {expected!r:.300}.")


def _difference(found: Any, expected: Any) -> tuple[Any, Any]:
    """Return the first differing parts of two records, or of two lists or tuples of one length; else both values."""
    if type(found) is not type(expected):
        return found, expected
    if isinstance(found, Struct):
        found, expected = (structs.asdict(each) for each in (found, expected))
        pairs = [({name: value}, {name: expected[name]}) for name, value in found.items()]
    elif isinstance(found, list | tuple) and len(found) == len(expected):
        pairs = list(zip(found, expected, strict=True))
    else:
        return found, expected
    different = next((pair for pair in pairs if pair[0] != pair[1]), None)
    return _difference(*different) if different is not None else (found, expected)


def true(holds: object, sentence: str) -> None:
    """Raise `AssertionError` with this sentence unless the value is true."""
    if not holds:
        raise AssertionError(sentence)


async def raises(kind: type[E], work: Awaitable[Any], sentence: str) -> E:
    """Await the work and return its error; raise `AssertionError` with this sentence if there is no such error."""
    try:
        found = await work
    except kind as error:
        return error
    except Exception as error:
        raise AssertionError(f"{sentence} It raised {error!r:.300}, not {kind.__name__}.") from error
    raise AssertionError(f"{sentence} It gave {found!r:.300}, and did not raise {kind.__name__}.")


def only(found: Sequence[T], sentence: str) -> T:
    """Return the only item; raise `AssertionError` with this sentence if there are none or several."""
    if len(found) != 1:
        raise AssertionError(f"{sentence} It gave {list(found)!r:.300}.")
    return found[0]


def same_facts(found: list[AnyFact], expected: list[AnyFact], sentence: str) -> None:
    """Raise `AssertionError` with this sentence unless the facts are the same to the last byte."""
    alike([(type(fact), pack(fact)) for fact in found], [(type(fact), pack(fact)) for fact in expected], sentence)
