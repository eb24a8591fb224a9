"""Tries out a store: what every one of them must do, for those who write their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from ..store.store import Store
from .clock import FakeClock
from .store_checks import damage as damaging
from .store_checks import decision, journal, lease, record, upkeep
from .store_checks.damage import Damage

MakeStore = Callable[[Callable[[], float]], Store | Awaitable[Store]]
Check = Callable[[Store, FakeClock], Awaitable[None]]

PATIENCE = 120.0
"""How many seconds a check may take: a store that does not answer is wrong, too."""
CHECKS: tuple[Check, ...] = (
    *journal.CHECKS,
    *record.CHECKS,
    *lease.CHECKS,
    *decision.CHECKS,
    *upkeep.CHECKS,
)


async def check_store(make_store: MakeStore, *, damage: Damage | None = None) -> None:
    """Try out a store; `AssertionError` says what it does wrong.

    Args:
        make_store: Called with a clock, as often as needed; gives an empty store, or an awaitable of one. The
            store must go by that clock: leases and deadlines are tried out by moving it, and nothing sleeps. A
            store that goes by another clock, such as its database's, needs a way to be given one, if only for this.
            Each store is closed in the end.
        damage: If given, called with a store, a run's id, a number and a text: puts the text in the place of that
            row of the run's journal, behind the store's back. Then it is tried out whether the store notices.
    """
    for check in CHECKS:
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
            raise AssertionError("A store goes by the clock that it was made with.")
        await asyncio.wait_for(check(store, clock), PATIENCE)
    except AssertionError:
        raise
    except TimeoutError as error:
        raise AssertionError(f"{check.__doc__} It did not answer in {PATIENCE:.0f} seconds.") from error
    except Exception as error:
        raise AssertionError(f"{check.__doc__} It raised {error!r:.300}.") from error
    finally:
        await store.close()
