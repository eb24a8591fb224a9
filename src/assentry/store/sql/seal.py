"""Seals of rows. The seal of a question is a hash of what people are shown, checked whenever the row is read.

A question is shown without reading its journal, which may be long. The seal reveals a row that was changed by hand or
by a fault. A change by somebody who also recomputes the seal is found by `Store.decide` and `Store.verify`, which
compare the row with the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from ..record import Question

LENGTH = 32
"""The number of characters of a seal."""
ENDS = ("verdict", "by", "decided")
LATER = ("reviewers", "redact", "started_by", "preview", "risk")
"""The columns that came later. A seal covers those that are set, so that earlier seals hold."""
ENDS_LATER = ("shown", "looked")
"""The columns of the end that came later."""
ASKED = tuple(name for name in Question.__struct_fields__ if name not in (*ENDS, *LATER, *ENDS_LATER))
"""The columns that `asked_seal` always covers."""

_encode = msgspec.json.Encoder().encode


def asked_seal(columns: Mapping[str, Any]) -> str:
    """Return the seal of a question's content, from its columns; `run` is the run's id, not its number."""
    return seal_of_columns([*(columns[name] for name in ASKED), *_set(columns, LATER)])


def _set(columns: Mapping[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Return the name and the value of each of these columns that is set."""
    return [part for name in names if columns[name] is not None for part in (name, columns[name])]


def ended_seal(columns: Mapping[str, Any]) -> str | None:
    """Return the seal of a question's end; None while the question is open."""
    if columns["verdict"] is None:
        return None
    return seal_of_columns([columns["id"], *(columns[name] for name in ENDS), *_set(columns, ENDS_LATER)])


def seal_of_columns(values: list[Any]) -> str:
    """Return the seal of some columns."""
    text = _encode(values)
    if b"\\u0000" in text:  # Postgres cannot hold the character 0; the store writes U+FFFD instead
        text = _encode([value.replace("\0", "\ufffd") if type(value) is str else value for value in values])
    return sha256(text).hexdigest()[:LENGTH]


def is_sealed(columns: Mapping[str, Any]) -> bool:
    """Return True if a row matches its seals."""
    try:
        return (columns["asked_seal"], columns["ended_seal"]) == (asked_seal(columns), ended_seal(columns))
    except (TypeError, ValueError):  # text that UTF-8 cannot hold, or a value that JSON cannot
        return False
