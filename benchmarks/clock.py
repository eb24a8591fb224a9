"""What one execution of a scenario cost: time by phase, and other measures. Runs in every peer's environment."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median


class Clock:
    """Wall and CPU nanoseconds by phase, and metrics by name. An empty phase costs nothing once calibrated."""

    empty_wall = 0
    empty_cpu = 0

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        self.series: dict[str, Sequence[float]] = {}
        """Numbers that belong together, for a plot; of the last execution."""

    @classmethod
    def calibrate(cls) -> None:
        """Measure what an empty phase costs, to subtract it from every phase from now on."""
        clocks = [cls() for _ in range(2000)]
        for clock in clocks:
            with clock.phase("empty"):
                pass
        cls.empty_wall = int(median(clock.wall["empty"] for clock in clocks))
        cls.empty_cpu = int(median(clock.cpu["empty"] for clock in clocks))

    @contextmanager
    def phase(self, name: str, shares: int = 1) -> Iterator[None]:
        """Add the time of this block to a phase; if it does a thing so often, the time of one."""
        cpu = time.process_time_ns()
        wall = time.perf_counter_ns()
        yield
        wall = time.perf_counter_ns() - wall
        cpu = time.process_time_ns() - cpu
        self.wall[name] = self.wall.get(name, 0) + max(0, wall - self.empty_wall) / shares
        self.cpu[name] = self.cpu.get(name, 0) + max(0, cpu - self.empty_cpu) / shares

    def metric(self, name: str, value: float | None) -> None:
        """Note a measure that is not a time; None where it cannot be had."""
        if value is not None:
            self.metrics[name] = value


def resident() -> int | None:
    """The process's resident memory in bytes, garbage collected first; None where the system does not say."""
    for _ in range(3):
        gc.collect()
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return None
