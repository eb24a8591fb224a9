"""Listing the tools of several servers at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import allowed
from ..definitions.context import RunContextWrapper
from ..definitions.tool import Tool
from ..errors import InvalidDefinition
from .server import MCPServer

SERVERS = allowed.list_of(lambda each: isinstance(each, MCPServer), "a list of MCP servers")


class MCPUtil:
    """Functions for the tools of MCP servers."""

    @classmethod
    async def get_all_function_tools(
        cls,
        servers: Sequence[MCPServer],
        convert_schemas_to_strict: bool = False,
        run_context: RunContextWrapper[Any] | None = None,
        agent: Any = None,
    ) -> list[Tool]:
        """Return the tools of several connected servers, to put into `Agent(tools=...)`.

        The list does not follow later changes of the servers; `Agent(mcp_servers=...)` does.

        Args:
            servers: Servers that are connected.
            convert_schemas_to_strict: Only False: a model is offered the schema that the server gave.
            run_context: The context for tool filters that are functions. Without it they are asked at each turn.
            agent: The agent for such filters.
        """
        if convert_schemas_to_strict:
            raise InvalidDefinition(
                "convert_schemas_to_strict must be False: a schema is offered as the server gave it."
            )
        found: dict[str, Tool] = {}
        for server in servers:
            allowed.check_option("get_all_function_tools", "servers", [server], SERVERS)
            for tool in await server.list_function_tools(run_context, agent):
                if tool.name in found:
                    raise InvalidDefinition(
                        f"The MCP servers {found[tool.name].server!r} and {server.name!r} both have a tool named "
                        f"{tool.name!r}; leave one out with a tool_filter, or give a server a tool_name_prefix."
                    )
                found[tool.name] = tool
        return list(found.values())
