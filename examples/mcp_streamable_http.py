"""An MCP server over streamable HTTP, and every call of its tools waits for you.

    python examples/mcp_streamable_http.py

The server is in this file, and runs as a process of its own with `serve`; yours has an address of its own. A script
stands in for the model.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp.server import MCPServer

from assentry import Agent, ModelRequest, Runner
from assentry.mcp import MCPServerStreamableHttp
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


def serve() -> None:
    """Serve the warehouse at a free port, and print the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(uvicorn.Config(warehouse.streamable_http_app(), log_level="error")).run([listener])


@contextmanager
def started() -> Iterator[str]:
    """Start the server as a process of its own; yield its address."""
    command = [sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def main(url: str) -> None:
    server = MCPServerStreamableHttp(params={"url": url}, name="warehouse", require_approval="always")
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
        serve()
        sys.exit()
    try:
        with started() as url:
            main(url)
    except (EOFError, KeyboardInterrupt):
        print("\nNothing was approved, and the server is asked for nothing.")
