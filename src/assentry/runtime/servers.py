"""The tool servers that a drive uses: each is opened when it is first needed, and let go at the end of the drive."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from ..definitions.agent import Agent
from ..definitions.server import ToolServer


class Servers:
    """The tool servers that are open for one drive."""

    def __init__(self) -> None:
        self._stack: AsyncExitStack | None = None
        self._open: dict[int, ToolServer] = {}
        self._lock = asyncio.Lock()

    async def list_tools(self, agent: Agent[Any]) -> None:
        """List the tools of an agent's servers, before its model is called."""
        for server in agent.mcp_servers:
            await self._connect(server)
            await server.refresh()

    async def find_tools(self, agent: Agent[Any]) -> None:
        """List the tools of those of an agent's servers that have not listed any yet."""
        for server in agent.mcp_servers:
            await self._connect(server)
            if not server.listed:
                await server.refresh()

    async def open(self, server: ToolServer) -> None:
        """Open a server, if it is not open yet."""
        await self._connect(server)

    async def renew(self, server: ToolServer) -> None:
        """List a server's tools as they are at this moment."""
        await self._connect(server)
        await server.refresh(fresh=True)

    async def _connect(self, server: ToolServer) -> None:
        if id(server) in self._open:
            return
        async with self._lock:
            if id(server) not in self._open:
                self._stack = self._stack or AsyncExitStack()
                await self._stack.enter_async_context(server.kept_open())
                self._open[id(server)] = server

    async def close(self) -> None:
        """Let go of the servers."""
        stack, self._stack = self._stack, None
        self._open.clear()
        if stack is not None:
            await stack.aclose()
