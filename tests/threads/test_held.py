"""Runs that an agent keeps at hand: what is answered soon is not read, and nothing depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from assent.errors import AlreadyDecided, Conflict, UsageError
from assent.store import MemoryStore, Stored
from assent.store.packing import LARGE
from assent.testing import call
from assent.threads import Command, ThreadAgent, held
from tests.threads.support import Ran, decide, office, say, texts, thread


@pytest.fixture(autouse=True)
def at_hand() -> None:
    """Here it is not for the conftest to say."""


class Read(MemoryStore):
    """Notes which threads are looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def newest(self, thread: str) -> Stored | None:
        self.seen.append(thread)
        return await super().newest(thread)


def sql(query: str) -> Any:
    return call("execute_sql", {"query": query})


async def waiting(*steps: Any, **options: Any) -> tuple[Read, Ran, ThreadAgent]:
    """A thread that waits, and an agent that has left it."""
    store, ran = Read(), Ran()
    agent, _ = office(*steps, ran=ran, checkpointer=store, **options)
    await agent.ainvoke(say("go"), thread())
    store.seen.clear()
    return store, ran, agent


async def test_what_is_answered_soon_is_not_read() -> None:
    store, ran, agent = await waiting(sql("a"), sql("b"), "ok")
    assert "__interrupt__" in await agent.ainvoke(decide("approve"), thread())
    result = await agent.ainvoke(decide("approve"), thread())
    assert (texts(result)[-1], ran) == (("ai", "ok"), [("execute_sql", "a"), ("execute_sql", "b")])
    assert store.seen == []
    assert await agent.ainvoke(None, thread()) == result
    assert store.seen == ["t"]


async def test_what_others_have_answered_meanwhile_is_answered() -> None:
    store, ran, agent = await waiting(sql("a"), "ok")
    other, _ = office("ok", ran=ran, checkpointer=store)
    assert texts(await other.ainvoke(decide("reject", by="bob"), thread()))[-1] == ("ai", "ok")
    with pytest.raises(AlreadyDecided) as lost:
        await agent.ainvoke(decide("approve"), thread())
    assert (lost.value.by, lost.value.verdict, ran) == ("bob", "reject", [])


async def test_an_answer_is_for_the_question_that_was_left_and_for_no_later_one() -> None:
    store, ran, agent = await waiting(sql("a"))
    other, _ = office("ok", sql("drop everything"), ran=ran, checkpointer=store)
    await other.ainvoke(decide("reject", by="bob"), thread())
    await other.ainvoke(say("and now?"), thread())
    with pytest.raises(Conflict):
        await agent.ainvoke(decide("approve"), thread())
    assert ran == []
    [question] = (await store.questions()).items
    assert question.run == "t:2"
    assert (await agent.aget_state(thread())).interrupts


async def test_an_answer_that_is_refused_can_be_given_again() -> None:
    store, ran, agent = await waiting(sql("a"), "ok")
    with pytest.raises(UsageError):
        await agent.ainvoke(Command(resume={"decisions": []}), thread())
    assert store.seen == ["t"]  # what is in the store says what is wrong
    assert texts(await agent.ainvoke(decide("approve"), thread()))[-1] == ("ai", "ok")
    assert ran == [("execute_sql", "a")]


async def test_a_message_on_a_thread_that_is_at_hand_is_said_to_the_one_in_the_store() -> None:
    store, ran, agent = await waiting(sql("a"), "ok", "fine")
    await agent.ainvoke(say("never mind"), thread(), on_pending="reject")
    with pytest.raises(Conflict):
        await agent.ainvoke(decide("approve"), thread())
    assert (store.seen, ran) == (["t"], [])


async def test_few_are_kept_and_none_that_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Read()
    agent, _ = office(*(sql("x" * (LARGE if n == 3 else 1)) for n in range(5)), "a", "b", "c", checkpointer=store)
    monkeypatch.setattr(held, "MOST", 3)
    for n in range(5):
        await agent.ainvoke(say("go"), thread(f"t{n}"))
    assert list(agent._held._known) == ["t1", "t2", "t4"]
    await agent.ainvoke(say("go"), thread("t5"))  # is done at once
    assert list(agent._held._known) == ["t1", "t2", "t4"]
    monkeypatch.setattr(held, "FEW", 5)
    store.seen.clear()
    for n in (0, 1):
        await agent.ainvoke(decide("approve"), thread(f"t{n}"))
    assert store.seen == ["t0"]
    assert list(agent._held._known) == ["t2", "t4"]
