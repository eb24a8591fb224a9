"""Care for the runs of programs outside by the store itself: passed deadlines, and leases that lapsed."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ..approval.foreign_call import CALL
from ..approval.question import doubt_of
from ..core import facts as f
from ..core.rules import RUNNING
from ..core.run import CallState, Run, overdue
from ..errors import AssentryError, LeaseLost, RunBusy
from .call_status import redact_of
from .call_writing import ATTEMPTS, append_change, change_of_call, since_began
from .record import Lease, Stored
from .rules import is_driven
from .store import Store

log = logging.getLogger("assentry")

TENDER = "outside"
"""The name under which the store itself holds the lease of such a run for a moment."""
TENDING = 0.01
"""The seconds before another look at a call that somebody else looks after just now."""
TENDED = 2.0
"""The seconds between two looks for runs whose program tells no more."""


async def read_tended(store: Store, run_id: str) -> Stored:
    """Return a run as it is now, after its deadline and the lease of its program."""
    for _ in range(ATTEMPTS):
        stored = await store.read(run_id)
        record = stored.record
        if record.caller is None or record.erased is not None:
            return stored
        await store.open()
        tended = record.worker == TENDER and is_driven(record.worker, record.until, int(store.clock() * 1000))
        if not tended and (after := await tend_call(store, stored)) is not None:
            return after
        await asyncio.sleep(TENDING)
    return await store.read(run_id)


async def tend_call(store: Store, stored: Stored, lease: Lease | None = None) -> Stored | None:
    """Record what time has done to a call: a passed deadline, or a lease that lapsed. None if others were first."""
    run, record = stored.run(), stored.record
    state = run.calls.get(CALL)
    if state is None and lease is None:
        return stored
    await store.open()
    at = since_began(store, run)
    facts: list[f.AnyFact] = list(overdue(run, at))
    now = int(store.clock() * 1000)
    held = lease is None and is_driven(record.worker, record.until, now)
    if state is not None and not facts and state.phase is RUNNING and not held and run.cancelled is None:
        facts = [_doubt(run, state, at)]
    if not facts and lease is None:
        return stored
    change = change_of_call(store, stored, run, facts)
    change.release = True
    change.lease = lease or Lease(record.id, TENDER, (stored.fence or 0) + 1)
    change.take = lease is None
    try:
        return await append_change(store, stored, change)
    except (LeaseLost, RunBusy):
        return None


def _doubt(run: Run, state: CallState, at: int) -> f.Asked:
    """Return the question about a call that was started, and of which its program tells no more."""
    asked = state.question
    fields: dict[str, Any] = {"redact": redact_of(run, state)}
    if asked is not None:
        fields |= {"reviewers": asked.reviewers, "risk": asked.risk}
    note = f"{run.began.agent if run.began else 'The program'} told nothing more of it."
    return doubt_of(run, (), state, note, at, fields)


async def tend_calls(store: Store) -> int:
    """Look after all runs of programs outside that are due; return their number.

    A question whose deadline has passed is rejected. A call that was started and is reported no more is in doubt.
    """
    leases = await store.claim(TENDER, agents=None, hold=30.0, limit=100, outside=True)
    for lease in leases:
        try:
            stored = await store.read(lease.run)
            if await tend_call(store, stored, lease) is None:
                await store.release(lease)
        except AssentryError as error:
            log.warning("The ask %s cannot be looked after: %s", lease.run, error)
            await store.release(lease, error=str(error))
    return len(leases)


async def keep_tending(store: Store) -> None:
    """Look after the runs of programs outside until cancelled."""
    while True:
        try:
            if await tend_calls(store):
                continue
        except Exception as error:  # whatever it is, deadlines and lapsed holds of all other calls wait for this task
            trace = None if isinstance(error, AssentryError) else error
            log.warning("The asks of programs outside cannot be looked after; trying again: %s", error, exc_info=trace)
        await asyncio.sleep(TENDED)
