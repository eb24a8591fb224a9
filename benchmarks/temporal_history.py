"""Arithmetic over a workflow's history: bytes and events, in all and turn by turn. Knows no Temporal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

FEW = 10
"""How many turns stand for the beginning of a run, and how many for its end."""


@dataclass(frozen=True)
class Event:
    """An event of a history."""

    at: float
    """When the server wrote it, in seconds."""
    size: int
    """Bytes of its protobuf message."""


def grown(events: Sequence[Event], asked: Sequence[float]) -> list[int]:
    """Return the bytes of history at the end of each turn.

    A turn goes from one request to the model to the next, in seconds of one clock. What is there before the first
    request belongs to the first turn, and what follows the last one to the last.
    """
    turns = [0] * len(asked)
    for event in events:
        turns[max(0, bisect_right(asked, event.at) - 1)] += event.size
    sums, total = [], 0
    for size in turns:
        total += size
        sums.append(total)
    return sums


def per_turn(sums: Sequence[int]) -> tuple[float, float] | None:
    """Return the median bytes of a turn among the first few and among the last few; None if there are too few.

    The first and the last are left out: they hold the beginning and the end of the run.
    """
    turns = [after - before for before, after in pairwise(sums)][:-1]
    if not turns:
        return None
    return median(turns[:FEW]), median(turns[-FEW:])
