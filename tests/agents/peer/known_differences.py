"""Parameters, fields and methods of the SDK that the skin does not have, by the row of the guide that says so.

A pattern stands for all that it fits; every pattern must fit something.
"""

KNOWN: dict[str, tuple[str, ...]] = {
    "| results, states, errors, contexts and items made by hand | runs make them |": (
        "AgentBase(*",
        "AgentHookContext(*",
        "*Error(*",
        "*TripwireTriggered(*",
        "OutputGuardrailResult(*",
        "RunContextWrapper(*",
        "RunErrorDetails(*",
        "RunResult(*",
        "RunResultStreaming(*",
        "ToolApprovalItem(*",
        "ToolCall*Item(*",
        "ToolContext(*",
        "ToolErrorFormatterArgs(*",
        "ToolContext.from_agent_context",
    ),
    "| options by position, a decorator's function by keyword | the other way round |": (
        "*: by keyword",
        "realtime_handoff(is_enabled): at another place",
        "Usage(output_tokens): at another place",
        "ModelSettings(preserve_raw_usage): at another place",
        "ModelSettings(timeout): at another place",
        "*_guardrail(func)",
    ),
    "| `get_all_tools`, `get_mcp_tools` and `get_system_prompt` of `AgentBase` and of a live agent | its fields |": (
        "AgentBase.*",
        "RealtimeAgent.get_*",
    ),
    "| `get_approval_status`, `get_rejection_message`, `tool_input` of a context | `item.outcome` |": (
        "*.get_approval_status",
        "*.get_rejection_message",
        "*.tool_input",
    ),
    "| `turn_input` of a context outside of `on_agent_start` | it is in that hook |": ("*.turn_input",),
    "| `allowed_callers`, `custom_data_extractor`, `tool_namespace`, `tool_lookup_key` | tools have none of these |": (
        "*.allowed_callers",
        "*.custom_data_extractor",
        "*.tool_namespace",
        "*.tool_lookup_key",
        "ItemHelpers.*",
    ),
    "| fields of `WebSearchTool` and `FileSearchTool`, read back | `tool.config` |": (
        "WebSearchTool.*",
        "FileSearchTool.*",
    ),
    "| attributes of an MCP server, such as `session` and `exit_stack` | its methods |": (
        "MCPServer*",
        "MCPUtil.*",
        "FunctionTool.mcp_annotations",
    ),
    "| `state.clear_pending_input()`, `set_trace` and the trackers of a state | input is taken once it is given |": (
        "RunState.*",
    ),
    "| `error` and `tool_type` of a formatter's argument | `kind`, `tool_name`, `by` |": (
        "ToolErrorFormatterArgs.error",
        "ToolErrorFormatterArgs.tool_type",
    ),
    "| `wrapper=` of a session's methods; `client`, `messages_table` and the like, read back | left out |": (
        "*Session.*",
        "OpenAIProvider.agent_registration",
        "OpenAIChatCompletionsModel.should_replay_reasoning_content",
    ),
    "| `tools`, `handoffs` in a live session's settings | the agent's |": ("Realtime*[[]*",),
    "| inner parts of tracing, such as `active_spans` | OpenTelemetry's own |": ("TraceCtxManager*", "*.active_*"),
    "| methods for the SDK's own use, such as `to_json_dict` of a `ToolOrigin` | left out |": (
        "RunResultStreaming.ensure_*",
        "ToolOrigin.*",
        "ToolOutput*.check_*",
    ),
}
