"""`assentry serve`: serve the inbox of a store."""

from __future__ import annotations

import signal
import socket
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core.wording import install_hint
from ..errors import UsageError
from ..inbox import app
from ..store.open import open_store
from .temporal import attach_engine
from .write import say

if TYPE_CHECKING:
    from ..store.sql.store import SQLStore

SWITCH = 0.001
"""The seconds after which Python lets another thread go on, a fifth of its default: pages are made in threads, and the
event loop waits for its turn several times while it answers a request."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(options: Namespace) -> int:
    """Serve the inbox until a signal comes."""
    sys.setswitchinterval(SWITCH)
    async with open_store(options.url) as store:
        await attach_engine(store, options.temporal)
        made = app(store, base_url=options.base_url, rules=options.rules)
        await _say_who_can_sign_in(store)
        server, place = _server(made, options), _listening(options.host, options.port)
        await server.serve(sockets=[place])
    say("The inbox has ended.")
    return 0


async def _say_who_can_sign_in(store: SQLStore) -> None:
    from ..inbox.accounts import accounts_of

    accounts = accounts_of(store)
    if not await accounts.users() and all(token.role == "agent" for token in await accounts.tokens()):
        say("Nobody can decide yet: assentry users add NAME --role admin --store ... makes the first user.")


def _server(made: Any, options: Namespace) -> Any:
    try:
        import uvicorn

        from ..inbox.connection import TimedConnection
        from ..inbox.prefix import under_prefix
    except ImportError:
        raise UsageError(f"The inbox is served by uvicorn: {install_hint('inbox')}") from None

    class Server(uvicorn.Server):
        """A server that says where it is, and ends in good order."""

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            say(f"The inbox is at {_address(sockets[0])}{options.root_path}; Ctrl-C ends it.")

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    return Server(
        uvicorn.Config(
            under_prefix(made, options.root_path),
            ws="none",
            http=TimedConnection,
            # Anybody can write the headers that say whose request a proxy passes on.
            proxy_headers=bool(options.behind_proxy),
            forwarded_allow_ips=options.behind_proxy or [],
            log_level="info" if options.verbose else "warning",
            server_header=False,
            timeout_graceful_shutdown=5,
        )
    )


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise `UsageError` if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family)
        # asyncio does this only for a socket whose protocol is named; without it each response takes 40 ms more.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    except OSError as error:
        raise UsageError(f"The inbox cannot listen on {host}, port {port}: {error.strerror or error}.") from None


def _address(place: socket.socket) -> str:
    """Return the address of the inbox, with the port that the system chose."""
    host, port = place.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
