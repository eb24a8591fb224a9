"""Who decides: a name that cannot be seen is none, wherever it is given, and any other is kept as it is given."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assentry import Approve, Edit, Reject, Respond, RunConfig, Runner
from assentry.engines import Worker
from assentry.errors import InvalidDecision, InvalidDefinition
from assentry.store import MemoryStore, Store
from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, create_agent
from tests.runtime.support import facts, refused, scripted, sending

BLANK = ["", " ", "\t\n", "\x00\x07\x1b", "\u200b", "\u200d\ufeff\u2060", "\u00a0\u3000", "\u202e"]
BLANK += ["\u3164", "\ufe0f", "\u2800 "]
SEEN = ["ann", " ann ", "安", "👍🏽", "a\u200db", "?", "é", "1", "ann\n"]


async def waiting() -> Any:
    send, _ = sending(needs_approval=True)
    return (await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go")).to_state()


@pytest.mark.parametrize("by", BLANK, ids=ascii)
async def test_nobody_decides_on_a_state_under_a_blank_name(by: str) -> None:
    state = await waiting()
    [item] = state.get_interruptions()
    for decide in (
        lambda: state.approve(item, by=by),
        lambda: state.approve(item, True, by=by),
        lambda: state.reject(item, by=by),
        lambda: state.edit(item, {"to": "bob"}, by=by),
        lambda: state.respond(item, "sent", by=by),
        lambda: state.decide(item.id, Approve(), by),
        lambda: state.revoke("g_1", by),
    ):
        refused(decide, InvalidDecision, state)


@pytest.mark.parametrize("by", SEEN, ids=ascii)
async def test_a_name_that_can_be_seen_is_kept_as_it_is_given(by: str) -> None:
    state = await waiting()
    state.approve(state.get_interruptions()[0], by=by)
    [approved] = facts(state, "approved")
    assert approved["by"] == by


@pytest.mark.parametrize("by", BLANK, ids=ascii)
async def test_nobody_decides_in_a_store_under_a_blank_name(by: str) -> None:
    send, _ = sending(needs_approval=True)
    store = MemoryStore()
    run = (await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go", store=store)).run_id
    [question] = (await store.questions()).items
    before = await store.lines(run)
    doings: list[Callable[[Store], Awaitable[Any]]] = [
        *(
            lambda store, given=given: store.decide(question.id, given, by=by, digest=question.digest)
            for given in (Approve(), Reject(), Edit({"to": "bob"}), Respond("sent"))
        ),
        lambda store: store.cancel(run, by=by),
        lambda store: store.resume(run, by=by),
        lambda store: store.say(run, "hello", by=by),
        lambda store: store.revoke("g_1", by=by, run=run),
        lambda store: store.decide_all(run, lambda run: [], by=by),
    ]
    for act in doings:
        with pytest.raises(InvalidDecision):
            await act(store)
    assert await store.lines(run) == before


@pytest.mark.parametrize("by", BLANK, ids=ascii)
async def test_nobody_answers_on_a_thread_under_a_blank_name(by: str) -> None:
    send, sent = sending()
    gate = HumanInTheLoopMiddleware(interrupt_on={"send": True})
    model = ScriptedModel([call("send", {"to": "ann"}), "done"])
    agent = create_agent(model, [send], middleware=[gate], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    await agent.ainvoke({"messages": "go"}, thread)
    answer = {"decisions": [{"type": "approve"}]}
    with pytest.raises(InvalidDecision):
        await agent.ainvoke(Command(resume=answer, by=by), thread)
    assert sent == []
    await agent.ainvoke(Command(resume=answer, by="ann"), thread)
    assert sent == [("ann", 1)]


@pytest.mark.parametrize("name", BLANK, ids=ascii)
def test_a_worker_has_a_name_that_can_be_seen(name: str) -> None:
    with pytest.raises(InvalidDecision):
        Worker(MemoryStore(), scripted(), name=name)


@pytest.mark.parametrize("name", [*BLANK, 7], ids=ascii)
def test_nobody_asks_for_a_run_under_a_blank_name(name: Any) -> None:
    with pytest.raises(InvalidDefinition, match="started_by"):
        RunConfig(started_by=name)
