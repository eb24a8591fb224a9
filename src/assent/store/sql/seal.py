"""Seals of question rows: hashes of what is shown, checked whenever a row is read.

A row is shown to people without its journal, which may be long. The seal finds a row that was changed by hand or by a
fault. Somebody who also makes the seal anew is found where the journal is read: `Store.decide` and `Store.verify`
compare the row with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from ..record import Question

LENGTH = 32
"""Characters of a seal."""
ENDS = ("verdict", "by", "decided")
ASKED = tuple(name for name in Question.__struct_fields__ if name not in ENDS)
"""The columns that the first seal covers."""

_encode = msgspec.json.Encoder().encode


def asked_seal(columns: Mapping[str, Any]) -> str:
    """Seal what is asked, as it stands in the columns; `run` is the run's id, not its number."""
    return _seal([columns[name] for name in ASKED])


def ended_seal(columns: Mapping[str, Any]) -> str | None:
    """Seal how a question ended; None while it is open."""
    if columns["verdict"] is None:
        return None
    return _seal([columns["id"], *(columns[name] for name in ENDS)])


def _seal(values: list[Any]) -> str:
    # Postgres keeps no character 0 in a text, and has another one in its place.
    plain = [value.replace("\0", "\ufffd") if type(value) is str else value for value in values]
    return sha256(_encode(plain)).hexdigest()[:LENGTH]


def is_sealed(columns: Mapping[str, Any]) -> bool:
    """Return True if a row is as it was written."""
    try:
        return (columns["asked_seal"], columns["ended_seal"]) == (asked_seal(columns), ended_seal(columns))
    except (TypeError, ValueError):  # text that UTF-8 cannot hold, or a value that JSON cannot
        return False
