"""The scenarios of runs that live in a database: what they weigh, and what it costs to pause and resume many."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ..clock import Clock, resident
from ..conversation import FINAL, LOOKUP, WIRE, answer, executed, forget, useful
from . import driver


class Driver(driver.Driver):
    """A peer that saves its runs itself. What is decided and resumed is found by what `keep` returns of a run."""

    @abstractmethod
    async def weigh(self, agent: Any) -> int:
        """The bytes that the database holds: of the file with its log, or of the tables with their indexes."""

    @abstractmethod
    async def decide(self, agent: Any, kept: Any) -> None:
        """Approve every call of this run that waits, where that is a step of its own."""

    @abstractmethod
    async def go_on(self, agent: Any, kept: Any) -> Any:
        """Take up a run that was decided on, from the database, to the end or the next pause."""

    def commits(self, agent: Any) -> int | None:
        """How many transactions were written since the database was opened; None if nobody counts them."""
        return None

    async def stored(self, clock: Clock, n: int, length: int, runs: int, even: int = 0) -> None:
        """One run: n turns of one call each, whose answer has about this length, or exactly if `even`.

        Weighed as the mean of so many runs. One run comes before: the first pages of tables and
        indexes are the database's, not the run's.
        """
        self.script.respond = self._replies([self.calls(turn) for turn in range(n)])
        async with self.ready(gated=False) as agent:
            forget(length, bool(even))
            await self.begin(agent)
            before, commits = await self.weigh(agent), self.commits(agent)
            with clock.phase("run"):
                outcome = await self.begin(agent)
            written = self.commits(agent)
            self._check(outcome, [answer(turn, length, bool(even)) for turn in range(n)], lookups=2 * n)
            for _ in range(runs - 1):
                await self.begin(agent)
            weight = (await self.weigh(agent) - before) / runs
        clock.metric("stored_bytes", weight)
        clock.metric("times_useful", weight / useful(n, length, bool(even)))
        if commits is not None and written is not None:
            clock.metric("commits", written - commits)

    async def parked(self, clock: Clock, runs: int, prior: int) -> None:
        """Begin so many runs that each wait for approval; then decide on all of them; then end all of them."""
        self._wire_after(prior)
        async with self.ready() as agent:
            self._check_paused(await self.begin(agent), 1)
            with clock.phase("pause"):
                kept = [self.keep(await self.begin(agent)) for _ in range(runs)]
            assert not executed[WIRE], "a call ran before it was approved"
            with clock.phase("resume"):
                for one in kept:
                    await self.decide(agent, one)
                for one in kept:
                    outcome = await self.go_on(agent, one)
                    assert self.text(outcome) == FINAL
            assert executed[WIRE] == runs, f"{executed[WIRE]} of {runs} approved calls ran"

    async def late(self, clock: Clock, prior: int, cycles: int) -> None:
        """One run that waits after so many turns, and then at every turn: a decision, and a resume to the next wait."""
        self._wire_after(prior, cycles)
        async with self.ready() as agent:
            outcome = await self.begin(agent)
            for cycle in range(cycles):
                assert self.waiting(outcome) == 1, "no call waits"
                kept = self.keep(outcome)
                with clock.phase("decide", shares=cycles):
                    await self.decide(agent, kept)
                with clock.phase("resume", shares=cycles):
                    outcome = await self.go_on(agent, kept)
                assert executed[WIRE] == cycle + 1, f"{executed[WIRE]} of {cycle + 1} approved calls ran"
            assert self.text(outcome) == FINAL

    async def idle(self, clock: Clock, first: int, runs: int) -> None:
        """So many paused runs that nobody holds, and then more: what process and database grow by for each of these.

        The first fill what a database keeps in memory of its pages, which has an end.
        """
        self._wire_after(0)
        async with self.ready() as agent:
            for _ in range(first):
                await self.begin(agent)
            weight, before = await self.weigh(agent), resident()
            for _ in range(runs):
                await self.begin(agent)
            after = resident()
            weight = await self.weigh(agent) - weight
        with clock.phase("nothing"):
            pass
        if before is not None and after is not None:
            clock.metric("idle_bytes", max(0, after - before) / runs)
        clock.metric("waiting_bytes", weight / runs)

    def _wire_after(self, prior: int, wires: int = 1) -> None:
        def respond(items: int) -> Any:  # made anew for every run, as a model would
            turn = (items - 1) // 2
            return self.final() if turn >= prior + wires else self.calls(turn, LOOKUP if turn < prior else WIRE)

        self.script.respond = respond
