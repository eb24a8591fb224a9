"""The use of a tool's output: as the answer itself, or as a function decides."""

import asyncio
from typing import Any

from agents import (
    Agent,
    FunctionToolResult,
    ModelSettings,
    RunContextWrapper,
    Runner,
    StopAtTools,
    ToolsToFinalOutputResult,
    function_tool,
)


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"dry in {city}"


@function_tool
def clock() -> str:
    """Tell the time."""
    return "noon"


def decide(context: RunContextWrapper[Any], results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
    print("results:", [(each.tool.name, each.output) for each in results])
    return ToolsToFinalOutputResult(is_final_output=True, final_output=f"It is {results[0].output}.")


async def main() -> None:
    first = Agent(name="First", tools=[weather], tool_use_behavior="stop_on_first_tool")
    print((await Runner.run(first, "Weather?")).final_output)
    at = Agent(name="At", tools=[weather, clock], tool_use_behavior=StopAtTools(stop_at_tool_names=["clock"]))
    print((await Runner.run(at, "Weather and time?")).final_output)
    own = Agent(
        name="Own", tools=[weather], tool_use_behavior=decide, model_settings=ModelSettings(tool_choice="required")
    )
    print((await Runner.run(own, "Weather?")).final_output)


asyncio.run(main())
