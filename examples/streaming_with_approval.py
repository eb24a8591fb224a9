"""Stream a run that stops to ask.

    python examples/streaming_with_approval.py

The stream tells everything as it happens: the model's words one by one, its calls, what they gave, and that you are
asked. It ends where the run has to wait. Decide, and stream on from the state.
"""

import asyncio
from typing import Any

from assentry import (
    Agent,
    ApprovalDecidedEvent,
    ApprovalRequestedEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    Runner,
    RunResultStreaming,
    RunState,
    ToolCallOutputItem,
    function_tool,
)
from assentry.testing import ScriptedModel, call


@function_tool
async def forecast(city: str) -> str:
    """Tell tomorrow's weather."""
    return f"Rain in {city}."


@function_tool(needs_approval=True)
async def cancel_picnic(reason: str) -> str:
    """Cancel tomorrow's picnic and tell the guests."""
    return f"The guests know: {reason}"


agent = Agent[Any](
    name="Picnic planner",
    tools=[forecast, cancel_picnic],
    model=ScriptedModel(
        [
            ["Let me look at the sky first.", call("forecast", {"city": "Ghent"})],
            ["That does not look good.", call("cancel_picnic", {"reason": "It will rain."})],
            "Well, there will be other picnics.",
        ]
    ),
)


async def stream(start: str | RunState[Any]) -> RunResultStreaming:
    """One stretch of the run: up to its end, or to a question."""
    result = Runner.run_streamed(agent, start)
    async for event in result.stream_events():
        match event:
            case RawResponsesStreamEvent(data=data) if data.type == "response.output_text.delta":
                print(data.delta, end="", flush=True)
            case RunItemStreamEvent(name="message_output_created"):
                print()
            case RunItemStreamEvent(item=ToolCallOutputItem(output=output)):
                print(f"  [it gave] {output}")
            case ApprovalRequestedEvent(item=item):
                print(f"  [you are asked] {item.name} {item.arguments}")
            case ApprovalDecidedEvent(decision=decision, by=by):
                print(f"  [{decision} by {by}]")
    return result


def main() -> None:
    result = asyncio.run(stream("Shall we go for a picnic tomorrow?"))
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            if input(f"{item.name}? [y/N] ").strip().lower() in ("y", "yes"):
                state.approve(item, by="you")
            else:
                state.reject(item, by="you")
        result = asyncio.run(stream(state))


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print("\nYou left it open, so the picnic is not cancelled.")
