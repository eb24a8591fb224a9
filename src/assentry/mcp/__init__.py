"""Local MCP servers: programs and services whose tools an agent may call, each call through the gate and the door."""

from .approval_rule import AnnotationRule, RequireApproval, ask_if_destructive, ask_unless_read_only
from .manager import MCPServerManager
from .own_server import OwnMCPServer
from .server import MCPServer, MCPServerOptions, MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from .tool import MCPTool, MCPToolMetaContext, MCPToolMetaResolver
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
    "MCPServerManager",
    "MCPServerOptions",
    "MCPServerSse",
    "MCPServerStdio",
    "MCPServerStreamableHttp",
    "MCPTool",
    "MCPToolMetaContext",
    "MCPToolMetaResolver",
    "MCPUtil",
    "OwnMCPServer",
    "RequireApproval",
    "ToolFilter",
    "ToolFilterCallable",
    "ToolFilterContext",
    "ToolFilterStatic",
    "ask_if_destructive",
    "ask_unless_read_only",
    "create_static_tool_filter",
]
