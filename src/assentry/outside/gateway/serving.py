"""Serving the gateway's clients: one on the standard streams, or any number over Streamable HTTP."""

from __future__ import annotations

import hmac
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.middleware.authentication import AuthenticationMiddleware

from ...errors import UsageError
from .mcp_server import GatewayServer

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHORTEST_TOKEN = 16
"""The fewest characters of the token that clients over HTTP need."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class GatewayTokens:
    """The tokens that clients over HTTP need, each with its client's name, as the SDK asks for them."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        if any(len(token) < SHORTEST_TOKEN for token in tokens.values()):
            raise UsageError(f"The token for clients has at least {SHORTEST_TOKEN} characters.")
        if len(set(tokens.values())) < len(tokens):
            raise UsageError("Two clients have one token; give each a token of its own.")
        self._tokens = {name: token.encode() for name, token in tokens.items()}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who the token stands for; None if it is another."""
        given = token.encode("utf-8", "replace")
        found = [name for name, known in self._tokens.items() if hmac.compare_digest(given, known)]
        return AccessToken(token=token, client_id=found[0], scopes=[]) if found else None


async def serve_stdio(gateway: GatewayServer) -> None:
    """Serve the client on the standard streams until it closes them."""
    server = await gateway.build()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(
    gateway: GatewayServer,
    *,
    host: str,
    port: int,
    tokens: Mapping[str, str],
    allowed_hosts: Sequence[str],
    ready: Callable[[str], None],
) -> None:
    """Serve clients over Streamable HTTP until a signal comes.

    Requests need one of the tokens, which are given by the names of their clients. Their `Host` must be loopback, or
    one of the allowed, and so must an `Origin`.
    """
    verifier = GatewayTokens(tokens)
    if host not in LOOPBACK and not allowed_hosts:
        raise UsageError(f"To listen on {host}, name the hosts by which clients reach it: --allow-host NAME.")
    server = await gateway.build()
    app = server.streamable_http_app(token_verifier=verifier, transport_security=_security(allowed_hosts))
    place = _listening(host, port)
    guarded = AuthenticationMiddleware(app, backend=BearerAuthBackend(verifier))
    await _Server(guarded, place, ready).serve(sockets=[place])


def _security(allowed_hosts: Sequence[str]) -> TransportSecuritySettings:
    names = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    for name in allowed_hosts:
        names += [name] if ":" in name else [name, f"{name}:*"]
    origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    return TransportSecuritySettings(enable_dns_rebinding_protection=True, allowed_hosts=names, allowed_origins=origins)


class _Server(uvicorn.Server):
    """A server that says where it is, and ends in good order."""

    def __init__(self, app: Any, place: socket.socket, ready: Callable[[str], None]) -> None:
        super().__init__(
            uvicorn.Config(app, ws="none", log_level="warning", server_header=False, timeout_graceful_shutdown=5)
        )
        self._place, self._ready = place, ready

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        host, port = self._place.getsockname()[:2]
        self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End at a signal, without raising it again afterwards."""
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    except OSError as error:
        raise UsageError(f"The gateway cannot listen on {host}, port {port}: {error.strerror or error}.") from None
