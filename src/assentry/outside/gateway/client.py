"""The client of one request: what it may be asked and told while its call is under way."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from uuid import uuid4

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import NoBackChannelError
from pydantic import ValidationError

from .upstream import CANCELLED

RESERVED = "io.modelcontextprotocol/"
"""The prefix of what a client's request says of the client itself."""


class RequestingClient:
    """The client of one request. Once it has gone away, it is told nothing, and its user is asked nothing."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], source: str) -> None:
        self._session, self._request = ctx.session, ctx.request
        self.source: str = source if ctx.request is None else ctx.request.user.username
        """The client's name, as people and rules see it: over HTTP that of its token."""
        self.listens = "progress_token" in (ctx.meta or {})
        """True if the client wants to know how far its call is."""
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def leave(self) -> None:
        """Note that the client waits no more; a question that its user was being asked is cancelled."""
        if not self._gone.done():
            self._gone.set_result(None)

    @property
    def asks(self) -> bool:
        """True if the client can ask its user what the server wants to know."""
        able = self._session.client_capabilities
        return self._session.can_send_request and able is not None and able.elicitation is not None

    async def is_there(self) -> bool:
        """Return False once the client has gone; over HTTP those of older protocols go without a word."""
        if self._gone.done():
            return False
        return self._request is None or not await self._request.is_disconnected()

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask the client's user, and return the answer."""
        if self._gone.done():
            return CANCELLED
        request = types.ElicitRequest(params=params)
        asking = asyncio.create_task(self._session.send_request(request, types.ElicitResult))
        ends: set[asyncio.Future[Any]] = {asking, self._gone}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else CANCELLED
        except (MCPError, NoBackChannelError, ValidationError):
            return CANCELLED
        finally:
            asking.cancel()

    @property
    def is_sent_to_pages(self) -> bool:
        """True if the client opens a page when its call ends with one: so do those of the newest protocol."""
        return self._opens_pages and not self._session.can_send_request

    @property
    def _opens_pages(self) -> bool:
        able = self._session.client_capabilities
        return able is not None and able.elicitation is not None and able.elicitation.url is not None

    async def show_page(self, words: str, url: str) -> None:
        """Have the client's user open a page, if the client can do that during a call."""
        if not self.asks or not self._opens_pages:
            return
        await self.elicit(types.ElicitRequestURLParams(message=words, url=url, elicitation_id=uuid4().hex))

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Tell the client how far the call is; nothing happens if it did not ask for that."""
        if not self._gone.done():
            with suppress(Exception):  # it may be gone by now, which its call will hear of
                await self._session.report_progress(done, total, message)


def meta_of(ctx: ServerRequestContext[Any, Any]) -> dict[str, Any] | None:
    """Return what a client's request says besides the call, without what it says of the client itself."""
    given = dict(ctx.meta or {})
    return {key: value for key, value in given.items() if not key.startswith(RESERVED)} or None
