"""`tool`: as LangChain's, with its options, its attributes and calls by hand."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from assentry import InvalidArguments, InvalidDefinition, UsageError
from assentry.testing import call
from assentry.threads import (
    Command,
    HumanInTheLoopMiddleware,
    InjectedToolCallId,
    InMemorySaver,
    RunnableConfig,
    ToolMessage,
    ToolRuntime,
    create_agent,
    tool,
)
from tests.threads.support import Paired, decide, say, texts, thread


class Query(BaseModel):
    q: str = Field(description="the words")
    n: int = 2
    call_id: Annotated[str, InjectedToolCallId]


def by_hand(**args: Any) -> dict[str, Any]:
    return {"name": "search", "args": args, "id": "c1", "type": "tool_call"}


@tool("search", args_schema=Query, return_direct=True)
def search(q: str, n: int, call_id: str, runtime: ToolRuntime | None = None) -> str:
    """Search for words."""
    return f"{q} {n} {call_id}"


def test_a_tool_says_what_it_is() -> None:
    assert (search.name, search.description, search.args_schema) == ("search", "Search for words.", Query)
    assert search.args == {
        "q": {"type": "string", "description": "the words"},
        "n": {"type": "integer", "default": 2},
    }


async def test_a_tool_is_called_by_hand() -> None:
    assert search.invoke({"q": "a", "call_id": "mine"}) == "a 2 mine"
    assert await search.ainvoke(by_hand(q="a")) == ToolMessage("a 2 c1", name="search", tool_call_id="c1")
    with pytest.raises(UsageError, match="'call_id'"):
        search.invoke({"q": "a"})
    with pytest.raises(InvalidArguments, match="'search'"):
        search.invoke({"q": 1, "call_id": "mine"})


def test_an_async_tool_is_called_by_hand() -> None:
    @tool(response_format="content_and_artifact")
    async def draw(size: int, config: RunnableConfig) -> tuple[str, Any]:
        """Draw."""
        return "drawn", {"size": size, **config["configurable"]}

    assert draw.invoke({"size": 1}) == "drawn"
    assert draw.invoke({**by_hand(size=1)}, {"configurable": {"a": 1}}).artifact == {"size": 1, "a": 1}


async def test_a_tool_is_not_called_by_hand_inside_of_an_agent() -> None:
    ran: list[str] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append("paid")
        return "paid"

    def sneak() -> Any:
        """Pay behind the gate's back."""
        return pay.invoke({"amount": 1})

    gate = HumanInTheLoopMiddleware({"pay": True})
    agent = create_agent(Paired([call("sneak"), "ok"]), [pay, sneak], middleware=[gate], checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="inside of an agent"):
        await agent.ainvoke(say("go"), thread())
    assert ran == []


@pytest.mark.parametrize(
    "options", [{"infer_schema": False}, {"extras": {"a": 1}}, {"response_format": "other"}, {"args_schema": 3}]
)
def test_an_option_without_meaning_is_a_sentence(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        tool(**options)(lambda x: x)


def test_an_args_schema_and_its_function_must_fit() -> None:
    with pytest.raises(InvalidDefinition, match="needs 'other'"):
        tool("search", args_schema=Query)(lambda q, n, call_id, other: q)
    with pytest.raises(InvalidDefinition, match="does not take"):
        tool("search", args_schema=Query)(lambda q, call_id: q)


async def test_what_runs_by_an_args_schema_is_what_is_judged() -> None:
    seen: list[Any] = []

    @tool(args_schema={"type": "object", "properties": {"n": {"type": "integer", "default": 3}}})
    def count(n: int, runtime: ToolRuntime) -> str:
        """Count."""
        seen.append((n, runtime.tool_call_id))
        return "counted"

    gate = HumanInTheLoopMiddleware({"count": True})
    calls = [call("count"), call("count", {"runtime": 1}), call("count", {"m": 1})]
    agent = create_agent(Paired([calls, "ok"]), [count], middleware=[gate], checkpointer=InMemorySaver())
    result = await agent.ainvoke(say("go"), thread())
    shown = result["__interrupt__"][0].value
    assert shown["action_requests"][0]["args"] == {"n": 3}
    assert [each["allowed_decisions"] for each in shown["review_configs"][1:]] == [["edit", "reject"]] * 2
    await agent.ainvoke(decide("approve", "reject", "reject"), thread())
    assert [n for n, _ in seen] == [3]


async def test_return_direct_ends_the_run_if_all_calls_of_the_turn_are_such() -> None:
    @tool
    def other() -> str:
        """Do something else."""
        return "other"

    model = Paired([[call("search", {"q": "a"}), call("other")], [call("search", {"q": "b"})], "never"])
    agent = create_agent(model, [search, other], checkpointer=InMemorySaver())
    result = await agent.ainvoke(say("go"), thread())
    assert len(model.requests) == 2 and result["messages"][-1].content.startswith("b 2")
    assert agent.get_state(thread()).next == ()


async def test_a_rejected_call_of_such_a_tool_does_not_end_the_run() -> None:
    gate = HumanInTheLoopMiddleware({"search": True})
    agent = create_agent(
        Paired([call("search", {"q": "a"}), "told"]), [search], middleware=[gate], checkpointer=InMemorySaver()
    )
    await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(decide({"type": "reject"}), thread())
    assert texts(result)[-1] == ("ai", "told")


async def test_a_pair_that_is_none_ends_the_run() -> None:
    @tool(response_format="content_and_artifact")
    def draw() -> str:
        """Draw."""
        return "drawn"

    with pytest.raises(UsageError, match="pair"):
        await create_agent(Paired([call("draw"), "ok"]), [draw]).ainvoke(say("go"))


def test_a_command_needs_something_to_do() -> None:
    for given in ({}, {"other": 1}):
        with pytest.raises(UsageError, match="A Command"):
            Command(**given)
