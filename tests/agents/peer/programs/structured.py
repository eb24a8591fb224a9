"""Structured outputs, strict and not."""

import asyncio

from agents import Agent, AgentOutputSchema, Runner
from pydantic import BaseModel


class Event(BaseModel):
    title: str
    guests: list[str]
    is_public: bool
    room: int | None = None


class Scores(BaseModel):
    by_name: dict[str, int]


async def main() -> None:
    agent = Agent(name="Calendar", instructions="Find the event.", output_type=Event)
    result = await Runner.run(agent, "Dinner with Ann, Friday.")
    event = result.final_output_as(Event)
    print(event.title, event.guests, event.is_public, event.room)

    loose = Agent(name="Judge", instructions="Score.", output_type=AgentOutputSchema(Scores, strict_json_schema=False))
    print((await Runner.run(loose, "Score Ann.")).final_output)

    words = Agent(name="Words", output_type=list[str])
    print((await Runner.run(words, "Three words.")).final_output)


asyncio.run(main())
