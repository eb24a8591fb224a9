"""A conversation with several agents, kept as a list of items."""

import asyncio

from agents import (
    Agent,
    HandoffOutputItem,
    ItemHelpers,
    MessageOutputItem,
    Runner,
    ToolCallItem,
    ToolCallOutputItem,
    TResponseInputItem,
    function_tool,
    trace,
)


@function_tool
def seat(confirmation_number: str, new_seat: str) -> str:
    """Change a seat.

    Args:
        confirmation_number: The booking.
        new_seat: The new seat.
    """
    return f"{confirmation_number}: {new_seat}"


seats = Agent(name="Seats", handoff_description="Changes seats.", instructions="Change seats.", tools=[seat])
triage = Agent(name="Triage", instructions="Decide who helps.", handoffs=[seats])


async def main() -> None:
    agent, items = triage, list[TResponseInputItem]()
    for line in ("I want another seat.", "Thank you."):
        with trace("Airline", group_id="one"):
            items.append({"content": line, "role": "user"})
            result = await Runner.run(agent, items)
            for item in result.new_items:
                if isinstance(item, MessageOutputItem):
                    print(f"{item.agent.name}: {ItemHelpers.text_message_output(item)}")
                elif isinstance(item, HandoffOutputItem):
                    print(f"handed from {item.source_agent.name} to {item.target_agent.name}")
                elif isinstance(item, ToolCallItem):
                    print(f"{item.agent.name}: calls a tool")
                elif isinstance(item, ToolCallOutputItem):
                    print(f"{item.agent.name}: {item.output}")
            items, agent = result.to_input_list(), result.last_agent


asyncio.run(main())
