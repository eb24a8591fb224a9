"""Assentry with its models over the providers' clients."""

from __future__ import annotations

from typing import Any

from assentry import (
    Agent,
    AnthropicModel,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
)

from ..conversation import PROMPT, SYSTEM
from ..recordings import MODEL
from . import dialects
from .assentry import MAX_TURNS, lookup, wire

MODELS: dict[str, Any] = {
    "responses": OpenAIResponsesModel,
    "chat": OpenAIChatCompletionsModel,
    "anthropic": AnthropicModel,
}


class Driver(dialects.Driver):
    """Assentry, driven."""

    def made(self, dialect: str, client: Any) -> Agent[Any]:
        model = MODELS[dialect](MODEL[dialect], client)
        return Agent(name="bench", instructions=SYSTEM, tools=[lookup, wire], model=model)

    async def streamed(self, agent: Agent[Any]) -> list[str]:
        result = Runner.run_streamed(agent, PROMPT, max_turns=MAX_TURNS)
        read = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
        assert result.final_output == "".join(read)
        return read

    async def unstreamed(self, agent: Agent[Any]) -> str:
        result = await Runner.run(agent, PROMPT, max_turns=MAX_TURNS)
        text: str = result.final_output
        return text


def make() -> Driver:
    """The driver."""
    return Driver()
