"""A process that takes part in a race: it says when it is ready, waits for the word, and does one thing at once.

    python -m tests.store.race_program work|decide|resume|fill ADDRESS EFFECTS [ARGUMENT]

What it came to is the last line of its output, as JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from assentry import Agent, ModelRequest, Runner, ToolContext, function_tool
from assentry.engines import Worker
from assentry.errors import AlreadyDecided, Conflict, RunFinished, StoreFailed
from assentry.store import SQLiteStore, Store, open_store
from assentry.testing import ScriptedModel, call


def note(ctx: ToolContext[Any], what: str) -> None:
    """Write down what was done, where other processes see it."""
    file = os.open(ctx.context["effects"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{what} {ctx.context['name']}\n".encode())
    os.close(file)


@function_tool(needs_approval=True)
async def send(ctx: ToolContext[Any], to: str) -> str:
    """Send a mail."""
    await asyncio.sleep(0)
    note(ctx, "send")
    return f"sent to {to}"


@function_tool
async def pay(ctx: ToolContext[Any], order: int) -> str:
    """Pay for an order."""
    await asyncio.sleep(0)
    note(ctx, f"pay {order}")
    return f"paid {order}"


def think(request: ModelRequest) -> Any:
    given = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    if not given:
        return call("send", {"to": "bob"})
    return [call("pay", {"order": n}) for n in (1, 2)] if len(given) == 1 else " | ".join(given)


OUTPUT = "sent to bob | paid 1 | paid 2"
EFFECTS = ("send", "pay 1", "pay 2")


def agent() -> Agent[Any]:
    """An agent for any number of runs: it asks before it sends, and then it pays twice at once."""
    return Agent("Shop", tools=[send, pay], model=ScriptedModel(itertools.repeat(think)))


async def begin(store: Store, effects: Path | str, name: str = "one") -> str:
    """A run that waits for a person."""
    result = await Runner.run(agent(), "go", store=store, context={"effects": str(effects), "name": name})
    return result.run_id


def done(effects: Path | str) -> Counter[str]:
    """What was done, and how often."""
    return Counter(Path(effects).read_text().splitlines()) if os.path.exists(effects) else Counter()


def opened(address: str) -> Store:
    """The store at an address, with patience: many share it, and a busy machine may let one wait for long."""
    return open_store(address) if address.startswith("postgresql") else SQLiteStore(address, busy_timeout=100)


def ready() -> None:
    """Say so, and wait for the word."""
    print("ready", flush=True)
    sys.stdin.readline()


async def work(address: str, effects: str, count: str) -> Any:
    """So many workers, each with a store of its own, until nothing is owed."""
    stores = [opened(address) for _ in range(int(count))]
    await asyncio.gather(*(store.runs(limit=1) for store in stores))
    workers = [Worker(store, agent(), concurrency=3) for store in stores]
    ready()
    drives = await asyncio.gather(*(worker.run_until_idle() for worker in workers))
    await asyncio.gather(*(store.close() for store in stores))
    return sum(drives)


async def decide(address: str, effects: str, verdict: str) -> Any:
    """Decide on every question, whoever was first."""
    told: dict[str, list[str]] = {}
    async with opened(address) as store:
        questions = (await store.questions(limit=1000)).items
        ready()
        for question in questions:
            try:
                settled = await store.decide(question.id, {"type": verdict}, by=verdict, digest=question.digest)
                told[question.id] = ["won", str(settled.verdict), str(settled.by)]
            except AlreadyDecided as error:
                told[question.id] = ["lost", error.verdict, error.by]
    return told


async def resume(address: str, effects: str, runs: str) -> Any:
    """Go on with runs, each as it was before the others could."""
    told: dict[str, str] = {}
    async with opened(address) as store:
        loaded = [await store.load(run) for run in runs.split(",")]
        ready()
        for stored in loaded:
            try:
                told[stored.record.id] = str((await Runner.run(agent(), stored, store=store)).final_output)
            except Conflict as error:
                told[stored.record.id] = type(error).__name__
    return told


async def fill(address: str, effects: str, room: str) -> Any:
    """Run where no file, and so no database's log, can grow beyond some size; when it is full make room, and go on."""
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    failures = []
    async with opened(address) as store:
        run = (await store.runs(limit=1)).items[0].id
        start: Any = await store.load(run)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), whole[1]))
        for _ in range(5):
            try:
                result = await Runner.run(agent(), start, store=store)
                return [result.final_output, failures]
            except StoreFailed as error:
                failures.append(str(error))
                start = error.state
                resource.setrlimit(resource.RLIMIT_FSIZE, whole)
            except RunFinished:  # it was done, and only the lease could not be given back
                return [start._view().output(), failures]
    raise AssertionError(failures)


PARTS: dict[str, Any] = {"work": work, "decide": decide, "resume": resume, "fill": fill}

if __name__ == "__main__":
    part, *given = sys.argv[1:]
    print(json.dumps(asyncio.run(PARTS[part](*given))), flush=True)
