"""The range of numbers that users give: what a journal, a timer and a column of a database can all hold.

A number is checked where it is given, with the error of that place, so that none overflows later on.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

LARGEST = 2**63 - 1
"""The largest whole number that a column can hold."""
LONGEST = 100 * 366 * 24 * 60 * 60
"""The longest time in seconds, a hundred years: timers, and times in milliseconds, can hold it."""

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
"""A number in a fact."""
Time = Annotated[int, Meta(ge=0, le=LARGEST // 2)]
"""Milliseconds in a fact; two of them added up are still a number that a column can hold."""


def is_count(value: Any, least: int = 1) -> bool:
    """True for a whole number in range."""
    return type(value) is int and least <= value <= LARGEST


def is_seconds(value: Any, least: float = 0) -> bool:
    """True for a number of seconds in range; NaN is not."""
    return type(value) in (int, float) and least <= value <= LONGEST
