"""The rules for every request: who asks, limits, security headers, counting, and no error but a problem."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import NotSignedIn
from .auth import Authenticates, sign_in_first, who_sent
from .csrf import SAFE, check_csrf
from .failure import FOR_PROGRAMS, respond_to_error
from .identity import Identity
from .metrics import Metrics

MOST_BYTES = 11_000_000
"""The largest body of a request: an edit may bring 10 MB of arguments."""
MOST_BYTES_OPEN = 20_000
"""The largest body of a request that needs no identity."""
LONGEST_QUERY = 8_000
"""The most bytes of a query string, and of a path."""
UNKNOWN_TOKEN = (
    "You are not signed in: nobody has this token. It is mistyped, revoked or has expired; `assentry tokens add` makes "
    "another."
)
OPEN = ("/health", "/sign-in", "/sign-out", "/static/", "/language")
"""The beginnings of the paths that need no identity."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""The methods that are counted by name. Clients may make up any number of others."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every response, unless the route sets its own."""


class Remembered:
    """The identity that was found for a request before anything else happened, for the pages."""

    def identify(self, request: Request) -> Identity | None:
        """Return who sent the request."""
        who: Identity | None = getattr(request.state, "identity", None)
        return who


class RequestGuard:
    """The outermost layer of the inbox."""

    def __init__(self, app: ASGIApp, auth: Authenticates, metrics: Metrics) -> None:
        self._app, self._auth, self._metrics = app, auth, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; refuse a web socket."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sending = HeaderSend(send)
        try:
            await self._answer(scope, receive, sending)
        except ClientDisconnect:
            return  # nobody is there for an answer, and nothing was done: its body never came
        except Exception as error:
            if sending.status is not None:
                raise  # a response that has begun can only be cut off
            made = await respond_to_error(Request(scope), error)
            await made(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.requests[method, str(route) or "none", sending.status or 0] += 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        request = Request(scope)
        if len(scope.get("query_string", b"")) > LONGEST_QUERY or len(path) > LONGEST_QUERY:
            raise HTTPException(414, f"The address is too long; at most {LONGEST_QUERY:,} bytes are read.")
        most = MOST_BYTES_OPEN if path.startswith(OPEN) else MOST_BYTES
        _check_length(request, most)
        if path.endswith("/") and path.strip("/") and request.method in SAFE:
            await _without_slash(request, path)(scope, receive, send)
            return
        limited = LimitedReceive(receive, most)
        if not path.startswith(OPEN):
            who = await who_sent(self._auth, request)
            if who is None and not path.startswith(FOR_PROGRAMS):
                await sign_in_first(request)(scope, receive, send)
                return
            if who is None:
                raise NotSignedIn(UNKNOWN_TOKEN if "authorization" in request.headers else None)
            request.state.identity = who
            if path.startswith(FOR_PROGRAMS):  # a page's token is in its form, and the page checks it
                await check_csrf(Request(scope, limited), who, forms=False)
        await self._app(scope, limited, send)


def _without_slash(request: Request, path: str) -> RedirectResponse:
    """Return the redirect to the address without a slash at its end: a path, since anybody can write a Host header."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/{quote(path.strip('/'))}{query}", 307)


def _check_length(request: Request, most: int) -> None:
    given = request.headers.get("content-length", "0")
    if not given.isdecimal() or int(given[:20]) > most:
        raise body_too_large(most)


def body_too_large(most: int) -> HTTPException:
    """Return the error of a body that is too large."""
    return HTTPException(413, f"The body is too large; at most {most:,} bytes are read.")


class LimitedReceive:
    """The body of a request, as long as it is not too large."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._bytes, self._most = receive, 0, most

    async def __call__(self) -> Message:
        """Return the next message."""
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._most:
            raise body_too_large(self._most)
        return message


class HeaderSend:
    """Sends a response with the headers that every response has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        """Send the next message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)
