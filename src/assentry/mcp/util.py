"""Listing the tools of several servers at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import allowed
from ..definitions.context import RunContextWrapper
from ..definitions.mcp_config import MCP_OPTIONS, configured_tool
from ..definitions.server import ToolServer
from ..definitions.tool import Tool
from ..errors import InvalidDefinition
from .server import MCPServer

SERVERS = allowed.list_of(lambda each: isinstance(each, ToolServer), "a list of MCP servers")


class MCPUtil:
    """Functions for the tools of MCP servers."""

    @classmethod
    async def get_all_function_tools(
        cls,
        servers: Sequence[Any],
        convert_schemas_to_strict: bool = False,
        run_context: RunContextWrapper[Any] | None = None,
        agent: Any = None,
        **config: Any,
    ) -> list[Tool]:
        """Return the tools of several connected servers, to put into `Agent(tools=...)`.

        The list does not follow later changes of the servers; `Agent(mcp_servers=...)` does.

        Args:
            servers: Servers that are connected.
            convert_schemas_to_strict: True to offer a strict form of each tool's schema, where there is one.
            run_context: The context for tool filters that are functions. Without it they are asked at each turn.
            agent: The agent for such filters.
            **config: More settings of `Agent(mcp_config=...)`.
        """
        found: dict[str, Tool] = {}
        for server in servers:
            for tool in await cls.get_function_tools(server, convert_schemas_to_strict, run_context, agent, **config):
                if tool.name in found:
                    raise InvalidDefinition(
                        f"The MCP servers {found[tool.name].server!r} and {server.name!r} both have a tool named "
                        f"{tool.name!r}; leave one out with a tool_filter, give a server a tool_name_prefix, or give "
                        "include_server_in_tool_names=True."
                    )
                found[tool.name] = tool
        return list(found.values())

    @classmethod
    async def get_function_tools(
        cls,
        server: Any,
        convert_schemas_to_strict: bool = False,
        run_context: RunContextWrapper[Any] | None = None,
        agent: Any = None,
        **config: Any,
    ) -> list[Tool]:
        """Return the tools of a connected server, in the form that the settings of `Agent(mcp_config=...)` say."""
        allowed.check_option("MCPUtil", "servers", [server], SERVERS)
        settings: Any = {"convert_schemas_to_strict": convert_schemas_to_strict, **config}
        MCP_OPTIONS.check_items("MCPUtil", settings)
        await server.refresh()
        tools = server.tools
        if isinstance(server, MCPServer) and run_context is not None:
            tools = tuple(await server.list_function_tools(run_context, agent))
        return [configured_tool(tool, settings) for tool in tools]
