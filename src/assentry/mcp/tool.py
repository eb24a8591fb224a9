"""A tool of an MCP server, as the gate judges it and the door enters it."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.digest import digest
from ..definitions.context import ToolContext
from ..definitions.tool import Tool
from ..errors import InvalidArguments, NotAsShown
from ..schema.foreign import ForeignSchema
from .connected import ConnectedServer
from .result import output_of

if TYPE_CHECKING:
    from mcp.types import Tool as Listed

LONGEST_TOOL_NAME = 64
"""The longest name of a function that providers accept."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MCPTool(Tool):
    """A tool of an MCP server. A server makes these from its listing; `listed` is the tool as the server gave it."""

    origin: ConnectedServer
    listed: Any
    strict_json_schema: bool = False

    @property
    def source(self) -> ConnectedServer:
        """The server that defines the tool and may change it."""
        return self.origin

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

    async def invoke(self, ctx: ToolContext[Any], bound: dict[str, Any]) -> Any:
        """Call the tool at the server."""
        from .conversation import converse  # imports the SDK

        result = await converse(self.origin, ctx, self.remote, bound, self.idempotent, self._check_listed)
        return output_of(result, self.origin.use_structured_content)

    async def _check_listed(self) -> None:
        """Raise `NotAsShown` if the server has changed this tool, or no longer has it."""
        await self.origin.refresh(fresh=True)
        listed = {each.name: each.fingerprint for each in self.origin.tools}
        if listed.get(self.name) != self.fingerprint:
            raise NotAsShown(f"The server {self.server!r} has changed its tool {self.name!r}, or no longer has it.")

    @functools.cached_property
    def _foreign(self) -> ForeignSchema:
        return ForeignSchema(self.params_json_schema)


def tool_from_listing(server: ConnectedServer, listed: Listed, options: dict[str, Any]) -> MCPTool:
    """Return the tool for an entry of a server's listing."""
    schema = {"type": "object", "properties": {}, **listed.input_schema}
    required = schema.get("required")
    more = listed.model_dump(mode="json", by_alias=True, include={"title", "annotations", "output_schema"})
    return MCPTool(
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
