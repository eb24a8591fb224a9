"""Agents with threads, middleware, checkpointers and interrupts, on the same runs, gate, door and store."""

from .agent import ThreadAgent
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
from .message import (
    REMOVE_ALL_MESSAGES,
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    Message,
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
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
from .snapshot import END, START, PregelTask, StateSnapshot, StateUpdate
from .state import OmitFromInput, OmitFromOutput, Overwrite, PrivateStateAttr

__all__ = [
    "END",
    "REMOVE_ALL_MESSAGES",
    "START",
    "AIMessage",
    "AIMessageChunk",
    "ActionRequest",
    "AgentMiddleware",
    "AgentState",
    "AnyMessage",
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "BaseMessage",
    "Command",
    "EditedAction",
    "HITLDecision",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "HumanMessage",
    "InMemorySaver",
    "Interrupt",
    "InterruptOnConfig",
    "Message",
    "ModelRequest",
    "ModelResponse",
    "OmitFromInput",
    "OmitFromOutput",
    "Overwrite",
    "PostgresSaver",
    "PregelTask",
    "PrivateStateAttr",
    "RemoveMessage",
    "ReviewConfig",
    "Runtime",
    "Saver",
    "SqliteSaver",
    "StateSnapshot",
    "StateUpdate",
    "SystemMessage",
    "ThreadAgent",
    "ToolCall",
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
