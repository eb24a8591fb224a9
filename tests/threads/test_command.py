"""Results of a body beside a value: a whole ToolMessage, or a Command that updates the state of the thread."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest

from assentry import UsageError
from assentry.testing import call
from assentry.threads import (
    AgentState,
    AIMessage,
    Command,
    HumanMessage,
    InMemorySaver,
    RemoveMessage,
    SqliteSaver,
    ToolMessage,
    ToolRuntime,
    create_agent,
    interrupt,
    wrap_tool_call,
)
from tests.threads.support import Paired, requests, say, thread


class Notes(AgentState):
    user: str
    notes: Annotated[list[str], operator.add]


@wrap_tool_call
def through(request: Any, handler: Any) -> Any:
    return handler(request)


@wrap_tool_call
def reviewed(request: Any, handler: Any) -> Any:
    result = handler(request)
    assert interrupt("fine?") == "yes"
    return result


AROUND = [[], [through]]


def giving(make: Any, ran: list[int] | None = None) -> Any:
    def act(runtime: ToolRuntime) -> Any:
        """Act."""
        if ran is not None:
            ran.append(1)
        return make(runtime.tool_call_id)

    return act


def updating(id: str) -> Command:
    more = [ToolMessage("done", tool_call_id=id, artifact={"rows": 3}), HumanMessage("Mind the gap.", id="mine")]
    return Command(update={"messages": more, "user": "bob", "notes": ["a"]})


@pytest.mark.parametrize("middleware", AROUND, ids=["alone", "wrapped"])
async def test_a_command_updates_the_state(middleware: Any) -> None:
    agent = create_agent(
        Paired([[call("act"), call("act")], "ok"]),
        [giving(updating)],
        middleware=middleware,
        state_schema=Notes,
        checkpointer=InMemorySaver(),
    )
    result = await agent.ainvoke({**say("go"), "notes": ["first"]}, thread())
    assert (result["user"], result["notes"]) == ("bob", ["first", "a", "a"])
    assert [each.type for each in result["messages"]][:4] == ["human", "ai", "tool", "tool"]
    assert [each.artifact for each in result["messages"][2:4]] == [{"rows": 3}] * 2
    assert result["messages"][4].content == "Mind the gap."
    assert {"role": "user", "content": "Mind the gap."} in [
        {key: item.get(key) for key in ("role", "content")} for item in requests(agent)[-1].input
    ]
    assert agent.get_state(thread()).values["user"] == "bob"


async def test_a_command_that_middleware_reviews_is_kept_with_the_question(tmp_path: Any) -> None:
    ran: list[int] = []
    path = tmp_path / "threads.db"

    def agent(*steps: Any) -> Any:
        return create_agent(
            Paired(steps),
            [giving(updating, ran)],
            middleware=[reviewed],
            state_schema=Notes,
            checkpointer=SqliteSaver(path),
        )

    await agent(call("act")).ainvoke(say("go"), thread())
    result = await agent("ok").ainvoke(Command(resume="yes"), thread())
    assert ran == [1] and (result["user"], result["notes"]) == ("bob", ["a"])
    assert result["messages"][2].artifact == {"rows": 3}


@pytest.mark.parametrize("middleware", AROUND, ids=["alone", "wrapped"])
async def test_nothing_of_a_message_is_lost(middleware: Any) -> None:
    blocks = [{"type": "text", "text": "see"}, {"type": "image", "base64": "aGk=", "mime_type": "image/png"}]

    def whole(id: str) -> ToolMessage:
        return ToolMessage(
            blocks, tool_call_id=id, id="own", name="other", artifact=[1], additional_kwargs={"a": 1}, status="success"
        )

    agent = create_agent(
        Paired([call("act"), "ok"]), [giving(whole)], middleware=middleware, checkpointer=InMemorySaver()
    )
    message = (await agent.ainvoke(say("go"), thread()))["messages"][2]
    assert (message.content, message.id, message.name) == (blocks, "own", "other")
    assert (message.artifact, message.additional_kwargs) == ([1], {"a": 1})
    output = next(item for item in requests(agent)[-1].input if item.get("type") == "function_call_output")["output"]
    assert output == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
    ]


WRONG = {
    "another call's message": lambda id: ToolMessage("x", tool_call_id="call_other"),
    "a command for another call": lambda id: Command(update={"messages": [ToolMessage("x", tool_call_id="other")]}),
    "no message of its own": lambda id: Command(update={"user": "eve"}),
    "two messages": lambda id: Command(update={"messages": [ToolMessage("x"), ToolMessage("y")]}),
    "an unknown key": lambda id: Command(update={"messages": [ToolMessage("x")], "other": 1}),
    "a removal": lambda id: Command(update={"messages": [ToolMessage("x"), RemoveMessage(id="t:1.0")]}),
    "a call without its result": lambda id: Command(
        update={"messages": [ToolMessage("x"), AIMessage("", tool_calls=[{"name": "act", "args": {}, "id": "z"}])]}
    ),
    "a node": lambda id: Command(goto="agent", update={"messages": [ToolMessage("x")]}),
    "a parent": lambda id: Command(graph=Command.PARENT, update={"messages": [ToolMessage("x")]}),
    "an answer": lambda id: Command(resume={"decisions": [{"type": "approve"}]}),
    "no dict": lambda id: Command(update=[ToolMessage("x")]),
}


@pytest.mark.parametrize("middleware", AROUND, ids=["alone", "wrapped"])
@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
async def test_what_cannot_be_meant_ends_the_run_and_the_body_does_not_run_again(given: Any, middleware: Any) -> None:
    ran: list[int] = []
    agent = create_agent(
        Paired([call("act"), "ok"]),
        [giving(given, ran)],
        middleware=middleware,
        state_schema=Notes,
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(UsageError):
        await agent.ainvoke(say("go"), thread())
    result = await agent.ainvoke(None, thread())
    assert ran == [1] and "user" not in result
    assert result["messages"][2].status == "error" and "result is lost" in result["messages"][2].content


async def test_only_answers_are_given_to_a_thread() -> None:
    agent = create_agent(Paired(["ok"]), checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    for given in ({"update": {"messages": []}}, {"goto": "tools"}, {"resume": 1, "update": {"a": 1}}):
        with pytest.raises(UsageError, match="nothing else"):
            await agent.ainvoke(Command(**given), thread())


async def test_a_list_of_blocks_is_the_content_of_a_message() -> None:
    blocks = [{"type": "text", "text": "A cat"}, {"type": "image", "base64": "aGk=", "mime_type": "image/png"}]
    agent = create_agent(Paired([call("act"), "ok"]), [giving(lambda id: blocks)], checkpointer=InMemorySaver())
    message = (await agent.ainvoke(say("go"), thread()))["messages"][2]
    assert (message.content, message.name) == (blocks, "act")
