"""The results of runs: views of the journal, the same for plain and streamed runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

from msgspec.structs import replace

from ..core.number import LARGEST
from ..core.run import status
from ..core.transcript import Item
from ..core.wording import described
from ..definitions.agent import Agent
from ..definitions.context import RunContextWrapper
from ..definitions.guardrail import (
    InputGuardrailResult,
    OutputGuardrailResult,
    ToolInputGuardrailResult,
    ToolOutputGuardrailResult,
)
from ..definitions.item import RunItem, ToolApprovalItem
from ..errors import UsageError
from ..models.model import ModelResponse
from .guardrail_results import PLACES, results
from .scope import Scope
from .state import RunState, left_by
from .view import View

R = TypeVar("R")


class RunResultBase:
    """The base of plain and streamed results. Every attribute covers the whole run, not only the last resume."""

    _released: str | None = None
    _final: tuple[object, Any] = (None, None)
    _found: Mapping[str, list[Any]] = {}
    """The results of guardrails, once their agents are released."""

    def __init__(self, scope: Scope, path: tuple[str, ...] = ()) -> None:
        self._scope = scope
        self._path = path

    @property
    def _view(self) -> View:
        return self._scope.view(self._path)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._scope.journal.run.id

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
        concluded = self._scope.run_at(self._path).concluded
        if concluded is not self._final[0]:
            self._final = concluded, self._view.output()
        return self._final[1]

    @property
    def last_agent(self) -> Agent[Any]:
        """The agent that was active last."""
        if self._released is not None:
            raise UsageError(f"The agents of this result were released; the last one was {self._released!r}.")
        graph = self._scope.graph
        return graph.agent_at(self._scope.run_at(self._path).agent or graph.root.name).agent

    @property
    def current_turn(self) -> int:
        """The number of model calls so far."""
        return self._scope.run_at(self._path).turns

    @property
    def max_turns(self) -> int | None:
        """The number of model calls that the run may make; None if there is no limit."""
        limit = self._scope.run_at(self._path).max_turns
        return None if limit == LARGEST else limit

    @property
    def last_response_id(self) -> str | None:
        """The provider's id of the last reply."""
        return self.raw_responses[-1].response_id if self.raw_responses else None

    @property
    def context_wrapper(self) -> RunContextWrapper[Any]:
        """The run's context, with usage and decisions."""
        return self._scope.ctx

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
        return results(self._scope, self._path, where)

    def to_input_list(self) -> list[Item]:
        """Return the original input and the generated items, as input for another run."""
        return self._view.input_list()

    def to_state(self) -> RunState[Any]:
        """Return the run as a state to decide on, save and resume; every call returns the same state."""
        if self._path:
            raise UsageError("A run inside another is part of it: take the state of the outer run's result.")
        if self._scope.journal.run.began is None:
            raise UsageError("Nothing had begun, so there is no state; run the agent again.")
        return left_by(self._scope)

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
        self._found = {where: results(self._scope, self._path, where, released=True) for where in PLACES}
        state._release()
        self._scope.control.graph = state._graph
        self._scope.hooks.release(state._graph)
        self._scope = replace(self._scope, graph=state._graph)

    def __repr__(self) -> str:
        run = self._scope.run_at(self._path)
        what = f"{status(run)}, {run.turns} turns, output {described(self.final_output)}"
        return f"<{type(self).__name__} of run {run.id}: {what}>"


class RunResult(RunResultBase):
    """The result of `Runner.run` and `run_sync`."""
