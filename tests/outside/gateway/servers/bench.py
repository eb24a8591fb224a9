"""A server of work: one tool that goes on until a file lets it end, and one that tells its environment."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("bench", log_level="ERROR")


@server.tool()
async def work(path: str) -> str:
    """Work until there is a file of the same name that ends in .go."""
    file = Path(path)
    _write(file, "begun")
    while not file.with_suffix(".go").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    _write(file, "ended")
    return "worked"


@server.tool()
def variables() -> list[str]:
    """Return the names of the environment's variables."""
    return sorted(os.environ)


def _write(file: Path, line: str) -> None:
    with file.open("a") as opened:
        opened.write(f"{line}\n")


server.run("stdio")
