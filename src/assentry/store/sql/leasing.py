"""The statements of leases. A run's fence only grows, so an old lease is never mistaken for the newest."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import BindParameter, and_, bindparam, func, select, update

from ...core.run import UNDER_WAY
from ...core.wording import holds
from ..record import Lease
from ..rules import check_take
from .schema import runs
from .statement import Statement, Transaction
from .stopping import is_stopped
from .writing import advance, locked, run_not_found

_due = and_(runs.c.wake.is_not(None), runs.c.wake <= bindparam("now"), ~is_stopped)
_kinds = {
    "free": and_(_due, runs.c.worker.is_(None)),
    "left": and_(_due, runs.c.worker.is_not(None), runs.c.until <= bindparam("now")),
}
"""The two kinds of due runs: "free" without a worker, and "left" with an expired lease."""
_mine = (
    runs.c.run == bindparam("of_run"),
    runs.c.fence == bindparam("of_fence"),
    runs.c.worker == bindparam("of_worker"),
)
_back = {"worker": None, "until": None}

READY = {
    kind: Statement(select(runs.c.id).where(due, runs.c.caller.is_(None)).limit(1)) for kind, due in _kinds.items()
}
TAKE = advance(("worker", "until", "fence"))
RENEW = Statement(update(runs).where(*_mine).values(until=bindparam("until")))
_left = (runs.c.id, runs.c.wake, runs.c.status, runs.c.seq)
RELEASE = Statement(update(runs).where(*_mine).values(**_back, failures=0, error=None).returning(*_left))
FAIL = Statement(
    update(runs).where(*_mine).values(**_back, failures=runs.c.failures + 1, error=bindparam("error")).returning(*_left)
)
WAKE = advance(("wake",))


@functools.cache
def _claim(kind: str, agents: int | None, outside: bool) -> Statement:
    """Return the statement that claims runs of one kind, for this number of agents or with None for all.

    With `outside` it claims those that programs outside drive, and no others; else none of these.
    """
    where = [_kinds[kind], runs.c.caller.is_not(None) if outside else runs.c.caller.is_(None)]
    if agents is not None:
        names: list[BindParameter[str]] = [bindparam(f"agent{number}") for number in range(agents)]
        where.append(func.coalesce(runs.c.agent, "").in_(names))  # use the index of due runs, none on agent
    due = (
        select(runs.c.id)
        .where(*where)
        .order_by(runs.c.wake, runs.c.run)
        .limit(bindparam("limit"))
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    return Statement(
        update(runs)
        .where(runs.c.id.in_(select(due.c.id)))
        .values(worker=bindparam("worker"), until=bindparam("until"), fence=runs.c.fence + 1)
        .returning(runs.c.wake, runs.c.run, runs.c.fence)
    )


def claim(
    transaction: Transaction,
    worker: str,
    agents: Sequence[str] | None,
    now: int,
    until: int,
    limit: int,
    outside: bool = False,
) -> list[Lease]:
    """Acquire the leases of due runs that no worker holds, the longest waiting first."""
    named: dict[str, Any] = {"worker": worker, "now": now, "until": until}
    if agents is not None:
        named |= {f"agent{number}": agent for number, agent in enumerate(agents)}
    rows: list[tuple[Any, ...]] = []
    for kind in ("left", "free"):
        if len(rows) < limit:
            statement = _claim(kind, None if agents is None else len(agents), outside)
            rows += transaction.rows(statement, **named, limit=limit - len(rows))
    return [Lease(run, worker, fence) for _, run, fence in sorted(rows)]


def take(transaction: Transaction, run_id: str, worker: str, seq: int, now: int, until: int) -> Lease:
    """Acquire the lease of a run."""
    if type(run_id) is not str or not holds(run_id):
        raise run_not_found(run_id)
    run = locked(transaction, run_id)
    check_take(run.row, run_id, worker, seq, now)
    transaction.execute(TAKE, number=run.id, worker=worker, until=until, fence=run.fence + 1)
    return Lease(run_id, worker, run.fence + 1)


def renew(transaction: Transaction, leases: Iterable[Lease], until: int) -> list[Lease]:
    """Extend the leases that still hold, and return them."""
    ordered = sorted(leases, key=lambda lease: lease.run)  # a fixed order prevents deadlocks
    return [lease for lease in ordered if transaction.do(RENEW, **_of(lease), until=until)]


def release(
    transaction: Transaction, lease: Lease, wake: int | None, error: str | None, seq: int | None, now: int
) -> bool:
    """Release a lease; return True if the run may be claimed, now or later."""
    if error is None:
        row = transaction.row(RELEASE, **_of(lease))
    else:
        row = transaction.row(FAIL, **_of(lease), error=error)
    if row is None:
        return False
    number, before, status, facts = row
    if error is None and wake is None:
        return before is not None
    if wake is None and seq not in (None, facts):
        wake = now
    wake = wake if status in UNDER_WAY else None
    transaction.execute(WAKE, number=number, wake=wake)
    return wake is not None


def ready(transaction: Transaction, now: int) -> bool:
    """Return True if a run can be claimed."""
    return any(transaction.row(statement, now=now) is not None for statement in READY.values())


def _of(lease: Lease) -> dict[str, Any]:
    return {"of_run": lease.run, "of_fence": lease.fence, "of_worker": lease.worker}
