"""What the code around a call gets to know of it, and what the model is told when it fails."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..context import ToolContext
from ..core.run import CallState
from ..core.transcript import provider_id
from ..tools.tool import Tool, default_tool_error_function
from .asking import Body

if TYPE_CHECKING:
    from .driver import Driver


def context_of(
    driver: Driver, path: tuple[str, ...], state: CallState, tool: Tool, args: dict[str, Any]
) -> tuple[Body, ToolContext[Any]]:
    """What a body, and the guardrails around it, get to know of the call."""
    body = Body(driver.journal, path, state, args, driver.loop, driver.thread)
    agent = driver.cast.of(state).agent
    return body, ToolContext(driver.ctx.context, driver, body, agent, tool.name, provider_id(state))


async def failure_text(tool: Tool, ctx: ToolContext[Any], error: Exception) -> tuple[str, Exception | None]:
    """What the model is told of a failure, and what is raised to the user, if the tool says so."""
    text = default_tool_error_function(ctx, error)
    if tool.failure_error_function is None:
        return text, error
    try:
        told = tool.failure_error_function(ctx, error)
        return str(await told if inspect.isawaitable(told) else told), None
    except Exception as failure:
        return text, failure
