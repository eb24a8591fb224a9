"""Text from models, users and tools as HTML in which nothing hides.

A character that a reader cannot see, or that reorders what is seen, is spelled out as a marked element. Nothing is
removed, and everything else is escaped.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from markupsafe import Markup, escape

from ..core.hidden import PIECE, hidden_parts, odd_letters
from ..definitions.preview import BREAKS
from .language import local_number, translate

MOST_MARKS = 2000
"""The most marked elements in one text. A text with more is shown with JSON escapes instead."""
SHORT_NAME = 100
"""The most characters of a name whose HTML is kept."""
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
UNNAMED = {"Co": "private", "Cs": "half of a character", "Cn": "unassigned"}
_PLAIN = re.compile(r"[ -~\n\t\u2192]*\Z")  # the page writes an arrow between a call and its result


def _is_plain(text: str) -> bool:
    """Return True if a text has nothing but printable ASCII, arrows, line breaks and tabs."""
    return all(_PLAIN.match(text, n, n + PIECE) for n in range(0, len(text), PIECE))


def character_name(char: str) -> str:
    """Return a character's number and name: "U+202E right-to-left override"."""
    unnamed = "control" if ord(char) < 0xA0 else UNNAMED.get(unicodedata.category(char), "unknown")
    name = SHORT_NAMES.get(char) or BREAKS.get(char) or unicodedata.name(char, unnamed).lower()
    return f"U+{ord(char):04X} {name}"


def hidden_characters(text: str) -> list[str]:
    """Return the names of the hidden characters in a text, each once; line breaks and tabs are not hidden."""
    if _is_plain(text):
        return []
    return [character_name(char) for char in dict.fromkeys(run[0] for _, run in hidden_parts(text, lines=True) if run)]


def escaped(text: str) -> str:
    """Return the text with JSON escapes for everything that is not plain ASCII; line breaks stay."""
    return "\n".join(json.dumps(line)[1:-1].replace('\\"', '"') for line in text.split("\n"))


def spell_out_hidden(text: object, *, lines: bool = False) -> Markup:
    """Return text as HTML with its hidden characters spelled out; with `lines`, line breaks and tabs stay."""
    words = str(text)
    if _is_plain(words) and (lines or ("\n" not in words and "\t" not in words)):
        return escape(words)
    parts = list(_some(words, lines=lines))
    if len(parts) > MOST_MARKS:
        return too_many_marks() + escaped(words)
    return Markup("").join([_marked(seen, run) for seen, run in parts])


def _some(text: str, *, lines: bool) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(hidden_parts(text, lines=lines)):
        yield part
        if number > MOST_MARKS:
            return


def too_many_marks() -> Markup:
    """Return the words before a text that is shown with escapes, as HTML."""
    note = translate("shown with escapes: it has more than {n} hidden characters", n=local_number(MOST_MARKS))
    return Markup('<u class="ch">{}</u>').format(note)


def has_many_marks(text: str) -> bool:
    """Return True if a text has more hidden characters than are marked one by one."""
    return not _is_plain(text) and sum(1 for _ in _some(text, lines=True)) > MOST_MARKS


def _marked(seen: str, run: str) -> Markup:
    if not run:
        return escape(seen)
    times = f" ×{local_number(len(run))}" if len(run) > 1 else ""
    return Markup('{}<u class="ch">{}{}</u>').format(seen, character_name(run[0]), times)


def shown_name(text: object) -> Markup:
    """Return the name of a tool or an agent as HTML; letters that look like others are followed by their own names."""
    name = str(text)
    return _short_name(name) if len(name) <= SHORT_NAME else _shown_name(name)


@lru_cache(1024)
def _short_name(name: str) -> Markup:
    """Return a name that a list may have in each of its rows; so short, it has no words in the reader's language."""
    return _shown_name(name)


def _shown_name(name: str) -> Markup:
    odd = odd_letters(name)
    warning = Markup('<u class="ch">not what it looks like: {}</u>').format(", ".join(map(character_name, odd)))
    return spell_out_hidden(name) + warning if odd else spell_out_hidden(name)
