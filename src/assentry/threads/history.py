"""The history of a thread: reads its runs from the store, and makes the snapshots of their points."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from ..core import facts as f
from ..core.codec import replay
from ..core.number import is_count
from ..core.run import Run
from ..core.wording import described
from ..errors import RunNotFound, UsageError
from ..store.record import Stored
from ..store.store import Store
from .interrupts import Interrupt
from .snapshot import (
    START,
    PregelTask,
    StateSnapshot,
    ThreadPoint,
    forked_point,
    iso_time,
    next_steps,
    opening_facts,
    points_in,
    step_of,
)

Show = Callable[[Sequence[Run]], dict[str, Any]]
"""A function that returns the state after these runs, the last one up to the point, with its open interrupts."""


class ThreadHistory:
    """The points of a thread. Runs are read when they are needed, each once.

    `gate` says if a person is to be asked about a call that is not judged yet; None for an agent without a gate.
    """

    def __init__(self, store: Store, thread: str, show: Show, gate: Callable[[Run], bool] | None = None) -> None:
        self.store, self.thread, self._show, self._gate = store, thread, show, gate
        self._folded: dict[str, Run | None] = {}

    async def stored(self, number: int) -> Stored | None:
        """Return a run of the thread by its number; None if it was purged or erased, or never was."""
        try:
            stored = await self.store.read(f"{self.thread}:{number}")
        except RunNotFound:
            return None
        return stored if stored.record.erased is None else None

    async def runs_before(self, follows: str | None) -> list[Run]:
        """Return a run and those that it follows, the oldest first, back to the first that was purged or erased."""
        runs: list[Run] = []
        while follows is not None:
            if follows not in self._folded:
                self._folded[follows] = await self._fold(follows)
            if (run := self._folded[follows]) is None:
                break
            runs.append(run)
            follows = run.began.follows if run.began is not None else None
        return runs[::-1]

    async def _fold(self, run_id: str) -> Run | None:
        try:
            stored = await self.store.read(run_id)
        except RunNotFound:
            return None
        return replay(stored.facts) if stored.record.erased is None else None

    async def snapshot(self, point: ThreadPoint, stored: Stored | None = None) -> StateSnapshot:
        """Return the snapshot of a point, or raise `RunNotFound` if there is none; `stored` is its run if just read."""
        stored = stored or await self.stored(point.run)
        if stored is None or point.facts > len(stored.facts):
            raise no_point(self.thread, point)
        earlier = [number for number in _points(stored.facts) if number < point.facts]
        return await self._snapshot(stored, point, earlier[-1] if earlier else None)

    async def snapshots(
        self, newest: int, before: ThreadPoint | None = None, filter: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[StateSnapshot, None]:
        """Yield the snapshots of all points, newest first, from the run with this number on."""
        for number in range(newest if before is None else min(newest, before.run), 0, -1):
            stored = await self.stored(number)
            if stored is None:
                continue
            points = _points(stored.facts)
            for place in range(len(points) - 1, -1, -1):
                point = ThreadPoint(number, points[place])
                if before is not None and point >= before:
                    continue
                made = await self._snapshot(stored, point, points[place - 1] if place else None)
                if not filter or all((made.metadata or {}).get(key) == value for key, value in filter.items()):
                    yield made

    async def _snapshot(self, stored: Stored, point: ThreadPoint, earlier: int | None) -> StateSnapshot:
        """Return the snapshot of a point of a run; `earlier` is the number of facts of the run's point before."""
        began = stored.facts[0]
        assert isinstance(began, f.Began)
        before = await self.runs_before(began.follows)
        facts = stored.facts[: point.facts]
        run = replay(facts) if facts else None
        state = self._show([*before, run or Run()])
        waiting: tuple[Interrupt, ...] = tuple(state.pop("__interrupt__", ()))
        steps = (START,) if run is None else next_steps(run, self._gate is not None and self._gate(run))
        metadata = {
            "source": "loop" if earlier is not None else _source(stored.facts),
            "step": step_of(before, run, self._gate is not None),
            "parents": {},
            "run_id": stored.record.id,
        }
        error = stored.record.error if point.facts == stored.record.seq else None
        tasks = tuple(PregelTask(f"{point.id}:{name}", name, (name,), error, waiting) for name in steps)
        parent = ThreadPoint(point.run, earlier) if earlier is not None else await self._parent(began)
        at = began.at + max((fact.at for fact in facts[1:]), default=0)
        return StateSnapshot(
            state,
            steps,
            point.config(self.thread),
            metadata,
            iso_time(at),
            parent.config(self.thread) if parent is not None else None,
            tasks,
            waiting,
        )

    async def _parent(self, began: f.Began) -> ThreadPoint | None:
        """Return the point before a run: the one that it was forked from, or the end of the run that it follows."""
        forked = forked_point(began.forked, self.thread)
        number = (began.follows or "").removeprefix(f"{self.thread}:")
        if forked is not None or not number.isdecimal():
            return forked
        last = await self.stored(int(number))
        return ThreadPoint(int(number), _points(last.facts)[-1]) if last is not None else None


def _points(facts: Sequence[f.AnyFact]) -> list[int]:
    """Return the numbers of facts at a run's points; a run that is no fork has one before its input."""
    began = facts[0] if facts else None
    forked = isinstance(began, f.Began) and began.forked is not None
    return points_in(facts) if forked else [0, *points_in(facts)]


def _source(facts: Sequence[f.AnyFact]) -> str:
    """Return the source of a run's first point."""
    began, last = facts[0], facts[opening_facts(facts) - 1]
    if not isinstance(began, f.Began) or began.forked is None:
        return "input"
    return "update" if isinstance(last, f.Cancelled | f.Closed) else "fork"


def no_point(thread: str, point: ThreadPoint) -> RunNotFound:
    """Return the error for a point that a thread does not have."""
    return RunNotFound(f"Thread {thread!r:.80} has no checkpoint {point.id!r}; get_state_history lists those it has.")


async def limited(
    snapshots: AsyncGenerator[StateSnapshot, None], limit: int | None
) -> AsyncGenerator[StateSnapshot, None]:
    """Yield the first `limit` snapshots, or all without a limit; no further run is read then."""
    if limit is not None and not is_count(limit, 0):
        raise UsageError(f"limit is a whole number from 0 on, or None; got {described(limit)}.")
    left = limit
    async with aclosing(snapshots):
        while left is None or left > 0:
            try:
                yield await anext(snapshots)
            except StopAsyncIteration:
                return
            left = None if left is None else left - 1
