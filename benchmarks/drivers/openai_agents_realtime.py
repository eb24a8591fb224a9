"""openai-agents' live sessions, with tracing off."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from agents import set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner

from ..conversation import SYSTEM
from ..realtime_frames import URL
from . import realtime
from .openai_agents import lookup, wire


class Driver(realtime.Driver):
    """openai-agents, driven."""

    def __init__(self) -> None:
        set_tracing_disabled(True)
        self.agent: Any = RealtimeAgent(name="bench", instructions=SYSTEM, tools=[lookup, wire])

    async def session(self, stack: AsyncExitStack) -> Any:
        # A runner has one model, which has one connection.
        runner = RealtimeRunner(self.agent, config={"tracing_disabled": True})
        return await stack.enter_async_context(await runner.run(model_config={"url": URL, "api_key": "none"}))


def make() -> Driver:
    """The driver."""
    return Driver()
