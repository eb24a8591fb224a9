"""The names of `export`, for type checkers: at run time this module is empty."""

# mypy: disable-error-code="attr-defined"
# Some names are newer than the oldest version of langchain that is allowed.

from typing import TYPE_CHECKING

# fmt: off
# isort: off
if TYPE_CHECKING:
    from assentry.threads.langchain.trim import trim_messages as trim_messages
    from langchain.agents.middleware import (
        AutoModeMiddleware as AutoModeMiddleware, ClearToolUsesEdit as ClearToolUsesEdit,
        CodexSandboxExecutionPolicy as CodexSandboxExecutionPolicy,
        ContextEditingMiddleware as ContextEditingMiddleware, DockerExecutionPolicy as DockerExecutionPolicy,
        FilesystemFileSearchMiddleware as FilesystemFileSearchMiddleware, HostExecutionPolicy as HostExecutionPolicy,
        InputAgentState as InputAgentState, LLMToolEmulator as LLMToolEmulator,
        LLMToolSelectorMiddleware as LLMToolSelectorMiddleware, ModelCallLimitMiddleware as ModelCallLimitMiddleware,
        ModelChoice as ModelChoice, ModelFallbackMiddleware as ModelFallbackMiddleware,
        ModelRefusalMiddleware as ModelRefusalMiddleware, ModelRetryMiddleware as ModelRetryMiddleware,
        ModelRouterMiddleware as ModelRouterMiddleware, OutputAgentState as OutputAgentState,
        PIIDetectionError as PIIDetectionError, PIIMatch as PIIMatch, PIIMiddleware as PIIMiddleware,
        ProviderToolSearchMiddleware as ProviderToolSearchMiddleware, RedactionRule as RedactionRule,
        ShellToolMiddleware as ShellToolMiddleware, SummarizationMiddleware as SummarizationMiddleware,
        TodoListMiddleware as TodoListMiddleware, ToolCallLimitMiddleware as ToolCallLimitMiddleware,
        ToolErrorMiddleware as ToolErrorMiddleware, ToolRetryMiddleware as ToolRetryMiddleware,
        TriggerClause as TriggerClause,
    )
    from langchain.agents.middleware.human_in_the_loop import Decision as Decision
    from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError as ModelCallLimitExceededError
    from langchain.agents.middleware.tool_call_limit import ToolCallLimitExceededError as ToolCallLimitExceededError
    from langchain.agents.middleware.types import (
        ContextT as ContextT, ResponseT as ResponseT, StateT as StateT, ToolCallWrapper as ToolCallWrapper,
    )
    from langchain.chat_models import BaseChatModel as BaseChatModel, init_chat_model as init_chat_model
    from langchain_core.callbacks import (
        AsyncCallbackHandler as AsyncCallbackHandler, BaseCallbackHandler as BaseCallbackHandler,
        StdOutCallbackHandler as StdOutCallbackHandler, UsageMetadataCallbackHandler as UsageMetadataCallbackHandler,
    )
    from langchain_core.messages import (
        Annotation as Annotation, AudioContentBlock as AudioContentBlock, Citation as Citation,
        ContentBlock as ContentBlock, DataContentBlock as DataContentBlock, FileContentBlock as FileContentBlock,
        ImageContentBlock as ImageContentBlock, InputTokenDetails as InputTokenDetails,
        InvalidToolCall as InvalidToolCall, MessageLikeRepresentation as MessageLikeRepresentation,
        NonStandardAnnotation as NonStandardAnnotation, NonStandardContentBlock as NonStandardContentBlock,
        OutputTokenDetails as OutputTokenDetails, PlainTextContentBlock as PlainTextContentBlock,
        ReasoningContentBlock as ReasoningContentBlock, ServerToolCall as ServerToolCall,
        ServerToolCallChunk as ServerToolCallChunk, ServerToolResult as ServerToolResult,
        TextContentBlock as TextContentBlock, ToolCallChunk as ToolCallChunk, UsageMetadata as UsageMetadata,
        VideoContentBlock as VideoContentBlock,
    )
    from langchain_core.tools import (
        ArgsSchema as ArgsSchema, BaseTool as BaseTool, BaseToolkit as BaseToolkit, StructuredTool as StructuredTool,
        Tool as Tool, ToolException as ToolException,
    )
    from langgraph.store.base import BaseStore as BaseStore, Item as Item, SearchItem as SearchItem
    from langgraph.store.memory import InMemoryStore as InMemoryStore
    from langgraph.types import (
        All as All, Checkpointer as Checkpointer, StreamMode as StreamMode, StreamWriter as StreamWriter,
    )
