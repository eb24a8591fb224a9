"""A conversation that OpenAI keeps, with approval in the middle.

    OPENAI_API_KEY=... python examples/openai_conversation.py

Order something ("order 3 lamps"), or ask what you have ordered. OpenAI keeps what was said; an order that waits for you
is not in it yet. The conversation's id is printed: give it as an argument to go on another day.
"""

import os
import sys
from typing import Any

from assentry import Agent, OpenAIConversationsSession, Runner, function_tool


@function_tool(needs_approval=True)
async def order(what: str) -> str:
    """Order something."""
    return f"ordered {what}"


agent = Agent[Any](name="Shop", instructions="You take orders. Be brief.", tools=[order], model="gpt-5.2")


def answered(line: str, session: OpenAIConversationsSession) -> str:
    """One line of the conversation, seen through to its answer."""
    result = Runner.run_sync(agent, line, session=session)
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            if input(f"{item.name} {item.arguments}? [y/N] ").strip().lower() in ("y", "yes"):
                state.approve(item, by="you")
            else:
                state.reject(item, rejection_message="The customer changed their mind.", by="you")
        result = Runner.run_sync(agent, state, session=session)
    return str(result.final_output)


def main() -> None:
    if "OPENAI_API_KEY" not in os.environ:
        print("This example talks to OpenAI: set OPENAI_API_KEY. Without a key, see examples/sqlite_session.py.")
        return
    session = OpenAIConversationsSession(sys.argv[1] if sys.argv[1:] else None)
    while line := input("you: ").strip():
        print("shop:", answered(line, session))
        print(f"      (conversation {session.session_id})")


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print("\nOpenAI keeps the conversation.")
