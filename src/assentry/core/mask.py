"""Masks for arguments that only a decider may see: replaced by name, and wherever their text is quoted.

Nothing here decides who may see what.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from .digest import BadJSON, canonical, parse_object

MASK = "[masked]"
"""The text in place of a masked value."""
SHORTEST = 4
"""The fewest characters of a value that is looked for inside of words and numbers; shorter ones are there by chance."""
_BEGINNING = 8
"""The characters of a value that are enough to find it, since messages quote only the beginning of a long text."""


def masked_object(args: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return arguments with the values of these names replaced."""
    return {name: MASK if name in names else value for name, value in args.items()}


def masked_text(arguments: str, names: Collection[str]) -> str:
    """Return the JSON text of arguments with the values of these names replaced.

    Text that is no JSON object is replaced as a whole, since nobody knows which part is which.
    """
    if not names:
        return arguments
    try:
        return canonical(masked_object(parse_object(arguments), names)).decode()
    except BadJSON:
        return json.dumps(MASK)


def secrets_of(args: dict[str, Any], names: Collection[str]) -> set[str]:
    """Return the texts in the values of these names, to be looked for elsewhere."""
    return {text for name in names if name in args for text in _texts(args[name]) if text.strip()}


def secrets_in(arguments: str, names: Collection[str]) -> set[str]:
    """Return `secrets_of` of a JSON text; nothing if the text is no JSON object."""
    try:
        return secrets_of(parse_object(arguments), names) if names else set()
    except BadJSON:
        return set()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value
    elif type(value) in (int, float):
        yield str(value)


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text without these secrets, whole or cut short, as they are or as JSON quotes them.

    A secret of fewer than `SHORTEST` characters is hidden where it is not part of a longer word or number: elsewhere
    it is there by chance, and hiding it would say so.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        once = json.dumps(secret, ensure_ascii=False)[1:-1]
        for form in dict.fromkeys((secret, once, json.dumps(once, ensure_ascii=False)[1:-1])):
            text = _without(text, form) if len(secret) >= SHORTEST else _alone(form).sub(MASK, text)
    return text


def _alone(secret: str) -> re.Pattern[str]:
    """Return the pattern of a short text where no letter goes on before or after its letters, no digit its digits."""
    return re.compile(f"{_joins(secret[0], '?<!')}{re.escape(secret)}{_joins(secret[-1], '?!')}")


def _joins(char: str, look: str) -> str:
    kind = r"\d" if char.isdigit() else r"[^\W\d_]" if char.isalpha() else ""
    return f"({look}{kind})" if kind else ""


def _without(text: str, secret: str) -> str:
    beginning, place, parts = secret[:_BEGINNING], 0, []
    while (found := text.find(beginning, place)) >= 0:
        end = found + len(beginning)
        while end - found < len(secret) and text[end : end + 1] == secret[end - found]:
            end += 1
        parts += [text[place:found], MASK]
        place = end
    return "".join([*parts, text[place:]])


def mask_secrets_in(value: Any, secrets: Collection[str]) -> Any:
    """Return a JSON value whose texts and numbers are without these secrets, at every depth."""
    if isinstance(value, str):
        return mask_secrets(value, secrets)
    if isinstance(value, dict):
        return {name: mask_secrets_in(each, secrets) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [mask_secrets_in(each, secrets) for each in value]
    return MASK if type(value) in (int, float) and str(value) in secrets else value
