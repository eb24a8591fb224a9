"""Clients of providers: one for each event loop and environment, made when it is first needed.

Which client that is, and how it fails, belongs in the module of each provider.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple, TypeVar

from ..core import allowed

C = TypeVar("C")


def client_with(attribute: str, words: str = "an openai.AsyncOpenAI") -> allowed.Values:
    """Return the values that are async clients with this attribute, or None."""
    return allowed.Values(
        words, lambda given: hasattr(given, attribute) and not hasattr(given, "__enter__"), is_secret=True
    ).or_none


class SharedClient(NamedTuple):
    """A client, and the generator that closes it with its event loop."""

    client: Any
    life: AsyncGenerator[None, None]


Environment = frozenset[tuple[str, str]]

_clients: dict[asyncio.AbstractEventLoop, dict[Environment, SharedClient]] = {}
"""The clients by event loop, and by the environment variables that they were made with."""


async def share_client(prefix: str, make: Callable[[], C], key: str | None = None) -> C:
    """Return the client of this event loop, for the key and the address that are in the environment now.

    All models of a provider share it. A connection belongs to the event loop that it was opened in, and blocking calls
    have their own loops, so each loop has its own client. `prefix` is that of the provider's environment variables;
    `key` is a key that the program itself has set.
    """
    loop = asyncio.get_running_loop()
    said = frozenset([(key or "", prefix), *(each for each in os.environ.items() if each[0].startswith(prefix))])
    if said not in _clients.get(loop, {}):
        _forget_closed()
        made = await asyncio.to_thread(make)  # importing a client takes most of a second
        here = _clients.setdefault(loop, {})
        if said not in here:  # another task may have made a client meanwhile
            here[said] = SharedClient(made, _life(loop, said, made))
            await anext(here[said].life)
    client: C = _clients[loop][said].client
    return client


async def _life(loop: asyncio.AbstractEventLoop, said: Environment, client: Any) -> AsyncGenerator[None, None]:
    """Close a client at its loop's end: asyncio closes a loop's open async generators before it closes the loop."""
    try:
        yield
    finally:
        here = _clients.get(loop, {})
        here.pop(said, None)
        if not here:
            _clients.pop(loop, None)
        await client.close()


def _forget_closed() -> None:
    """Drop the clients of loops that were closed without closing their generators; nothing can be awaited there."""
    for loop in [each for each in list(_clients) if each.is_closed()]:
        _clients.pop(loop, None)
