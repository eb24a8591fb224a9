"""What the tests of the stores share: runs, and the changes that make them, from plain facts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from msgspec import Raw
from msgspec.json import encode

from assentry.core import facts as f
from assentry.core.facts import AnyFact
from assentry.core.fold import fold
from assentry.core.run import Run
from assentry.store import Change, Lease, Store
from assentry.store.projection import Projection
from assentry.store.rules import needs_lease

T = TypeVar("T")

NOW = 1_700_000_000.0
"""The time at which everything begins here, in seconds since 1970."""


def js(value: Any) -> Raw:
    """A value as the JSON that facts hold."""
    return Raw(encode(value))


def began(run_id: str = "r1", agent: str = "helper", at: int = int(NOW * 1000)) -> f.Began:
    """The first fact of a run."""
    return f.Began(agent=agent, max_turns=1000, run=run_id, at=at, stored=True)


def said(text: str = "hello") -> f.Said:
    return f.Said(js(text))


def replied(call: str | None = None, tool: str = "send", arguments: str = '{"to":"ann"}', text: str = "") -> f.Replied:
    """A reply that calls a tool, or one that is the end of it."""
    if call is None:
        return f.Replied(js([{"type": "message", "role": "assistant", "content": text or "done"}]))
    item = {"type": "function_call", "name": tool, "arguments": arguments, "call_id": f"call_{call}"}
    return f.Replied(js([item]), calls=(f.Call(call, tool),))


def asked(call: str = "c1", id: str = "q1", **more: Any) -> f.Asked:
    return f.Asked(**{"call": call, "id": id, "why": "risky", "digest": f"digest of {id}"} | more)


def change_for(run: Run, facts: Sequence[AnyFact], *, seq: int = 0, at: float = NOW, **more: Any) -> Change:
    """Fold the facts into the run, and make the change that a store is to write; it has `seq` facts before."""
    projection = Projection()
    for fact in facts:
        fold(run, fact)
        projection.note(run, fact)
    change = projection.change(run, seq, list(facts), at)
    for name, value in more.items():
        setattr(change, name, value)
    return change


class Script:
    """A run that is written fact by fact: keeps count, so that a test need not.

    What only a driver may write is written by one that has the run for just that, unless the test names a lease.
    """

    def __init__(self, store: Store, run_id: str = "r1", agent: str = "helper") -> None:
        self.store, self.id, self.agent = store, run_id, agent
        self.run, self.seq, self.fence = Run(), 0, 0

    def change(self, *facts: AnyFact, **more: Any) -> Change:
        """The change that adds these."""
        made = change_for(self.run, facts, at=self.store.clock(), seq=self.seq, **more)
        self.seq += len(facts)
        if made.lease is None and needs_lease(made):
            made.lease, made.take, made.release = Lease(self.id, "script", self.fence + 1), True, True
        self.fence = made.lease.fence if made.lease is not None else self.fence
        return made

    async def write(self, *facts: AnyFact, **more: Any) -> None:
        """Append these."""
        await self.store.append(self.change(*facts, **more))

    async def begin(self, **more: Any) -> Script:
        """Begin, with something said: the model is owed."""
        at = int(self.store.clock() * 1000)
        await self.write(began(self.id, self.agent, at), said(), **more)
        return self

    async def ask(self, call: str = "c1", question: str | None = None, **more: Any) -> Script:
        """Let a person be asked about a call."""
        await self.write(replied(call), asked(call, question or f"q_{self.id}", **more))
        return self

    async def end(self) -> Script:
        """Come to an output."""
        await self.write(replied(), f.Concluded())
        return self


def at_once(count: int, work: Callable[[int], Awaitable[T]]) -> list[T]:
    """Do this on so many threads, each with an event loop of its own; what each gives, by number."""

    def run(number: int) -> T:
        async def begin() -> T:
            return await work(number)

        return asyncio.run(begin())

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


async def waiting(store: Store, run_id: str = "r1", agent: str = "helper", **more: Any) -> Script:
    """A run with one open question, `q_` and its id."""
    return await (await Script(store, run_id, agent).begin()).ask(**more)


async def ended(store: Store, run_id: str = "r1", agent: str = "helper") -> Script:
    """A run that is done."""
    return await (await Script(store, run_id, agent).begin()).end()
