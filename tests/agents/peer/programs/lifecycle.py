"""Hooks of a run and of an agent, in the order in which they are called."""

import asyncio
from typing import Any

from agents import (
    Agent,
    AgentHookContext,
    AgentHooks,
    ModelResponse,
    RunContextWrapper,
    RunHooks,
    Runner,
    Tool,
    TResponseInputItem,
    function_tool,
)


class Everything(RunHooks[Any]):
    async def on_agent_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        print("run: start", agent.name, context.usage.requests, len(context.turn_input))

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        print("run: model", agent.name, system_prompt, len(input_items))

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        print("run: reply", agent.name, [each.type for each in response.output])

    async def on_agent_end(self, context: AgentHookContext[Any], agent: Agent[Any], output: Any) -> None:
        print("run: end", agent.name, output)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool) -> None:
        print("run: tool", tool.name)

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        print("run: output", tool.name, result)

    async def on_handoff(self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]) -> None:
        print("run: handoff", from_agent.name, to_agent.name)


class Own(AgentHooks[Any]):
    def __init__(self, name: str) -> None:
        self.name = name

    async def on_start(self, context: AgentHookContext[Any], agent: Agent[Any]) -> None:
        print(f"{self.name}: start", agent.name)

    async def on_end(self, context: AgentHookContext[Any], agent: Agent[Any], output: Any) -> None:
        print(f"{self.name}: end", agent.name)

    async def on_handoff(self, context: RunContextWrapper[Any], agent: Agent[Any], source: Agent[Any]) -> None:
        print(f"{self.name}: handoff", agent.name, "from", source.name)

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool) -> None:
        print(f"{self.name}: tool", tool.name)


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    last = Agent(name="Last", instructions="Finish.", hooks=Own("second"))
    first = Agent(name="First", instructions="Add.", tools=[add], handoffs=[last], hooks=Own("first"))
    result = await Runner.run(first, "Add and go on.", hooks=Everything())
    print(result.final_output)


asyncio.run(main())
