"""openai-agents with a local MCP server, with tracing off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, arguments_json, call_id
from ..mcp_server import COMMAND
from . import mcp_calls
from .openai_agents import CONFIG, Model, call, message, reply


async def rule(ctx: Any, agent: Any, tool: Any) -> bool:
    """Need no approval."""
    return False


class Driver(mcp_calls.Driver):
    """openai-agents, driven."""

    def call(self, turn: int) -> Any:
        return reply(call(call_id(turn), LOOKUP, arguments_json(turn)))

    def final(self) -> Any:
        return reply(message(FINAL))

    @asynccontextmanager
    async def connected(self, cached: bool) -> AsyncIterator[mcp_calls.Run]:
        set_tracing_disabled(True)
        params: Any = COMMAND
        async with MCPServerStdio(params, cache_tools_list=cached, require_approval=rule) as server:
            agent = Agent(name="bench", instructions=SYSTEM, model=Model(self.script), mcp_servers=[server])

            async def run() -> list[str]:
                outcome = await Runner.run(agent, PROMPT, max_turns=None, run_config=CONFIG)
                assert outcome.final_output == FINAL
                items: list[Any] = [*outcome.to_input_list()]
                return [str(item["output"]) for item in items if item.get("type") == "function_call_output"]

            yield run


def make() -> Driver:
    """The driver."""
    return Driver()
