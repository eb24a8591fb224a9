"""The results as a plot, written as SVG by hand: panels of CPU time or bytes, a line a peer, logarithmic upwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .cases import WHOLE, Case, Measure
from .peers import ALL, SUBJECTS
from .report import size, time
from .summary import Summary, Values

# Okabe and Ito's colours, which people tell apart who see few of them; yardsticks are grey.
COLOURS = {
    "assentry": "#d55e00",
    "floor": "#bbbbbb",
    "lean": "#666666",
    "openai-agents": "#0072b2",
    "pydantic-ai": "#cc79a7",
    "langgraph": "#009e73",
    "langgraph-memory": "#56b4e9",
    "langgraph-sqlite": "#e69f00",
    "langgraph-postgres": "#000000",
    "assentry-sqlite": "#d55e00",
    "assentry-postgres": "#d55e00",
    "assentry-threads-memory": "#d55e00",
    "assentry-threads-sqlite": "#d55e00",
    "assentry-threads-postgres": "#d55e00",
    "bare-sqlite": "#666666",
    "bare-threads-sqlite": "#666666",
    "bare-threads-postgres": "#666666",
    "assentry-models": "#d55e00",
    "client-alone": "#666666",
    "openai-agents-models": "#0072b2",
    "pydantic-ai-models": "#cc79a7",
    "assentry-mcp": "#d55e00",
    "assentry-gateway": "#0072b2",
    "bare-mcp": "#666666",
    "openai-agents-mcp": "#0072b2",
    "pydantic-ai-mcp": "#cc79a7",
    "assentry-realtime": "#d55e00",
    "bare-realtime": "#666666",
    "openai-agents-realtime": "#0072b2",
    "assentry-temporal": "#d55e00",
    "bare-temporal": "#666666",
    "openai-agents-temporal": "#0072b2",
    "pydantic-ai-temporal": "#cc79a7",
    "pydantic-ai-temporal-continued": "#e69f00",
}
UNKNOWN = "#999999"
HALO = 'stroke="white" stroke-width="3" paint-order="stroke"'
"""Keeps a value readable where a line crosses it."""

COLUMNS, WIDTH, HEIGHT = 3, 360, 270  # of panels
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 34  # around what is drawn in one
LEGEND_ROWS, LEGEND_ROW, LEGEND_COLUMN = 2, 22, 200

CPU = Measure("", "cpu", WHOLE)
BYTES = Measure("", "metric", "state_bytes")
STORED = Measure("", "metric", "stored_bytes")
HISTORY = Measure("", "metric", "history_bytes")


@dataclass(frozen=True)
class Panel:
    """One picture: a value for each tick and peer."""

    title: str
    ticks: Sequence[str]
    columns: Sequence[Values]
    write: Callable[[float], str]
    joined: bool = True
    """Whether a peer's points are of one kind, and so have a line."""
    hollow: frozenset[str] = frozenset()
    """The ticks whose values were worked out, not measured."""
    labelled: bool = False
    """Whether each point has its value beside it."""


def panels(summary: Summary, cases: Iterable[Case]) -> list[Panel]:
    """The panels that were measured."""
    cases = list(cases)

    def sized(title: str, group: str, measure: Measure = CPU) -> Panel:
        members = [case for case in cases if case.group == group and case.size is not None]
        columns = [summary.values(case.name, measure) for case in members]
        ticks = [f"{case.size:,}" for case in members]
        return Panel(title, ticks, columns, size if measure.kind == "metric" else time)

    others = {"import": "import", "declare": "declare", "stages-10": "10 approvals", "nested": "nested"}
    members = [case for case in cases if case.name in others]
    found = [
        sized("A run, by turns", "turns"),
        sized("A run, by calls in one turn", "fan-out"),
        sized("A stream, by deltas", "stream"),
        sized("Pause and resume, by turns before it", "pause"),
        sized("A saved state, by turns before it", "pause", BYTES),
        Panel(
            "A start; approvals in a row; nested",
            [others[case.name] for case in members],
            [summary.values(case.name, CPU) for case in members],
            time,
            joined=False,
        ),
        sized("Bytes in SQLite, by turns of 2 kB", "sqlite", STORED),
        sized("Bytes in Postgres, by turns of 2 kB", "postgres", STORED),
        sized("A run in SQLite, by turns", "sqlite"),
        sized("History in Temporal, by turns", "temporal", HISTORY),
    ]
    return [panel for panel in found if any(panel.columns)]


def plot(summary: Summary, cases: Iterable[Case]) -> str:
    """The whole picture."""
    drawn = panels(summary, cases)
    measured = {peer for panel in drawn for column in panel.columns for peer in column}
    return picture(drawn, [peer.name for peer in ALL if peer.name in measured])


def picture(
    drawn: Sequence[Panel], names: Sequence[str], colours: Mapping[str, str] = COLOURS, across: int = COLUMNS
) -> str:
    """These panels, so many in a row, and a legend of these names."""
    rows = max(1, math.ceil(len(drawn) / across))
    width, height = across * WIDTH, rows * HEIGHT + LEGEND_ROWS * LEGEND_ROW + 16
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(drawn):
        out.append(f'<g transform="translate({number % across * WIDTH} {number // across * HEIGHT})">')
        out += _panel(panel, colours)
        out.append("</g>")
    out += _legend(names, rows * HEIGHT + 16, colours)
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _panel(panel: Panel, colours: Mapping[str, str]) -> Iterable[str]:
    numbers = [value for column in panel.columns for value in column.values() if value > 0]
    low = math.floor(math.log10(min(numbers, default=1)))
    high = max(low + 1, math.ceil(math.log10(max(numbers, default=10))))
    step = (WIDTH - LEFT - RIGHT) / len(panel.ticks)

    def across(tick: int) -> float:
        return LEFT + step * (tick + 0.5)

    def down(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    yield f'<text x="{LEFT}" y="20" font-size="13" font-weight="bold">{escape(panel.title)}</text>'
    for power in range(low, high + 1):
        y, label = down(10**power), _round(panel.write(10**power))
        yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e5e5e5"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{label}</text>'
    for tick, label in enumerate(panel.ticks):
        y = HEIGHT - BOTTOM + 18
        yield f'<text x="{across(tick):.1f}" y="{y}" text-anchor="middle" fill="#555">{escape(label)}</text>'
    for peer in _drawing_order(panel.columns):
        ticks = [tick for tick, column in enumerate(panel.columns) if column.get(peer, 0) > 0]
        points = [(across(tick), down(panel.columns[tick][peer])) for tick in ticks]
        colour = colours.get(peer, UNKNOWN)
        yield from _series(peer, colour, points, panel.joined)
        for tick, point in zip(ticks, points, strict=True):
            yield from _mark(panel, tick, peer, colour, point)


def _mark(panel: Panel, tick: int, peer: str, colour: str, point: tuple[float, float]) -> Iterable[str]:
    """What a point has beside its dot."""
    (x, y), column = point, panel.columns[tick]
    if panel.ticks[tick] in panel.hollow:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="white" stroke="{colour}" stroke-width="1.5"/>'
    if panel.labelled:
        above = column[peer] == max(column.values())  # and below its point if another is higher
        place = f'x="{x:.1f}" y="{y + (-8 if above else 16):.1f}" text-anchor="middle"'
        yield f'<text {place} font-size="10" fill="{colour}" {HALO}>{escape(panel.write(column[peer]))}</text>'


def _round(written: str) -> str:
    """`10.0 ms` as `10 ms`: what is at a power of ten has no more digits."""
    number, unit = written.split()
    return f"{float(number):g} {unit}"


def _series(peer: str, colour: str, points: Sequence[tuple[float, float]], joined: bool) -> Iterable[str]:
    thick, radius = (3, 4.5) if peer in SUBJECTS else (1.5, 3)
    yield f"<g><title>{escape(peer)}</title>"
    if joined:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{thick}"/>' if points else ""
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>'
    yield "</g>"


def _drawing_order(columns: Iterable[Mapping[str, float]]) -> list[str]:
    """Assentry last, so that it is on top."""
    measured = {peer for column in columns for peer in column}
    return sorted(measured, key=lambda peer: (peer in SUBJECTS, peer))


def _legend(peers: Sequence[str], top: int, colours: Mapping[str, str]) -> Iterable[str]:
    a_row = math.ceil(len(peers) / LEGEND_ROWS) or 1
    for number, peer in enumerate(peers):
        x, y = LEFT + number % a_row * LEGEND_COLUMN, top + number // a_row * LEGEND_ROW
        weight = ' font-weight="bold"' if peer in SUBJECTS else ""
        yield f'<circle cx="{x}" cy="{y}" r="5" fill="{colours.get(peer, UNKNOWN)}"/>'
        yield f'<text x="{x + 10}" y="{y + 4}" font-size="12"{weight}>{escape(peer)}</text>'
