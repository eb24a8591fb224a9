"""The names of `agents.items`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..definitions.item import (
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MCPListToolsItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from ..models.model import ModelResponse
from .absent import find_absent

__all__ = [
    "HandoffCallItem",
    "HandoffOutputItem",
    "MCPApprovalRequestItem",
    "MCPApprovalResponseItem",
    "MCPListToolsItem",
    "MessageOutputItem",
    "ModelResponse",
    "ReasoningItem",
    "RunItem",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
