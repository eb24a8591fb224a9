"""A rejection without words: the run goes on with a default text, or with the formatter's."""

import asyncio
from typing import Any

from agents import Agent, RunConfig, Runner, ToolErrorFormatterArgs, function_tool


@function_tool(needs_approval=True)
def wipe(name: str) -> str:
    """Wipe a disk."""
    return "wiped"


def worded(data: ToolErrorFormatterArgs[Any]) -> str | None:
    return f"{data.tool_name}: {data.kind}"


async def main() -> None:
    agent = Agent(name="Admin", instructions="Wipe.", tools=[wipe])
    for config in (None, RunConfig(tool_error_formatter=worded)):
        result = await Runner.run(agent, "Wipe it.", run_config=config)
        state = result.to_state()
        state.reject(result.interruptions[0])
        result = await Runner.run(agent, state, run_config=config)
        print([item.output for item in result.new_items if item.type == "tool_call_output_item"])


asyncio.run(main())
