"""Keys of a state beside its messages: declared with reducers, updated by hooks and inputs, kept as facts."""

from __future__ import annotations

import operator
from typing import Annotated, Any, NotRequired

import pytest

from assentry import InvalidInput, UsageError
from assentry.threads import AgentState, InMemorySaver, SqliteSaver, before_model, create_agent
from assentry.threads.message import REMOVE_ALL_MESSAGES, HumanMessage, RemoveMessage
from assentry.threads.state import OmitFromOutput, PrivateStateAttr

from .support import Paired, say, thread


class Counted(AgentState):
    user: NotRequired[str]
    seen: Annotated[list[str], operator.add]
    calls: NotRequired[Annotated[int, PrivateStateAttr]]
    hidden: NotRequired[Annotated[int, OmitFromOutput]]


@before_model(state_schema=Counted)
def count(state: Any, runtime: Any) -> Any:
    return {"calls": state.get("calls", 0) + 1, "seen": [state["messages"][-1].content]}


async def test_keys_are_kept_over_turns_and_go_through_their_reducers(tmp_path: Any) -> None:
    path = tmp_path / "threads.db"
    with SqliteSaver(path) as saver:
        agent = create_agent(Paired(["one"]), middleware=[count], checkpointer=saver)
        first = await agent.ainvoke({**say("a"), "user": "ann", "hidden": 3}, thread())
    assert (first["user"], first["seen"]) == ("ann", ["a"]) and not first.keys() & {"calls", "hidden"}
    with SqliteSaver(path) as saver:
        agent = create_agent(Paired(["two"]), middleware=[count], checkpointer=saver)
        second = await agent.ainvoke(say("b"), thread())
        assert (second["user"], second["seen"]) == ("ann", ["a", "b"])


async def test_an_input_cannot_set_what_is_not_declared_or_private() -> None:
    agent = create_agent(Paired(["one"]), middleware=[count], checkpointer=InMemorySaver())
    for key, words in (("other", "there is no 'other'"), ("calls", "The key 'calls' of the state is private")):
        with pytest.raises(InvalidInput, match=words):
            await agent.ainvoke({**say("a"), key: 5}, thread())
    assert (await agent.aget_state(thread())).values == {}


async def test_a_hook_cannot_update_what_is_not_declared_or_cannot_be_recorded() -> None:
    for update, why in (({"other": 1}, "'other'"), ({"seen": [object()]}, "cannot be recorded")):
        hook = before_model(state_schema=Counted)(lambda state, runtime, update=update: update)
        agent = create_agent(Paired(["one"]), middleware=[hook], checkpointer=InMemorySaver())
        with pytest.raises(UsageError, match=why):
            await agent.ainvoke(say("a"), thread())


async def test_a_hook_may_summarize_and_what_was_said_stays_recorded() -> None:
    @before_model
    def shorten(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) < 4:
            return None
        kept = state["messages"][-1:]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("Summary."), *kept]}

    model = Paired(["one", "two", "three", "four"])
    agent = create_agent(model, middleware=[shorten], checkpointer=InMemorySaver())
    for text in "abc":
        result = await agent.ainvoke(say(text), thread())
    assert [each.content for each in result["messages"]] == ["Summary.", "c", "three"]
    assert [item.get("content") for item in model.requests[-1].input] == ["Summary.", "c"]
    result = await agent.ainvoke(say("d"), thread())
    assert [each.content for each in result["messages"]] == ["Summary.", "d", "four"]
    state = await agent.aget_state(thread())
    assert state.values["messages"] == result["messages"]
    facts = await agent.store.history("t:1")  # type: ignore[union-attr]
    assert "a" in str(facts)


async def test_removing_a_message_that_is_not_there_is_an_error() -> None:
    hook = before_model(lambda state, runtime: {"messages": [RemoveMessage(id="nobody")]})
    agent = create_agent(Paired(["one"]), middleware=[hook], checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="'nobody', which the thread does not have"):
        await agent.ainvoke(say("a"), thread())
