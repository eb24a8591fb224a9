"""The table of the OpenAI Agents SDK. Names that are not in it stay on the skin, `assentry.agents`."""

from __future__ import annotations

from .library import CallNote, Library

# fmt: off
SAME_NAMES = (
    "Agent", "AgentHooks", "AgentUpdatedStreamEvent", "ApplyPatchEditor", "ApplyPatchOperation", "ApplyPatchResult",
    "ApplyPatchTool", "CodeInterpreterTool", "FileSearchTool", "FunctionTool", "GuardrailFunctionOutput", "Handoff",
    "HandoffCallItem", "HandoffInputData", "HandoffOutputItem", "HostedMCPTool", "InputGuardrail",
    "InputGuardrailResult", "InputGuardrailTripwireTriggered", "LitellmModel",
    "MCPApprovalRequestItem", "MCPApprovalResponseItem", "MCPListToolsItem", "MCPToolApprovalRequest",
    "MaxTurnsExceeded", "MessageOutputItem", "ModelSettings", "OpenAIChatCompletionsModel",
    "OpenAIConversationsSession", "OpenAIResponsesModel", "OutputGuardrail", "OutputGuardrailResult",
    "OutputGuardrailTripwireTriggered", "RawResponsesStreamEvent", "ReasoningItem", "RunConfig", "RunContextWrapper",
    "RunHooks", "RunItem", "RunItemStreamEvent", "RunResult", "RunResultStreaming", "RunState", "Runner",
    "SQLiteSession", "ShellActionRequest", "ShellCallData", "ShellCallOutcome", "ShellCommandOutput",
    "ShellCommandRequest", "ShellResult", "ShellTool", "StreamEvent", "Tool", "ToolApprovalItem", "ToolCallItem",
    "ToolCallOutputItem", "ToolContext", "ToolGuardrailFunctionOutput", "ToolInputGuardrail",
    "ToolInputGuardrailData", "ToolInputGuardrailResult", "ToolInputGuardrailTripwireTriggered",
    "ToolOutputFileContent", "ToolOutputGuardrail", "ToolOutputGuardrailData", "ToolOutputGuardrailResult",
    "ToolOutputGuardrailTripwireTriggered", "ToolOutputImage", "ToolOutputText", "ToolsToFinalOutputResult",
    "WebSearchTool", "apply_diff", "default_tool_error_function", "function_tool", "handoff", "input_guardrail",
    "output_guardrail", "tool_input_guardrail", "tool_output_guardrail",
)
# fmt: on
"""Names that Assentry itself has too, with the meaning that the Agents SDK gives them."""

STATES = "States that the Agents SDK saved are not read: finish those runs where they were begun"
PERSON, ELSE = "A person is asked before each", "unless needs_approval= says otherwise"
TRACES = "Assentry sends no traces to OpenAI; set up OpenTelemetry or add a processor"

AGENTS_SDK = Library(
    title="the OpenAI Agents SDK",
    modules=("agents",),
    distributions={"openai-agents": "assentry"},
    guide="docs/howto/from-openai-agents.md",
    skins={"agents": "assentry.agents"},
    native_modules={"agents.mcp": "assentry.mcp", "agents.realtime": "assentry.realtime"},
    native_names={
        **{name: f"assentry.{name}" for name in SAME_NAMES},
        "AgentsException": "assentry.AssentryError",
        "UserError": "assentry.UsageError",
    },
    keywords={
        "approve": {"approval_item": "item"},
        "reject": {"approval_item": "item"},
        "from_json": {"initial_agent": "agent", "state_json": "data"},
        "from_string": {"initial_agent": "agent", "state_string": "text"},
    },
    notes=(
        CallNote("RunState.from_json", f"{STATES}."),
        CallNote("RunState.from_string", f"{STATES}."),
        CallNote("ShellTool", "A shell of the provider's is refused: give an executor.", only_with=("environment",)),
        CallNote("ShellTool", f"{PERSON} command, {ELSE}.", unless=("needs_approval",), native=True),
        CallNote("ApplyPatchTool", f"{PERSON} patch, {ELSE}.", unless=("needs_approval",), native=True),
        CallNote("set_tracing_export_api_key", f"{TRACES}."),
    ),
)
