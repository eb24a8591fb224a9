"""pydantic-ai (slim) with a local MCP server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import TextPart, ToolCallPart, ToolReturnPart

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, arguments_json, call_id
from ..mcp_server import COMMAND
from . import mcp_calls
from .pydantic_ai import UNLIMITED, model, reply


def rule(ctx: Any, tool: Any, arguments: dict[str, Any]) -> bool:
    """Need no approval."""
    return False


class Driver(mcp_calls.Driver):
    """pydantic-ai, driven."""

    def call(self, turn: int) -> Any:
        return reply(ToolCallPart(LOOKUP, arguments_json(turn), call_id(turn)))

    def final(self) -> Any:
        return reply(TextPart(FINAL))

    @asynccontextmanager
    async def connected(self, cached: bool) -> AsyncIterator[mcp_calls.Run]:
        transport: Any = StdioTransport(**COMMAND, keep_alive=False)
        tools: Any = MCPToolset(transport, cache_tools=cached).approval_required(rule)
        agent: Agent[None, Any] = Agent(
            model(self.script), instructions=SYSTEM, output_type=[str, DeferredToolRequests], toolsets=[tools]
        )
        async with agent:

            async def run() -> list[str]:
                outcome = await agent.run(PROMPT, usage_limits=UNLIMITED)
                assert outcome.output == FINAL
                parts = (part for message in outcome.all_messages() for part in message.parts)
                return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]

            yield run


def make() -> Driver:
    """The driver."""
    return Driver()
