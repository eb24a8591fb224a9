"""The difference between two texts, line by line, at a cost that is bounded whatever the texts are.

`difflib` takes time that grows with the third power of the lines, for texts that somebody chose for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..core.number import counted

MOST_LINES = 4_000
"""The most lines that are compared, after the beginning and the end that are alike."""
MOST_EDITS = 200
"""The most lines that are found to differ. If more do, all lines are shown as removed and added."""
WHOLE = 400
"""The number of lines from which only those around a change are shown."""
AROUND = 3


class ChangedLine(Struct, frozen=True):
    """One line of a difference."""

    sign: str
    """"-" for a line that is gone, "+" for a new one, " " for one that stays, "@" for lines that are left out."""
    text: str


def changed_lines(one: Sequence[str], two: Sequence[str]) -> list[ChangedLine]:
    """Return the difference between two texts, as lines; equal texts have none."""
    if one == two:
        return []
    start = _alike(one, two)
    end = _alike(one[start:][::-1], two[start:][::-1])
    old, new = one[start : len(one) - end], two[start : len(two) - end]
    made = _shortest(old, new) if len(old) + len(new) <= MOST_LINES else None
    if made is None:
        made = [*(ChangedLine("-", line) for line in old), *(ChangedLine("+", line) for line in new)]
    same = [ChangedLine(" ", line) for line in one]
    every = [*same[:start], *made, *same[len(one) - end :]]
    return every if len(one) + len(two) < WHOLE else _near(every)


def _alike(one: Sequence[str], two: Sequence[str]) -> int:
    """Return the number of lines at the beginning that are alike."""
    count = 0
    for left, right in zip(one, two, strict=False):
        if left != right:
            break
        count += 1
    return count


def _shortest(one: Sequence[str], two: Sequence[str]) -> list[ChangedLine] | None:
    """Return the shortest difference; None if more than `MOST_EDITS` lines differ.

    The greedy algorithm of Myers (1986): `far` has, for each diagonal, how far a path with so many edits comes.
    """
    far, trace = {1: 0}, []
    for edits in range(min(len(one) + len(two), MOST_EDITS) + 1):
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
            made += [ChangedLine("@", f"{counted(hidden, 'line')} as before")] if hidden else []
            hidden = 0
            made.append(each)
        else:
            hidden += 1
    return [*made, ChangedLine("@", f"{counted(hidden, 'line')} as before")] if hidden else made
