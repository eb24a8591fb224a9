"""What happens while code of the user's waits for an answer: it goes on with what it saw, and the rest comes after."""

from typing import Any

import pytest

from assentry.testing import call
from assentry.threads import (
    Command,
    InMemorySaver,
    SqliteSaver,
    after_agent,
    after_model,
    before_agent,
    before_model,
    create_agent,
    interrupt,
    wrap_model_call,
    wrap_tool_call,
)
from tests.threads.support import Paired, Ran, decide, office, only, requests, say, texts, thread

YES = Command(resume="yes")


def asking_first() -> list[Any]:
    """Hooks that ask once in a run, after the model has replied to "one"."""

    def about(messages: list[Any]) -> None:
        if not any(each.content == "two" for each in messages):
            interrupt({"so far": [(each.id, each.content) for each in messages]})

    @after_model
    def after(state: Any, runtime: Any) -> None:
        about(state["messages"])

    @after_agent
    def at_the_end(state: Any, runtime: Any) -> None:
        about(state["messages"])

    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        response = handler(request)
        about([*request.state["messages"], *response.result])
        return response

    return [after, at_the_end, around]


def heard(agent: Any) -> list[list[Any]]:
    """What the model was asked, each time, in words."""
    return [[item["content"] for item in each.input if item.get("role") == "user"] for each in requests(agent)]


@pytest.mark.parametrize("which", range(3), ids=["after_model", "after_agent", "wrap_model_call"])
async def test_what_is_said_while_a_hook_asks_about_a_reply_comes_after_the_reply_and_is_answered(which: int) -> None:
    agent, _ = office("to one", "to two", middleware=[asking_first()[which]])
    await agent.ainvoke(say("one"), thread())
    waiting = await agent.ainvoke(say("two"), thread(), on_pending="keep")
    assert texts(waiting) == [("human", "one"), ("human", "two")]
    result = await agent.ainvoke(YES, thread())
    assert texts(result) == [("human", "one"), ("ai", "to one"), ("human", "two"), ("ai", "to two")]
    assert heard(agent) == [["one"], ["one", "two"]]
    assert agent.get_state(thread()).next == ()


async def test_the_ids_of_messages_stay_as_they_are_while_a_hook_asks() -> None:
    agent, _ = office("to one", "to two", middleware=asking_first()[:1])
    first = await agent.ainvoke(say("one"), thread())
    shown = only(first).value["so far"]
    kept = await agent.ainvoke(say("two"), thread(), on_pending="keep")
    done = await agent.ainvoke(YES, thread())
    ids = {each.content: each.id for each in done["messages"]}
    assert len(set(ids.values())) == 4
    for each in (*first["messages"], *kept["messages"]):
        assert ids[each.content] == each.id
    assert [ids[text] for _, text in shown] == [id for id, _ in shown]


async def test_a_stop_that_is_said_while_a_hook_asks_is_not_before_what_it_would_stop() -> None:
    agent, ran = office(call("execute_sql", {"query": "DROP"}), "Too late.", middleware=asking_first()[:1])
    await agent.ainvoke(say("one"), thread())
    await agent.ainvoke(say("two"), thread(), on_pending="keep")
    waiting = await agent.ainvoke(YES, thread())
    assert only(waiting).value["action_requests"][0]["args"] == {"query": "DROP"} and ran == []
    assert [kind for kind, _ in texts(waiting)] == ["human", "ai", "human"]
    result = await agent.ainvoke(decide("reject"), thread())
    assert [kind for kind, _ in texts(result)] == ["human", "ai", "tool", "human", "ai"] and ran == []


@pytest.mark.parametrize("hook", [before_model, before_agent])
async def test_a_hook_that_shows_what_was_said_is_entered_again_with_what_it_saw(hook: Any) -> None:
    @hook
    def confirm(state: Any, runtime: Any) -> Any:
        return None if interrupt([each.content for each in state["messages"]]) == "yes" else {"jump_to": "end"}

    agent, _ = office("to one", "to two", middleware=[confirm])
    assert only(await agent.ainvoke(say("one"), thread())).value == ["one"]
    assert only(await agent.ainvoke(say("two"), thread(), on_pending="keep")).value == ["one"]
    result = await agent.ainvoke(YES, thread())
    assert heard(agent)[0] == ["one"], "nobody has agreed to more"
    if hook is before_model:
        assert only(result).value == ["one", "to one", "two"]
        result = await agent.ainvoke(YES, thread())
    assert texts(result) == [("human", "one"), ("ai", "to one"), ("human", "two"), ("ai", "to two")]


async def test_what_is_said_is_heard_though_the_hook_that_was_asked_about_something_else_ends_it() -> None:
    @before_model
    def confirm(state: Any, runtime: Any) -> Any:
        return None if interrupt(state["messages"][-1].content) == "yes" else {"jump_to": "end"}

    agent, _ = office("to two", middleware=[confirm])
    await agent.ainvoke(say("one"), thread())
    await agent.ainvoke(say("two"), thread(), on_pending="keep")
    assert only(await agent.ainvoke(Command(resume="no"), thread())).value == "two"
    assert texts(await agent.ainvoke(YES, thread()))[-1] == ("ai", "to two")


async def test_a_model_that_is_asked_after_the_answer_hears_what_the_hook_saw() -> None:
    @wrap_model_call
    def confirm(request: Any, handler: Any) -> Any:
        interrupt([each.content for each in request.messages])
        return handler(request)

    agent, _ = office("to one", "to two", middleware=[confirm])
    await agent.ainvoke(say("one"), thread())
    await agent.ainvoke(say("two"), thread(), on_pending="keep")
    assert only(await agent.ainvoke(YES, thread())).value == ["one", "to one", "two"]
    assert heard(agent) == [["one"]]


async def test_another_process_knows_what_a_hook_had_seen(tmp_path: Any) -> None:
    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office("to one", middleware=asking_first()[:1], checkpointer=saver)
        await agent.ainvoke(say("one"), thread())
        for text in ("two", "three"):
            await agent.ainvoke(say(text), thread(), on_pending="keep")
    with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office("to both", middleware=asking_first()[:1], checkpointer=saver)
        result = await agent.ainvoke(YES, thread())
        assert [text for _, text in texts(result)] == ["one", "to one", "two", "three", "to both"]
        assert heard(agent) == [["one", "two", "three"]]


async def test_a_stream_shows_messages_under_the_ids_that_they_keep() -> None:
    agent, _ = office(call("read_data"), "done", middleware=asking_first()[:1])
    async for _ in agent.astream(say("one"), thread()):
        pass
    await agent.ainvoke(say("two"), thread(), on_pending="keep")
    shown = [
        each
        async for chunk in agent.astream(YES, thread())
        for update in chunk.values()
        if isinstance(update, dict)
        for each in update["messages"]
    ]
    kept = {each.id: each.content for each in agent.get_state(thread()).values["messages"]}
    assert len(shown) == 3 and all(kept[each.id] == each.content for each in shown)


# -- around tools ---------------------------------------------------------------------------------------


def two_reads() -> list[Any]:
    return [call("read_data", {"table": table}) for table in ("a", "b")]


async def test_middleware_around_a_tool_is_entered_again_with_the_state_that_it_saw() -> None:
    @wrap_tool_call
    def confirm(request: Any, handler: Any) -> Any:
        interrupt({**request.tool_call["args"], "so far": [each.type for each in request.state["messages"]]})
        return handler(request)

    agent, ran = office(two_reads(), "ok", middleware=[confirm])
    first, second = (await agent.ainvoke(say("go"), thread()))["__interrupt__"]
    assert first.value == {"table": "a", "so far": ["human", "ai"]}
    waiting = await agent.ainvoke(Command(resume={first.id: 1}), thread())
    assert only(waiting).id == second.id and ran == [("read_data", "a")]
    await agent.ainvoke(say("hurry"), thread(), on_pending="keep")
    result = await agent.ainvoke(Command(resume={second.id: 1}), thread())
    assert [kind for kind, _ in texts(result)] == ["human", "ai", "tool", "tool", "human", "ai"]
    assert ran == [("read_data", "a"), ("read_data", "b")]


async def test_a_description_of_a_call_that_middleware_changed_is_the_same_after_the_answer() -> None:
    def describe(tool_call: Any, state: Any, runtime: Any) -> str:
        return f"{tool_call['args']['query']} after {len(state['messages'])} messages"

    @wrap_tool_call
    def another(request: Any, handler: Any) -> Any:
        if request.tool_call["name"] == "execute_sql":
            request.tool_call["args"] = {"query": "c"}
        return handler(request)

    policy = {"execute_sql": {"allowed_decisions": ["approve"], "description": describe, "when": lambda request: True}}
    steps = [[call("execute_sql", {"query": "a"}), call("read_data")], "ok"]
    agent, ran = office(*steps, policy=policy, middleware=[another])
    await agent.ainvoke(say("go"), thread())
    changed = only(await agent.ainvoke(decide("approve"), thread()))
    assert changed.value["action_requests"][0]["description"] == "c after 2 messages"
    assert texts(await agent.ainvoke(decide("approve"), thread()))[-1] == ("ai", "ok")
    assert sorted(ran) == [("execute_sql", "c"), ("read_data", "records")]


async def test_the_state_around_an_inner_agents_tool_is_that_agents() -> None:
    seen: list[Any] = []

    @wrap_tool_call
    def look(request: Any, handler: Any) -> Any:
        seen.append([each.type for each in request.state["messages"]])
        interrupt(seen[-1])
        return handler(request)

    ran = Ran()
    inner = create_agent(
        Paired([two_reads(), "read"]), ran.tools(), middleware=[look], checkpointer=True, name="reader"
    )
    tool = inner.as_tool("reader", "Reads.")
    agent = create_agent(Paired([call("reader", {"input": "a and b"}), "ok"]), [tool], checkpointer=InMemorySaver())
    result = await agent.ainvoke(say("go"), thread())
    while "__interrupt__" in result:
        result = await agent.ainvoke(Command(resume={result["__interrupt__"][0].id: 1}), thread())
    assert seen == [["human", "ai"]] * 4 and texts(result)[-1] == ("ai", "ok")
