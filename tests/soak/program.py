"""Thousands of runs, two workers in processes of their own, and people who decide meanwhile: `make soak`.

Every effect is a line in a file, written by whichever process had it. In the end each call has one line and one outcome
in its journal, and nobody was asked what became of a call.

    python -m tests.soak --store sqlite --runs 10000
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from assentry import Agent, Approve, Runner, function_tool
from assentry.core import facts as f
from assentry.engines import Worker
from assentry.errors import AlreadyDecided, NotPending
from assentry.store import MemoryStore, PostgresStore, SQLiteStore, Store
from assentry.testing import ScriptedModel, call
from tests.store.postgres import server

TURNS = (("gated", "plain"), ("plain",), ("plain", "gated"))
AT_ONCE = 20
"""How many runs each worker, and whoever begins them, has at the same time."""


def agent_of(effects: Path) -> Agent[Any]:
    """The agent, whose tools leave a line each time that they are entered, and one when they are done."""
    log = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def work(name: str) -> str:
        await asyncio.sleep(0.002)
        os.write(log, f"{name}\n".encode())
        return f"did {name}"

    @function_tool
    async def plain(name: str) -> str:
        return await work(name)

    @function_tool(needs_approval=True)
    async def gated(name: str) -> str:
        return await work(name)

    return Agent("soak", tools=[plain, gated], model=ScriptedModel(repeat(think)))


def think(request: Any) -> Any:
    """The next turn of the script, or the end."""
    run = next(item["content"] for item in request.input if item.get("role") == "user")
    made = sum(item.get("type") == "function_call" for item in request.input)
    for turn, tools in enumerate(TURNS):
        if made == 0:
            return [call(tool, {"name": f"{run}.{turn}.{number}"}) for number, tool in enumerate(tools)]
        made -= len(tools)
    return "done"


def opened(address: str) -> SQLiteStore | PostgresStore:
    return PostgresStore(address) if address.startswith("postgresql") else SQLiteStore(address, busy_timeout=60)


# -- the processes -----------------------------------------------------------------------------------


def work(address: str, effects: Path, stop: Any) -> None:
    """A worker, until told to stop."""

    async def run() -> None:
        async with opened(address) as store:
            await serve(store, effects, stop)

    asyncio.run(run())


async def serve(store: Store, effects: Path, stop: Any) -> None:
    worker = Worker(store, agent_of(effects), concurrency=AT_ONCE, poll=0.05)
    serving = asyncio.ensure_future(worker.run(signals=False))
    while not stop.is_set() and not serving.done():  # noqa: ASYNC110 - the event is another process's
        await asyncio.sleep(0.1)
    worker.stop()
    await serving


def decide(address: str, doubts: Any, stop: Any) -> None:
    """Two people, until told to stop."""

    async def run() -> None:
        async with opened(address) as store:
            await asyncio.gather(*(person(store, name, doubts, stop) for name in ("ann", "bob")))

    asyncio.run(run())


async def person(store: Store, name: str, doubts: Any, stop: Any) -> None:
    while not stop.is_set():
        await asyncio.sleep(0.001)
        for question in (await store.questions(limit=100)).items:
            if question.kind == "doubt":
                doubts.value += 1
            with suppress(AlreadyDecided, NotPending):
                await store.decide(question.id, Approve(), by=name, digest=question.digest)


async def begin(store: Store, effects: Path, runs: int) -> None:
    """Begin the runs, each driven here as far as it goes, while others decide and go on with it."""
    agent, numbers = agent_of(effects), iter(range(runs))

    async def some() -> None:
        for number in numbers:
            await Runner.run(agent, f"r{number}", store=store)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def ended(store: Store, runs: int) -> None:
    """Wait until all of them are done."""
    while len((await store.runs(status="done", limit=1000)).items) < min(runs, 1000) or await unfinished(store):
        await asyncio.to_thread(time.sleep, 0.2)


async def unfinished(store: Store) -> bool:
    return any([(await store.runs(status=status, limit=1)).items for status in ("working", "waiting")])


# -- what came of it -----------------------------------------------------------------------------------


async def count(store: Store, effects: Path, doubts: int) -> list[str]:
    """What is wrong, in words."""
    happened = Counter((await asyncio.to_thread(effects.read_text)).split())
    expected, wrong = Counter[str](), list[str]()
    after: str | None = None
    while True:
        page = await store.runs(limit=1000, after=after)
        for record in page.items:
            facts = (await store.load(record.id)).facts
            outcomes = Counter(fact.call for fact in facts if isinstance(fact, f.Finished))
            calls = [each.id for fact in facts if isinstance(fact, f.Replied) for each in fact.calls]
            if outcomes != Counter(calls) or record.status != "done":
                wrong.append(f"run {record.id} is {record.status}, with outcomes {dict(outcomes)} of calls {calls}")
            name = next(bytes(fact.items).decode() for fact in facts if isinstance(fact, f.Said)).split('"')[-2]
            expected.update(f"{name}.{turn}.{n}" for turn, tools in enumerate(TURNS) for n in range(len(tools)))
        after = page.next
        if after is None:
            break
    twice = [name for name, times in happened.items() if times > 1]
    wrong += [f"{len(twice)} effects happened twice, such as {twice[0]}"] if twice else []
    missing = [name for name in expected if name not in happened]
    wrong += [f"{len(missing)} effects did not happen, such as {missing[0]}"] if missing else []
    wrong += [f"{doubts} questions asked what became of a call"] if doubts else []
    print(f"{len(expected)} effects of {len(expected) // sum(map(len, TURNS))} runs: {len(wrong)} faults")
    return wrong


@contextmanager
def address_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "postgres":
        with server() as made:
            yield made.database()
    else:
        yield str(folder / "runs.db")


def in_processes(kind: str, runs: int, folder: Path) -> list[str]:
    context = multiprocessing.get_context("spawn")
    effects, stop, doubts = folder / "effects", context.Event(), context.Value("i", 0)

    async def lead(address: str) -> list[str]:
        async with opened(address) as store:
            await store.upgrade()
            others = [context.Process(target=work, args=(address, effects, stop)) for _ in range(2)]
            others.append(context.Process(target=decide, args=(address, doubts, stop)))
            for other in others:
                other.start()
            try:
                await begin(store, effects, runs)
                await ended(store, runs)
            finally:
                stop.set()
                for other in others:
                    await asyncio.to_thread(other.join)
            wrong = [f"a process ended with {other.exitcode}" for other in others if other.exitcode]
            return wrong + await count(store, effects, doubts.value)

    with address_of(kind, folder) as address:
        return asyncio.run(lead(address))


async def in_memory(runs: int, folder: Path) -> list[str]:
    store, effects, stop = MemoryStore(), folder / "effects", asyncio.Event()
    doubts = type("Value", (), {"value": 0})()
    others = [serve(store, effects, stop), serve(store, effects, stop)]
    others += [person(store, name, doubts, stop) for name in ("ann", "bob")]
    tasks = [asyncio.ensure_future(other) for other in others]
    await begin(store, effects, runs)
    await ended(store, runs)
    stop.set()
    await asyncio.gather(*tasks)
    return await count(store, effects, doubts.value)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=("memory", "sqlite", "postgres"), default="sqlite")
    parser.add_argument("--runs", type=int, default=10_000)
    given = parser.parse_args()
    start = time.monotonic()
    with TemporaryDirectory() as folder:
        path = Path(folder)
        if given.store == "memory":
            wrong = asyncio.run(in_memory(given.runs, path))
        else:
            wrong = in_processes(given.store, given.runs, path)
    print(f"{given.store}: {time.monotonic() - start:.0f} seconds")
    if wrong:
        sys.exit("\n".join(wrong[:20]))
