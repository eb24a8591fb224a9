"""An MCP server of which an agent sees only some tools: a filter by name, and a function.

    python examples/mcp_tool_filter.py

A tool that is filtered out is neither offered to the model nor run, whatever the model writes. The rule decides which
of the others wait for you. The server is in this file, and a script stands in for the model.
"""

import sys
from typing import Any

from mcp.server import MCPServer
from mcp.types import Tool, ToolAnnotations

from assentry import Agent, ModelRequest, Runner
from assentry.mcp import MCPServerStdio, ToolFilterContext, create_static_tool_filter
from assentry.testing import ScriptedModel, call

warehouse = MCPServer("warehouse", log_level="ERROR")


@warehouse.tool(structured_output=False, annotations=ToolAnnotations(read_only_hint=True))
def stock(item: str) -> str:
    """Say how many of an item are left."""
    return f"3 {item}s are left."


@warehouse.tool(structured_output=False)
def reorder(item: str, count: int) -> str:
    """Order more of an item."""
    return f"{count} {item}s are ordered."


@warehouse.tool(structured_output=False, annotations=ToolAnnotations(destructive_hint=True))
def scrap(item: str) -> str:
    """Throw all of an item away."""
    return f"All {item}s are gone."


def not_destructive(context: ToolFilterContext, tool: Tool) -> bool:
    """Hide what the server itself calls destructive."""
    return not (tool.annotations and tool.annotations.destructive_hint)


def think(request: ModelRequest) -> Any:
    """In place of a real model: says what it is offered, and calls `reorder` if it can."""
    outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    if outputs:
        return " ".join(outputs)
    offered = sorted(tool.name for tool in request.tools)
    print(f"The model is offered: {', '.join(offered)}")
    return [call("reorder", {"item": "lamp", "count": 40})] if "reorder" in offered else "I can only look."


def approved(name: str, arguments: str) -> bool:
    return input(f"Let the warehouse run {name} with {arguments}? [y/N] ").strip().lower() in ("y", "yes")


def main(tool_filter: Any) -> None:
    server = MCPServerStdio(
        params={"command": sys.executable, "args": [__file__, "serve"]},
        name="warehouse",
        tool_filter=tool_filter,
        require_approval={"reorder": "always", "scrap": "always"},
    )
    agent = Agent[Any](name="Storekeeper", mcp_servers=[server], model=ScriptedModel([think, think]))
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
        main(create_static_tool_filter(allowed_tool_names=["stock"]))
        main(not_destructive)
    except (EOFError, KeyboardInterrupt):
        print("\nNothing was approved, and the server is asked for nothing.")
