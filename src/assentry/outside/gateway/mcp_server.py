"""The MCP server that clients see: the tools of the server behind, each call after the gate, and all else passed on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from pydantic import TypeAdapter

from ...errors import UsageError
from ...tools.user_question import DESCRIPTION, NAME, SCHEMA
from .call_gate import CallGate
from .client import RequestingClient, meta_of
from .upstream import PageWanted, UpstreamServer

MOST_SESSIONS = 1000
"""The most sessions of older protocols that are told of changes."""
Context = ServerRequestContext[Any, Any]
STANDING = (
    types.ToolListChangedNotification,
    types.ResourceListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceUpdatedNotification,
    types.LoggingMessageNotification,
)
"""The notifications of the server that are passed on to all clients."""
PAGE_KEY = "page"
"""The key of the page that a call ends with."""
ASK_USER = types.Tool(name=NAME, description=DESCRIPTION, input_schema=SCHEMA)
"""The gateway's own tool."""


class GatewayServer:
    """The server that clients of the gateway are connected to.

    Args:
        upstream: The server behind, connected.
        gate: The gate in front of its tools.
        source: The name of a client that needs no token.
        ask_user: True to offer `ask_user` too, with which a model asks a person a question.
    """

    def __init__(self, upstream: UpstreamServer, gate: CallGate, *, source: str, ask_user: bool = False) -> None:
        self._upstream, self._gate, self._source, self._ask_user = upstream, gate, source, ask_user
        self._sessions: dict[str, ServerSession] = {}
        """The newest session object of each client of an older protocol, by the id of its session."""
        self._bus = InMemorySubscriptionBus()
        self._telling: set[asyncio.Task[None]] = set()
        upstream.on_message = self._pass_on
        upstream.on_tools_changed = self._tools_changed

    async def build(self) -> Server[Any]:
        """Return the SDK's server, which offers what the server behind has."""
        session = (await self._upstream.link()).session
        if self._ask_user and await self._upstream.tool(NAME, fresh=False) is not None:
            raise UsageError(f"The server has a tool {NAME!r} of its own; leave out --ask-user.")
        info, able = session.server_info, session.server_capabilities or types.ServerCapabilities()
        server: Server[Any] = Server(
            info.name if info is not None else "assentry gateway",
            version=info.version if info is not None else "",
            title=info.title if info is not None else None,
            description=info.description if info is not None else None,
            website_url=info.website_url if info is not None else None,
            icons=info.icons if info is not None else None,
            instructions=session.instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        server.add_notification_handler("notifications/initialized", types.NotificationParams, self._initialized)
        for method, (params, request, result, has) in PASSED.items():
            if has(able):
                server.add_request_handler(method, params, self._passed(request, result))
        # What clients of older protocols are told. The SDK's transport over HTTP asks the server for it.
        told = server.create_initialization_options(
            NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        )
        server.create_initialization_options = lambda *_, **__: told  # type: ignore[method-assign]
        return server

    # Tools

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return a page of the server's tools as it lists them; the first has `ask_user` too, if that is offered."""
        self._note(ctx)
        page: types.ListToolsResult = await self._pass(types.ListToolsRequest, types.ListToolsResult, ctx, params)
        if not self._ask_user:
            return page
        first = params is None or params.cursor is None
        others = [tool for tool in page.tools if tool.name != NAME]  # a server may have added one since the start
        return page.model_copy(update={"tools": [ASK_USER, *others] if first else others})

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Put a call before the gate; the client's going away ends nothing but its waiting."""
        self._note(ctx)
        if not {PAGE_KEY}.issuperset(params.input_responses or ()) or params.request_state is not None:
            raise MCPError(types.INVALID_PARAMS, "The gateway has asked for no input.")
        client = RequestingClient(ctx, self._source)
        try:
            if self._ask_user and params.name == NAME:
                return await self._gate.ask_user(params.arguments or {}, client)
            return await self._gate.call(params.name, params.arguments or {}, client)
        except PageWanted as wanted:  # what the client answers decides nothing, and is not looked at
            page = types.ElicitRequest(params=types.ElicitRequestURLParams(message=wanted.words, url=wanted.url))
            return types.InputRequiredResult(input_requests={PAGE_KEY: page})
        finally:
            client.leave()

    # All else

    def _passed(self, request: type[Any], result: Any) -> Callable[[Context, Any], Awaitable[Any]]:
        async def handle(ctx: Context, params: Any) -> Any:
            self._note(ctx)
            return await self._pass(request, result, ctx, params)

        return handle

    async def _pass(self, request: type[Any], result: Any, ctx: Context, params: Any) -> Any:
        """Pass a request on to the server, without what the client says of itself."""
        meta = meta_of(ctx)
        given = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        given.pop("_meta", None)
        if meta is not None:
            given["_meta"] = {key: value for key, value in meta.items() if key != "progress_token"}
        return await self._upstream.request(request.model_validate({"params": given}, by_name=False), result)

    # What the server tells its clients

    def _note(self, ctx: Context) -> None:
        """Remember the client's session, to tell it of changes; clients of the newest protocol listen instead."""
        if not ctx.session.can_send_request:
            return
        key = "" if ctx.request is None else ctx.request.headers.get("mcp-session-id", "")
        self._sessions.pop(key, None)
        self._sessions[key] = ctx.session
        if len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    async def _initialized(self, ctx: Context, params: Any) -> None:
        self._note(ctx)

    def _tools_changed(self) -> None:
        task = asyncio.get_running_loop().create_task(self._pass_on(types.ToolListChangedNotification()))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _pass_on(self, message: Any) -> None:
        """Tell all clients what the server tells."""
        if not isinstance(message, STANDING):
            return
        for session in list(self._sessions.values()):
            with contextlib.suppress(Exception):  # a client that is gone
                await session.send_notification(message)
        event = _event_of(message)
        if event is not None:
            await self._bus.publish(event)


def _event_of(message: Any) -> ServerEvent | None:
    """Return a notification as clients of the newest protocol get it; None if they get none."""
    match message:
        case types.ToolListChangedNotification():
            return ToolsListChanged()
        case types.ResourceListChangedNotification():
            return ResourcesListChanged()
        case types.PromptListChangedNotification():
            return PromptsListChanged()
        case types.ResourceUpdatedNotification():
            return ResourceUpdated(message.params.uri)
    return None


def _has_resources(able: types.ServerCapabilities) -> bool:
    return able.resources is not None


def _has_prompts(able: types.ServerCapabilities) -> bool:
    return able.prompts is not None


def _has_subscriptions(able: types.ServerCapabilities) -> bool:
    return able.resources is not None and bool(able.resources.subscribe)


def _has_completions(able: types.ServerCapabilities) -> bool:
    return able.completions is not None


def _has_logging(able: types.ServerCapabilities) -> bool:
    return able.logging is not None


Has = Callable[[types.ServerCapabilities], bool]
_PROMPT: Any = TypeAdapter(types.GetPromptResult | types.InputRequiredResult)
_RESOURCE: Any = TypeAdapter(types.ReadResourceResult | types.InputRequiredResult)
PAGE = types.PaginatedRequestParams
PASSED: dict[str, tuple[type[Any], type[Any], Any, Has]] = {
    "prompts/list": (PAGE, types.ListPromptsRequest, types.ListPromptsResult, _has_prompts),
    "prompts/get": (types.GetPromptRequestParams, types.GetPromptRequest, _PROMPT, _has_prompts),
    "resources/list": (PAGE, types.ListResourcesRequest, types.ListResourcesResult, _has_resources),
    "resources/templates/list": (
        PAGE,
        types.ListResourceTemplatesRequest,
        types.ListResourceTemplatesResult,
        _has_resources,
    ),
    "resources/read": (types.ReadResourceRequestParams, types.ReadResourceRequest, _RESOURCE, _has_resources),
    "resources/subscribe": (
        types.SubscribeRequestParams,
        types.SubscribeRequest,
        types.EmptyResult,
        _has_subscriptions,
    ),
    "resources/unsubscribe": (
        types.UnsubscribeRequestParams,
        types.UnsubscribeRequest,
        types.EmptyResult,
        _has_subscriptions,
    ),
    "completion/complete": (types.CompleteRequestParams, types.CompleteRequest, types.CompleteResult, _has_completions),
    "logging/setLevel": (types.SetLevelRequestParams, types.SetLevelRequest, types.EmptyResult, _has_logging),
}
"""The requests that are passed on: their parameters, the request, its result, and the capability that it needs."""
