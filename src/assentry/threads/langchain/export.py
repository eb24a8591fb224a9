"""LangChain's own names that `assentry.threads` offers as they are, imported from the installed library on first use.

A name that Assentry has itself does not belong here, nor one that works only in graphs of LangGraph. `typed` has the
same names for type checkers.
"""

from __future__ import annotations

import importlib
from typing import Any

from ...core.wording import install_hint
from ...errors import NotInAssentry

# fmt: off
HOMES: dict[str, tuple[str, ...]] = {
    "assentry.threads.langchain.trim": ("trim_messages",),
    "langchain.agents.middleware": (
        "AutoModeMiddleware", "ClearToolUsesEdit", "CodexSandboxExecutionPolicy", "ContextEditingMiddleware",
        "DockerExecutionPolicy", "FilesystemFileSearchMiddleware", "HostExecutionPolicy", "InputAgentState",
        "LLMToolEmulator", "LLMToolSelectorMiddleware", "ModelCallLimitMiddleware", "ModelChoice",
        "ModelFallbackMiddleware", "ModelRefusalMiddleware", "ModelRetryMiddleware", "ModelRouterMiddleware",
        "OutputAgentState", "PIIDetectionError", "PIIMatch", "PIIMiddleware", "ProviderToolSearchMiddleware",
        "RedactionRule", "ShellToolMiddleware", "SummarizationMiddleware", "TodoListMiddleware",
        "ToolCallLimitMiddleware", "ToolErrorMiddleware", "ToolRetryMiddleware", "TriggerClause",
    ),
    "langchain.agents.middleware.human_in_the_loop": ("Decision",),
    "langchain.agents.middleware.model_call_limit": ("ModelCallLimitExceededError",),
    "langchain.agents.middleware.tool_call_limit": ("ToolCallLimitExceededError",),
    "langchain.agents.middleware.types": ("ContextT", "ResponseT", "StateT", "ToolCallWrapper"),
    "langchain.chat_models": ("BaseChatModel", "init_chat_model"),
    "langchain_core.callbacks": (
        "AsyncCallbackHandler", "BaseCallbackHandler", "StdOutCallbackHandler", "UsageMetadataCallbackHandler",
    ),
    "langchain_core.messages": (
        "Annotation", "AudioContentBlock", "Citation", "ContentBlock", "DataContentBlock", "FileContentBlock",
        "ImageContentBlock", "InputTokenDetails", "InvalidToolCall", "MessageLikeRepresentation",
        "NonStandardAnnotation", "NonStandardContentBlock", "OutputTokenDetails", "PlainTextContentBlock",
        "ReasoningContentBlock", "ServerToolCall", "ServerToolCallChunk", "ServerToolResult", "TextContentBlock",
        "ToolCallChunk", "UsageMetadata", "VideoContentBlock",
    ),
    "langchain_core.tools": ("ArgsSchema", "BaseTool", "BaseToolkit", "StructuredTool", "Tool", "ToolException"),
    "langgraph.store.base": ("BaseStore", "Item", "SearchItem"),
    "langgraph.store.memory": ("InMemoryStore",),
    "langgraph.types": ("All", "Checkpointer", "StreamMode", "StreamWriter"),
}
# fmt: on
"""The names, by the module that has them."""

EXPORTS = {name: module for module, names in HOMES.items() for name in names}
"""The module of each name."""


def find_export(name: str) -> Any:
    """Import a name from LangChain.

    Raises:
        NotInAssentry: LangChain is not installed, or its version does not have the name.
    """
    module = EXPORTS[name]
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        why = f"which is not installed ({error.name}): {install_hint('langchain')}"
    except AttributeError:
        why = f"and the installed version does not have it in {module}: install a newer one."
    raise NotInAssentry(f"{name} is LangChain's own, {why}")
