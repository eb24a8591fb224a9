"""The names of `agents.mcp.util`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...mcp.tool import MCPToolMetaContext, MCPToolMetaResolver
from ...mcp.tool_filter import (
    ToolFilter,
    ToolFilterCallable,
    ToolFilterContext,
    ToolFilterStatic,
    create_static_tool_filter,
)
from ...mcp.util import MCPUtil as OwnUtil
from ..absent import find_absent
from ..run_context import RunContextWrapper
from ..tool import Tool, default_tool_error_function

if TYPE_CHECKING:
    from ...definitions.tool import FailureText

__all__ = [
    "HttpClientFactory",
    "MCPToolCustomDataContext",
    "MCPToolCustomDataExtractor",
    "MCPToolMetaContext",
    "MCPToolMetaResolver",
    "MCPUtil",
    "ToolFilter",
    "ToolFilterCallable",
    "ToolFilterContext",
    "ToolFilterStatic",
    "create_static_tool_filter",
]


class HttpClientFactory(Protocol):
    """A function that returns an `httpx2.AsyncClient`."""

    def __call__(self, headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
        """Return a client."""


@dataclass(frozen=True)
class MCPToolCustomDataContext:
    """The call that a `custom_data_extractor` would look at; Assentry's items hold no data of one's own."""

    run_context: RunContextWrapper[Any]
    server_name: str
    tool_name: str
    tool_display_name: str
    arguments: Mapping[str, Any]
    result_meta: Mapping[str, Any] | None
    structured_content: Mapping[str, Any] | None
    is_error: bool | None
    tool_output: Any


MCPToolCustomDataExtractor = Callable[
    [MCPToolCustomDataContext], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None
]
"""A function of a call that returns data for its item."""


class MCPUtil(OwnUtil):
    """Functions for the tools of MCP servers."""

    @classmethod
    async def get_all_function_tools(  # type: ignore[override] # the options of the SDK, by their places
        cls,
        servers: list[Any],
        convert_schemas_to_strict: bool = False,
        run_context: RunContextWrapper[Any] | None = None,
        agent: Any = None,
        failure_error_function: FailureText | None = default_tool_error_function,
        include_server_in_tool_names: bool = False,
        reserved_tool_names: set[str] | None = None,
    ) -> list[Tool]:
        """Return the tools of several connected servers."""
        return await super().get_all_function_tools(
            servers,
            convert_schemas_to_strict,
            run_context,
            agent,
            failure_error_function=failure_error_function,
            include_server_in_tool_names=include_server_in_tool_names,
        )


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
