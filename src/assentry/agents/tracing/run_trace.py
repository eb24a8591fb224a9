"""The trace of one drive, in which OpenTelemetry alone hears of spans."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import nullcontext
from typing import Any

from ...core.run import CallState
from ...definitions.agent import Agent
from ...definitions.tool import Tool
from ...models.model import Model, ModelRequest, ModelResponse
from ...runtime.hook_dispatch import Observer
from .interface import Trace

Path = tuple[str, ...]
Work = Coroutine[Any, Any, Any]
Reply = Coroutine[Any, Any, ModelResponse]


class RunTrace(Observer):
    """The trace of one drive, in which nobody hears of spans but OpenTelemetry."""

    def __init__(self, current: Trace, own: bool, inner: Observer | None) -> None:
        self.current = current
        self.own = own
        """True if the drive begins and ends the trace."""
        self.inner = inner
        """The maker of OpenTelemetry's spans."""

    @property
    def trace(self) -> dict[str, str] | None:
        """The trace that the journal records."""
        return self.inner.trace if self.inner is not None else None

    async def drive(self, work: Coroutine[Any, Any, None]) -> None:
        """Await a drive with its trace as the current one."""
        with self.current if self.own else nullcontext():
            await (work if self.inner is None else self.inner.drive(work))

    def reply(self, path: Path, agent: Agent[Any], model: Model, request: ModelRequest, work: Reply) -> Reply:
        """Return the work of a model call."""
        return work if self.inner is None else self.inner.reply(path, agent, model, request, work)

    def enter(self, path: Path, state: CallState, tool: Tool, args: dict[str, Any], work: Work) -> Work:
        """Return the work of a call's body."""
        return work if self.inner is None else self.inner.enter(path, state, tool, args, work)
