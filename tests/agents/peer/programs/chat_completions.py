"""Another provider's server, over Chat Completions."""

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"dry in {city}"


async def main() -> None:
    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="other")
    model = OpenAIChatCompletionsModel(model="other-model", openai_client=client)
    agent = Agent(name="Weather", instructions="Verse only.", model=model, tools=[weather])
    result = await Runner.run(agent, "Weather in Ghent?")
    print(result.final_output, [item.type for item in result.new_items])
    streamed = Runner.run_streamed(agent, "And in Bruges?")
    async for event in streamed.stream_events():
        if event.type == "run_item_stream_event":
            print(event.name)
    print(streamed.final_output)


asyncio.run(main())
