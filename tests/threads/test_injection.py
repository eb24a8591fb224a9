"""Parameters that the thread fills in: a tool gets them, and a model neither sees nor fills them."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from assentry import InvalidDecision, InvalidDefinition, UsageError, function_tool
from assentry.testing import call
from assentry.threads import (
    AgentState,
    HumanInTheLoopMiddleware,
    InjectedState,
    InjectedStore,
    InjectedToolArg,
    InjectedToolCallId,
    InMemorySaver,
    RunnableConfig,
    ToolRuntime,
    before_model,
    create_agent,
    tool,
)
from tests.threads.support import Paired, decide, say, texts, thread


class UserState(AgentState):
    user: str


class Memory:
    """A store across threads, as LangGraph's."""

    def get(self, *key: Any) -> None: ...
    def put(self, *item: Any) -> None: ...
    def search(self, *key: Any) -> None: ...


class Seen(dict[str, Any]):
    def function(self) -> Any:
        def look(
            city: str,
            runtime: ToolRuntime[Any, UserState],
            whole: Annotated[dict[str, Any], InjectedState],
            user: Annotated[str, InjectedState("user")],
            missing: Annotated[str | None, InjectedState("nothing")] = None,
            *,
            call_id: Annotated[str, InjectedToolCallId()],
            store: Annotated[Any, InjectedStore()],
            config: RunnableConfig | None = None,
            hidden: Annotated[int, InjectedToolArg] = 7,
        ) -> str:
            """Look."""
            self.update({name: value for name, value in locals().items() if name != "self"})
            return "seen"

        return look


NAMES = ("runtime", "whole", "user", "missing", "call_id", "store", "config", "hidden")


@pytest.mark.parametrize("make", [lambda function: function, tool, lambda function: tool("look")(function)])
async def test_a_tool_gets_the_thread(make: Any) -> None:
    seen, memory = Seen(), Memory()
    model = Paired([call("look", {"city": "Ghent"}), "ok"])
    agent = create_agent(
        model, [make(seen.function())], state_schema=UserState, store=memory, checkpointer=InMemorySaver()
    )
    await agent.ainvoke({**say("go"), "user": "ann"}, thread(), context={"a": 1})
    assert list(model.requests[0].tools[0].parameters["properties"]) == ["city"]
    runtime = seen["runtime"]
    assert (seen["city"], seen["user"], seen["missing"], seen["hidden"]) == ("Ghent", "ann", None, 7)
    assert runtime.state == seen["whole"] and [each.type for each in seen["whole"]["messages"]] == ["human", "ai"]
    assert runtime.context == {"a": 1} and runtime.store is seen["store"] is memory
    assert runtime.tool_call_id == seen["call_id"] == seen["whole"]["messages"][-1].tool_calls[0]["id"]
    assert runtime.config["configurable"]["thread_id"] == seen["config"]["configurable"]["thread_id"] == "t"
    assert (runtime.execution_info.thread_id, runtime.execution_info.run_id) == ("t", "t:1")
    assert [each.name for each in runtime.tools] == ["look"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make", [lambda function: function, tool])
async def test_a_model_that_fills_such_a_parameter_runs_nothing(make: Any, name: str) -> None:
    seen = Seen()
    model = Paired([call("look", {"city": "Ghent", name: {"user": "eve"}}), "ok"])
    agent = create_agent(model, [make(seen.function())], state_schema=UserState, store=Memory())
    result = await agent.ainvoke({**say("go"), "user": "ann"})
    assert seen == {} and f'"{name}": there is no such argument' in result["messages"][2].content


async def test_an_edit_cannot_name_such_a_parameter() -> None:
    seen = Seen()
    gate = HumanInTheLoopMiddleware({"look": True})
    model = Paired([call("look", {"city": "Ghent"}), "ok"])
    agent = create_agent(
        model,
        [seen.function()],
        middleware=[gate],
        state_schema=UserState,
        store=Memory(),
        checkpointer=InMemorySaver(),
    )
    result = await agent.ainvoke({**say("go"), "user": "ann"}, thread())
    assert result["__interrupt__"][0].value["action_requests"][0]["args"] == {"city": "Ghent"}
    edit = {"type": "edit", "edited_action": {"name": "look", "args": {"city": "Ghent", "user": "eve"}}}
    with pytest.raises(InvalidDecision, match="user"):
        await agent.ainvoke(decide(edit), thread())
    await agent.ainvoke(decide({"type": "approve"}), thread())
    assert seen["user"] == "ann"


def test_a_parameter_that_nothing_fills_is_refused() -> None:
    def look(given: Annotated[str, InjectedToolArg]) -> str: ...
    def nested(given: list[Annotated[str, InjectedToolCallId]]) -> str: ...
    def number(given: Annotated[int, InjectedToolCallId]) -> str: ...

    for function in (look, nested, number):
        with pytest.raises(InvalidDefinition, match="'given'"):
            create_agent(Paired(["ok"]), [function])
    with pytest.raises(InvalidDefinition, match="ToolRuntime of assentry"):

        @function_tool
        def outside(runtime: ToolRuntime) -> str: ...


@pytest.mark.parametrize("mark", [InjectedStore(), InjectedState("user")])
async def test_a_value_that_is_not_there_ends_the_run_with_a_sentence(mark: Any) -> None:
    ran: list[Any] = []

    def look(given: Any) -> None:
        ran.append(given)

    look.__annotations__["given"] = Annotated[Any, mark]
    agent = create_agent(Paired([call("look"), "ok"]), [look], state_schema=UserState)
    with pytest.raises(UsageError, match=r"store|'user'"):
        await agent.ainvoke(say("go"))
    assert ran == []


async def test_hooks_get_the_store_across_threads_and_the_one_of_the_thread() -> None:
    seen: list[Any] = []

    @before_model
    def look(state: Any, runtime: Any) -> None:
        seen.append((runtime.store, runtime.thread_store, runtime.execution_info.thread_id))

    memory, saver = Memory(), InMemorySaver()
    agent = create_agent(Paired(["ok"]), middleware=[look], store=memory, checkpointer=saver)
    assert texts(await agent.ainvoke(say("go"), thread()))[-1] == ("ai", "ok")
    assert seen == [(memory, saver.store, "t")]
    with pytest.raises(InvalidDefinition, match="store"):
        create_agent(Paired(["ok"]), store=saver)
