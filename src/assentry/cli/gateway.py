"""`assentry gateway`: an MCP server in front of another one, whose calls people approve."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress

from ..core.wording import install_hint
from ..errors import UsageError
from .write import put, say, spelled_name

TOKEN_OF_CLIENTS = "ASSENTRY_GATEWAY_TOKEN"


async def serve_gateway(options: Namespace) -> int:
    """Serve MCP clients until they have gone, or a signal comes."""
    try:
        from ..outside.gateway.gateway import GatewaySettings, open_gateway, tool_definitions
        from ..outside.gateway.serving import serve_http, serve_stdio
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "assentry":
            raise
        raise UsageError(f"The gateway needs the MCP SDK: {install_hint('mcp')}.") from None
    logging.basicConfig(stream=sys.stderr, level=logging.INFO if options.verbose else logging.WARNING)
    listen = None if options.listen is None else _address(options.listen)
    tokens = {} if options.definitions else _tokens(options)
    settings = GatewaySettings(
        place=options.server or options.url or "",
        source=options.source,
        clients=tuple(tokens),
        token=options.token,
        rules=options.rules,
        command=tuple(options.command),
        url=options.http,
        env={name: _variable(name, "--env") for name in options.env},
        headers=_headers(options),
        name=options.name,
        wait=options.wait,
        timeout=options.timeout,
        inbox=(options.base_url or options.server or "").rstrip("/") or None,
        ask_user=options.ask_user,
    )
    if options.definitions:
        _print_definitions(await tool_definitions(settings))
        return 0
    async with open_gateway(settings) as gateway:
        if listen is not None:
            host, port = listen
            names = options.allow_host
            await serve_http(gateway, host=host, port=port, tokens=tokens, allowed_hosts=names, ready=_say_where)
            return 0
        serving = asyncio.create_task(serve_stdio(gateway))  # apart, so that a signal does not cut the end short
        with suppress(NotImplementedError):  # Windows has no such signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving
    return 0


def _print_definitions(found: Mapping[str, str]) -> None:
    """Print the definitions as lines of a rule in a rules file."""
    put("definitions = [")
    for name, mark in found.items():
        put(f'    "{mark}",  # {spelled_name(name)}')
    put("]")


def _say_where(address: str) -> None:
    say(f"The gateway is at {address}; Ctrl-C ends it.")


def _headers(options: Namespace) -> Mapping[str, str]:
    """Return the headers for the server, each from the variable of the environment that was named for it."""
    found = {}
    for each in options.header:
        name, _, variable = each.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not variable:
            raise UsageError("--header is NAME=VARIABLE: a header, and the environment variable that has its value.")
        found[name] = _variable(variable, "--header")
    if options.bearer is not None:
        found["Authorization"] = f"Bearer {_variable(options.bearer, '--bearer')}"
    return found


def _tokens(options: Namespace) -> dict[str, str]:
    """Return the tokens of clients over HTTP, by the client's name."""
    if options.listen is None:
        if options.client:
            raise UsageError("--client is for --listen: a client on the standard streams needs no token.")
        return {}
    if not options.client:
        return {options.source: _variable(TOKEN_OF_CLIENTS, "--listen")}
    found: dict[str, str] = {}
    for each in options.client:
        name, _, variable = each.partition("=")
        if not name.strip() or not variable or name in found:
            raise UsageError(
                "--client is NAME=VARIABLE: a client's name, given once, and the environment variable of its token."
            )
        found[name] = _variable(variable, "--client")
    return found


def _variable(name: str, option: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"{option} needs the environment variable {name}, which is not set.")
    return value


def _address(text: str) -> tuple[str, int]:
    """Return the host and the port of HOST:PORT."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not re.fullmatch(r"\d{1,5}", port) or int(port) > 65535:
        raise UsageError("--listen is HOST:PORT, such as 127.0.0.1:9000; port 0 is any free one.")
    return host, int(port)
