"""Calls that wait for a person: saved, loaded, approved and rejected."""

import asyncio
import json
from typing import Any

from agents import Agent, RunContextWrapper, Runner, RunState, function_tool


async def is_far(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
    return bool(arguments["city"] != "Ghent")


@function_tool(needs_approval=is_far)
def travel(city: str) -> str:
    """Travel to a city."""
    return f"went to {city}"


@function_tool(needs_approval=True)
async def pay(name: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {name}"


@function_tool
def look(query: str) -> str:
    """Look something up."""
    return "found"


async def main() -> None:
    agent = Agent(name="Clerk", instructions="Do it.", tools=[travel, pay, look])
    result = await Runner.run(agent, "Go, and pay.")
    print("final:", result.final_output)
    while result.interruptions:
        text = json.dumps(result.to_state().to_json())
        state = await RunState.from_json(agent, json.loads(text))
        for item in state.get_interruptions():
            print(item.name, item.arguments, item.agent.name)
            if item.name == "pay":
                state.reject(item, rejection_message="Too much.")
            else:
                state.approve(item)
        result = await Runner.run(agent, state)
    print([item.output for item in result.new_items if item.type == "tool_call_output_item"])
    print(result.final_output)


asyncio.run(main())
