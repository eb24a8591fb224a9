"""Agents with threads, middleware, checkpointers and interrupts, on the same runs, gate, door and store."""

from .agent import StateSnapshot, ThreadAgent
from .create import create_agent
from .interrupts import (
    ActionRequest,
    Command,
    EditedAction,
    HITLDecision,
    HITLRequest,
    HITLResponse,
    Interrupt,
    ReviewConfig,
    interrupt,
)
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
from .policy import HumanInTheLoopMiddleware, InterruptOnConfig
from .saver import AsyncPostgresSaver, AsyncSqliteSaver, InMemorySaver, PostgresSaver, Saver, SqliteSaver
from .stream_part import (
    CustomStreamPart,
    GraphOutput,
    MessagesStreamPart,
    StreamPart,
    UpdatesStreamPart,
    ValuesStreamPart,
)

__all__ = [
    "AIMessage",
    "AIMessageChunk",
    "ActionRequest",
    "AgentMiddleware",
    "AgentState",
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "Command",
    "CustomStreamPart",
    "EditedAction",
    "GraphOutput",
    "HITLDecision",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "HumanMessage",
    "InMemorySaver",
    "Interrupt",
    "InterruptOnConfig",
    "Message",
    "MessagesStreamPart",
    "ModelRequest",
    "ModelResponse",
    "PostgresSaver",
    "ReviewConfig",
    "Runtime",
    "Saver",
    "SqliteSaver",
    "StateSnapshot",
    "StreamPart",
    "SystemMessage",
    "ThreadAgent",
    "ToolCallRequest",
    "ToolMessage",
    "UpdatesStreamPart",
    "ValuesStreamPart",
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
