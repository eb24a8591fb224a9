"""A program that is killed: an office with approvals, parallel calls, an agent in an agent, and a body that asks.

What its models say is a function of what they hear, and what its person says of what she is asked, so that any other
process can go on with its run. What its tools do is a line in a file. It kills itself, by SIGKILL, at the moment that
it is told: before or after the n-th write to the store, inside a write, at the n-th fact, at the n-th effect.

As a program it is a nursery: it imports everything once, and forks a child for every line on its standard input.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from assentry import (
    Agent,
    Approve,
    Decision,
    Edit,
    Happened,
    ModelRequest,
    NotHappened,
    Reject,
    Respond,
    RunConfig,
    Runner,
    ToolContext,
    function_tool,
)
from assentry.definitions.calling import _threads
from assentry.errors import RunNotFound
from assentry.runtime.journal import Journal
from assentry.runtime.state import state_of
from assentry.store import Change, Lease, Question, Store
from assentry.store.postgres import PostgresStore
from assentry.store.record import Stored
from assentry.store.sqlite import SQLiteStore
from assentry.testing import ScriptedModel, call

LEASE = 30.0
HANGS = 100
"""Seconds after which a child hangs, and is ended."""

MOMENTS = ("before a write", "after a write", "inside a write", "at a fact", "before an effect", "after an effect")


class Case(NamedTuple):
    """What one process does: where the run lives, where its effects go, and when it is killed."""

    store: str
    effects: str
    moment: str = ""
    number: int = 0
    later: float = 0.0
    """How many seconds its clock is ahead."""


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


NEVER = Death("", 0)
now: Callable[[str], None] = NEVER
"""Tells that a moment has come."""


# -- what is done outside ------------------------------------------------------------------------------


class Effects:
    """A file of what tools did, a line for each, on the disk before the tool goes on."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def add(self, what: str, key: str, output: str) -> None:
        line = json.dumps({"what": what, "key": key, "output": output}) + "\n"
        now("before an effect")
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
            os.fsync(file)
        finally:
            os.close(file)
        now("after an effect")

    def all(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def of(self, what: str) -> str | None:
        """What came of it, if it was done."""
        return next((each["output"] for each in self.all() if each["what"] == what), None)


def effects_of(ctx: Any) -> Effects:
    return Effects(ctx.context["effects"])


@function_tool
async def pay(ctx: ToolContext[Any], order: int) -> str:
    """Pay for an order."""
    await asyncio.sleep(0)
    effects_of(ctx).add(f"pay {order}", ctx.idempotency_key, f"paid {order}")
    return f"paid {order}"


@function_tool(needs_approval=True)
def send(ctx: ToolContext[Any], to: str) -> str:
    """Send a mail; in a thread."""
    effects_of(ctx).add(f"send {to}", ctx.idempotency_key, f"sent to {to}")
    return f"sent to {to}"


@function_tool(needs_approval=True)
async def file(ctx: ToolContext[Any], paper: int) -> str:
    """File a paper."""
    effects_of(ctx).add(f"file {paper}", ctx.idempotency_key, f"filed {paper}")
    return f"filed {paper}"


@function_tool
async def ship(ctx: ToolContext[Any], order: int) -> str:
    """Ship an order, when it is known where to."""
    effects, key = effects_of(ctx), ctx.idempotency_key
    await ctx.step("label", lambda: effects.add(f"label {order}", key, ""))
    place = await ctx.ask("Where to?", schema=str)
    await ctx.step("post", lambda: effects.add(f"post {order}", key, ""))
    output = f"{order} is on its way to {place}"
    await ctx.step("bill", lambda: effects.add(f"bill {order}", key, output))
    return output


@function_tool(idempotent=True)
async def log(ctx: ToolContext[Any], line: str) -> str:
    """Write a line into a log that knows the lines it has."""
    effects_of(ctx).add(f"log {line}", ctx.idempotency_key, "logged")
    return "logged"


async def weighed(ctx: ToolContext[Any], arguments: dict[str, Any]) -> Happened | NotHappened:
    """Look whether something was weighed."""
    found = effects_of(ctx).of(f"weigh {arguments['order']}")
    return NotHappened() if found is None else Happened(found)


@function_tool(probe=weighed)
async def weigh(ctx: ToolContext[Any], order: int) -> str:
    """Weigh an order."""
    effects_of(ctx).add(f"weigh {order}", ctx.idempotency_key, f"{order} kg")
    return f"{order} kg"


DONE = {
    *("pay 1", "pay 2", "send bob", "send ann", "file 1", "file 2", "file 3"),
    *("label 7", "post 7", "bill 7", "log begun", "log over", "weigh 7"),
}
"""All that should happen, each once."""
SHIPPED = ("label 7", "post 7", "bill 7")
"""What is done in one call, step by step."""
AGAIN = {"log begun", "log over"}
"""What may happen again without anybody's say."""
QUESTIONS = sorted(
    [
        ("approval", "send", '{"to":"bob"}'),
        ("approval", "send", '{"to":"eve"}'),
        ("approval", "send", '{"to":"mallory"}'),
        ("approval", "file", '{"paper":1}'),
        ("approval", "file", '{"paper":3}'),
        ("input", "ship", '{"order":7}'),
    ]
)
"""All that should be asked, each once."""


# -- who speaks ----------------------------------------------------------------------------------------


def heard(request: ModelRequest) -> list[str]:
    """What calls have given so far."""
    return [str(item["output"]).splitlines()[0] for item in request.input if item.get("type") == "function_call_output"]


def office(request: ModelRequest) -> Any:
    """What the office's model says."""
    given = heard(request)
    if not given:
        mails = [call("send", {"to": name}) for name in ("bob", "eve", "mallory")]
        return [call("pay", {"order": 1}), *mails, call("pay", {"order": 2}), call("log", {"line": "begun"})]
    if len(given) == 6:
        return [call("clerk", {"input": "File them."}), call("ship", {"order": 7}), call("weigh", {"order": 7})]
    if len(given) == 9:
        return call("log", {"line": "over"})
    return " | ".join(given)


def clerk(request: ModelRequest) -> Any:
    """What the clerk's model says."""
    given = heard(request)
    return call("file", {"paper": len(given) + 1}) if len(given) < 3 else " & ".join(given)


def agent() -> Agent[Any]:
    """The office, made anew."""
    inner = Agent("Clerk", tools=[file], model=ScriptedModel(itertools.repeat(clerk)))
    asked = inner.as_tool("clerk", "Files papers.")
    return Agent("Office", tools=[pay, send, ship, log, weigh, asked], model=ScriptedModel(itertools.repeat(office)))


OUTPUT = (
    "paid 1 | sent to bob | sent to ann | not to her | paid 2 | logged | filed 1 & filed 2 & filed 3 | "
    "7 is on its way to Porto | 7 kg | logged"
)


def done_by(question: Question) -> tuple[str, ...]:
    """What the call that is asked about does, in its order."""
    [value] = json.loads(question.arguments).values()
    steps = ("label", "post", "bill") if question.tool == "ship" else (question.tool,)
    return tuple(f"{what} {value}" for what in steps)


def answer(question: Question, effects: Effects) -> tuple[Decision, Any]:
    """What the person says, and for how long; where something is in doubt she looks at what was done."""
    if question.kind == "doubt":
        done = effects.of(done_by(question)[-1])
        return (Approve() if done is None else Respond(done)), None
    if question.kind == "input":
        return Respond("Porto"), None
    arguments = json.loads(question.arguments)
    if arguments == {"to": "eve"}:
        return Edit({"to": "ann"}), None
    if arguments == {"to": "mallory"}:
        return Reject("not to her"), None
    return Approve(), {"max_uses": 1} if arguments == {"paper": 1} else None


# -- the process ---------------------------------------------------------------------------------------


def telling(store: Any, effects: Effects) -> Store:
    """The store, that tells of what is written to it."""
    writer, name = (store._writer, "write") if isinstance(store, SQLiteStore) else (store, "_write")
    append, take, write = store.append, store.take, getattr(writer, name)

    async def telling_append(change: Change) -> None:
        if change.seq == 0:
            effects.path.with_suffix(".run").write_text(change.record.id)
        now("before a write")
        await append(change)
        now("after a write")

    async def telling_take(*given: Any, **options: Any) -> Lease:
        now("before a write")
        lease: Lease = await take(*given, **options)
        now("after a write")
        return lease

    def telling_write(work: Any, **options: Any) -> Any:
        def told(transaction: Any) -> Any:
            done = work(transaction)
            now("inside a write")
            return done

        return write(told, **options)

    store.append, store.take = telling_append, telling_take
    setattr(writer, name, telling_write)
    made: Store = store
    return made


def tell_of_facts() -> None:
    """Have every fact that a process adds to its journal told."""
    add, append = Journal.add, Journal.append

    def telling_add(self: Journal, fact: Any) -> None:
        add(self, fact)
        now("at a fact")

    def telling_append(self: Journal, facts: Any) -> None:
        append(self, facts)
        now("at a fact")

    Journal.add, Journal.append = telling_add, telling_append  # type: ignore[method-assign]


def store_at(address: str, later: float = 0.0) -> Store:
    """The store, with a clock that is ahead."""

    def clock() -> float:
        return time.time() + later

    if address.startswith("postgresql"):
        return PostgresStore(address, pool_size=3, clock=clock)
    return SQLiteStore(address, clock=clock)


def run_of(effects: Effects) -> str | None:
    """The run that was begun, or was about to be."""
    noted = effects.path.with_suffix(".run")
    return noted.read_text() if noted.exists() else None


async def taken_up(store: Store, effects: Effects) -> Stored | None:
    """The run as the store has it, if it was begun."""
    run = run_of(effects)
    try:
        return await store.load(run) if run is not None else None
    except RunNotFound:
        return None


async def work(store: Store, effects: Effects) -> Any:
    """Take the run up, or begin it, and see it through to its end; its output."""
    config = RunConfig(lease=LEASE)
    for _ in range(40):
        stored = await taken_up(store, effects)
        if stored is None:
            context = {"effects": str(effects.path)}
            await Runner.run(agent(), "Settle the orders.", store=store, context=context, run_config=config)
            continue
        questions = (await store.questions(run=stored.record.id)).items
        if stored.record.status == "working":
            result = await Runner.run(agent(), stored, store=store, run_config=config)
            if result.final_output is not None:
                return result.final_output
        for question in questions:
            decision, grant = answer(question, effects)
            await store.decide(question.id, decision, by="ann", digest=question.digest, grant=grant)
        if not questions and stored.record.status != "working":
            return state_of(agent(), stored, None, config)._view().output()
    raise AssertionError("the run does not come to an end")


async def live(case: Case) -> None:
    """One process, from its beginning to its end, or to its death."""
    store = telling(store_at(case.store, case.later), Effects(case.effects))
    try:
        output = await work(store, Effects(case.effects))
        assert output == OUTPUT, output
    finally:
        await store.close()


def child(case: Case) -> None:
    """Be that process."""
    global now
    now = Death(case.moment, case.number)
    signal.alarm(HANGS)
    try:
        asyncio.run(live(case))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def warm_up(case: Case) -> None:
    """Do here once what every child would have to do again; then the threads of it are ended."""
    asyncio.run(live(case))
    _threads().shutdown()
    _threads.cache_clear()
    for thread in threading.enumerate():  # a child gets none of them
        if thread is not threading.main_thread():
            thread.join(HANGS)
    gc.freeze()


def nursery() -> None:
    """Live the life on the first line here; then fork a child for every line, and say how it ended."""
    warm_up(Case(*json.loads(sys.stdin.readline())))
    tell_of_facts()
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            child(Case(*json.loads(line)))
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    nursery()
