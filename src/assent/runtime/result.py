"""What a run gave: views of its journal, the same for plain and streamed runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from functools import cached_property
from typing import Any, TypeVar

from ..agent import Agent
from ..context import RunContextWrapper
from ..core.facts import AnyFact
from ..core.run import status
from ..core.transcript import Item
from ..errors import RunUnfinished, UsageError
from ..item import RunItem, ToolApprovalItem
from ..models.model import ModelResponse
from .driver import Driver
from .event import AgentUpdatedStreamEvent, RawResponsesStreamEvent, StreamEvent, events
from .state import RunState
from .view import View

R = TypeVar("R")


class RunResultBase:
    """What plain and streamed results share. Everything covers the whole run, not only the last resume."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._view = View(driver.journal.run, driver.agent, driver.outputs)
        self._state: RunState[Any] | None = None

    @property
    def run_id(self) -> str:
        """The run's own id."""
        return self._view.run.id

    @property
    def input(self) -> str | list[Item]:
        """What the run was first given."""
        return self._view.input()

    @cached_property
    def new_items(self) -> list[RunItem]:
        """What the run generated, and last what waits."""
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
        """The run's output; None while it waits."""
        return self._view.output()

    @property
    def last_agent(self) -> Agent[Any]:
        """The agent that had the word last."""
        agent = self._view.agent
        if isinstance(agent, str):
            raise UsageError(f"The agents of this result were released; the last one was {agent!r}.")
        return agent

    @property
    def last_response_id(self) -> str | None:
        """The provider's id of the last reply."""
        return self.raw_responses[-1].response_id if self.raw_responses else None

    @property
    def context_wrapper(self) -> RunContextWrapper[Any]:
        """The run's context, with usage and decisions."""
        return self._driver.ctx

    @property
    def input_guardrail_results(self) -> list[Any]:
        """What input guardrails found."""
        return []

    @property
    def output_guardrail_results(self) -> list[Any]:
        """What output guardrails found."""
        return []

    @property
    def tool_input_guardrail_results(self) -> list[Any]:
        """What tool input guardrails found."""
        return []

    @property
    def tool_output_guardrail_results(self) -> list[Any]:
        """What tool output guardrails found."""
        return []

    def to_input_list(self) -> list[Item]:
        """The original input and what the run generated, as input for another run."""
        return self._view.input_list()

    def to_state(self) -> RunState[Any]:
        """The run as a state to decide on, save and resume; the same one each time."""
        if self._state is None:
            driver = self._driver
            self._state = RunState(driver.journal.fork(), self.last_agent, driver.ctx.context, dict(driver.outputs))
        return self._state

    def final_output_as(self, cls: type[R], raise_if_incorrect_type: bool = False) -> R:
        """The output as this type for the type checker; `raise_if_incorrect_type` checks it too."""
        output = self.final_output
        if raise_if_incorrect_type and not isinstance(output, cls):
            raise TypeError(f"The final output is {type(output).__name__}, not {cls.__name__}.")
        return output  # type: ignore[no-any-return]

    def release_agents(self, release_new_items: bool = True) -> None:
        """Let go of the agents, so that they can be freed while the result is kept; items keep the name."""
        for item in [*self.new_items, *self.interruptions]:
            if release_new_items:
                item.agent = item.agent_name
        self.to_state()._release()
        self._view.agent = self._driver.agent.name
        self._driver.agent = Agent(self._driver.agent.name)

    def __repr__(self) -> str:
        run = self._view.run
        what = f"{status(run)}, {run.turns} turns, output {self.final_output!r:.80}"
        return f"<{type(self).__name__} of run {run.id}: {what}>"


class RunResult(RunResultBase):
    """What `Runner.run` and `run_sync` return."""


class RunResultStreaming(RunResultBase):
    """What `Runner.run_streamed` returns: read `stream_events()` to its end, then look at the rest."""

    def __init__(self, driver: Driver, tail: int) -> None:
        super().__init__(driver)
        self._queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self.is_complete = False
        """Whether the stream has ended."""
        driver.on_delta = self._delta
        self._queue.put_nowait(AgentUpdatedStreamEvent(driver.agent))
        for fact in driver.journal.facts[tail:]:
            self._fact(fact)
        driver.journal.listener = self._fact

    @property
    def current_agent(self) -> Agent[Any]:
        """The agent that has the word."""
        return self.last_agent

    def _delta(self, data: Item) -> None:
        self._queue.put_nowait(RawResponsesStreamEvent(data))

    def _fact(self, fact: AnyFact) -> None:
        for event in events(self._view, fact):
            self._queue.put_nowait(event)

    def _start(self, drive: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(drive)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._error = task.exception()
        self.is_complete = True
        for cached in ("new_items", "raw_responses", "interruptions"):
            self.__dict__.pop(cached, None)
        self._queue.put_nowait(None)

    async def stream_events(self) -> AsyncIterator[StreamEvent]:
        """The run's events, up to its end or its pause. An error of the run is raised at the end."""
        while (event := await self._queue.get()) is not None:
            yield event
        self._queue.put_nowait(None)
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Stop the run. It is not closed: after the stream's end, `to_state()` can be resumed."""
        if self._task is not None:
            self._task.cancel()

    def to_state(self) -> RunState[Any]:
        """The run as a state, once the stream has ended."""
        if not self.is_complete:
            raise RunUnfinished()
        return super().to_state()
