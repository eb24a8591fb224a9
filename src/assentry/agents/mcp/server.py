"""The names of `agents.mcp.server`: Assentry's own servers with the SDK's options, and servers of one's own."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from ...definitions.guardrail import ToolInputGuardrail, ToolOutputGuardrail
from ...definitions.tool import FailureText
from ...errors import UsageError
from ...mcp import server as native
from ...mcp.approval_rule import RequireApproval
from ...mcp.own_server import UNSET, OwnMCPServer
from ..absent import find_absent
from ..run_context import RunContextWrapper
from ..tool import default_tool_error_function
from .util import HttpClientFactory, MCPToolCustomDataExtractor, MCPToolMetaResolver, ToolFilter

if TYPE_CHECKING:
    from mcp.types import (
        CallToolResult,
        GetPromptResult,
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ReadResourceResult,
    )
    from mcp.types import Tool as Listed

__all__ = [
    "LocalMCPApprovalCallable",
    "MCPServer",
    "MCPServerSse",
    "MCPServerSseParams",
    "MCPServerStdio",
    "MCPServerStdioParams",
    "MCPServerStreamableHttp",
    "MCPServerStreamableHttpParams",
    "RequireApprovalObject",
    "RequireApprovalToolList",
]

SECONDS = 60.0
"""The seconds that a server may take to answer."""
LocalMCPApprovalCallable = Callable[[RunContextWrapper[Any], Any, Any], bool | Awaitable[bool]]
"""A function of run context, agent and listed tool that returns True if a call waits for a person."""


class RequireApprovalToolList(TypedDict, total=False):
    """The names of tools."""

    tool_names: list[str]


class RequireApprovalObject(TypedDict, total=False):
    """The tools whose calls always wait for a person, and those whose never do."""

    always: RequireApprovalToolList
    never: RequireApprovalToolList


def parts_of(result: CallToolResult, use_structured_content: bool) -> Any:
    """Return the output of a call in the SDK's form: its parts as dicts, and an error as any other text."""
    if use_structured_content and result.structured_content and not result.is_error:
        return json.dumps(result.structured_content)
    parts = [_part(block) for block in result.content]
    return parts[0] if len(parts) == 1 else parts


def _part(block: Any) -> dict[str, str]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image":
        return {"type": "image", "image_url": f"data:{block.mime_type};base64,{block.data}"}
    return {"type": "text", "text": block.model_dump_json()}


class MCPServer(OwnMCPServer):
    """The base class of MCP servers. A subclass of your own is asked for its tools, and called, as you define it."""

    default_failure = staticmethod(default_tool_error_function)

    def __init__(
        self,
        use_structured_content: bool = False,
        require_approval: RequireApproval = None,
        failure_error_function: FailureText | None = UNSET,
        tool_meta_resolver: MCPToolMetaResolver | None = None,
        custom_data_extractor: MCPToolCustomDataExtractor | None = None,
        *,
        tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None,
        tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None,
    ) -> None:
        """Set the options that all servers have."""
        refuse_custom_data(custom_data_extractor)
        super().__init__(
            use_structured_content=use_structured_content,
            require_approval=require_approval,
            failure_error_function=failure_error_function,
            tool_meta_resolver=tool_meta_resolver,
            tool_input_guardrails=tool_input_guardrails,
            tool_output_guardrails=tool_output_guardrails,
        )

    if TYPE_CHECKING:

        @property
        @abstractmethod
        def name(self) -> str:  # type: ignore[override]
            """The server's name."""

    def output_of(self, result: CallToolResult) -> Any:
        """Return the output of a call."""
        return parts_of(result, self.use_structured_content)

    @property
    def cached_tools(self) -> list[Listed] | None:
        """The tools as they were last listed; None if they were not."""
        return [tool.listed for tool in self.tools] if self.listed else None

    @abstractmethod
    async def list_prompts(self) -> ListPromptsResult:
        """Return the server's prompts."""

    @abstractmethod
    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        """Return a prompt of the server."""

    async def list_resources(self, cursor: str | None = None) -> ListResourcesResult:
        """Return the server's resources, a page at a time."""
        raise NotImplementedError(f"The MCP server {self.name!r} does not define list_resources.")

    async def list_resource_templates(self, cursor: str | None = None) -> ListResourceTemplatesResult:
        """Return the server's templates of resources, a page at a time."""
        raise NotImplementedError(f"The MCP server {self.name!r} does not define list_resource_templates.")

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Return the contents of a resource."""
        raise NotImplementedError(f"The MCP server {self.name!r} does not define read_resource.")


def refuse_custom_data(given: Any) -> None:
    """Raise `UsageError` for an extractor of custom data."""
    if given is not None:
        raise UsageError(
            "MCP servers have no custom_data_extractor: items hold no data of yours; keep it in your context object."
        )


SDK_OPTIONS = (
    "client_session_timeout_seconds",
    "tool_filter",
    "use_structured_content",
    "max_retry_attempts",
    "retry_backoff_seconds_base",
    "message_handler",
    "require_approval",
    "failure_error_function",
    "tool_meta_resolver",
    "custom_data_extractor",
    "retry_backoff_seconds_max",
    "tool_input_guardrails",
    "tool_output_guardrails",
    "max_list_pages",
)


def given_options(given: dict[str, Any]) -> Any:
    """Return the options as Assentry's own servers take them."""
    refuse_custom_data(given.pop("custom_data_extractor"))
    for name in ("tool_input_guardrails", "tool_output_guardrails", "retry_backoff_seconds_max"):
        if given[name] is None:
            del given[name]
    if given["failure_error_function"] is UNSET:
        del given["failure_error_function"]
    if given["client_session_timeout_seconds"] == 0:
        given["client_session_timeout_seconds"] = None
    return given


class MCPServerStdioParams(TypedDict):
    """The program that is started."""

    command: str
    args: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]
    cwd: NotRequired[str | Path]
    encoding: NotRequired[str]
    encoding_error_handler: NotRequired[Literal["strict", "ignore", "replace"]]


class MCPServerSseParams(TypedDict):
    """The address of a server, and how it is asked."""

    url: str
    headers: NotRequired[dict[str, str]]
    timeout: NotRequired[float]
    sse_read_timeout: NotRequired[float]
    auth: NotRequired[Any]
    httpx_client_factory: NotRequired[HttpClientFactory]


class MCPServerStreamableHttpParams(TypedDict):
    """The address of a server, and how it is asked."""

    url: str
    headers: NotRequired[dict[str, str]]
    timeout: NotRequired[timedelta | float]
    sse_read_timeout: NotRequired[timedelta | float]
    terminate_on_close: NotRequired[bool]
    httpx_client_factory: NotRequired[HttpClientFactory]
    auth: NotRequired[Any]
    ignore_initialized_notification_failure: NotRequired[bool]


def without_defaults(params: Any) -> Any:
    """Return the parameters without those that change nothing; raise `UsageError` for what Assentry does not have."""
    if not isinstance(params, dict):
        return params
    left = dict(params)
    for name, (same, why) in NOT_HERE.items():
        if left.pop(name, same) != same:
            raise UsageError(f"MCP servers have no {name} but {same!r}: {why}.")
    return left


NOT_HERE: dict[str, tuple[Any, str]] = {
    "encoding": ("utf-8", "the protocol is UTF-8"),
    "encoding_error_handler": ("strict", "what is not UTF-8 is no message of the protocol"),
    "ignore_initialized_notification_failure": (False, "a server that fails while it is connected is not used"),
}
"""Parameters that Assentry does not have: the value that changes nothing, and why."""


class MCPServerStdio(native.MCPServerStdio, MCPServer):
    """A server that is a program: it is started, and spoken to on its standard streams."""

    default_failure = staticmethod(default_tool_error_function)
    output_of = MCPServer.output_of

    if TYPE_CHECKING:
        name: str

    def __init__(
        self,
        params: MCPServerStdioParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = SECONDS,
        tool_filter: ToolFilter = None,
        use_structured_content: bool = False,
        max_retry_attempts: int = 0,
        retry_backoff_seconds_base: float = 1.0,
        message_handler: Callable[[Any], Awaitable[None]] | None = None,
        require_approval: RequireApproval = None,
        failure_error_function: FailureText | None = UNSET,
        tool_meta_resolver: MCPToolMetaResolver | None = None,
        custom_data_extractor: MCPToolCustomDataExtractor | None = None,
        retry_backoff_seconds_max: float | None = None,
        *,
        tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None,
        tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None,
        max_list_pages: int | None = None,
        **options: Any,
    ) -> None:
        """Describe the server, with the options of the SDK; `options` are Assentry's own."""
        given = {each: value for each, value in locals().items() if each in SDK_OPTIONS}
        native.MCPServerStdio.__init__(
            self, without_defaults(params), cache_tools_list, name, **given_options(given), **options
        )


class MCPServerSse(native.MCPServerSse, MCPServer):
    """A server at a URL that speaks HTTP with server-sent events."""

    default_failure = staticmethod(default_tool_error_function)
    output_of = MCPServer.output_of

    if TYPE_CHECKING:
        name: str

    def __init__(
        self,
        params: MCPServerSseParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = SECONDS,
        tool_filter: ToolFilter = None,
        use_structured_content: bool = False,
        max_retry_attempts: int = 0,
        retry_backoff_seconds_base: float = 1.0,
        message_handler: Callable[[Any], Awaitable[None]] | None = None,
        require_approval: RequireApproval = None,
        failure_error_function: FailureText | None = UNSET,
        tool_meta_resolver: MCPToolMetaResolver | None = None,
        custom_data_extractor: MCPToolCustomDataExtractor | None = None,
        retry_backoff_seconds_max: float | None = None,
        *,
        tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None,
        tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None,
        max_list_pages: int | None = None,
        **options: Any,
    ) -> None:
        """Describe the server, with the options of the SDK; `options` are Assentry's own."""
        given = {each: value for each, value in locals().items() if each in SDK_OPTIONS}
        native.MCPServerSse.__init__(
            self, without_defaults(params), cache_tools_list, name, **given_options(given), **options
        )


class MCPServerStreamableHttp(native.MCPServerStreamableHttp, MCPServer):
    """A server at a URL that speaks streamable HTTP."""

    default_failure = staticmethod(default_tool_error_function)
    output_of = MCPServer.output_of

    if TYPE_CHECKING:
        name: str

    def __init__(
        self,
        params: MCPServerStreamableHttpParams,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = SECONDS,
        tool_filter: ToolFilter = None,
        use_structured_content: bool = False,
        max_retry_attempts: int = 0,
        retry_backoff_seconds_base: float = 1.0,
        message_handler: Callable[[Any], Awaitable[None]] | None = None,
        require_approval: RequireApproval = None,
        failure_error_function: FailureText | None = UNSET,
        tool_meta_resolver: MCPToolMetaResolver | None = None,
        custom_data_extractor: MCPToolCustomDataExtractor | None = None,
        retry_backoff_seconds_max: float | None = None,
        *,
        tool_input_guardrails: list[ToolInputGuardrail[Any]] | None = None,
        tool_output_guardrails: list[ToolOutputGuardrail[Any]] | None = None,
        max_list_pages: int | None = None,
        **options: Any,
    ) -> None:
        """Describe the server, with the options of the SDK; `options` are Assentry's own."""
        given = {each: value for each, value in locals().items() if each in SDK_OPTIONS}
        native.MCPServerStreamableHttp.__init__(
            self, without_defaults(params), cache_tools_list, name, **given_options(given), **options
        )


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
