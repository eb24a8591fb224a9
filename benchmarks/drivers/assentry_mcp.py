"""Assentry with a local MCP server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from assentry import Agent, Runner
from assentry.mcp import MCPServerStdio

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM
from ..mcp_server import COMMAND
from . import mcp_calls
from .assentry import MAX_TURNS, Model, call, message, reply


async def rule(ctx: Any, agent: Any, tool: Any) -> bool:
    """Need no approval."""
    return False


class Driver(mcp_calls.Driver):
    """Assentry, driven."""

    def call(self, turn: int) -> Any:
        return reply(call(turn, 0, LOOKUP))

    def final(self) -> Any:
        return reply(message(FINAL))

    @asynccontextmanager
    async def connected(self, cached: bool) -> AsyncIterator[mcp_calls.Run]:
        params: Any = COMMAND
        async with MCPServerStdio(params, cache_tools_list=cached, require_approval=rule) as server:
            agent: Agent[Any] = Agent(name="bench", instructions=SYSTEM, model=Model(self.script), mcp_servers=[server])

            async def run() -> list[str]:
                outcome = await Runner.run(agent, PROMPT, max_turns=MAX_TURNS)
                assert outcome.final_output == FINAL
                items = outcome.to_input_list()
                return [str(item["output"]) for item in items if item.get("type") == "function_call_output"]

            yield run


def make() -> Driver:
    """The driver."""
    return Driver()
