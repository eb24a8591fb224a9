"""Hooks: methods of yours that are told what happens in a run, as it happens.

A hook is told; it decides nothing. If it raises, the run stops with its exception, which carries the
run's state: what had happened is recorded, and a resume goes on from there. What it raised on is told
again if it had not happened yet, and so is a question or a decision.
"""

from __future__ import annotations

from typing import Any, Generic

from typing_extensions import TypeVar

from .context import RunContextWrapper, ToolContext
from .core.facts import Verdict
from .core.transcript import Item
from .item import ToolApprovalItem
from .models.model import ModelResponse
from .tools.tool import Tool

T = TypeVar("T", default=Any)


class RunHooks(Generic[T]):
    """Told of everything in a run: give it to `Runner.run(hooks=...)`. Override what you need."""

    async def on_agent_start(self, context: RunContextWrapper[T], agent: Any) -> None:
        """An agent has the word: for the first time, or by a handoff."""

    async def on_agent_end(self, context: RunContextWrapper[T], agent: Any, output: Any) -> None:
        """An agent has a final output. It is recorded after this returns."""

    async def on_handoff(self, context: RunContextWrapper[T], from_agent: Any, to_agent: Any) -> None:
        """An agent has handed over to another."""

    async def on_tool_start(self, context: ToolContext[T], agent: Any, tool: Tool) -> None:
        """A tool's body is about to be entered, or an agent that is a tool to be asked. A handoff is no tool here."""

    async def on_tool_end(self, context: ToolContext[T], agent: Any, tool: Tool, result: Any) -> None:
        """A tool has ended; `result` is what it gave, or what the model is told instead."""

    async def on_llm_start(
        self, context: RunContextWrapper[T], agent: Any, system_prompt: str | None, input_items: list[Item]
    ) -> None:
        """The model is about to be asked."""

    async def on_llm_end(self, context: RunContextWrapper[T], agent: Any, response: ModelResponse) -> None:
        """The model has replied."""

    async def on_approval_requested(self, context: RunContextWrapper[T], agent: Any, item: ToolApprovalItem) -> None:
        """A person is asked."""

    async def on_approval_decided(
        self, context: RunContextWrapper[T], agent: Any, item: ToolApprovalItem, decision: Verdict, by: str
    ) -> None:
        """A question was settled; `item` is the question as it was asked.

        One that was settled while the run waited is told when it goes on.
        """


class AgentHooks(Generic[T]):
    """Told of what one agent does: give it to `Agent(hooks=...)`. Override what you need."""

    async def on_start(self, context: RunContextWrapper[T], agent: Any) -> None:
        """The agent has the word: for the first time, or by a handoff."""

    async def on_end(self, context: RunContextWrapper[T], agent: Any, output: Any) -> None:
        """The agent has a final output. It is recorded after this returns."""

    async def on_handoff(self, context: RunContextWrapper[T], agent: Any, source: Any) -> None:
        """The agent has taken over from another, `source`."""

    async def on_tool_start(self, context: ToolContext[T], agent: Any, tool: Tool) -> None:
        """The body of one of the agent's tools is about to be entered."""

    async def on_tool_end(self, context: ToolContext[T], agent: Any, tool: Tool, result: Any) -> None:
        """The body of one of the agent's tools has ended."""

    async def on_llm_start(
        self, context: RunContextWrapper[T], agent: Any, system_prompt: str | None, input_items: list[Item]
    ) -> None:
        """The agent's model is about to be asked."""

    async def on_llm_end(self, context: RunContextWrapper[T], agent: Any, response: ModelResponse) -> None:
        """The agent's model has replied."""

    async def on_approval_requested(self, context: RunContextWrapper[T], agent: Any, item: ToolApprovalItem) -> None:
        """A person is asked about something the agent proposed."""

    async def on_approval_decided(
        self, context: RunContextWrapper[T], agent: Any, item: ToolApprovalItem, decision: Verdict, by: str
    ) -> None:
        """A question about something the agent proposed was settled."""
