"""A tool of an MCP server, as the gate judges it and the door enters it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from ..core.digest import digest
from ..core.wording import described
from ..definitions.context import RunContextWrapper, ToolContext
from ..definitions.server import ToolServer
from ..definitions.tool import Tool
from ..errors import InvalidArguments, NotAsShown, UsageError
from ..schema.foreign import ForeignSchema

if TYPE_CHECKING:
    from mcp.types import Tool as Listed

LONGEST_TOOL_NAME = 64
"""The longest name of a function that providers accept."""


@dataclass(frozen=True)
class MCPToolMetaContext:
    """The call that a `tool_meta_resolver` adds `_meta` to."""

    run_context: RunContextWrapper[Any]
    server_name: str
    tool_name: str
    arguments: dict[str, Any] | None


MCPToolMetaResolver = Callable[[MCPToolMetaContext], Awaitable[dict[str, Any] | None] | dict[str, Any] | None]
"""A function of a call that returns what is sent with it as `_meta`."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MCPTool(Tool):
    """A tool of an MCP server. A server makes these from its listing; `listed` is the tool as the server gave it."""

    origin: Any
    """The server: a `ConnectedServer`, or one of the user's own."""
    listed: Any
    strict_json_schema: bool = False
    base: MCPTool | None = None
    """The tool as its server has it, if an agent's settings have changed its name."""

    @property
    def source(self) -> ToolServer:
        """The server that defines the tool and may change it."""
        server: ToolServer = self.origin
        return server

    @property
    def as_listed(self) -> Tool:
        """The tool as its server has it."""
        return self.base or self

    @property
    def foreign(self) -> bool:
        """True: the server wrote the schema."""
        return True

    @property
    def remote(self) -> str:
        """The tool's name at the server, without a prefix."""
        return str(self.listed.name)

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in.

        Defaults that do not fit the server's own schema are left to the server.
        """
        return self._foreign.filled(args)

    def bind(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments, or raise `InvalidArguments` if they do not fit the server's schema."""
        problem = self._foreign.problem(args)
        if problem:
            raise InvalidArguments(problem)
        return args

    async def enter(self, ctx: ToolContext[Any], bound: dict[str, Any]) -> Any:
        """Call the tool at the server."""
        from .conversation import LastLook, converse  # imports the SDK

        changes = self.origin.changes  # the door has looked just now
        meta = await resolve_meta(self.origin, ctx, self.remote, bound)
        look = LastLook(self._check_listed, changes)
        result = await converse(self.origin, ctx, self.remote, bound, self.idempotent, look, meta)
        return self.origin.output_of(result)

    async def _check_listed(self) -> None:
        """Raise `NotAsShown` if the server has changed this tool, or no longer has it."""
        await self.origin.refresh(fresh=True)
        own = self.base or self
        listed = {each.name: each.fingerprint for each in self.origin.tools}
        if listed.get(own.name) != own.fingerprint:
            raise NotAsShown(f"The server {self.server!r} has changed its tool {self.name!r}, or no longer has it.")

    @functools.cached_property
    def _foreign(self) -> ForeignSchema:
        return ForeignSchema(self.params_json_schema)

    def named_with_server(self) -> Tool:
        """Return the tool under a name that says which server it is of."""
        own = self.base or self
        return replace(self, base=own, version=own.fingerprint, name=name_with_server(self.server or "", self.remote))


def name_with_server(server: str, tool: str) -> str:
    """Return a name that says which server a tool is of, as the OpenAI Agents SDK makes it."""
    parts = [re.sub(r"[^A-Za-z0-9_-]", "_", part).strip("_-") for part in (server, tool)]
    made = f"mcp_{parts[0] or 'server'}__{parts[1] or 'tool'}"
    if len(made) <= LONGEST_TOOL_NAME:
        return made
    mark = sha1(f"{server}\0{tool}".encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{made[: LONGEST_TOOL_NAME - len(mark) - 1].rstrip('_-')}_{mark}"


async def resolve_meta(server: Any, ctx: ToolContext[Any], name: str, args: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the user's resolver adds to a call as `_meta`; None for nothing."""
    if server.tool_meta_resolver is None:
        return None
    meta = server.tool_meta_resolver(MCPToolMetaContext(ctx, server.name, name, dict(args)))
    meta = await meta if inspect.isawaitable(meta) else meta
    if meta is not None and not (isinstance(meta, Mapping) and all(isinstance(key, str) for key in meta)):
        raise UsageError(
            f"MCP server {server.name!r}: tool_meta_resolver must return a dict or None, got {described(meta)}."
        )
    return None if meta is None else dict(meta)


def tool_from_listing(server: Any, listed: Listed, options: dict[str, Any], kind: type[MCPTool] = MCPTool) -> MCPTool:
    """Return the tool for an entry of a server's listing."""
    schema = {"type": "object", "properties": {}, **listed.input_schema}
    required = schema.get("required")
    more = listed.model_dump(mode="json", by_alias=True, include={"title", "annotations", "output_schema"})
    return kind(
        name=offered_name(server.tool_name_prefix, listed.name),
        description=listed.description or listed.title or "",
        params_json_schema=schema,
        required=frozenset(each for each in required if type(each) is str)
        if isinstance(required, list)
        else frozenset(),
        server=server.name,
        version=digest(more)[:16],
        origin=server,
        listed=listed,
        **options,
    )


def offered_name(prefix: str, name: str) -> str:
    """Return the name that the model is offered: with the prefix, and only with characters that providers accept."""
    made = prefix + re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if len(made) <= LONGEST_TOOL_NAME:
        return made
    mark = digest({"name": name})[:8]
    return f"{made[: LONGEST_TOOL_NAME - len(mark) - 1]}_{mark}"
