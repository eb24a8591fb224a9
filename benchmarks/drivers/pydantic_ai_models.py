"""pydantic-ai with its models over the providers' clients."""

from __future__ import annotations

from typing import Any

from pydantic_ai import AgentRunResultEvent
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from ..conversation import PROMPT
from ..recordings import MODEL
from . import dialects, driver
from .pydantic_ai import UNLIMITED, agent


def model(dialect: str, client: Any) -> Any:
    """A dialect's model over a client."""
    if dialect == "anthropic":
        return AnthropicModel(MODEL[dialect], provider=AnthropicProvider(anthropic_client=client))
    kind: Any = OpenAIChatModel if dialect == "chat" else OpenAIResponsesModel
    return kind(MODEL[dialect], provider=OpenAIProvider(openai_client=client))


class Driver(dialects.Driver):
    """pydantic-ai, driven."""

    def made(self, dialect: str, client: Any) -> Any:
        made = agent(driver.Script())
        made.model = model(dialect, client)
        return made

    async def streamed(self, agent: Any) -> list[str]:
        read: list[str] = []
        output = None
        async with agent.run_stream_events(PROMPT, usage_limits=UNLIMITED) as events:
            async for event in events:
                if isinstance(event, PartDeltaEvent):
                    if isinstance(event.delta, TextPartDelta):
                        read.append(event.delta.content_delta)
                elif isinstance(event, PartStartEvent):
                    if isinstance(event.part, TextPart) and event.part.content:
                        read.append(event.part.content)
                elif isinstance(event, AgentRunResultEvent):
                    output = event.result.output
        assert output == "".join(read)
        return read

    async def unstreamed(self, agent: Any) -> str:
        result = await agent.run(PROMPT, usage_limits=UNLIMITED)
        text: str = result.output
        return text


def make() -> Driver:
    """The driver."""
    return Driver()
