"""Names of the OpenAI Agents SDK that are not here, each with a sentence that says what to do instead.

A name that is here does not belong in these tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..errors import NotInAssentry

GUIDE = "docs/howto/from-openai-agents.md"
"""The page that has every name of the SDK, and what became of it."""

COMPUTER = "Assentry has no computer use; give the agent function tools for what it has to do"
CUSTOM_DATA = "Items hold no data of yours; keep it in your context object"
CUSTOM_TOOL = "Tools take JSON arguments; use function_tool, with a parameter for the text"
LOCAL_SHELL = "It is the older form of ShellTool; use ShellTool with an executor"
PROGRAMS = "Nobody would be asked before a generated program calls tools; let the model call them"
CODEX = "Assentry runs no Codex; run its command with ShellTool, where a person can be asked"
HOSTED_SHELL = "Nobody would be asked before the provider runs a shell or a skill; use ShellTool with an executor"
RUNNERS = "Runner is the only one, and its options are its parameters; test with assentry.testing.ScriptedModel"
SANDBOX = "Assentry runs no sandboxes; give ShellTool an executor that runs commands in a container of yours"
TESTING = "Assentry's own are in assentry.testing: ScriptedModel, call, check_store, check_model"
TOOL_SEARCH = "Tools are offered to the model from the start, not searched for; leave out tools with is_enabled"
TRACES = "Assentry sends no traces to OpenAI; give add_trace_processor one of your own, or set up OpenTelemetry"
WEBSOCKET = "Assentry asks the Responses API over HTTP; use OpenAIResponsesModel, or leave the transport out"
VOICE = "Assentry has no voice pipelines; use assentry.agents.realtime"

ABSENT: dict[str, str] = {
    **dict.fromkeys(("OpenAIResponsesWSModel", "OpenAIResponsesWebSocketOptions"), WEBSOCKET),
    **dict.fromkeys(("ResponsesWebSocketSession", "responses_websocket_session"), WEBSOCKET),
    **dict.fromkeys(("AsyncComputer", "Button", "Computer", "Environment"), COMPUTER),
    **dict.fromkeys(("ComputerProvider", "ComputerTool", "ComputerToolCustomDataContext"), COMPUTER),
    **dict.fromkeys(("ComputerToolSafetyCheckData",), COMPUTER),
    **dict.fromkeys(("ComputerToolCustomDataExtractor", "dispose_resolved_computers", "resolve_computer"), COMPUTER),
    **dict.fromkeys(("ApplyPatchToolCustomDataContext", "ApplyPatchToolCustomDataExtractor"), CUSTOM_DATA),
    **dict.fromkeys(("FunctionToolCustomDataContext", "FunctionToolCustomDataExtractor"), CUSTOM_DATA),
    **dict.fromkeys(("CustomTool", "CustomToolCustomDataContext", "CustomToolCustomDataExtractor"), CUSTOM_TOOL),
    **dict.fromkeys(("LocalShellCommandRequest", "LocalShellExecutor", "LocalShellTool"), LOCAL_SHELL),
    **dict.fromkeys(("ProgrammaticToolCallingTool", "ToolCaller"), PROGRAMS),
    **dict.fromkeys(("AgentRunner", "RunOptions"), RUNNERS),
    **dict.fromkeys(("get_default_agent_runner", "set_default_agent_runner"), RUNNERS),
    **dict.fromkeys(("SandboxArchiveLimits", "SandboxConcurrencyLimits", "SandboxRunConfig"), SANDBOX),
    **dict.fromkeys(("ToolSearchCallItem", "ToolSearchOutputItem", "ToolSearchTool", "tool_namespace"), TOOL_SEARCH),
    **dict.fromkeys(("BackendSpanExporter", "default_exporter", "default_processor"), TRACES),
    **dict.fromkeys(
        (
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
        ),
        HOSTED_SHELL,
    ),
}
"""The reason that a name is not here, and the thing to do, by the name."""


def not_here(what: str, why: str) -> NotInAssentry:
    """Return the error for a name or a module that is not here."""
    return NotInAssentry(f"{what} is not in Assentry. {why}. See {GUIDE}.")


def find_absent(module: str) -> Callable[[str], NoReturn]:
    """Return a module's `__getattr__`, which says why a name of the SDK is not here."""

    def find(name: str) -> NoReturn:
        if name in ABSENT:
            raise not_here(name, ABSENT[name])
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
