"""Texts as lines with their own line ends, edits of them, and the difference that a person is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

BOM = "\ufeff"
AROUND = 3
"""The number of unchanged lines around a change, in the diff for a person."""
NO_NEWLINE = "\\ No newline at end of file"


class LineEdit(Struct, frozen=True):
    """Lines of a text, from `start`, that are replaced by others."""

    start: int
    removed: int
    added: tuple[str, ...]


class PatchLine(Struct, frozen=True):
    """A line of the text before, after or in both."""

    sign: Literal[" ", "-", "+"]
    text: str
    end: str


class TextLines(Struct, frozen=True):
    """A text, cut into its lines."""

    texts: list[str]
    ends: list[str]
    """The line end of each line: LF or CRLF, or nothing for a last line that has none."""
    bom: bool = False

    @classmethod
    def of(cls, text: str) -> TextLines:
        """Cut a text into lines."""
        bom = text.startswith(BOM)
        pieces = text.removeprefix(BOM).split("\n")
        last = pieces.pop()
        texts = [piece.removesuffix("\r") for piece in pieces]
        ends = ["\r\n" if piece.endswith("\r") else "\n" for piece in pieces]
        return cls([*texts, last], [*ends, ""], bom) if last else cls(texts, ends, bom)

    def end_near(self, number: int) -> str:
        """Return the line end for a new line before the line of this number: that of a neighbour."""
        for near in (number - 1, number, number - 2):
            if 0 <= near < len(self.ends) and self.ends[near]:
                return self.ends[near]
        return "\n"


def apply_edits(old: TextLines, edits: list[LineEdit]) -> list[PatchLine]:
    """Return all lines before and after these edits, which are in order and do not overlap.

    A text without a line end at its end stays one, and a text with one too.
    """
    kept = list(_edited_lines(old, edits))
    bare = bool(old.ends) and not old.ends[-1]
    last = max((n for n, (_, sign, _) in enumerate(kept) if sign != "-"), default=-1)
    made: list[PatchLine] = []
    for n, (number, sign, text) in enumerate(kept):
        was = old.ends[number] if sign != "+" else ""
        if sign == "-":
            made.append(PatchLine("-", text, was))
            continue
        end = "" if bare and n == last else was or old.end_near(number)
        if sign == " " and end == was:
            made.append(PatchLine(" ", text, end))
        else:
            made.extend([PatchLine("-", text, was)] if sign == " " else [])
            made.append(PatchLine("+", text, end))
    return made


def _edited_lines(old: TextLines, edits: list[LineEdit]) -> Iterator[tuple[int, Literal[" ", "-", "+"], str]]:
    """Yield each line with its number in the old text; a new line has the number of the line that follows it."""
    cursor = 0
    for edit in edits:
        yield from ((n, " ", old.texts[n]) for n in range(cursor, edit.start))
        cursor = edit.start + edit.removed
        yield from ((n, "-", old.texts[n]) for n in range(edit.start, cursor))
        yield from ((cursor, "+", text) for text in edit.added)
    yield from ((n, " ", old.texts[n]) for n in range(cursor, len(old.texts)))


def join_lines(old: TextLines, lines: list[PatchLine]) -> str:
    """Return the text after the edits."""
    return (BOM if old.bom else "") + "".join(f"{line.text}{line.end}" for line in lines if line.sign != "-")


def unified_diff(before: str, after: str, lines: list[PatchLine]) -> str:
    """Return the changed lines as a unified diff, with the two names above it."""
    changed = [n for n, line in enumerate(lines) if line.sign != " "]
    parts = [f"--- {before}", f"+++ {after}"] if changed else []
    olds, news, done = 1, 1, 0
    for first, last in _hunks(changed, len(lines)):
        for line in lines[done:first]:
            olds, news = olds + (line.sign != "+"), news + (line.sign != "-")
        shown = lines[first:last]
        done = last
        were, are = sum(line.sign != "+" for line in shown), sum(line.sign != "-" for line in shown)
        parts.append(f"@@ -{_range(olds, were)} +{_range(news, are)} @@")
        for line in shown:
            parts.append(f"{line.sign}{line.text}")
            parts.extend([] if line.end else [NO_NEWLINE])
        olds, news = olds + were, news + are
    return "".join(f"{part}\n" for part in parts)


def _range(start: int, count: int) -> str:
    return f"{start - (count == 0)},{count}"


def _hunks(changed: list[int], size: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each stretch that is shown."""
    first = None
    for n, number in enumerate(changed):
        first = max(0, number - AROUND) if first is None else first
        following = changed[n + 1] if n + 1 < len(changed) else None
        if following is None or following - number > 2 * AROUND:
            yield first, min(size, number + 1 + AROUND)
            first = None
