"""Workers in processes of their own, for tests that kill them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from .support import until
from .worker_program import Case, effects

ROOT = Path(__file__).parents[3]


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
        for worker in self._workers:
            worker.kill()
        self._process.communicate()

    def worker(self, case: Case) -> WorkerProcess:
        """Fork a worker, and return it at once."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        made = WorkerProcess(int(self._process.stdout.readline()), case)
        self._workers.append(made)
        return made


def begun(folder: Path, what: str) -> int:
    """Return how often a body was entered."""
    return effects(folder).count(f"begin {what}")
