"""Streams: the model's deltas, the run's items, questions and decisions as they happen."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from assentry import (
    Agent,
    AgentUpdatedStreamEvent,
    ApprovalDecidedEvent,
    ApprovalRequestedEvent,
    Approve,
    CompactionItem,
    Edit,
    ModelResponse,
    OtherItem,
    RawResponsesStreamEvent,
    Reject,
    Respond,
    RunConfig,
    RunItemStreamEvent,
    Runner,
    RunResultBase,
    RunResultStreaming,
    RunState,
    ToolCallItem,
    ToolContext,
    function_tool,
    handoff,
)
from assentry.errors import InvalidInput, MaxTurnsExceeded, RunUnfinished, StateSpent, UsageError
from assentry.testing import ScriptedModel, call
from tests.runtime.support import asked, reloaded, scripted, sending, soon, told


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


# -- every kind of item ----------------------------------------------------------------------------


async def test_every_kind_of_item_has_its_name() -> None:
    reply = [
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": []},
        {"type": "mcp_approval_request", "id": "q", "server_label": "s", "name": "n", "arguments": "{}"},
        {"type": "mcp_approval_response", "approval_request_id": "q", "approve": True},
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "compaction", "id": "c", "encrypted_content": "..."},
        {"type": "something_new", "id": "s"},
        "and so",
    ]
    events = await read(Runner.run_streamed(scripted(reply), "go"))
    assert without_deltas(events) == [
        "agent_updated_stream_event",
        "reasoning_item_created",
        "mcp_list_tools",
        "mcp_approval_requested",
        "mcp_approval_response",
        "tool_called",
        "other_item_created",
        "other_item_created",
        "message_output_created",
    ]
    items = [event.item for event in events if isinstance(event, RunItemStreamEvent)]
    assert [item.raw_item for item in items[:7]] == reply[:7]
    assert [type(item) for item in items[5:7]] == [CompactionItem, OtherItem]


@pytest.mark.parametrize(
    "kind",
    [
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "web_search_call",
    ],
)
async def test_a_call_that_the_provider_ran_itself_is_a_tool_call(kind: str) -> None:
    result = Runner.run_streamed(scripted([{"type": kind, "id": "h1", "status": "completed"}, "and so"]), "go")
    names = without_deltas(await read(result))
    assert names == ["agent_updated_stream_event", "tool_called", "message_output_created"]
    item = result.new_items[0]
    assert isinstance(item, ToolCallItem)
    assert (item.tool_name, item.call_id) == (kind.removesuffix("_call"), "h1")


async def test_a_handoff_is_requested_and_occurs_and_the_agent_changes() -> None:
    other = scripted("from the other", name="other")
    send, _ = sending()
    agent = scripted(
        [call("transfer_to_other"), call("send", {"to": "ann"})], tools=[send], handoffs=[other], name="first"
    )
    result = Runner.run_streamed(agent, "go")
    seen: list[tuple[str, str]] = []
    async for event in result.stream_events():
        if event.type != "raw_response_event":
            seen.append((named(event), result.current_agent.name))
        if isinstance(event, AgentUpdatedStreamEvent) and len(seen) > 1:
            assert event.new_agent is other
    assert [name for name, _ in seen] == [
        "agent_updated_stream_event",
        "handoff_requested",
        "tool_called",
        "tool_output",
        "handoff_occured",
        "agent_updated_stream_event",
        "message_output_created",
    ]
    assert (seen[0][1], seen[-1][1]) == ("first", "other")
    assert result.current_agent is result.last_agent is other


async def test_a_handoff_that_is_not_taken_has_an_output_and_no_more() -> None:
    one, two = scripted("from one", name="one"), scripted("from two", name="two")
    agent = scripted([call("transfer_to_one"), call("transfer_to_two")], handoffs=[one, two], name="first")
    events = await read(Runner.run_streamed(agent, "go"))
    assert without_deltas(events) == [
        "agent_updated_stream_event",
        "handoff_requested",
        "handoff_requested",
        "handoff_occured",
        "agent_updated_stream_event",
        "tool_output",
        "message_output_created",
    ]
    assert [event.new_agent.name for event in events if isinstance(event, AgentUpdatedStreamEvent)] == ["first", "one"]


async def test_a_handoff_that_needs_approval_is_streamed_over_the_pause() -> None:
    other = scripted("from the other", name="other")
    agent = scripted(call("transfer_to_other"), handoffs=[handoff(other, needs_approval=True)])
    result = Runner.run_streamed(agent, "go")
    assert without_deltas(await read(result))[1:] == ["handoff_requested", "approval_requested"]
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = Runner.run_streamed(agent, state)
    assert result.current_agent is agent
    events = await read(result)
    assert without_deltas(events) == [
        "agent_updated_stream_event",
        "approval_decided",
        "handoff_occured",
        "agent_updated_stream_event",
        "message_output_created",
    ]
    assert events[0].new_agent is agent
    assert result.current_agent is other


async def test_a_run_that_was_handed_over_begins_its_next_stream_with_the_agent_that_has_the_word() -> None:
    send, _ = sending(needs_approval=True)
    other = scripted(call("send", {"to": "ann"}), "done", name="other", tools=[send])
    agent = scripted(call("transfer_to_other"), handoffs=[other])
    state = await reloaded(agent, (await Runner.run(agent, "go")).to_state())
    state.approve(state.get_interruptions()[0])
    result = Runner.run_streamed(agent, state)
    assert result.current_agent is other
    events = await read(result)
    assert events[0].new_agent is other
    assert sum(isinstance(event, AgentUpdatedStreamEvent) for event in events) == 1


async def test_a_final_output_that_needs_approval_is_streamed_once() -> None:
    agent = scripted("draft", "better", output_needs_approval=True)
    result = Runner.run_streamed(agent, "go")
    assert without_deltas(await read(result))[1:] == ["message_output_created", "approval_requested"]
    state = await reloaded(agent, result.to_state())
    state.reject(state.get_interruptions()[0], rejection_message="too short")
    result = Runner.run_streamed(agent, state)
    assert without_deltas(await read(result))[1:] == [
        "approval_decided",
        "message_output_created",
        "approval_requested",
    ]
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = Runner.run_streamed(agent, state)
    assert without_deltas(await read(result))[1:] == ["approval_decided"]
    assert result.final_output == "better"


async def test_refused_calls_have_an_output_in_the_stream() -> None:
    send, _ = sending()
    agent = scripted([call("nothing"), call("send", "{")], "done", tools=[send])
    events = await read(Runner.run_streamed(agent, "go"))
    assert without_deltas(events)[1:] == [
        *["tool_called"] * 2,
        *["tool_output"] * 2,
        "message_output_created",
    ]


async def test_a_doubt_is_asked_in_the_stream_and_its_answer_too() -> None:
    inside = asyncio.Event()

    @function_tool
    async def pay() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted(call("pay"), "done", tools=[pay])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=0))
    await inside.wait()
    result.cancel()
    await read(result)
    result = Runner.run_streamed(agent, await reloaded(agent, result.to_state()))
    events = await read(result)
    assert without_deltas(events) == ["agent_updated_stream_event", "approval_requested"]
    assert events[1].item.kind == "doubt"
    state = result.to_state()
    state.respond(result.interruptions[0], "paid", by="ann")
    events = await read(Runner.run_streamed(agent, state))
    assert without_deltas(events)[1:] == ["approval_decided", "tool_output", "message_output_created"]


# -- nested agents ---------------------------------------------------------------------------------


def nested(**options: Any) -> tuple[Agent[Any], Agent[Any], list[tuple[str, int]]]:
    """An agent in an agent in an agent; the innermost sends with approval."""
    send, sent = sending(needs_approval=True)
    inner = scripted(["on it", call("send", {"to": "ann"})], "inner done", name="inner", tools=[send])
    middle = scripted(
        call("inner", {"input": "b"}), "middle done", name="middle", tools=[inner.as_tool("inner", "x", **options)]
    )
    outer = scripted(call("middle", {"input": "a"}), "outer done", name="outer", tools=[middle.as_tool("middle", "x")])
    return outer, inner, sent


async def test_of_nested_agents_only_their_questions_are_in_the_stream() -> None:
    outer, inner, sent = nested()
    result = Runner.run_streamed(outer, "go")
    events = await read(result)
    assert [named(event) for event in events] == ["agent_updated_stream_event", "tool_called", "approval_requested"]
    [item] = result.interruptions
    assert events[-1].item == item
    assert (item.agent, len(item.path)) == (inner, 2)
    assert result.current_agent is outer

    state = await reloaded(outer, result.to_state())
    state.approve(state.get_interruptions()[0], by="ann")
    result = Runner.run_streamed(outer, state)
    events = await read(result)
    assert without_deltas(events) == [
        "agent_updated_stream_event",
        "approval_decided",
        "tool_output",
        "message_output_created",
    ]
    assert (events[1].question_id, events[1].by) == (item.id, "ann")
    assert events[0].new_agent is outer
    assert "".join(event.data["delta"] for event in events if event.type == "raw_response_event") == "outer done"
    assert sent == [("ann", 1)]


async def test_whoever_listens_to_a_branch_hears_it_and_cannot_break_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[str] = []

    async def listen(payload: Any) -> None:
        heard.append(named(payload["event"]))
        raise ValueError("deaf")

    outer, _, sent = nested(on_stream=listen)
    result = Runner.run_streamed(outer, "go")
    await read(result)
    state = await reloaded(outer, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = Runner.run_streamed(outer, state)
    await read(result)
    assert result.final_output == "outer done"
    assert sent == [("ann", 1)]
    assert "deaf" in caplog.text
    names = [name for name in heard if name not in ("raw_response_event", "agent_updated_stream_event")]
    assert names == [
        "message_output_created",
        "tool_called",
        "approval_requested",
        "approval_decided",
        "tool_output",
        "message_output_created",
    ]


# -- what was decided is told once -----------------------------------------------------------------


async def test_several_decisions_come_in_the_order_they_were_made() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": to}) for to in ("ann", "bob", "cid")], "done", tools=[send])
    state = (await Runner.run(agent, "go")).to_state()
    one, two, three = state.get_interruptions()
    state.reject(three)
    state = await reloaded(agent, state)
    state.approve(one, always_approve=True)
    state.add_input("and hurry")
    events = await read(Runner.run_streamed(agent, await reloaded(agent, state)))
    decided = [(event.question_id, event.decision) for event in events if isinstance(event, ApprovalDecidedEvent)]
    assert decided == [(three.id, "reject"), (one.id, "approve")]
    assert two.id not in [id for id, _ in decided]


async def test_what_code_decides_at_once_was_never_asked() -> None:
    send, _ = sending(needs_approval=True, on_approval=lambda ctx, item: {"approve": True, "reason": "fine"})
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    events = await read(Runner.run_streamed(agent, "go"))
    assert without_deltas(events)[1:] == ["tool_called", "tool_output", "message_output_created"]


async def test_a_question_that_a_change_replaced_is_asked_anew_in_the_stream() -> None:
    def agent_of(version: str, *steps: Any) -> Agent[Any]:
        send, _ = sending(needs_approval=True, version=version)
        return scripted(*steps, tools=[send])

    old = agent_of("1", call("send", {"to": "ann"}))
    text = (await Runner.run(old, "go")).to_state().to_string()
    new = agent_of("2", "done")
    with pytest.warns(UserWarning, match="changed"):
        state = await RunState.from_string(new, text, on_change="ask")
    [item] = state.get_interruptions()
    result = Runner.run_streamed(new, state)
    events = await read(result)
    assert [event.item.id for event in events if isinstance(event, ApprovalRequestedEvent)] == [item.id]


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


async def test_what_is_looked_at_in_the_middle_is_as_it_is_then() -> None:
    send, _ = sending()
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = Runner.run_streamed(agent, "go")
    async for _ in result.stream_events():
        turns = result._scope.journal.run.turns
        assert len(result.raw_responses) == turns
        assert sum(item.type == "tool_call_item" for item in result.new_items) == min(turns, 2)
        assert (result.final_output is None) or result.final_output == "done"
    assert len(result.new_items) == 5


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


async def test_an_error_before_anything_began_is_raised_at_the_end_of_the_stream_without_a_state() -> None:
    class Gone:
        session_id = "gone"

        async def get_items(self, limit: int | None = None) -> list[Any]:
            raise OSError("no disk")

        async def add_items(self, items: list[Any]) -> None: ...
        async def pop_item(self) -> Any: ...
        async def clear_session(self) -> None: ...

    agent = scripted("never")
    result = Runner.run_streamed(agent, "go", session=Gone())
    assert result.current_agent is agent
    with pytest.raises(OSError, match="no disk") as caught:
        await read(result)
    assert caught.value.state is None  # type: ignore[attr-defined]
    assert result.is_complete
    with pytest.raises(UsageError, match="begun"):
        result.to_state()


async def test_a_body_that_raises_to_the_user_ends_the_stream_with_its_output_and_the_error() -> None:
    @function_tool(failure_error_function=None)
    async def burn() -> str:
        raise OSError("fire")

    send, _ = sending()
    agent = scripted([call("burn"), call("send", {"to": "ann"})], "done", tools=[burn, send])
    result = Runner.run_streamed(agent, "go")
    seen: list[str] = []

    async def reader() -> None:
        async for event in result.stream_events():
            seen.append(named(event))  # noqa: PERF401 - what came before the error counts

    with pytest.raises(OSError, match="fire") as caught:
        await reader()
    assert seen[1:3] == ["tool_called"] * 2
    assert seen[3:] == ["tool_output"] * 2, "the other body comes to its end"
    again = Runner.run_streamed(agent, await reloaded(agent, caught.value.state))  # type: ignore[attr-defined]
    assert without_deltas(await read(again)) == ["agent_updated_stream_event", "message_output_created"]


async def test_a_stream_that_raises_leaves_one_state_and_not_two() -> None:
    @function_tool(failure_error_function=None)
    async def burn() -> str:
        raise OSError("fire")

    send, sent = sending(needs_approval=True)
    agent = scripted([call("burn"), call("send", {"to": "ann"})], "done", tools=[burn, send])
    result = Runner.run_streamed(agent, "go")
    with pytest.raises(OSError, match="fire") as caught:
        await read(result)
    state = caught.value.state  # type: ignore[attr-defined]
    assert result.to_state() is state
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    with pytest.raises(StateSpent):
        await Runner.run(agent, result.to_state())
    assert sent == [("ann", 1)]


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
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=0))
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


async def test_the_agents_of_a_stream_that_has_not_ended_are_not_half_released() -> None:
    result = Runner.run_streamed(scripted("one two three"), "go")
    with pytest.raises(RunUnfinished):
        result.release_agents()
    async for _ in result.stream_events():
        pass
    assert result.last_agent.name == "agent"
    result.release_agents()
    assert result.final_output == "one two three"
