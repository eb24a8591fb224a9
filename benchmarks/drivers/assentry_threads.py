"""Assentry's threads, in the words of langchain's middleware, on each of its savers."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from assentry import ModelResponse
from assentry.store import MemoryStore, Store
from assentry.threads import Command, HumanInTheLoopMiddleware, ThreadAgent, create_agent

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, WIRE, body
from . import assentry, driver, threaded
from .assentry_store import PLACES

INPUT = {"messages": [{"role": "user", "content": PROMPT}]}


async def lookup(city: str, days: int, note: str) -> str:
    """Look something up."""
    return body(LOOKUP, city, days, note)


async def wire(city: str, days: int, note: str) -> str:
    """Wire money."""
    return body(WIRE, city, days, note)


class Driver(threaded.Driver):
    """Threads, driven."""

    def __init__(self, saver: str) -> None:
        super().__init__()
        self.lacks = frozenset(driver.SCENARIOS) - {"thread"}
        self.place = PLACES.get(saver)

    def _agent(self, store: Store) -> ThreadAgent:
        gate = HumanInTheLoopMiddleware(interrupt_on={WIRE: True})
        model = assentry.Model(self.script)
        return create_agent(
            model,
            [lookup, wire],
            system_prompt=SYSTEM,
            checkpointer=store,
            middleware=[gate],
            max_turns=assentry.MAX_TURNS,
        )

    @asynccontextmanager
    async def ready(self, *, gated: bool = True, nested: bool = False) -> AsyncIterator[ThreadAgent]:
        if self.place is None:
            yield self._agent(MemoryStore())
            return
        place = self.place()
        try:
            async with place.open() as store:
                await store.runs(limit=1)  # makes the tables
                yield self._agent(store)
        finally:
            place.discard()

    def calls(self, turn: int, tool: str = LOOKUP, count: int = 1) -> ModelResponse:
        return assentry.reply(*(assentry.call(turn, position, tool) for position in range(count)))

    def delegation(self) -> Any:
        raise NotImplementedError("there is one agent")

    def final(self) -> ModelResponse:
        return assentry.reply(assentry.message(FINAL))

    async def begin(self, agent: ThreadAgent) -> Any:
        config = {"configurable": {"thread_id": uuid.uuid4().hex}}
        return await agent.ainvoke(INPUT, config), config

    def approve(self, state: Any) -> Any:
        questions, config = state
        return Command(resume={"decisions": [{"type": "approve"}] * questions}), config

    async def resume(self, agent: ThreadAgent, state: Any) -> Any:
        command, config = state
        return await agent.ainvoke(command, config), config

    def streaming(self, deltas: int) -> Callable[[], Awaitable[str]]:
        raise NotImplementedError("it is the runtime's")


def make(saver: str) -> Driver:
    """The driver."""
    return Driver(saver)
