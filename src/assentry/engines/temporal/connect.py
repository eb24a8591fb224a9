"""Connecting to a Temporal server as its own tools do: an address, and the settings of its files and environment."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from ...core.wording import described
from ...errors import EngineFailed, UsageError

DEFAULT_ADDRESS = "localhost:7233"


async def connect(address: str | None = None, **options: Any) -> Client:
    """Return a client for a server's address, as `HOST:PORT` or `HOST:PORT/NAMESPACE`.

    What the address leaves out comes from Temporal's own configuration: `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`,
    `TEMPORAL_API_KEY`, certificates, or a profile in its file.
    """
    host, _, namespace = (address or "").partition("/")
    if host and not host.rpartition(":")[2].isdigit():
        raise UsageError(f"A Temporal server's address is HOST:PORT or HOST:PORT/NAMESPACE, got {described(address)}.")
    try:
        found: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
    except RuntimeError as error:
        raise UsageError(f"Temporal's own configuration cannot be read: {error}.") from None
    given = {"target_host": host, "namespace": namespace}
    settings = {"target_host": DEFAULT_ADDRESS, **found, **{name: value for name, value in given.items() if value}}
    try:
        return await Client.connect(**settings, **options)
    except (RPCError, RuntimeError) as error:
        raise EngineFailed(f"There is no Temporal server at {settings['target_host']}: {error}") from None
