"""Agents with threads, middleware, checkpointers and interrupts, on the same runs, gate, door and store.

LangChain's ready-made middleware, and other names of its own, are imported from the installed library on first use. A
name that is not here says why, and what to do instead.
"""

import sys
import typing

from .agent import ThreadAgent
from .create import create_agent
from .human_in_the_loop import HumanInTheLoopMiddleware, InterruptOnConfig
from .interrupts import Command, Interrupt, interrupt
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
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from .middleware_context import AgentState, ExecutionInfo, Runtime, ToolCallRequest, get_stream_writer
from .model_request import ExtendedModelResponse, ModelCallResult, ModelRequest, ModelResponse
from .response_format import AutoStrategy, ProviderStrategy, ToolStrategy
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
from .run_stream import AsyncGraphRunStream, GraphRunStream
from .saver import (
    AsyncPostgresSaver,
    AsyncSqliteSaver,
    CheckpointTuple,
    InMemorySaver,
    MemorySaver,
    PostgresSaver,
    Saver,
    SqliteSaver,
)
from .snapshot import END, START, PregelTask, StateSnapshot, StateUpdate
from .state import OmitFromInput, OmitFromOutput, Overwrite, PrivateStateAttr
from .stream_part import (
    CustomStreamPart,
    GraphOutput,
    MessagesStreamPart,
    StreamPart,
    UpdatesStreamPart,
    ValuesStreamPart,
)
from .tool import ThreadTool, tool
from .tool_runtime import (
    InjectedState,
    InjectedStore,
    InjectedToolArg,
    InjectedToolCallId,
    RunnableConfig,
    ToolRuntime,
)

if typing.TYPE_CHECKING:
    from .langchain.typed import *

__all__ = [
    "END",
    "REMOVE_ALL_MESSAGES",
    "START",
    "AIMessage",
    "AIMessageChunk",
    "Action",
    "ActionRequest",
    "AgentMiddleware",
    "AgentState",
    "AnyMessage",
    "ApproveDecision",
    "AsyncGraphRunStream",
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "AutoStrategy",
    "BaseMessage",
    "CheckpointTuple",
    "Command",
    "CustomStreamPart",
    "DecisionType",
    "EditDecision",
    "ExecutionInfo",
    "ExtendedModelResponse",
    "GraphOutput",
    "GraphRunStream",
    "HITLDecision",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "HumanMessage",
    "InMemorySaver",
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "Interrupt",
    "InterruptMode",
    "InterruptOnConfig",
    "MemorySaver",
    "Message",
    "MessagesStreamPart",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "OmitFromInput",
    "OmitFromOutput",
    "Overwrite",
    "PostgresSaver",
    "PregelTask",
    "PrivateStateAttr",
    "ProviderStrategy",
    "RejectDecision",
    "RemoveMessage",
    "RespondDecision",
    "ReviewConfig",
    "RunnableConfig",
    "Runtime",
    "Saver",
    "SqliteSaver",
    "StateSnapshot",
    "StateUpdate",
    "StreamPart",
    "SystemMessage",
    "ThreadAgent",
    "ThreadTool",
    "ToolApprovalRequest",
    "ToolCall",
    "ToolCallRequest",
    "ToolMessage",
    "ToolRuntime",
    "ToolStrategy",
    "UpdatesStreamPart",
    "ValuesStreamPart",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "create_agent",
    "dynamic_prompt",
    "get_stream_writer",
    "hook_config",
    "interrupt",
    "tool",
    "wrap_model_call",
    "wrap_tool_call",
]


def _find(name: str) -> typing.Any:
    """Return a name of LangChain's own, or say why there is none."""
    from .absent import find_name

    # `hasattr` needs an AttributeError, whose words an import statement would not show.
    imported = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
    return find_name(name, __all__, imported)


if not typing.TYPE_CHECKING:
    __getattr__ = _find


def __dir__() -> list[str]:
    from .langchain.export import EXPORTS

    return sorted({*globals(), *EXPORTS})
