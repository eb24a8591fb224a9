"""Tools that return images and files, as objects and as plain dicts."""

import asyncio

from agents import (
    Agent,
    Runner,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputImageDict,
    ToolOutputText,
    function_tool,
)

URL = "https://example.com/cat.png"


@function_tool
def as_object() -> ToolOutputImage:
    """Return an image."""
    return ToolOutputImage(image_url=URL, detail="low")


@function_tool
def as_dict() -> ToolOutputImageDict:
    """Return an image."""
    return {"type": "image", "image_url": URL, "detail": "high"}


@function_tool
def as_list() -> list[ToolOutputText | ToolOutputFileContent]:
    """Return a text and a file."""
    return [ToolOutputText(text="Here it is."), ToolOutputFileContent(file_id="file_1")]


async def main() -> None:
    agent = Agent(name="Painter", instructions="Show it.", tools=[as_object, as_dict, as_list])
    print((await Runner.run(agent, "A cat.")).final_output)


asyncio.run(main())
