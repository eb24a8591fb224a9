"""Many MCP servers at once: connected, connected again if one failed, and closed together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Self

from ..core import allowed
from ..core.wording import described, worded
from ..definitions.server import ToolServer
from ..errors import InvalidDefinition, MCPServerFailed

log = logging.getLogger("assentry.mcp")

MANAGER_OPTIONS = allowed.Options(
    connect_timeout_seconds=allowed.POSITIVE_SECONDS.or_none,
    cleanup_timeout_seconds=allowed.POSITIVE_SECONDS.or_none,
    drop_failed_servers=allowed.BOOL,
    strict=allowed.BOOL,
    suppress_cancelled_error=allowed.BOOL,
    connect_in_parallel=allowed.BOOL,
)


class MCPServerManager:
    """Keeps MCP servers connected: `async with MCPServerManager([...]) as manager:`, then `manager.active_servers`.

    A server that fails is left out, unless `strict`. Each server is connected and closed in a task of its own.

    Args:
        servers: The servers.
        connect_timeout_seconds: The most seconds for each to connect; None for no limit.
        cleanup_timeout_seconds: The most seconds for each to close; None for no limit.
        drop_failed_servers: False to have servers that failed in `active_servers` too.
        strict: True to raise the first failure, after the servers that were connected with it are closed again.
        suppress_cancelled_error: False to raise a cancellation that a server raises by itself.
        connect_in_parallel: True to connect all at once, not one after another.
    """

    def __init__(
        self,
        servers: Iterable[Any],
        *,
        connect_timeout_seconds: float | None = 10.0,
        cleanup_timeout_seconds: float | None = 10.0,
        drop_failed_servers: bool = True,
        strict: bool = False,
        suppress_cancelled_error: bool = True,
        connect_in_parallel: bool = False,
    ) -> None:
        self.connect_timeout_seconds = connect_timeout_seconds
        self.cleanup_timeout_seconds = cleanup_timeout_seconds
        self.drop_failed_servers = drop_failed_servers
        self.strict = strict
        self.suppress_cancelled_error = suppress_cancelled_error
        self.connect_in_parallel = connect_in_parallel
        MANAGER_OPTIONS.check("MCPServerManager", self)
        self._servers: list[Any] = list({id(server): server for server in servers}.values())
        for server in self._servers:
            if not isinstance(server, ToolServer) or not hasattr(server, "connect"):
                raise InvalidDefinition(f"MCPServerManager: servers must be MCP servers, got {described(server)}.")
        self._active = list(self._servers)
        self._errors: dict[Any, BaseException] = {}
        self._held: dict[Any, ServerHold] = {}
        self._lock = asyncio.Lock()

    @property
    def all_servers(self) -> list[Any]:
        """All servers."""
        return list(self._servers)

    @property
    def active_servers(self) -> list[Any]:
        """The servers that are connected; with `drop_failed_servers=False`, those that failed too."""
        return list(self._active)

    @property
    def failed_servers(self) -> list[Any]:
        """The servers that failed, in the order in which they were given."""
        return [server for server in self._servers if server in self._errors]

    @property
    def errors(self) -> dict[Any, BaseException]:
        """The error of each server that failed."""
        return dict(self._errors)

    async def __aenter__(self) -> Self:
        """Connect the servers."""
        await self.connect_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the servers."""
        await self.cleanup_all()

    async def connect_all(self) -> list[Any]:
        """Connect the servers that are not connected, and return the active ones."""
        async with self._lock:
            self._errors.clear()
            return await self._connect([server for server in self._servers if server not in self._held])

    async def reconnect(self, *, failed_only: bool = True) -> list[Any]:
        """Connect again the servers that failed, or all of them, and return the active ones."""
        async with self._lock:
            again = self.failed_servers if failed_only else self._servers
            await self._close([server for server in again if server in self._held])
            for server in again:
                self._errors.pop(server, None)
            return await self._connect(again)

    async def cleanup_all(self) -> None:
        """Close all servers."""
        async with self._lock:
            await self._close(list(self._held))
            self._active = list(self._servers)

    async def _connect(self, servers: list[Any]) -> list[Any]:
        try:
            if self.connect_in_parallel:
                async with asyncio.TaskGroup() as group:
                    for server in servers:
                        group.create_task(self._connect_one(server))
            else:
                for server in servers:
                    await self._connect_one(server)
        except BaseException as error:
            await self._close([server for server in servers if server in self._held])
            self._refresh()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise
        self._refresh()
        return self.active_servers

    def _refresh(self) -> None:
        drop = self.drop_failed_servers
        self._active = [server for server in self._servers if server in self._held or not drop]

    async def _connect_one(self, server: Any) -> None:
        held = self._held[server] = ServerHold(server, self.connect_timeout_seconds, self.cleanup_timeout_seconds)
        error = await held.connected()
        if error is None:
            return
        del self._held[server]
        self._errors[server] = error
        log.warning("The MCP server %r could not be connected: %s", server.name, worded(error))
        if self.strict or (isinstance(error, asyncio.CancelledError) and not self.suppress_cancelled_error):
            raise error

    async def _close(self, servers: list[Any]) -> None:
        """Close servers, whatever fails meanwhile; the last to be connected is the first to be closed."""
        for server in reversed(servers):
            held = self._held.pop(server, None)
            error = await held.close() if held is not None else None
            if error is not None:
                self._errors[server] = error
                log.warning("The MCP server %r was not closed in order: %s", server.name, worded(error))


class ServerHold:
    """A task that connects a server, holds it, and closes it: some servers must be closed where they were opened."""

    def __init__(self, server: Any, connect_timeout: float | None, close_timeout: float | None) -> None:
        self._server, self._connect_timeout, self._close_timeout = server, connect_timeout, close_timeout
        self._ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._error: BaseException | None = None
        self._task = asyncio.create_task(self._hold(), name=f"mcp manager {server.name}")

    async def connected(self) -> BaseException | None:
        """Wait until the server is connected, and return None; return the error if that fails."""
        try:
            await self._ready.wait()
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise
        return self._error

    async def close(self) -> BaseException | None:
        """Close the server, and return the error if that fails."""
        self._stop.set()
        await asyncio.wait({self._task})
        return self._error

    async def _hold(self) -> None:
        limit = asyncio.timeout(self._connect_timeout)
        try:
            async with limit:
                await self._server.connect()
        except BaseException as error:
            self._error = self._too_late("connected", self._connect_timeout) if limit.expired() else error
            with suppress(Exception):
                await self._clean_up()  # it may be half open
            return
        finally:
            self._ready.set()
        await self._stop.wait()
        try:
            await self._clean_up()
        except BaseException as error:
            self._error = error

    async def _clean_up(self) -> None:
        limit = asyncio.timeout(self._close_timeout)
        try:
            async with limit:
                await self._server.cleanup()
        except TimeoutError as error:
            raise (self._too_late("closed", self._close_timeout) if limit.expired() else error) from error

    def _too_late(self, what: str, seconds: float | None) -> MCPServerFailed:
        return MCPServerFailed(f"The MCP server {self._server.name!r} was not {what} within {seconds:g} seconds.")
