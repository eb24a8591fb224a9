"""Agents with threads, middleware, checkpointers and interrupts, on the same runs, gate, door and store."""

from .agent import StateSnapshot, ThreadAgent
from .create import create_agent
from .human_in_the_loop import HumanInTheLoopMiddleware, InterruptOnConfig
from .interrupts import Command, Interrupt, interrupt
from .message import AIMessage, AIMessageChunk, HumanMessage, Message, SystemMessage, ToolMessage
from .middleware import (
    AgentMiddleware,
    after_agent,
    after_model,
    before_agent,
    before_model,
    wrap_model_call,
    wrap_tool_call,
)
from .middleware_context import AgentState, Runtime, ToolCallRequest, get_stream_writer
from .model import ModelRequest, ModelResponse
from .review import (
    Action,
    ActionRequest,
    ApproveDecision,
    DecisionType,
    EditDecision,
    HITLDecision,
    HITLRequest,
    HITLResponse,
    InterruptMode,
    RejectDecision,
    RespondDecision,
    ReviewConfig,
    ToolApprovalRequest,
)
from .saver import AsyncPostgresSaver, AsyncSqliteSaver, InMemorySaver, PostgresSaver, Saver, SqliteSaver

__all__ = [
    "AIMessage",
    "AIMessageChunk",
    "Action",
    "ActionRequest",
    "AgentMiddleware",
    "AgentState",
    "ApproveDecision",
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "Command",
    "DecisionType",
    "EditDecision",
    "HITLDecision",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "HumanMessage",
    "InMemorySaver",
    "Interrupt",
    "InterruptMode",
    "InterruptOnConfig",
    "Message",
    "ModelRequest",
    "ModelResponse",
    "PostgresSaver",
    "RejectDecision",
    "RespondDecision",
    "ReviewConfig",
    "Runtime",
    "Saver",
    "SqliteSaver",
    "StateSnapshot",
    "SystemMessage",
    "ThreadAgent",
    "ToolApprovalRequest",
    "ToolCallRequest",
    "ToolMessage",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "create_agent",
    "get_stream_writer",
    "interrupt",
    "wrap_model_call",
    "wrap_tool_call",
]
