"""Streams: the model's deltas, the run's items, questions and decisions as they happen (SPEC C6)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from assent import (
    Agent,
    AgentUpdatedStreamEvent,
    ApprovalDecidedEvent,
    ApprovalRequestedEvent,
    Approve,
    Edit,
    ModelResponse,
    RawResponsesStreamEvent,
    Reject,
    Respond,
    RunItemStreamEvent,
    Runner,
    RunResultBase,
    RunResultStreaming,
    ToolContext,
    function_tool,
)
from assent.errors import InvalidInput, MaxTurnsExceeded, RunUnfinished
from assent.testing import ScriptedModel, call
from tests.unit.support import asked, reloaded, scripted, sending, soon, told


def named(event: Any) -> str:
    """An event in a word."""
    return str(event.name if isinstance(event, RunItemStreamEvent) else event.type)


async def read(result: RunResultStreaming) -> list[Any]:
    """All events to the end."""

    async def drain() -> list[Any]:
        return [event async for event in result.stream_events()]

    return await soon(drain())


def without_deltas(events: list[Any]) -> list[str]:
    return [named(event) for event in events if event.type != "raw_response_event"]


# -- what comes, and in what order -----------------------------------------------------------------


async def test_a_plain_run_streams_words_then_items() -> None:
    agent = scripted("one two three")
    result = Runner.run_streamed(agent, "go")
    assert isinstance(result, RunResultStreaming)
    assert isinstance(result, RunResultBase)
    events = await read(result)
    assert [named(event) for event in events] == [
        "agent_updated_stream_event",
        "raw_response_event",
        "raw_response_event",
        "raw_response_event",
        "message_output_created",
    ]
    assert isinstance(events[0], AgentUpdatedStreamEvent)
    assert events[0].new_agent is agent
    assert isinstance(events[1], RawResponsesStreamEvent)
    assert "".join(event.data["delta"] for event in events[1:4]) == "one two three"
    assert isinstance(events[4], RunItemStreamEvent)
    assert events[4].item.text == "one two three"  # type: ignore[attr-defined]
    assert result.final_output == "one two three"
    assert result.is_complete


async def test_a_run_with_tools_streams_calls_and_outputs() -> None:
    send, _ = sending()
    agent = scripted(["on it", call("send", {"to": "ann"})], "done", tools=[send])
    events = await read(Runner.run_streamed(agent, "go"))
    assert without_deltas(events) == [
        "agent_updated_stream_event",
        "message_output_created",
        "tool_called",
        "tool_output",
        "message_output_created",
    ]
    [output] = [event.item for event in events if named(event) == "tool_output"]
    assert output.output == "sent 1 to ann"
    assert output.agent is agent


async def test_a_paused_run_streams_its_questions_and_ends() -> None:
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] != "free")
    agent = scripted([call("send", {"to": to}) for to in ("ann", "free", "bob")], tools=[send])
    result = Runner.run_streamed(agent, "go")
    events = await read(result)
    assert without_deltas(events) == [
        "agent_updated_stream_event",
        "tool_called",
        "tool_called",
        "tool_called",
        "approval_requested",
        "approval_requested",
        "tool_output",
    ]
    requested = [event.item for event in events if isinstance(event, ApprovalRequestedEvent)]
    assert requested == result.interruptions
    assert requested[0].agent is agent
    assert result.is_complete
    assert result.final_output is None


DECISIONS: list[tuple[Any, str, list[str]]] = [
    (Approve(), "approve", ["approval_decided", "tool_output"]),
    (Edit({"to": "bob"}), "edit", ["approval_decided", "tool_output"]),
    (Reject("no"), "reject", ["approval_decided", "tool_output"]),
    (Respond("done"), "respond", ["approval_decided", "tool_output"]),
]


@pytest.mark.parametrize(("decision", "verdict", "names"), DECISIONS, ids=[each[1] for each in DECISIONS])
async def test_a_resumed_run_streams_what_was_decided_and_goes_on(
    decision: Any, verdict: str, names: list[str]
) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done now", tools=[send])
    first = Runner.run_streamed(agent, "go")
    await read(first)
    [item] = first.interruptions
    state = first.to_state()
    state.decide(item.id, decision, by="ann")
    second = Runner.run_streamed(agent, state)
    events = await read(second)
    assert without_deltas(events) == ["agent_updated_stream_event", *names, "message_output_created"]
    decided = events[1]
    assert isinstance(decided, ApprovalDecidedEvent)
    assert (decided.question_id, decided.decision, decided.by) == (item.id, verdict, "ann")
    assert sum(event.type == "raw_response_event" for event in events) == 2
    assert second.final_output == "done now"


async def test_a_reloaded_run_streams_too() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    state = await reloaded(agent, (await Runner.run(agent, "go")).to_state())
    state.approve(state.get_interruptions()[0])
    events = await read(Runner.run_streamed(agent, state))
    assert without_deltas(events) == [
        "agent_updated_stream_event",
        "approval_decided",
        "tool_output",
        "message_output_created",
    ]


async def test_a_question_that_a_body_asks_is_streamed() -> None:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        return str(await ctx.ask("when?"))

    agent = scripted(call("book"), "done", tools=[book])
    result = Runner.run_streamed(agent, "go")
    events = await read(result)
    assert events[-1].item.question == "when?"
    state = result.to_state()
    state.respond(result.interruptions[0], "May", by="ann")
    events = await read(Runner.run_streamed(agent, state))
    assert without_deltas(events)[1:] == ["approval_decided", "tool_output", "message_output_created"]


async def test_a_decision_made_by_a_body_is_streamed() -> None:
    send, _ = sending(needs_approval=True)
    waiting: list[Any] = []

    @function_tool(needs_approval=True)
    async def allow(ctx: ToolContext[Any]) -> str:
        ctx.approve_tool(waiting[0])
        return "allowed"

    agent = scripted([call("allow"), call("send", {"to": "ann"})], "done", tools=[allow, send])
    result = await Runner.run(agent, "go")
    first, *waiting[:] = result.interruptions
    state = result.to_state()
    state.approve(first)
    events = await read(Runner.run_streamed(agent, state))
    assert [event.question_id for event in events if isinstance(event, ApprovalDecidedEvent)] == [
        first.id,
        waiting[0].id,
    ]


async def test_streamed_and_plain_runs_give_the_same_items() -> None:
    def agent_of() -> Agent[Any]:
        send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
        steps = [["a b", call("send", {"to": "bob"})], call("nothing"), call("send", {"to": "ann"})]
        return scripted(*steps, "the end", tools=[send])

    agent = agent_of()
    plain = await Runner.run(agent, "go")
    state = plain.to_state()
    state.approve(plain.interruptions[0])
    plain = await Runner.run(agent, state)

    agent = agent_of()
    streamed = Runner.run_streamed(agent, "go")
    events = await read(streamed)
    state = streamed.to_state()
    state.approve(streamed.interruptions[0])
    streamed = Runner.run_streamed(agent, state)
    events += await read(streamed)

    shown = [event.item for event in events if isinstance(event, RunItemStreamEvent)]
    for items in (shown, streamed.new_items):
        assert [(item.type, item.raw_item) for item in items] == [
            (item.type, item.raw_item) for item in plain.new_items
        ]
    assert streamed.final_output == plain.final_output
    assert streamed.to_input_list() == plain.to_input_list()
    assert [reply.output for reply in streamed.raw_responses] == [reply.output for reply in plain.raw_responses]
    assert streamed.last_response_id == plain.last_response_id
    assert streamed.context_wrapper.usage == plain.context_wrapper.usage


async def test_events_come_as_they_happen_and_not_at_the_end() -> None:
    may_end = asyncio.Event()

    @function_tool
    async def slow() -> str:
        await may_end.wait()
        return "slow"

    agent = scripted(["on it", call("slow")], "done", tools=[slow])
    result = Runner.run_streamed(agent, "go")
    seen = []
    async for event in result.stream_events():
        seen.append(named(event))
        if seen[-1] == "tool_called":
            assert not result.is_complete
            may_end.set()
    assert seen[-1] == "message_output_created"


async def test_deltas_come_while_the_model_speaks() -> None:
    go_on = asyncio.Event()

    class Slow:
        name = "slow"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            yield {"type": "response.output_text.delta", "delta": "he"}
            await go_on.wait()
            yield {"type": "response.output_text.delta", "delta": "llo"}
            yield ModelResponse([{"type": "message", "role": "assistant", "content": "hello"}])

    result = Runner.run_streamed(Agent("agent", model=Slow()), "go")
    seen = []
    async for event in result.stream_events():
        if isinstance(event, RawResponsesStreamEvent):
            seen.append(event.data["delta"])
            go_on.set()
    assert seen == ["he", "llo"]
    assert result.final_output == "hello"


async def test_a_model_may_be_any_async_iterator() -> None:
    class Once:
        def __init__(self) -> None:
            self.left = [ModelResponse([{"type": "message", "role": "assistant", "content": "hello"}])]

        def __aiter__(self) -> "Once":
            return self

        async def __anext__(self) -> ModelResponse:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    class Plain:
        name = "plain"

        def stream(self, request: Any) -> Once:
            return Once()

    assert (await Runner.run(Agent("agent", model=Plain()), "go")).final_output == "hello"


# -- before the end --------------------------------------------------------------------------------


async def test_the_state_of_a_stream_that_has_not_ended_is_an_error() -> None:
    may_end = asyncio.Event()

    async def think(request: Any) -> str:
        await may_end.wait()
        return "done"

    result = Runner.run_streamed(scripted(think), "go")
    assert not result.is_complete
    with pytest.raises(RunUnfinished):
        result.to_state()
    async for _ in result.stream_events():
        if not may_end.is_set():
            with pytest.raises(RunUnfinished):
                result.to_state()
            assert result.final_output is None
            assert result.interruptions == []
            may_end.set()
    assert result.to_state().status == "done"


async def test_what_is_looked_at_during_a_stream_is_not_frozen() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(["text", call("send", {"to": "ann"})], tools=[send])
    result = Runner.run_streamed(agent, "go")
    async for _ in result.stream_events():
        len(result.new_items), len(result.raw_responses), len(result.interruptions), result.final_output
        assert result.current_agent is agent
    assert [item.type for item in result.new_items] == ["message_output_item", "tool_call_item", "tool_approval_item"]
    assert len(result.interruptions) == 1
    assert len(result.raw_responses) == 1


async def test_a_stream_can_be_read_after_the_run_and_its_end_read_twice() -> None:
    result = Runner.run_streamed(scripted("hi"), "go")
    events = await read(result)
    assert events
    assert await read(result) == []


async def test_a_reader_that_leaves_early_stops_the_run_which_can_go_on() -> None:
    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = Runner.run_streamed(agent, "go")
    reading = result.stream_events()
    async for _ in reading:
        break
    await reading.aclose()
    assert result.is_complete
    assert len(asyncio.all_tasks()) == 1
    state = result.to_state()
    assert (state.status, sent) == ("cancelled", [])
    assert (await Runner.run(agent, state)).final_output == "done"
    assert sent == [("ann", 1)]


async def test_bad_input_is_refused_at_once() -> None:
    with pytest.raises(InvalidInput):
        Runner.run_streamed(scripted("hi"), 5)  # type: ignore[arg-type]


# -- errors ----------------------------------------------------------------------------------------


async def test_an_error_is_raised_at_the_end_of_the_stream_with_the_state() -> None:
    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), ConnectionError("gone"), "done", tools=[send])
    result = Runner.run_streamed(agent, "go")
    seen: list[str] = []

    async def reader() -> None:
        async for event in result.stream_events():
            seen.append(named(event))  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ConnectionError) as caught:
        await reader()
    assert seen == ["agent_updated_stream_event", "tool_called", "tool_output"], "what happened before is shown"
    assert result.is_complete
    for state in (caught.value.state, result.to_state()):  # type: ignore[attr-defined]
        agent.model = ScriptedModel(["done"])
        again = Runner.run_streamed(agent, await reloaded(agent, state))
        await read(again)
        assert again.final_output == "done"
    assert sent == [("ann", 1)]


async def test_an_error_that_nobody_reads_makes_no_noise_but_is_raised_to_whoever_does() -> None:
    result = Runner.run_streamed(scripted(ConnectionError("gone")), "go")
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await read(result)


async def test_running_out_of_turns_is_raised_at_the_end_of_the_stream() -> None:
    send, _ = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = Runner.run_streamed(agent, "go", max_turns=1)
    with pytest.raises(MaxTurnsExceeded) as caught:
        await read(result)
    again = Runner.run_streamed(agent, caught.value.state, max_turns=2)
    await read(again)
    assert again.final_output == "done"


# -- stopping --------------------------------------------------------------------------------------


async def test_a_stream_cancelled_while_the_model_speaks_can_be_resumed() -> None:
    speaking = asyncio.Event()

    async def think(request: Any) -> str:
        speaking.set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted(think, "done")
    result = Runner.run_streamed(agent, "go")
    await speaking.wait()
    result.cancel()
    await read(result)
    assert result.is_complete
    assert result.final_output is None
    again = Runner.run_streamed(agent, await reloaded(agent, result.to_state()))
    await read(again)
    assert again.final_output == "done"


async def test_a_stream_cancelled_while_a_body_runs_leaves_the_call_in_doubt() -> None:
    inside = asyncio.Event()
    ran: list[int] = []

    @function_tool
    async def pay() -> str:
        ran.append(1)
        inside.set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted(call("pay"), "done", tools=[pay])
    result = Runner.run_streamed(agent, "go")
    await inside.wait()
    result.cancel()
    await read(result)
    again = await Runner.run(agent, await reloaded(agent, result.to_state()))
    assert [item.kind for item in again.interruptions] == ["doubt"]
    assert ran == [1]


async def test_a_stream_cancelled_before_it_began_ends_and_can_be_resumed() -> None:
    agent = scripted("done")
    result = Runner.run_streamed(agent, "go")
    result.cancel()
    await read(result)
    assert asked(agent) == 0
    again = Runner.run_streamed(agent, await reloaded(agent, result.to_state()))
    await read(again)
    assert again.final_output == "done"


async def test_a_stream_can_be_cancelled_by_its_reader_and_more_than_once() -> None:
    thinking = asyncio.Event()

    async def think(request: Any) -> Any:
        thinking.set()
        await asyncio.Event().wait()

    send, sent = sending()
    sends = [call("send", {"to": f"p{n}"}) for n in range(5)]
    agent = scripted(*sends[:3], think, *sends[3:], "done", tools=[send])
    result = Runner.run_streamed(agent, "go")

    async def reader() -> None:
        async for event in result.stream_events():
            if named(event) == "tool_output":
                await thinking.wait()
                result.cancel()
                result.cancel()

    await soon(reader())
    assert result.final_output is None
    again = await Runner.run(agent, await reloaded(agent, result.to_state()))
    assert again.final_output == "done"
    assert sent == [(f"p{n}", 1) for n in range(5)]
    assert len(told(again)) == 5


async def test_cancelling_a_stream_that_has_ended_changes_nothing() -> None:
    result = Runner.run_streamed(scripted("hi"), "go")
    await read(result)
    result.cancel()
    assert await read(result) == []
    assert result.final_output == "hi"
    assert result.to_state().status == "done"


async def test_a_cancelled_resume_can_be_resumed_again() -> None:
    inside = asyncio.Event()

    async def think(request: Any) -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), think, "done", tools=[send])
    paused = await Runner.run(agent, "go")
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    result = Runner.run_streamed(agent, state)
    await inside.wait()
    result.cancel()
    await read(result)
    final = await Runner.run(agent, result.to_state())
    assert final.final_output == "done"
    assert sent == [("ann", 1)]
