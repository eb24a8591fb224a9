"""Say no in words of your own.

    python examples/custom_rejection.py

The model is told why a call did not run. Whoever rejects it can say so, for this call, with `rejection_message`. Where
nobody did, `RunConfig(tool_error_formatter=...)` words it for the whole run; what it has no words for (it gives None)
keeps Assentry's own text. All three happen here.
"""

from typing import Any

from assentry import Agent, RunConfig, Runner, ToolCallItem, ToolCallOutputItem, ToolErrorFormatterArgs, function_tool
from assentry.testing import ScriptedModel, call


@function_tool(needs_approval=True)
async def publish(title: str) -> str:
    """Put an article on the web site."""
    return f"Published: {title}"


@function_tool(needs_approval=True)
async def unpublish(title: str) -> str:
    """Take an article off the web site."""
    return f"Gone: {title}"


def house_style(refused: ToolErrorFormatterArgs) -> str | None:
    """The words for a refusal that came without any."""
    if refused.kind == "approval_rejected" and refused.tool_name == "publish":
        return "The editors said no to this article. Offer them another one; do not offer it again."
    return None


agent = Agent[Any](
    name="Newsroom",
    tools=[publish, unpublish],
    model=ScriptedModel(
        [
            [
                call("publish", {"title": "Ten lamps to love"}),
                call("publish", {"title": "Eleven lamps to love"}),
                call("unpublish", {"title": "Nine lamps to love"}),
            ],
            "I leave the lamps alone.",
        ]
    ),
)


def main() -> None:
    config = RunConfig(tool_error_formatter=house_style)  # a live object: given again on resume
    result = Runner.run_sync(agent, "Do something about lamps.", run_config=config)

    state = result.to_state()
    ten, eleven, nine = result.interruptions
    state.reject(ten, rejection_message="We had this last week. Write about chairs.")
    state.reject(eleven)
    state.reject(nine)
    result = Runner.run_sync(agent, state, run_config=config)

    calls = [item for item in result.new_items if isinstance(item, ToolCallItem)]
    told = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    for proposed, output in zip(calls, told, strict=True):
        print(f"{proposed.tool_name} {proposed.raw_item['arguments']}")
        print(f"    {output.outcome.status}; the model was told: {output.output}")
    print(result.final_output)


if __name__ == "__main__":
    main()
