"""Plots as SVG: lines over time, bars and shares. Numbers in, markup out; colours and fonts come from the style sheet.

No script draws them, and the page's policy allows no inline style: sizes are attributes, everything else is a class. A
value is told by the `<title>` of its mark, and by the table that stands below each plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from markupsafe import Markup, escape
from msgspec import Struct

from .language import local_number

WIDTH, WIDE, HEIGHT = 440, 930, 170
"""The width of a line plot, of a bar plot, and the height of both, in pixels where there is room."""
LEFT, RIGHT, TOP, BOTTOM = 6, 44, 16, 24
"""The room around a plot: direct labels stand at its right, and the times below it."""
_STEPS = (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10)


class Line(Struct, frozen=True):
    """A line over time, with its name and a class for its colour."""

    name: str
    values: Sequence[float]
    tone: str
    filled: bool = False


class TimeAxis(Struct, frozen=True):
    """The times of a plot: a sentence for each, and the few labels below."""

    names: Sequence[str]
    ticks: Sequence[tuple[int, str]]
    """The places of the labels, as numbers of times."""


def nice_top(most: float) -> float:
    """Return a round number that no value exceeds."""
    if most <= 1:
        return 1
    size = 10 ** int(log10(most))
    return float(next(step * size for step in _STEPS if step * size >= most))


def line_plot(title: str, about: str, lines: Sequence[Line], axis: TimeAxis) -> Markup:
    """Return a plot of lines over time."""
    top = nice_top(max((value for line in lines for value in line.values), default=0))
    parts = [_grid(top), _ticks(axis)]
    for line in lines:
        points = [(_x(n, len(axis.names)), _y(value, top)) for n, value in enumerate(line.values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        if line.filled and points:
            (first, _), (last, _), floor = points[0], points[-1], HEIGHT - BOTTOM
            around = f"{first:.1f},{floor} {path} {last:.1f},{floor}"
            parts.append(f'<polygon class="area {line.tone}" points="{around}"/>')
        parts.append(f'<polyline class="line {line.tone}" points="{path}"/>')
    parts += _ends(lines, top, len(axis.names))
    parts += _marks(lines, axis)
    return _svg(title, about, parts, WIDTH, HEIGHT)


def _ends(lines: Sequence[Line], top: float, count: int) -> list[str]:
    """Return the last value of each line at its end: two that would overlap are moved apart."""
    made, taken = [], list[float]()
    for line in sorted((each for each in lines if each.values), key=lambda each: -each.values[-1]):
        x, y = _x(count - 1, count), _y(line.values[-1], top)
        low = y
        while any(abs(low - other) < 13 for other in taken):
            low += 1
        taken.append(low)
        text = escape(local_number(round(line.values[-1])))
        made.append(f'<circle class="dot {line.tone}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        made.append(f'<text class="value {line.tone}" x="{x + 8:.1f}" y="{low + 4:.1f}">{text}</text>')
    return made


def _marks(lines: Sequence[Line], axis: TimeAxis) -> list[str]:
    """Return an invisible strip for each time, whose title says all values there."""
    count = len(axis.names)
    wide = (WIDTH - LEFT - RIGHT) / max(1, count - 1 if count > 1 else 1)
    made = []
    for n, at in enumerate(axis.names):
        said = "\n".join([at, *(f"{each.name}: {local_number(round(each.values[n]))}" for each in lines)])
        made.append(
            f'<rect class="mark" x="{_x(n, count) - wide / 2:.1f}" y="0" width="{wide:.1f}" height="{HEIGHT - BOTTOM}">'
            f"<title>{escape(said)}</title></rect>"
        )
    return made


def bar_plot(title: str, about: str, bars: Sequence[tuple[str, int, str]], tone: str = "one") -> Markup:
    """Return a plot of upright bars: each has a label below, a number, and a sentence."""
    most = max((count for _, count, _ in bars), default=0)
    wide = (WIDE - 2 * LEFT) / max(1, len(bars))
    floor = HEIGHT - BOTTOM
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDE - LEFT}" y1="{floor}" y2="{floor}"/>']
    for n, (label, count, said) in enumerate(bars):
        high = (floor - TOP - 6) * count / most if most else 0
        x, y = LEFT + n * wide, floor - high
        size = f'width="{max(1, wide - 6):.1f}" height="{high:.1f}"'
        parts.append(f'<g class="bar"><title>{escape(said)}</title>')
        parts.append(f'<rect class="mark" x="{x:.1f}" y="0" width="{wide:.1f}" height="{floor}"/>')
        parts.append(f'<rect class="fill {tone}" x="{x + 3:.1f}" y="{y:.1f}" {size} rx="2"/>')
        if count:
            parts.append(
                f'<text class="value middle" x="{x + wide / 2:.1f}" y="{y - 5:.1f}">{local_number(count)}</text>'
            )
        parts.append(f'<text class="tick middle" x="{x + wide / 2:.1f}" y="{HEIGHT - 7}">{escape(label)}</text></g>')
    return _svg(title, about, parts, WIDE, HEIGHT)


def share_bar(title: str, shares: Sequence[tuple[str, int, str]], *, most: int | None = None) -> Markup:
    """Return one lying bar in parts: each has a sentence, a number and a class. With `most`, its length is a share."""
    total = sum(count for _, count, _ in shares)
    whole, x = max(1, most or total), 0.0
    parts = []
    for said, count, tone in shares:
        wide = 300 * count / whole
        if count:
            parts.append(
                f'<rect class="fill {tone}" x="{x:.2f}" y="0" width="{max(1.5, wide - 1):.2f}" height="12" rx="1.5">'
                f"<title>{escape(said)}</title></rect>"
            )
        x += wide
    about = ", ".join(said for said, count, _ in shares if count)
    return _svg(title, about, parts, 300, 12)


def _grid(top: float) -> str:
    """Return the floor, and two quiet lines with their numbers."""
    made = []
    for share in (0, 0.5, 1):
        y = _y(top * share, top)
        kind = "axis" if share == 0 else "grid"
        made.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if share and top * share == int(top * share):
            made.append(f'<text class="tick" x="{LEFT}" y="{y - 4:.1f}">{local_number(round(top * share))}</text>')
    return "".join(made)


def _ticks(axis: TimeAxis) -> str:
    made, count = [], len(axis.names)
    for place, label in axis.ticks:
        x = _x(place, count)
        side = "start" if x < LEFT + 30 else "middle"
        made.append(f'<text class="tick {side}" x="{x:.1f}" y="{HEIGHT - 7}">{escape(label)}</text>')
    return "".join(made)


def _x(n: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (n / (count - 1) if count > 1 else 0.5)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _svg(title: str, about: str, parts: Sequence[str], width: int, height: int) -> Markup:
    thin = height < HEIGHT
    kind, fit = ("shares", ' preserveAspectRatio="none"') if thin else ("plot", "")
    # The name is an attribute: a title element of the whole would be told over every empty place.
    name = escape(f"{title}. {about}" if about else title)
    return Markup(
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{name}"{fit}>{"".join(parts)}</svg>'
    )
