"""Hooks: your methods that are called as events happen in a run.

A hook observes and decides nothing. If a hook raises, the run stops with that exception, which carries the run's
state. Events that had happened are recorded, and a resume continues from there. The hook is called again for an event
that had not happened yet, and for a question or a decision.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar

from ..core.facts import Verdict
from .context import AgentHookContext, RunContextWrapper, ToolContext
from .item import ToolApprovalItem
from .tool import Tool

T = TypeVar("T", default=Any)


class RunHooks(Generic[T]):
    """Hooks for all events of a run, for `Runner.run(hooks=...)`. Override the methods you need."""

    async def on_agent_start(self, context: AgentHookContext[T], agent: Any) -> None:
        """Run when an agent becomes active, at the beginning or by a handoff."""

    async def on_agent_end(self, context: AgentHookContext[T], agent: Any, output: Any) -> None:
        """Run when an agent has a final output. The output is recorded after this hook returns."""

    async def on_handoff(self, context: RunContextWrapper[T], from_agent: Any, to_agent: Any) -> None:
        """Run after an agent has handed over to another."""

    async def on_tool_start(self, context: ToolContext[T], agent: Any, tool: Tool) -> None:
        """Run before a tool's body is entered, or before an agent used as a tool runs. A handoff is no tool here."""

    async def on_tool_end(self, context: ToolContext[T], agent: Any, tool: Tool, result: Any) -> None:
        """Run after a tool has ended. `result` is the tool's output, or the text that the model gets instead."""

    async def on_llm_start(
        self, context: RunContextWrapper[T], agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Run before the model is called."""

    async def on_llm_end(self, context: RunContextWrapper[T], agent: Any, response: Any) -> None:
        """Run after the model has replied. `response` is a `ModelResponse`."""

    async def on_approval_requested(self, context: RunContextWrapper[T], agent: Any, item: ToolApprovalItem) -> None:
        """Run after a question to a person was recorded."""

    async def on_approval_decided(
        self, context: RunContextWrapper[T], agent: Any, item: ToolApprovalItem, decision: Verdict, by: str
    ) -> None:
        """Run after a question was decided. `item` is the question as it was asked.

        If the question was decided while the run waited, the hook runs when the run continues.
        """


class AgentHooks(Generic[T]):
    """Hooks for the events of one agent, for `Agent(hooks=...)`. Override the methods you need."""

    told_of_leaving: ClassVar[bool] = False
    """False if `on_handoff` is called when the agent has taken over, True if it is called when the agent leaves."""

    async def on_start(self, context: AgentHookContext[T], agent: Any) -> None:
        """Run when the agent becomes active, at the beginning or by a handoff."""

    async def on_end(self, context: AgentHookContext[T], agent: Any, output: Any) -> None:
        """Run when the agent has a final output. The output is recorded after this hook returns."""

    async def on_handoff(self, context: RunContextWrapper[T], agent: Any, source: Any) -> None:
        """Run after the agent has taken over from another agent, `source`."""

    async def on_tool_start(self, context: ToolContext[T], agent: Any, tool: Tool) -> None:
        """Run before the body of one of the agent's tools is entered."""

    async def on_tool_end(self, context: ToolContext[T], agent: Any, tool: Tool, result: Any) -> None:
        """Run after one of the agent's tools has ended."""

    async def on_llm_start(
        self, context: RunContextWrapper[T], agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        """Run before the agent's model is called."""

    async def on_llm_end(self, context: RunContextWrapper[T], agent: Any, response: Any) -> None:
        """Run after the agent's model has replied. `response` is a `ModelResponse`."""

    async def on_approval_requested(self, context: RunContextWrapper[T], agent: Any, item: ToolApprovalItem) -> None:
        """Run after a question about one of the agent's calls was recorded."""

    async def on_approval_decided(
        self, context: RunContextWrapper[T], agent: Any, item: ToolApprovalItem, decision: Verdict, by: str
    ) -> None:
        """Run after a question about one of the agent's calls was decided."""
