"""The size of a JSON text that is still read for a page, a list or a headline."""

from __future__ import annotations

MOST_READ = 50_000
"""About the most values of a JSON text that a page reads.

The parser holds Python's interpreter lock until it is done: more values would stop the whole process meanwhile.
"""


def is_too_long(text: str) -> bool:
    """Return True if a JSON text may have more values than are read."""
    return len(text) > MOST_READ and text.count(",") + text.count("[") + text.count("{") > MOST_READ
