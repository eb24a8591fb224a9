"""The gateway as a whole: its settings, and the life of its parts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from ...approval.rule_file import RuleFile
from ...core.digest import digest
from ...errors import UsageError
from ...store.store import Store
from ..approvals import Approvals
from .call_gate import CallGate, definition_of
from .mcp_server import GatewayServer
from .upstream import NotingHttp, NotingStdio, UpstreamServer

WAIT = 25.0
"""The seconds that a client's call waits for a person: clients give up after 30 to 60."""
LONGEST_WAIT = 24 * 3600.0
CALL_TIMEOUT = 600.0
"""The seconds that a call may take at the server."""


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """The settings of a gateway: where calls are asked about, and the server behind."""

    place: Store | str
    """A store, a store's address, or an inbox's address."""
    source: str
    """The client's name, as people and rules see it."""
    clients: Sequence[str] = ()
    """The names of clients that are told apart by their tokens; each is a source of its own, in place of `source`."""
    token: str | None = field(default=None, repr=False)
    """The token for an inbox, of the role "agent"."""
    rules: RuleFile | str | PathLike[str] | None = None
    """The rules for a store; an inbox has its own."""
    command: Sequence[str] = ()
    """The program that is the server, and its arguments."""
    url: str | None = None
    """The address of the server, in place of a program."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The program's environment, besides a few variables such as PATH."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The headers of requests to the server's address. No client sees them."""
    name: str | None = None
    """The server's name, as rules name it; by default that of the program, or of the host."""
    wait: float = WAIT
    timeout: float = CALL_TIMEOUT
    inbox: str | None = None
    """The address at which people open the inbox, for links."""
    ask_user: bool = False
    """True to offer the tool `ask_user` beside the server's tools."""

    def __post_init__(self) -> None:
        if bool(self.command) == (self.url is not None):
            raise UsageError("A gateway has one server behind it: a program with its arguments, or the address of one.")
        if self.url is None and self.headers:
            raise UsageError("Headers are for a server at an address.")
        if self.url is not None and self.env:
            raise UsageError("An environment is for a server that is a program.")
        if not 0 <= self.wait <= LONGEST_WAIT:
            raise UsageError(f"wait is a number of seconds from 0 to {LONGEST_WAIT:,.0f}, got {self.wait}.")

    @property
    def sources(self) -> tuple[str, ...]:
        """The names under which calls are asked about."""
        return tuple(self.clients) or (self.source,)

    @property
    def secrets(self) -> set[str]:
        """The credentials for the server, a bearer token also without its scheme."""
        values = {*self.env.values(), *self.headers.values()}
        return {each for each in values | {value.removeprefix("Bearer ") for value in values} if each.strip()}

    @property
    def server_name(self) -> str:
        """The server's name."""
        if self.name is not None:
            return self.name
        if self.url is not None:
            return urlsplit(self.url).hostname or "server"
        return PurePath(self.command[0]).stem

    @property
    def identity(self) -> str:
        """A digest of what tells the server from others: its name if one was given, else where and how it runs.

        Two servers may have the same tools, and programs such as npx give them the same name.
        """
        if self.name is not None:
            return digest({"name": self.name})
        if self.url is not None:
            return digest({"url": self.url})
        return digest({"command": list(self.command), "folder": os.getcwd()})


@asynccontextmanager
async def open_gateway(settings: GatewaySettings) -> AsyncIterator[GatewayServer]:
    """Connect the server behind, and yield the server for clients."""
    async with AsyncExitStack() as stack:
        approvals = {}
        for name in settings.sources:
            place = Approvals(settings.place, source=name, token=settings.token, rules=settings.rules)
            approvals[name] = await stack.enter_async_context(place)
        upstream = UpstreamServer(_server(settings), settings.server_name, settings.timeout, settings.secrets)
        await stack.enter_async_context(upstream)
        gate = CallGate(approvals, upstream, identity=settings.identity, wait=settings.wait, inbox=settings.inbox)
        stack.push_async_callback(gate.close)
        yield GatewayServer(upstream, gate, source=settings.source, ask_user=settings.ask_user)


async def tool_definitions(settings: GatewaySettings) -> dict[str, str]:
    """Return the definition of each tool of the server by its name, as rules with `definitions` name them."""
    async with UpstreamServer(_server(settings), settings.server_name, settings.timeout, settings.secrets) as upstream:
        return {tool.remote: definition_of(tool, settings.identity) for tool in await upstream.tools()}


def _server(settings: GatewaySettings) -> Callable[[Any], NotingStdio | NotingHttp]:
    """Return a function that makes the server behind."""
    options: dict[str, Any] = {"name": settings.server_name, "cache_tools_list": True}

    def make(told: Any) -> NotingStdio | NotingHttp:
        if settings.url is not None:
            return NotingHttp({"url": settings.url, "headers": dict(settings.headers)}, message_handler=told, **options)
        command, *args = settings.command
        return NotingStdio(
            {"command": command, "args": args, "env": dict(settings.env)}, message_handler=told, **options
        )

    return make
