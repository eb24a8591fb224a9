"""The names of `agents.tool`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.content import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from ..definitions.function_tool import FunctionTool, function_tool
from ..definitions.hosted_tool import (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    MCPToolApprovalRequest,
    WebSearchTool,
)
from ..definitions.tool import Tool, default_tool_error_function
from ..tools.apply_patch import ApplyPatchTool
from ..tools.local_shell import LocalShellExecutor
from ..tools.shell import (
    ShellActionRequest,
    ShellCallData,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
)
from .absent import find_absent

__all__ = [
    "ApplyPatchTool",
    "CodeInterpreterTool",
    "FileSearchTool",
    "FunctionTool",
    "HostedMCPTool",
    "LocalShellExecutor",
    "MCPToolApprovalRequest",
    "ShellActionRequest",
    "ShellCallData",
    "ShellCallOutcome",
    "ShellCommandOutput",
    "ShellCommandRequest",
    "ShellResult",
    "ShellTool",
    "Tool",
    "ToolOutputFileContent",
    "ToolOutputImage",
    "ToolOutputText",
    "WebSearchTool",
    "default_tool_error_function",
    "function_tool",
]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
