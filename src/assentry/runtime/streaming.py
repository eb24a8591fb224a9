"""The result of a streamed run: its events as they happen, and then the same views as any result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Literal

from ..core.facts import AnyFact
from ..definitions.agent import Agent
from ..errors import RunUnfinished, UsageError
from ..models.delta import readable
from .driver import Driver
from .event import AgentUpdatedStreamEvent, RawResponsesStreamEvent, StreamEvent, events_of
from .result import RunResultBase
from .state import RunState


class RunResultStreaming(RunResultBase):
    """The result of `Runner.run_streamed`: read `stream_events()` to its end, then use the other attributes."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.scope)
        self._driver: Driver | None = driver
        scope = driver.scope
        self._queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self.is_complete = False
        """True if the stream has ended."""
        driver.gentle = True
        scope.hooks.on_delta = self._delta
        scope.hooks.on_event = self._queue.put_nowait
        run = scope.journal.run
        self._queue.put_nowait(AgentUpdatedStreamEvent(scope.graph.agent_at(run.agent or scope.graph.root.name).agent))
        for fact in scope.hooks.unseen:
            self._fact(fact)
        scope.journal.listen(self._fact)

    @property
    def current_agent(self) -> Agent[Any]:
        """The active agent."""
        return self.last_agent

    def _delta(self, data: Any) -> None:
        self._queue.put_nowait(RawResponsesStreamEvent(readable(data)))

    def _fact(self, fact: AnyFact) -> None:
        self._forget()
        for event in events_of(self._view, fact):
            self._queue.put_nowait(event)

    def _forget(self) -> None:
        """Drop the cached views: the run has changed."""
        for cached in ("new_items", "raw_responses", "interruptions"):
            self.__dict__.pop(cached, None)

    def _start(self, drive: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(drive)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._error = task.exception()
        self.is_complete = True
        self._driver = None
        self._forget()
        self._queue.put_nowait(None)

    async def stream_events(self) -> AsyncIterator[StreamEvent]:
        """Yield the run's events, up to its end or its pause. An error of the run is raised at the end.

        A reader that stops before the end stops the run, as `cancel()` does.
        """
        try:
            while (event := await self._queue.get()) is not None:
                yield event
            self._queue.put_nowait(None)
        finally:
            await self._left()
        if self._error is not None:
            raise self._error

    async def _left(self) -> None:
        """Stop a run whose events nobody reads any more, and wait for its end."""
        if self._task is not None and not self._task.done():
            self.cancel()
            await asyncio.wait([self._task])

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop the run: at once, or at the end of the current turn. The run is not closed.

        At once means that a model call is not waited for, and that running tools have
        `RunConfig(cancel_grace=...)` seconds to end; the outcome of a tool that did not end is in doubt.
        After the stream's end, `to_state()` can be resumed.
        """
        if mode not in ("immediate", "after_turn"):
            raise UsageError(f'cancel takes "immediate" or "after_turn", got {mode!r:.80}.')
        if self._driver is not None and self._task is not None:
            self._driver.halt(mode)

    def to_state(self) -> RunState[Any]:
        """Return the run as a state, once the stream has ended."""
        if not self.is_complete:
            raise RunUnfinished()
        return super().to_state()
