"""A server with tools of every kind, over the transport that its first argument names."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    AudioContent,
    EmbeddedResource,
    Icon,
    ImageContent,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

ICON = Icon(src="https://tools.example.com/icon.png", mime_type="image/png", sizes=["48x48"])
server = MCPServer(
    "tools",
    title="Tools",
    description="All kinds.",
    website_url="https://tools.example.com",
    icons=[ICON],
    log_level="ERROR",
)
DATA = base64.b64encode(b"data").decode()


class Sum(BaseModel):
    total: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 2) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def note(path: str, line: str) -> str:
    """Write a line to the end of a file."""
    with Path(path).open("a") as file:
        file.write(f"{line}\n")
    return f"noted {line}"


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
def show() -> list[TextContent | ImageContent | AudioContent | EmbeddedResource]:
    """Show content of all kinds."""
    return [
        TextContent(text="here"),
        ImageContent(data=DATA, mime_type="image/png"),
        AudioContent(data=DATA, mime_type="audio/wav"),
        EmbeddedResource(resource=TextResourceContents(uri="note://1", text="a note")),
    ]


@server.tool()
async def slow(path: str, ctx: Context) -> str:
    """Report progress, and wait until it is cancelled."""
    await ctx.report_progress(1, 3, "begun")
    try:
        await asyncio.sleep(600)
    finally:
        with Path(path).open("a") as file:  # noqa: ASYNC230
            file.write("cancelled\n")
    return "never"


class Choice(BaseModel):
    choice: str


@server.tool()
async def pick(what: str, ctx: Context) -> str:
    """Ask which one."""
    answer = await ctx.elicit(f"Which {what}?", Choice)
    return f"picked {answer.data.choice}" if answer.action == "accept" else answer.action


@server.tool()
def large(size: int) -> str:
    """Return much."""
    return "x" * size


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool, and tell whoever listens."""
    server.add_tool(lambda: "new", name="grown", description="A new tool.")
    await ctx.notify_tools_changed()
    return "grown"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}."


@server.resource("note://all")
def notes() -> str:
    """All notes."""
    return "no notes"


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    if kind == "stdio":
        server.run("stdio")
    else:
        server.run(kind, host="127.0.0.1", port=int(sys.argv[2]))
