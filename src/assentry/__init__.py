"""Assentry: a runtime for agents that ask first."""

import importlib
import typing

from .approval.decision import Approve, Decision, Edit, Reject, Respond
from .approval.grant import Grant
from .approval.terms import GrantTerms
from .core.facts import Usage
from .definitions.agent import Agent, ToolsToFinalOutputResult
from .definitions.agent_tool import AgentTool
from .definitions.content import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from .definitions.context import RunContextWrapper, ToolContext
from .definitions.deadline import Deadline
from .definitions.function_tool import FunctionTool, function_tool, tool
from .definitions.guardrail import (
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    OutputGuardrail,
    OutputGuardrailResult,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolInputGuardrailResult,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    ToolOutputGuardrailResult,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from .definitions.handoff import Handoff, HandoffInputData, handoff
from .definitions.hooks import AgentHooks, RunHooks
from .definitions.hosted_tool import (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    MCPToolApprovalRequest,
    WebSearchTool,
)
from .definitions.item import (
    CompactionItem,
    Evidence,
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MCPListToolsItem,
    MessageOutputItem,
    OtherItem,
    Outcome,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from .definitions.output import AgentOutputSchema
from .definitions.preview import SQL, Diff, Mail, Money, Preview, Sentence, Shell, Table, Text
from .definitions.probe import CannotTell, Happened, NotHappened
from .definitions.server import ToolServer
from .definitions.tool import Ask, Tool, default_tool_error_function
from .errors import (
    AgentFailed,
    AgentNotFound,
    AgentStopped,
    AlreadyDecided,
    AssentryError,
    BadSignature,
    Conflict,
    ContextMissing,
    DefinitionChanged,
    DigestMismatch,
    EngineFailed,
    Forbidden,
    GrantEnded,
    GrantNotFound,
    IllegalFact,
    InputGuardrailTripwireTriggered,
    InvalidArguments,
    InvalidDecision,
    InvalidDefinition,
    InvalidInput,
    InvalidOutput,
    LeaseLost,
    MaxTurnsExceeded,
    MCPServerFailed,
    MCPToolFailed,
    ModelFailed,
    ModelRefused,
    ModelTimedOut,
    NotApproved,
    NotAsShown,
    NotDecided,
    NotFound,
    NotInAssentry,
    NotPending,
    NotSignedIn,
    OutcomeUnknown,
    OutputGuardrailTripwireTriggered,
    Overtaken,
    PatchRefused,
    QuestionNotFound,
    ReplayMismatch,
    RunBusy,
    RunElsewhere,
    RunFinished,
    RunNotFound,
    RunUnfinished,
    ScriptExhausted,
    SessionFailed,
    SessionMissing,
    StateSpent,
    StopNotFound,
    StoreFailed,
    ThreadWaiting,
    ToolInputGuardrailTripwireTriggered,
    ToolNotFound,
    ToolOutputGuardrailTripwireTriggered,
    ToolTimedOut,
    TooManyAsks,
    TooManyAttempts,
    TooManyStreams,
    TripwireTriggered,
    UnansweredRequest,
    UnclearCommand,
    UnexpectedReply,
    UnknownOption,
    UnknownSchema,
    UnreadableState,
    Upstream,
    UsageError,
)
from .models.default import set_default_model
from .models.model import MCPToolChoice, Model, ModelRequest, ModelResponse, ModelSettings, OutputSpec, ToolSpec
from .models.named import register_provider
from .runtime.config import RunConfig, ToolErrorFormatterArgs
from .runtime.event import (
    AgentUpdatedStreamEvent,
    ApprovalDecidedEvent,
    ApprovalRequestedEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    StreamEvent,
    ToolProgressEvent,
)
from .runtime.result import RunResult, RunResultBase
from .runtime.runner import Runner
from .runtime.signature import SigningKey
from .runtime.state import Peek, RunState
from .runtime.streaming import RunResultStreaming
from .schema.secret import Secret
from .sessions.session import ExactSession, Session
from .tracing.settings import Tracing
from .version import __version__

if typing.TYPE_CHECKING:
    from .commands.shell_command import Redirect, SimpleCommand, parse_command
    from .definitions.error_handler import RunErrorData, RunErrorHandlerInput, RunErrorHandlerResult, RunErrorHandlers
    from .definitions.model_input import CallModelData, ModelInputData
    from .models.anthropic import AnthropicModel
    from .models.embedded import EmbeddedModel
    from .models.litellm import LitellmModel
    from .models.openai_chat import OpenAIChatCompletionsModel
    from .models.openai_responses import OpenAIResponsesModel
    from .models.retry import (
        ModelRetryBackoffSettings,
        ModelRetrySettings,
        RetryDecision,
        RetryPolicyContext,
        retry_policies,
    )
    from .outside.approvals import Approvals
    from .outside.blocking import SyncApprovals
    from .runtime.registry import AgentRegistry
    from .sessions.encrypted import EncryptedSession
    from .sessions.openai_compaction import OpenAIResponsesCompactionSession
    from .sessions.openai_conversations import OpenAIConversationsSession
    from .sessions.postgres import PostgresSession
    from .sessions.sqlite import SQLiteSession
    from .tools.apply_patch import ApplyPatchTool
    from .tools.ask_user import ask_user
    from .tools.local_shell import LocalShellExecutor
    from .tools.patch_editor import ApplyPatchEditor, ApplyPatchResult
    from .tools.patch_format import ApplyPatchOperation, apply_diff
    from .tools.shell import (
        ShellActionRequest,
        ShellCallData,
        ShellCallOutcome,
        ShellCommandOutput,
        ShellCommandRequest,
        ShellResult,
        ShellTool,
    )
    from .tools.shell_rule import allow_commands
    from .tools.workspace import WorkspaceEditor

_LATER = {
    "definitions.error_handler": (
        "RunErrorData",
        "RunErrorHandlerInput",
        "RunErrorHandlerResult",
        "RunErrorHandlers",
    ),
    "definitions.model_input": ("CallModelData", "ModelInputData"),
    "models.retry": (
        "ModelRetryBackoffSettings",
        "ModelRetrySettings",
        "RetryDecision",
        "RetryPolicyContext",
        "retry_policies",
    ),
    "models.anthropic": ("AnthropicModel",),
    "models.embedded": ("EmbeddedModel",),
    "models.litellm": ("LitellmModel",),
    "models.openai_chat": ("OpenAIChatCompletionsModel",),
    "models.openai_responses": ("OpenAIResponsesModel",),
    "outside.approvals": ("Approvals",),
    "outside.blocking": ("SyncApprovals",),
    "runtime.registry": ("AgentRegistry",),
    "sessions.encrypted": ("EncryptedSession",),
    "sessions.openai_compaction": ("OpenAIResponsesCompactionSession",),
    "sessions.openai_conversations": ("OpenAIConversationsSession",),
    "sessions.postgres": ("PostgresSession",),
    "sessions.sqlite": ("SQLiteSession",),
    "tools.apply_patch": ("ApplyPatchTool",),
    "tools.ask_user": ("ask_user",),
    "tools.local_shell": ("LocalShellExecutor",),
    "tools.patch_editor": ("ApplyPatchEditor", "ApplyPatchResult"),
    "tools.patch_format": ("ApplyPatchOperation", "apply_diff"),
    "tools.shell": (
        "ShellActionRequest",
        "ShellCallData",
        "ShellCallOutcome",
        "ShellCommandOutput",
        "ShellCommandRequest",
        "ShellResult",
        "ShellTool",
    ),
    "commands.shell_command": ("Redirect", "SimpleCommand", "parse_command"),
    "tools.shell_rule": ("allow_commands",),
    "tools.workspace": ("WorkspaceEditor",),
}
"""The names that are imported on first use, by module: few programs need them, and `import assentry` stays light."""


def __getattr__(name: str) -> typing.Any:
    """Import a name of `_LATER` on first use, and keep it."""
    for module, names in _LATER.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f".{module}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "SQL",
    "Agent",
    "AgentFailed",
    "AgentHooks",
    "AgentNotFound",
    "AgentOutputSchema",
    "AgentRegistry",
    "AgentStopped",
    "AgentTool",
    "AgentUpdatedStreamEvent",
    "AlreadyDecided",
    "AnthropicModel",
    "ApplyPatchEditor",
    "ApplyPatchOperation",
    "ApplyPatchResult",
    "ApplyPatchTool",
    "ApprovalDecidedEvent",
    "ApprovalRequestedEvent",
    "Approvals",
    "Approve",
    "Ask",
    "AssentryError",
    "BadSignature",
    "CallModelData",
    "CannotTell",
    "CodeInterpreterTool",
    "CompactionItem",
    "Conflict",
    "ContextMissing",
    "Deadline",
    "Decision",
    "DefinitionChanged",
    "Diff",
    "DigestMismatch",
    "Edit",
    "EmbeddedModel",
    "EncryptedSession",
    "EngineFailed",
    "Evidence",
    "ExactSession",
    "FileSearchTool",
    "Forbidden",
    "FunctionTool",
    "Grant",
    "GrantEnded",
    "GrantNotFound",
    "GrantTerms",
    "GuardrailFunctionOutput",
    "Handoff",
    "HandoffCallItem",
    "HandoffInputData",
    "HandoffOutputItem",
    "Happened",
    "HostedMCPTool",
    "IllegalFact",
    "ImageGenerationTool",
    "InputGuardrail",
    "InputGuardrailResult",
    "InputGuardrailTripwireTriggered",
    "InvalidArguments",
    "InvalidDecision",
    "InvalidDefinition",
    "InvalidInput",
    "InvalidOutput",
    "LeaseLost",
    "LitellmModel",
    "LocalShellExecutor",
    "MCPApprovalRequestItem",
    "MCPApprovalResponseItem",
    "MCPListToolsItem",
    "MCPServerFailed",
    "MCPToolApprovalRequest",
    "MCPToolChoice",
    "MCPToolFailed",
    "Mail",
    "MaxTurnsExceeded",
    "MessageOutputItem",
    "Model",
    "ModelFailed",
    "ModelInputData",
    "ModelRefused",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryBackoffSettings",
    "ModelRetrySettings",
    "ModelSettings",
    "ModelTimedOut",
    "Money",
    "NotApproved",
    "NotAsShown",
    "NotDecided",
    "NotFound",
    "NotHappened",
    "NotInAssentry",
    "NotPending",
    "NotSignedIn",
    "OpenAIChatCompletionsModel",
    "OpenAIConversationsSession",
    "OpenAIResponsesCompactionSession",
    "OpenAIResponsesModel",
    "OtherItem",
    "Outcome",
    "OutcomeUnknown",
    "OutputGuardrail",
    "OutputGuardrailResult",
    "OutputGuardrailTripwireTriggered",
    "OutputSpec",
    "Overtaken",
    "PatchRefused",
    "Peek",
    "PostgresSession",
    "Preview",
    "QuestionNotFound",
    "RawResponsesStreamEvent",
    "ReasoningItem",
    "Redirect",
    "Reject",
    "ReplayMismatch",
    "Respond",
    "RetryDecision",
    "RetryPolicyContext",
    "RunBusy",
    "RunConfig",
    "RunContextWrapper",
    "RunElsewhere",
    "RunErrorData",
    "RunErrorHandlerInput",
    "RunErrorHandlerResult",
    "RunErrorHandlers",
    "RunFinished",
    "RunHooks",
    "RunItem",
    "RunItemStreamEvent",
    "RunNotFound",
    "RunResult",
    "RunResultBase",
    "RunResultStreaming",
    "RunState",
    "RunUnfinished",
    "Runner",
    "SQLiteSession",
    "ScriptExhausted",
    "Secret",
    "Sentence",
    "Session",
    "SessionFailed",
    "SessionMissing",
    "Shell",
    "ShellActionRequest",
    "ShellCallData",
    "ShellCallOutcome",
    "ShellCommandOutput",
    "ShellCommandRequest",
    "ShellResult",
    "ShellTool",
    "SigningKey",
    "SimpleCommand",
    "StateSpent",
    "StopNotFound",
    "StoreFailed",
    "StreamEvent",
    "SyncApprovals",
    "Table",
    "Text",
    "ThreadWaiting",
    "TooManyAsks",
    "TooManyAttempts",
    "TooManyStreams",
    "Tool",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "ToolErrorFormatterArgs",
    "ToolGuardrailFunctionOutput",
    "ToolInputGuardrail",
    "ToolInputGuardrailData",
    "ToolInputGuardrailResult",
    "ToolInputGuardrailTripwireTriggered",
    "ToolNotFound",
    "ToolOutputFileContent",
    "ToolOutputGuardrail",
    "ToolOutputGuardrailData",
    "ToolOutputGuardrailResult",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolOutputImage",
    "ToolOutputText",
    "ToolProgressEvent",
    "ToolServer",
    "ToolSpec",
    "ToolTimedOut",
    "ToolsToFinalOutputResult",
    "Tracing",
    "TripwireTriggered",
    "UnansweredRequest",
    "UnclearCommand",
    "UnexpectedReply",
    "UnknownOption",
    "UnknownSchema",
    "UnreadableState",
    "Upstream",
    "Usage",
    "UsageError",
    "WebSearchTool",
    "WorkspaceEditor",
    "__version__",
    "allow_commands",
    "apply_diff",
    "ask_user",
    "default_tool_error_function",
    "function_tool",
    "handoff",
    "input_guardrail",
    "output_guardrail",
    "parse_command",
    "register_provider",
    "retry_policies",
    "set_default_model",
    "tool",
    "tool_input_guardrail",
    "tool_output_guardrail",
]
