"""Local MCP servers: programs and services whose tools an agent may call, each call through the gate and the door."""

from .approval_rule import AnnotationRule, RequireApproval, ask_if_destructive, ask_unless_read_only
from .server import MCPServer, MCPServerOptions, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from .tool import MCPTool
from .tool_filter import (
    ToolFilter,
    ToolFilterCallable,
    ToolFilterContext,
    ToolFilterStatic,
    create_static_tool_filter,
)
from .util import MCPUtil

__all__ = [
    "AnnotationRule",
    "MCPServer",
    "MCPServerOptions",
    "MCPServerSse",
    "MCPServerStdio",
    "MCPServerStreamableHttp",
    "MCPTool",
    "MCPUtil",
    "RequireApproval",
    "ToolFilter",
    "ToolFilterCallable",
    "ToolFilterContext",
    "ToolFilterStatic",
    "ask_if_destructive",
    "ask_unless_read_only",
    "create_static_tool_filter",
]
