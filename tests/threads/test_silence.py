"""Nothing is lost in silence: errors of middleware, and messages that are not what they should be."""

from __future__ import annotations

from typing import Any

import pytest

from assentry import InvalidInput
from assentry.testing import ScriptedModel, call
from assentry.threads import InMemorySaver, ToolMessage, create_agent, wrap_tool_call
from tests.threads.support import Ran, journal, office, say, texts, thread


class Refusal(Exception):
    """An exception of a middleware's own."""


async def test_an_exception_that_wrap_tool_call_raises_ends_the_run() -> None:
    @wrap_tool_call
    def limit(request: Any, handler: Any) -> Any:
        raise Refusal("too many calls")

    agent, ran = office(call("read_data"), "It did not work.", middleware=[limit])
    with pytest.raises(Refusal, match="too many calls"):
        await agent.ainvoke(say("hi"), thread())
    assert ran == []
    assert "Finished" in await journal(agent)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_resume_after_such_an_exception_does_not_run_the_body_again(is_async: bool) -> None:
    def after(request: Any, handler: Any) -> Any:
        handler(request)
        raise Refusal("cannot store the result")

    async def after_async(request: Any, handler: Any) -> Any:
        await handler(request)
        raise Refusal("cannot store the result")

    hook = wrap_tool_call(after_async if is_async else after)
    agent, ran = office(call("read_data"), "It is lost.", middleware=[hook])
    with pytest.raises(Refusal):
        await agent.ainvoke(say("hi"), thread())
    result = await agent.ainvoke(None, thread())
    assert ran == [("read_data", "records")]
    assert "ran, and its result is lost" in texts(result)[2][1]
    assert texts(result)[3] == ("ai", "It is lost.")


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_exception_of_a_body_that_passes_through_the_hook_goes_to_the_model(is_async: bool) -> None:
    def fails() -> str:
        """Fail."""
        raise ValueError("no such row")

    def through(request: Any, handler: Any) -> Any:
        return handler(request)

    async def through_async(request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except ValueError:
            raise

    hook = wrap_tool_call(through_async if is_async else through)
    agent = create_agent(
        ScriptedModel([call("fails"), "I see."]), [fails], middleware=[hook], checkpointer=InMemorySaver()
    )
    result = await agent.ainvoke(say("hi"), thread())
    assert "no such row" in texts(result)[2][1]
    assert texts(result)[3] == ("ai", "I see.")


async def test_an_exception_that_a_hook_makes_of_a_bodys_ends_the_run_and_the_model_hears_of_the_body() -> None:
    def fails() -> str:
        """Fail."""
        raise ValueError("no such row")

    @wrap_tool_call
    def reworded(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ValueError as error:
            raise Refusal("the tool failed") from error

    agent = create_agent(
        ScriptedModel([call("fails"), "I see."]), [fails], middleware=[reworded], checkpointer=InMemorySaver()
    )
    with pytest.raises(Refusal):
        await agent.ainvoke(say("hi"), thread())
    assert "no such row" in texts(await agent.ainvoke(None, thread()))[2][1]


async def test_an_outer_hook_may_catch_what_an_inner_one_raises() -> None:
    @wrap_tool_call
    def outer(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Refusal as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")

    @wrap_tool_call
    def inner(request: Any, handler: Any) -> Any:
        raise Refusal("not now")

    agent, ran = office(call("read_data"), "Later, then.", middleware=[outer, inner])
    result = await agent.ainvoke(say("hi"), thread())
    assert texts(result)[2:] == [("tool", "not now"), ("ai", "Later, then.")]
    assert ran == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"role": "user", "text": "hi"}, "has no 'text'"),
        ({"role": "user"}, 'needs its "content"'),
        ({"role": "user", "content": None}, 'needs its "content"'),
        (
            {"role": "user", "content": "hi", "tool_calls": [{"name": "a", "args": {}, "id": "1"}]},
            "has no 'tool_calls'",
        ),
        ({"type": "human", "content": "hi", "cache": True}, "has no 'cache'"),
    ],
)
async def test_a_message_that_would_lose_something_is_an_error_and_nothing_is_recorded(given: Any, words: str) -> None:
    agent, ran = office("Hello.")
    with pytest.raises(InvalidInput, match=words):
        await agent.ainvoke({"messages": [given]}, thread())
    assert (await agent.aget_state(thread())).values == {}
    assert ran == Ran()


async def test_empty_fields_that_a_message_does_not_have_are_no_loss() -> None:
    agent, _ = office("Hello.")
    given = {"type": "human", "content": "hi", "more": {}, "example": False, "id": None}
    assert texts(await agent.ainvoke({"messages": [given]}, thread())) == [("human", "hi"), ("ai", "Hello.")]
