"""A session whose items are encrypted at rest."""

import asyncio

from agents import Agent, Runner, SQLiteSession
from agents.extensions.memory import EncryptedSession


async def main() -> None:
    plain = SQLiteSession("user_1", "memory.db")
    session = EncryptedSession(session_id="user_1", underlying_session=plain, encryption_key="a secret of some length")
    agent = Agent(name="Guide", instructions="Be brief.")
    for question in ("Where is Ghent?", "Who rules there?"):
        print((await Runner.run(agent, question, session=session)).final_output)
    print(len(await session.get_items()))
    print(["Ghent" in str(item) for item in await plain.get_items()])
    plain.close()


asyncio.run(main())
