"""MCP servers that the user's own code speaks to. Their tools pass the same gate and the same door."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ..core import allowed
from ..core.wording import described
from ..definitions.context import RunContextWrapper, ToolContext
from ..definitions.guardrail import ToolInputGuardrail, ToolOutputGuardrail
from ..definitions.server import ToolServer
from ..definitions.tool import FailureText, default_tool_error_function
from ..errors import AssentryError, MCPServerFailed
from .approval_rule import RequireApproval, policy_from
from .result import output_of
from .server import SERVER_OPTIONS
from .tool import MCPTool, MCPToolMetaResolver, resolve_meta, tool_from_listing

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

UNSET: Any = object()
"""The value of `failure_error_function` that leaves it to the agent."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class OwnServerTool(MCPTool):
    """A tool of a server that the user's own code speaks to."""

    async def enter(self, ctx: ToolContext[Any], bound: dict[str, Any]) -> Any:
        """Call the tool at the server."""
        meta = await resolve_meta(self.origin, ctx, self.remote, bound)
        more = {} if meta is None else {"meta": meta}  # servers that were written before it know no meta
        result = await self.origin.call_tool(self.remote, bound, **more)
        return self.origin.output_of(result)


class OwnMCPServer(ToolServer):
    """An MCP server that your own code speaks to: define `name`, `connect`, `cleanup`, `list_tools` and `call_tool`.

    Connect it yourself before the run. Its tools are listed before each turn and checked again at the door; a call is
    sent once.
    """

    tool_name_prefix = ""
    default_failure: FailureText = staticmethod(default_tool_error_function)
    """The function that words a failure if neither the server nor the agent has one."""

    def __init__(
        self,
        *,
        use_structured_content: bool = False,
        require_approval: RequireApproval = None,
        failure_error_function: FailureText | None = UNSET,
        tool_meta_resolver: MCPToolMetaResolver | None = None,
        tool_input_guardrails: Sequence[ToolInputGuardrail] | None = None,
        tool_output_guardrails: Sequence[ToolOutputGuardrail] | None = None,
    ) -> None:
        """Set the options, which are those of other servers; see `MCPServerOptions`."""
        unset = failure_error_function is UNSET
        options: dict[str, Any] = {
            "failure_error_function": self.default_failure if unset else failure_error_function,
            "tool_input_guardrails": tuple(tool_input_guardrails or ()),
            "tool_output_guardrails": tuple(tool_output_guardrails or ()),
        }
        whose = type(self).__name__
        SERVER_OPTIONS.check_items(whose, {**options, "use_structured_content": use_structured_content})
        allowed.check_option(whose, "tool_meta_resolver", tool_meta_resolver, allowed.CALLABLE.or_none)
        self.use_structured_content = use_structured_content
        self.tool_meta_resolver = tool_meta_resolver
        self._tool_options = options
        self._policy = policy_from(whose, require_approval)
        self.words_failures = not unset

    @abstractmethod
    async def connect(self) -> None:
        """Connect to the server."""

    @abstractmethod
    async def cleanup(self) -> None:
        """Close the connection."""

    @abstractmethod
    async def list_tools(self, run_context: RunContextWrapper[Any] | None = None, agent: Any = None) -> list[Listed]:
        """Return the server's tools."""

    @abstractmethod
    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> CallToolResult:
        """Call a tool at the server, and return its result."""

    async def __aenter__(self) -> Self:
        """Connect the server."""
        await self.connect()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the connection."""
        await self.cleanup()

    def kept_open(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that does nothing: whoever made the server connects it."""
        return nullcontext()

    async def refresh(self, *, fresh: bool = False) -> None:
        """List the tools."""
        listing = await self.list_tools()
        names = [each.name for each in listing]
        if len(set(names)) < len(names):
            raise MCPServerFailed(f"The MCP server {self.name!r} lists two tools of the same name: {described(names)}.")
        self.adopt([self._make_tool(each, frozenset(names)) for each in listing])

    def output_of(self, result: CallToolResult) -> Any:
        """Return the output of a call."""
        return output_of(result, self.use_structured_content)

    def _make_tool(self, listed: Listed, names: frozenset[str]) -> MCPTool:
        options = {**self._tool_options, "needs_approval": self._policy(listed, names)}
        try:
            return tool_from_listing(self, listed, options, OwnServerTool)
        except AssentryError as error:
            raise MCPServerFailed(
                f"The MCP server {self.name!r} lists a tool {described(listed.name)} that cannot be used: {error}"
            ) from error
