"""The public names of the OpenAI Agents SDK, read from the one that is installed."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import TypeVar

import agents

INNER = (
    "agents.agent_tool_state",
    "agents.extensions.experimental",  # named as a whole in the guide
    "agents.extensions.sandbox",  # so are these
    "agents.logger",
    "agents.models.chatcmpl_converter",
    "agents.models.chatcmpl_helpers",
    "agents.models.chatcmpl_stream_handler",
    "agents.models.fake_id",
    "agents.models.openai_client_utils",
    "agents.run_internal",
    "agents.sandbox",
    "agents.testing",
    "agents.util",
    "agents.voice",
)
"""Modules whose names are not for programs, or are left out as a whole."""

DOCUMENTED = {
    "agents.extensions": {"handoff_filters"},
    "agents.extensions.handoff_prompt": {"RECOMMENDED_PROMPT_PREFIX", "prompt_with_handoff_instructions"},
    "agents.extensions.models.litellm_model": {"LitellmModel"},
    "agents.extensions.models.litellm_provider": {"LitellmProvider"},
    "agents.extensions.tool_output_trimmer": {"ToolOutputTrimmer"},
    "agents.extensions.visualization": {"draw_graph"},
    "agents.function_schema": {"FuncSchema", "function_schema"},
    "agents.items": {"TResponse", "TResponseOutputItem", "TResponseStreamEvent", "ToolCallItemTypes"},
    "agents.lifecycle": {"AgentHooksBase", "RunHooksBase"},
    "agents.mcp.server": {"MCPServer", "MCPServerSse", "MCPServerStdio", "MCPServerStreamableHttp"},
    "agents.mcp.util": {"MCPUtil", "create_static_tool_filter"},
    "agents.model_settings": {"MCPToolChoice"},
    "agents.models.default_models": {"get_default_model", "get_default_model_settings"},
    "agents.strict_schema": {"ensure_strict_json_schema"},
    "agents.tool": {"ComputerToolSafetyCheckData", "ShellOnApprovalFunctionResult"},
    "agents.tool_context": {"ToolContext"},
    "agents.tracing.processor_interface": {"TracingExporter", "TracingProcessor"},
    "agents.tracing.processors": {"BackendSpanExporter", "BatchTraceProcessor", "ConsoleSpanExporter"},
    "agents.usage": {"RequestUsage"},
}
"""Names that the SDK's pages import from a module, and that no package exports."""


@cache
def modules() -> dict[str, ModuleType | None]:
    """Return the SDK's public modules by name; None for one that needs more than is installed."""
    found: dict[str, ModuleType | None] = {"agents": agents}
    for each in pkgutil.walk_packages(agents.__path__, "agents.", onerror=lambda name: None):
        inner = each.name.startswith(INNER) or any(part.startswith("_") for part in each.name.split("."))
        if not inner:
            try:
                found[each.name] = importlib.import_module(each.name)
            except ImportError:
                found[each.name] = None
    return found


@cache
def exported() -> frozenset[str]:
    """Return the names that some package of the SDK exports."""
    packages = [each for each in modules().values() if each is not None and hasattr(each, "__path__")]
    return frozenset(name for each in packages for name in getattr(each, "__all__", ()))


def public(module: str) -> set[str]:
    """Return the public names of a module: its own list, or what a package or the SDK's pages take from it."""
    found = modules()[module]
    if found is None:
        return set()
    named = getattr(found, "__all__", None)
    if named is not None:
        return {*(name for name in named if name[0] != "_"), *DOCUMENTED.get(module, ())}
    own = {name for name, value in vars(found).items() if getattr(value, "__module__", None) == module}
    own -= {name for name in own if isinstance(getattr(found, name), TypeVar)}
    return {name for name in own & exported() if name[0] != "_"} | DOCUMENTED.get(module, set())
