"""Conversations that the provider keeps: what each request carries, over pauses and resumes."""

from typing import Any

import pytest

from assentry import Agent, ModelRequest, ModelResponse, RunConfig, Runner, SQLiteSession, function_tool, handoff
from assentry.errors import UsageError
from assentry.testing import ScriptedModel, call
from tests.runtime.support import reloaded, scripted, sending

KINDS: list[dict[str, Any]] = [
    {"conversation_id": "conv_1"},
    {"previous_response_id": "resp_before"},
    {"auto_previous_response_id": True},
    {"previous_response_id": "resp_before", "auto_previous_response_id": True},
]


def replies(*steps: Any, ids: bool = True) -> list[Any]:
    """Steps as whole responses with the ids r0, r1, ..., or none."""
    model = ScriptedModel([])
    out: list[Any] = []
    for number, step in enumerate(steps):
        response = model._response(step, number)
        out.append(ModelResponse(response.output, response.usage, f"r{number}" if ids else None))
    return out


def requests(agent: Agent[Any]) -> list[ModelRequest]:
    model: Any = agent.model
    return list(model.requests)


def short(request: ModelRequest) -> list[str]:
    """What a request carries, in words."""
    kinds = {"function_call": "call", "function_call_output": "out"}
    out = []
    for item in request.input:
        kind = item.get("type", "message")
        if kind in kinds:
            out.append(f"{kinds[kind]} {item['call_id']}")
        else:
            content = item["content"]
            out.append(content if isinstance(content, str) else content[0]["text"])
    return out


def carried(agent: Agent[Any]) -> list[tuple[str | None, list[str]]]:
    """The chain and the input of each request."""
    return [(request.previous_response_id, short(request)) for request in requests(agent)]


def three(**options: Any) -> tuple[Agent[Any], list[Any]]:
    """An agent that calls a tool twice, one call at a time, and is done."""
    send, sent = sending(**options)
    steps = [call("send", {"to": to}, call_id=to) for to in ("ann", "bob")]
    return scripted(*replies(*steps, "done"), tools=[send]), sent


# -- what a request carries ------------------------------------------------------------------------


async def test_without_any_id_each_request_has_everything() -> None:
    agent, _ = three()
    await Runner.run(agent, "go")
    assert carried(agent) == [
        (None, ["go"]),
        (None, ["go", "call ann", "out ann"]),
        (None, ["go", "call ann", "out ann", "call bob", "out bob"]),
    ]
    assert {request.conversation_id for request in requests(agent)} == {None}


async def test_in_a_conversation_each_request_has_only_what_is_new() -> None:
    agent, _ = three()
    await Runner.run(agent, "go", conversation_id="conv_1")
    assert carried(agent) == [(None, ["go"]), (None, ["out ann"]), (None, ["out bob"])]
    assert {request.conversation_id for request in requests(agent)} == {"conv_1"}


async def test_a_chain_begins_with_the_id_that_was_given_and_goes_on_with_each_reply() -> None:
    agent, _ = three()
    await Runner.run(agent, "go", previous_response_id="resp_before")
    assert carried(agent) == [("resp_before", ["go"]), ("r0", ["out ann"]), ("r1", ["out bob"])]
    assert {request.conversation_id for request in requests(agent)} == {None}


async def test_a_chain_that_begins_by_itself_has_no_id_in_the_first_request() -> None:
    agent, _ = three()
    await Runner.run(agent, "go", auto_previous_response_id=True)
    assert carried(agent) == [(None, ["go"]), ("r0", ["out ann"]), ("r1", ["out bob"])]


async def test_a_given_id_goes_before_a_chain_that_begins_by_itself() -> None:
    agent, _ = three()
    await Runner.run(agent, "go", previous_response_id="resp_before", auto_previous_response_id=True)
    assert [chain for chain, _ in carried(agent)] == ["resp_before", "r0", "r1"]


@pytest.mark.parametrize("before", [None, "resp_before"])
async def test_a_provider_that_gives_no_ids_is_told_everything_of_the_run(before: str | None) -> None:
    send, _ = sending()
    steps = replies(call("send", {"to": "ann"}, call_id="ann"), "done", ids=False)
    agent = scripted(*steps, tools=[send])
    await Runner.run(agent, "go", previous_response_id=before, auto_previous_response_id=True)
    assert carried(agent) == [(before, ["go"]), (before, ["go", "call ann", "out ann"])]


async def test_a_chain_that_is_broken_off_begins_again_with_everything_of_the_run() -> None:
    send, _ = sending()
    steps = replies(*(call("send", {"to": to}, call_id=to) for to in ("ann", "bob", "cid")), "done")
    steps[1].response_id = None
    agent = scripted(*steps, tools=[send])
    await Runner.run(agent, "go", auto_previous_response_id=True)
    assert carried(agent) == [
        (None, ["go"]),
        ("r0", ["out ann"]),
        (None, ["go", "call ann", "out ann", "call bob", "out bob"]),
        ("r2", ["out cid"]),
    ]


async def test_items_given_as_input_are_all_sent_once() -> None:
    agent, _ = three()
    said = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    await Runner.run(agent, said, conversation_id="conv_1")
    assert [input for _, input in carried(agent)] == [["one", "two"], ["out ann"], ["out bob"]]


@pytest.mark.parametrize("ids", KINDS)
async def test_a_request_that_failed_is_made_again_as_it_was(ids: Any) -> None:
    send, sent = sending()
    steps = replies(call("send", {"to": "ann"}, call_id="ann"), "done")
    agent = scripted(steps[0], ConnectionError("gone"), steps[1], tools=[send])
    with pytest.raises(ConnectionError) as caught:
        await Runner.run(agent, "go", **ids)
    result = await Runner.run(agent, await reloaded(agent, caught.value.state))  # type: ignore[attr-defined]
    assert result.final_output == "done"
    first, second, third = requests(agent)
    assert second == third
    assert sent == [("ann", 1)]
    assert short(first) == ["go"]


async def test_streamed_and_blocking_runs_carry_the_same() -> None:
    for ids in KINDS:
        plain, streamed = three()[0], three()[0]
        await Runner.run(plain, "go", **ids)
        result = Runner.run_streamed(streamed, "go", **ids)
        async for _ in result.stream_events():
            pass
        blocking = three()[0]
        Runner.run_sync(blocking, "go", **ids)
        assert carried(plain) == carried(streamed) == carried(blocking)


# -- over pauses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", KINDS)
@pytest.mark.parametrize("again", [True, False], ids=["ids given again", "ids left out"])
async def test_a_saved_run_goes_on_in_its_conversation(ids: Any, again: bool) -> None:
    plain, _ = three()
    await Runner.run(plain, "go", **ids)
    agent, sent = three(needs_approval=True)
    result = await Runner.run(agent, "go", **ids)
    while result.interruptions:
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, await reloaded(agent, state), **(ids if again else {}))
    assert carried(agent) == carried(plain)
    assert [request.conversation_id for request in requests(agent)] == [
        request.conversation_id for request in requests(plain)
    ]
    assert sent == [("ann", 1), ("bob", 1)]


@pytest.mark.parametrize("ids", KINDS)
async def test_all_outputs_of_a_turn_are_sent_once_however_many_pauses_it_has(ids: Any) -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["to"] != "free")
    people = ("ann", "free", "bob", "cid")
    calls = [call("send", {"to": to}, call_id=to) for to in people]
    agent = scripted(*replies(calls, "done"), tools=[send])
    result = await Runner.run(agent, "go", **ids)
    for verdict in ("approve", "reject", "edit"):
        state = await reloaded(agent, result.to_state())
        item = state.get_interruptions()[0]
        if verdict == "approve":
            state.approve(item)
        elif verdict == "reject":
            state.reject(item, rejection_message="no")
        else:
            state.edit(item, {"to": "dan"})
        result = await Runner.run(agent, state)
    assert result.final_output == "done"
    assert len(requests(agent)) == 2
    assert short(requests(agent)[1]) == [f"out {to}" for to in people]
    assert requests(agent)[1].input[2]["output"] == "no"
    assert sorted(sent) == [("ann", 1), ("dan", 1), ("free", 1)]


@pytest.mark.parametrize("ids", KINDS)
async def test_refused_calls_have_their_outputs_sent_too(ids: Any) -> None:
    agent = scripted(*replies([call("nothing", call_id="a"), call("nothing", call_id="b")], "done"))
    await Runner.run(agent, "go", **ids)
    assert short(requests(agent)[1]) == ["out a", "out b"]


@pytest.mark.parametrize("ids", KINDS)
async def test_new_input_is_sent_after_the_outputs_and_once(ids: Any) -> None:
    send, _ = sending(needs_approval=True)
    steps = [call("send", {"to": to}, call_id=to) for to in ("ann", "bob")]
    agent = scripted(*replies(*steps, "done", "done again"), tools=[send])
    result = await Runner.run(agent, "go", **ids)
    state = result.to_state()
    state.add_input("hurry")
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, await reloaded(agent, state))
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, await reloaded(agent, state))
    state = result.to_state()
    state.add_input("more")
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.final_output == "done again"
    assert [input for _, input in carried(agent)] == [["go"], ["out ann", "hurry"], ["out bob"], ["more"]]
    if "conversation_id" not in ids:
        assert [chain for chain, _ in carried(agent)][1:] == ["r0", "r1", "r2"]


async def test_an_output_that_was_refused_is_told_in_the_conversation() -> None:
    agent = scripted(*replies("draft", "better"), output_needs_approval=True)
    result = await Runner.run(agent, "go", auto_previous_response_id=True)
    state = result.to_state()
    state.reject(result.interruptions[0], rejection_message="too short")
    result = await Runner.run(agent, await reloaded(agent, state))
    assert carried(agent) == [(None, ["go"]), ("r0", ["too short"])]


async def test_a_cancelled_run_goes_on_in_its_conversation() -> None:
    agent, sent = three()
    result = Runner.run_streamed(agent, "go", auto_previous_response_id=True)
    async for event in result.stream_events():
        if getattr(event, "name", "") == "tool_called":
            result.cancel("after_turn")
    await Runner.run(agent, await reloaded(agent, result.to_state()))
    assert carried(agent) == [(None, ["go"]), ("r0", ["out ann"]), ("r1", ["out bob"])]
    assert sent == [("ann", 1), ("bob", 1)]


async def test_the_id_to_go_on_with_in_the_next_run_is_the_last_replys() -> None:
    agent, _ = three()
    result = await Runner.run(agent, "go", auto_previous_response_id=True)
    assert result.last_response_id == "r2"


# -- several agents --------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", KINDS)
async def test_a_handoff_takes_the_conversation_along(ids: Any) -> None:
    other = scripted(ModelResponse(replies("from the other")[0].output, response_id="o0"), name="other")
    agent = scripted(*replies(call("transfer_to_other", call_id="over")), handoffs=[other])
    result = await Runner.run(agent, "go", **ids)
    assert result.final_output == "from the other"
    [request] = requests(other)
    assert short(request) == ["out over"]
    assert request.conversation_id == ids.get("conversation_id")
    assert request.previous_response_id == (None if "conversation_id" in ids else "r0")


async def test_a_filter_on_a_talk_that_the_provider_keeps_is_refused() -> None:
    other = scripted("never", name="other")
    over = handoff(other, input_filter=lambda data: data)
    agent = scripted(*replies(call("transfer_to_other")), handoffs=[over])
    with pytest.raises(UsageError, match="input_filter"):
        await Runner.run(agent, "go", conversation_id="conv_1")
    assert requests(other) == []


@pytest.mark.parametrize("ids", KINDS)
async def test_a_nested_agent_has_a_talk_of_its_own(ids: Any) -> None:
    send, _ = sending()
    inner = scripted(*replies(call("send", {"to": "ann"}, call_id="ann"), "inner done"), name="inner", tools=[send])
    outer = scripted(
        *replies(call("inner", {"input": "do it"}, call_id="in"), "done"),
        name="outer",
        tools=[inner.as_tool("inner", "works")],
    )
    await Runner.run(outer, "go", **ids)
    assert carried(inner) == [(None, ["do it"]), (None, ["do it", "call ann", "out ann"])]
    assert {request.conversation_id for request in requests(inner)} == {None}
    assert short(requests(outer)[1]) == ["out in"]


# -- what does not go together ---------------------------------------------------------------------

BAD: list[dict[str, Any]] = [
    {"conversation_id": ""},
    {"conversation_id": 5},
    {"conversation_id": "half \ud800"},
    {"conversation_id": b"conv"},
    {"previous_response_id": ""},
    {"previous_response_id": 0},
    {"previous_response_id": True},
    {"auto_previous_response_id": "yes"},
    {"auto_previous_response_id": 1},
    {"auto_previous_response_id": None},
    {"conversation_id": "c", "previous_response_id": "r"},
    {"conversation_id": "c", "auto_previous_response_id": True},
    {"conversation_id": "c", "session": SQLiteSession("s")},
    {"previous_response_id": "r", "session": SQLiteSession("s")},
    {"auto_previous_response_id": True, "session": SQLiteSession("s")},
]


@pytest.mark.parametrize("how", ["run", "run_streamed", "run_sync"])
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: ascii({name: type(value).__name__ for name, value in bad.items()}))
async def test_what_does_not_go_together_is_refused_before_anything_begins(bad: Any, how: str) -> None:
    agent = scripted("never")

    async def run() -> None:
        made = getattr(Runner, how)(agent, "go", **bad)
        if how == "run":
            await made

    with pytest.raises(UsageError) as caught:
        await run()
    assert caught.value.state is None
    assert requests(agent) == []


OTHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"conversation_id": "conv_1"}),
    ({}, {"auto_previous_response_id": True}),
    ({"conversation_id": "conv_1"}, {"conversation_id": "conv_2"}),
    ({"conversation_id": "conv_1"}, {"previous_response_id": "r0"}),
    ({"previous_response_id": "r"}, {"previous_response_id": "r0"}),
    ({"auto_previous_response_id": True}, {"conversation_id": "conv_1"}),
    ({"conversation_id": "conv_1"}, {"session": SQLiteSession("s")}),
]


@pytest.mark.parametrize(("first", "then"), OTHER)
async def test_a_run_is_not_resumed_in_another_conversation_and_its_state_is_still_good(first: Any, then: Any) -> None:
    agent, sent = three(needs_approval=True)
    result = await Runner.run(agent, "go", **first)
    state = result.to_state()
    before = state.to_string()
    with pytest.raises(UsageError):
        await Runner.run(agent, state, **then)
    assert state.to_string() == before
    state.reject(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert len(result.interruptions) == 1
    assert sent == []


async def test_the_ids_are_in_the_saved_run_and_nothing_else_of_the_provider() -> None:
    agent, _ = three(needs_approval=True)
    for ids, kept in zip(
        KINDS,
        ({"id": "conv_1"}, {"previous": "resp_before"}, {"auto": "yes"}, {"previous": "resp_before"}),
        strict=True,
    ):
        agent, _ = three(needs_approval=True)
        state = (await Runner.run(agent, "go", **ids)).to_state()
        assert state.to_json()["journal"][0]["conversation"] == kept


async def test_a_request_does_not_cost_more_late_in_a_long_conversation() -> None:
    @function_tool
    def tick() -> str:
        return "tock"

    count = 60
    agent = scripted(*replies(*[call("tick", call_id=str(n)) for n in range(count)], "done"), tools=[tick])
    await Runner.run(agent, "go", max_turns=count + 1, conversation_id="c", run_config=RunConfig())
    assert {len(request.input) for request in requests(agent)} == {1}
