"""The results in words and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from .cases import GROUPS, MEASURES, Case, Measure
from .peers import ALL
from .summary import Summary, compare

NOTHING = "-"
HEAD = """\
CPU time of the peer's process, or bytes; medians of one interleaved run. A ratio is Assentry divided by the other:
below 1 Assentry needs less. Only ratios of one run compare; the times of two runs do not. A `-` was not measured.
"""
DETAILS = """\
Medians of one interleaved run: CPU time of the peer's process, and wall time after the stroke. A database server's CPU
time is not the peer's; its wall time has it. A `-` was not measured.
"""


def time(nanoseconds: float | None) -> str:
    """A time with three digits and a unit."""
    return _scaled(nanoseconds, 1000, ("ns", "µs", "ms"), last="s")


def size(count: float | None) -> str:
    """A number of bytes with three digits and a unit."""
    return _scaled(count, 1000, ("B", "kB", "MB"), last="GB")


def _scaled(number: float | None, step: int, units: Sequence[str], last: str) -> str:
    if number is None:
        return NOTHING
    for unit in units:
        if abs(number) < step * 0.9995:
            return f"{digits(number)} {unit}"
        number /= step
    return f"{digits(number)} {last}"


def digits(number: float, count: int = 3) -> str:
    """So many digits that count, never in powers of ten."""
    rounded = float(f"{number:.{count}g}")
    before = math.floor(math.log10(abs(rounded))) + 1 if rounded else count
    return f"{rounded:.{max(0, count - before)}f}"


def times(ratio: float | None) -> str:
    """A ratio with two digits."""
    return NOTHING if ratio is None else digits(ratio, 2)


def shown(measure: Measure) -> Callable[[float | None], str]:
    """How values of a measure are written."""
    if measure.plain:
        return lambda number: NOTHING if number is None else digits(number)
    return size if measure.kind == "metric" else time


def tables(summary: Summary, cases: Iterable[Case]) -> str:
    """One table a group: Assentry, the fastest peer, the yardstick, and the ratios."""
    out = []
    for group, measured in _grouped(cases):
        out += [f"## {GROUPS[group]}", "", *_table(summary, measured), ""]
    return "\n".join(out)


def _table(summary: Summary, cases: Iterable[Case]) -> Iterable[str]:
    cases = list(cases)
    sides = cases[0].sides
    yield _row(["case", sides.subject, "fastest peer", "ratio", sides.yardstick or NOTHING, "ratio"])
    yield "|---|---:|---|---:|---:|---:|"
    for case in cases:
        for measure in MEASURES[case.scenario]:
            values = summary.values(case.name, measure)
            if not values:
                continue
            write, found = shown(measure), compare(values, sides)
            fastest = NOTHING if found.fastest is None else f"{found.fastest}, {write(found.rival)}"
            cells = [_label(case, measure), write(found.subject), fastest, times(found.to_rival)]
            yield _row([*cells, write(found.yardstick), times(found.to_yardstick)])


def details(summary: Summary, cases: Iterable[Case]) -> str:
    """One table a group: every peer, CPU and wall time."""
    out = [DETAILS]
    for group, measured in _grouped(cases):
        lines = [(case, measure) for case in measured for measure in MEASURES[case.scenario]]
        peers = [
            peer.name for peer in ALL if any(peer.name in summary.values(case.name, measure) for case, measure in lines)
        ]
        out += [f"## {GROUPS[group]}", "", _row(["case", *peers]), "|---" + "|---:" * len(peers) + "|"]
        for case, measure in lines:
            out.append(_row([_label(case, measure), *(_both(summary, case, measure, peer) for peer in peers)]))
        out.append("")
    return "\n".join(out)


def _both(summary: Summary, case: Case, measure: Measure, peer: str) -> str:
    value = summary.values(case.name, measure).get(peer)
    if value is None or measure.kind != "cpu":
        return shown(measure)(value)
    wall = Measure(measure.label, "wall", measure.name)
    return f"{time(value)} / {time(summary.values(case.name, wall).get(peer))}"


def page(
    summary: Summary, cases: Sequence[Case], versions: Mapping[str, str], failures: Mapping[str, str], plot: str
) -> str:
    """The whole summary: tables, the plot, the versions, and what went wrong."""
    out = ["# What a run costs", "", HEAD, tables(summary, cases), f"![The same as a plot]({plot})", ""]
    out += ["Versions: " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) + ".", ""]
    if failures:
        out += ["## Not measured", ""]
        out += [f"- {who}: {why.strip().splitlines()[-1]}" for who, why in failures.items()]
        out.append("")
    return "\n".join(out)


def _grouped(cases: Iterable[Case]) -> Iterable[tuple[str, list[Case]]]:
    by_group: dict[str, list[Case]] = {}
    for case in cases:
        by_group.setdefault(case.group, []).append(case)
    return by_group.items()


def _label(case: Case, measure: Measure) -> str:
    return f"{case.label}: {measure.label}" if measure.label else case.label


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
