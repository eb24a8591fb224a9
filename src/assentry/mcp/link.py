"""A connection to an MCP server, owned by a task of its own.

The SDK opens and closes a connection in one task. Tools are called from many, and a run may end in another task than it
began in. So the owner opens the connection, waits, and closes it; all others only send.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp import Client, types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost

from ..core.wording import worded
from ..errors import MCPServerFailed
from ..version import __version__
from .call import Progress, ServerCall, refusal_error
from .http_transport import REQUEST_PROGRESS
from .stdio_transport import Stderr

log = logging.getLogger("assentry.mcp")

LONGEST_PAUSE = 60.0
"""The most seconds before a server whose subscription has ended is listened to again."""
Transport = Callable[[Stderr], AbstractAsyncContextManager[Any]]
MessageHandler = Callable[[Any], Awaitable[None]]


class WatchedStream:
    """The stream of messages from a server, with a callback for its end."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream, self._on_end = stream, ended

    def __getattr__(self, name: str) -> Any:
        """Return all else from the stream itself."""
        return getattr(self._stream, name)

    async def __aenter__(self) -> WatchedStream:
        """Enter the stream."""
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        """Leave the stream."""
        return await self._stream.__aexit__(*error)

    def __aiter__(self) -> WatchedStream:
        """Iterate over the messages."""
        return self

    async def __anext__(self) -> Any:
        """Return the next message."""
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._on_end()
            raise


class ServerConnection:
    """An open connection, and the calls under way in it."""

    def __init__(
        self,
        server: str,
        transport: Transport,
        *,
        timeout: float | None,
        changed: Callable[[], None],
        handler: MessageHandler | None = None,
        listens: bool = False,
    ) -> None:
        self._server, self._transport, self._timeout = server, transport, timeout
        self._changed, self._handler, self._listens = changed, handler, listens
        self.stderr = Stderr()
        self.alive = False
        self.session: ClientSession
        self.calls: dict[str, ServerCall] = {}
        """The calls under way, by idempotency key, those that wait for a person among them."""
        self._stop = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    # Opening and closing

    async def open(self) -> None:
        """Connect, or raise `MCPServerFailed`."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready), name=f"mcp connection {self._server}")
        try:
            await asyncio.wait({self._owner, ready}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._owner.cancel()
            await asyncio.wait({self._owner})
            raise
        if not self.alive:
            await self.close()
            raise MCPServerFailed(
                f"The MCP server {self._server!r} could not be connected: {self.why()}{self.stderr.as_suffix()}"
            ) from self._failure

    async def close(self) -> None:
        """End the calls under way and close the connection."""
        self.alive = False
        await asyncio.gather(*(call.cancel() for call in self.calls.values()))
        self.calls.clear()
        self._stop.set()
        if self._owner is not None:
            await asyncio.wait({self._owner})

    async def _own(self, ready: asyncio.Future[None]) -> None:
        listening: asyncio.Task[None] | None = None
        try:
            client = Client(
                self._watch(),
                elicitation_callback=self._elicit,
                message_handler=self._on_message,
                client_info=types.Implementation(name="assentry", version=__version__),
                cache=None,
            )
            async with self._enter(client):
                self.session, self.alive = client.session, True
                ready.set_result(None)
                if self._listens and client.protocol_version >= "2026":
                    listening = asyncio.create_task(self._listen(client))
                try:
                    await self._stop.wait()
                finally:
                    self.alive = False
                    if listening is not None:
                        listening.cancel()
                        await asyncio.wait({listening})
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failure = error
        finally:
            self.alive = False

    @asynccontextmanager
    async def _enter(self, client: Client) -> Any:
        """Enter the client within the timeout. The timeout ends before the body begins."""
        async with asyncio.timeout(self._timeout):
            await client.__aenter__()
        try:
            yield
        except BaseException as error:
            await client.__aexit__(type(error), error, error.__traceback__)
            raise
        else:
            await client.__aexit__(None, None, None)

    @asynccontextmanager
    async def _watch(self) -> Any:
        async with self._transport(self.stderr) as (read, write):
            yield WatchedStream(read, self._on_end), write

    def _on_end(self) -> None:
        self.alive = False
        self._stop.set()

    def why(self) -> str:
        """Return the reason for the connection's end."""
        error = self._failure
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is None:
            return "the server closed the connection"
        if isinstance(error, TimeoutError):
            return f"it did not answer within {self._timeout:g} seconds"
        return worded(error)

    # What the server sends

    async def _listen(self, client: Client) -> None:
        """Note changes of the tool list, for servers of protocols in which the client must ask to be told.

        While nobody listens changes are missed, so each beginning and each end counts as a change.
        """
        pause = 1.0
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    self._changed()
                    async for _ in events:
                        self._changed()
            except SubscriptionLost:
                pass
            except Exception:  # a server need not offer it
                return
            self._changed()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed()
        if self._handler is not None:
            await self._handler(message)

    async def _elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """Put a server's question to the call that it belongs to; refuse it if that is not certain."""
        call = REQUEST_PROGRESS.get()
        if not isinstance(call, ServerCall) or self.calls.get(call.key) is not call:
            working = [each for each in self.calls.values() if each.question is None and not each.task.done()]
            if len(working) != 1:
                return refusal_error(
                    f"{len(working)} calls are under way, and the question does not say which of them it belongs to"
                )
            [call] = working
        return await call.elicited(params)

    # Calls

    @property
    def modern(self) -> bool:
        """True if the server asks by results that the call is continued with, and not inside an open call."""
        return (self.session.protocol_version or "") >= "2026"

    def begin(
        self,
        key: str,
        name: str,
        args: dict[str, Any],
        *,
        holdable: bool,
        responses: Any = None,
        state: str | None = None,
        progress: Progress | None = None,
        meta: Any = None,
    ) -> ServerCall:
        """Send a call of a tool."""
        call = ServerCall(self._server, key, holdable)
        self.calls[key] = call
        params = types.CallToolRequestParams(
            name=name, arguments=args, input_responses=responses, request_state=state, _meta=meta
        )
        call.start(self.session, params, progress)
        call.task.add_done_callback(lambda _: self._forget(call))
        return call

    def forget(self, call: ServerCall) -> None:
        """Drop a held call."""
        call.held = False
        self._forget(call)

    def _forget(self, call: ServerCall) -> None:
        """Drop a call that has ended. A held one is kept, for the body that will ask for its result."""
        if self.calls.get(call.key) is call and not call.held:
            del self.calls[call.key]

    async def drop_oldest(self, most: int) -> None:
        """Cancel the calls that have waited longest for a person, so that at most this many wait."""
        waiting = [call for call in self.calls.values() if call.held]
        for call in waiting[: max(0, len(waiting) - most)]:
            log.warning(
                "The MCP server %r has too many calls that wait for an answer; the oldest is cancelled", self._server
            )
            self.forget(call)
            await call.cancel()
