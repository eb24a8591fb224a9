"""The ranges of numbers that users may give. Journals, timers and database columns can all hold them.

A number is checked where it is given, with the error of that place, so that no number overflows later.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

LARGEST = 2**63 - 1
"""The largest integer that a database column can hold."""
LONGEST_SECONDS = 100 * 366 * 24 * 60 * 60
"""The longest duration in seconds, a hundred years: timers, and times in milliseconds, can hold it."""

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
"""A whole number in a fact."""
Time = Annotated[int, Meta(ge=0, le=LARGEST // 2)]
"""Milliseconds in a fact. A database column can still hold the sum of two."""


def is_count(value: Any, least: int = 1) -> bool:
    """Return True if the value is an integer in range."""
    return type(value) is int and least <= value <= LARGEST


def is_seconds(value: Any, least: float = 0) -> bool:
    """Return True if the value is a number of seconds in range; NaN is not."""
    return type(value) in (int, float) and least <= value <= LONGEST_SECONDS


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: "1 turn", "2 turns"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
