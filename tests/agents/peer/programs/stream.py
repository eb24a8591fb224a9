"""A streamed run: text as it comes, items as they are done."""

import asyncio

from agents import Agent, ItemHelpers, Runner, function_tool
from openai.types.responses import ResponseTextDeltaEvent


@function_tool
def roll(sides: int) -> str:
    """Roll a die.

    Args:
        sides: How many sides it has.
    """
    return str(sides)


async def main() -> None:
    agent = Agent(name="Dealer", instructions="Roll first.", tools=[roll])
    result = Runner.run_streamed(agent, input="Roll for me.")
    async for event in result.stream_events():
        if event.type == "raw_response_event":
            if isinstance(event.data, ResponseTextDeltaEvent):
                print(event.data.delta, end="", flush=True)
        elif event.type == "agent_updated_stream_event":
            print("agent:", event.new_agent.name)
        elif event.type == "run_item_stream_event":
            print()
            print(event.name, event.item.type)
            if event.item.type == "tool_call_output_item":
                print("output:", event.item.output)
            elif event.item.type == "message_output_item":
                print("message:", ItemHelpers.text_message_output(event.item))
    print(result.final_output, result.is_complete, result.current_agent.name)


asyncio.run(main())
