"""The gateway beside the bare server: the same calls by the official client, of two servers that run one program.

The gateway is a process of its own in front of the server, with a store in an SQLite file and a rule that lets every
call pass. Each call is timed alone, the two in turn, so that both see the same machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from ..clock import Clock
from ..conversation import answer
from ..mcp_server import COMMAND
from ..peers import ROOT
from . import mcp_calls

RULES = '[[rule]]\nname = "all"\nverdict = "allow"\n'


class Driver:
    """The gateway, driven by a client."""

    lacks: frozenset[str] = frozenset()

    async def gateway_calls(self, clock: Clock, n: int) -> None:
        """So many calls of each server: the median of one, and how much more the gateway's is."""
        times: dict[str, list[float]] = {"bare": [], "gateway": []}
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            clients = {
                "bare": await stack.enter_async_context(mcp_calls.bare_client()),
                "gateway": await stack.enter_async_context(gateway_client(folder)),
            }
            for turn in range(-1, n):  # the first ones warm up
                for name, client in clients.items():
                    begun = time.perf_counter_ns()
                    said = await mcp_calls.bare_call(client, max(turn, 0))
                    took = time.perf_counter_ns() - begun
                    assert said == answer(max(turn, 0)), "the server said something else"
                    if turn >= 0:
                        times[name].append(took / 1e6)
        for name, took in times.items():
            clock.metric(f"{name}_ms", median(took))
        clock.metric("added_ms", median(times["gateway"]) - median(times["bare"]))


def gateway_client(folder: Path) -> Client:
    """The official client with a gateway of its own, in front of a server of its own."""
    (folder / "rules.toml").write_text(RULES)
    place = ["--store", str(folder / "runs.db"), "--rules", str(folder / "rules.toml")]
    args = ["-m", "assentry.cli", "gateway", *place, "--", str(COMMAND["command"]), *COMMAND["args"]]
    # The gateway starts the server in its own folder, which is the checkout.
    parameters = {**COMMAND, "args": args, "cwd": str(ROOT), "env": dict(os.environ)}
    return Client(stdio_client(StdioServerParameters(**parameters)))


def make() -> Driver:
    """The driver."""
    return Driver()
