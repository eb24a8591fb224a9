"""The scenarios of runs that are Temporal workflows: how their history grows, and what they cost.

A peer's driver says the peer's own words: a reply of the model, a worker, a run, a question. What is measured and what
must have come out is here, the same for all. The model and the tools' bodies run in this process, as the worker does.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from ..clock import Clock, resident
from ..conversation import FINAL, LOOKUP, WIRE, answer, executed, forget
from ..temporal_history import Event, grown, per_turn
from ..temporal_server import Server, server

QUEUE = "agents"
START_SECONDS = 60
STALLED_SECONDS = 60
SETTLE_SECONDS = 10
LOOK_SECONDS = 0.02
"""The time between two looks for a question, the same for all peers."""
AT_ONCE = 50
"""How many runs are begun at once where many are."""


class Driver(ABC):
    """A peer with runs in Temporal, driven through the scenarios."""

    lacks: frozenset[str] = frozenset()
    shows_outputs = True
    """True if the model is shown the whole conversation, as every agent's is; the yardstick's is not."""

    client: Client
    """Connected while `working` lasts."""

    def __init__(self) -> None:
        self.length = 0
        self.turns = 0
        self.tool = LOOKUP
        self.asked: list[float] = []

    # -- the peer's own words ------------------------------------------------------------------------

    @abstractmethod
    def working(self, address: str) -> AbstractAsyncContextManager[None]:
        """Connect `client` to the server at this address, and run a worker with its default cache on QUEUE."""

    @abstractmethod
    def call(self, turn: int, tool: str) -> Any:
        """Return a reply of the model that calls a tool once."""

    @abstractmethod
    def final(self) -> Any:
        """Return a reply of the model that says FINAL."""

    @abstractmethod
    async def start(self, workflow_id: str, max_turns: int) -> Any:
        """Start a run of PROMPT, by this id if the peer lets one choose; return what the methods below find it by."""

    @abstractmethod
    async def result(self, run: Any) -> str:
        """Wait for the run's end; return its output."""

    @abstractmethod
    async def question(self, run: Any) -> Any:
        """Return the question that waits in this run, or None."""

    @abstractmethod
    async def approve(self, run: Any, question: Any) -> None:
        """Approve a call that waits."""

    def workflow_id(self, run: Any) -> str:
        """Return the id of the run's workflow."""
        found: str = run.id
        return found

    def beside(self) -> int:
        """Return the bytes of all runs that the peer has written elsewhere than into their histories."""
        return 0

    # -- the model's side ----------------------------------------------------------------------------

    def reply(self, outputs: list[str], turn: int | None = None) -> Any:
        """Return the model's reply to a conversation with these outputs of tools; drivers' models call it."""
        self.asked.append(time.time())
        turn = len(outputs) if turn is None else turn
        if self.shows_outputs and turn:
            assert outputs[-1] == answer(turn - 1, self.length, even=True), "the model was shown another output"
        if turn < self.turns:
            return self.call(turn, self.tool)
        if self.shows_outputs:
            expected = [answer(each, self.length, even=True) for each in range(turn)]
            assert outputs == expected, "the model was not shown the whole conversation"
        return self.final()

    def _script(self, turns: int, length: int, tool: str) -> None:
        forget(length, even=True)
        self.turns, self.length, self.tool, self.asked = turns, length, tool, []

    # -- the scenarios -------------------------------------------------------------------------------

    async def temporal_turns(self, clock: Clock, n: int, length: int) -> None:
        """One run: n turns of one call each, whose answer has this length, then the final text."""
        async with self._served(length) as process:
            self._script(n, length, LOOKUP)
            await self._measured(clock, process, n, person=False)

    async def temporal_approvals(self, clock: Clock, n: int, length: int) -> None:
        """The same with a person at every turn: each call waits until it is approved."""
        async with self._served(length) as process:
            self._script(n, length, WIRE)
            await self._measured(clock, process, n, person=True)

    async def temporal_waiting(self, clock: Clock, runs: int) -> None:
        """So many runs that each wait for a person: the memory of the worker and of the server."""
        async with self._served(0) as process:
            self._script(1, 128, WIRE)
            before, server_before = resident(), process.resident()
            with clock.phase("begin", shares=runs):
                begun = [run for first in range(0, runs, AT_ONCE) for run in await self._begin(first, runs)]
                for run in begun:
                    assert await self._wait(run) is not None, "no call waits"
            assert not executed[WIRE], "a call ran before it was approved"
            after, server_after = resident(), process.resident()
            if before is not None and after is not None:
                clock.metric("waiting_bytes", (after - before) / runs)
                clock.metric("worker_bytes", after)
            if server_before is not None and server_after is not None:
                clock.metric("server_waiting_bytes", (server_after - server_before) / runs)
                clock.metric("server_bytes", server_after)
            await self.approve(begun[-1], await self._wait(begun[-1]))
            assert await self.result(begun[-1]) == FINAL and executed[WIRE] == 1

    async def _begin(self, first: int, runs: int) -> list[Any]:
        numbers = range(first, min(first + AT_ONCE, runs))
        return await asyncio.gather(*(self.start(f"waiting-{number}", 3) for number in numbers))

    @asynccontextmanager
    async def _served(self, length: int) -> AsyncIterator[Server]:
        """Start a server and a worker, and let one short run of each kind come before what is measured."""
        with server() as process:
            await _answering(process.address)
            async with self.working(process.address):
                for tool in (LOOKUP, WIRE):
                    self._script(2, length, tool)
                    run = await self.start(f"first-{tool}", 4)
                    if tool == WIRE:
                        await self._approve_all(run, 2)
                    assert await self.result(run) == FINAL
                yield process

    async def _measured(self, clock: Clock, process: Server, n: int, person: bool) -> None:
        turn = Clock()
        before, beside = process.cpu_ns(), self.beside()
        with turn.phase("turn"):
            run = await self.start("measured", n + 2)
            said = asyncio.ensure_future(self._end(run, n if person else 0))
            ended = await self._unless_stalled(said)
        after = process.cpu_ns()
        # The model is asked once more than there are turns, for the last words.
        done = n if ended else len(self.asked) - 1
        assert executed[self.tool] >= (n if ended else done), f"{executed[self.tool]} of {n} calls ran"
        clock.cpu["turn"], clock.wall["turn"] = turn.cpu["turn"] / done, turn.wall["turn"] / done
        if before is not None and after is not None:
            clock.metric("server_ms", (after - before) / done / 1_000_000)
        clock.metric("beside_bytes", self.beside() - beside)
        await self._weigh(clock, self.workflow_id(run), done, ended)

    async def _end(self, run: Any, approvals: int) -> bool:
        """Go on to the end, with so many approvals; False if the server ended the run."""
        end = asyncio.ensure_future(self.result(run))
        deciding = asyncio.ensure_future(self._approve_all(run, approvals))
        await asyncio.wait({end, deciding}, return_when=asyncio.FIRST_EXCEPTION)
        if deciding.done() and deciding.exception() is not None:
            # A decision fails, too, if the server has just ended the run.
            await asyncio.wait({end}, timeout=SETTLE_SECONDS)
            if not end.done() or end.exception() is None:
                deciding.result()
        deciding.cancel()
        try:
            assert await end == FINAL, "the run said something else"
        except Exception:
            events = await self._events(self.workflow_id(run))
            if events[-1].event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
                raise
            return False
        return True

    async def _unless_stalled(self, end: asyncio.Future[bool]) -> bool:
        """Wait for the end as long as the model is asked again and again."""
        asked = -1
        while not end.done() and asked < len(self.asked):
            asked = len(self.asked)
            await asyncio.wait({end}, timeout=STALLED_SECONDS)
        if not end.done():
            end.cancel()
            raise AssertionError(f"the run stands still at turn {asked}")
        return end.result()

    async def _approve_all(self, run: Any, count: int) -> None:
        for number in range(count):
            question = await self._wait(run, number)
            assert executed[WIRE] == number, "a call ran before it was approved"
            await self.approve(run, question)

    async def _wait(self, run: Any, done: int = 0) -> Any:
        """Look until a question waits, after so many calls have run."""
        while True:
            # In this order: a question that is found after the last one's call has run is the next.
            if executed[WIRE] >= done and (found := await self.question(run)) is not None:
                return found
            await asyncio.sleep(LOOK_SECONDS)

    async def _weigh(self, clock: Clock, workflow_id: str, done: int, ended: bool) -> None:
        found = await self._events(workflow_id)
        events = [Event(event.event_time.ToNanoseconds() / 1e9, event.ByteSize()) for event in found]
        sums = grown(events, self.asked[: done + 1])
        clock.metric("history_bytes", sums[-1])
        clock.metric("events", len(events))
        clock.metric("ended_at", None if ended else done)
        clock.metric("executions", sum(_begins(event) for event in found))
        clock.series["history_bytes"] = sums
        if (early_and_late := per_turn(sums)) is not None:
            clock.metric("early_bytes", early_and_late[0])
            clock.metric("late_bytes", early_and_late[1])

    async def _events(self, workflow_id: str) -> list[HistoryEvent]:
        """Return all events, of every execution if the run was continued as new."""
        events: list[HistoryEvent] = []
        run_id = await self._first_run_id(workflow_id)
        while run_id:
            handle = self.client.get_workflow_handle(workflow_id, run_id=run_id)
            events += (await handle.fetch_history()).events
            run_id = events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        return events

    async def _first_run_id(self, workflow_id: str) -> str:
        async for event in self.client.get_workflow_handle(workflow_id).fetch_history_events():
            return event.workflow_execution_started_event_attributes.first_execution_run_id
        raise AssertionError(f"{workflow_id} has no history")


def _begins(event: HistoryEvent) -> bool:
    return bool(event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)


async def _answering(address: str) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            client = await Client.connect(address)
            await client.count_workflows()
        except (RPCError, RuntimeError):
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)
        else:
            return
