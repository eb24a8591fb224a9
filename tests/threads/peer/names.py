"""The public names of LangChain and LangGraph that programs with agents use, read from those that are installed."""

from __future__ import annotations

import importlib
from typing import Any

from langgraph.graph.state import CompiledStateGraph

LISTED = (
    "langchain.agents",
    "langchain.agents.middleware",
    "langchain.messages",
    "langchain.tools",
    "langgraph.types",
)
"""Modules that list their public names."""
DOCUMENTED = {
    "langchain.agents.structured_output": (
        "AutoStrategy",
        "MultipleStructuredOutputsError",
        "ProviderStrategy",
        "ResponseFormat",
        "StructuredOutputError",
        "StructuredOutputValidationError",
        "ToolStrategy",
    ),
    "langgraph.checkpoint.memory": ("InMemorySaver", "MemorySaver"),
    "langgraph.checkpoint.postgres": ("PostgresSaver",),
    "langgraph.checkpoint.postgres.aio": ("AsyncPostgresSaver",),
    "langgraph.checkpoint.sqlite": ("SqliteSaver",),
    "langgraph.checkpoint.sqlite.aio": ("AsyncSqliteSaver",),
    "langgraph.config": ("get_stream_writer",),
    "langgraph.runtime": ("Runtime",),
}
"""Names that their pages import from modules without such a list."""
METHODS = (
    "abatch",
    "aget_state",
    "aget_state_history",
    "ainvoke",
    "astream",
    "astream_events",
    "aupdate_state",
    "batch",
    "get_state",
    "get_state_history",
    "invoke",
    "name",
    "stream",
    "stream_events",
    "update_state",
    "with_config",
)
"""Methods of an agent that programs call."""

# fmt: off
INNER = (
    "get_lc_namespace", "init_*", "is_lc_serializable", "lc_*", "to_json*", "coerce_args",  # their serialization
    "*_SQL", "MIGRATIONS", "*put", "*put_writes", "*_delta_channel_history", "*copy_thread", "*delete_for_runs",
    "*prune", "blobs", "config_specs", "conn", "cursor", "get_next_version", "is_setup", "jsonplus_serde", "lock",
    "loop", "pipe", "serde", "stack", "storage", "supports_pipeline", "with_allowlist", "writes",  # parts of savers
    "type",  # the tag of a class, which nobody changes
    "count", "index",  # a snapshot is a tuple there
    "drain_*", "merge", "patch_execution_info",  # for the graph that runs a node
)
# fmt: on
"""Members of classes that are not for programs, as patterns."""


def public() -> dict[str, Any]:
    """Return what their public names stand for."""
    found = {}
    for module in (*LISTED, *DOCUMENTED):
        theirs = importlib.import_module(module)
        for name in DOCUMENTED.get(module) or theirs.__all__:
            found[name] = getattr(theirs, name)
    return found


class TheirAgent:
    """The methods of LangChain's agents that programs call."""


for each in METHODS:
    setattr(TheirAgent, each, getattr(CompiledStateGraph, each, None))
