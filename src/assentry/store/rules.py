"""The rules of appends and leases, the same for every store, checked before anything is written.

Pure functions: they compare a run's own row with a change, and raise or return. A store calls them in the transaction,
or under the lock, in which it writes.
"""

from __future__ import annotations

from typing import NamedTuple

from ..core.rules import is_drivers
from ..errors import LeaseLost, Overtaken, RunBusy, RunFinished, StoreFailed
from .record import Change, RunRecord


class RunRow(NamedTuple):
    """The columns of a run's own row that the rules compare."""

    seq: int
    fence: int
    worker: str | None
    until: int | None
    erased: int | None


def check_append(run: RunRow, change: Change, now: int) -> None:
    """Raise unless the run is in the state that the change expects, and the writer may write the change."""
    id, lease = change.record.id, change.lease
    if lease is None:
        check_author(change)
    elif change.take:
        check_free(run, id, lease.worker, now)
        if lease.fence != run.fence + 1:
            raise Overtaken(f"Run {id!r} was taken by others meanwhile; nothing was written. Load it again.")
    elif (run.fence, run.worker) != (lease.fence, lease.worker):
        raise LeaseLost(f"Run {id!r} is not {lease.worker!r}'s any more; nothing was written.")
    if run.seq != change.seq:
        raise Overtaken(f"Run {id!r} has {run.seq} facts, not {change.seq}; nothing was written. Load it again.")
    if run.erased is not None:
        raise RunFinished(f"Run {id!r} was erased; nothing was written.")


class LeaseRow(NamedTuple):
    """The columns of a run's own row that a change with a lease sets."""

    worker: str | None
    until: int | None
    fence: int


def lease_after(run: RunRow | None, change: Change, now: int) -> LeaseRow:
    """Return the run's lease after a change; `run` is None if the change creates the run."""
    lease = change.lease
    if lease is None:
        return LeaseRow(None, None, 0) if run is None else LeaseRow(run.worker, run.until, run.fence)
    if change.release:
        return LeaseRow(None, None, lease.fence)
    until = now if run is None or change.take else run.until
    return LeaseRow(lease.worker, until if change.hold is None else now + int(change.hold * 1000), lease.fence)


def check_unfinished(run: RunRecord) -> None:
    """Raise `RunFinished` if a run is over, so that people have nothing to cancel or to resume in it."""
    if run.status in ("done", "closed"):
        raise RunFinished(f"Run {run.id!r} is {run.status}; there is nothing left in it.")


def check_author(change: Change) -> None:
    """Raise `LeaseLost` if a change without a lease has a fact that only a driver may record."""
    if needs_lease(change):
        kind = next(type(fact).__name__ for fact in change.facts if is_drivers(fact))
        raise LeaseLost(
            f"{kind} is recorded by whoever drives run {change.record.id!r}, and this write has no lease; nothing was "
            "written."
        )


def needs_lease(change: Change) -> bool:
    """Return True if only a driver may write the change.

    The change that creates a run needs no lease, since no other worker can have one.
    """
    return change.seq > 0 and any(map(is_drivers, change.facts))


def check_free(run: RunRow, id: str, worker: str, now: int) -> None:
    """Raise `RunBusy` if another worker holds the lease."""
    if run.worker != worker and is_driven(run.worker, run.until, now):
        raise RunBusy(f"Run {id!r} is driven by {run.worker!r}; wait until that is done.")


def check_take(run: RunRow, id: str, worker: str, seq: int, now: int) -> None:
    """Raise unless this worker, which knows `seq` facts of the run, may acquire the lease."""
    check_free(run, id, worker, now)
    if run.seq != seq:
        raise Overtaken(f"Run {id!r} has {run.seq} facts, not {seq}; load it again.")


def is_driven(worker: str | None, until: int | None, now: int) -> bool:
    """Return True while a worker holds a lease that has not expired."""
    return worker is not None and (until is None or until > now)


def is_lost(record: RunRecord, now: int) -> bool:
    """Return True if a run has something to do, and no worker will ever look at it.

    A run that a worker left alone on purpose is not lost: its record has the error. A failure of the store is never
    the purpose. Workers of older versions, though, left a run alone after one if only its end could not be written.
    """
    stuck = record.status == "working" and record.wake is None and not is_driven(record.worker, record.until, now)
    return stuck and (record.error is None or record.error.startswith(f"{StoreFailed.__name__}:"))
