"""Parameters, fields and methods of the SDK that the skin does not have, by the words of the guide that say so.

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
    ),
    "| settings and options by position | by keyword |": (
        "*: by keyword",
        "Realtime*: at another place",
        "realtime_handoff(is_enabled): at another place",
        "Usage(output_tokens): at another place",
        "*_guardrail(func)",
    ),
}
