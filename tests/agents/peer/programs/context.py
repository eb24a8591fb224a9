"""A context of one's own, in tools and in instructions that depend on it."""

import asyncio
from dataclasses import dataclass, field

from agents import Agent, RunContextWrapper, Runner, function_tool
from agents.tool_context import ToolContext


@dataclass
class User:
    name: str
    seen: list[str] = field(default_factory=list)


@function_tool
async def account(context: ToolContext[User], kind: str) -> str:
    """Look an account up."""
    context.context.seen.append(context.tool_name)
    return f"{context.context.name} has one: {context.tool_arguments}"


def instructions(context: RunContextWrapper[User], agent: Agent[User]) -> str:
    return f"You help {context.context.name} as {agent.name}."


async def main() -> None:
    user = User("Ann")
    agent = Agent[User](name="Bank", instructions=instructions, tools=[account])
    result = await Runner.run(agent, "What do I have?", context=user)
    print(result.final_output, user.seen)
    other = agent.clone(name="Other", instructions="Plain.")
    print(other.name, other.instructions, [tool.name for tool in other.tools])
    print((await Runner.run(other, "Again.", context=user)).final_output)


asyncio.run(main())
