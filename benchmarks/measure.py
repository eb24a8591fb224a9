"""The run itself: every repetition visits every peer once, in an order of its own, one at a time.

A noisy neighbour then hits all alike, and ratios of one run mean something; times of two runs never do.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from . import startup
from .cases import Case
from .peers import PEERS
from .workers import Failed, Worker

# A short scenario is executed more than once in a repetition, or the clock would be what is measured: as often as fits
# in this time, by one rule for all peers.
REPETITION_NS = 50_000_000
MOST_EXECUTIONS = 100

Record = dict[str, Any]


class Bench:
    """The peers of a run, by name with their interpreters; what they did goes to `record`, a dict at a time."""

    def __init__(
        self, pythons: Mapping[str, Path], record: Callable[[Record], object], log: IO[str], seed: int = 1
    ) -> None:
        self.pythons, self.record, self.log = dict(pythons), record, log
        self.failures: dict[str, str] = {}
        """What went wrong, by peer, or by peer and case."""
        self.versions: dict[str, str] = {}
        self._chance = random.Random(seed)
        self._workers: dict[str, Worker] = {}

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._workers):
            self._dismiss(name)

    def run(self, cases: Iterable[Case]) -> None:
        """Measure these cases."""
        for case in cases:
            began = time.monotonic()
            names = self._measure(case)
            print(f"{case.name}: {', '.join(names)} ({time.monotonic() - began:.0f} s)", flush=True)

    def _measure(self, case: Case) -> list[str]:
        names = [name for name in self.pythons if name in case.sides]
        inner: dict[str, int] = {}
        # The repetition before the first warms up and is not counted. In a fresh process there is none.
        for repetition in range(0 if case.fresh else -1, case.repetitions):
            self._chance.shuffle(names)
            for name in list(names):
                try:
                    measured = self._once(name, case, inner.get(name, 1))
                except Failed as error:
                    self._note(name, f"{name}, {case.name}", error)
                    measured = None
                if measured is None:
                    names.remove(name)
                    continue
                self.record({"case": case.name, "peer": name, "repetition": repetition} | measured)
                if repetition < 0 and not case.means:
                    spent = sum(measured["wall"].values())
                    inner[name] = max(1, min(MOST_EXECUTIONS, int(REPETITION_NS / max(1, spent))))
        return sorted(names)

    def _once(self, name: str, case: Case, inner: int) -> Record | None:
        """One repetition; None if the peer lacks the scenario."""
        if case.scenario in startup.SCENARIOS:
            return startup.start(PEERS[name], self.pythons[name], case.scenario)
        if case.fresh:
            self._dismiss(name)
        worker = self._worker(name)
        if case.scenario not in worker.scenarios:
            return None
        return worker.execute(case.scenario, dict(case.params), inner)

    def _worker(self, name: str) -> Worker:
        if name not in self._workers:
            try:
                worker = Worker(PEERS[name], self.pythons[name], self.log)
            except Failed:
                del self.pythons[name]  # it will not start for the next case either
                raise
            self.versions.update(worker.versions)
            self._workers[name] = worker
        return self._workers[name]

    def _dismiss(self, name: str) -> None:
        if worker := self._workers.pop(name, None):
            worker.close()

    def _note(self, name: str, where: str, error: Failed) -> None:
        self.failures[where] = str(error)
        print(f"{where} failed: {error}", file=sys.stderr, flush=True)
        if name in self._workers and not self._workers[name].alive:
            self._dismiss(name)
