"""Threads that are talked on, decided on, forked and updated in any order: nothing runs that was not approved."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from assentry import AssentryError
from assentry.testing import call
from assentry.threads import AIMessage, HumanMessage, InMemorySaver, RemoveMessage, ToolMessage
from tests.draws import examples
from tests.threads.support import dangling, decide, office, requests, say, thread

DEEDS = ("say", "say", "approve", "reject", "go on", "fork", "fork", "update", "remove", "correct", "invent")
deeds = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 2**16)), max_size=10)


def steps() -> Any:
    """A model that makes calls, and says something every third time."""
    number = 0
    while True:
        number += 1
        if number % 3 == 0:
            yield f"Reply {number}."
        else:
            yield [call("execute_sql", {"query": str(number)}, f"p{number}"), call("read_data", {}, f"r{number}")]


class Desk:
    """A thread, and what was approved on it."""

    def __init__(self) -> None:
        made = steps()
        self.agent, self.ran = office(*(next(made) for _ in range(60)), checkpointer=InMemorySaver())
        self.approved = 0

    async def do(self, deed: str, seed: int) -> None:
        agent, state = self.agent, self.agent.get_state(thread())
        messages = state.values.get("messages", [])
        chosen = messages[seed % len(messages)] if messages else None
        if deed == "say":
            await agent.ainvoke(say(f"Said {seed}"), thread(), on_pending=("reject", "keep", None)[seed % 3])
        elif deed in ("approve", "reject"):
            await agent.ainvoke(decide(deed), thread())
            self.approved += deed == "approve"
        elif deed == "go on":
            await agent.ainvoke(None, thread())
        elif deed == "fork":
            history = list(agent.get_state_history(thread()))
            point = history[seed % len(history)].config if history else thread()
            given = None if seed % 2 else say("Once more")
            await agent.ainvoke(given, point, on_pending=("reject", "keep", None)[seed % 3])
        elif deed == "update":
            agent.update_state(thread(), {"messages": [HumanMessage("By the way")]}, (None, "__start__")[seed % 2])
        elif deed == "remove" and chosen is not None:
            agent.update_state(thread(), {"messages": [RemoveMessage(id=chosen.id)]})
        elif deed == "correct" and isinstance(chosen, AIMessage):
            calls = [{**each, "args": {"query": "corrected"}} for each in chosen.tool_calls[:1]]
            agent.update_state(thread(), {"messages": [AIMessage("So.", id=chosen.id, tool_calls=calls)]})
        elif deed == "invent" and isinstance(chosen, AIMessage) and chosen.tool_calls:
            answer = ToolMessage("invented", tool_call_id=chosen.tool_calls[0]["id"])
            agent.update_state(thread(), {"messages": [answer]})

    async def is_sound(self) -> None:
        store = self.agent.store
        assert store is not None
        assert sum(name == "execute_sql" for name, *_ in self.ran) <= self.approved
        runs = (await store.runs(thread="t", limit=1000)).items
        for record in runs:
            assert await store.verify(record.id) == []
        assert all(each.status in ("done", "closed") for each in runs[:-1])
        assert {each.run for each in (await store.questions()).items} <= {each.id for each in runs[-1:]}
        assert all(dangling(each.input) == [] for each in requests(self.agent))
        state = self.agent.get_state(thread())
        assert "invented" not in [each.content for each in state.values.get("messages", [])]
        for each in self.agent.get_state_history(thread()):
            assert self.agent.get_state(each.config) == each


@given(deeds)
@settings(max_examples=examples(150), deadline=None)
def test_nothing_runs_that_was_not_approved_whatever_is_done_to_a_thread(wanted: list[tuple[str, int]]) -> None:
    async def play() -> None:
        desk = Desk()
        for deed, seed in wanted:
            with suppress(AssentryError):  # a sentence of ours; nothing else may come
                await desk.do(deed, seed)
            await desk.is_sound()

    asyncio.run(play())
