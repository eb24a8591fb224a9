"""Every raw event of a stream, by its type, and the arguments of a call as they come."""

import asyncio
from collections import Counter

from agents import Agent, Runner, function_tool
from openai.types.responses import ResponseFunctionCallArgumentsDeltaEvent, ResponseOutputItemAddedEvent


@function_tool
def write_file(filename: str, content: str) -> str:
    """Write a file."""
    return "written"


async def main() -> None:
    agent = Agent(name="Writer", instructions="Write files.", tools=[write_file])
    result = Runner.run_streamed(agent, "Write hello.txt")
    seen: Counter[str] = Counter()
    async for event in result.stream_events():
        if event.type != "raw_response_event":
            continue
        seen[event.data.type] += 1
        if isinstance(event.data, ResponseOutputItemAddedEvent):
            print("added", event.data.item.type)
        elif isinstance(event.data, ResponseFunctionCallArgumentsDeltaEvent):
            print(event.data.delta)
    for name, count in sorted(seen.items()):
        print(name, count)


asyncio.run(main())
