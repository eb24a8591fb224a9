"""A local MCP server over its standard streams, with a filter on its tools."""

import asyncio
import sys
from pathlib import Path

from agents import Agent, Runner
from agents.mcp import MCPServerStdio, create_static_tool_filter

SERVER = """
from mcp.server import MCPServer

server = MCPServer("numbers")


@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b


@server.tool()
def forget() -> str:
    "Forget everything."
    return "forgotten"


server.run()
"""


async def main() -> None:
    async with MCPServerStdio(
        name="Numbers",
        params={"command": sys.executable, "args": ["numbers_server.py"]},
        cache_tools_list=True,
        tool_filter=create_static_tool_filter(allowed_tool_names=["add"]),
    ) as server:
        print([tool.name for tool in await server.list_tools()])
        agent = Agent(name="Adder", instructions="Add.", mcp_servers=[server])
        result = await Runner.run(agent, "Add them.")
        print(result.final_output, [item.type for item in result.new_items])


Path("numbers_server.py").write_text(SERVER, "utf-8")
asyncio.run(main())
