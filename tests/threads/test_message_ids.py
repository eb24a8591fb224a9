"""A message keeps the id and the name that it was given, a tool's message its status; what a thread has is not said
again."""

from typing import Any

import msgspec
import pytest

from assentry.errors import InvalidInput
from assentry.testing import call
from assentry.threads import (
    AIMessage,
    Command,
    HumanMessage,
    InMemorySaver,
    SystemMessage,
    ToolMessage,
    after_model,
    before_model,
    create_agent,
)
from tests.threads.support import Paired, Ran, decide, office, only, requests, say, texts, thread

ASKED = {"name": "read_data", "args": {"table": "a"}, "id": "c1", "type": "tool_call"}
TALK: list[Any] = [
    SystemMessage("Be brief.", id="s"),
    HumanMessage("Look.", id="m1", name="ann"),
    AIMessage("I look.", id="a1", name="bot"),
    AIMessage(tool_calls=[ASKED], id="a2"),
    ToolMessage("no rows", tool_call_id="c1", id="t1", name="read_data", status="error"),
    HumanMessage("Well?", id="m2"),
]


def plain(agent: Any) -> list[dict[str, Any]]:
    """What the model was told last."""
    return list(requests(agent)[-1].input)


async def test_what_messages_are_called_comes_back_and_is_not_told_the_model() -> None:
    agent, _ = office("ok", "and ok")
    result = await agent.ainvoke({"messages": TALK}, thread())
    assert result["messages"][:-1] == TALK
    assert plain(agent) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look."},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "read_data", "arguments": '{"table":"a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "no rows"},
        {"role": "user", "content": "Well?"},
    ]
    result = await agent.ainvoke(say("more"), thread())
    assert result["messages"][: len(TALK)] == TALK
    assert "assent:message" not in str(requests(agent))


@pytest.mark.parametrize("as_dicts", [False, True], ids=["objects", "dicts"])
async def test_what_a_thread_has_is_not_said_again(as_dicts: bool) -> None:
    agent, ran = office(call("read_data"), "one", "two")
    result = await agent.ainvoke({"messages": [HumanMessage("x", id="m1")]}, thread())
    assert [each.id for each in result["messages"]] == ["m1", "t:1.1", "t:1.1.c1", "t:1.2"]
    back: list[Any] = result["messages"]
    if as_dicts:
        back = [{"type": each.type, **msgspec.to_builtins(each)} for each in back]
    result = await agent.ainvoke({"messages": [*back, HumanMessage("more")]}, thread())
    assert [kind for kind, _ in texts(result)] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert len(ran) == 1 and dict(requests(agent)[-1].input[-1]) == {"role": "user", "content": "more"}


async def test_a_message_that_was_said_is_not_rewritten() -> None:
    agent, _ = office("one", "two")
    await agent.ainvoke({"messages": [HumanMessage("x", id="m1")]}, thread())
    for other in (HumanMessage("y", id="m1"), AIMessage("x", id="m1"), AIMessage("uno", id="t:1.1")):
        with pytest.raises(InvalidInput, match="recorded messages cannot be replaced"):
            await agent.ainvoke({"messages": [other, HumanMessage("more")]}, thread())
    with pytest.raises(InvalidInput, match="has all messages"):
        await agent.ainvoke({"messages": [HumanMessage("x", id="m1")]}, thread())
    assert len((await agent.aget_state(thread())).values["messages"]) == 2
    two = [HumanMessage("a", id="m2"), HumanMessage("a", id="m2")]
    assert len((await agent.ainvoke({"messages": two}, thread()))["messages"]) == 4


async def test_a_waiting_thread_is_told_only_what_is_new() -> None:
    agent, ran = office(call("execute_sql", {"query": "DROP"}), "ok")
    result = await agent.ainvoke(say("go"), thread())
    only(result)
    messages = [*result["messages"], HumanMessage("never mind", id="n")]
    result = await agent.ainvoke({"messages": messages}, thread(), on_pending="reject")
    assert [each.type for each in result["messages"]] == ["human", "ai", "tool", "human", "ai"]
    assert result["messages"][3].id == "n" and ran == []


async def test_an_id_that_the_thread_may_give_itself_is_not_kept() -> None:
    agent, _ = office("one")
    given = [HumanMessage("x", id="t:1.0"), AIMessage("y", id="t:1.1"), HumanMessage("z", id="u:1.1")]
    result = await agent.ainvoke({"messages": given}, thread())
    assert [each.id for each in result["messages"]] == ["t:1.0", "t:1.0-1", "u:1.1", "t:1.1"]


async def test_without_a_checkpointer_ids_come_back_too() -> None:
    agent = create_agent(Paired(["one", "two"]))
    result = await agent.ainvoke({"messages": [HumanMessage("x", id="m1")]})
    again = await agent.ainvoke({"messages": [*result["messages"], HumanMessage("more")]})
    assert again["messages"][:2] == result["messages"]  # with what was used, too
    assert len(again["messages"]) == 4


@pytest.mark.parametrize("given", [{"id": 5}, {"id": []}, {"name": {}}, {"id": "\ud800"}], ids=repr)
async def test_an_id_or_a_name_that_is_no_text_is_refused(given: Any) -> None:
    agent, _ = office("one")
    with pytest.raises(InvalidInput, match="of a message is text"):
        await agent.ainvoke({"messages": [HumanMessage("x", **given)]}, thread())


async def test_a_hook_may_say_that_a_call_failed() -> None:
    @after_model
    def limit(state: Any, runtime: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        if not calls:
            return None
        told = [ToolMessage("Too many.", tool_call_id=each["id"], name=each["name"], status="error") for each in calls]
        return {"messages": [*told, AIMessage("I stop.", id="mine")], "jump_to": "end"}

    agent, ran = office(call("read_data"), "next", middleware=[limit])
    result = await agent.ainvoke(say("go"), thread())
    told, last = result["messages"][2:]
    assert (told.status, told.name, told.content, last.id) == ("error", "read_data", "Too many.", "mine")
    assert ran == []
    await agent.ainvoke(say("more"), thread())
    assert "assent:message" not in str(requests(agent))


async def test_a_hook_that_says_the_same_message_each_time_says_it_once() -> None:
    words = ["Be brief."]

    @before_model
    def remind(state: Any, runtime: Any) -> Any:
        return {"messages": [SystemMessage(words[-1], id="reminder")]}

    agent = create_agent(
        Paired([call("read_data"), "one", "two", "three"]),
        Ran().tools(),
        middleware=[remind],
        checkpointer=InMemorySaver(),
    )
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(say("more"), thread())
    assert [each.id for each in result["messages"]].count("reminder") == 1
    words.append("Be long.")
    result = await agent.ainvoke(say("more"), thread())
    assert [each.content for each in result["messages"] if each.id == "reminder"] == ["Be long."]


async def test_what_a_person_is_shown_of_a_call_that_a_hook_named_is_the_call() -> None:
    @after_model
    def invent(state: Any, runtime: Any) -> Any:
        if state["messages"][-1].content != "one":
            return None
        made = {"name": "execute_sql", "args": {"query": "DROP"}, "id": "x"}
        return {"messages": [AIMessage(tool_calls=[made], id="mine")]}

    agent, ran = office("one", "ok", middleware=[invent])
    result = await agent.ainvoke(say("go"), thread())
    assert result["messages"][-1].id == "mine" and ran == []
    result = await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "DROP")] and texts(result)[-1] == ("ai", "ok")


async def test_the_text_of_a_message_is_text_wherever_text_is_wanted() -> None:
    """It is a subclass of `str`, since `message.text()` works too."""
    text = HumanMessage("no").text
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok")
    config = {"configurable": {"thread_id": HumanMessage("t").text}}
    await agent.ainvoke({"messages": [HumanMessage(text)]}, config)
    resume = {"decisions": [{"type": "reject", "message": text}]}
    result = await agent.ainvoke(Command(resume=resume), config)
    assert text() == "no" and "no" in result["messages"][2].content
