"""The results of runs: views of the journal, the same for plain and streamed runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from functools import cached_property
from typing import Any, Literal, TypeVar

from ..agent import Agent
from ..context import RunContextWrapper
from ..core.digest import described
from ..core.facts import AnyFact
from ..core.run import status
from ..core.transcript import Item
from ..errors import RunUnfinished, UsageError
from ..guardrail import (
    InputGuardrailResult,
    OutputGuardrailResult,
    ToolInputGuardrailResult,
    ToolOutputGuardrailResult,
)
from ..item import RunItem, ToolApprovalItem
from ..models.model import ModelResponse
from .driver import Driver
from .event import AgentUpdatedStreamEvent, RawResponsesStreamEvent, StreamEvent, events
from .guardrail_step import PLACES, results
from .state import RunState, left_by
from .view import View

R = TypeVar("R")


class RunResultBase:
    """The base of plain and streamed results. Every attribute covers the whole run, not only the last resume."""

    _released: str | None = None
    _final: tuple[object, Any] = (None, None)
    _found: Mapping[str, list[Any]] = {}
    """The results of guardrails, once their agents are released."""

    def __init__(self, driver: Driver, path: tuple[str, ...] = ()) -> None:
        self._driver = driver
        self._path = path

    @property
    def _view(self) -> View:
        return self._driver.view(self._path)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._driver.journal.run.id

    @property
    def input(self) -> str | list[Item]:
        """The run's first input."""
        return self._view.input()

    @cached_property
    def new_items(self) -> list[RunItem]:
        """The items that the run generated, with the open questions last."""
        return self._view.items()

    @cached_property
    def raw_responses(self) -> list[ModelResponse]:
        """The model's replies."""
        return self._view.responses()

    @cached_property
    def interruptions(self) -> list[ToolApprovalItem]:
        """The questions that wait for a person; empty when the run is over."""
        return self._view.interruptions()

    @property
    def final_output(self) -> Any:
        """The run's output: text, or an instance of the last agent's `output_type`; None while there is no output."""
        concluded = self._driver.run_at(self._path).concluded
        if concluded is not self._final[0]:
            self._final = concluded, self._view.output()
        return self._final[1]

    @property
    def last_agent(self) -> Agent[Any]:
        """The agent that was active last."""
        if self._released is not None:
            raise UsageError(f"The agents of this result were released; the last one was {self._released!r}.")
        driver = self._driver
        return driver.graph.seat(driver.run_at(self._path).agent or driver.agent.name).agent

    @property
    def last_response_id(self) -> str | None:
        """The provider's id of the last reply."""
        return self.raw_responses[-1].response_id if self.raw_responses else None

    @property
    def context_wrapper(self) -> RunContextWrapper[Any]:
        """The run's context, with usage and decisions."""
        return self._driver.ctx

    @property
    def input_guardrail_results(self) -> list[InputGuardrailResult]:
        """The results of input guardrails."""
        return self._results("input")

    @property
    def output_guardrail_results(self) -> list[OutputGuardrailResult]:
        """The results of output guardrails."""
        return self._results("output")

    @property
    def tool_input_guardrail_results(self) -> list[ToolInputGuardrailResult]:
        """The results of tool input guardrails."""
        return self._results("tool_input")

    @property
    def tool_output_guardrail_results(self) -> list[ToolOutputGuardrailResult]:
        """The results of tool output guardrails."""
        return self._results("tool_output")

    def _results(self, where: str) -> list[Any]:
        if self._released is not None:
            return list(self._found[where])
        return results(self._driver, self._path, where)

    def to_input_list(self) -> list[Item]:
        """Return the original input and the generated items, as input for another run."""
        return self._view.input_list()

    def to_state(self) -> RunState[Any]:
        """Return the run as a state to decide on, save and resume; every call returns the same state."""
        if self._path:
            raise UsageError("A run inside another is part of it: take the state of the outer run's result.")
        if self._driver.journal.run.began is None:
            raise UsageError("Nothing had begun, so there is no state; run the agent again.")
        return left_by(self._driver)

    def final_output_as(self, cls: type[R], raise_if_incorrect_type: bool = False) -> R:
        """Return the output, typed as `cls`; with `raise_if_incorrect_type`, raise `TypeError` unless it is one."""
        output = self.final_output
        if raise_if_incorrect_type and not isinstance(output, cls):
            raise TypeError(f"The final output is {type(output).__name__}, not {cls.__name__}.")
        return output  # type: ignore[no-any-return]

    def release_agents(self, release_new_items: bool = True) -> None:
        """Drop the references to the agents, so that they can be freed while the result is kept; items keep a name."""
        if self._released is not None:
            return
        state = self.to_state()  # first: it refuses a stream that has not ended
        for item in [*self.new_items, *self.interruptions]:
            if release_new_items:
                item.release_agent()
        self._released = self.last_agent.name
        _ = self.final_output, self.raw_responses
        self._found = {where: results(self._driver, self._path, where, released=True) for where in PLACES}
        state._release()
        self._driver.graph = self._driver.control.graph = state._graph
        self._driver.audience.hooks = None
        self._driver.audience.streams.clear()

    def __repr__(self) -> str:
        run = self._driver.run_at(self._path)
        what = f"{status(run)}, {run.turns} turns, output {described(self.final_output)}"
        return f"<{type(self).__name__} of run {run.id}: {what}>"


class RunResult(RunResultBase):
    """The result of `Runner.run` and `run_sync`."""


class RunResultStreaming(RunResultBase):
    """The result of `Runner.run_streamed`: read `stream_events()` to its end, then use the other attributes."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self.is_complete = False
        """True if the stream has ended."""
        driver.gentle = True
        driver.on_delta = self._delta
        run = driver.journal.run
        self._queue.put_nowait(AgentUpdatedStreamEvent(driver.graph.seat(run.agent or driver.agent.name).agent))
        for fact in driver.unseen:
            self._fact(fact)
        driver.journal.listen(self._fact)

    @property
    def current_agent(self) -> Agent[Any]:
        """The active agent."""
        return self.last_agent

    def _delta(self, data: Item) -> None:
        self._queue.put_nowait(RawResponsesStreamEvent(data))

    def _fact(self, fact: AnyFact) -> None:
        self._forget()
        for event in events(self._view, fact):
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
            raise UsageError(f'cancel takes "immediate" or "after_turn", got {described(mode)}.')
        if self._task is not None and not self._task.done():
            self._driver.halt(mode)

    def to_state(self) -> RunState[Any]:
        """Return the run as a state, once the stream has ended."""
        if not self.is_complete:
            raise RunUnfinished()
        return super().to_state()
