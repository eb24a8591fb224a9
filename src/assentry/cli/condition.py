"""Conditions on arguments as they are written on a command line: `amount <= 50`, `path under /srv/out`."""

from __future__ import annotations

import re
from typing import Any

from msgspec.json import encode

from ..approval.condition import KINDS, BadCondition, Conditions, read_conditions
from ..core.digest import BadJSON, parse

SIGNS = {"<=": "at_most", ">=": "at_least", "<": "below", ">": "above", "=": "is"}
"""The signs, and the conditions that they stand for."""
_SIGNED = re.compile(r"\s*(?P<name>[^\s<>=]+)\s*(?P<sign><=|>=|<|>|=)\s*(?P<limit>.+?)\s*", re.DOTALL)
_WORDED = re.compile(r"\s*(?P<name>\S+)\s+(?P<kind>[a-z_]+)\s+(?P<limit>.+?)\s*", re.DOTALL)
_TEXTS = ("starts_with", "matches", "under")


def conditions_from(texts: list[str]) -> Conditions:
    """Return the conditions, or raise `BadCondition`. Several on one argument must all hold."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, kind, limit = _read(text)
        if kind in found.setdefault(name, {}):
            raise BadCondition(f"{name} has two conditions of the same kind")
        found[name][kind] = limit
    return read_conditions(found)


def conditions_text(where: Conditions | None) -> str:
    """Return conditions as they are written, or "any"."""
    signs = {kind: sign for sign, kind in SIGNS.items()}
    parts = [
        f"{name} {signs.get(kind, kind)} {limit if kind in _TEXTS else encode(limit).decode()}"
        for name, kinds in (where or {}).items()
        for kind, limit in kinds.items()
    ]
    return " and ".join(parts) or "any"


def _read(text: str) -> tuple[str, str, Any]:
    worded = _WORDED.fullmatch(text)
    if worded is not None and worded["kind"] in KINDS:
        kind = worded["kind"]
        return worded["name"], kind, worded["limit"] if kind in _TEXTS else _value(worded["limit"])
    signed = _SIGNED.fullmatch(text)
    if signed is None:
        kinds = ", ".join(KINDS)
        raise BadCondition(f"{text!r} is no condition: write 'amount <= 50' or 'path under /srv/out' ({kinds})")
    return signed["name"], SIGNS[signed["sign"]], _value(signed["limit"])


def _value(text: str) -> Any:
    """Return a limit: JSON, or else the text itself."""
    try:
        return parse(text)
    except BadJSON:
        return text
