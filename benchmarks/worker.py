"""A peer in its own process: reads orders as lines of JSON, executes them, answers in lines of JSON.

    {"scenario": "turns", "params": {"n": 10}, "inner": 3}

`inner` is how often the scenario is executed; the answer has the mean of each phase. Runs in every peer's environment.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.metadata
import json
import os
import sys
import traceback
from typing import Any

from .clock import Clock
from .conversation import forget
from .drivers.driver import EVERY_SCENARIO


async def execute(driver: Any, scenario: str, params: dict[str, Any], inner: int) -> dict[str, Any]:
    """One repetition, as the answer to an order."""
    clock = Clock()
    gc.collect()
    for _ in range(inner):
        forget()
        await getattr(driver, scenario)(clock, **params)
    return {
        "wall": {phase: spent / inner for phase, spent in clock.wall.items()},
        "cpu": {phase: spent / inner for phase, spent in clock.cpu.items()},
        "metrics": clock.metrics,
        "inner": inner,
        **({"series": clock.series} if clock.series else {}),
    }


def failure(error: Exception) -> dict[str, Any]:
    """The answer to an order that failed, and what a peer that cannot begin says first."""
    return {"error": f"{type(error).__name__}: {error}", "traceback": "".join(traceback.format_exception(error))}


async def work(name: str, options: dict[str, str], distributions: list[str]) -> None:
    """Serve orders until they end."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a peer prints is not an answer

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    Clock.calibrate()
    try:
        driver = importlib.import_module(f"{__package__}.drivers.{name}").make(**options)
    except Exception as error:
        say(failure(error))
        return
    versions = {distribution: importlib.metadata.version(distribution) for distribution in distributions}
    known = [each for each in EVERY_SCENARIO if hasattr(driver, each) and each not in driver.lacks]
    say({"scenarios": known, "versions": versions})
    while line := sys.stdin.readline():
        try:
            say(await execute(driver, **json.loads(line)))
        except Exception as error:
            say(failure(error))


if __name__ == "__main__":
    asyncio.run(work(**json.loads(sys.argv[1])))
