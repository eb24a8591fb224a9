"""The side of an MCP server that its tools and their calls use."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ..definitions.server import ToolServer

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from .link import ServerConnection


class ConnectedServer(ToolServer):
    """A server that can be called."""

    call_timeout: float | None
    """The seconds that the server may take to connect and to answer; None for no limit."""
    max_held_calls: int
    use_structured_content: bool
    tool_name_prefix: str

    @property
    @abstractmethod
    def stays_open(self) -> bool:
        """True if the connection outlasts a run's pause, because the user connected it."""

    @abstractmethod
    def output_of(self, result: CallToolResult) -> Any:
        """Return the output of a call."""

    @abstractmethod
    def turn(self) -> AbstractAsyncContextManager[Any]:
        """Return the context of one call: a lock if calls are sent one at a time."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True if calls are sent one at a time and one is under way."""

    @property
    @abstractmethod
    def stale(self) -> bool:
        """True if the tools may have changed since they were listed: connected anew, or told so by the server."""

    @property
    @abstractmethod
    def changes(self) -> int:
        """The number of times that the tools may have changed: connected anew, or told so by the server."""

    @abstractmethod
    async def link(self) -> ServerConnection:
        """Return the connection of this event loop; connect again if it was lost."""

    @abstractmethod
    async def drop(self, link: ServerConnection) -> None:
        """Close a connection that is of no more use; the next use connects again."""
