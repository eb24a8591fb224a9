"""Days and times that people write, as milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_FORM = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?Z?)?", re.ASCII)


def read_moment(text: str) -> int:
    """Return the time of a day or of a time of day in UTC, such as "2026-11-18" or "2026-11-18T09:30".

    Raises `ValueError` if it is neither, or before 1970.
    """
    if not _FORM.fullmatch(text):
        raise ValueError(text)
    at = int(datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC).timestamp() * 1000)
    if at < 0:
        raise ValueError(text)
    return at
