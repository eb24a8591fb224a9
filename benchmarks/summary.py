"""The arithmetic: medians of a run's records, and how Assentry compares with the fastest peer and a yardstick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from .cases import WHOLE, Measure
from .peers import RUNTIMES, Sides

Values = Mapping[str, float]
"""A number a peer."""


class Summary:
    """Medians by case, measure and peer. Nanoseconds or bytes."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        samples: dict[tuple[str, str, str], dict[str, list[float]]] = {}
        for record in records:
            if record["repetition"] < 0:  # warming up
                continue
            for kind, name, value in _numbers(record):
                at = samples.setdefault((record["case"], kind, name), {})
                at.setdefault(record["peer"], []).append(value)
        self._medians = {
            key: {peer: median(numbers) for peer, numbers in by_peer.items()} for key, by_peer in samples.items()
        }

    def values(self, case: str, measure: Measure) -> Values:
        """The medians of those peers that have any."""
        return self._medians.get((case, measure.kind, measure.name), {})


def _numbers(record: Mapping[str, Any]) -> Iterable[tuple[str, str, float]]:
    for kind in ("cpu", "wall"):
        yield kind, WHOLE, sum(record[kind].values())
        for phase, spent in record[kind].items():
            yield kind, phase, spent
    for name, value in record["metrics"].items():
        yield "metric", name, value


@dataclass(frozen=True)
class Comparison:
    """Assentry beside the fastest peer and a yardstick. None: it was not measured, or is nothing to divide by."""

    subject: float | None
    fastest: str | None
    """Who needs the least of all peers."""
    rival: float | None
    """How much that is."""
    to_rival: float | None
    """Assentry divided by it: below 1, Assentry needs less."""
    yardstick: float | None
    to_yardstick: float | None


def compare(values: Values, sides: Sides = RUNTIMES) -> Comparison:
    """Compare what was measured of one case."""
    subject, yardstick = values.get(sides.subject), values.get(sides.yardstick or "")
    fastest = min((peer for peer in values if peer in sides.rivals), key=values.__getitem__, default=None)
    rival = None if fastest is None else values[fastest]
    return Comparison(subject, fastest, rival, ratio(subject, rival), yardstick, ratio(subject, yardstick))


def ratio(number: float | None, to: float | None) -> float | None:
    """One divided by the other, where both are there and it can be."""
    return number / to if number is not None and to else None
