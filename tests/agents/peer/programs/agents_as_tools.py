"""Agents as tools: with plain and with structured input, and with an extractor."""

import asyncio

from agents import Agent, Runner, RunResult, RunResultStreaming
from pydantic import BaseModel, Field


class Translation(BaseModel):
    text: str = Field(description="What to translate.")
    language: str


async def shout(result: RunResult | RunResultStreaming) -> str:
    return str(result.final_output).upper()


async def main() -> None:
    spanish = Agent(name="Spanish", instructions="Translate to Spanish.")
    poet = Agent(name="Poet", instructions="Write verse.")
    translator = Agent(name="Translator", instructions="Translate.")
    agent = Agent(
        name="Orchestrator",
        instructions="Use the tools.",
        tools=[
            spanish.as_tool(tool_name="to_spanish", tool_description="Translate to Spanish."),
            poet.as_tool(tool_name="verse", tool_description="Verse.", custom_output_extractor=shout),
            translator.as_tool(tool_name="translate", tool_description="Translate.", parameters=Translation),
        ],
    )
    result = await Runner.run(agent, "Good morning.")
    for item in result.new_items:
        if item.type == "tool_call_output_item":
            print("output:", item.output)
    print(result.final_output)


asyncio.run(main())
