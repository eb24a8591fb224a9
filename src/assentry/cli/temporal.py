"""`assentry temporal`: workers of runs on Temporal, and the search attributes of such runs."""

from __future__ import annotations

import asyncio
import logging
import signal
from argparse import Namespace
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..core.wording import install_hint
from ..errors import UsageError
from ..store.open import open_store
from .worker import find
from .write import put_json, say

if TYPE_CHECKING:
    from ..store.store import Store

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _engine() -> Any:
    """Import the engine; raise `UsageError` if its library is missing."""
    try:
        from ..engines import temporal
    except ImportError as error:
        raise UsageError(f"Runs on Temporal need more ({error}): {install_hint('temporal')}") from None
    return temporal


async def attach_engine(store: Store, address: str | None) -> None:
    """Give a store the way to the Temporal server of its runs, if there is an address."""
    if address:
        engine = _engine()
        store.engine = engine.TemporalRuns(await engine.connect(address))


async def work_on_temporal(options: Namespace) -> int:
    """Run a worker for the agents of a module until a signal comes."""
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING, format="%(levelname)s %(message)s")
    engine, agents = _engine(), find(options.agents)
    from temporalio.worker import Worker

    client = await engine.connect(options.address)
    async with open_store(options.url, upgrade=True) as store:
        plugin = agents
        if not isinstance(agents, engine.AssentryPlugin):
            usual = engine.ActivityOptions(heartbeat_timeout=timedelta(seconds=options.heartbeat))
            plugin = engine.AssentryPlugin(agents, store=store, default=usual)
        worker = Worker(
            client,
            task_queue=options.task_queue,
            plugins=[plugin],
            max_concurrent_activities=options.concurrency,
            graceful_shutdown_timeout=timedelta(seconds=options.drain),
        )
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            with suppress(NotImplementedError):  # on Windows
                loop.add_signal_handler(number, stopped.set)
        async with worker:
            names = ", ".join(plugin.agents.names())
            say(f"A worker is at work for {names} on task queue {options.task_queue!r}; SIGTERM or Ctrl-C ends it.")
            await stopped.wait()
    say("The worker has ended.")
    return 0


async def set_up(options: Namespace) -> int:
    """Register the search attributes of runs."""
    engine = _engine()
    made = await engine.register_search_attributes(await engine.connect(options.address))
    if options.json:
        put_json({"registered": made})
        return 0
    say(f"Registered: {', '.join(made)}." if made else "The search attributes are registered already.")
    return 0
