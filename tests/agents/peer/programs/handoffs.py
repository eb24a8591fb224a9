"""Handoffs: by name, with an input, with a callback, and with a filter on the history."""

import asyncio

from agents import Agent, HandoffInputData, RunContextWrapper, Runner, function_tool, handoff
from agents.extensions import handoff_filters
from agents.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX
from pydantic import BaseModel


class Reason(BaseModel):
    reason: str


@function_tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order}: sent"


async def on_refund(context: RunContextWrapper[None], data: Reason) -> None:
    print("handed over because of", data.reason)


def without_tools(data: HandoffInputData) -> HandoffInputData:
    print("filter:", len(data.input_history), len(data.pre_handoff_items), len(data.new_items))
    return handoff_filters.remove_all_tools(data)


async def main() -> None:
    refunds = Agent(
        name="Refunds", instructions=f"{RECOMMENDED_PROMPT_PREFIX}\nYou refund.", handoff_description="For money."
    )
    triage = Agent(
        name="Triage",
        instructions="Decide who helps.",
        tools=[look_up],
        handoffs=[handoff(agent=refunds, on_handoff=on_refund, input_type=Reason, input_filter=without_tools)],
    )
    result = await Runner.run(triage, "My money back, please.")
    print(result.last_agent.name, "|", result.final_output)
    print([item.type for item in result.new_items])
    for item in result.new_items:
        if item.type == "handoff_output_item":
            print(item.source_agent.name, "->", item.target_agent.name)

    second = Agent(name="Sales", instructions="You sell.", handoffs=[refunds])
    print((await Runner.run(second, "I want another one.")).last_agent.name)


asyncio.run(main())
