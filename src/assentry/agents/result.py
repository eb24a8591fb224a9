"""The names of `agents.result`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from pydantic import BaseModel

from ..core import facts as f
from ..core.transcript import provider_id
from ..core.wording import described
from ..errors import UsageError
from ..runtime import result as own
from ..runtime import streaming
from ..runtime.driver import Driver
from .absent import find_absent
from .stream_events import StreamEvent, is_sdk_event
from .tracing.interface import Trace
from .tracing.run_trace import RunTrace

if TYPE_CHECKING:
    import asyncio

    from ..definitions.context import RunContextWrapper
    from .items import ModelResponse, RunItem, ToolApprovalItem, TResponseInputItem
    from .run_state import RunState
    from .tool_guardrails import ToolInputGuardrailResult, ToolOutputGuardrailResult
    from .usage import Usage

    class ResultContext(RunContextWrapper[Any]):
        """A run's context, whose usage has the SDK's fields."""

        usage: Usage


__all__ = ["AgentToolInvocation", "RunResult", "RunResultBase", "RunResultStreaming", "ToInputListMode"]

ToInputListMode = Literal["preserve_all", "normalized"]


class AgentToolInvocation(Struct, frozen=True):
    """The call that a nested run serves."""

    tool_name: str
    tool_call_id: str
    tool_arguments: str
    """The arguments, as the model wrote them."""


class RunResultBase(own.RunResultBase):
    """The base of plain and streamed results."""

    if TYPE_CHECKING:

        @property
        def new_items(self) -> list[RunItem]: ...  # type: ignore[override]
        @property
        def raw_responses(self) -> list[ModelResponse]: ...  # type: ignore[override]
        @property
        def interruptions(self) -> list[ToolApprovalItem]: ...  # type: ignore[override]
        @property
        def last_agent(self) -> Any: ...
        @property
        def context_wrapper(self) -> ResultContext: ...
        @property
        def tool_input_guardrail_results(self) -> list[ToolInputGuardrailResult]: ...  # type: ignore[override]
        @property
        def tool_output_guardrail_results(self) -> list[ToolOutputGuardrailResult]: ...  # type: ignore[override]
        def to_state(self) -> RunState[Any]: ...

    @property
    def input(self) -> str | list[TResponseInputItem]:  # type: ignore[override]
        """The run's input, with the session's items, and as the input filters of handoffs left it."""
        entries = self._view.run.entries
        plain = len(entries) < 2 or type(entries[1]) is not f.Said
        if plain and not any(type(entry) is f.HandedOff and entry.history for entry in entries):
            return super().input  # type: ignore[return-value]
        return self._view.filtered_list(as_heard=False)[0]  # type: ignore[return-value]

    def to_input_list(self, *, mode: ToInputListMode = "preserve_all") -> list[TResponseInputItem]:  # type: ignore[override]
        """Return the input and the generated items as input for another run, as input filters of handoffs left them.

        With `mode="normalized"`, items of earlier turns that a filter left out are left out too.
        """
        if mode not in ("preserve_all", "normalized"):
            raise UsageError(f'to_input_list: mode must be "preserve_all" or "normalized", got {described(mode)}.')
        given, made = self._view.filtered_list(as_heard=mode == "normalized")
        return given + made  # type: ignore[return-value]

    @property
    def agent_tool_invocation(self) -> AgentToolInvocation | None:
        """The call that a nested run serves; None for a run of its own."""
        if not self._path:
            return None
        *above, call = self._path
        state = self._scope.run_at(tuple(above)).calls[call]
        return AgentToolInvocation(state.tool, provider_id(state), state.proposal.arguments)

    def _in_words(self, first: list[str]) -> str:
        """Return a short summary of the result."""
        name, output = type(self).__name__, self.final_output
        text = output.model_dump_json(indent=2) if isinstance(output, BaseModel) else str(output)
        lines = [
            f"{name}:",
            *first,
            f"- Final output ({type(output).__name__}):",
            *(f"    {line}" for line in text.splitlines()),
            f"- {len(self.new_items)} new item(s)",
            f"- {len(self.raw_responses)} raw response(s)",
            f"- {len(self.input_guardrail_results)} input guardrail result(s)",
            f"- {len(self.output_guardrail_results)} output guardrail result(s)",
            f"(See `{name}` for more details)",
        ]
        return "\n".join(lines)


class RunResult(RunResultBase, own.RunResult):
    """The result of `Runner.run` and `run_sync`."""

    def __str__(self) -> str:
        return self._in_words([f'- Last agent: Agent(name="{self.last_agent.name}", ...)'])


class RunResultStreaming(RunResultBase, streaming.RunResultStreaming):
    """The result of `Runner.run_streamed`: read `stream_events()` to its end, then use the other attributes."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        observer = driver.scope.hooks.observer
        self.trace: Trace | None = observer.current if isinstance(observer, RunTrace) and observer.own else None
        """The run's own trace; None if the run is in a trace of the program's."""

    async def stream_events(self, *, all_events: bool = False) -> AsyncIterator[StreamEvent]:
        """Yield the run's events, up to its end or its pause. An error of the run is raised at the end.

        With `all_events`, those are yielded too that the SDK does not have: `approval_requested`,
        `approval_decided`, `tool_progress` and `other_item_created`.
        """
        events = super().stream_events()
        try:
            async for event in events:
                if all_events or is_sdk_event(event):
                    yield event  # type: ignore[misc]
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    @property
    def run_loop_task(self) -> asyncio.Task[None] | None:
        """The task that drives the run."""
        return self._task

    @property
    def run_loop_exception(self) -> BaseException | None:
        """The error that ended the run, if any."""
        return self._error

    def __str__(self) -> str:
        return self._in_words(
            [
                f'- Current agent: Agent(name="{self.last_agent.name}", ...)',
                f"- Current turn: {self.current_turn}",
                f"- Max turns: {self.max_turns}",
                f"- Is complete: {self.is_complete}",
            ]
        )


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
