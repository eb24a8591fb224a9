"""What all drivers share: the scenarios, what is timed in them, and what must have come out.

A peer's driver says the peer's own words: a reply of the model, a run, a saved state. The phases and the checks are
here, the same for all, so that a driver that does less work fails rather than wins. Outside a phase set-up is free.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from ..clock import Clock, resident
from ..conversation import FINAL, LOOKUP, WIRE, WORD, answer, executed, forget

SCENARIOS = ("turns", "fanout", "pause", "ask", "stages", "stream", "held", "nested", "thread")
STORE_SCENARIOS = (
    "stored",
    "commit",
    "parked",
    "late",
    "idle",
    "inbox",
    "inboxes",
    "served",
    "viewed",
    "asked_outside",
)
"""For peers whose runs live in a database; `stored.py` has those that all of them share."""
DIALECT_SCENARIOS = ("dialect_stream", "dialect_turns", "dialect_run")
"""For peers with their own models over the official clients; `dialects.py` has them."""
MCP_SCENARIOS = ("mcp_calls",)
"""For peers that call an MCP server; `mcp_calls.py` has it."""
GATEWAY_SCENARIOS = ("gateway_calls",)
"""For the gateway; `assentry_gateway.py` has it."""
REALTIME_SCENARIOS = ("realtime_audio", "realtime_text", "realtime_idle")
"""For peers with live sessions; `realtime.py` has them."""
TEMPORAL_SCENARIOS = ("temporal_turns", "temporal_approvals", "temporal_waiting")
"""For peers with runs that are Temporal workflows; `temporal_runs.py` has them."""
EVERY_SCENARIO = (
    *(*SCENARIOS, *STORE_SCENARIOS, *DIALECT_SCENARIOS),
    *(*MCP_SCENARIOS, *GATEWAY_SCENARIOS, *REALTIME_SCENARIOS, *TEMPORAL_SCENARIOS),
)


class Script:
    """The model's side: a reply by how many items it was shown, so that one model serves many runs at once."""

    respond: Callable[[int], Any]


class Driver(ABC):
    """A peer, driven through the scenarios."""

    lacks: frozenset[str] = frozenset()
    """The scenarios that this peer has no words for."""
    encodes = True
    """Whether saving is a step of its own; a peer that saves as it runs has paid for it before."""
    remembers = True
    """Whether a paused run is held in this process's memory."""

    agent: Any
    """Has both tools, and a model that answers from `script`."""
    outer: Any
    """Has one tool, `delegate`, that runs another agent with both tools; their models answer from the other two."""

    def __init__(self) -> None:
        self.script, self.outer_script, self.inner_script = Script(), Script(), Script()

    # -- the peer's own words ------------------------------------------------------------------------

    @abstractmethod
    def calls(self, turn: int, tool: str = LOOKUP, count: int = 1) -> Any:
        """A reply that calls a tool so many times."""

    @abstractmethod
    def delegation(self) -> Any:
        """A reply that calls `delegate` once."""

    @abstractmethod
    def final(self) -> Any:
        """A reply that says FINAL."""

    @abstractmethod
    async def begin(self, agent: Any) -> Any:
        """Run from PROMPT until the end or a pause."""

    @abstractmethod
    def waiting(self, outcome: Any) -> int:
        """How many calls wait for approval."""

    @abstractmethod
    def text(self, outcome: Any) -> str:
        """The output of a run that is over."""

    @abstractmethod
    def outputs(self, outcome: Any) -> list[str]:
        """The tools' outputs in the transcript of a run that is over, in order."""

    @abstractmethod
    def keep(self, outcome: Any) -> Any:
        """What a process has to hold of a paused run to go on with it or save it: the least there is."""

    @abstractmethod
    def save(self, kept: Any) -> Any:
        """That as text or bytes."""

    @abstractmethod
    async def load(self, agent: Any, saved: Any) -> Any:
        """A saved run as something to decide on."""

    @abstractmethod
    def approve(self, state: Any) -> Any:
        """Approve every call that waits; returns what to resume."""

    @abstractmethod
    async def resume(self, agent: Any, state: Any) -> Any:
        """Go on until the end or a pause."""

    @abstractmethod
    def streaming(self, deltas: int) -> Callable[[], Awaitable[str]]:
        """Set up a run whose one reply comes in so many WORDs; what is returned runs it, and returns what it read."""

    @asynccontextmanager
    async def ready(self, *, gated: bool = True, nested: bool = False) -> AsyncIterator[Any]:
        """The agent, while a scenario lasts; `gated` says whether anything in it needs approval."""
        yield self.outer if nested else self.agent

    # -- the scenarios -------------------------------------------------------------------------------

    async def turns(self, clock: Clock, n: int) -> None:
        """One run: n turns of one call each, then the final text."""
        self.script.respond = self._replies([self.calls(turn) for turn in range(n)])
        async with self.ready(gated=False) as agent:
            with clock.phase("run"):
                outcome = await self.begin(agent)
            self._check(outcome, [answer(turn) for turn in range(n)], lookups=n)

    async def fanout(self, clock: Clock, k: int) -> None:
        """One run: a turn of k calls at once, then the final text."""
        self.script.respond = self._all_at_once(self.calls(0, count=k))
        async with self.ready(gated=False) as agent:
            with clock.phase("run"):
                outcome = await self.begin(agent)
            self._check(outcome, [answer(0)] * k, lookups=k)

    async def pause(self, clock: Clock, prior: int) -> None:
        """Run so many turns, pause at a call that needs approval; save, load, approve, go on to the end."""
        self.script.respond = self._replies([*map(self.calls, range(prior)), self.calls(prior, WIRE)])
        async with self.ready() as agent:
            outcome = await self.cycle(clock, agent, 1)
            self._check(outcome, [answer(turn) for turn in range(prior + 1)], lookups=prior, wires=1)

    async def ask(self, clock: Clock, k: int) -> None:
        """The same, with k calls at once that all need approval."""
        self.script.respond = self._all_at_once(self.calls(0, WIRE, k))
        async with self.ready() as agent:
            outcome = await self.cycle(clock, agent, k)
            self._check(outcome, [answer(0)] * k, wires=k)

    async def nested(self, clock: Clock) -> None:
        """The same, with one call that needs approval inside an agent that is a tool of another."""
        self.inner_script.respond = self._replies([self.calls(0, WIRE)])
        self.outer_script.respond = self._replies([self.delegation()])
        async with self.ready(nested=True) as agent:
            outcome = await self.cycle(clock, agent, 1)
            self._check(outcome, [FINAL], wires=1)

    async def cycle(self, clock: Clock, agent: Any, questions: int) -> Any:
        """From the beginning over one pause to the end, by way of a saved state."""
        with clock.phase("to pause"):
            outcome = await self.begin(agent)
        self._check_paused(outcome, questions)
        with clock.phase("encode"):
            saved = self.save(self.keep(outcome))
        clock.metric("state_bytes", size(saved))
        del outcome
        with clock.phase("load"):
            state = await self.load(agent, saved)
        with clock.phase("approve"):
            state = self.approve(state)
        with clock.phase("resume"):
            return await self.resume(agent, state)

    async def thread(self, clock: Clock, prior: int, cycles: int) -> None:
        """To an interrupt after so many turns, and from the answer to the end: the mean of so many threads.

        A third as many come before and are not timed, so that nothing is new: not the database, not the connection, not
        its statements, not the code.
        """
        self.script.respond = self._replies([*map(self.calls, range(prior)), self.calls(prior, WIRE)])
        async with self.ready() as agent:
            for _ in range(cycles // 3 + 1):
                await self.resume(agent, self.approve(self.keep(await self.begin(agent))))
            for _ in range(cycles):
                forget()
                with clock.phase("to interrupt", shares=cycles):
                    outcome = await self.begin(agent)
                self._check_paused(outcome, 1)
                state = self.approve(self.keep(outcome))
                with clock.phase("to the end", shares=cycles):
                    outcome = await self.resume(agent, state)
                self._check(outcome, [answer(turn) for turn in range(prior + 1)], lookups=prior, wires=1)

    async def stages(self, clock: Clock, stages: int) -> None:
        """One run with so many approvals in a row, saved and loaded at each."""
        self.script.respond = self._replies([self.calls(turn, WIRE) for turn in range(stages)])
        pauses = 0
        async with self.ready() as agent:
            with clock.phase("run"):
                outcome = await self.begin(agent)
                while self.waiting(outcome):
                    pauses += 1
                    state = await self.load(agent, self.save(self.keep(outcome)))
                    outcome = await self.resume(agent, self.approve(state))
            assert pauses == stages, f"paused {pauses} times, not {stages}"
            self._check(outcome, [answer(turn) for turn in range(stages)], wires=stages)

    async def stream(self, clock: Clock, n: int) -> None:
        """One reply of n deltas, read as they come."""
        read = self.streaming(n)
        with clock.phase("run"):
            text = await read()
        assert text == WORD * n, "the stream said something else"

    async def held(self, clock: Clock, runs: int, prior: int) -> None:
        """Pause so many runs and hold them all; save them all; load, approve and end each."""

        def respond(items: int) -> Any:  # made anew for every run: what is held is not shared
            turn = (items - 1) // 2
            return self.final() if turn > prior else self.calls(turn, LOOKUP if turn < prior else WIRE)

        self.script.respond = respond
        async with self.ready() as agent:
            for _ in range(2):
                self._check_paused(await self.begin(agent), 1)
            before = resident()
            with clock.phase("pause"):
                kept = [self.keep(await self.begin(agent)) for _ in range(runs)]
            after = resident()
            if self.remembers and before is not None and after is not None:
                clock.metric("held_bytes", (after - before) / runs)
            if self.encodes:
                with clock.phase("encode"):
                    kept = [self.save(one) for one in kept]
            with clock.phase("resume"):
                for saved in kept:
                    outcome = await self.resume(agent, self.approve(await self.load(agent, saved)))
                    assert self.text(outcome) == FINAL
            assert executed[WIRE] == runs, f"{executed[WIRE]} of {runs} approved calls ran"

    # -- the checks ----------------------------------------------------------------------------------

    def _replies(self, replies: list[Any]) -> Callable[[int], Any]:
        table = [*replies, self.final()]
        return lambda items: table[(items - 1) // 2]

    def _all_at_once(self, first: Any) -> Callable[[int], Any]:
        last = self.final()
        return lambda items: first if items == 1 else last

    def _check_paused(self, outcome: Any, questions: int) -> None:
        assert self.waiting(outcome) == questions, f"{self.waiting(outcome)} calls wait, not {questions}"
        assert not executed[WIRE], "a call ran before it was approved"

    def _check(self, outcome: Any, outputs: list[str], lookups: int = 0, wires: int = 0) -> None:
        assert not self.waiting(outcome), "the run is not over"
        assert self.text(outcome) == FINAL, f"the run said {self.text(outcome)!r}"
        assert self.outputs(outcome) == outputs, "the transcript has other tool outputs"
        assert executed == {LOOKUP: lookups, WIRE: wires}, f"ran {executed}"


def size(saved: str | bytes) -> int:
    """The bytes of a saved state."""
    return len(saved.encode() if isinstance(saved, str) else saved)
