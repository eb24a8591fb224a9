"""Asks of programs outside over HTTP: a rule lets them pass, or a person is asked; and the way to a reported end."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from assentry.inbox.accounts import accounts_of
from assentry.store import Store

from ..clock import Clock
from .processes import cpu_of
from .serving import Client, percentile, serve, through

RULES = """
[[rule]]
name = "small"
verdict = "allow"
tool = "pay"
where = { amount = { at_most = 50 } }

[[rule]]
name = "large"
verdict = "ask"
tool = "pay"
"""
"""The first rule looks at an argument; the second asks a person."""

Way = Callable[[int, Client], Awaitable[Any]]


SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "amount": {"type": "number"}, "invoice": {"type": "integer"}},
    "required": ["to", "amount"],
    "additionalProperties": False,
}


async def ask(number: int, amount: int, client: Client, **more: Any) -> dict[str, Any]:
    """Ask about a call."""
    arguments = {"to": "ACME", "amount": amount, "invoice": number}
    request = {"source": "bench", "tool": "pay", "arguments": arguments, **more}
    answer: dict[str, Any] = json.loads(await client.ask("POST", "/api/asks", json.dumps(request).encode()))
    assert answer["state"] == ("approved" if amount <= 50 else "waiting")
    return answer


async def allowed(number: int, client: Client) -> None:
    """Ask about a call that a rule lets pass."""
    await ask(number, 20, client)


async def described(number: int, client: Client) -> None:
    """Ask about a call that a rule lets pass, with the schema of its arguments."""
    await ask(number, 20, client, schema=SCHEMA)


async def waiting(number: int, client: Client) -> None:
    """Ask about a call that a person decides on."""
    await ask(number, 900, client)


async def whole(number: int, client: Client) -> None:
    """Ask about a call that a rule lets pass, and report its start and its end."""
    id, holder = (await ask(number, 20, client))["id"], f"h{number}"
    await client.ask("POST", f"/api/asks/{id}/start", json.dumps({"holder": holder}).encode())
    report = json.dumps({"holder": holder, "output": "paid"}).encode()
    ended = json.loads(await client.ask("POST", f"/api/asks/{id}/finish", report))
    assert ended["state"] == "finished"


WAYS: dict[str, Way] = {"allowed": allowed, "described": described, "waiting": waiting, "whole": whole}


async def measure_asks(clock: Clock, store: Store, url: str, asks: int, clients: int) -> None:
    """Time asks of one program and of so many at once, each with a token of its own, at one `assentry serve`."""
    tokens = [await accounts_of(store).add_token(f"program {n}", "agent") for n in range(clients)]
    with _rules_file() as rules:
        async with serve(url, "--rules", rules) as (pid, port):
            for count, some in (("one", tokens[:1]), ("many", tokens)):
                for name, way in WAYS.items():
                    async with AsyncExitStack() as stack:  # new ones each time: the server closes those that are idle
                        programs = [await stack.enter_async_context(Client(port, token)) for token in some]
                        await asyncio.gather(*(whole(n, each) for n, each in enumerate(programs)))  # opens the rest
                        await _measure(clock, f"{name}_{count}", way, programs, pid, asks)


@contextmanager
def _rules_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rules.toml")
        file.write_text(RULES, "utf-8")
        yield str(file)


async def _measure(clock: Clock, name: str, way: Way, programs: Sequence[Client], pid: int, asks: int) -> None:
    before = cpu_of([pid]), time.process_time()
    times = await through(programs, [partial(way, number) for number in range(asks)], clock, name)
    after = cpu_of([pid]), time.process_time()
    clock.metric(f"asks_per_second_{name}", asks / (clock.wall[name] / 1e9))
    clock.metric(f"ask_p50_ms_{name}", percentile(times, 50))
    clock.metric(f"ask_p99_ms_{name}", percentile(times, 99))
    if before[0] is not None and after[0] is not None:
        clock.metric(f"inbox_cpu_ms_{name}", (after[0] - before[0]) * 1000 / asks)
    clock.metric(f"client_cpu_ms_{name}", (after[1] - before[1]) * 1000 / asks)
