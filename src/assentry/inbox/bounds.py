"""The number of values of a JSON text that the inbox reads: in a request, for a page, a list or a headline."""

from __future__ import annotations

import re

MOST_READ = 50_000
"""About the most values of a JSON text that the inbox reads.

The parser holds Python's interpreter lock until it is done: more values would stop the whole process meanwhile.
"""
_PIECE = re.compile(r'(?:[^"\\]{1,1000}|\\.){0,100}', re.DOTALL)
"""A piece of a JSON string, without the quotes. A longer match would hold the interpreter lock, too."""


def is_too_long(text: str) -> bool:
    """Return True if a JSON text has more values than are read. A long string is one value, whatever is in it."""
    if len(text) <= MOST_READ or _marks(text, 0, len(text)) <= MOST_READ:
        return False
    count = at = 0
    while (quote := text.find('"', at)) >= 0:
        count += _marks(text, at, quote)
        at = _after_string(text, quote + 1)
        if count > MOST_READ:
            return True
    return count + _marks(text, at, len(text)) > MOST_READ


def refusal_of(what: str) -> str:
    """Return the words that refuse a JSON text that is too long."""
    return f"{what} has more than {MOST_READ:,} values, and the inbox reads no more. A long text is one value."


def _marks(text: str, start: int, end: int) -> int:
    return sum(text.count(mark, start, end) for mark in ",[{")


def _after_string(text: str, at: int) -> int:
    """Return the place after the string that begins here; the end of the text if the string has no end."""
    while (piece := _PIECE.match(text, at)) and piece.end() > at:
        at = piece.end()
    return at + 1
