"""`assentry worker`: run a worker for the agents of a module."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from argparse import Namespace
from typing import Any

from ..core.wording import described, worded
from ..engines.worker import Worker
from ..errors import UsageError
from ..store.open import open_store
from .write import put, say


async def work(options: Namespace) -> int:
    """Drive runs until a signal comes; with `--once`, until no run has work left."""
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING, format="%(levelname)s %(message)s")
    agents = find(options.agents)
    async with open_store(options.url) as store:
        worker = Worker(
            store,
            agents,
            concurrency=options.concurrency,
            lease=options.lease,
            poll=options.poll,
            drain=options.drain,
            name=options.name,
        )
        if options.once:
            put(f"Drives: {await worker.run_until_idle()}")
            return 0
        names = ", ".join(worker.agents.names())
        say(f"Worker {worker.name} is at work for {names} on {store}; SIGTERM or Ctrl-C ends it.")
        await worker.run()
    say("The worker has ended.")
    return 0


def find(place: str) -> Any:
    """Import the object at `module:name`. The working directory is searched too."""
    module, colon, name = place.partition(":")
    if not module or not colon or not name:
        raise UsageError(f"Agents are named as module:name, such as shop:agents, got {described(place)}.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise UsageError(f"There is no module {error.name!r}, here or installed.") from None
        raise UsageError(f"Module {module!r} cannot be imported: {worded(error)}.") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"Module {module!r} has no {name!r}.")
        found = getattr(found, part)
    return found
