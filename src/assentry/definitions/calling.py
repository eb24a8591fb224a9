"""Calling a user's function: async on the event loop, anything else in a thread."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

THREADS = 10_000
"""Practically no limit, since a body may hold its thread while it runs another agent. Threads are made when needed."""


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "assentry-tool")


if hasattr(os, "register_at_fork"):  # the threads do not exist in a forked child
    os.register_at_fork(after_in_child=_threads.cache_clear)


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a blocking function in a thread, with the caller's context variables."""
    context = contextvars.copy_context()

    def call() -> Any:
        try:
            return context.run(function)
        except StopIteration as error:  # a future cannot hold it
            raise RuntimeError("StopIteration was raised in a thread") from error

    return await asyncio.get_running_loop().run_in_executor(_threads(), call)


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if calling the function gives a coroutine."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


async def call_function(function: Callable[[], Any]) -> Any:
    """Call a function without blocking the event loop, and return its value, awaited if it is awaitable."""
    value = function() if is_async(function) else await in_thread(function)
    return await value if inspect.isawaitable(value) else value
