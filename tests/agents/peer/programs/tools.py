"""Function tools: descriptions, defaults, choices, nested models, and what they return."""

import asyncio
from typing import Annotated, Literal

from agents import Agent, FunctionTool, RunContextWrapper, Runner, function_tool
from pydantic import BaseModel, Field


class Stay(BaseModel):
    city: str
    nights: int = Field(description="How long.", ge=1)


@function_tool
def book_room(stay: Stay, kind: Literal["single", "double"] = "single") -> str:
    """Book a room.
    Args:
        stay: Where and how long.
        kind: The kind of room.
    """
    return f"{kind} room in {stay.city} for {stay.nights}"


@function_tool(name_override="rate", description_override="Look up a rate.", strict_mode=False)
async def look_up(
    context: RunContextWrapper[None], city: Annotated[str, "The city's name"], season: str = "low"
) -> str:
    return f"{city} in the {season} season: 100"


@function_tool(is_enabled=False)
def never() -> str:
    return "never"


async def main() -> None:
    agent = Agent(name="Hotel", instructions="Book rooms.", tools=[book_room, look_up, never])
    for tool in agent.tools:
        assert isinstance(tool, FunctionTool)
        print(tool.name, "|", tool.description)
    result = await Runner.run(agent, "A room in Ghent.")
    print(result.final_output)
    print([item.type for item in result.new_items])
    for item in result.new_items:
        if item.type == "tool_call_output_item":
            print("output:", item.output)


asyncio.run(main())
