"""A shop whose calls wait for a person, on any of the models that the embedded weights can play.

As a program it goes on with a saved run in a process of its own, approves what waits, and prints what came of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from assentry import (
    Agent,
    AnthropicModel,
    EmbeddedModel,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    RunState,
    function_tool,
)

DIALECTS = ["responses", "chat", "anthropic", "embedded"]
ONCE = {"Connection": "close"}
"""The header of clients that nobody closes: no connection is kept after its response."""
ran: list[dict[str, Any]] = []


@function_tool(needs_approval=True)
async def refund(order: int, amount: float) -> str:
    """Pay money back for an order."""
    ran.append({"order": order, "amount": amount})
    return f"Refunded {amount:.2f} on order {order}."


@function_tool(needs_approval=True)
async def look_up(order: int) -> str:
    """Look up an order by its number."""
    ran.append({"order": order})
    return "A desk lamp."


def model_of(dialect: str, url: str) -> Model:
    """Return the model, with the provider's own client."""
    if dialect == "embedded":
        return EmbeddedModel()
    if dialect == "anthropic":
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(base_url=url, api_key="none", max_retries=0, default_headers=ONCE)
        return AnthropicModel("embedded", client)
    from openai import AsyncOpenAI

    openai = AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, default_headers=ONCE)
    kind = OpenAIResponsesModel if dialect == "responses" else OpenAIChatCompletionsModel
    return kind("embedded", openai)


def shop(dialect: str, url: str) -> Agent[Any]:
    return Agent(
        "Shop",
        "Be brief.",
        [refund, look_up],
        model=model_of(dialect, url),
        model_settings=ModelSettings(tool_choice="required", max_tokens=120),
        reset_tool_choice=False,
    )


async def go_on(dialect: str, url: str, saved: str) -> None:
    agent = shop(dialect, url)
    state = await RunState.from_string(agent, saved)
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    print(json.dumps({"ran": ran, "asked": [each.name for each in result.interruptions]}))


if __name__ == "__main__":
    asyncio.run(go_on(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text("utf-8")))
