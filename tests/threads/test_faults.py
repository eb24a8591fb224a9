"""A fault of the program leaves the run as an error, once what the call came to is recorded; nothing runs twice."""

from typing import Any

import pytest

from assentry import UsageError, function_tool
from assentry.errors import InvalidArguments
from assentry.testing import call
from assentry.threads import (
    Command,
    InMemorySaver,
    ThreadAgent,
    create_agent,
    interrupt,
    wrap_tool_call,
)
from tests.threads.support import Paired, decide, journal, office, only, say, texts, thread

LOST = "The call ran, and its result is lost"


@wrap_tool_call
def forgetful(request: Any, handler: Any) -> Any:
    handler(request)


@wrap_tool_call
async def hasty(request: Any, handler: Any) -> Any:
    return handler(request)


@wrap_tool_call
async def eager(request: Any, handler: Any) -> Any:
    await handler(request)
    return await handler(request)


@wrap_tool_call
def wordy(request: Any, handler: Any) -> Any:
    return handler(request).content


async def left(agent: ThreadAgent, input: Any, words: str) -> list[tuple[str, str]]:
    """What a thread says when it goes on after a fault with these words."""
    with pytest.raises(UsageError, match=words):
        await agent.ainvoke(input, thread())
    assert (await agent.aget_state(thread())).next == ("model",)
    return texts(await agent.ainvoke(None, thread()))


async def test_a_question_that_is_none_is_an_error_of_the_program() -> None:
    def ask() -> str:
        """Ask."""
        return str(interrupt({"due": object()}))

    agent = create_agent(Paired([call("ask"), "ok"]), [ask], checkpointer=InMemorySaver())
    assert (await left(agent, say("go"), "A question is text or JSON"))[-1] == ("ai", "ok")


@pytest.mark.parametrize(
    ("around", "words"),
    [(forgetful, "it gave None"), (eager, "not idempotent"), (wordy, "it gave 'ran DROP'")],
    ids=["forgetful", "eager", "wordy"],
)
async def test_a_result_that_middleware_loses_is_not_told_as_a_failure(around: Any, words: str) -> None:
    agent, ran = office(call("execute_sql", {"query": "DROP"}), "ok", middleware=[around])
    only(await agent.ainvoke(say("go"), thread()))
    said = await left(agent, decide("approve"), words)
    assert ran == [("execute_sql", "DROP")]
    assert said[2][1].startswith(LOST) and said[3] == ("ai", "ok")
    assert (await journal(agent)).count("Finished") == 1


@pytest.mark.parametrize("told", [None, lambda ctx, error: "sorry"], ids=["raised", "worded"])
async def test_a_result_that_is_lost_is_told_whatever_the_tool_says_of_failures(told: Any) -> None:
    @function_tool(failure_error_function=told)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent = create_agent(Paired([call("pay"), "ok"]), [pay], middleware=[forgetful], checkpointer=InMemorySaver())
    assert (await left(agent, say("go"), "it gave None"))[2][1].startswith(LOST)


async def test_a_handler_that_is_not_awaited_has_not_run() -> None:
    agent, ran = office(call("read_data"), "ok", middleware=[hasty])
    said = await left(agent, say("go"), "awaited where the hook is async")
    assert ran == [] and LOST not in said[2][1]


async def test_a_result_that_is_lost_after_a_question_is_not_told_as_a_failure() -> None:
    @wrap_tool_call
    def asks(request: Any, handler: Any) -> Any:
        handler(request)
        interrupt("Shall the model see it?")

    agent, ran = office(call("read_data"), "ok", middleware=[asks])
    only(await agent.ainvoke(say("go"), thread()))
    said = await left(agent, Command(resume="yes"), "it gave None")
    assert ran == [("read_data", "records")] and said[2][1].startswith(LOST)


async def test_other_calls_of_the_turn_come_to_their_end() -> None:
    @wrap_tool_call
    def odd(request: Any, handler: Any) -> Any:
        message = handler(request)
        return message if request.tool_call["name"] == "write_file" else None

    steps = [call("read_data"), call("write_file", {"path": "a"})]
    agent, ran = office(steps, "ok", middleware=[odd], policy={"execute_sql": True})
    with pytest.raises(UsageError, match="it gave None"):
        await agent.ainvoke(say("go"), thread())
    said = texts(await agent.ainvoke(None, thread()))
    assert sorted(name for name, *_ in ran) == ["read_data", "write_file"]
    assert said[2][1].startswith(LOST) and said[3:] == [("tool", "wrote a"), ("ai", "ok")]


async def test_a_fault_comes_out_of_a_stream_and_out_of_agents_inside() -> None:
    def ask() -> str:
        """Ask."""
        return str(interrupt(object()))

    inner = create_agent(Paired([call("ask"), "inside"]), [ask], checkpointer=True, name="inner")
    outer = create_agent(Paired([call("inner", {"input": "x"}), "ok"]), [inner], checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="A question is text or JSON"):
        async for _ in outer.astream(say("go"), thread()):
            pass
    result = await outer.ainvoke(None, thread())
    assert texts(result)[2:] == [("tool", "inside"), ("ai", "ok")]


async def test_what_a_model_may_have_done_wrong_is_told_the_model() -> None:
    def strict() -> str:
        """Be strict."""
        raise InvalidArguments("limit: too large")

    agent = create_agent(Paired([call("strict"), "ok"]), [strict], checkpointer=InMemorySaver())
    result = await agent.ainvoke(say("go"), thread())
    assert texts(result)[2] == ("tool", "The tool failed with InvalidArguments: limit: too large")


async def test_an_agent_that_a_body_runs_asks_in_the_outer_thread() -> None:
    def ask() -> str:
        """Ask."""
        return str(interrupt("Sure?"))

    inner = create_agent(Paired([call("ask"), "inside"]), [ask], name="inner")

    def delegate() -> str:
        """Have it done by another agent."""
        return str(inner.invoke(say("do"))["messages"][-1].content)

    outer = create_agent(Paired([call("delegate"), "ok"]), [delegate], checkpointer=InMemorySaver())
    assert only(await outer.ainvoke(say("go"), thread())).value == "Sure?"
    assert texts(await outer.ainvoke(Command(resume="yes"), thread()))[2:] == [("tool", "inside"), ("ai", "ok")]

    inner = create_agent(Paired([call("ask"), "inside"]), [ask], name="inner")
    steps = [call("inner", {"input": "do"}), "ok"]
    outer = create_agent(Paired(steps), [inner.as_tool()], checkpointer=InMemorySaver())
    assert only(await outer.ainvoke(say("go"), thread())).value == "Sure?"
    result = await outer.ainvoke(Command(resume="yes"), thread())
    assert texts(result)[2:] == [("tool", "inside"), ("ai", "ok")]
