"""Assent: a runtime for agents that ask first."""

from .agent import Agent
from .approval.decision import Approve, Decision, Edit, Reject, Respond
from .context import RunContextWrapper, ToolContext
from .core.facts import Usage
from .errors import AssentError, MaxTurnsExceeded
from .item import (
    MessageOutputItem,
    OtherItem,
    Outcome,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from .models.model import Model, ModelRequest, ModelResponse, ToolSpec
from .runtime.config import RunConfig, ToolErrorFormatterArgs
from .runtime.event import (
    AgentUpdatedStreamEvent,
    ApprovalDecidedEvent,
    ApprovalRequestedEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    StreamEvent,
)
from .runtime.result import RunResult, RunResultBase, RunResultStreaming
from .runtime.runner import Runner
from .runtime.state import Grant, Peek, RunState
from .tools.function import FunctionTool, function_tool, tool
from .tools.tool import Tool, default_tool_error_function
from .version import __version__

__all__ = [
    "Agent",
    "AgentUpdatedStreamEvent",
    "ApprovalDecidedEvent",
    "ApprovalRequestedEvent",
    "Approve",
    "AssentError",
    "Decision",
    "Edit",
    "FunctionTool",
    "Grant",
    "MaxTurnsExceeded",
    "MessageOutputItem",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "OtherItem",
    "Outcome",
    "Peek",
    "RawResponsesStreamEvent",
    "ReasoningItem",
    "Reject",
    "Respond",
    "RunConfig",
    "RunContextWrapper",
    "RunItem",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultBase",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "StreamEvent",
    "Tool",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "ToolErrorFormatterArgs",
    "ToolSpec",
    "Usage",
    "__version__",
    "default_tool_error_function",
    "function_tool",
    "tool",
]
