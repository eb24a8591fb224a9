"""Forks: going on from an earlier point, as a new run that carries no approval and runs nothing unjudged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import Approve, ThreadWaiting, ToolOutputImage
from assentry.engines.worker import Worker
from assentry.errors import Conflict, NotPending, Overtaken, RunBusy
from assentry.store import Store
from assentry.testing import call
from assentry.threads import (
    Command,
    HumanMessage,
    InMemorySaver,
    PostgresSaver,
    RemoveMessage,
    Saver,
    SqliteSaver,
    StateSnapshot,
    ThreadAgent,
    before_agent,
    create_agent,
    interrupt,
)
from tests.store.postgres import Server
from tests.threads.support import Paired, Ran, decide, journal, office, only, requests, say, texts, thread
from tests.threads.test_given_up import in_doubt

GATE = ("HumanInTheLoopMiddleware.after_model",)


def at(agent: ThreadAgent, *steps: str, newest: bool = True) -> StateSnapshot:
    """The newest snapshot, or the oldest, at which these steps are due."""
    found = [each for each in agent.get_state_history(thread()) if each.next == steps]
    return found[0 if newest else -1]


def store_of(agent: ThreadAgent) -> Store:
    assert agent.store is not None
    return agent.store


async def done(*steps: Any, **options: Any) -> tuple[ThreadAgent, Ran]:
    """An agent whose first call was approved, and that has said so."""
    agent, ran = office(call("execute_sql", {"query": "a"}), "Done.", *steps, **options)
    await agent.ainvoke(say("go"), thread())
    await agent.ainvoke(decide("approve"), thread())
    return agent, ran


async def test_a_fork_asks_the_model_again_from_there() -> None:
    agent, ran = await done("Otherwise.")
    result = await agent.ainvoke(None, at(agent, "model", newest=False).config)
    assert texts(result) == [("human", "go"), ("ai", "Otherwise.")]
    assert ran == [("execute_sql", "a")]
    assert texts(agent.get_state(thread()).values) == texts(result)
    [began, *_] = (await store_of(agent).read("t:2")).facts
    assert (began.forked, began.follows) == ("t:1@2", None)  # type: ignore[union-attr]


async def test_a_fork_after_a_call_keeps_its_result_and_runs_it_not_again() -> None:
    agent, ran = await done("Otherwise.")
    result = await agent.ainvoke(None, at(agent, "model").config)
    assert texts(result) == [("human", "go"), ("ai", ""), ("tool", "ran a"), ("ai", "Otherwise.")]
    assert ran == [("execute_sql", "a")]


async def test_a_fork_before_a_call_asks_about_it_again_although_it_was_approved() -> None:
    agent, ran = await done("Again.")
    for point in (at(agent, *GATE), at(agent, "tools")):
        waiting = only(await agent.ainvoke(None, point.config))
        assert waiting.value["action_requests"][0]["args"] == {"query": "a"}
        assert ran == [("execute_sql", "a")]
    result = await agent.ainvoke(decide("reject"), thread())
    assert ran == [("execute_sql", "a")]
    assert texts(result)[-1] == ("ai", "Again.")
    assert [each.id for each in result["messages"][:2]] == ["t:1.0", "t:1.1"]


async def test_a_fork_carries_no_grant() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "Done.")
    await agent.ainvoke(say("go"), thread())
    [asked] = (await store_of(agent).questions()).items
    await store_of(agent).decide(asked.id, Approve(), by="ann", digest=asked.digest, grant=True)
    await agent.ainvoke(None, thread())
    assert ran == [("write_file", "a", "")]
    assert only(await agent.ainvoke(None, at(agent, *GATE).config))
    assert ran == [("write_file", "a", "")]
    assert "Granted" not in await journal(agent, "t:2")


async def test_a_call_that_needs_nobody_runs_again_if_one_forks_before_it() -> None:
    agent, ran = office(call("read_data"), "One.", "Two.")
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(None, at(agent, "tools").config)
    assert ran == [("read_data", "records")] * 2
    assert texts(result)[-1] == ("ai", "Two.")


async def test_an_old_question_cannot_be_answered_in_a_fork() -> None:
    agent, ran = await done()
    point = at(agent, *GATE)
    for answer in (decide("approve"), Command(resume={point.interrupts[0].id: {"decisions": [{"type": "approve"}]}})):
        with pytest.raises(NotPending, match="asked anew"):
            await agent.ainvoke(answer, point.config)
    assert ran == [("execute_sql", "a")]
    assert (await store_of(agent).runs(thread="t")).items[-1].id == "t:1"


async def test_the_present_checkpoint_is_the_thread_itself() -> None:
    agent, ran = office(call("execute_sql", {"query": "a"}), "Done.", "More.")
    await agent.ainvoke(say("go"), thread())
    config = agent.get_state(thread()).config
    assert only(await agent.ainvoke(None, config))
    await agent.ainvoke(decide("approve"), config)
    assert ran == [("execute_sql", "a")]
    result = await agent.ainvoke(say("more"), agent.get_state(thread()).config)
    assert texts(result)[-2:] == [("human", "more"), ("ai", "More.")]
    assert [each.id for each in (await store_of(agent).runs(thread="t")).items] == ["t:1", "t:2"]


async def test_a_message_at_an_earlier_point_forgets_what_came_after() -> None:
    agent, _ = office("One.", "Two.", "Other.")
    await agent.ainvoke(say("a"), thread())
    end = agent.get_state(thread()).config
    await agent.ainvoke(say("b"), thread())
    result = await agent.ainvoke(say("c"), end)
    assert texts(result) == [("human", "a"), ("ai", "One."), ("human", "c"), ("ai", "Other.")]
    [began, *_] = (await store_of(agent).read("t:3")).facts
    assert (began.forked, began.follows) == ("t:1@5", "t:1")  # type: ignore[union-attr]
    assert [item.get("content") for item in requests(agent)[-1].input if item.get("role") == "user"] == ["a", "c"]


async def test_an_end_has_nothing_to_go_on_with() -> None:
    agent, _ = office("One.", "Two.")
    await agent.ainvoke(say("a"), thread())
    end = agent.get_state(thread()).config
    await agent.ainvoke(say("b"), thread())
    assert texts(await agent.ainvoke(None, end)) == [("human", "a"), ("ai", "One.")]
    assert len((await store_of(agent).runs(thread="t")).items) == 2


async def test_the_point_before_an_input_takes_another_input() -> None:
    agent, _ = office("One.", "Two.", "Three.")
    await agent.ainvoke(say("a"), thread())
    start = at(agent, "__start__").config
    assert texts(await agent.ainvoke(say("b"), start)) == [("human", "b"), ("ai", "Two.")]
    assert texts(await agent.ainvoke(None, start)) == [("human", "a"), ("ai", "Three.")]


async def test_a_message_where_calls_have_no_outcome_says_what_becomes_of_them() -> None:
    agent, ran = await done("Fine.", "Then.")
    point = at(agent, *GATE)
    with pytest.raises(ThreadWaiting, match="execute_sql"):
        await agent.ainvoke(say("no"), point.config)
    result = await agent.ainvoke(say("no"), point.config, on_pending="reject")
    assert texts(result) == [("human", "go"), ("human", "no"), ("ai", "Fine.")]
    assert only(await agent.ainvoke(say("no"), point.config, on_pending="keep"))
    assert ran == [("execute_sql", "a")]
    result = await agent.ainvoke(decide("approve"), thread())
    assert texts(result) == [("human", "go"), ("ai", ""), ("tool", "ran a"), ("human", "no"), ("ai", "Then.")]


async def test_a_result_that_was_there_is_kept_and_the_rest_is_judged_anew() -> None:
    ran: list[str] = []

    def book(city: str) -> str:
        """Book."""
        beds = interrupt("How many?")
        ran.append("book")
        return f"{beds} beds"

    def look() -> str:
        """Look."""
        ran.append("look")
        return "rows"

    model = Paired([["I look.", call("look"), call("book", {"city": "Ghent"})], "Done."])
    agent = create_agent(model, [book, look], checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    agent.update_state(thread(), None)  # a copy of the present point
    assert texts(agent.get_state(thread()).values) == [("human", "go"), ("ai", "I look."), ("tool", "rows")]
    waiting = only(await agent.ainvoke(None, thread()))
    assert (waiting.value, ran) == ("How many?", ["look"])
    result = await agent.ainvoke(Command(resume=2), thread())
    assert ran == ["look", "book"]
    assert texts(result) == [
        ("human", "go"),
        ("ai", "I look."),
        ("tool", "rows"),
        ("tool", "2 beds"),
        ("ai", "Done."),
    ]


async def test_what_an_agent_inside_has_done_is_not_done_again() -> None:
    inner, ran = office(call("read_data"), call("execute_sql", {"query": "a"}), "Clean.", checkpointer=True)
    outer = create_agent(
        Paired([call("agent", {"input": "tidy"}), "Done."]), [inner], checkpointer=InMemorySaver(), name="outer"
    )
    await outer.ainvoke(say("go"), thread())
    with pytest.raises(Conflict, match="twice"):
        outer.update_state(thread(), None)
    assert ran == [("read_data", "records")]
    await outer.ainvoke(decide("approve"), thread())
    assert ran == [("read_data", "records"), ("execute_sql", "a")]


async def test_the_question_of_the_run_that_is_left_is_withdrawn() -> None:
    agent, ran = office("One.", call("execute_sql", {"query": "a"}), "Two.")
    await agent.ainvoke(say("a"), thread())
    end = agent.get_state(thread()).config
    await agent.ainvoke(say("b"), thread())
    store = store_of(agent)
    [asked] = (await store.questions()).items
    await agent.ainvoke(say("c"), end)
    assert (await store.questions()).items == []
    assert (await store.question(asked.id)).verdict == "void"
    with pytest.raises(NotPending):
        await store.decide(asked.id, Approve(), by="ann", digest=asked.digest)
    assert ran == []
    assert (await store.record("t:2")).status == "closed"


async def test_of_two_forks_at_once_one_is_made(tmp_path: Path) -> None:
    for saver in (InMemorySaver(), SqliteSaver(tmp_path / "t.db")):
        agent, ran = office(call("execute_sql", {"query": "a"}), "Done.", checkpointer=saver)
        await agent.ainvoke(say("go"), thread())
        point = agent.get_state(thread())
        await agent.ainvoke(decide("approve"), thread())
        made = await asyncio.gather(*(agent.ainvoke(None, point.config) for _ in range(3)), return_exceptions=True)
        assert sorted(type(each).__name__ for each in made) == ["Overtaken", "Overtaken", "dict"]
        assert [each.id for each in (await store_of(agent).runs(thread="t")).items] == ["t:1", "t:2"]
        assert ran == [("execute_sql", "a")]
        saver.close()


async def test_a_decision_at_the_same_moment_wins_over_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, ran = office("One.", call("execute_sql", {"query": "a"}), "Two.")
    await agent.ainvoke(say("a"), thread())
    end = agent.get_state(thread()).config
    await agent.ainvoke(say("b"), thread())
    store = store_of(agent)
    [asked] = (await store.questions()).items
    take = store.take

    async def late(*args: Any, **options: Any) -> Any:
        lease = await take(*args, **options)
        await store.decide(asked.id, Approve(), by="ann", digest=asked.digest)
        return lease

    with monkeypatch.context() as patch:
        patch.setattr(store, "take", late)
        with pytest.raises(Overtaken, match="Nothing was recorded"):
            await agent.ainvoke(say("c"), end)
    result = await agent.ainvoke(None, thread())
    assert ran == [("execute_sql", "a")]
    assert texts(result)[-1] == ("ai", "Two.")


async def test_a_thread_that_is_driven_is_not_left() -> None:
    agent, ran = office("One.", call("execute_sql", {"query": "a"}), "Two.")
    await agent.ainvoke(say("a"), thread())
    end = agent.get_state(thread()).config
    await agent.ainvoke(say("b"), thread())
    store = store_of(agent)
    record = await store.record("t:2")
    lease = await store.take("t:2", "worker", seq=record.seq, hold=60)
    for way in (lambda: agent.invoke(say("c"), end), lambda: agent.update_state(thread(), None)):
        with pytest.raises(RunBusy):
            way()
    await store.release(lease)
    assert only(await agent.ainvoke(None, thread()))
    assert ran == []


async def test_a_process_that_dies_between_leaves_nothing_that_could_run(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, ran = office("One.", call("execute_sql", {"query": "a"}), "Two.")
    await agent.ainvoke(say("a"), thread())
    await agent.ainvoke(say("b"), thread())
    store = store_of(agent)
    append = store.append

    async def dies(change: Any) -> None:
        if change.seq == 0:
            raise KeyboardInterrupt
        await append(change)

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            await agent.aupdate_state(thread(), {"messages": [HumanMessage("x")]})
    assert (await store.questions()).items == []
    assert agent.get_state(thread()).next == ()
    assert texts(await agent.ainvoke(say("c"), thread()))[-1] == ("ai", "Two.")
    assert ran == []


async def test_a_call_whose_outcome_nobody_knows_is_not_left_alone() -> None:
    agent, paid = await in_doubt()
    start = at(agent, "model", newest=False).config
    for way in (
        lambda: agent.invoke(None, start),
        lambda: agent.update_state(thread(), {"messages": "x"}),
        lambda: Saver(lambda: store_of(agent)).delete_thread("t"),
    ):
        with pytest.raises(Conflict, match="begun"):
            way()
    assert len(paid) == 1
    assert only(await agent.ainvoke(None, thread()))


async def test_forks_are_sound_in_a_store(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = await done("Otherwise.", checkpointer=saver)
        await agent.ainvoke(None, at(agent, *GATE).config)
        agent.update_state(thread(), {"messages": [HumanMessage("x")]})
        store = store_of(agent)
        before = [each.id for each in (await store.runs()).items]
        for run in before:
            assert await store.verify(run) == []
        assert await store.rebuild() == 3
        for run in before:
            assert await store.verify(run) == []
        assert (await store.record("t:3")).status == "cancelled"
    with SqliteSaver(tmp_path / "t.db") as saver:
        again, _ = office("More.", checkpointer=saver)
        assert only(await again.ainvoke(None, thread()))
        result = await again.ainvoke(decide("reject"), thread())
        assert texts(result)[-2:] == [("human", "x"), ("ai", "More.")]


async def test_an_input_that_removes_messages_forks_the_thread() -> None:
    agent, _ = office("One.", "Two.", "Three.")
    await agent.ainvoke(say("a"), thread())
    result = await agent.ainvoke(say("b"), thread())
    gone = [RemoveMessage(id=each.id) for each in result["messages"][:2]]
    result = await agent.ainvoke({"messages": [*gone, HumanMessage("c")]}, thread())
    assert texts(result) == [("human", "b"), ("ai", "Two."), ("human", "c"), ("ai", "Three.")]
    heard = [item["content"] for item in requests(agent)[-1].input if item.get("role") == "user"]
    assert heard == ["b", "c"]
    assert [each.id for each in result["messages"]] == ["t:2.0", "t:2.1", "t:3.0-2", "t:3.1"]


async def test_a_stream_goes_on_from_an_earlier_point_too() -> None:
    agent, _ = await done("Otherwise.")
    chunks = [chunk async for chunk in agent.astream(None, at(agent, "model").config)]
    assert [list(chunk) for chunk in chunks] == [["model"], [GATE[0]]]


async def test_a_fork_amid_a_run_does_not_begin_the_agent_again() -> None:
    begun: list[int] = []

    @before_agent
    def greet(state: Any, runtime: Any) -> dict[str, Any]:
        begun.append(len(state["messages"]))
        return {"messages": [{"role": "system", "content": "Be brief."}]}

    agent, _ = await done("Otherwise.", "Again.", middleware=[greet])
    result = await agent.ainvoke(None, at(agent, "model").config)
    assert (begun, [kind for kind, _ in texts(result)]) == ([1], ["human", "system", "ai", "tool", "ai"])
    await agent.ainvoke(None, at(agent, "model", newest=False).config)
    assert begun == [1, 1]


async def test_parts_that_a_tool_gave_stay_parts() -> None:
    def picture() -> Any:
        """Take a picture."""
        return ToolOutputImage(image_url="data:image/png;base64,AAAA")

    agent = create_agent(Paired([call("picture"), "One.", "Two."]), [picture], checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    await agent.ainvoke(None, at(agent, "model").config)
    [before, after] = [[each for each in asked.input if "output" in each] for asked in requests(agent)[-2:]]
    assert before == after and before[0]["output"][0]["type"] == "input_image"


async def test_a_worker_goes_on_with_a_fork(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, ran = await done("Otherwise.", checkpointer=saver)
        agent.update_state(at(agent, *GATE).config, None)
        store = store_of(agent)
        worker = Worker(store, agent.agent)
        await worker.run_until_idle()
        assert (await store.record("t:2")).status == "cancelled"
        await store.resume("t:2", by="ann")
        await worker.run_until_idle()
        [asked] = (await store.questions()).items
        assert (asked.run, ran) == ("t:2", [("execute_sql", "a")])
        await store.decide(asked.id, Approve(), by="ann", digest=asked.digest)
        await worker.run_until_idle()
        assert ran == [("execute_sql", "a")] * 2
        assert texts(agent.get_state(thread()).values)[-1] == ("ai", "Otherwise.")


def test_forks_live_in_postgres_too(postgres: Server) -> None:
    with PostgresSaver(postgres.database()) as saver:
        saver.setup()
        agent, ran = office(call("execute_sql", {"query": "a"}), "Done.", "Otherwise.", checkpointer=saver)
        agent.invoke(say("go"), thread())
        waiting = agent.get_state(thread())
        agent.update_state(thread(), {"messages": [HumanMessage("quick")]})
        assert only(agent.invoke(None, thread()))
        agent.invoke(decide("reject"), thread())
        only(agent.invoke(None, waiting.config))
        result = agent.invoke(decide("approve"), thread())
        assert (ran, texts(result)[-1]) == ([("execute_sql", "a")], ("ai", "Otherwise."))
        assert [each.config for each in agent.get_state_history(thread(), limit=2)] == [
            each.config for each in saver.list(thread(), limit=2)
        ]
        saver.delete_thread("t")
        assert agent.get_state(thread()).values == {}
