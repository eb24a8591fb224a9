"""Calls of a tool that a program makes itself: a run of one call, through the gate and the door as any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ..definitions.agent import Agent
from ..definitions.context import RunContextWrapper
from ..definitions.item import ToolCallOutputItem
from ..definitions.tool import Tool
from ..errors import UsageError
from ..models.model import ModelRequest, ModelResponse
from ..runtime.runner import Runner


class _OneCall:
    """A model that makes one call, and then says nothing."""

    name = "program"

    def __init__(self, call: dict[str, Any]) -> None:
        self._replies = [call, {"type": "message", "role": "assistant", "content": [], "status": "completed"}]

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        yield ModelResponse([self._replies.pop(0)])


async def call_tool(tool: Tool, ctx: RunContextWrapper[Any], input: str) -> Any:
    """Call a tool with arguments in JSON, and return its output, or the text that a model would get.

    Raise `UsageError` if a person would have to be asked.
    """
    call_id = getattr(ctx, "call_id", None) or "call_program"
    call = {"type": "function_call", "call_id": call_id, "name": tool.name, "arguments": input}
    whose = getattr(ctx, "agent", None)
    agent: Agent[Any] = Agent(
        name=whose.name if whose is not None else "program",
        tools=[tool],
        model=_OneCall(call),
        tool_use_behavior="stop_on_first_tool",
    )
    result = await Runner.run(agent, "Call the tool.", context=ctx.context)
    if result.interruptions:
        raise UsageError(
            f"The call of {tool.name!r} needs a person, and a call that a program makes itself cannot wait for one; "
            "let an agent call the tool, or decide with on_approval."
        )
    return next(item.output for item in result.new_items if isinstance(item, ToolCallOutputItem))
