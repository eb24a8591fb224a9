"""The table of LangChain and LangGraph. `assentry.threads` says which names it has; the others stay where they are."""

from __future__ import annotations

from .. import threads
from ..threads import absent
from ..threads.langchain.export import EXPORTS
from .library import CallNote, FlatLibrary

HERE = "assentry.threads"
THREADS = "Threads that LangChain saved are not read: finish those where they were begun"
KEPT = "This program's graph stays LangGraph's, and so do its messages, tools, savers and commands"
GRAPHS = (
    "langgraph.func.entrypoint",
    "langgraph.graph.MessageGraph",
    "langgraph.graph.StateGraph",
    "langgraph.graph.message.MessageGraph",
    "langgraph.graph.state.StateGraph",
    "langgraph.pregel.Pregel",
)
OBJECTS = (
    r"^\s*(from|import) +(langchain_(?!core\b)\w|langchain\.chat_models\b|"
    r"langchain_core\.(chat_history|language_models|outputs|prompts)\b|"
    r"langchain_core\.runnables\b.*\bRunnable(?!Config\b))"
)
"""Imports of chat models and whatever else takes LangChain's own messages; Assentry takes those, too."""
SAVERS = ("AsyncPostgresSaver", "AsyncSqliteSaver", "PostgresSaver", "SqliteSaver")

# fmt: off
READY_MADE = tuple(f"langchain.agents.middleware.{name}" for name in (
    "auto_mode", "context_editing", "file_search", "internal_call_transformer", "model_call_limit", "model_fallback",
    "model_refusal", "model_retry", "model_router", "pii", "provider_tool_search", "shell_tool", "summarization",
    "todo", "tool_call_limit", "tool_emulator", "tool_error", "tool_retry", "tool_selection",
))
"""The modules of LangChain's own middleware, which work as they are."""
MODULES = (
    "langchain.agents", "langchain.agents.factory", "langchain.agents.middleware",
    "langchain.agents.middleware.human_in_the_loop", "langchain.agents.middleware.types", *READY_MADE,
    "langchain.agents.structured_output", "langchain.messages", "langchain.tools", "langchain.tools.tool_node",
    "langchain_core.messages",
    *(f"langchain_core.messages.{name}" for name in (
        "ai", "base", "content", "human", "modifier", "system", "tool", "utils",
    )),
    "langchain_core.runnables", "langchain_core.runnables.config",
    "langchain_core.tools", "langchain_core.tools.base", "langchain_core.tools.structured",
    "langgraph.checkpoint", "langgraph.checkpoint.base", "langgraph.checkpoint.memory",
    "langgraph.checkpoint.postgres", "langgraph.checkpoint.postgres.aio",
    "langgraph.checkpoint.sqlite", "langgraph.checkpoint.sqlite.aio",
    "langgraph.config", "langgraph.constants", "langgraph.errors",
    "langgraph.graph", "langgraph.graph.message", "langgraph.graph.state",
    "langgraph.prebuilt", "langgraph.prebuilt.chat_agent_executor", "langgraph.prebuilt.tool_node",
    "langgraph.runtime", "langgraph.types",
)
# fmt: on
"""The modules whose names may be here."""

LANGCHAIN = FlatLibrary(
    title="LangChain",
    modules=("langchain", "langchain_core", "langgraph"),
    distributions={
        "langchain": "assentry[langchain]",
        "langgraph": "assentry",
        "langgraph-checkpoint-postgres": "assentry[postgres]",
        "langgraph-checkpoint-sqlite": "assentry[store]",
    },
    guide=absent.GUIDE,
    skins=dict.fromkeys(MODULES, HERE),
    notes=tuple(CallNote(name, f"{THREADS}.") for saver in SAVERS for name in (saver, f"{saver}.from_conn_string")),
    here=HERE,
    own=frozenset(threads.__all__),
    taken=frozenset(EXPORTS),
    absent=absent.ABSENT,
    nothing_of={
        "langgraph.cache": absent.NODES,
        "langgraph.callbacks": absent.PAUSES,
        "langgraph.checkpoint.mongodb": absent.SAVERS,
        "langgraph.checkpoint.redis": absent.SAVERS,
        "langgraph.checkpoint.serde": absent.STORED,
        "langgraph.func": absent.GRAPHS,
        "langgraph.managed": absent.STEPS,
        "langgraph.prebuilt.interrupt": absent.INBOX,
        "langgraph.pregel": absent.GRAPHS,
    },
    rest_stays=("langchain_core", *READY_MADE),
    keeps=dict.fromkeys(GRAPHS, KEPT),
    moves_anyway=("langchain.agents",),
    objects=OBJECTS,
    taken_by_objects=("langchain.messages", "langchain_core.messages"),
)
