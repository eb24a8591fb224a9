"""Tools that the provider runs, and their calls among the items."""

import asyncio
from typing import Any

from agents import Agent, CodeInterpreterTool, FileSearchTool, ImageGenerationTool, Runner, WebSearchTool
from openai.types.responses.web_search_tool import Filters


def kind_of(raw: Any) -> str:
    return str(raw["type"] if isinstance(raw, dict) else raw.type)


async def main() -> None:
    agent = Agent(
        name="Researcher",
        instructions="Search first.",
        tools=[
            WebSearchTool(filters=Filters(allowed_domains=["example.com"]), search_context_size="low"),
            FileSearchTool(vector_store_ids=["vs_1"], max_num_results=2, include_search_results=True),
            CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}}),
            ImageGenerationTool(tool_config={"type": "image_generation", "quality": "low"}),
        ],
    )
    result = await Runner.run(agent, "What is new?")
    for item in result.new_items:
        print(type(item).__name__, item.type, kind_of(item.raw_item))
    print(result.final_output)
    streamed = Runner.run_streamed(agent, "And now?")
    async for event in streamed.stream_events():
        if event.type == "run_item_stream_event":
            print(event.name, event.item.type)


asyncio.run(main())
