"""Binding: JSON becomes values of a type, and nothing is changed on the way.

    JSON ── its schema, to the letter ──► pydantic ── compared with the JSON ──► value

JSON that the schema does not describe is refused, so an argument means the same to a model, a person, a rule and a
body. A validator that the user wrote is called with JSON that fits the schema, and may return anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import to_json

from ..errors import InvalidArguments
from .form import PROBLEM, Form, at, form_of, got, join_problems, short
from .unchanged import UserCode, find_change, user_code


class Binding(Struct, frozen=True, eq=False):
    """A reader of JSON for one type."""

    form: Form
    code: UserCode
    validate: Callable[..., Any]

    @classmethod
    def of(cls, json_schema: dict[str, Any], core_schema: Any, validate_json: Callable[..., Any]) -> Binding:
        """Make the binding of a type from its JSON schema, its core schema and pydantic's JSON validator."""
        return cls(form_of(json_schema), user_code(core_schema), validate_json)

    def read(self, given: Any, whole: str = "arguments") -> Any:
        """Return a value that says the same as the JSON, or raise `InvalidArguments`."""
        text, value = encoded(given, whole), None
        try:
            wrong = "" if self.form.fits(given) else join_problems(_placed(self.form.problems(given, ""), whole))
            if not wrong:
                # A user's validator that runs first returns Python values; there strict mode refuses a text for a date.
                value = self.validate(text, strict=None if self.code.reads else True)
                changed = find_change(given, value, self.code)
                wrong = join_problems(_placed(iter([changed]), whole)) if changed is not None else ""
        except ValidationError as error:
            raise InvalidArguments(problems(error, whole)) from None
        except Exception as error:  # a user's validator may raise anything
            raise InvalidArguments(f"{whole}: {short(f'{type(error).__name__}: {error}', PROBLEM)}") from error
        if wrong:
            raise InvalidArguments(wrong)
        return value


def _placed(problems: Iterator[str], whole: str) -> Iterator[str]:
    """Put the name of the whole in front of each problem that has no place in it."""
    return (each.replace('"": ', f"{whole}: ", 1) if each.startswith('"": ') else each for each in problems)


def encoded(given: Any, whole: str = "arguments") -> bytes:
    """Return a value as JSON text, or raise `InvalidArguments`.

    Pydantic validates text as JSON: then lists may become tuples, and texts dates, in every mode.
    """
    try:
        text = to_json(given)
        if b"NaN" in text or b"Infinity" in text:  # not allowed as numbers; harmless in a text
            json.dumps(given, allow_nan=False)
    except Exception as error:
        raise InvalidArguments(f"{whole}: not JSON ({short(str(error), PROBLEM)})") from error
    return text


# Error messages


def problems(error: ValidationError, whole: str = "arguments") -> str:
    """Describe the problems and their places in a few hundred characters; `whole` stands for a missing place."""
    found = error.errors(include_url=False, include_context=False)
    return join_problems(_problem_in_words(each, whole) for each in found)


def _problem_in_words(each: Any, whole: str) -> str:
    words, place = each["msg"], path_of(each["loc"])
    if each["type"] not in ("value_error", "assertion_error", "missing", "extra_forbidden") and _is_json(each["input"]):
        words = f"{words}, got {got(each['input'])}"
    return at(place, words) if place else f"{whole}: {words}"


def _is_json(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool, list, dict)


def path_of(location: tuple[int | str, ...]) -> str:
    """Return a place in JSON as a path: `who[1].street`."""
    path = "".join(f"[{each}]" if type(each) is int else f".{each}" for each in location)
    return path.removeprefix(".")
