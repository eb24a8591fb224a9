"""A worker in a process of its own, which can be killed, with agents whose models are functions of what they hear.

What its tools do is a line in a file, on the disk before the body goes on. It kills itself, by SIGKILL, at the moment
that it is told: the n-th time that it comes to it. Any other process can go on with its runs.

As a program it is a nursery: it imports everything once, and forks a worker for every line on its standard input.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from temporalio.client import Client
from temporalio.worker import Worker

from assentry import Agent, Happened, ModelRequest, NotHappened, ToolContext, function_tool
from assentry.engines.temporal import ActivityOptions, AssentryPlugin
from assentry.engines.temporal.archive import StoreArchive
from assentry.engines.temporal.slice import Slices
from assentry.store.sqlite import SQLiteStore
from assentry.testing import ScriptedModel, call

from .support import until

HEARTBEAT = 2.0
"""The seconds after which a worker that is dead is given up."""


class Case(NamedTuple):
    """What one worker does: where its runs live, where its effects go, and when it is killed."""

    address: str
    queue: str
    folder: str
    """The folder of the store, of the effects, and of the files by which tests and bodies wait for each other."""
    moment: str = ""
    number: int = 1
    cached: int = 1000


class Death:
    """Kills the process at the n-th of some moment."""

    def __init__(self, moment: str, number: int) -> None:
        self.moment, self.number = moment, number
        self.seen: Counter[str] = Counter()

    def __call__(self, moment: str) -> None:
        self.seen[moment] += 1
        if moment == self.moment and self.seen[moment] == self.number:
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()  # it is on its way


now: Callable[[str], None] = Death("", 0)
"""Tells that a moment has come."""
folder = Path()
"""The folder of this worker's case."""


# -- what is done outside ------------------------------------------------------------------------------


def note(folder: Path, line: str) -> None:
    """Add a line to the effects, on the disk before anything else is done."""
    file = os.open(folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)


def effects(folder: Path) -> list[str]:
    """Return all that was done, in order."""
    file = folder / "effects"
    return file.read_text().splitlines() if file.exists() else []


async def do(what: str) -> str:
    """Do something outside, in two parts, between which a worker may die."""
    note(folder, f"begin {what}")
    now("inside a body")
    await asyncio.sleep(0)
    note(folder, f"end {what}")
    now("at the end of a body")
    return f"done: {what}"


@function_tool(needs_approval=True)
async def refund(order: int) -> str:
    """Refund an order."""
    return await do(f"refund {order}")


@function_tool
async def pay(order: int) -> str:
    """Pay for an order."""
    return await do(f"pay {order}")


@function_tool(idempotent=True)
async def log(order: int) -> str:
    """Write a line into a log that knows the lines it has."""
    return await do(f"log {order}")


async def weighed(ctx: ToolContext[Any], arguments: dict[str, Any]) -> Happened | NotHappened:
    """Look whether something was weighed."""
    now("in a probe")
    what = f"weigh {arguments['order']}"
    return Happened(f"done: {what}") if f"end {what}" in effects(folder) else NotHappened()


@function_tool(probe=weighed)
async def weigh(order: int) -> str:
    """Weigh an order."""
    return await do(f"weigh {order}")


@function_tool
async def hold(order: int) -> str:
    """Hold on until the file `go` is there."""
    note(folder, f"begin hold {order}")
    await until((folder / "go").exists)
    note(folder, f"end hold {order}")
    return f"done: hold {order}"


@function_tool
async def far(order: int) -> str:
    """Do something on other machines."""
    return await do(f"far {order}")


@function_tool(needs_approval=True, deadline=2)
async def hurry(order: int) -> str:
    """Do something that must be approved soon."""
    return await do(f"hurry {order}")


# -- who speaks ----------------------------------------------------------------------------------------


def heard(request: ModelRequest) -> list[str]:
    """Return what calls have given so far."""
    return [str(item["output"]).splitlines()[0] for item in request.input if item.get("type") == "function_call_output"]


def told(request: ModelRequest) -> list[str]:
    """Return what users have said."""
    return [str(item["content"]) for item in request.input if item.get("role") == "user"]


def office(request: ModelRequest) -> Any:
    """Call several tools at once, then one alone, then end."""
    now("in a model call")
    given = heard(request)
    if not given:
        return [
            call("refund", {"order": 1}),
            call("refund", {"order": 2}),
            call("pay", {"order": 3}),
            call("log", {"order": 4}),
            call("weigh", {"order": 5}),
        ]
    if len(given) == 5:
        return call("pay", {"order": 6})
    return " | ".join(given)


def clerk(request: ModelRequest) -> Any:
    """Call the tools that the user names, one after another: "refund 7, pay 8"; `hang` hangs."""
    wanted = [part.split() for text in told(request) for part in text.split(", ")]
    given = heard(request)
    if len(given) == len(wanted):
        return " | ".join(given)
    tool, order = wanted[len(given)]
    return hang() if tool == "hang" else call(tool, {"order": int(order)})


def pair(request: ModelRequest) -> Any:
    """Call two tools at once."""
    return " | ".join(heard(request)) or [call("hold", {"order": 1}), call("pay", {"order": 2})]


async def hang() -> Any:
    """Hang as long as the file `hang` is there."""
    note(folder, "hang")
    await until(lambda: not (folder / "hang").exists())
    return "It hung."


TOOLS = [refund, pay, log, weigh, hold, far, hurry]


def agents() -> list[Agent[Any]]:
    """Return the agents, made anew."""
    return [
        Agent("Office", tools=TOOLS, model=ScriptedModel(itertools.repeat(office))),
        Agent("Pair", tools=TOOLS, model=ScriptedModel(itertools.repeat(pair))),
        Agent("Clerk", tools=TOOLS, model=ScriptedModel(itertools.repeat(clerk))),
    ]


# -- the process ---------------------------------------------------------------------------------------


def tell_of_activities() -> None:
    """Have the beginning and the end of every activity told."""
    begin, perform, decide, keep = Slices.begin, Slices.perform, Slices.decide, StoreArchive.keep

    async def telling(kind: str, work: Any) -> Any:
        now(f"before {kind}")
        done = await work
        now(f"after {kind}")
        return done

    def telling_perform(self: Any, order: Any, *rest: Any) -> Any:
        return telling("enter" if order.call is not None else "advance", perform(self, order, *rest))

    Slices.begin = lambda self, *rest: telling("begin", begin(self, *rest))  # type: ignore[method-assign]
    Slices.perform = telling_perform  # type: ignore[method-assign]
    Slices.decide = lambda self, *rest: telling("decide", decide(self, *rest))  # type: ignore[method-assign]
    StoreArchive.keep = lambda self, *rest: telling("keep", keep(self, *rest))  # type: ignore[method-assign]


def plugin(store: SQLiteStore, queue: str) -> AssentryPlugin:
    """Return the plug-in of a worker, with short times."""
    return AssentryPlugin(
        agents(),
        store=store,
        default=ActivityOptions(heartbeat_timeout=timedelta(seconds=HEARTBEAT)),
        tool_options={
            "far": ActivityOptions(task_queue=f"{queue}-far", schedule_to_start_timeout=timedelta(seconds=1))
        },
    )


async def work(case: Case) -> None:
    """Drive runs, until killed."""
    client = await Client.connect(case.address)
    async with (
        SQLiteStore(folder / "runs.db") as store,
        Worker(
            client,
            task_queue=case.queue,
            plugins=[plugin(store, case.queue.removesuffix("-far"))],
            max_cached_workflows=case.cached,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        ),
    ):
        (folder / f"up-{os.getpid()}").touch()
        await asyncio.Event().wait()


def child(case: Case) -> None:
    """Be that worker."""
    global now, folder
    now, folder = Death(case.moment, case.number), Path(case.folder)
    try:
        asyncio.run(work(case))
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def nursery() -> None:
    """Fork a worker for every line, and say its number."""
    tell_of_activities()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(2, 1)  # temporalio logs to the standard output, which is the nursery's
            child(Case(*json.loads(line)))
        print(process, flush=True)


if __name__ == "__main__":
    nursery()
