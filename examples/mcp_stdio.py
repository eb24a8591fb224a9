"""An MCP server over stdio, and every call of its tools waits for you.

    python examples/mcp_stdio.py

The server is in this file: the agent's side starts it as a process, with `serve`. It runs only while the agent works.
While a question waits no process is left behind, and the next run starts it again. A script stands in for the model.
"""

import sys
from typing import Any

from mcp.server import MCPServer

from assentry import Agent, ModelRequest, Runner
from assentry.mcp import MCPServerStdio
from assentry.testing import ScriptedModel, call

warehouse = MCPServer("warehouse", log_level="ERROR")


@warehouse.tool(structured_output=False)
def stock(item: str) -> str:
    """Say how many of an item are left."""
    return f"3 {item}s are left."


@warehouse.tool(structured_output=False)
def reorder(item: str, count: int) -> str:
    """Order more of an item."""
    return f"{count} {item}s are ordered."


def think(request: ModelRequest) -> str:
    """In place of a real model: repeats what it was told."""
    return " ".join(item["output"] for item in request.input if item.get("type") == "function_call_output")


def approved(name: str, arguments: str) -> bool:
    return input(f"Let the warehouse run {name} with {arguments}? [y/N] ").strip().lower() in ("y", "yes")


def main() -> None:
    server = MCPServerStdio(
        params={"command": sys.executable, "args": [__file__, "serve"]}, name="warehouse", require_approval="always"
    )
    agent = Agent[Any](
        name="Storekeeper",
        instructions="Keep the shelves full.",
        mcp_servers=[server],
        model=ScriptedModel(
            [[call("stock", {"item": "lamp"})], [call("reorder", {"item": "lamp", "count": 40})], think]
        ),
    )
    result = Runner.run_sync(agent, "See that there are lamps.")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            if approved(item.name, item.arguments):
                state.approve(item)
            else:
                state.reject(item)
        result = Runner.run_sync(agent, state)
    print(result.final_output)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        warehouse.run("stdio")
        sys.exit()
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print("\nNothing was approved, and the server is asked for nothing.")
