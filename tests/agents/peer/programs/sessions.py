"""Memory: a session over several runs, looked at and corrected."""

import asyncio

from agents import Agent, RunConfig, Runner, SessionSettings, SQLiteSession, TResponseInputItem


async def main() -> None:
    agent = Agent(name="Guide", instructions="Be brief.")
    session = SQLiteSession("user_1", "memory.db")
    for question in ("Where is Ghent?", "Who rules there?"):
        print((await Runner.run(agent, question, session=session)).final_output)
    items = await session.get_items()
    print(len(items), [item.get("role") for item in items], session.session_id)
    print(len(await session.get_items(limit=2)))
    await session.pop_item()
    await session.pop_item()
    extra: TResponseInputItem = {"role": "user", "content": "And the mayor?"}
    await session.add_items([extra])
    print([item.get("role") for item in await session.get_items()])
    config = RunConfig(session_settings=SessionSettings(limit=1))
    print((await Runner.run(agent, "So?", session=session, run_config=config)).final_output)
    await session.clear_session()
    print(await session.get_items())
    session.close()


asyncio.run(main())
