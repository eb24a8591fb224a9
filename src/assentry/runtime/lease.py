"""The lease of one drive: its states as a table, and the steps that are allowed in each.

A drive acts on a run of a store only while it holds the run's lease. Every step is a row of the table; any other step
raises `LeaseLost`. Writing to the store belongs in `store_writer`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Literal, NamedTuple

from ..errors import LeaseLost, Overtaken, StoreFailed
from ..store.record import Lease

log = logging.getLogger("assentry")

Look = Callable[[], Awaitable[None]]


class LeaseState(Enum):
    """The state of a drive's lease; the value completes "the lease ..."."""

    __hash__ = object.__hash__  # each state is one object; the hash of an Enum is that of its name, and costs more

    FREE = "was not acquired yet"
    HELD = "is held"
    RELEASING = "is being released"
    RELEASED = "was released"
    REFUSED = "was refused"
    LOST = "was lost to another worker"


FREE, HELD, RELEASING, RELEASED, REFUSED, LOST = LeaseState

Step = Literal[
    "begin", "write", "acquire", "renew", "release", "released", "keep", "withdraw", "reopen", "refuse", "lose"
]


class LeaseRule(NamedTuple):
    """One transition of the table: state, step, next state, and the reason."""

    state: LeaseState
    step: Step
    next: LeaseState
    why: str


ROWS = (
    LeaseRule(FREE, "begin", FREE, "what must not run without the lease waits for the write that acquires it"),
    LeaseRule(FREE, "write", FREE, "the first write acquires the lease, once it is stored"),
    LeaseRule(FREE, "acquire", HELD, "the store has given it, with a write or by itself"),
    LeaseRule(FREE, "release", RELEASING, "one write acquires the lease and releases it"),
    LeaseRule(FREE, "refuse", REFUSED, "another drives the run, or has changed it since it was read"),
    LeaseRule(HELD, "begin", HELD, "the run is this drive's"),
    LeaseRule(HELD, "write", HELD, "the run is this drive's"),
    LeaseRule(HELD, "renew", HELD, "a drive that takes long says that it lives"),
    LeaseRule(
        HELD, "release", RELEASING, "the last write is begun; nothing else may be, until it is known how it ended"
    ),
    LeaseRule(HELD, "lose", LOST, "another has a newer lease"),
    LeaseRule(RELEASING, "release", RELEASING, "the last write is tried again"),
    LeaseRule(RELEASING, "acquire", RELEASING, "it had to be acquired by itself before the last write"),
    LeaseRule(RELEASING, "released", RELEASED, "the last write is stored"),
    LeaseRule(RELEASING, "keep", HELD, "the last write was refused, or failed: the run is still this drive's"),
    LeaseRule(RELEASING, "withdraw", FREE, "the last write would have acquired the lease first, and failed"),
    LeaseRule(RELEASING, "refuse", REFUSED, "another drives the run, or has changed it since it was read"),
    LeaseRule(RELEASING, "lose", LOST, "another has a newer lease"),
    LeaseRule(
        RELEASED, "reopen", FREE, "something was recorded while the last write was under way: it needs a lease again"
    ),
)

NEXT = {(row.state, row.step): row.next for row in ROWS}


class RunLease:
    """A drive's lease on its run.

    Args:
        run: The run's id.
        worker: The drive's name in the store.
        hold: Seconds that the lease holds if it is not renewed.
        lease: The lease, if it was acquired already.
        fence: The fence of the run's newest lease, if known.
    """

    __slots__ = ("fence", "held", "hold", "run", "state", "worker")

    def __init__(self, run: str, worker: str, hold: float, lease: Lease | None, fence: int | None) -> None:
        self.run, self.worker, self.hold = run, worker, hold
        self.held = lease
        """The lease as the store knows it; None before it is acquired, and after it is released."""
        self.fence = fence if lease is None else lease.fence
        self.state = FREE if lease is None else HELD

    def step(self, step: Step) -> None:
        """Take a step, or raise `LeaseLost` and change nothing."""
        self.state = self._after(step)

    def check(self, step: Step) -> None:
        """Raise `LeaseLost` unless this step is allowed now."""
        self._after(step)

    def _after(self, step: Step) -> LeaseState:
        found = NEXT.get((self.state, step))
        if found is None:
            raise LeaseLost(f"Run {self.run!r} is not driven here any more: its lease {self.state.value}.")
        return found

    def may(self, step: Step) -> bool:
        """Return True if this step is allowed now."""
        return (self.state, step) in NEXT

    @property
    def active(self) -> bool:
        """True if the drive may continue: it holds the lease, or acquires the lease before anything that needs it."""
        return self.may("begin")

    @property
    def acquired(self) -> bool:
        """True once the lease was acquired; False again if it must be acquired anew."""
        return self.held is not None or self.state in (RELEASED, LOST)

    @property
    def kept(self) -> bool:
        """True if the store, as far as known, still has the lease as this drive's."""
        return self.held is not None and self.state is not LOST

    @property
    def next_fence(self) -> int:
        """The fence of this drive's next write."""
        return self.held.fence if self.held is not None else (self.fence or 0) + 1

    def offered(self) -> Lease:
        """Return the lease for the next write: the held lease, or the next one."""
        return self.held or Lease(self.run, self.worker, self.next_fence)

    def acquire(self, lease: Lease) -> None:
        """Record that the store has granted this lease."""
        self.step("acquire")
        self.held, self.fence = lease, lease.fence

    def released(self) -> None:
        """Record that the last write is stored, and that the lease was released with it."""
        self.step("released")
        self.held = None

    def give_up_release(self) -> None:
        """Record that the last write was not stored: the lease is as it was before."""
        if self.state is RELEASING:
            self.step("keep" if self.held is not None else "withdraw")

    def lose(self) -> None:
        """Record that the lease was lost to another worker, or could not be acquired."""
        step: Step = "lose" if self.held is not None else "refuse"
        if self.may(step):
            self.step(step)


class Heartbeat:
    """Renews the lease of a long drive, three times in each holding time.

    Args:
        run: The run's id, for log messages.
        hold: Seconds that the lease holds if it is not renewed.
        look: Renews the lease. An exception ends the heartbeat, unless it is `StoreFailed` or `Overtaken`.
        stop: Called with the exception that ended the heartbeat.
    """

    def __init__(self, run: str, hold: float, look: Look, stop: Callable[[Exception], None]) -> None:
        self.run, self.hold, self.look, self.stop = run, hold, look, stop
        self._timer = asyncio.get_running_loop().call_later(hold / 3, self.beat)
        self._beating: asyncio.Task[None] | None = None

    def beat(self) -> None:
        """Renew the lease now, and then again and again."""
        self._beating = asyncio.create_task(self._beat())

    @property
    def renews(self) -> bool:
        """True once the lease was renewed, or is being renewed."""
        return self._beating is not None

    async def end(self) -> None:
        """Stop, and wait for a renewal that is under way."""
        self.cancel()
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating

    def cancel(self) -> None:
        """Begin no renewal, if none has begun."""
        self._timer.cancel()

    async def _beat(self) -> None:
        while True:
            try:
                await self.look()
            except StoreFailed as error:
                log.warning("The lease of run %s could not be renewed: %s", self.run, error)
            except Overtaken:
                pass  # the drive knows, and may begin again: it still needs the lease
            except Exception as error:
                self.stop(error)
                return
            await asyncio.sleep(self.hold / 3)
