"""The MCP server that all peers call over stdio: one tool of the conversation, by the official SDK.

Runs in every peer's environment, which all have the same version of that SDK.
"""

from __future__ import annotations

import sys

from mcp.server import MCPServer

from .conversation import LOOKUP, body
from .peers import ROOT

COMMAND = {"command": sys.executable, "args": ["-m", "benchmarks.mcp_server"], "cwd": str(ROOT)}
"""How a peer starts it, with its own interpreter."""

server = MCPServer("bench", log_level="ERROR")


@server.tool(structured_output=False)
def lookup(city: str, days: int, note: str) -> str:
    """Look something up."""
    return body(LOOKUP, city, days, note)


if __name__ == "__main__":
    server.run("stdio")
