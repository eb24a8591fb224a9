"""Batches: several calls of an agent at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from .call_config import concurrency_of, configs_of

Invoke = Callable[[Any, Any], Coroutine[Any, Any, Any]]


async def run_batch(invoke: Invoke, inputs: Sequence[Any], config: Any, return_exceptions: bool) -> list[Any]:
    """Return the results of all calls, in the order of their inputs; the first exception is raised once all ended."""
    out: list[Any] = [None] * len(inputs)
    async for number, result in iterate_batch(invoke, inputs, config, return_exceptions=True):
        out[number] = result
    error = next((each for each in out if isinstance(each, BaseException)), None)
    if error is not None and not return_exceptions:
        raise error
    return out


async def iterate_batch(
    invoke: Invoke, inputs: Sequence[Any], config: Any, return_exceptions: bool
) -> AsyncGenerator[tuple[int, Any], None]:
    """Yield the number and the result of each call as it ends."""
    configs = configs_of(inputs, config)
    limit = concurrency_of(configs[0]) if configs else None
    slots = asyncio.Semaphore(limit or max(1, len(inputs)))

    async def call(number: int) -> tuple[int, Any]:
        async with slots:
            try:
                return number, await invoke(inputs[number], configs[number])
            except Exception as error:
                if not return_exceptions:
                    raise
                return number, error

    tasks = [asyncio.create_task(call(number)) for number in range(len(inputs))]
    try:
        for each in asyncio.as_completed(tasks):
            yield await each
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
