"""The tokens of a command line, checked against bash's own rules.

Bash reads a text from left to right, and knows the end of a token by its characters alone. So a grammar has read the
same tokens as bash if nothing but blanks is between them, and if no two that touch could be one token. A command begins
where bash expects one, and nowhere else. Both are tables here, of what is certain; all else is unclear.
"""

from __future__ import annotations

import re
from typing import Literal

from ..errors import UnclearCommand

Kind = Literal["word", "number", "redirect", "operator", "open", "close", "opening", "closing"]

COMMENT = re.compile(r"#[^\n\\]*")
BLANK = re.compile(r"(?:[ \t]+(?:\\\n[ \t]*)*)?")
"""Text between the tokens of a line. A line goes on only after a blank, so that no words are joined."""
BLANK_LINES = re.compile(r"[ \t]*\n[ \t\n]*")

STRUCTURE: dict[str, Kind] = {
    **dict.fromkeys((";", "&", "&&", "||", "|", "|&"), "operator"),
    "(": "open",
    ")": "close",
    **dict.fromkeys(("if", "then", "else", "elif", "while", "until", "do", "{", "!"), "opening"),
    **dict.fromkeys(("fi", "done", "}"), "closing"),
}
COPIES = frozenset({">&", "<&"})
REDIRECTS = COPIES | {"<", ">", ">>", ">|", "&>", "&>>"}

EXPECTING = frozenset({"operator", "open", "opening"})
"""The tokens after which bash expects a command."""
ENDED = frozenset({"word", "close", "closing"})
"""The tokens after which a command may be over."""
AFTER: dict[str, frozenset[str]] = {
    "begin": EXPECTING,
    "open": EXPECTING,
    "opening": EXPECTING,
    "closing": frozenset({"operator"}),  # else it would be a word
    "close": ENDED | {"operator"},
    "operator": ENDED,
    "word": frozenset({"word", "redirect"}),
    "number": ENDED,
    "redirect": ENDED | {"number"},
}
"""The tokens that each may follow in one line; `begin` is any that begins a simple command."""
TOUCHING = {
    ("word", "operator"),
    ("word", "close"),
    ("word", "redirect"),
    ("close", "operator"),
    ("close", "close"),
    ("closing", "operator"),
    ("closing", "close"),
    ("operator", "word"),
    ("operator", "close"),
    ("open", "word"),
    ("redirect", "word"),
    ("number", "redirect"),
}
"""The tokens that stay two without a blank between them."""


class Tokens:
    """The tokens of one level of a command line, in the order of the text."""

    def __init__(self, source: str, start: int, nested: bool) -> None:
        self.source = source
        self.at = start
        self.last: Kind = "operator"  # at the start, as after an operator, a command is expected
        self.text = ""
        self.started = False
        self.nested = nested
        self.in_comment = False

    def structure(self, start: int, end: int) -> None:
        """Take an operator, a parenthesis or a reserved word."""
        kind = STRUCTURE.get(self.source[start:end])
        if kind is None:
            raise self._unclear(start, end)
        self.add(kind, start, end)

    def comment(self, start: int, end: int) -> None:
        """Take a comment. It must be seen to begin, and to end with its line."""
        gap = self._gap(start)
        text = self.source[start:end]
        if self.nested or not COMMENT.fullmatch(text) or (self.started and not gap) or "\\" in gap:
            raise self._unclear(start, end)
        if "\n" in gap:
            self.last = "operator"
        self.at, self.in_comment, self.started = end, True, True

    def add(self, kind: Kind, start: int, end: int, begins: bool = False) -> None:
        """Take a token. `begins` marks the first one of a simple command."""
        gap = self._gap(start)
        text = self.source[start:end]
        last: Kind = "operator" if BLANK_LINES.fullmatch(gap) else self.last
        if last not in AFTER["begin" if begins else kind]:
            raise self._unclear(start, end)
        if self.started and not gap and not self._stay_two(kind):
            raise self._unclear(start, end)
        if kind == "redirect" and text not in REDIRECTS:
            raise self._unclear(start, end)
        if self.last == "redirect" and self.text in COPIES and not text.isdigit():
            raise self._unclear(start, end)  # bash reads a `-` here as a token of its own
        self.last, self.text, self.at, self.in_comment, self.started = kind, text, end, False, True

    def end(self, end: int) -> None:
        """Check the text after the last token."""
        if self.source[self.at : end].strip(" \t\n"):
            raise self._unclear(self.at, end)
        if self.last in ("number", "redirect"):
            raise self._unclear(self.at, end)

    def _stay_two(self, kind: Kind) -> bool:
        """Return True if bash cannot take the last token and one of this kind, which touch, for one token."""
        if kind == "redirect" and self.last == "word" and self.text.isdigit():
            return False  # bash takes it for a descriptor
        return (self.last, kind) in TOUCHING

    def _gap(self, upto: int) -> str:
        """Return the blanks before a token."""
        gap = self.source[self.at : upto]
        if upto < self.at or not (BLANK.fullmatch(gap) or BLANK_LINES.fullmatch(gap)):
            raise self._unclear(self.at, upto)
        if self.in_comment and not gap.startswith("\n"):
            raise self._unclear(self.at, upto)
        return gap

    def _unclear(self, start: int, end: int) -> UnclearCommand:
        near = self.source[start : end + 20]
        return UnclearCommand(f"The command line cannot be read for certain near {near[:40]!r}.")
