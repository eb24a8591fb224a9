"""Text from models, users and tools as HTML in which nothing hides.

A character that a reader cannot see, or that reorders what is seen, is spelled out as a marked element. Nothing is
removed, and everything else is escaped.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

from markupsafe import Markup, escape

MOST_MARKS = 2000
"""The most marked elements in one text. A text with more is shown with JSON escapes instead."""
SHORT_NAMES = {
    "\u00a0": "no-break space",
    "\u00ad": "soft hyphen",
    "\u061c": "Arabic letter mark",
    "\u200b": "zero width space",
    "\u200c": "zero width non-joiner",
    "\u200d": "zero width joiner",
    "\u200e": "left-to-right mark",
    "\u200f": "right-to-left mark",
    "\u2028": "line separator",
    "\u2029": "paragraph separator",
    "\u202a": "left-to-right embedding",
    "\u202b": "right-to-left embedding",
    "\u202c": "end of direction",
    "\u202d": "left-to-right override",
    "\u202e": "right-to-left override",
    "\u2060": "word joiner",
    "\u2066": "left-to-right isolate",
    "\u2067": "right-to-left isolate",
    "\u2068": "first strong isolate",
    "\u2069": "end of isolate",
    "\ufeff": "byte order mark",
    "\x00": "null",
    "\x07": "bell",
    "\x08": "backspace",
    "\r": "carriage return",
    "\n": "line break",
    "\t": "tab",
    "\x1b": "escape",
    "\x7f": "delete",
}
HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-"
    "\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U00013438\U0001bca0-"
    "\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
)
"""The characters that show nothing or reorder others, as ranges of a regular expression; a test derives them again."""
_PLAIN = re.compile(r"[ -~\n\t]*\Z")
_ACCENT = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_PILED = f"(?<={_ACCENT}{{3}}){_ACCENT}"  # no language needs more upon one letter
_CHAR = re.compile(f"[{HIDDEN}]")
_IN_LINES = re.compile(f"([{HIDDEN}]|{_PILED})\\1*")
_IN_LINE = re.compile(f"([{HIDDEN}\n\t]|{_PILED})\\1*")


PIECE = 100_000
"""The characters of a text that are looked at at once: the interpreter's lock is held meanwhile."""


def _is_plain(text: str) -> bool:
    """Return True if a text has nothing but printable ASCII, line breaks and tabs."""
    return all(_PLAIN.match(text, n, n + PIECE) for n in range(0, len(text), PIECE))


def is_hidden(char: str) -> bool:
    """Return True if a character shows nothing by itself, or changes how others are shown."""
    return bool(_CHAR.match(char))


def name_of(char: str) -> str:
    """Return a character's number and name: "U+202E right-to-left override"."""
    name = SHORT_NAMES.get(char) or unicodedata.name(char, "control" if ord(char) < 0xA0 else "private").lower()
    return f"U+{ord(char):04X} {name}"


def hidden_in(text: str) -> list[str]:
    """Return the names of the hidden characters in a text, each once; line breaks and tabs are not hidden."""
    if _is_plain(text):
        return []
    return [name_of(char) for char in dict.fromkeys(run[0] for _, run in _parts(text, lines=True) if run)]


def _parts(text: str, *, lines: bool) -> Iterator[tuple[str, str]]:
    """Yield the text in parts: seen text and the run of hidden characters after it."""
    at = 0
    for found in (_IN_LINES if lines else _IN_LINE).finditer(text):
        if not _emoji(text, found.start()):
            yield text[at : found.start()], found[0]
            at = found.end()
    yield text[at:], ""


def _emoji(text: str, n: int) -> bool:
    """Return True for the joiner or selector of an ordinary emoji: it stands right after a symbol."""
    if text[n] not in "\u200d\ufe0f" or n == 0:
        return False
    before = text[n - 1]
    after = text[n + 1 : n + 2]
    if text[n] == "\ufe0f":
        return unicodedata.category(before) == "So"
    return (before == "\ufe0f" or unicodedata.category(before) in ("So", "Sk")) and (
        bool(after) and unicodedata.category(after) == "So"
    )


def escaped(text: str) -> str:
    """Return the text with JSON escapes for everything that is not plain ASCII; line breaks stay."""
    return "\n".join(json.dumps(line)[1:-1].replace('\\"', '"') for line in text.split("\n"))


def visible(text: object, *, lines: bool = False) -> Markup:
    """Return text as HTML with its hidden characters spelled out; with `lines`, line breaks and tabs stay."""
    words = str(text)
    if _is_plain(words) and (lines or ("\n" not in words and "\t" not in words)):
        return escape(words)
    parts = list(_some(words, lines=lines))
    if len(parts) > MOST_MARKS:
        note = f"shown with escapes: it has more than {MOST_MARKS:,} hidden characters"
        return Markup('<u class="ch">{}</u>{}').format(note, escaped(words))
    return Markup("").join([_marked(seen, run) for seen, run in parts])


def _some(text: str, *, lines: bool) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(_parts(text, lines=lines)):
        yield part
        if number > MOST_MARKS:
            return


def _marked(seen: str, run: str) -> Markup:
    if not run:
        return escape(seen)
    times = f" ×{len(run):,}" if len(run) > 1 else ""
    return Markup('{}<u class="ch">{}{}</u>').format(seen, name_of(run[0]), times)
