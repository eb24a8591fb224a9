"""The order of a run's inputs. It changes when a drive begins again: stored inputs of others then come first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..core import facts as f


def input_key(said: f.Said) -> tuple[bytes, str, int]:
    """Return what tells an input from others. Inputs with the same key are interchangeable."""
    return bytes(said.items), said.by, said.at


def places(before: Sequence[f.Said], now: Sequence[f.Said]) -> list[int | None]:
    """Return the place that each input had before; None for one that is new."""
    known: dict[tuple[bytes, str, int], list[int]] = defaultdict(list)
    for place, said in reversed(list(enumerate(before))):
        known[input_key(said)].append(place)
    return [known[input_key(said)].pop() if known[input_key(said)] else None for said in now]


def seen(before: Sequence[f.Said], saw: int, now: Sequence[f.Said]) -> int:
    """Return the number of inputs, from the first on, that were all among the first `saw` inputs before."""
    for number, place in enumerate(places(before, now)):
        if place is None or place >= saw:
            return number
    return len(now)
