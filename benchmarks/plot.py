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
    rows = max(1, math.ceil(len(drawn) / COLUMNS))
    width, height = COLUMNS * WIDTH, rows * HEIGHT + LEGEND_ROWS * LEGEND_ROW + 16
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, panel in enumerate(drawn):
        out.append(f'<g transform="translate({number % COLUMNS * WIDTH} {number // COLUMNS * HEIGHT})">')
        out += _panel(panel)
        out.append("</g>")
    measured = {peer for panel in drawn for column in panel.columns for peer in column}
    out += _legend([peer.name for peer in ALL if peer.name in measured], rows * HEIGHT + 16)
    out.append("</svg>")
    return "\n".join(out) + "\n"


def _panel(panel: Panel) -> Iterable[str]:
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
        points = [
            (across(tick), down(column[peer])) for tick, column in enumerate(panel.columns) if column.get(peer, 0) > 0
        ]
        yield from _series(peer, points, panel.joined)


def _round(written: str) -> str:
    """`10.0 ms` as `10 ms`: what is at a power of ten has no more digits."""
    number, unit = written.split()
    return f"{float(number):g} {unit}"


def _series(peer: str, points: Sequence[tuple[float, float]], joined: bool) -> Iterable[str]:
    colour = COLOURS.get(peer, UNKNOWN)
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


def _legend(peers: Sequence[str], top: int) -> Iterable[str]:
    a_row = math.ceil(len(peers) / LEGEND_ROWS) or 1
    for number, peer in enumerate(peers):
        x, y = LEFT + number % a_row * LEGEND_COLUMN, top + number // a_row * LEGEND_ROW
        weight = ' font-weight="bold"' if peer in SUBJECTS else ""
        yield f'<circle cx="{x}" cy="{y}" r="5" fill="{COLOURS.get(peer, UNKNOWN)}"/>'
        yield f'<text x="{x + 10}" y="{y + 4}" font-size="12"{weight}>{escape(peer)}</text>'
