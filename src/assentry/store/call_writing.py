"""The parts of each write to the run of a call of a program outside."""

from __future__ import annotations

from ..core import facts as f
from ..core.fold import fold
from ..core.run import Run
from ..errors import Overtaken
from .projection import Projection
from .record import Change, Stored
from .store import Store

ATTEMPTS = 50
"""The most attempts to record a report that another writer overtakes."""


def since_began(store: Store, run: Run) -> int:
    """Return the milliseconds since the run began."""
    return max(0, int(store.clock() * 1000) - (run.began.at if run.began is not None else 0))


def change_of_call(store: Store, stored: Stored, run: Run, facts: list[f.AnyFact]) -> Change:
    """Fold facts into a run, and return the change that records them."""
    projection = Projection()
    for fact in facts:
        fold(run, fact)
        projection.note(run, fact)
    return projection.change(run, len(stored.facts), facts, store.clock())


async def append_change(store: Store, stored: Stored, change: Change) -> Stored | None:
    """Write a change, and return the run after it; None if another writer was first."""
    try:
        await store.append(change)
    except Overtaken:
        return None
    facts = [*stored.facts, *change.facts]
    record = change.record
    lease = change.lease
    if lease is not None and not change.release:
        record.worker = lease.worker
    return Stored(record=record, facts=facts, fence=lease.fence if lease is not None else stored.fence)


def too_fast(run_id: str) -> Overtaken:
    """Return the error of a write that others have overtaken `ATTEMPTS` times."""
    return Overtaken(f"Run {run_id!r} changes faster than this could be recorded; try again.")
