"""The difference between two texts, by line and by word, at a cost that is bounded whatever the texts are.

`difflib` takes time that grows with the third power of the lines, for texts that somebody chose for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from .language import translate_count

MOST_LINES = 4_000
"""The most lines that are compared, after the beginning and the end that are alike."""
MOST_EDITS = 200
"""The most lines that are found to differ. If more do, all lines are shown as removed and added."""
WHOLE = 40
"""The number of lines of both texts from which only those around a change are shown."""
AROUND = 3
MOST_WORDS = 400
"""The most words of two lines that are compared."""
MOST_WORD_EDITS = 40
"""The most words that are found to differ. If more do, the words of the two lines are not compared."""
ALIKE = 0.3
"""The part of two lines that must be the same for their words to be compared; else the lines have nothing in common."""
_WORD = re.compile(r"\d[\d.,]*\d|\\u[0-9a-f]{4}|\w+|\s+|[^\w\s]")

Span = tuple[int, int]


class ChangedLine(Struct, frozen=True):
    """One line of a difference."""

    sign: str
    """"-" for a line that is gone, "+" for a new one, " " for one that stays, "@" for lines that are left out."""
    text: str
    marks: tuple[Span, ...] = ()
    """The beginnings and ends of the words that changed, if the line was compared with another one."""


def changed_lines(one: Sequence[str], two: Sequence[str]) -> list[ChangedLine]:
    """Return the difference between two texts, as lines; equal texts have none."""
    if one == two:
        return []
    start = _alike(one, two)
    end = _alike(one[start:][::-1], two[start:][::-1])
    old, new = one[start : len(one) - end], two[start : len(two) - end]
    made = _edited(old, new) if len(old) + len(new) <= MOST_LINES else None
    if made is None:
        made = [*(ChangedLine("-", line) for line in old), *(ChangedLine("+", line) for line in new)]
    same = [ChangedLine(" ", line) for line in one]
    every = [*same[:start], *_with_words(made), *same[len(one) - end :]]
    return every if len(one) + len(two) < WHOLE else _near(every)


def _alike(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the number of lines at the beginning that are alike."""
    count = 0
    for left, right in zip(one, two, strict=False):
        if left != right:
            break
        count += 1
    return count


def _edited(one: Sequence[str], two: Sequence[str]) -> list[ChangedLine] | None:
    """Return the shortest difference with removed lines before the added ones that stand in their place."""
    made = _shortest(one, two)
    if made is None:
        return None
    groups = [list(group) for _, group in groupby(made, key=lambda line: line.sign == " ")]
    return [line for group in groups for line in sorted(group, key=lambda line: line.sign == "+")]


def _with_words(lines: Iterable[ChangedLine]) -> list[ChangedLine]:
    """Return lines with their changed words marked: removed lines are compared with the added ones below them."""
    made: list[ChangedLine] = []
    for _, group in groupby(lines, key=lambda line: line.sign == " "):
        every = list(group)
        old = [line for line in every if line.sign == "-"]
        new = [line for line in every if line.sign == "+"]
        pairs = [_marked(*pair) for pair in zip(old, new, strict=False)] if len(old) + len(new) <= MOST_EDITS else []
        made += [line for line in every if line.sign == " "]
        if len(pairs) == len(old) == len(new) and all(left.marks or right.marks for left, right in pairs):
            made += [line for pair in pairs for line in pair]
        else:
            made += [left for left, _ in pairs] + old[len(pairs) :] + [right for _, right in pairs] + new[len(pairs) :]
    return made


def _marked(old: ChangedLine, new: ChangedLine) -> tuple[ChangedLine, ChangedLine]:
    """Return a removed and an added line with the words marked in which they differ."""
    one, two = _WORD.findall(old.text), _WORD.findall(new.text)
    if len(one) + len(two) > MOST_WORDS:
        return old, new
    found = _shortest(one, two, MOST_WORD_EDITS) or []
    same = sum(len(word.text) for word in found if word.sign == " ")
    if 2 * same < ALIKE * (len(old.text) + len(new.text)):
        return old, new
    return replace(old, marks=_spans(found, "-")), replace(new, marks=_spans(found, "+"))


def _spans(words: Iterable[ChangedLine], sign: str) -> tuple[Span, ...]:
    """Return the places of the words with a sign in their line; neighbours are one place."""
    made: list[Span] = []
    at = 0
    for word in words:
        if word.sign not in (sign, " "):
            continue
        if word.sign == sign:
            joined = bool(made) and made[-1][1] == at
            made[-1:] = [(made[-1][0], at + len(word.text))] if joined else [*made[-1:], (at, at + len(word.text))]
        at += len(word.text)
    return tuple(made)


def _shortest(one: Sequence[str], two: Sequence[str], most: int = MOST_EDITS) -> list[ChangedLine] | None:
    """Return the shortest difference; None if more than `most` lines differ.

    The greedy algorithm of Myers (1986): `far` has, for each diagonal, how far a path with so many edits comes.
    """
    far, trace = {1: 0}, []
    for edits in range(min(len(one) + len(two), most) + 1):
        trace.append(dict(far))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and far[k - 1] < far[k + 1])
            x = far[k + 1] if down else far[k - 1] + 1
            while x < len(one) and 0 <= x - k < len(two) and one[x] == two[x - k]:
                x += 1
            far[k] = x
            if x >= len(one) and x - k >= len(two):
                return _walked_back(one, two, trace)
    return None


def _walked_back(one: Sequence[str], two: Sequence[str], trace: list[dict[int, int]]) -> list[ChangedLine]:
    """Return the lines along the path that came to the end of both texts."""
    made: list[ChangedLine] = []
    x, y = len(one), len(two)
    for edits in range(len(trace) - 1, -1, -1):
        far, k = trace[edits], x - y
        down = k == -edits or (k != edits and far[k - 1] < far[k + 1])
        from_x = far[k + 1] if down else far[k - 1]
        from_y = from_x - (k + 1 if down else k - 1)
        while x > max(from_x, 0) and y > max(from_y, 0):
            x, y = x - 1, y - 1
            made.append(ChangedLine(" ", one[x]))
        if edits:
            x, y = from_x, from_y
            made.append(ChangedLine("+", two[y]) if down else ChangedLine("-", one[x]))
    return made[::-1]


def _near(every: list[ChangedLine]) -> list[ChangedLine]:
    """Return only the lines around a change."""
    near = {n + by for n, each in enumerate(every) if each.sign != " " for by in range(-AROUND, AROUND + 1)}
    made: list[ChangedLine] = []
    hidden = 0
    for n, each in enumerate(every):
        if n in near:
            made += [_left_out(hidden)] if hidden else []
            hidden = 0
            made.append(each)
        else:
            hidden += 1
    return [*made, _left_out(hidden)] if hidden else made


def _left_out(count: int) -> ChangedLine:
    return ChangedLine("@", translate_count("{n} line as before", "{n} lines as before", count))
