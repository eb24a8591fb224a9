"""What is measured: the cases, in groups, and what is shown of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

GROUPS = {
    "turns": "A run of so many turns, one tool call each",
    "fan-out": "A run of one turn with so many tool calls at once",
    "pause": "A pause after so many turns: saved, loaded, approved, resumed to the end",
    "approvals": "More than one approval",
    "stream": "A reply of so many deltas, read as they come",
    "held": "Many paused runs",
    "start": "A fresh process",
}

WHOLE = "whole"
"""All phases of an execution together."""

Kind = Literal["cpu", "wall", "metric"]


@dataclass(frozen=True)
class Measure:
    """Something that is shown of a case."""

    label: str
    kind: Kind
    name: str
    """A phase, WHOLE, or a metric."""


@dataclass(frozen=True)
class Case:
    """A scenario with its sizes."""

    name: str
    group: str
    label: str
    scenario: str
    params: Mapping[str, int] = field(default_factory=dict)
    repetitions: int = 1
    size: int | None = None
    """Where it stands on the plot's axis, if its group has one."""
    fresh: bool = False
    """Whether every repetition has a process of its own, since it measures memory."""


def counted(number: int, noun: str) -> str:
    """`1 turn`, `1,000 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def turns(n: int, repetitions: int) -> Case:
    """A run of n turns."""
    return Case(f"turns-{n}", "turns", counted(n, "turn"), "turns", {"n": n}, repetitions, n)


def fan_out(k: int, repetitions: int) -> Case:
    """A run of k calls at once."""
    return Case(f"fan-out-{k}", "fan-out", counted(k, "call"), "fanout", {"k": k}, repetitions, k)


def pause(prior: int, repetitions: int) -> Case:
    """A pause after so many turns."""
    return Case(f"pause-{prior}", "pause", counted(prior, "turn"), "pause", {"prior": prior}, repetitions, prior)


def stages(count: int, repetitions: int) -> Case:
    """So many approvals in a row."""
    return Case(
        f"stages-{count}", "approvals", f"{count} in a row, saved at each", "stages", {"stages": count}, repetitions
    )


def ask(k: int, repetitions: int) -> Case:
    """So many approvals at once."""
    return Case(f"ask-{k}", "approvals", f"{k} at once", "ask", {"k": k}, repetitions)


def nested(repetitions: int) -> Case:
    """An approval inside an agent that is a tool."""
    return Case("nested", "approvals", "inside an agent that is a tool", "nested", {}, repetitions)


def deltas(n: int, repetitions: int) -> Case:
    """A stream of n deltas."""
    return Case(f"deltas-{n}", "stream", counted(n, "delta"), "stream", {"n": n}, repetitions, n)


def held(runs: int, prior: int, repetitions: int) -> Case:
    """So many paused runs."""
    label = f"{counted(runs, 'run')} paused after {counted(prior, 'turn')}"
    return Case(f"held-{runs}", "held", label, "held", {"runs": runs, "prior": prior}, repetitions, fresh=True)


def fresh_process(repetitions: int) -> tuple[Case, Case]:
    """Importing; importing and declaring an agent with two tools."""
    return (
        Case("import", "start", "import", "import", {}, repetitions),
        Case("declare", "start", "import, and an agent with two tools", "declare", {}, repetitions),
    )


CASES = (
    *(turns(1, 40), turns(10, 30), turns(100, 11), turns(400, 5)),
    *(fan_out(1, 40), fan_out(10, 40), fan_out(100, 20)),
    *(pause(0, 40), pause(10, 25), pause(100, 9), pause(400, 4)),
    *(stages(10, 9), ask(10, 15), ask(100, 7), nested(40)),
    *(deltas(100, 20), deltas(1000, 15), deltas(4000, 5)),
    held(1000, 10, 1),
    *fresh_process(15),
)
"""What `make bench` measures."""

SMOKE = (
    *(turns(1, 2), turns(3, 2), fan_out(3, 2)),
    *(pause(0, 2), pause(3, 2), stages(2, 2), ask(3, 2), nested(2)),
    *(deltas(1, 2), deltas(20, 2), held(5, 2, 1)),
    *fresh_process(1),
)
"""What `make bench-smoke` executes: everything once or twice, and small."""

QUICK_LEAVES_OUT = frozenset({"turns-400", "pause-400", "deltas-4000", "held-1000"})
QUICK_SCALE = 0.2

MEASURES: Mapping[str, Sequence[Measure]] = {
    "turns": [Measure("", "cpu", WHOLE)],
    "fanout": [Measure("", "cpu", WHOLE)],
    "pause": [
        Measure("whole", "cpu", WHOLE),
        Measure("to the pause", "cpu", "to pause"),
        Measure("encode", "cpu", "encode"),
        Measure("load", "cpu", "load"),
        Measure("approve", "cpu", "approve"),
        Measure("resume", "cpu", "resume"),
        Measure("saved state", "metric", "state_bytes"),
    ],
    "stages": [Measure("", "cpu", WHOLE)],
    "ask": [Measure("", "cpu", WHOLE)],
    "nested": [Measure("", "cpu", WHOLE)],
    "stream": [Measure("", "cpu", WHOLE)],
    "held": [
        Measure("pause all", "cpu", "pause"),
        Measure("encode all", "cpu", "encode"),
        Measure("load, approve, resume all", "cpu", "resume"),
        Measure("memory of each while held", "metric", "held_bytes"),
    ],
    "import": [Measure("time", "cpu", WHOLE), Measure("memory of the process", "metric", "resident_bytes")],
    "declare": [Measure("time", "cpu", WHOLE), Measure("memory of the process", "metric", "resident_bytes")],
}
"""What the tables show, by scenario."""


def scaled(cases: Sequence[Case], scale: float) -> list[Case]:
    """The same with more or fewer repetitions, at least one each."""
    return [replace(case, repetitions=max(1, round(case.repetitions * scale))) for case in cases]


def chosen(cases: Sequence[Case], names: Sequence[str]) -> list[Case]:
    """Those of these names or groups; raises ValueError for a name that is neither."""
    unknown = set(names) - {case.name for case in cases} - {case.group for case in cases}
    if unknown:
        raise ValueError(f"no such case or group: {', '.join(sorted(unknown))}")
    return [case for case in cases if case.name in names or case.group in names]
