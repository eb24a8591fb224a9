"""MCP servers as sources of tools: over a child process's standard streams, over HTTP with SSE, and streamable HTTP.

A server object holds the settings and, for each event loop that uses it, a connection. This module does not import the
SDK; the modules behind `_opener` do, and they are imported when a server is first connected.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import logging
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypedDict
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from typing_extensions import Unpack

from ..core import allowed
from ..core.wording import described, install_hint, shortened, worded
from ..definitions.context import RunContextWrapper
from ..definitions.guardrail import ToolInputGuardrail, ToolOutputGuardrail, guardrails_of
from ..definitions.tool import FailureText, Tool, default_tool_error_function
from ..errors import AssentryError, InvalidDefinition, MCPServerFailed, UsageError
from .approval_rule import RequireApproval, policy_from
from .connected import ConnectedServer
from .result import output_of
from .sdk_words import NO_SESSION
from .tool import MCPTool, MCPToolMetaResolver, tool_from_listing
from .tool_filter import ToolFilter, ToolSelection

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

    from .link import ServerConnection

log = logging.getLogger("assentry.mcp")

_numbers = itertools.count()

MISSING = "MCP servers need the MCP SDK, which is not installed ({}): " + install_hint("mcp")


class MCPServerOptions(TypedDict, total=False):
    """The options that servers of every transport have."""

    client_session_timeout_seconds: float | None
    """The seconds that a server may take to connect and to answer; None for no limit. The default is 60."""
    tool_filter: ToolFilter
    """The tools that are offered: `create_static_tool_filter(...)`, or a function of context and tool."""
    use_structured_content: bool
    """If True, the model gets a result's structured content in place of its text, where there is one."""
    max_retry_attempts: int
    """The number of further attempts to connect, or to list, after one that failed. A call is never sent twice."""
    retry_backoff_seconds_base: float
    """The seconds before the first further attempt; they double each time. The default is 1."""
    retry_backoff_seconds_max: float
    """The most seconds between two attempts. The default is 30."""
    message_handler: Callable[[Any], Awaitable[None]] | None
    """A function that gets all notifications of the server."""
    require_approval: RequireApproval
    """The tools whose calls wait for a person. None, the default, is "never" for every tool."""
    failure_error_function: FailureText | None
    """A function that words a failure for the model; None raises the exception to you."""
    tool_input_guardrails: Sequence[ToolInputGuardrail]
    """Guardrails that check the arguments of every call."""
    tool_output_guardrails: Sequence[ToolOutputGuardrail]
    """Guardrails that check the output of every call."""
    tool_name_prefix: str
    """A prefix of the names that the model is offered, for servers that have tools of the same name."""
    idempotent_tools: Sequence[str]
    """The tools that may run again if the outcome of a call is not known. A server's own hints say nothing here."""
    max_result_bytes: int
    """The largest answer that is read. The default is 10 MB."""
    max_tools: int
    """The most tools that a server may list. The default is 10,000."""
    max_held_calls: int
    """The most calls that are held open for an answer, at servers that ask inside a call. The default is 100."""
    max_list_pages: int | None
    """The most pages of a list of tools; None, the default, for no limit."""
    tool_meta_resolver: MCPToolMetaResolver | None
    """A function of a call that returns what is sent with the call as `_meta`."""
    parallel_calls: bool
    """If False, one call at a time is sent, so that questions of older servers can be told apart."""


def _is_str(value: Any) -> bool:
    return type(value) is str  # which may hold bytes that are no UTF-8, as paths do


PARAMETERS = allowed.instance_of(Mapping, "a dict")
SERVER_OPTIONS = allowed.Options(
    client_session_timeout_seconds=allowed.POSITIVE_SECONDS.or_none,
    tool_filter=allowed.ANYTHING,  # checked by `ToolSelection`
    use_structured_content=allowed.BOOL,
    max_retry_attempts=allowed.whole_number(0),
    retry_backoff_seconds_base=allowed.POSITIVE_SECONDS,
    retry_backoff_seconds_max=allowed.POSITIVE_SECONDS,
    message_handler=allowed.CALLABLE.or_none,
    require_approval=allowed.ANYTHING,  # checked by `policy_from`
    failure_error_function=allowed.CALLABLE.or_none,
    tool_input_guardrails=guardrails_of(ToolInputGuardrail),
    tool_output_guardrails=guardrails_of(ToolOutputGuardrail),
    tool_name_prefix=allowed.Values(
        "at most 32 of the characters A-Z a-z 0-9 _ -",
        lambda given: type(given) is str and re.fullmatch(r"[A-Za-z0-9_-]{0,32}", given),
    ),
    idempotent_tools=allowed.NAMES,
    max_result_bytes=allowed.COUNT,
    max_tools=allowed.COUNT,
    max_held_calls=allowed.COUNT,
    max_list_pages=allowed.COUNT.or_none,
    tool_meta_resolver=allowed.CALLABLE.or_none,
    parallel_calls=allowed.BOOL,
)
STDIO = allowed.Options(
    command=allowed.NAME,
    args=allowed.list_of(_is_str, "a list of texts"),
    env=allowed.dict_of_texts(_is_str).secret.or_none,
    cwd=allowed.ANYTHING,
)
SSE = allowed.Options(
    url=allowed.NAME.secret,
    headers=allowed.dict_of_texts(_is_str).secret.or_none,
    timeout=allowed.POSITIVE_SECONDS,
    sse_read_timeout=allowed.POSITIVE_SECONDS,
    auth=allowed.ANYTHING,
    httpx_client_factory=allowed.CALLABLE.or_none,
)
STREAMABLE_HTTP = allowed.Options(**SSE.options, terminate_on_close=allowed.ANYTHING)
"""The parameters of each transport; the first of them is needed."""


class _Here:
    """The connection of one event loop."""

    def __init__(self) -> None:
        self.link: ServerConnection | None = None
        self.owned = False
        """True if the user connected the server; then it stays open until `cleanup`."""
        self.drives = 0
        self.lock = asyncio.Lock()
        self.turn = asyncio.Lock()

    async def close(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            await link.close()


class MCPServer(ConnectedServer):
    """The base class of MCP servers. Needs `pip install ".[mcp]"`.

    Put a server into `Agent(mcp_servers=[...])`. It is connected during each run, or for as long as you keep it
    connected with `async with server:`.
    """

    default_failure: FailureText = staticmethod(default_tool_error_function)
    """The function that words a failure if neither the server nor the agent has one."""

    def __init__(self, *, name: str, cache_tools_list: bool = False, **options: Unpack[MCPServerOptions]) -> None:
        allowed.check_option(type(self).__name__, "name", name, allowed.NAME)
        whose = f"MCP server {name!r}"
        allowed.check_option(whose, "cache_tools_list", cache_tools_list, allowed.BOOL)
        SERVER_OPTIONS.check_items(whose, options)
        self.name = name
        self.cache_tools_list = cache_tools_list
        self.call_timeout = options.get("client_session_timeout_seconds", 60.0)
        self.use_structured_content = options.get("use_structured_content", False)
        self.tool_name_prefix = options.get("tool_name_prefix", "")
        self.max_result_bytes = options.get("max_result_bytes", 10_000_000)
        self.max_held_calls = options.get("max_held_calls", 100)
        self._max_tools = options.get("max_tools", 10_000)
        self._retries = options.get("max_retry_attempts", 0)
        self._pause = options.get("retry_backoff_seconds_base", 1.0)
        self._longest_pause = options.get("retry_backoff_seconds_max", 30.0)
        self._handler = options.get("message_handler")
        self._policy = policy_from(whose, options.get("require_approval"))
        self._idempotent = options.get("idempotent_tools", ())
        self._parallel = options.get("parallel_calls", True)
        self._max_list_pages = options.get("max_list_pages")
        self.tool_meta_resolver = options.get("tool_meta_resolver")
        self.words_failures = "failure_error_function" in options
        self._tool_options: dict[str, Any] = {
            "failure_error_function": options.get("failure_error_function", self.default_failure),
            "tool_input_guardrails": options.get("tool_input_guardrails", ()),
            "tool_output_guardrails": options.get("tool_output_guardrails", ()),
        }
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Here] = WeakKeyDictionary()
        self._known: dict[str, tuple[str, MCPTool]] = {}
        """The tools by name, each with the listing's JSON that it was made from."""
        self._names: frozenset[str] = frozenset()
        """The names of all tools that the server has listed, those that the filter leaves out among them."""
        self._changes = 1
        self._changes_listed = 0
        """The number of changes before the last listing."""
        self.tool_filter = options.get("tool_filter")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @abstractmethod
    def open_transport(self, stderr: Any) -> AbstractAsyncContextManager[Any]:
        """Return a context that yields the streams of messages from the server and to it, as in the SDK."""

    # Connecting

    async def connect(self) -> None:
        """Connect the server, or raise `MCPServerFailed`. It stays connected until `cleanup`, in this event loop."""
        here = self._here()
        here.owned = True
        try:
            await self.link()
        except BaseException:
            here.owned = False
            raise

    async def cleanup(self) -> None:
        """Close the connection of this event loop. Calls that wait there for an answer are cancelled."""
        here = self._here()
        here.owned = False
        async with here.lock:
            await here.close()

    async def __aenter__(self) -> Self:
        """Connect the server."""
        await self.connect()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the connection."""
        await self.cleanup()

    @asynccontextmanager
    async def kept_open(self) -> AsyncIterator[None]:
        """Keep the server connected during a drive; close it afterwards unless the user connected it."""
        here = self._here()
        here.drives += 1
        try:
            await self.link()
            yield
        finally:
            here.drives -= 1
            async with here.lock:
                if not here.drives and not here.owned:
                    await here.close()

    @property
    def stays_open(self) -> bool:
        """True if the connection outlasts a run's pause, because the user connected it."""
        return self._here().owned

    def turn(self) -> AbstractAsyncContextManager[Any]:
        """Return the context of one call: a lock if calls are sent one at a time."""
        return nullcontext() if self._parallel else self._here().turn

    @property
    def busy(self) -> bool:
        """True if calls are sent one at a time and one is under way."""
        return not self._parallel and self._here().turn.locked()

    @property
    def stale(self) -> bool:
        """True if the tools may have changed since they were listed: connected anew, or told so by the server."""
        return self._changes_listed != self._changes

    @property
    def changes(self) -> int:
        """The number of times that the tools may have changed: connected anew, or told so by the server."""
        return self._changes

    def _here(self) -> _Here:
        loop = asyncio.get_running_loop()
        if loop not in self._places:
            self._places[loop] = _Here()
        return self._places[loop]

    async def link(self) -> ServerConnection:
        """Return the connection of this event loop; connect again if it was lost."""
        here = self._here()
        if here.link is not None and here.link.alive:
            return here.link
        if not here.owned and not here.drives:
            raise UsageError(
                f"The MCP server {self.name!r} is not connected in this event loop; use it inside "
                "`async with server:`, or call `await server.connect()` first."
            )
        async with here.lock:
            if here.link is None or not here.link.alive:
                await here.close()
                self._changes += 1
                here.link = await self._retry(self._open)
            return here.link

    async def drop(self, link: ServerConnection) -> None:
        """Close a connection that is of no more use; the next use connects again."""
        here = self._here()
        async with here.lock:
            if here.link is link:
                await here.close()

    async def _open(self) -> ServerConnection:
        try:
            await asyncio.to_thread(importlib.import_module, "assentry.mcp.conversation")  # takes most of a second
            module = importlib.import_module("assentry.mcp.link")
        except ModuleNotFoundError as error:
            raise UsageError(MISSING.format(error.name)) from error
        link: ServerConnection = module.ServerConnection(
            self.name,
            self.open_transport,
            timeout=self.call_timeout,
            changed=self.invalidate_tools_cache,
            handler=self._handler,
            listens=self.cache_tools_list,
        )
        await link.open()
        return link

    async def _retry(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        """Return the attempt's value; repeat an attempt that failed, with growing pauses."""
        pause = self._pause
        for left in range(self._retries, -1, -1):
            try:
                return await attempt()
            except MCPServerFailed:
                if not left:
                    raise
            await asyncio.sleep(min(pause, self._longest_pause))
            pause *= 2
        raise AssertionError("unreachable")

    # Tools

    async def refresh(self, *, fresh: bool = False) -> None:
        """List the tools. A cached list is used if `cache_tools_list`, unless it is stale or `fresh`."""
        await self.link()
        if self.listed and self.cache_tools_list and not self.stale and not fresh:
            return
        self._changes_listed = self._changes
        try:
            listing = await self._retry(self._list_in_time)
        except BaseException:
            self._changes_listed = 0  # none of them
            raise
        names = frozenset(each.name for each in listing)
        known: dict[str, tuple[str, MCPTool]] = {}
        for each in listing:
            if not self._filter.passes(each.name):
                continue
            text = each.model_dump_json(by_alias=True, exclude_none=True)
            before = self._known.get(each.name) if names == self._names else None
            tool = before[1] if before is not None and before[0] == text else self._make_tool(each, names)
            known[each.name] = text, tool
        self._names = names
        self._known = known
        self.adopt([tool for _, tool in known.values()])

    def _make_tool(self, listed: Listed, names: frozenset[str]) -> MCPTool:
        options = {
            **self._tool_options,
            "needs_approval": self._policy(listed, names),
            "is_enabled": self._filter.enabled(listed),
            "idempotent": listed.name in self._idempotent,
        }
        try:
            return tool_from_listing(self, listed, options)
        except AssentryError as error:
            raise MCPServerFailed(
                f"The MCP server {self.name!r} lists a tool {described(listed.name)} that cannot be used: {error}"
            ) from error

    async def _list_in_time(self) -> list[Listed]:
        """Return the whole listing; raise `MCPServerFailed` if its pages take longer than one answer may."""
        limit = asyncio.timeout(self.call_timeout)
        try:
            async with limit:
                return await self._list()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise MCPServerFailed(
                f"The MCP server {self.name!r} gave no usable answer to tools/list: it did not answer within "
                f"{self.call_timeout:g} seconds with all its tools; raise client_session_timeout_seconds if it needs "
                "more."
            ) from error

    async def _list(self) -> list[Listed]:
        """Return the whole listing of the server, page by page."""
        found: dict[str, Listed] = {}
        cursor: str | None = None
        cursors: set[str] = set()
        while True:
            page = await self._request("tools/list", "list_tools", cursor)
            for tool in page.tools:
                if tool.name in found:
                    raise MCPServerFailed(f"The MCP server {self.name!r} lists two tools named {described(tool.name)}.")
                found[tool.name] = tool
            if len(found) > self._max_tools:
                raise MCPServerFailed(
                    f"The MCP server {self.name!r} lists more than {self._max_tools:,} tools; raise max_tools if that "
                    "is meant."
                )
            cursor = page.next_cursor
            if cursor is None:
                return list(found.values())
            if len(cursors) + 1 == self._max_list_pages:
                raise MCPServerFailed(
                    f"The MCP server {self.name!r} lists its tools on more than {self._max_list_pages} pages; raise "
                    "max_list_pages if that is meant."
                )
            if cursor in cursors:
                raise MCPServerFailed(f"The MCP server {self.name!r} repeats a page of its list of tools.")
            cursors.add(cursor)

    async def _request(self, what: str, method: str, *args: Any, paged: bool = True) -> Any:
        """Return the answer to a request that has no effect, or raise `MCPServerFailed`."""
        for tries_left in (1, 0):
            link = await self.link()
            send = getattr(link.session, method)
            limit = asyncio.timeout(self.call_timeout)
            try:
                async with limit:
                    return await (send(params=_page(args[0])) if paged else send(*args))
            except Exception as error:
                if tries_left and (not link.alive or str(error) in NO_SESSION):
                    await self.drop(link)
                    continue
                why = f"it did not answer within {self.call_timeout:g} seconds" if limit.expired() else worded(error)
                raise MCPServerFailed(
                    f"The MCP server {self.name!r} gave no usable answer to {what}: {shortened(why, 500)}"
                    f"{link.stderr.as_suffix()}"
                ) from error
        raise AssertionError("unreachable")

    def output_of(self, result: CallToolResult) -> Any:
        """Return the output of a call."""
        return output_of(result, self.use_structured_content)

    @property
    def tool_filter(self) -> ToolFilter:
        """The filter of the tools. Another one applies from the next turn."""
        return self._tool_filter

    @tool_filter.setter
    def tool_filter(self, given: ToolFilter) -> None:
        self._filter, self._tool_filter = ToolSelection(self.name, given), given
        self._known, self._changes = {}, self._changes + 1

    def invalidate_tools_cache(self) -> None:
        """Forget the cached list of tools; the next turn lists them again."""
        self._changes += 1

    async def list_function_tools(
        self, run_context: RunContextWrapper[Any] | None = None, agent: Any = None
    ) -> list[Tool]:
        """Return the server's tools as an agent gets them."""
        await self.refresh()
        if run_context is None:
            return list(self.tools)
        return [tool for tool in self.tools if await self._filter.lets_pass(tool.listed, run_context, agent)]

    async def list_tools(self, run_context: RunContextWrapper[Any] | None = None, agent: Any = None) -> list[Listed]:
        """Return the server's tools as the server describes them, those that the filter lets pass."""
        tools: list[Any] = await self.list_function_tools(run_context, agent)
        return [tool.listed for tool in tools]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None = None, meta: dict[str, Any] | None = None
    ) -> CallToolResult:
        """Call a tool yourself, outside of any run: nobody is asked, and nothing is recorded."""
        from .call import CallRefusedByServer, RequestUnsent, tool_failure

        link = await self.link()
        key = f"direct {next(_numbers)}"
        call = link.begin(key, tool_name, arguments or {}, holdable=False, meta=meta)
        try:
            result = await call.next(self.call_timeout)
        except CallRefusedByServer as error:
            raise tool_failure(error) from error.error
        except RequestUnsent as error:
            raise MCPServerFailed(str(error)) from error
        if not hasattr(result, "is_error"):
            raise MCPServerFailed(f"The MCP server {self.name!r} asks for input, which only a call in a run can give.")
        return result  # type: ignore[return-value]

    # Prompts and resources

    async def list_prompts(self, cursor: str | None = None) -> ListPromptsResult:
        """Return the server's prompts, a page at a time."""
        page: ListPromptsResult = await self._request("prompts/list", "list_prompts", cursor)
        return page

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> GetPromptResult:
        """Return a prompt of the server."""
        prompt: GetPromptResult = await self._request("prompts/get", "get_prompt", name, arguments, paged=False)
        return prompt

    async def list_resources(self, cursor: str | None = None) -> ListResourcesResult:
        """Return the server's resources, a page at a time."""
        page: ListResourcesResult = await self._request("resources/list", "list_resources", cursor)
        return page

    async def list_resource_templates(self, cursor: str | None = None) -> ListResourceTemplatesResult:
        """Return the server's templates of resources, a page at a time."""
        page: ListResourceTemplatesResult = await self._request(
            "resources/templates/list", "list_resource_templates", cursor
        )
        return page

    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Return the content of a resource."""
        content: ReadResourceResult = await self._request("resources/read", "read_resource", uri, paged=False)
        return content


def _page(cursor: str | None) -> Any:
    from mcp.types import PaginatedRequestParams

    return PaginatedRequestParams(cursor=cursor) if cursor is not None else None


class MCPServerStdio(MCPServer):
    """A server that is a program: it is started, and spoken to on its standard streams."""

    def __init__(
        self,
        params: Mapping[str, Any],
        cache_tools_list: bool = False,
        name: str | None = None,
        **options: Unpack[MCPServerOptions],
    ) -> None:
        """Describe the server.

        Args:
            params: `command`, and optionally `args`, `env` (added to a few variables such as PATH) and `cwd`.
            cache_tools_list: If True, the tools are listed again only when the server says that they changed.
            name: The server's name; by default made from the command.
            **options: See `MCPServerOptions`.
        """
        self.params = _transport("MCPServerStdio", params, STDIO)
        super().__init__(name=name or f"stdio: {params['command']}", cache_tools_list=cache_tools_list, **options)

    def open_transport(self, stderr: Any) -> AbstractAsyncContextManager[Any]:
        """Start the program."""
        from .stdio_transport import stdio_transport

        return stdio_transport(self.params, self.max_result_bytes, stderr)


class MCPServerSse(MCPServer):
    """A server at a URL that speaks HTTP with server-sent events, the older of the two transports over HTTP."""

    def __init__(
        self,
        params: Mapping[str, Any],
        cache_tools_list: bool = False,
        name: str | None = None,
        **options: Unpack[MCPServerOptions],
    ) -> None:
        """Describe the server.

        Args:
            params: `url`, and optionally `headers`, `timeout`, `sse_read_timeout`, `auth` and `httpx_client_factory`, a
                function of headers, timeout and auth that returns an `httpx2.AsyncClient`.
            cache_tools_list: If True, the tools are listed again only when the server says that they changed.
            name: The server's name; by default made from the URL.
            **options: See `MCPServerOptions`.
        """
        self.params = _transport("MCPServerSse", params, SSE)
        super().__init__(name=name or f"sse: {_address(params['url'])}", cache_tools_list=cache_tools_list, **options)

    def open_transport(self, stderr: Any) -> AbstractAsyncContextManager[Any]:
        """Open the stream of events."""
        from .http_transport import sse_transport

        return sse_transport(self.params, self.max_result_bytes)


class MCPServerStreamableHttp(MCPServer):
    """A server at a URL that speaks streamable HTTP."""

    def __init__(
        self,
        params: Mapping[str, Any],
        cache_tools_list: bool = False,
        name: str | None = None,
        **options: Unpack[MCPServerOptions],
    ) -> None:
        """Describe the server.

        Args:
            params: `url`, and optionally `headers`, `timeout`, `sse_read_timeout`, `terminate_on_close`, `auth` and
                `httpx_client_factory`, a function of headers, timeout and auth that returns an `httpx2.AsyncClient`.
            cache_tools_list: If True, the tools are listed again only when the server says that they changed.
            name: The server's name; by default made from the URL.
            **options: See `MCPServerOptions`.
        """
        self.params = _transport("MCPServerStreamableHttp", params, STREAMABLE_HTTP)
        name = name or f"streamable_http: {_address(params['url'])}"
        super().__init__(name=name, cache_tools_list=cache_tools_list, **options)

    def open_transport(self, stderr: Any) -> AbstractAsyncContextManager[Any]:
        """Open the connection."""
        from .http_transport import streamable_transport

        return streamable_transport(self.params, self.max_result_bytes)


def _transport(kind: str, params: Any, options: allowed.Options) -> dict[str, Any]:
    """Return the parameters of a transport, with times as seconds, or raise `InvalidDefinition`."""
    allowed.check_option(kind, "params", params, PARAMETERS)
    given = {key: each.total_seconds() if isinstance(each, timedelta) else each for key, each in params.items()}
    needed = next(iter(options.options))
    options.check_items(f"{kind}: params", {needed: None, **given})
    return given


def _address(url: str) -> str:
    """Return a URL without what may be secret in it."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidDefinition("An MCP server's url must be an http or https URL, such as https://host/mcp.")
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
