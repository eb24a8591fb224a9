"""Snapshots of a thread: where it stands, where it stood, and what led from one to the other."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest

from assentry import RunNotFound, UsageError
from assentry.testing import call
from assentry.threads import AgentState, InMemorySaver, PregelTask, StateSnapshot, create_agent, interrupt
from tests.threads.support import Paired, Ran, decide, office, only, say, texts, thread

GATE = "HumanInTheLoopMiddleware.after_model"


def nexts(agent: Any, **options: Any) -> list[tuple[str, ...]]:
    return [each.next for each in agent.get_state_history(thread(), **options)]


async def test_each_step_of_a_run_is_a_snapshot_newest_first() -> None:
    agent = create_agent(Paired([call("read_data"), "Rows."]), Ran().tools(), checkpointer=InMemorySaver())
    await agent.ainvoke(say("look"), thread())
    found = [each async for each in agent.aget_state_history(thread())]
    assert [each.next for each in found] == [(), ("model",), ("tools",), ("model",), ("__start__",)]
    assert [len(each.values["messages"]) for each in found] == [4, 3, 2, 1, 0]
    assert [each.metadata["step"] for each in found if each.metadata] == [3, 2, 1, 0, -1]
    assert [each.metadata["source"] for each in found if each.metadata] == ["loop"] * 4 + ["input"]
    assert [each.parent_config for each in found] == [each.config for each in found[1:]] + [None]
    assert all(each.created_at is not None for each in found)


async def test_a_snapshot_can_be_looked_at_again() -> None:
    agent, _ = office(call("execute_sql", {"query": "a"}), "Done.", "Hello.")
    await agent.ainvoke(say("go"), thread())
    await agent.ainvoke(decide("approve"), thread())
    await agent.ainvoke(say("hi"), thread())
    for each in agent.get_state_history(thread()):
        assert agent.get_state(each.config) == each
        assert await agent.aget_state(each.config) == each


async def test_a_waiting_thread_has_a_task_with_its_interrupts() -> None:
    agent, _ = office(call("execute_sql", {"query": "a"}), "Done.")
    waiting = only(await agent.ainvoke(say("go"), thread()))
    state = agent.get_state(thread())
    [task] = state.tasks
    assert isinstance(task, PregelTask) and isinstance(state, StateSnapshot)
    assert (task.name, task.interrupts, task.error, task.result) == (GATE, (waiting,), None, None)
    assert state.next == (GATE,) and state.interrupts == (waiting,)
    assert state.config["configurable"]["thread_id"] == "t" and state.config["configurable"]["checkpoint_ns"] == ""
    await agent.ainvoke(decide("approve"), thread())
    then = agent.get_state(state.config)
    assert then.interrupts == (waiting,)
    assert agent.get_state(thread()).tasks == ()
    assert nexts(agent) == [(), ("model",), ("tools",), (GATE,), ("model",), ("__start__",)]


async def test_a_question_of_a_tool_is_a_snapshot_too() -> None:
    def book(city: str) -> str:
        """Book."""
        return str(interrupt("How many?"))

    agent = create_agent(Paired([call("book", {"city": "Ghent"}), "ok"]), [book], checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    [task] = agent.get_state(thread()).tasks
    assert (task.name, task.interrupts[0].value) == ("tools", "How many?")


async def test_the_history_goes_over_all_runs_and_its_ids_grow() -> None:
    agent, _ = office("One.", "Two.", "Three.")
    for text in "abc":
        await agent.ainvoke(say(text), thread())
    found = list(agent.get_state_history(thread()))
    ids = [each.config["configurable"]["checkpoint_id"] for each in found]
    assert ids == sorted(ids, reverse=True) and len(set(ids)) == 9
    assert [each.metadata["step"] for each in found if each.metadata] == [10, 8, 7, 6, 4, 3, 2, 0, -1]
    assert [each.parent_config for each in found] == [each.config for each in found[1:]] + [None]


async def test_a_history_can_be_limited_and_filtered() -> None:
    agent, _ = office("One.", "Two.", "Three.")
    for text in "abc":
        await agent.ainvoke(say(text), thread())
    every = list(agent.get_state_history(thread()))
    assert list(agent.get_state_history(thread(), limit=2)) == every[:2]
    assert list(agent.get_state_history(thread(), limit=0)) == []
    assert list(agent.get_state_history(thread(), before=every[3].config)) == every[4:]
    assert list(agent.get_state_history(thread(), filter={"source": "input"})) == [every[2], every[5], every[8]]
    assert list(agent.get_state_history(thread(), filter={"source": "input"}, limit=1)) == [every[2]]
    with pytest.raises(UsageError, match="limit"):
        list(agent.get_state_history(thread(), limit=-1))
    assert list(agent.get_state_history(thread("nobody"))) == []


async def test_a_limit_reads_no_more_runs_than_the_newest_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, _ = office(*map(str, range(6)))
    for text in "abcdef":
        await agent.ainvoke(say(text), thread())
    store, asked = agent.store, list[str]()
    assert store is not None
    read = store.read

    async def counting(run_id: str, after: int = 0) -> Any:
        asked.append(run_id)
        return await read(run_id, after)

    monkeypatch.setattr(store, "read", counting)
    assert len(list(agent.get_state_history(thread(), limit=2))) == 2
    assert sorted(asked) == [f"t:{number}" for number in range(1, 7)]  # each once: its messages are in the values


async def test_state_keys_are_in_every_snapshot() -> None:
    class Notes(AgentState):
        notes: Annotated[list[str], operator.add]

    agent, _ = office("One.", "Two.", state_schema=Notes)
    await agent.ainvoke({**say("a"), "notes": ["x"]}, thread())
    await agent.ainvoke({**say("b"), "notes": ["y"]}, thread())
    found = [each.values.get("notes") for each in agent.get_state_history(thread())]
    assert found == [["x", "y"], ["x", "y"], ["x"], ["x"], ["x"], []]


async def test_what_is_no_checkpoint_is_refused_with_a_sentence() -> None:
    agent, _ = office("One.")
    await agent.ainvoke(say("a"), thread())
    for wrong in ("1", 7, "1f1e350c-dbd2-61fa-8004-34a1f8125be5"):
        with pytest.raises(UsageError, match="checkpoint_id"):
            agent.get_state({"configurable": {"thread_id": "t", "checkpoint_id": wrong}})
    for absent in ("000009-000001", "000001-000099"):
        with pytest.raises(RunNotFound, match=absent):
            agent.get_state({"configurable": {"thread_id": "t", "checkpoint_id": absent}})
        with pytest.raises(RunNotFound, match=absent):
            await agent.ainvoke(None, {"configurable": {"thread_id": "t", "checkpoint_id": absent}})
    with pytest.raises(UsageError, match="checkpoint_ns"):
        agent.get_state({"configurable": {"thread_id": "t", "checkpoint_ns": "inner"}})


async def test_a_thread_that_is_not_there_has_an_empty_snapshot() -> None:
    agent, _ = office("One.")
    state = agent.get_state(thread())
    assert state == StateSnapshot({}, (), thread())
    assert (state.metadata, state.parent_config, state.tasks, state.interrupts) == (None, None, (), ())


async def test_a_run_that_was_stopped_stands_where_the_model_is_next() -> None:
    agent, _ = office(ValueError("away"), "There.")
    with pytest.raises(ValueError, match="away"):
        await agent.ainvoke(say("hi"), thread())
    assert nexts(agent)[0] == ("model",)
    result = await agent.ainvoke(None, thread())
    assert texts(result) == [("human", "hi"), ("ai", "There.")]
