"""A server whose tool says what came with its call as `_meta`."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("meta", log_level="ERROR")


@server.tool()
def trace(ctx: Context[Any, Any]) -> str:
    """Say where a call comes from."""
    meta = ctx.request_context.meta
    found = meta.get("trace") if isinstance(meta, dict) else getattr(meta, "trace", None)
    return f"from {found}"


server.run("stdio")
