"""Dates and times in forms: as a browser's pickers have them, and back in the form in which they were written.

A picker has no zone and no fraction of a second beyond three digits. So the zone stands beside it, as it was written,
and a value that a picker could not give back exactly is left to a plain text field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

PickedTimeKind = Literal["date", "date-time", "time"]

_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,3})?)?"
_DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_ZONE = r"(?P<zone>Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
_FORMS: dict[PickedTimeKind, re.Pattern[str]] = {
    "date": re.compile(rf"(?P<local>{_DATE})(?P<zone>)\Z"),
    "time": re.compile(rf"(?P<local>{_TIME}){_ZONE}\Z"),
    "date-time": re.compile(rf"(?P<local>{_DATE}T{_TIME}){_ZONE}\Z"),
}
_SECONDS = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}")


class PickedTime(Struct, frozen=True):
    """A date or time: what the picker has, and the zone beside it."""

    kind: PickedTimeKind
    local: str
    zone: str = ""

    def written(self) -> str | None:
        """Return the value as it is sent, with its seconds; None if it is no date or time."""
        local = self.local.strip()
        if self.kind != "date" and local and not _SECONDS.search(local):
            local += ":00"  # a picker leaves out seconds that are zero, and the format needs them
        text = f"{local}{self.zone.strip()}"
        return text if _FORMS[self.kind].match(text) else None


def picked_time_kind(plain: Mapping[str, Any]) -> PickedTimeKind | None:
    """Return the kind of date or time that a schema wants; None if it wants none."""
    kind = plain.get("format")
    return kind if plain.get("type") == "string" and kind in _FORMS else None


def picked_time_in(kind: PickedTimeKind, value: Any) -> PickedTime | None:
    """Return the date or time in a text; None if a picker would not give it back as it is."""
    found = _FORMS[kind].match(value) if isinstance(value, str) else None
    if found is None:
        return None
    made = PickedTime(kind, found["local"], found["zone"] or "")
    return made if made.written() == value else None
