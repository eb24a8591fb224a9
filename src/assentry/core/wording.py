"""Text for people: short descriptions of values and errors in messages, and text that UTF-8 can hold.

What JSON means is not decided here: see `digest`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def clean_text(value: str) -> tuple[str, int]:
    """Return the text with U+FFFD for characters that UTF-8 cannot hold, and the number of replacements."""
    if value.isascii():
        return value, 0
    try:
        value.encode()
        return value, 0
    except UnicodeEncodeError:
        joined = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return joined, joined.count("\ufffd") - value.count("\ufffd")


def holds(value: str) -> bool:
    """Return True if UTF-8 can hold the text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def shortened(words: str, limit: int = 80) -> str:
    """Return the text; if it is longer than `limit`, its beginning and its length."""
    return words if len(words) <= limit else f"{words[:limit]}... ({len(words)} characters)"


def described(value: Any, limit: int = 80) -> str:
    """Return a short `repr` of a value for a message; the name of its type if `repr` fails."""
    try:
        return clean_text(shortened(repr(value), limit))[0]
    except Exception:
        return f"a {type(value).__name__}"


def edit_words(ran: Iterable[tuple[str, str]]) -> str:
    """Return the words for the model about a call that a person changed; `ran` are the tools and the JSON that ran."""
    what = ", and ".join(f"{tool} {arguments}" for tool, arguments in ran)
    return f"A person changed this call before it ran. What ran was: {what}"


def worded(error: BaseException) -> str:
    """Return an exception's type and text for a message; only its type if `str` fails."""
    try:
        words = str(error)
    except Exception:
        words = ""
    name = type(error).__name__
    return clean_text(f"{name}: {words}" if words else name)[0]


def install_hint(extra: str) -> str:
    """Return the command that installs an extra, for a message about a library that is missing."""
    return f'pip install ".[{extra}]", in the folder of Assentry\'s source'
