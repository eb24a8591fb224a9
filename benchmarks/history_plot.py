"""A plot of how the history of a run in Temporal grows, turn by turn, written as SVG by hand.

    python -m benchmarks.history_plot measured/temporal.jsonl results/<time>/raw.jsonl > history.svg

draws the longest run of each peer in these records, so that peers may be measured at different times: the bytes of a
history hardly depend on the machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .peers import IN_TEMPORAL, PEERS, SUBJECTS
from .plot import COLOURS
from .report import size

SERIES = "history_bytes"
LIMIT = 50 * 1024 * 1024
"""Where the server ends a run, by its default."""

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 190, 40, 48
STEP_BYTES, STEP_TURNS = 10_000_000, 100
ROW = 34  # of the legend

Record = Mapping[str, Any]


def longest(records: Iterable[Record], group: str = "temporal") -> dict[str, Record]:
    """Return the record of each peer whose run has the most turns; of two, the later one."""
    found: dict[str, Record] = {}
    for record in records:
        name, _, turns = record["case"].rpartition("-")
        if name != group or not turns.isdigit() or SERIES not in record.get("series", {}):
            continue
        known = found.get(record["peer"])
        if known is None or len(record["series"][SERIES]) >= len(known["series"][SERIES]):
            found[record["peer"]] = record
    return {peer: found[peer] for peer in PEERS if peer in found and peer in IN_TEMPORAL}


class Axes:
    """Places of turns and bytes in the picture. What is above the top is cut off."""

    def __init__(self, turns: int) -> None:
        self.turns = max(turns, 1)
        self.bytes = LIMIT * 1.1

    def across(self, turn: float) -> float:
        """Return the place of a turn from the left."""
        return LEFT + turn / self.turns * (WIDTH - LEFT - RIGHT)

    def down(self, count: float) -> float:
        """Return the place of a number of bytes from the top."""
        return HEIGHT - BOTTOM - count / self.bytes * (HEIGHT - TOP - BOTTOM)


def draw(records: Iterable[Record], group: str = "temporal") -> str:
    """Return the picture."""
    runs = longest(records, group)
    axes = Axes(max((len(record["series"][SERIES]) - 1 for record in runs.values()), default=1))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        "<title>Bytes of history in Temporal, by turns of a run</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<clipPath id="inside"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT + 8}"'
        f' height="{HEIGHT - TOP - BOTTOM + 4}"/></clipPath>',
        f'<text x="{LEFT}" y="24" font-size="14" font-weight="bold">History of a run in Temporal</text>',
        *_grid(axes),
    ]
    for peer in sorted(runs, key=lambda peer: peer in SUBJECTS):  # Assentry last, so that it is on top
        out += _line(axes, peer, runs[peer])
    out += _legend(runs)
    return "\n".join([*out, "</svg>"]) + "\n"


def _grid(axes: Axes) -> Iterable[str]:
    right = WIDTH - RIGHT
    for count in range(0, int(axes.bytes) + 1, STEP_BYTES):
        y = axes.down(count)
        yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#e5e5e5"/>'
        label = f"{count // 1_000_000} MB"
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{label}</text>'
    for turn in range(0, axes.turns + 1, STEP_TURNS):
        x = axes.across(turn)
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#555">{turn}</text>'
    x = (LEFT + right) / 2
    yield f'<text x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle" fill="#555">turns</text>'
    y = axes.down(LIMIT)
    yield f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#000" stroke-dasharray="5 4"/>'
    yield f'<text x="{LEFT + 8}" y="{y - 6:.1f}">the server ends an execution that is larger</text>'


def _line(axes: Axes, peer: str, record: Record) -> Iterable[str]:
    sums: Sequence[float] = record["series"][SERIES]
    points = [(axes.across(turn), axes.down(count)) for turn, count in enumerate([0, *sums[:-1]])]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    thick = 3 if peer in SUBJECTS else 2
    dashes = ' stroke-dasharray="3 3"' if peer in IN_TEMPORAL.others else ""
    yield f'<g clip-path="url(#inside)"><title>{escape(peer)}</title>'
    yield f'<path d="M{path}" fill="none" stroke="{COLOURS[peer]}" stroke-width="{thick}"{dashes}/>'
    if "ended_at" in record["metrics"]:
        x, y = points[-1]
        yield f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10" stroke="{COLOURS[peer]}" stroke-width="2.5"/>'
    yield "</g>"


def _legend(runs: Mapping[str, Record]) -> Iterable[str]:
    x = WIDTH - RIGHT + 22
    for number, (peer, record) in enumerate(runs.items()):
        y = TOP + 8 + number * ROW
        weight = ' font-weight="bold"' if peer in SUBJECTS else ""
        yield f'<circle cx="{x}" cy="{y}" r="5" fill="{COLOURS[peer]}"/>'
        yield f'<text x="{x + 12}" y="{y + 4}"{weight}>{escape(peer.replace("-temporal", ""))}</text>'
        yield f'<text x="{x + 12}" y="{y + 18}" font-size="11" fill="#555">{_outcome(record)}</text>'


def _outcome(record: Record) -> str:
    metrics = record["metrics"]
    if "ended_at" in metrics:
        return f"ended at turn {metrics['ended_at']:.0f}"
    executions = metrics.get("executions", 1)
    return size(metrics[SERIES]) + (f" in {executions:.0f} executions" if executions > 1 else "")


def read(paths: Iterable[Path]) -> list[Record]:
    """Return the records of these files, in order."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


if __name__ == "__main__":
    print(draw(read(map(Path, sys.argv[1:]))), end="")
