"""The config of a thread in a tool: a function that takes LangChain's `RunnableConfig` gets the one of its `invoke`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId

from assentry import Agent, InvalidDefinition, Runner, UsageError, function_tool
from assentry.testing import ScriptedModel, call
from assentry.threads import HumanInTheLoopMiddleware, InMemorySaver, ThreadAgent, create_agent, wrap_tool_call
from tests.threads.support import Paired, decide, say, texts


class Seen(list[Any]):
    def tool(self) -> Any:
        def delete_account(
            reason: str,
            config: RunnableConfig,
            tool_call_id: Annotated[str, InjectedToolCallId],
            *,
            again: bool = False,
        ) -> str:
            """Delete the account of the user who asks."""
            self.append((reason, config["configurable"].get("user_id"), tool_call_id))
            config["configurable"]["user_id"] = "changed by the body"
            return "deleted"

        return delete_account


def config(user: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": "1", "user_id": user}}


def agent_with(*steps: Any, tool: Any, gated: bool = False, **options: Any) -> ThreadAgent:
    gate = HumanInTheLoopMiddleware({"delete_account": gated})
    options.setdefault("middleware", [gate])
    return create_agent(Paired(steps), [tool], checkpointer=InMemorySaver(), **options)


ASKS = call("delete_account", {"reason": "x"}, "of-the-provider")


def test_a_tool_gets_the_config_that_the_thread_was_invoked_with() -> None:
    seen, given = Seen(), config("ann")
    agent_with(ASKS, "done", tool=seen.tool()).invoke(say("go"), given)
    assert seen == [("x", "ann", "of-the-provider")]
    assert given == config("ann")  # the body has a copy


def test_a_model_cannot_fill_in_the_config() -> None:
    seen = Seen()
    forged = {"reason": "x", "config": {"configurable": {"user_id": "root"}}, "tool_call_id": "forged"}
    agent = agent_with(call("delete_account", forged), "done", tool=seen.tool())
    result = agent.invoke(say("go"), config("ann"))
    assert seen == []
    assert "there is no such argument" in texts(result)[-2][1]


def test_a_model_is_not_offered_the_config() -> None:
    seen, model = Seen(), ScriptedModel(["done"])
    create_agent(model, [seen.tool()]).invoke(say("go"))
    [offered] = model.requests[0].tools
    assert list(offered.parameters["properties"]) == ["reason", "again"]


def test_a_stream_gives_the_config_too() -> None:
    seen = Seen()
    list(agent_with(ASKS, "done", tool=seen.tool()).stream(say("go"), config("ann")))
    assert seen == [("x", "ann", "of-the-provider")]


def test_after_an_answer_the_config_is_that_of_the_answer() -> None:
    seen = Seen()
    agent = agent_with(ASKS, "done", tool=seen.tool(), gated=True)
    agent.invoke(say("go"), config("ann"))
    agent.invoke(decide({"type": "approve"}), config("bob"))
    assert seen == [("x", "bob", "of-the-provider")]


def test_a_person_cannot_fill_in_the_config_by_an_edit() -> None:
    seen = Seen()
    agent = agent_with(ASKS, "done", tool=seen.tool(), gated=True)
    agent.invoke(say("go"), config("ann"))
    edit = {"name": "delete_account", "args": {"reason": "x", "config": {"configurable": {"user_id": "root"}}}}
    with pytest.raises(Exception, match="no such argument"):
        agent.invoke(decide({"type": "edit", "edited_action": edit}), config("ann"))
    assert seen == []


async def test_threads_at_the_same_time_have_their_own_configs() -> None:
    seen = Seen()
    agent = agent_with(*[ASKS] * 4, *["done"] * 4, tool=seen.tool())
    users = ["ann", "bob", "eve", "joe"]
    given = [{"configurable": {"thread_id": user, "user_id": user}} for user in users]
    await asyncio.gather(*(agent.ainvoke(say("go"), each) for each in given))
    assert sorted(user for _, user, _ in seen) == users


def test_middleware_around_a_tool_keeps_its_config() -> None:
    seen = Seen()

    @wrap_tool_call
    def through(request: Any, handler: Any) -> Any:
        return handler(request)

    agent_with(ASKS, "done", tool=seen.tool(), middleware=[through]).invoke(say("go"), config("ann"))
    assert seen == [("x", "ann", "of-the-provider")]


def test_without_a_checkpointer_the_config_is_what_was_given() -> None:
    seen = Seen()
    for given in (None, {}, {"configurable": {"user_id": "ann"}}):
        create_agent(Paired([ASKS, "done"]), [seen.tool()]).invoke(say("go"), given)
    assert [user for _, user, _ in seen] == [None, None, "ann"]


async def test_a_run_without_a_thread_does_not_enter_the_body() -> None:
    seen = Seen()
    agent = create_agent(Paired([ASKS, "done"]), [seen.tool()]).agent
    with pytest.raises(UsageError, match="not started by invoke"):
        await Runner.run(agent, "go")
    assert seen == []


def test_only_a_plain_function_of_a_thread_takes_a_config() -> None:
    with pytest.raises(InvalidDefinition, match="'config' is a RunnableConfig"):
        function_tool(Seen().tool())
    with pytest.raises(InvalidDefinition, match=r"plain|tool"):
        Agent(name="A", tools=[Seen().tool()])
