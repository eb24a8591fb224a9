"""Parts that the adapters share: waiting for the calls of a turn, and outputs in the form of the record."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from pydantic_core import to_jsonable_python

T = TypeVar("T")


async def wait_together(waits: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all, in their order; after an error of one, or a cancellation, none goes on."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def output_as_json(value: Any) -> Any:
    """Return a value of Python as JSON. What has no JSON form is written as text."""
    return to_jsonable_python(value, fallback=repr, inf_nan_mode="strings", bytes_mode="base64")
