"""History that the provider keeps: by response, by conversation, and in a session over one."""

import asyncio

from agents import Agent, OpenAIConversationsSession, Runner, function_tool
from openai import AsyncOpenAI


@function_tool
def look(query: str) -> str:
    """Look something up."""
    return "found"


async def main() -> None:
    agent = Agent(name="Guide", instructions="Be brief.", tools=[look])
    first = await Runner.run(agent, "Where is Ghent?")
    second = await Runner.run(agent, "Who rules there?", previous_response_id=first.last_response_id)
    print(second.final_output)
    conversation = await AsyncOpenAI().conversations.create()
    for question in ("Where is Bruges?", "Who rules there?"):
        print((await Runner.run(agent, question, conversation_id=conversation.id)).final_output)
    session = OpenAIConversationsSession()
    for question in ("Where is Bruges?", "Who rules there?"):
        print((await Runner.run(agent, question, session=session)).final_output)
    print(len(await session.get_items()))


asyncio.run(main())
