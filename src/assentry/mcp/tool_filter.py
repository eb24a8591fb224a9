"""Filters of an MCP server's tools: by name, or by a function for each agent and run."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from ..core import allowed
from ..core.wording import described, worded
from ..definitions.context import RunContextWrapper
from ..definitions.tool import Enabled
from .approval_rule import TOOL_NAMES

if TYPE_CHECKING:
    from mcp.types import Tool as Listed

log = logging.getLogger("assentry.mcp")


@dataclass(frozen=True)
class ToolFilterContext:
    """The situation in which a tool filter decides."""

    run_context: RunContextWrapper[Any]
    agent: Any
    server_name: str


class ToolFilterStatic(TypedDict, total=False):
    """A filter by name. A tool passes if it is allowed, or nothing is said to be allowed, and it is not blocked."""

    allowed_tool_names: list[str]
    blocked_tool_names: list[str]


ToolFilterCallable = Callable[[ToolFilterContext, Any], bool | Awaitable[bool]]
"""A function of the situation and the tool that returns True if the tool is offered."""
ToolFilter = ToolFilterStatic | ToolFilterCallable | None
"""The shapes of `tool_filter`."""


def create_static_tool_filter(
    allowed_tool_names: Sequence[str] | None = None, blocked_tool_names: Sequence[str] | None = None
) -> ToolFilterStatic | None:
    """Return a tool filter by name; None if nothing is given."""
    made: ToolFilterStatic = {}
    if allowed_tool_names is not None:
        made["allowed_tool_names"] = list(allowed_tool_names)
    if blocked_tool_names is not None:
        made["blocked_tool_names"] = list(blocked_tool_names)
    return made or None


FILTER_SHAPES = allowed.Values(
    "a function, create_static_tool_filter(...) or None", lambda given: isinstance(given, Mapping)
)
FILTER_OPTIONS = allowed.Options(allowed_tool_names=TOOL_NAMES, blocked_tool_names=TOOL_NAMES)


class ToolSelection:
    """A checked tool filter."""

    def __init__(self, server: str, given: Any) -> None:
        self._server = server
        self._function: ToolFilterCallable | None = None
        self._allowed: frozenset[str] | None = None
        self._blocked: frozenset[str] = frozenset()
        if given is None:
            return
        if callable(given):
            self._function = given
            return
        allowed.check_option(f"MCP server {server!r}", "tool_filter", given, FILTER_SHAPES)
        FILTER_OPTIONS.check_items(f"MCP server {server!r}: tool_filter", given)
        self._allowed = frozenset(given["allowed_tool_names"]) if "allowed_tool_names" in given else None
        self._blocked = frozenset(given.get("blocked_tool_names", ()))

    def passes(self, name: str) -> bool:
        """Return True if the filter by name lets a tool pass."""
        return (self._allowed is None or name in self._allowed) and name not in self._blocked

    def enabled(self, listed: Listed) -> Enabled:
        """Return the tool's `is_enabled`: True, or a function that asks the user's filter."""
        if self._function is None:
            return True

        async def passes_filter(ctx: RunContextWrapper[Any], agent: Any) -> bool:
            return await self.lets_pass(listed, ctx, agent)

        return passes_filter

    async def lets_pass(self, listed: Listed, ctx: RunContextWrapper[Any], agent: Any) -> bool:
        """Return True if the user's function lets the tool pass. One that fails or gives no bool hides the tool."""
        if self._function is None:
            return self.passes(listed.name)
        try:
            given: Any = self._function(ToolFilterContext(ctx, agent, self._server), listed)
            answer = await given if inspect.isawaitable(given) else given
        except Exception as error:
            log.warning("The tool filter of MCP server %r failed with %s", self._server, worded(error))
            return False
        if type(answer) is not bool:
            log.warning("The tool filter of MCP server %r gave %s, not a bool", self._server, described(answer))
        return answer is True
