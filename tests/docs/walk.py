"""Counts the modules that one approval passes through: `python tests/docs/walk.py`.

With `-v` it prints their names, with `--write` it writes the numbers into `docs/explanation/architecture.md`.

The walk has three legs, each in a process of its own, on one SQLite store: an agent asks, a person decides, a worker
resumes. A module counts for a leg if one of its functions is called between the leg's start and its end. Importing the
module does not count, and neither do the scripted model and the creation of the tables.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import assentry
from assentry import Agent, Approve, Runner, function_tool
from assentry.engines import Worker
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call

SOURCE = Path(assentry.__file__).parent
PAGE = Path(__file__).parent.parent.parent / "docs" / "explanation" / "architecture.md"
LEGS = ("ask", "decide", "resume")
OPTIONAL = ("assentry.agents", "assentry.cli", "assentry.migrate", "assentry.outside", "assentry.store.migrations")
"""Packages that no leg uses; their modules do something when they are imported, or need more to be installed."""


class Trace:
    """The modules of Assentry in which a function was called, on any thread, while the trace was on."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.on = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if self.on and event == "call" and frame.f_code.co_name != "<module>":
            self.modules.add(frame.f_code.co_filename)

    def names(self) -> list[str]:
        """Return the modules as paths in the package, without the test helpers."""
        inside = [Path(name).relative_to(SOURCE) for name in self.modules if Path(name).is_relative_to(SOURCE)]
        return sorted(path.as_posix() for path in inside if path.parts[0] != "testing")


TRACE = Trace()


@function_tool(needs_approval=True)
async def refund(order: int, amount: float) -> str:
    """Give a customer money back."""
    return f"Refunded {amount:.2f} on order {order}."


def shop(*script: Any) -> Agent[Any]:
    """Return the agent with the replies of its model."""
    return Agent(name="Shop", instructions="Help customers.", tools=[refund], model=ScriptedModel([*script]))


async def ask(store: SQLiteStore) -> None:
    """Run the agent until it waits."""
    agent = shop(call("refund", {"order": 7, "amount": 90}))
    await store.upgrade()
    TRACE.on = True
    result = await Runner.run(agent, "My order 7 never came.", store=store)
    TRACE.on = False
    assert result.interruptions


async def decide(store: SQLiteStore) -> None:
    """Approve the one open question."""
    [question] = (await store.questions()).items
    TRACE.on = True
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    TRACE.on = False


async def resume(store: SQLiteStore) -> None:
    """Let a worker finish the run."""
    worker = Worker(store, shop("Done."))
    TRACE.on = True
    await worker.run_until_idle()
    TRACE.on = False
    [run] = (await store.runs()).items
    assert run.status == "done", run.status


async def walk(leg: str, path: str) -> None:
    """Walk one leg in this process, and print its modules as JSON."""
    for module in pkgutil.walk_packages(assentry.__path__, "assentry."):  # importing is no part of a leg
        if not module.name.startswith(OPTIONAL):
            importlib.import_module(module.name)
    threading.setprofile(TRACE)
    sys.setprofile(TRACE)
    async with SQLiteStore(path) as store:
        await {"ask": ask, "decide": decide, "resume": resume}[leg](store)
    sys.setprofile(None)
    print(json.dumps(TRACE.names()))


def legs() -> dict[str, list[str]]:
    """Walk all legs, each in a process of its own, and return their modules."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "runs.db")
        commands = {leg: [sys.executable, __file__, leg, path] for leg in LEGS}
        return {leg: json.loads(subprocess.check_output(command, timeout=300)) for leg, command in commands.items()}


def row(leg: str) -> re.Pattern[str]:
    """Return the pattern of a leg's row on the page; its last group is the number of modules."""
    return re.compile(rf"^(\| {leg} \|.*\| )(\d+)(?= \|$)", re.MULTILINE)


def main() -> None:
    """Print how many modules each leg passes through."""
    for leg, modules in legs().items():
        print(f"{leg}: {len(modules)} modules")
        if "--write" in sys.argv:
            PAGE.write_text(row(leg).sub(rf"\g<1>{len(modules)}", PAGE.read_text("utf-8")), "utf-8")
        if "-v" in sys.argv:
            print("".join(f"    {module}\n" for module in modules))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(walk(*sys.argv[1:]))
    else:
        main()
