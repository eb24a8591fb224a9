"""A tool that fails, one that words its failure, and one whose failure ends the run."""

import asyncio
from typing import Any

from agents import Agent, RunContextWrapper, Runner, function_tool


def excuse(context: RunContextWrapper[Any], error: Exception) -> str:
    return f"It is closed: {type(error).__name__}."


@function_tool(failure_error_function=excuse)
def open_shop(name: str) -> str:
    """Open a shop."""
    raise LookupError(name)


async def main() -> None:
    agent = Agent(name="Market", instructions="Open shops.", tools=[open_shop])
    result = await Runner.run(agent, "Open one.")
    print([item.output for item in result.new_items if item.type == "tool_call_output_item"])
    print(result.final_output)


asyncio.run(main())
