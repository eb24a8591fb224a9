"""LangGraph's config of the current task, in which its own `interrupt` asks the thread."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config

from ...errors import UsageError
from ..interrupts import interrupt
from ..middleware_context import Runtime

SCRATCHPAD = "__pregel_scratchpad"
SEND = "__pregel_send"
RUNTIME = "__pregel_runtime"


class Scratchpad:
    """The object that LangGraph's `interrupt` looks its answers up in; each is asked for in the thread."""

    def __init__(self) -> None:
        self.resume: list[Any] = []

    def interrupt_counter(self) -> int:
        """Ask what the calling `interrupt` asks, and return the number of the answer."""
        asked = sys._getframe(1)
        if asked.f_code.co_name != "interrupt" or "value" not in asked.f_locals:
            raise UsageError("This LangGraph asks in a way that is not known here; use interrupt of assentry.threads.")
        given = asked.f_locals
        self.resume.append(interrupt(given["value"], response_schema=given.get("response_schema")))
        return len(self.resume) - 1


@contextmanager
def graph_config(config: Any, runtime: Runtime) -> Iterator[None]:
    """Set LangGraph's config in a `with` block."""
    from langgraph.runtime import Runtime as GraphRuntime

    base: Any = var_child_runnable_config.get() or config
    fields = {each.name for each in dataclasses.fields(GraphRuntime)}
    known = {name: getattr(runtime, name) for name in ("context", "store", "stream_writer") if name in fields}
    own = {SCRATCHPAD: Scratchpad(), SEND: lambda writes: None, RUNTIME: GraphRuntime(**known)}
    configurable = {**(base.get("configurable") or {}), **config["configurable"], **own}
    made: Any = {**base, "configurable": configurable}
    token = var_child_runnable_config.set(made)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
        configurable.clear()  # timers that were set in the block hold its context variables
