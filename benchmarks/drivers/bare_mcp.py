"""The official MCP client alone: the same calls of the same server, without a model, a run or a rule."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ..conversation import LOOKUP, arguments_json
from . import mcp_calls


class Driver(mcp_calls.Driver):
    """The least loop that parses a call's arguments and calls the server."""

    def call(self, turn: int) -> Any:
        return arguments_json(turn)

    def final(self) -> Any:
        return None

    @asynccontextmanager
    async def connected(self, cached: bool) -> AsyncIterator[mcp_calls.Run]:
        async with mcp_calls.bare_client() as client:

            async def run() -> list[str]:
                outputs: list[str] = []
                while reply := self.script.respond(1 + 2 * len(outputs)):
                    if not cached:
                        await client.list_tools(cache_mode="bypass")
                    [content] = (await client.call_tool(LOOKUP, json.loads(reply))).content
                    assert content.type == "text"
                    outputs.append(content.text)
                return outputs

            yield run


def make() -> Driver:
    """The driver."""
    return Driver()
