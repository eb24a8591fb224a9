"""Conversion of Python values to the JSON of the journal."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw
from pydantic import BaseModel

from ..core.digest import BadJSON, canonical, plain
from ..core.wording import clean_text, described, holds
from ..errors import InvalidInput


def _hook(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else _text(value)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown as text>"


_encode = msgspec.json.Encoder(enc_hook=_hook).encode


def output_json(value: Any) -> tuple[Raw, str | None]:
    """Return the output of a tool or a model as JSON, and a note if characters had to be replaced."""
    try:
        return Raw(_encode(value)), None
    except UnicodeEncodeError:
        clean, count = _clean(msgspec.to_builtins(value, enc_hook=_hook, str_keys=True))
        return Raw(_encode(clean)), f"{count} characters that UTF-8 cannot hold were replaced by U+FFFD"
    except Exception:  # the value has no JSON form: record its text
        return output_json(_text(value))


def _clean(value: Any) -> tuple[Any, int]:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        pairs = [(_clean(k), _clean(v)) for k, v in value.items()]
        return {k[0]: v[0] for k, v in pairs}, sum(k[1] + v[1] for k, v in pairs)
    if isinstance(value, list | tuple):
        items = [_clean(v) for v in value]
        return [v for v, _ in items], sum(n for _, n in items)
    return value, 0


def question_json(value: Any) -> tuple[Raw, str]:
    """Return a question for a person as JSON, and as canonical text; raise `BadJSON` if it has no JSON form.

    The JSON keeps the order of keys. The text is the same each time, so that a body that asks again is recognized.
    Dates, numbers and data classes are converted as in a tool's output. Other objects are refused, since the text of an
    object may differ in the next process.
    """
    try:
        asked = plain(value)
    except BadJSON:
        asked = plain(_built(value))
    return Raw(_encode(asked)), canonical(asked).decode()


def _built(value: Any) -> Any:
    try:
        return msgspec.to_builtins(value, enc_hook=_dumped, str_keys=True, order="deterministic")
    except (BadJSON, RecursionError):
        raise
    except Exception as error:
        raise BadJSON(str(error)) from None


def _dumped(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise BadJSON(f"a value of type {type(value).__name__} is not JSON")


def input_json(value: Any) -> Raw:
    """Return a user's input as JSON: text, or a list of items. Raise `InvalidInput` for anything else."""
    if isinstance(value, str):
        if not holds(value):
            raise InvalidInput("The input holds text that UTF-8 cannot carry (a lone surrogate); remove it.")
        return Raw(_encode(str(value)))
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidInput(f"Input is text or a list of items (dicts), got {described(value)}.")
    try:
        return Raw(_encode(plain(value)))
    except BadJSON as error:
        raise InvalidInput(f"The input cannot be recorded: {error}.") from None
