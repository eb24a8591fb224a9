"""Streams: tokens as they are made, what each node did, the state, and what tools write."""

import asyncio
import contextlib
import functools
import operator
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from assentry import ModelResponse, UsageError
from assentry.testing import call
from assentry.threads import (
    AIMessage,
    AIMessageChunk,
    InMemorySaver,
    ToolMessage,
    before_model,
    create_agent,
    get_stream_writer,
    wrap_model_call,
)
from assentry.threads.stream import ThreadStream
from tests.threads.support import Paired, Ran, decide, office, only, requests, say, texts, thread

GATE = "HumanInTheLoopMiddleware.after_model"


class Slow:
    """A model whose second token is made when the first was seen."""

    name = "slow"

    def __init__(self) -> None:
        self.was_seen = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.again = asyncio.Event()
        self.closed = False

    def see(self) -> None:
        """The first token was seen; said from any thread."""
        first, self.was_seen = not self.was_seen, True
        if first and self.loop is not None:  # which may have ended since
            self.loop.call_soon_threadsafe(self.again.set)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        self.loop, self.again = asyncio.get_running_loop(), asyncio.Event()
        try:
            yield {"type": "response.output_text.delta", "item_id": "m", "delta": "one "}
            if not self.was_seen:
                await asyncio.wait_for(self.again.wait(), 60)
            yield {"type": "response.output_text.delta", "item_id": "m", "delta": "two"}
            content = [{"type": "output_text", "text": "one two"}]
            yield ModelResponse([{"type": "message", "role": "assistant", "content": content}])
        finally:
            self.closed = True


async def test_tokens_arrive_as_they_are_made() -> None:
    model = Slow()
    agent = create_agent(model, checkpointer=InMemorySaver())
    tokens: list[str] = []
    async for chunk, meta in agent.astream(say("hi"), thread(), stream_mode="messages"):
        tokens.append(chunk.content)
        assert (meta["langgraph_node"], meta["thread_id"]) == ("model", "t")
        model.see()
    assert tokens == ["one ", "two"]


async def test_tokens_keep_the_id_of_their_message_when_something_is_said_meanwhile(monkeypatch: Any) -> None:
    streams: list[ThreadStream] = []

    class Seen(ThreadStream):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            streams.append(self)

    monkeypatch.setattr("assentry.threads.agent.ThreadStream", Seen)
    model, saver = Slow(), InMemorySaver()
    agent = create_agent(model, checkpointer=saver)
    ids: list[str | None] = []
    async for chunk, _ in agent.astream(say("hi"), thread(), stream_mode="messages"):
        ids.append(chunk.id)
        if not model.was_seen:
            await saver.store.say("t:1", "more")
            writer = streams[0]._driver.writer
            assert writer is not None
            await writer.look()
            assert len(streams[0]._scope.journal.run.unheard) == 2
            model.see()
    replies = [each.id for each in agent.get_state(thread()).values["messages"] if each.type == "ai"]
    assert ids[0] == ids[1] == replies[0] and ids[2] == replies[1]


async def test_a_blocking_stream_works_inside_a_running_loop() -> None:
    model = Slow()
    agent = create_agent(model, checkpointer=InMemorySaver())
    tokens: list[str] = []
    for chunk, _ in agent.stream(say("hi"), thread(), stream_mode="messages"):
        tokens.append(chunk.content)
        model.see()
    assert tokens == ["one ", "two"]
    assert texts(agent.invoke(None, thread())) == [("human", "hi"), ("ai", "one two")], "and so does invoke"
    assert agent.get_state(thread()).next == ()


def test_whoever_stops_reading_stops_the_run_and_leaves_nothing_behind() -> None:
    model = Slow()
    agent = create_agent(model, checkpointer=InMemorySaver())
    before = threading.active_count()
    stream = agent.stream(say("hi"), thread(), stream_mode="messages")
    assert next(stream)[0].content == "one "
    stream.close()  # type: ignore[attr-defined]
    model.loop = None
    assert model.closed
    assert not any(each.name == "assentry-stream" for each in threading.enumerate())
    assert threading.active_count() <= before + 1
    model.see()
    result = agent.invoke(None, thread())
    assert texts(result) == [("human", "hi"), ("ai", "one two")]


async def test_an_async_reader_that_leaves_stops_the_run_too() -> None:
    model = Slow()
    agent = create_agent(model, checkpointer=InMemorySaver())
    stream = agent.astream(say("hi"), thread(), stream_mode="messages")
    async for _ in stream:
        break
    await stream.aclose()
    assert model.closed
    model.see()
    assert texts(await agent.ainvoke(say("again"), thread())) == [
        ("human", "hi"),
        ("human", "again"),
        ("ai", "one two"),
    ]


async def test_an_error_of_the_run_is_raised_at_the_end() -> None:
    agent, _ = office(["a b", call("read_data")], RuntimeError("no network"))
    seen: list[Any] = []
    stream = agent.astream(say("hi"), thread())
    with contextlib.suppress(RuntimeError):
        async for chunk in stream:
            seen += list(chunk)
        raise AssertionError("the error was not raised")
    assert seen == ["model", GATE, "tools"]


async def test_updates_say_what_each_node_did() -> None:
    agent, _ = office([call("execute_sql", {"query": "a"}), call("write_file", {"path": "b"})], "ok")
    chunks = [chunk async for chunk in agent.astream(say("go"), thread())]
    assert [list(chunk) for chunk in chunks] == [["model"], ["__interrupt__"]]
    assert type(chunks[1]["__interrupt__"]) is tuple
    chunks = [chunk async for chunk in agent.astream(decide("approve", "reject"), thread(), stream_mode="updates")]
    assert [list(chunk) for chunk in chunks] == [[GATE], [GATE], ["tools"], ["model"], [GATE]]
    [rejected] = chunks[1][GATE]["messages"]
    assert isinstance(rejected, ToolMessage) and rejected.status == "error"
    [output] = chunks[2]["tools"]["messages"]
    assert output.content == "ran a"
    assert chunks[4] == {GATE: None}


async def test_values_are_whole_states() -> None:
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok")
    states = [chunk async for chunk in agent.astream(say("go"), thread(), stream_mode="values")]
    assert [len(state["messages"]) for state in states] == [1, 2, 2]
    assert only(states[-1]).value["action_requests"][0]["name"] == "execute_sql"
    states = [chunk async for chunk in agent.astream(decide("approve"), thread(), stream_mode="values")]
    assert [len(state["messages"]) for state in states] == [2, 2, 3, 4]  # the gate is a node of its own
    assert "__interrupt__" not in states[-1]
    assert states[-1] == await agent.ainvoke(None, thread())


async def test_tools_write_what_they_like() -> None:
    def sync(n: int) -> str:
        """Write from a thread."""
        write = get_stream_writer()
        for each in range(n):
            write({"sync": each})
        return "done"

    async def other() -> str:
        """Write from the loop."""
        get_stream_writer()("other")
        return "done"

    agent = create_agent(
        Paired([call("sync", {"n": 2}), call("other"), "ok"]), [sync, other], checkpointer=InMemorySaver()
    )
    chunks = [chunk async for chunk in agent.astream(say("go"), thread(), stream_mode="custom")]
    assert chunks == [{"sync": 0}, {"sync": 1}, "other"]


async def test_what_is_written_while_nobody_streams_goes_nowhere() -> None:
    def tell() -> str:
        """Tell."""
        get_stream_writer()("hello")
        return "told"

    agent = create_agent(Paired([call("tell"), "ok"]), [tell], checkpointer=InMemorySaver())
    assert texts(await agent.ainvoke(say("go"), thread()))[2] == ("tool", "told")


async def test_a_model_that_makes_no_tokens_is_shown_at_once() -> None:
    class Whole:
        name = "whole"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            content = [{"type": "output_text", "text": "all of it"}]
            yield ModelResponse([{"type": "message", "role": "assistant", "content": content}])

    agent = create_agent(Whole(), checkpointer=InMemorySaver())
    chunks = [chunk async for chunk, _ in agent.astream(say("hi"), thread(), stream_mode="messages")]
    assert [chunk.content for chunk in chunks] == ["all of it"]


class Calling:
    """A model that calls two tools, and shows the calls as they are made."""

    name = "calling"

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        if any(item.get("type") == "function_call_output" for item in request.input):
            yield {"type": "response.output_text.delta", "item_id": "m", "delta": "Done."}
            yield ModelResponse([{"type": "message", "role": "assistant", "content": "Done."}])
            return
        items = [
            {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": "read_data", "arguments": args}
            for n, args in enumerate(['{"table": "a"}', "{}"])
        ]
        yield {"type": "response.something.else"}
        yield {"type": "response.output_item.added", "output_index": 9, "item": {"type": "message"}}
        for n, item in enumerate(items):
            yield {"type": "response.output_item.added", "output_index": n, "item": {**item, "arguments": ""}}
            for part in (item["arguments"][:3], item["arguments"][3:]):
                kind = "response.function_call_arguments.delta"
                yield {"type": kind, "item_id": item["id"], "output_index": n, "delta": part}
        yield ModelResponse(items)


@before_model
def remind(state: Any, runtime: Any) -> Any:
    return {"messages": [{"role": "system", "content": "Be brief."}]}


@pytest.mark.parametrize("middleware", [[], [remind]], ids=["alone", "hooked"])
async def test_parts_of_calls_are_shown_and_can_be_put_together(middleware: Any) -> None:
    agent = create_agent(Calling(), Ran().tools(), middleware=middleware, checkpointer=InMemorySaver())
    chunks = [each async for each, _ in agent.astream(say("hi"), thread(), stream_mode="messages")]
    chunks = [each for each in chunks if isinstance(each, AIMessageChunk)]
    first, second, *_ = [part for each in chunks for part in each.tool_call_chunks]
    whole = {"name": "read_data", "args": "", "id": "call_0", "index": 0, "type": "tool_call_chunk"}
    assert first == whole
    assert second == {**whole, "name": None, "args": '{"t', "id": None}

    messages = (await agent.aget_state(thread())).values["messages"]
    said = [each for each in messages if isinstance(each, AIMessage)]
    for message in said:
        parts = [each for each in chunks if each.id == message.id]
        made = functools.reduce(operator.add, parts)
        assert (made.content, made.tool_calls, made.id) == (message.content, message.tool_calls, message.id)
    assert {each.id for each in chunks} == {each.id for each in said}


def test_chunks_are_put_together_whatever_they_hold() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    made = AIMessageChunk("a", usage_metadata=usage) + AIMessageChunk([{"type": "text", "text": "b"}], id="m")
    assert made.text == "ab" and made.id == "m" and made.usage_metadata == usage
    assert (made + made).usage_metadata == {"input_tokens": 2, "output_tokens": 4, "total_tokens": 6}
    half = AIMessageChunk(tool_call_chunks=[{"name": "f", "args": '{"a"', "id": "c", "index": 0}])
    assert (half + AIMessageChunk("")).tool_calls == []
    alone = AIMessageChunk(tool_call_chunks=[{"name": "f", "args": "{}", "id": "c", "index": None}])
    assert len((alone + alone).tool_calls) == 2
    known = AIMessageChunk(tool_calls=[{"name": "f", "args": {}, "id": "c", "type": "tool_call"}])
    assert (known + AIMessageChunk("x")).tool_calls == known.tool_calls
    with pytest.raises(TypeError):
        made + "text"


@pytest.mark.parametrize("mode", ["update", [], ["updates", "debug"]], ids=str)
def test_a_mode_that_there_is_not_is_refused(mode: Any) -> None:
    agent, _ = office("ok")
    with pytest.raises(UsageError, match="stream_mode"):
        agent.stream(say("hi"), thread(), stream_mode=mode)


@pytest.mark.parametrize(
    ("modes", "streamed"), [("updates", False), (["values", "custom"], False), (["updates", "messages"], True)]
)
async def test_a_model_streams_only_if_somebody_follows_its_tokens(modes: Any, streamed: bool) -> None:
    agent, _ = office("ok")
    assert [chunk async for chunk in agent.astream(say("a"), thread(), stream_mode=modes)]
    assert [request.streamed for request in requests(agent)] == [streamed]


async def test_a_thread_that_is_done_streams_its_state() -> None:
    agent, _ = office("Hello.")
    await agent.ainvoke(say("hi"), thread())
    assert [chunk async for chunk in agent.astream(None, thread())] == []
    [(mode, state)] = [each async for each in agent.astream(None, thread(), stream_mode=["values"])]
    assert mode == "values" and texts(state) == [("human", "hi"), ("ai", "Hello.")]


async def test_a_waiting_thread_streams_its_interrupt_again() -> None:
    agent, _ = office(call("execute_sql", {"query": "a"}), "ok")
    waiting = only(await agent.ainvoke(say("go"), thread()))
    assert [chunk async for chunk in agent.astream(None, thread())] == [{"__interrupt__": (waiting,)}]


async def test_a_reader_that_leaves_stops_a_model_that_sync_middleware_waits_for() -> None:
    @wrap_model_call
    def around(request: Any, handler: Any) -> Any:
        return handler(request)

    model = Slow()
    agent = create_agent(model, middleware=[around], checkpointer=InMemorySaver())
    stream = agent.astream(say("hi"), thread(), stream_mode="messages")
    async for _ in stream:
        break
    await stream.aclose()
    assert model.closed
