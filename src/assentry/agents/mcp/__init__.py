"""The names of `agents.mcp`: MCP servers, whose tools pass the gate and the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..absent import find_absent
from .manager import MCPServerManager
from .server import (
    LocalMCPApprovalCallable,
    MCPServer,
    MCPServerSse,
    MCPServerSseParams,
    MCPServerStdio,
    MCPServerStdioParams,
    MCPServerStreamableHttp,
    MCPServerStreamableHttpParams,
)
from .util import (
    MCPToolCustomDataContext,
    MCPToolCustomDataExtractor,
    MCPToolMetaContext,
    MCPToolMetaResolver,
    MCPUtil,
    ToolFilter,
    ToolFilterCallable,
    ToolFilterContext,
    ToolFilterStatic,
    create_static_tool_filter,
)

__all__ = [
    "LocalMCPApprovalCallable",
    "MCPServer",
    "MCPServerManager",
    "MCPServerSse",
    "MCPServerSseParams",
    "MCPServerStdio",
    "MCPServerStdioParams",
    "MCPServerStreamableHttp",
    "MCPServerStreamableHttpParams",
    "MCPToolCustomDataContext",
    "MCPToolCustomDataExtractor",
    "MCPToolMetaContext",
    "MCPToolMetaResolver",
    "MCPUtil",
    "ToolFilter",
    "ToolFilterCallable",
    "ToolFilterContext",
    "ToolFilterStatic",
    "create_static_tool_filter",
]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
