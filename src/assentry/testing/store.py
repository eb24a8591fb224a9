"""`check_store`: runs the checks in `store_checks`, for authors of custom stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from ..store.store import Store
from .clock import FakeClock
from .store_checks import counting, decision, journal, lease, preview, record, standing, stop, upkeep
from .store_checks import damage as damaging
from .store_checks.damage import Damage

MakeStore = Callable[[Callable[[], float]], Store | Awaitable[Store]]
Check = Callable[[Store, FakeClock], Awaitable[None]]

CHECK_TIMEOUT = 120.0
"""Timeout of a check, in seconds: a store that does not answer is wrong, too."""
STORE_CHECKS: tuple[Check, ...] = (
    *journal.JOURNAL_CHECKS,
    *record.RECORD_CHECKS,
    *counting.COUNTING_CHECKS,
    *lease.LEASE_CHECKS,
    *decision.DECISION_CHECKS,
    *stop.STOP_CHECKS,
    *standing.STANDING_CHECKS,
    *upkeep.UPKEEP_CHECKS,
    *preview.PREVIEW_CHECKS,
)


async def check_store(make_store: MakeStore, *, damage: Damage | None = None) -> None:
    """Check a store implementation; raise `AssertionError` with the rule that the store breaks.

    Args:
        make_store: A function of a clock, called several times, that returns an empty store or an awaitable of one.
            The store must use that clock: leases and deadlines are checked by moving the clock, and nothing sleeps. A
            store with another clock, such as its database's, needs an option to set the clock for these checks. Each
            store is closed in the end.
        damage: An optional function of a store, a run's id, a row number and a text. It replaces that row of the run's
            journal with the text, without the store's methods. The checks then test that the store detects the damage.
    """
    for check in STORE_CHECKS:
        await _try(make_store, check)
    if damage is not None:
        for damaged in damaging.checks(damage):
            await _try(make_store, damaged)


async def _try(make_store: MakeStore, check: Check) -> None:
    clock = FakeClock()
    given = make_store(clock)
    store = await given if isawaitable(given) else given
    if not isinstance(store, Store):
        raise AssertionError(f"A store is a subclass of `Store`; {type(store).__name__} is not.")
    try:
        if store.clock() != clock():
            raise AssertionError("A store uses the clock that it was made with.")
        await asyncio.wait_for(check(store, clock), CHECK_TIMEOUT)
    except AssertionError:
        raise
    except TimeoutError as error:
        raise AssertionError(f"{check.__doc__} It did not answer in {CHECK_TIMEOUT:.0f} seconds.") from error
    except Exception as error:
        raise AssertionError(f"{check.__doc__} It raised {error!r:.300}.") from error
    finally:
        await store.close()
