"""Handlers that a hook kept: one whose call is over says so at once, from any thread, and nothing hangs or runs."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from assentry import Conflict, UsageError
from assentry.testing import call
from assentry.threads import AIMessage, ToolMessage, wrap_model_call, wrap_tool_call
from tests.runtime.support import HANGS
from tests.threads.support import office, say, thread

Kept = list[tuple[Any, Any]]


def keeping(where: str, kept: Kept, *, is_async: bool) -> Any:
    """A middleware that keeps its handler and answers itself."""

    def answer(request: Any, handler: Any) -> Any:
        kept.append((request, handler))
        tool = where == "wrap_tool_call"
        return ToolMessage("Later.", tool_call_id=request.tool_call["id"]) if tool else AIMessage("Later.")

    async def later(request: Any, handler: Any) -> Any:
        return answer(request, handler)

    decorate = wrap_tool_call if where == "wrap_tool_call" else wrap_model_call
    return decorate(later if is_async else answer)


def raised_by(act: Callable[[], Any]) -> BaseException | None:
    """What this raises on a thread of its own; a failed test if it hangs."""
    caught: list[BaseException | None] = []

    def run() -> None:
        try:
            act()
            caught.append(None)
        except BaseException as error:
            caught.append(error)

    started = threading.Thread(target=run, daemon=True)
    started.start()
    started.join(HANGS)
    assert not started.is_alive(), "it hangs"
    return caught[0]


both = pytest.mark.parametrize("where", ["wrap_tool_call", "wrap_model_call"])


@both
def test_a_blocking_handler_is_over_when_a_blocking_run_has_ended(where: str) -> None:
    kept: Kept = []
    agent, ran = office(call("read_data"), "ok", middleware=[keeping(where, kept, is_async=False)])
    agent.invoke(say("go"), thread())
    request, handler = kept[0]
    assert isinstance(raised_by(lambda: handler(request)), Conflict)
    with pytest.raises(Conflict, match="is over"):
        handler(request)
    assert ran == []


@both
async def test_a_blocking_handler_is_over_on_the_loop_and_beside_it(where: str) -> None:
    kept: Kept = []
    agent, ran = office(call("read_data"), "ok", middleware=[keeping(where, kept, is_async=False)])
    await agent.ainvoke(say("go"), thread())
    request, handler = kept[0]
    with pytest.raises(Conflict, match="is over"):
        handler(request)
    with pytest.raises(Conflict, match="is over"):
        await asyncio.to_thread(handler, request)
    assert ran == []


@both
@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_is_over_when_its_loop_is_closed(where: str, is_async: bool) -> None:
    kept: Kept = []
    agent, ran = office(call("read_data"), "ok", middleware=[keeping(where, kept, is_async=is_async)])
    asyncio.run(agent.ainvoke(say("go"), thread()))
    request, handler = kept[0]

    async def awaited() -> Any:
        return await handler(request)

    error = raised_by(lambda: asyncio.run(awaited()) if is_async else handler(request))
    assert isinstance(error, Conflict) and "is over" in str(error)
    assert ran == []


@both
async def test_a_handler_that_would_wait_for_itself_says_so(where: str) -> None:
    """A blocking handler that its hook gives to the event loop, which the handler needs."""
    loop, caught = asyncio.get_running_loop(), []

    def hook(request: Any, handler: Any) -> Any:
        async def on_the_loop() -> Any:
            return handler(request)

        caught.append(asyncio.run_coroutine_threadsafe(on_the_loop(), loop).exception(HANGS))
        return handler(request)

    middleware = wrap_tool_call(hook) if where == "wrap_tool_call" else wrap_model_call(hook)
    agent, ran = office(call("read_data"), "ok", middleware=[middleware])
    await agent.ainvoke(say("go"), thread())
    assert caught and all(type(error) is UsageError for error in caught)
    assert ran == [("read_data", "records")]


@both
async def test_an_async_handler_is_awaited_on_its_own_loop_only(where: str) -> None:
    caught: list[BaseException | None] = []

    async def hook(request: Any, handler: Any) -> Any:
        async def elsewhere() -> Any:
            return await handler(request)

        caught.append(await asyncio.to_thread(raised_by, lambda: asyncio.run(elsewhere())))
        return await handler(request)

    middleware = wrap_tool_call(hook) if where == "wrap_tool_call" else wrap_model_call(hook)
    agent, ran = office(call("read_data"), "ok", middleware=[middleware])
    await agent.ainvoke(say("go"), thread())
    assert caught and all(type(error) is UsageError for error in caught)
    assert ran == [("read_data", "records")]
