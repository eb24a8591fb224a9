"""Agents inside agents: what they ask comes up in the outer thread, and is decided there."""

from typing import Any

import pytest

from assentry import Agent, UsageError, function_tool
from assentry.testing import call
from assentry.threads import (
    Command,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    after_model,
    before_model,
    create_agent,
    interrupt,
)
from tests.threads.support import Paired, Ran, decide, office, only, requests, say, texts, thread


def nested(*inner_steps: Any, ran: Ran, middleware: Any = (), outer: Any = (), policy: Any = None) -> tuple[Any, Any]:
    """An outer agent that asks an inner one, whose tools are gated."""
    gate = HumanInTheLoopMiddleware(policy or {"execute_sql": True})
    inner = create_agent(
        Paired(inner_steps), ran.tools(), middleware=[gate, *middleware], checkpointer=True, name="database"
    )
    agent = create_agent(
        Paired([[call("database", {"input": "clean up"}), call("read_data")], "All done."]),
        [inner, ran.tools()[2]],
        middleware=outer,
        checkpointer=InMemorySaver(),
    )
    return agent, inner


async def test_what_an_inner_agent_asks_is_decided_in_the_outer_thread() -> None:
    ran = Ran()
    agent, _ = nested(
        [call("execute_sql", {"query": "a"}), call("execute_sql", {"query": "b"})], "Cleaned up.", ran=ran
    )
    request = only(await agent.ainvoke(say("go"), thread())).value
    assert [(each["name"], each["path"]) for each in request["action_requests"]] == [("execute_sql", ["database"])] * 2
    result = await agent.ainvoke(decide("approve", {"type": "reject", "message": "Not b."}), thread())
    assert ("execute_sql", "a") in ran and ("execute_sql", "b") not in ran
    assert [text for kind, text in texts(result) if kind == "tool"] == ["Cleaned up.", "rows of records"]
    assert texts(result)[-1] == ("ai", "All done.")


async def test_an_inner_agent_that_asks_twice_pauses_twice_and_nothing_is_answered_by_itself() -> None:
    ran = Ran()
    agent, inner = nested(call("execute_sql", {"query": "a"}), call("execute_sql", {"query": "b"}), "ok", ran=ran)
    first = only(await agent.ainvoke(say("go"), thread()))
    second = only(await agent.ainvoke(decide("approve"), thread()))
    assert only(await agent.ainvoke(None, thread())) == second != first
    assert ran.count(("execute_sql", "b")) == 0
    await agent.ainvoke(
        decide({"type": "edit", "edited_action": {"name": "execute_sql", "args": {"query": "c"}}}), thread()
    )
    assert [each for each in ran if each[0] == "execute_sql"] == [("execute_sql", "a"), ("execute_sql", "c")]
    assert len(requests(inner)) == 3


async def test_asking_the_inner_agent_may_itself_need_a_decision() -> None:
    ran = Ran()
    gate = HumanInTheLoopMiddleware({"database": {"allowed_decisions": ["approve", "reject"]}})
    agent, _ = nested(call("execute_sql", {"query": "a"}), "ok", ran=ran, outer=[gate])
    request = only(await agent.ainvoke(say("go"), thread())).value
    assert request["action_requests"][0]["name"] == "database" and "path" not in request["action_requests"][0]
    request = only(await agent.ainvoke(decide("approve"), thread())).value
    assert request["action_requests"][0]["path"] == ["database"]
    await agent.ainvoke(decide("approve"), thread())
    assert ("execute_sql", "a") in ran


async def test_what_each_agent_asks_begins_as_it_says() -> None:
    ran = Ran()
    inner = create_agent(
        Paired([call("execute_sql", {"query": "a"}), "ok"]),
        ran.tools(),
        middleware=[HumanInTheLoopMiddleware({"execute_sql": True}, description_prefix="Inside")],
        checkpointer=True,
        name="database",
    )
    plain = create_agent(
        Paired([call("gated"), "ok"]),
        [function_tool(needs_approval=True, name_override="gated")(ran.tools()[2])],
        checkpointer=True,
        name="plain",
    )

    @function_tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    clerk = Agent("clerk", tools=[pay], model=Paired([call("pay"), "ok"]))
    names = ("database", "plain", "clerk", "read_data")
    calls = [call(name, {"input": "x"} if name != "read_data" else {}) for name in names]
    gate = HumanInTheLoopMiddleware({"read_data": True}, description_prefix="Outside")
    tools = [inner, plain, clerk, ran.tools()[2]]
    agent = create_agent(Paired([calls, "ok"]), tools, middleware=[gate], checkpointer=InMemorySaver())
    first = only(await agent.ainvoke(say("go"), thread())).value
    assert begins(first) == ["Outside"]
    second = (await agent.ainvoke(decide("approve"), thread()))["__interrupt__"]
    assert [begins(each.value) for each in second] == [["Inside"], ["Tool execution requires approval"], ["Outside"]]
    assert agent.get_state(thread()).interrupts == tuple(second)
    chunks = [chunk async for chunk in agent.astream(None, thread())]
    assert [chunk["__interrupt__"] for chunk in chunks] == [(each,) for each in second]


def begins(request: Any) -> list[str]:
    return [each["description"].split("\n")[0] for each in request["action_requests"]]


async def test_a_new_message_may_reject_what_an_inner_agent_asks() -> None:
    ran = Ran()
    agent, _ = nested(call("execute_sql", {"query": "a"}), "I could not.", ran=ran)
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(say("stop"), thread(), on_pending="reject")
    assert ("execute_sql", "a") not in ran
    assert [kind for kind, _ in texts(result)] == ["human", "ai", "tool", "tool", "human", "ai"]


async def test_middleware_of_an_inner_agent_works_there() -> None:
    seen: list[Any] = []

    @before_model
    def look(state: Any, runtime: Any) -> None:
        seen.append([message.text for message in state["messages"]])

    @after_model
    def ask(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) == 2:
            return {"messages": [{"role": "user", "content": interrupt("Really?")}], "jump_to": "model"}
        return None

    ran = Ran()
    agent, inner = nested("Hm.", "Fine.", ran=ran, middleware=[look, ask])
    assert only(await agent.ainvoke(say("go"), thread())).value == "Really?"
    result = await agent.ainvoke(Command(resume="Yes."), thread())
    assert seen[0] == ["clean up"] and seen[-1] == ["clean up", "Hm.", "Yes."]
    assert len(requests(inner)) == 2
    assert [text for kind, text in texts(result) if kind == "tool"] == ["Fine.", "rows of records"]


async def test_an_inner_agent_is_run_by_the_outer_one_only() -> None:
    _, inner = nested("x", ran=Ran())
    with pytest.raises(UsageError, match="tool of another"):
        await inner.ainvoke(say("go"), thread())
    with pytest.raises(UsageError, match="tool of another"):
        inner.get_state(thread())


async def test_an_agent_of_the_other_vocabulary_may_be_a_tool() -> None:
    @function_tool(needs_approval=True)
    def pay(euros: int) -> str:
        """Pay."""
        return f"paid {euros}"

    clerk = Agent("clerk", tools=[pay], model=Paired([call("pay", {"euros": 5}), "It is paid."]))
    agent = create_agent(
        Paired([call("clerk", {"input": "pay"}), "ok"]), [clerk.as_tool("clerk", "Ask.")], checkpointer=InMemorySaver()
    )
    request = only(await agent.ainvoke(say("go"), thread())).value
    assert request["action_requests"][0]["args"] == {"euros": 5}
    assert request["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert texts(await agent.ainvoke(decide("approve"), thread()))[2] == ("tool", "It is paid.")


async def test_a_thread_agent_may_be_named_as_a_tool() -> None:
    inner, _ = office("Inside.", name="inner")
    agent = create_agent(
        Paired([call("helper", {"input": "x"}), "ok"]),
        [inner.as_tool("helper", "Helps.")],
        checkpointer=InMemorySaver(),
    )
    assert texts(await agent.ainvoke(say("go"), thread()))[2] == ("tool", "Inside.")
