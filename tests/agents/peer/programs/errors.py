"""Errors of a run: too many turns, handled or not, and wrong use."""

import asyncio
from typing import Any

from agents import (
    Agent,
    AgentsException,
    MaxTurnsExceeded,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    Runner,
    UserError,
    function_tool,
)


@function_tool
def more(name: str) -> str:
    """Do more."""
    return "more"


def on_too_many(data: RunErrorHandlerInput[Any]) -> RunErrorHandlerResult:
    return RunErrorHandlerResult(final_output="I did not finish.", include_in_history=False)


async def main() -> None:
    agent = Agent(name="Endless", instructions="More.", tools=[more])
    try:
        await Runner.run(agent, "Go on.", max_turns=1)
    except MaxTurnsExceeded as error:
        print("too many:", isinstance(error, AgentsException), error.run_data is not None)
        if error.run_data:
            print(len(error.run_data.new_items), error.run_data.last_agent.name)
    result = await Runner.run(agent, "Go on.", max_turns=1, error_handlers={"max_turns": on_too_many})
    print(result.final_output)
    print(issubclass(UserError, AgentsException), issubclass(MaxTurnsExceeded, AgentsException))


asyncio.run(main())
