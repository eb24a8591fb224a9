"""The OpenAI Agents SDK's names and module paths, on Assentry's runs, gate, door and store.

`from agents import ...` becomes `from assentry.agents import ...`. The modules here adapt names and forms, and hold no
logic. A name that is not here says why, and what to do instead.
"""

import importlib
import sys
import types
import typing

from ..version import __version__ as __version__
from .absent import ABSENT, find_absent

if typing.TYPE_CHECKING:
    from .agent import *
    from .agent_output import *
    from .apply_diff import *
    from .computer import *
    from .editor import *
    from .exceptions import *
    from .guardrail import *
    from .handoffs import *
    from .items import *
    from .lifecycle import *
    from .memory import *
    from .memory.sqlite_session import *
    from .model_settings import *
    from .models.interface import *
    from .models.multi_provider import *
    from .models.openai_agent_registration import *
    from .models.openai_chatcompletions import *
    from .models.openai_provider import *
    from .models.openai_responses import *
    from .openai_defaults import *
    from .prompts import *
    from .repl import *
    from .responses_websocket_session import *
    from .result import *
    from .retry import *
    from .run import *
    from .run_config import *
    from .run_context import *
    from .run_error_handlers import *
    from .run_state import *
    from .stream_events import *
    from .tool import *
    from .tool_guardrails import *
    from .tracing import *
    from .usage import *

_HOMES = {
    "agent": (
        "Agent",
        "AgentBase",
        "AgentToolStreamEvent",
        "StopAtTools",
        "ToolsToFinalOutputFunction",
        "ToolsToFinalOutputResult",
    ),
    "agent_output": ("AgentOutputSchema", "AgentOutputSchemaBase"),
    "apply_diff": ("apply_diff",),
    "computer": ("AsyncComputer", "Button", "Computer", "Environment"),
    "editor": ("ApplyPatchEditor", "ApplyPatchOperation", "ApplyPatchResult"),
    "exceptions": (
        "AgentsException",
        "InputGuardrailTripwireTriggered",
        "MCPToolCancellationError",
        "MaxTurnsExceeded",
        "ModelBehaviorError",
        "ModelRefusalError",
        "ModelTimeoutError",
        "OutputGuardrailTripwireTriggered",
        "RunErrorDetails",
        "ToolInputGuardrailTripwireTriggered",
        "ToolOutputGuardrailTripwireTriggered",
        "ToolTimeoutError",
        "UserError",
    ),
    "guardrail": (
        "GuardrailFunctionOutput",
        "InputGuardrail",
        "InputGuardrailResult",
        "OutputGuardrail",
        "OutputGuardrailResult",
        "input_guardrail",
        "output_guardrail",
    ),
    "handoffs": (
        "Handoff",
        "HandoffInputData",
        "HandoffInputFilter",
        "default_handoff_history_mapper",
        "get_conversation_history_wrappers",
        "handoff",
        "nest_handoff_history",
        "reset_conversation_history_wrappers",
        "set_conversation_history_wrappers",
    ),
    "items": (
        "CompactionItem",
        "HandoffCallItem",
        "HandoffOutputItem",
        "InputItem",
        "ItemHelpers",
        "MCPApprovalRequestItem",
        "MCPApprovalResponseItem",
        "MCPListToolsItem",
        "MessageOutputItem",
        "ModelResponse",
        "ReasoningItem",
        "RunItem",
        "TResponseInputItem",
        "ToolApprovalItem",
        "ToolCallItem",
        "ToolCallOutputItem",
        "ToolSearchCallItem",
        "ToolSearchOutputItem",
    ),
    "lifecycle": ("AgentHooks", "RunHooks"),
    "memory": (
        "OpenAIConversationsSession",
        "OpenAIResponsesCompactionArgs",
        "OpenAIResponsesCompactionAwareSession",
        "OpenAIResponsesCompactionSession",
        "Session",
        "SessionABC",
        "SessionSettings",
        "is_openai_responses_compaction_aware_session",
    ),
    "memory.sqlite_session": ("SQLiteSession",),
    "model_settings": ("ModelSettings",),
    "models.interface": ("Model", "ModelProvider", "ModelTracing"),
    "models.multi_provider": ("MultiProvider",),
    "models.openai_agent_registration": ("OpenAIAgentRegistrationConfig",),
    "models.openai_chatcompletions": ("OpenAIChatCompletionsModel",),
    "models.openai_provider": ("AsyncOpenAI", "OpenAIProvider"),
    "models.openai_responses": ("OpenAIResponsesModel", "OpenAIResponsesWSModel", "OpenAIResponsesWebSocketOptions"),
    "openai_defaults": (
        "enable_verbose_stdout_logging",
        "set_default_openai_agent_registration",
        "set_default_openai_api",
        "set_default_openai_client",
        "set_default_openai_harness",
        "set_default_openai_key",
        "set_default_openai_responses_transport",
    ),
    "prompts": ("DynamicPromptFunction", "GenerateDynamicPromptData", "Prompt"),
    "repl": ("run_demo_loop",),
    "responses_websocket_session": ("ResponsesWebSocketSession", "responses_websocket_session"),
    "result": ("AgentToolInvocation", "RunResult", "RunResultStreaming"),
    "retry": (
        "ModelRetryAdvice",
        "ModelRetryAdviceRequest",
        "ModelRetryBackoffSettings",
        "ModelRetryNormalizedError",
        "ModelRetrySettings",
        "RetryDecision",
        "RetryPolicy",
        "RetryPolicyContext",
        "retry_policies",
    ),
    "run": ("Runner",),
    "run_config": (
        "OutputGuardrailBlockedMessageArgs",
        "OutputGuardrailBlockedMessageFormatter",
        "ReasoningItemIdPolicy",
        "RunConfig",
        "ToolErrorFormatter",
        "ToolErrorFormatterArgs",
        "ToolExecutionConfig",
        "ToolNameCollisionPolicy",
        "ToolNotFoundBehavior",
    ),
    "run_context": ("AgentHookContext", "RunContextWrapper", "TContext"),
    "run_error_handlers": (
        "RunErrorData",
        "RunErrorHandler",
        "RunErrorHandlerInput",
        "RunErrorHandlerResult",
        "RunErrorHandlers",
    ),
    "run_state": ("RunState",),
    "stream_events": ("AgentUpdatedStreamEvent", "RawResponsesStreamEvent", "RunItemStreamEvent", "StreamEvent"),
    "tool": (
        "ApplyPatchTool",
        "ApplyPatchToolCustomDataContext",
        "ApplyPatchToolCustomDataExtractor",
        "CodeInterpreterTool",
        "ComputerProvider",
        "ComputerTool",
        "ComputerToolCustomDataContext",
        "ComputerToolCustomDataExtractor",
        "CustomTool",
        "CustomToolCustomDataContext",
        "CustomToolCustomDataExtractor",
        "FileSearchTool",
        "FunctionTool",
        "FunctionToolCustomDataContext",
        "FunctionToolCustomDataExtractor",
        "FunctionToolResult",
        "HostedMCPTool",
        "ImageGenerationTool",
        "ImageGenerationToolConfig",
        "LocalShellCommandRequest",
        "LocalShellExecutor",
        "LocalShellTool",
        "MCPToolApprovalFunction",
        "MCPToolApprovalFunctionResult",
        "MCPToolApprovalRequest",
        "ProgrammaticToolCallingTool",
        "ShellActionRequest",
        "ShellCallData",
        "ShellCallOutcome",
        "ShellCommandOutput",
        "ShellCommandRequest",
        "ShellExecutor",
        "ShellResult",
        "ShellTool",
        "ShellToolContainerAutoEnvironment",
        "ShellToolContainerNetworkPolicy",
        "ShellToolContainerNetworkPolicyAllowlist",
        "ShellToolContainerNetworkPolicyDisabled",
        "ShellToolContainerNetworkPolicyDomainSecret",
        "ShellToolContainerReferenceEnvironment",
        "ShellToolContainerSkill",
        "ShellToolEnvironment",
        "ShellToolHostedEnvironment",
        "ShellToolInlineSkill",
        "ShellToolInlineSkillSource",
        "ShellToolLocalEnvironment",
        "ShellToolLocalSkill",
        "ShellToolSkillReference",
        "Tool",
        "ToolCaller",
        "ToolOrigin",
        "ToolOriginType",
        "ToolOutputFileContent",
        "ToolOutputFileContentDict",
        "ToolOutputImage",
        "ToolOutputImageDict",
        "ToolOutputText",
        "ToolOutputTextDict",
        "ToolSearchTool",
        "WebSearchTool",
        "WebSearchToolImageSettings",
        "default_tool_error_function",
        "dispose_resolved_computers",
        "function_tool",
        "resolve_computer",
        "tool_namespace",
    ),
    "tool_guardrails": (
        "ToolGuardrailFunctionOutput",
        "ToolInputGuardrail",
        "ToolInputGuardrailData",
        "ToolInputGuardrailResult",
        "ToolOutputGuardrail",
        "ToolOutputGuardrailData",
        "ToolOutputGuardrailResult",
        "tool_input_guardrail",
        "tool_output_guardrail",
    ),
    "tracing": (
        "AgentSpanData",
        "CustomSpanData",
        "FunctionSpanData",
        "GenerationSpanData",
        "GuardrailSpanData",
        "HandoffSpanData",
        "MCPListToolsSpanData",
        "ResponseSpanData",
        "Span",
        "SpanData",
        "SpanError",
        "SpeechGroupSpanData",
        "SpeechSpanData",
        "TaskSpanData",
        "Trace",
        "TracingProcessor",
        "TranscriptionSpanData",
        "TurnSpanData",
        "add_trace_processor",
        "agent_span",
        "custom_span",
        "flush_traces",
        "function_span",
        "gen_span_id",
        "gen_trace_id",
        "generation_span",
        "get_current_span",
        "get_current_trace",
        "guardrail_span",
        "handoff_span",
        "mcp_tools_span",
        "response_span",
        "set_trace_processors",
        "set_trace_provider",
        "set_tracing_disabled",
        "set_tracing_export_api_key",
        "speech_group_span",
        "speech_span",
        "task_span",
        "trace",
        "transcription_span",
        "turn_span",
    ),
    "usage": ("Usage",),
}
"""The modules that the names of this package are imported from, on first use."""

_absent = find_absent(__name__)


def _find(name: str) -> typing.Any:
    """Import a name of `_HOMES` on first use, and keep it."""
    for module, names in _HOMES.items():
        if name in names and name not in ABSENT:
            value = globals()[name] = getattr(importlib.import_module(f".{module}", __name__), name)
            return value
    return _absent(name)


class _Package(types.ModuleType):
    """This package, in which a function that is called like its module stands for the name, as in the SDK."""

    def __setattr__(self, name: str, value: typing.Any) -> None:
        is_home = isinstance(value, types.ModuleType) and name in _HOMES.get(name, ())
        super().__setattr__(name, getattr(value, name) if is_home else value)


if not typing.TYPE_CHECKING:
    __getattr__ = _find
    sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for names in _HOMES.values() for name in names if name not in ABSENT)})
