"""The transports over HTTP: the SDK's own, with a client that limits answers and tells what became of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from ..core.wording import described
from ..errors import UsageError

TIMEOUT = 30.0
READ_TIMEOUT = 300.0


class RequestProgress(Protocol):
    """A call on its way: a client notes here how far its request has come."""

    posted: bool
    unsent: bool
    status: int | None


REQUEST_PROGRESS: ContextVar[RequestProgress | None] = ContextVar("assentry_mcp_sending", default=None)
"""The call that the current code sends. The SDK runs the request, and what comes back with it, in the same context."""


class LimitedResponse(httpx2.AsyncByteStream):
    """The bytes of a response, up to a limit."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream, self._limit = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the bytes; raise `StreamError` at the limit."""
        length = 0
        async for chunk in self._stream:
            length += len(chunk)
            if length > self._limit:
                raise httpx2.StreamError(f"the answer has more than {self._limit:,} bytes, the limit")
            yield chunk

    async def aclose(self) -> None:
        """Close the response."""
        await self._stream.aclose()


def watch_client(client: httpx2.AsyncClient, limit: int) -> httpx2.AsyncClient:
    """Have a client note a request's fate on the call, and limit responses that are read as a whole."""
    send_request = client.send

    async def send(request: httpx2.Request, **options: Any) -> httpx2.Response:
        call = REQUEST_PROGRESS.get() if request.method == "POST" else None
        if call is not None and call.posted:
            call = None  # a later message in the same context: an answer to a question, or a cancellation
        if call is not None:
            call.posted = True
        try:
            response = await send_request(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            if call is not None:
                call.unsent = True
            raise
        if call is not None:
            call.status = response.status_code
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()  # it was not asked for, and its size could not be limited
                raise httpx2.DecodingError(
                    "the server sent a compressed answer that was not requested", request=request
                )
            if isinstance(response.stream, httpx2.AsyncByteStream):
                response.stream = LimitedResponse(response.stream, limit)
        return response

    client.send = send  # type: ignore[method-assign] # a client of the user's own is watched too
    return client


def _client(params: Mapping[str, Any], limit: int) -> httpx2.AsyncClient:
    headers = {"accept-encoding": "identity", **(params.get("headers") or {})}
    timeout = httpx2.Timeout(params.get("timeout", TIMEOUT), read=params.get("sse_read_timeout", READ_TIMEOUT))
    make, auth = params.get("httpx_client_factory"), params.get("auth")
    if make is None:
        return watch_client(httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth), limit)
    client = make(headers=params.get("headers"), timeout=timeout, auth=auth)
    if not isinstance(client, httpx2.AsyncClient):
        raise UsageError(f"httpx_client_factory must return an httpx2.AsyncClient, got {described(client)}.")
    client.headers["accept-encoding"] = "identity"
    return watch_client(client, limit)


@asynccontextmanager
async def streamable_transport(params: Mapping[str, Any], limit: int) -> AsyncIterator[Any]:
    """Yield the streams of messages from a server that speaks streamable HTTP, and to it."""
    async with (
        _client(params, limit) as client,
        streamable_http_client(
            params["url"],
            http_client=client,
            terminate_on_close=params.get("terminate_on_close", True),
            max_sse_event_size=limit,
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def sse_transport(params: Mapping[str, Any], limit: int) -> AsyncIterator[Any]:
    """Yield the streams of messages from a server that speaks HTTP with SSE, and to it."""

    def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return _client(params, limit)

    async with sse_client(params["url"], httpx_client_factory=factory) as streams:
        yield streams
