"""Names of LangChain and LangGraph that are not here, each with a sentence that says what to do instead.

A name that is here does not belong in these tables.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection
from typing import Any

from ..errors import NotInAssentry
from .langchain.export import EXPORTS, find_export

GUIDE = "docs/howto/from-langchain.md"
"""The page that has the names of LangChain, and what became of them."""

AGENT = "create_agent returns a ThreadAgent"
DEBUG = "Checkpoints and tasks are not streamed; the store has the journal of every run"
DURABILITY = "Every step is written before it is taken"
ERRORS = "Its own errors are in docs/reference/errors.md; a mistake of the program is a UsageError"
FORMER = "It is of LangChain before 1.0; use create_agent"
GRAPHS = "Assentry runs agents and no graphs; give an agent tools and other agents, or call agents from a function"
INBOX = "It is the older form of a question; use HITLRequest and HITLResponse"
NODES = "There are no nodes; give a tool its own timeout, and use ModelRetryMiddleware or ToolRetryMiddleware"
OUTPUT = "Output that does not fit its schema raises InvalidOutput, from assentry"
PAUSES = "A pause is no exception that a program catches; look at the result's interrupts"
REACT = "Use create_agent, with system_prompt= in place of prompt="
SAVERS = "Threads are kept by InMemorySaver, SqliteSaver or PostgresSaver, and Saver is the class of all of them"
SERVER = "Assentry is not run by LangGraph's server; runtime.context has what you give"
STEPS = "The state does not count steps; set max_turns, and MaxTurnsExceeded, from assentry, is raised after the last"
STORED = "Threads are stored as JSON and need no serializer"
TOOL_NODES = "create_agent runs the tools itself, behind the gate; give them to it"
TRACES = "Assentry sends no traces to LangSmith; set up OpenTelemetry"

# fmt: off
ABSENT: dict[str, str] = {
    **dict.fromkeys((
        "CheckpointPayload", "CheckpointTask", "DebugPayload", "PregelExecutableTask", "TaskPayload",
        "TaskResultPayload",
    ), DEBUG),
    "Durability": DURABILITY,
    **dict.fromkeys((
        "EmptyChannelError", "EmptyInputError", "ErrorCode", "GraphDrained", "InvalidUpdateError",
        "NodeCancelledError", "NodeError", "NodeTimeoutError", "ParentCommand", "TaskNotFound", "ToolInvocationError",
        "UnknownInterruptError", "is_invalid_resume",
    ), ERRORS),
    **dict.fromkeys((
        "AgentExecutor", "AgentType", "create_openai_functions_agent", "create_openai_tools_agent",
        "create_structured_chat_agent", "create_tool_calling_agent", "initialize_agent", "load_tools",
    ), FORMER),
    **dict.fromkeys((
        "MessageGraph", "MessagesState", "NodeBuilder", "Pregel", "Send", "StateGraph", "entrypoint", "task",
    ), GRAPHS),
    "CompiledStateGraph": AGENT,
    **dict.fromkeys(("HumanInterrupt", "HumanInterruptConfig", "HumanResponse"), INBOX),
    **dict.fromkeys(("CachePolicy", "InMemoryCache", "RetryPolicy", "TimeoutPolicy"), NODES),
    **dict.fromkeys((
        "MultipleStructuredOutputsError", "OutputToolBinding", "ProviderStrategyBinding", "StructuredOutputError",
        "StructuredOutputValidationError",
    ), OUTPUT),
    **dict.fromkeys((
        "GraphBubbleUp", "GraphCallbackHandler", "GraphInterrupt", "GraphInterruptEvent", "GraphLifecycleEvent",
        "GraphResumeEvent", "NodeInterrupt",
    ), PAUSES),
    "create_react_agent": REACT,
    **dict.fromkeys((
        "AsyncShallowPostgresSaver", "BaseCheckpointSaver", "BasePostgresSaver", "Checkpoint", "CheckpointMetadata",
        "PersistentDict", "ShallowPostgresSaver", "ensure_valid_checkpointer",
    ), SAVERS),
    **dict.fromkeys(("BaseUser", "RunControl", "ServerInfo"), SERVER),
    **dict.fromkeys(("GraphRecursionError", "IsLastStep", "RemainingSteps"), STEPS),
    **dict.fromkeys(("EncryptedSerializer", "JsonPlusSerializer", "SerializerProtocol"), STORED),
    **dict.fromkeys((
        "ToolCallTransformer", "ToolCallWithContext", "ToolNode", "ValidationNode", "tools_condition",
    ), TOOL_NODES),
    **dict.fromkeys(("TracePolicy", "configure_trace_policy", "omit_payload"), TRACES),
}
"""The reason that a name is not here, and the thing to do, by the name."""

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "langchain_core.messages": (
        "BaseMessageChunk", "ChatMessage", "ChatMessageChunk", "FunctionMessage", "FunctionMessageChunk",
        "HumanMessageChunk", "LC_AUTO_PREFIX", "LC_ID_PREFIX", "NotificationMetadata", "RefusalContentBlock",
        "SystemMessageChunk", "ToolMessageChunk", "add_notification_metadata", "convert_to_messages",
        "convert_to_openai_data_block", "convert_to_openai_image_block", "convert_to_openai_messages", "ensure_id",
        "filter_messages", "get_buffer_string", "get_notification_metadata", "is_data_content_block", "merge_content",
        "merge_message_runs", "message_chunk_to_message", "message_to_dict", "messages_from_dict", "messages_to_dict",
    ),
    "langchain_core.runnables": (
        "AddableDict", "ConfigurableField", "ConfigurableFieldMultiOption", "ConfigurableFieldSingleOption",
        "ConfigurableFieldSpec", "RouterInput", "RouterRunnable", "Runnable", "RunnableAssign", "RunnableBinding",
        "RunnableBranch", "RunnableGenerator", "RunnableLambda", "RunnableMap", "RunnableParallel",
        "RunnablePassthrough", "RunnablePick", "RunnableSequence", "RunnableSerializable", "RunnableWithFallbacks",
        "RunnableWithMessageHistory", "aadd", "add", "chain", "ensure_config", "get_config_list", "patch_config",
        "run_in_executor",
    ),
    "langchain_core.tools": (
        "FILTERED_ARGS", "RetrieverInput", "SchemaAnnotationError", "ToolsRenderer", "convert_runnable_to_tool",
        "create_retriever_tool", "create_schema_from_function", "render_text_description",
        "render_text_description_and_args",
    ),
}
# fmt: on
"""Names that are imported from LangChain as before, by their module."""


def not_here(what: str, why: str) -> str:
    """Return the sentence about a name or a module that is not here."""
    return f"{what} is not in Assentry. {why}. See {GUIDE}."


def find_name(name: str, own: Collection[str], imported: bool) -> Any:
    """Return a name that `assentry.threads` takes from LangChain.

    Args:
        name: The name that the module itself does not have.
        own: The names that it has.
        imported: True for `from assentry.threads import name`.

    Raises:
        NotInAssentry: The name is not here, and was imported.
        AttributeError: The name is not here, and was looked up otherwise, as `hasattr` does.
    """
    if name in EXPORTS:
        try:
            return find_export(name)
        except NotInAssentry as error:
            says = str(error)
    elif name.startswith("_") or importlib.util.find_spec(f"{__package__}.{name}") is not None:
        imported, says = False, f"module {__package__!r} has no attribute {name!r}"
    else:
        says = _sentence(name, own)
    if imported:
        raise NotInAssentry(says)
    raise AttributeError(says, name=name)


def _sentence(name: str, own: Collection[str]) -> str:
    """Return the sentence about a name that is neither Assentry's nor taken from LangChain."""
    if name in ABSENT:
        return not_here(name, ABSENT[name])
    for module, names in ELSEWHERE.items():
        if name in names:
            return f"{name} is LangChain's own: import it from {module}."
    from difflib import get_close_matches  # only for this message

    near = get_close_matches(name, sorted({*own, *EXPORTS}), 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return f"There is no {name} in assentry.threads{hint} See {GUIDE}."
