"""Workers in processes of their own, for tests that kill them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from assentry.engines.temporal import TemporalRun, TemporalRuns, Waiting
from assentry.errors import RunNotFound
from assentry.ids import new_id
from assentry.store import SQLiteStore

from .support import Server, until
from .worker_program import Case, effects

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0
"""The seconds after which a run hangs."""


class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, pid: int, case: Case) -> None:
        self.pid, self.case = pid, case

    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    async def up(self) -> WorkerProcess:
        """Wait until it polls."""
        await until(lambda: Path(self.case.folder, f"up-{self.pid}").exists(), "the worker")
        return self

    def kill(self) -> None:
        """Kill it by SIGKILL, if it is still there."""
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)

    async def dead(self) -> None:
        """Wait until it is no more."""
        await until(lambda: not self.is_alive(), f"the death of the worker at {self.case.moment!r}")


class Nursery:
    """A process that has imported everything, and forks workers."""

    def __enter__(self) -> Nursery:
        command = [sys.executable, "-m", "tests.engines.temporal.worker_program"]
        self._process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._workers: list[WorkerProcess] = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_all()
        self._process.communicate()

    def kill_all(self) -> None:
        """Kill all workers."""
        while self._workers:
            self._workers.pop().kill()

    def worker(self, case: Case) -> WorkerProcess:
        """Fork a worker, and return it at once."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        made = WorkerProcess(int(self._process.stdout.readline()), case)
        self._workers.append(made)
        return made


class Place:
    """A task queue, a folder with the store and the effects, and workers for them."""

    def __init__(self, server: Server, nursery: Nursery, folder: Path) -> None:
        self.server, self.nursery, self.folder = server, nursery, folder
        self.queue = new_id("queue")

    async def runs(self, **options: Any) -> TemporalRuns:
        """Return the runs of this place, over a connection of their own."""
        return TemporalRuns(await self.server.client(), task_queue=self.queue, **options)

    def case(self, queue: str = "", cached: int = 1000) -> Case:
        return Case(self.server.address, self.queue + queue, str(self.folder), cached=cached)

    def worker(self, queue: str = "", cached: int = 1000) -> WorkerProcess:
        """Fork a worker for this place, and return it at once."""
        return self.nursery.worker(self.case(queue, cached))

    def done(self) -> list[str]:
        """Return what bodies did, in order."""
        return effects(self.folder)

    async def did(self, line: str) -> None:
        """Wait until a body did something."""
        await until(lambda: line in self.done(), line)

    async def facts(self, run: TemporalRun) -> list[str]:
        """Return the kinds of the run's facts in the store."""
        async with SQLiteStore(self.folder / "runs.db") as store:
            return [entry.fact["fact"] for entry in await store.history(run.id)]

    async def kept(self, run: TemporalRun, kind: str) -> dict[str, Any]:
        """Wait until the store has a fact of this kind, and return the last one."""
        async with SQLiteStore(self.folder / "runs.db") as store:
            for _ in range(1200):
                with suppress(RunNotFound):
                    if found := await store.history(run.id, kinds={kind: ""}):
                        return found[-1].fact
                await asyncio.sleep(0.05)  # another process writes it
        raise AssertionError(f"{kind} was not kept")

    async def problems(self, run: TemporalRun) -> list[Any]:
        """Return what is wrong with the run's chain in the store."""
        async with SQLiteStore(self.folder / "runs.db") as store:
            return list(await store.verify(run.id))


async def start(runs: TemporalRuns, input: str, **options: Any) -> TemporalRun:
    """Start a run of the clerk, whose workflow tasks are soon given up if a worker dies."""
    return await runs.start("Clerk", input, task_timeout=timedelta(seconds=2), **options)


async def result(run: TemporalRun) -> Any:
    """Return the run's output, once the run is over."""
    async with asyncio.timeout(PATIENCE):
        return await run.result()


async def asked(run: TemporalRun) -> Waiting:
    """Wait until the run asks, and return its only question."""
    async with asyncio.timeout(PATIENCE):
        standing = await run.settled()
    assert standing.status == "waiting", standing
    [question] = standing.questions
    return question
