"""The marks and types of parameters that a thread fills in, and the runtime that a tool gets."""

from __future__ import annotations

from typing import Any, Generic, TypedDict

from msgspec import Struct

from .middleware_context import C, ExecutionInfo, S, Writer, drop_value


class InjectedToolArg:
    """A mark in the annotation of a parameter that no model fills in: `Annotated[str, InjectedToolArg]`.

    By itself it keeps a parameter from the model that has a default, or that a program gives by hand.
    """


class InjectedToolCallId(InjectedToolArg):
    """A mark for the id of the call."""


class InjectedState(InjectedToolArg):
    """A mark for the state of the thread, or for one of its keys: `Annotated[str, InjectedState("user")]`."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedToolArg):
    """A mark for the store that `create_agent(store=...)` was given."""


class RunnableConfig(TypedDict, total=False):
    """The config that `invoke` was called with; as the type of a tool's parameter, that config is given to the tool."""

    configurable: dict[str, Any]
    tags: list[str]
    metadata: dict[str, Any]
    callbacks: Any
    run_name: str
    run_id: Any
    recursion_limit: int
    max_concurrency: int | None


class ToolRuntime(Struct, Generic[C, S]):
    """The call and the thread that a tool is called in: `def look(city: str, runtime: ToolRuntime) -> str`."""

    state: S
    """The state of the thread, as of the reply that made the call."""
    context: C
    """The object that was given as `invoke(..., context=...)`."""
    config: RunnableConfig
    """The config that `invoke` was called with."""
    stream_writer: Writer = drop_value
    """A function that sends any value to the stream with `stream_mode="custom"`."""
    tool_call_id: str | None = None
    store: Any = None
    """The store that `create_agent(store=...)` was given."""
    tools: list[Any] = []
    """The agent's tools."""
    execution_info: ExecutionInfo | None = None
    server_info: None = None

    def emit_output_delta(self, delta: Any) -> None:
        """Do nothing: there is no stream of partial outputs. Use `stream_writer`."""
