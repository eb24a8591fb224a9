"""An event loop whose order of things is drawn: any callback that is ready may come first, and any timer too early.

What is correct on every such loop does not depend on who is quick. Time is virtual: it moves to the next timer when
nothing else is to be done, or when that is drawn. So programs with timers, heartbeats and polls take no real time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

Choose = Callable[[int], int]
"""Given how many could come next, which one does. The first is the one that asyncio itself would take."""


class DrawnLoop(asyncio.SelectorEventLoop):
    """Runs one callback at a time, the one that `choose` says."""

    def __init__(self, choose: Choose, *, threads: bool) -> None:
        super().__init__()
        self._choose, self._threads, self._time = choose, threads, 0.0
        self.steps = 0

    def time(self) -> float:
        return self._time

    def _run_once(self) -> None:
        self._drop_cancelled()
        idle = not self._ready
        # A thread may be about to give what somebody waits for; it gets a moment before time moves on.
        wait = 0.0 if not idle or self._stopping else 0.001 if self._scheduled else 0.1
        if self._threads or (idle and not self._scheduled):
            self._process_events(self._selector.select(wait))
        count = len(self._ready)
        picked = self._choose(count + len(self._scheduled)) if count else 0
        if picked >= count and self._scheduled:
            self._fire(picked - count)
        elif count:
            self._ready.rotate(-picked)
            handle = self._ready.popleft()
            self._ready.rotate(picked)
            self.steps += 1
            if not handle._cancelled:
                handle._run()

    def _drop_cancelled(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False

    def _fire(self, number: int) -> None:
        """Move time to this timer, as if what went before had taken so long; all timers up to it are due."""
        timers = sorted(self._scheduled)
        self._time = max(self._time, timers[number]._when)
        while self._scheduled and self._scheduled[0]._when <= self._time:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            self._ready.append(timer)


def by_chance(seed: int, rate: float) -> Choose:
    """Take the first, and with this rate any other."""
    chance = Random(seed)

    def choose(count: int) -> int:
        return chance.randrange(count) if chance.random() < rate else 0

    return choose


def by_list(turns: dict[int, int]) -> Choose:
    """Take the first, but at these steps another one."""
    step = 0

    def choose(count: int) -> int:
        nonlocal step
        step += 1
        return turns.get(step, 0) % count

    return choose


def play(work: Coroutine[Any, Any, T], choose: Choose, *, threads: bool = False) -> T:
    """Run a program to its end on such a loop. With `threads` it has some that call back."""
    loop = DrawnLoop(choose, threads=threads)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)
