"""Assentry's live sessions."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from assentry.realtime import RealtimeAgent, RealtimeRunner

from ..conversation import SYSTEM
from ..realtime_frames import URL
from . import realtime
from .assentry import lookup, wire


class Driver(realtime.Driver):
    """Assentry, driven."""

    def __init__(self) -> None:
        self.agent: RealtimeAgent[Any] = RealtimeAgent("bench", instructions=SYSTEM, tools=[lookup, wire])

    async def session(self, stack: AsyncExitStack) -> Any:
        return await stack.enter_async_context(await RealtimeRunner(self.agent).run(model_config={"url": URL}))


def make() -> Driver:
    """The driver."""
    return Driver()
