"""The server behind the gateway: its connection, the definitions of its tools, and calls of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Protocol, Self, TypeVar

from mcp import MCPError, types

from ...core.mask import mask_secrets
from ...errors import MCPServerFailed, OutcomeUnknown
from ...mcp.call import CallRefusedByServer, Progress, RequestUnsent
from ...mcp.link import ServerConnection
from ...mcp.server import MCPServer, MCPServerStdio, MCPServerStreamableHttp
from ...mcp.tool import MCPTool
from .wording import ASK, STATE

ROUNDS = 10
"""The most rounds of questions of the server in one call."""
CHECKS = 3
"""The most times that a tool is looked at again before one call, since the server was connected anew."""
CANCELLED = types.ElicitResult(action="cancel")
"""The answer to a question that nobody can be asked."""
OWN_MARKS = (types.SERVER_INFO_META_KEY, ASK, STATE)
"""The keys of a result's `_meta` that clients get from the gateway itself, never from the server."""

R = TypeVar("R", bound=types.Result)
T = TypeVar("T")


def unstamped(result: R) -> R:
    """Return a result without the marks in its `_meta` that are the gateway's to make."""
    if result.meta is None or not any(key in result.meta for key in OWN_MARKS):
        return result
    meta = {key: value for key, value in result.meta.items() if key not in OWN_MARKS}
    return result.model_copy(update={"meta": meta or None})


class PageWanted(Exception):
    """The signal that ends a call with a page for the client's user; the client opens it and calls again."""

    def __init__(self, words: str, url: str) -> None:
        super().__init__(words)
        self.words, self.url = words, url


class Relay(Protocol):
    """The way back to the client of a call."""

    source: str
    """The client's name, as people and rules see it."""

    @property
    def asks(self) -> bool:
        """True if the client can ask its user what the server wants to know."""

    @property
    def listens(self) -> bool:
        """True if the client wants to know how far its call is."""

    async def is_there(self) -> bool:
        """Return False once the client has gone."""

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask the client's user, and return the answer."""

    @property
    def is_sent_to_pages(self) -> bool:
        """True if the client opens a page when its call ends with one, and then calls again."""

    async def show_page(self, words: str, url: str) -> None:
        """Have the client's user open a page, if the client can do that."""

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Tell the client how far the call is."""


class NotingStdio(MCPServerStdio):
    """A server program that says when its tools may have changed."""

    noted: Callable[[], None] | None = None

    def invalidate_tools_cache(self) -> None:
        """Forget the cached list of tools, and tell whoever wants to know."""
        super().invalidate_tools_cache()
        if self.noted is not None:
            self.noted()


class NotingHttp(MCPServerStreamableHttp):
    """A server at a URL that says when its tools may have changed."""

    noted: Callable[[], None] | None = None

    def invalidate_tools_cache(self) -> None:
        """Forget the cached list of tools, and tell whoever wants to know."""
        super().invalidate_tools_cache()
        if self.noted is not None:
            self.noted()


class UpstreamServer:
    """The server behind the gateway. One connection serves all clients; a lost one is opened again.

    Args:
        server: A function that makes the server, given a function for what the server tells.
        name: The server's name, as rules name it and as people see it.
        timeout: The seconds that a call may take; after them nobody knows how it ended.
        secrets: The credentials, which no error may quote: clients read it.
    """

    def __init__(
        self,
        server: Callable[[Callable[[Any], Awaitable[None]]], NotingStdio | NotingHttp],
        name: str,
        timeout: float,
        secrets: Collection[str] = (),
    ) -> None:
        self._server = server(self._told)
        self._server.noted = self._tools_changed
        self.name = name
        self._timeout, self._secrets = timeout, secrets
        self._numbers = itertools.count()
        self._stack = AsyncExitStack()
        self._changes = 0
        """The number of times that the server said that its tools have changed."""
        self._looked: dict[str, tuple[ServerConnection, int, str]] = {}
        """By tool, the last look at it: the connection, the number of changes before, and the fingerprint."""
        self.on_message: Callable[[Any], Awaitable[None]] | None = None
        """A function that gets what the server tells all of its clients."""
        self.on_tools_changed: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        with self._masked():
            await self._stack.enter_async_context(self._server)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def link(self) -> ServerConnection:
        """Return the connection; open it again if it was lost."""
        with self._masked():
            return await self._server.link()

    @contextmanager
    def _masked(self) -> Iterator[None]:
        """Mask the credentials in an error, which quotes what the server wrote, on its standard error too."""
        try:
            yield
        except (MCPServerFailed, OutcomeUnknown) as error:
            raise type(error)(mask_secrets(str(error), self._secrets)) from None
        except MCPError as error:
            words = mask_secrets(error.message, self._secrets)
            raise MCPError(error.code, words, self._unless_secret(error.data)) from None

    async def tool(self, name: str, *, fresh: bool) -> MCPTool | None:
        """Return a tool as the server has it; None if there is none of this name.

        A list that was read before is used only if the server says when it changes, and never if `fresh`.
        """
        server: MCPServer = self._server
        link, changes = await self.link(), self._changes
        told = link.session.server_capabilities
        says = told is not None and told.tools is not None and bool(told.tools.list_changed)
        lists = fresh or not says or server.stale  # else the list may be from before a change that was seen elsewhere
        with self._masked():
            await server.refresh(fresh=lists)
        found = next((tool for tool in server.tools if tool.remote == name), None)
        if lists and found is not None:
            self._looked[name] = link, changes, found.fingerprint
        return found

    async def tools(self) -> list[MCPTool]:
        """Return all tools as the server has them now."""
        with self._masked():
            await self._server.refresh(fresh=True)
        return list(self._server.tools)

    async def request(self, request: Any, result: Any) -> Any:
        """Pass a request on, and return the server's answer."""
        with self._masked():
            try:
                return unstamped(await (await self.link()).session.send_request(request, result))
            except MCPServerFailed as error:
                raise MCPError(types.INTERNAL_ERROR, str(error)) from error

    async def call(self, name: str, args: dict[str, Any], relay: Relay, *, approved: MCPTool) -> types.CallToolResult:
        """Call a tool, and return its result. Nothing goes with the call that nobody was shown, such as `_meta`.

        Raises `MCPError` if the server refuses the call, and `OutcomeUnknown` if nobody knows what became of it. A
        request that certainly did not reach the server is sent once more.

        Args:
            name: The tool's name at the server.
            args: The arguments.
            relay: The way back to the client.
            approved: The tool as it was approved, by a person, a grant or a rule.
        """
        with self._masked():
            for tries_left in (1, 0):
                link = await self._checked_link(approved)
                try:
                    return self._without_secrets(await self._converse(link, name, args, relay))
                except CallRefusedByServer as error:
                    raise error.error from error
                except RequestUnsent as error:
                    await self._server.drop(link)
                    if not tries_left:
                        raise MCPServerFailed(f"{error} The call was not sent.") from error
        raise AssertionError("unreachable")

    async def _checked_link(self, approved: MCPTool) -> ServerConnection:
        """Return a connection in which the tool is as approved: a server that was started anew may have another.

        That somebody else has listed the tools there does not count: the list may have this one changed.
        """
        for _ in range(CHECKS):
            link = await self.link()
            if self._looked.get(approved.remote) == (link, self._changes, approved.fingerprint):
                return link
            now = await self.tool(approved.remote, fresh=True)
            if now is None or now.fingerprint != approved.fingerprint:
                break
            if await self.link() is link:  # some servers say with each list that it has changed
                return link
        raise MCPServerFailed(
            f"The MCP server {self.name!r} has changed this tool since it was approved; nothing ran. Call it again."
        )

    def _without_secrets(self, result: types.CallToolResult) -> types.CallToolResult:
        """Return a result; mask the credentials in it if it is an error."""
        if not result.is_error:
            return result
        content = [
            block.model_copy(update={"text": mask_secrets(block.text, self._secrets)})
            if isinstance(block, types.TextContent)
            else block
            for block in result.content
        ]
        kept = self._unless_secret(result.structured_content)
        return result.model_copy(update={"content": content, "structured_content": kept})

    def _unless_secret(self, value: T) -> T | None:
        """Return what the server wrote; None if a credential is in it."""
        text = json.dumps(value, ensure_ascii=False)
        return value if mask_secrets(text, self._secrets) == text else None

    async def _converse(
        self, link: ServerConnection, name: str, args: dict[str, Any], relay: Relay
    ) -> types.CallToolResult:
        """Send a call, relay what the server asks, and return the result."""
        key = f"call {next(self._numbers)}"
        responses: Any = None
        state: str | None = None
        progress: Progress | None = relay.progress if relay.listens else None
        for _ in range(ROUNDS):
            call = link.begin(key, name, args, holdable=relay.asks, responses=responses, state=state, progress=progress)
            outcome = await call.next(self._timeout)
            while not isinstance(outcome, types.CallToolResult | types.InputRequiredResult):
                call.answer(await relay.elicit(outcome))
                outcome = await call.next(self._timeout)
            if isinstance(outcome, types.CallToolResult):
                return unstamped(outcome)
            responses, state = await self._answers(outcome, relay), outcome.request_state
        raise MCPServerFailed(f"The MCP server {self.name!r} asked {ROUNDS} times in one call; the call was given up.")

    async def _answers(self, asked: types.InputRequiredResult, relay: Relay) -> dict[str, Any] | None:
        """Return the answers to the questions with which a server of the newest protocol ends a request."""
        answers: dict[str, Any] = {}
        for key, each in (asked.input_requests or {}).items():
            if not isinstance(each, types.ElicitRequest):
                raise MCPServerFailed(
                    f"The MCP server {self.name!r} asks for {each.method}, which the gateway does not pass on; the "
                    "call was given up."
                )
            answers[key] = await relay.elicit(each.params) if relay.asks else CANCELLED
        return answers or None

    async def _told(self, message: Any) -> None:
        if self.on_message is not None:
            await self.on_message(message)

    def _tools_changed(self) -> None:
        self._changes += 1
        if self.on_tools_changed is not None:
            self.on_tools_changed()
