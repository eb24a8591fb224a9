"""update_state: changes what the thread holds, and neither answers a question nor invents a result."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any

import pytest

from assentry import InvalidInput, UsageError
from assentry.errors import NotPending
from assentry.testing import call
from assentry.threads import (
    END,
    REMOVE_ALL_MESSAGES,
    START,
    AgentState,
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SqliteSaver,
    StateUpdate,
    ThreadAgent,
    ToolMessage,
    after_model,
)
from tests.threads.support import Ran, decide, journal, office, only, requests, say, texts, thread

GATE = ("HumanInTheLoopMiddleware.after_model",)


async def waiting(*steps: Any, **options: Any) -> tuple[ThreadAgent, Ran]:
    agent, ran = office(call("write_file", {"path": "a"}), *steps, **options)
    await agent.ainvoke(say("go"), thread())
    return agent, ran


def last_call(agent: ThreadAgent) -> tuple[AIMessage, dict[str, Any]]:
    last = agent.get_state(thread()).values["messages"][-1]
    assert isinstance(last, AIMessage)
    return last, last.tool_calls[0]


async def test_an_update_is_a_run_that_waits_until_somebody_goes_on() -> None:
    agent, _ = office("One.", "Two.")
    await agent.ainvoke(say("a"), thread())
    config = agent.update_state(thread(), {"messages": [HumanMessage("b")]}, as_node=START)
    state = agent.get_state(thread())
    assert (state.next, state.config, state.metadata and state.metadata["source"]) == (("model",), config, "update")
    assert await journal(agent, "t:2") == ["Began", "Said", "Cancelled"]
    result = await agent.ainvoke(None, thread())
    assert texts(result) == [("human", "a"), ("ai", "One."), ("human", "b"), ("ai", "Two.")]


async def test_an_update_of_a_thread_that_is_over_leaves_it_so() -> None:
    agent, _ = office("One.", "Two.")
    await agent.ainvoke(say("a"), thread())
    agent.update_state(thread(), {"messages": [AIMessage("By the way.")]})
    assert agent.get_state(thread()).next == ()
    assert texts(await agent.ainvoke(None, thread()))[-1] == ("ai", "By the way.")
    result = await agent.ainvoke(say("b"), thread())
    assert texts(result)[-3:] == [("ai", "By the way."), ("human", "b"), ("ai", "Two.")]
    assert len(requests(agent)[-1].input) == 4


async def test_a_thread_can_begin_with_an_update() -> None:
    agent, _ = office("Hello.")
    agent.update_state(thread(), {"messages": [HumanMessage("hi")]})
    assert agent.get_state(thread()).next == ("model",)
    assert texts(await agent.ainvoke(None, thread())) == [("human", "hi"), ("ai", "Hello.")]


async def test_a_changed_call_is_asked_about_as_changed() -> None:
    agent, ran = await waiting("Done.")
    last, proposed = last_call(agent)
    changed = AIMessage("", id=last.id, tool_calls=[{**proposed, "args": {"path": "b"}}])
    await agent.aupdate_state(thread(), {"messages": [changed]})
    assert agent.get_state(thread()).next == GATE
    with pytest.raises(NotPending, match="invoke"):
        await agent.ainvoke(decide("approve"), thread())
    asked = only(await agent.ainvoke(None, thread()))
    assert asked.value["action_requests"][0]["args"] == {"path": "b", "text": ""}
    assert ran == []
    result = await agent.ainvoke(decide("approve"), thread())
    assert ran == [("write_file", "b", "")]
    assert texts(result) == [("human", "go"), ("ai", ""), ("tool", "wrote b"), ("ai", "Done.")]


async def test_a_call_of_the_program_is_judged_like_any_other() -> None:
    agent, ran = office("One.", "Two.")
    await agent.ainvoke(say("a"), thread())
    made = {"name": "execute_sql", "args": {"query": "x"}, "id": "mine"}
    agent.update_state(thread(), {"messages": [AIMessage("", tool_calls=[made])]})
    assert agent.get_state(thread()).next == GATE
    assert only(await agent.ainvoke(None, thread()))
    assert ran == []
    await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "x")]


async def test_a_call_can_be_taken_out() -> None:
    agent, ran = await waiting("Fine.")
    last, _ = last_call(agent)
    agent.update_state(thread(), {"messages": [AIMessage("No.", id=last.id)]})
    state = agent.get_state(thread())
    assert (state.next, texts(state.values)) == ((), [("human", "go"), ("ai", "No.")])
    assert texts(await agent.ainvoke(say("well"), thread()))[-1] == ("ai", "Fine.")
    assert ran == []


async def test_no_update_gives_a_result_in_the_place_of_a_tool() -> None:
    agent, ran = await waiting("Done.")
    asked = agent.get_state(thread()).interrupts
    last, proposed = last_call(agent)
    invented = ToolMessage("wrote it", tool_call_id=proposed["id"])
    for values in (
        [invented],
        [RemoveMessage(id=last.id), AIMessage("", tool_calls=[proposed]), invented],
        [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("x"), AIMessage("", tool_calls=[proposed]), invented],
    ):
        for node in (None, "tools", "model"):
            with pytest.raises(UsageError, match="respond"):
                await agent.aupdate_state(thread(), {"messages": values}, as_node=node)
    assert agent.get_state(thread()).interrupts == asked
    await agent.ainvoke(decide("approve"), thread())
    assert ran == [("write_file", "a", "")]


async def test_the_model_is_not_next_while_calls_have_no_outcome() -> None:
    agent, _ = await waiting("Done.")
    for node in ("tools", START):
        with pytest.raises(UsageError, match="write_file"):
            agent.update_state(thread(), {"messages": [HumanMessage("x")]}, as_node=node)
    assert only(await agent.ainvoke(None, thread()))


async def test_a_message_beside_open_calls_is_heard_after_them() -> None:
    agent, ran = await waiting("Done.")
    agent.update_state(thread(), {"messages": [HumanMessage("quick")]})
    assert texts(agent.get_state(thread()).values) == [("human", "go"), ("ai", ""), ("human", "quick")]
    await agent.ainvoke(None, thread())
    result = await agent.ainvoke(decide("approve"), thread())
    assert texts(result) == [("human", "go"), ("ai", ""), ("tool", "wrote a"), ("human", "quick"), ("ai", "Done.")]
    assert ran == [("write_file", "a", "")]


async def test_an_end_gives_up_what_is_due() -> None:
    agent, ran = await waiting("Fine.")
    agent.update_state(thread(), None, as_node=END)
    assert agent.get_state(thread()).next == ()
    result = await agent.ainvoke(say("well"), thread())
    assert texts(result)[-2:] == [("human", "well"), ("ai", "Fine.")]
    assert [item.get("type", "message") for item in requests(agent)[-1].input] == ["message", "message"]
    assert ran == []
    with pytest.raises(UsageError, match="no values"):
        agent.update_state(thread(), {"messages": "x"}, as_node=END)


async def test_messages_are_replaced_and_removed_by_their_ids_in_earlier_runs_too() -> None:
    agent, _ = office("One.", "Two.", "Three.")
    await agent.ainvoke(say("a"), thread())
    result = await agent.ainvoke(say("b"), thread())
    first, second, *_ = result["messages"]
    changed = HumanMessage("A", id=first.id)
    agent.update_state(thread(), {"messages": [changed, RemoveMessage(id=second.id)]})
    assert texts(agent.get_state(thread()).values) == [("human", "A"), ("human", "b"), ("ai", "Two.")]
    await agent.ainvoke(say("c"), thread())
    said = [item.get("content") for item in requests(agent)[-1].input if item.get("role") == "user"]
    assert said == ["A", "b", "c"]
    agent.update_state(thread(), {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    assert agent.get_state(thread()).values["messages"] == []
    with pytest.raises(InvalidInput, match="RemoveMessage"):
        agent.update_state(thread(), {"messages": [RemoveMessage(id="nobody")]})


async def test_calls_and_results_stay_together() -> None:
    agent, _ = office(call("read_data"), "Rows.")
    result = await agent.ainvoke(say("a"), thread())
    _, asked, answered, _ = result["messages"]
    for alone in (asked, answered):
        with pytest.raises(InvalidInput, match="ToolMessage"):
            agent.update_state(thread(), {"messages": [RemoveMessage(id=alone.id)]})
    agent.update_state(thread(), {"messages": [RemoveMessage(id=asked.id), RemoveMessage(id=answered.id)]})
    assert texts(agent.get_state(thread()).values) == [("human", "a"), ("ai", "Rows.")]
    shorter = ToolMessage("[cut]", id=answered.id, tool_call_id=answered.tool_call_id)
    agent.update_state(agent.get_state(thread()).parent_config or {}, {"messages": [shorter]})
    assert texts(agent.get_state(thread()).values)[2] == ("tool", "[cut]")


async def test_keys_go_through_their_reducers() -> None:
    class Notes(AgentState):
        notes: Annotated[list[str], operator.add]
        topic: str

    agent, _ = office(call("write_file", {"path": "a"}), "Done.", state_schema=Notes)
    await agent.ainvoke({**say("go"), "notes": ["x"], "topic": "one"}, thread())
    agent.update_state(thread(), {"notes": ["y"], "topic": "two"})
    values = agent.get_state(thread()).values
    assert (values["notes"], values["topic"]) == (["x", "y"], "two")
    await agent.ainvoke(None, thread())
    values = await agent.ainvoke(decide("approve"), thread())
    assert (values["notes"], values["topic"]) == (["x", "y"], "two")
    with pytest.raises(UsageError, match="colour"):
        agent.update_state(thread(), {"colour": "red"})
    with pytest.raises(UsageError, match="jump_to"):
        agent.update_state(thread(), {"jump_to": "end"})


async def test_what_is_no_update_is_refused_with_a_sentence() -> None:
    agent, _ = office("One.")
    await agent.ainvoke(say("a"), thread())
    wrong: Any
    for wrong in ("text", ["x"], 7):
        with pytest.raises(UsageError, match="An update is a dict"):
            agent.update_state(thread(), wrong)
    for wrong in ("nobody", 7):
        with pytest.raises(UsageError, match="as_node"):
            agent.update_state(thread(), {"messages": "x"}, as_node=wrong)
    with pytest.raises(UsageError, match="no updates"):
        agent.bulk_update_state(thread(), [])
    assert len(list(agent.get_state_history(thread()))) == 3


async def test_updates_can_be_made_in_a_row() -> None:
    agent, _ = office("One.")
    updates = [[StateUpdate({"messages": [HumanMessage("a")]})], [StateUpdate({"messages": [HumanMessage("b")]})]]
    config = agent.bulk_update_state(thread(), updates)
    assert agent.get_state(thread()).config == config
    assert texts(await agent.ainvoke(None, thread())) == [("human", "a"), ("human", "b"), ("ai", "One.")]


async def test_an_earlier_point_can_be_updated() -> None:
    agent, _ = office("One.", "Two.")
    await agent.ainvoke(say("a"), thread())
    first = [each for each in agent.get_state_history(thread()) if each.next == ("model",)][-1]
    config = agent.update_state(first.config, {"messages": [HumanMessage("b", id="mine")]})
    assert agent.get_state(config).parent_config == first.config
    result = agent.invoke(None, config)
    assert texts(result) == [("human", "a"), ("human", "b"), ("ai", "Two.")]
    assert [each.id for each in result["messages"][:2]] == ["t:1.0", "mine"]


async def test_what_a_message_has_besides_its_text_is_kept() -> None:
    agent, _ = office("One.", "Two.")
    said = HumanMessage("a", id="h", name="ann", additional_kwargs={"x": 1})
    before = (await agent.ainvoke({"messages": [said]}, thread()))["messages"]
    agent.update_state(thread(), {"messages": [RemoveMessage(id=before[0].id), HumanMessage("b")]})
    agent.update_state(thread(), {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *before]})
    assert agent.get_state(thread()).values["messages"] == before


async def test_the_context_goes_along(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office("One.", "Two.", checkpointer=saver)
        await agent.ainvoke(say("a"), thread(), context={"user": "ann"})
        agent.update_state(thread(), {"messages": "b"}, as_node=START)
        assert agent.store is not None
        assert (await agent.store.read("t:2")).context.json == b'{"user":"ann"}'
        await agent.ainvoke(None, thread())


@pytest.mark.parametrize("ids", [["", "b"], [None, "b"], ["a", "a"]])
async def test_calls_without_ids_of_their_own_are_refused(ids: list[Any]) -> None:
    agent, _ = await waiting()
    calls = [{"name": "read_data", "args": {}, "id": id, "type": "tool_call"} for id in ids]
    with pytest.raises(InvalidInput, match="Each call of an AIMessage needs an id, and no two calls the same"):
        await agent.aupdate_state(thread(), {"messages": [AIMessage("", tool_calls=calls)]}, as_node="model")


async def test_no_call_of_the_program_gets_past_after_model_in_silence() -> None:
    @after_model
    def guard(state: Any, runtime: Any) -> None:
        """Look at what the model says."""

    agent, ran = await waiting("ok", middleware=[guard])
    said, _ = last_call(agent)
    calls = [{"name": "read_data", "args": {}, "id": "own", "type": "tool_call"}]
    update = {"messages": [AIMessage("", id=said.id, tool_calls=calls)]}
    for node in (None, "model"):
        with pytest.raises(UsageError, match="read_data would be due without the agent's after_model hooks"):
            await agent.aupdate_state(thread(), update, as_node=node)
    assert only(await agent.ainvoke(None, thread())), "nothing was recorded"
    await agent.aupdate_state(thread(), update, as_node="HumanInTheLoopMiddleware.after_model")
    await agent.ainvoke(None, thread())
    assert ran == [("read_data", "records")]
