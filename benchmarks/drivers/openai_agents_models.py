"""openai-agents with its models over OpenAI's client. It has none over Anthropic's."""

from __future__ import annotations

from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled

from ..conversation import PROMPT, SYSTEM
from ..recordings import MODEL
from . import dialects
from .openai_agents import CONFIG, lookup, wire

MODELS: dict[str, Any] = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


class Driver(dialects.Driver):
    """openai-agents, driven."""

    def __init__(self) -> None:
        super().__init__()
        set_tracing_disabled(True)

    def made(self, dialect: str, client: Any) -> Any:
        model = MODELS[dialect](model=MODEL[dialect], openai_client=client)
        return Agent(name="bench", instructions=SYSTEM, model=model, tools=[lookup, wire])

    async def streamed(self, agent: Any) -> list[str]:
        result = Runner.run_streamed(agent, PROMPT, max_turns=None, run_config=CONFIG)
        read = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
        assert result.final_output == "".join(read)
        return read

    async def unstreamed(self, agent: Any) -> str:
        result = await Runner.run(agent, PROMPT, max_turns=None, run_config=CONFIG)
        text: str = result.final_output
        return text


def make() -> Driver:
    """The driver."""
    return Driver()
