"""A session of one's own, and a callback that joins history and new input."""

import asyncio

from agents import Agent, RunConfig, Runner, SessionABC, TResponseInputItem


class ListSession(SessionABC):
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.items: list[TResponseInputItem] = []

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        return list(self.items if limit is None else self.items[-limit:])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        print("adds", len(items))
        self.items.extend(items)

    async def pop_item(self) -> TResponseInputItem | None:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


def newest(history: list[TResponseInputItem], fresh: list[TResponseInputItem]) -> list[TResponseInputItem]:
    return [*history[-1:], *fresh]


async def main() -> None:
    agent = Agent(name="Guide", instructions="Be brief.")
    session = ListSession("one")
    for question in ("Where is Ghent?", "Who rules there?"):
        config = RunConfig(session_input_callback=newest)
        print((await Runner.run(agent, question, session=session, run_config=config)).final_output)
    print(len(session.items))


asyncio.run(main())
