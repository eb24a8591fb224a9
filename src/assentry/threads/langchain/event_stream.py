"""LangChain's own stream of events, for an agent: its events, and those of whatever of LangChain's a tool calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig


class AgentRunnable(Runnable[Any, Any]):
    """An agent as LangChain's stream of events needs it: something that streams."""

    def __init__(self, agent: Any, options: Mapping[str, Any]) -> None:
        self.agent, self.options = agent, options
        self.name = agent.agent.name

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the agent."""
        return self.agent.invoke(input, config, **self.options)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream the agent."""
        async with aclosing(self.agent.astream(input, config, **self.options)) as chunks:
            async for chunk in chunks:
                yield chunk


async def langchain_events(
    agent: Any, input: Any, config: Any, version: Any, filters: Mapping[str, Any], options: Mapping[str, Any]
) -> AsyncGenerator[Any, None]:
    """Yield LangChain's events of a call."""
    events: Any = AgentRunnable(agent, options).astream_events(input, config, version=version, **filters)
    async with aclosing(events):
        async for event in events:
            yield event
