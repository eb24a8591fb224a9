"""Bad input, one by one: a clear error, nothing recorded, nothing run, and the right call works after it."""

import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry import (
    Agent,
    MessageOutputItem,
    ModelResponse,
    Runner,
    RunState,
    ToolApprovalItem,
    ToolContext,
    function_tool,
)
from assentry.errors import (
    AlreadyDecided,
    AssentryError,
    DefinitionChanged,
    InvalidArguments,
    InvalidDecision,
    InvalidInput,
    ModelFailed,
    QuestionNotFound,
    RunFinished,
    StateSpent,
    UnknownSchema,
    UnreadableState,
)
from assentry.testing import ScriptedModel, call
from tests.runtime.support import asked, facts, heard, outcomes, refused, reloaded, scripted, sending, told


class Waiting:
    """A run that waits with one call, and what is needed to see that nothing happened to it."""

    def __init__(self, agent: Agent[Any], state: RunState[Any], sent: list[tuple[str, int]]) -> None:
        self.agent = agent
        self.state = state
        self.text = state.to_string()
        self.sent = sent

    @property
    def item(self) -> ToolApprovalItem:
        return self.state.get_interruptions()[0]

    async def load(self, text: Any) -> RunState[Any]:
        return await RunState.from_string(self.agent, text)

    async def still_works(self) -> None:
        """Nothing was recorded, nothing ran, and the right calls work."""
        assert self.state.to_string() == self.text
        assert self.sent == []
        state = await self.load(self.text)
        state.approve(self.item)
        result = await Runner.run(self.agent, state)
        assert result.final_output == "done"
        assert self.sent == [("ann", 1)]


async def waiting() -> Waiting:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    return Waiting(agent, (await Runner.run(agent, "go")).to_state(), sent)


# -- texts that are no saved run -------------------------------------------------------------------


async def test_truncated_json() -> None:
    run = await waiting()
    for length in range(len(run.text)):
        with pytest.raises(UnreadableState):
            await run.load(run.text[:length])
        with pytest.raises(UnreadableState):
            RunState.peek(run.text[:length])
    await run.still_works()


OTHER_JSON: list[Any] = [
    None,
    True,
    5,
    "text",
    [],
    {},
    {"a": 1},
    [{"schema": 1}],
    {"$schemaVersion": "1.17", "current_turn": 1},
    {"schema": 1},
    {"schema": "1"},
    {"schema": None},
    {"schema": 1, "assent": "x", "journal": []},
    {"schema": 1, "assent": "x", "journal": {}},
    {"schema": 1, "assent": "x", "journal": [None]},
    {"schema": 1, "assent": "x", "journal": [{}]},
    {"schema": 1, "assent": "x", "journal": [{"fact": "nonsense"}]},
    {"schema": 1, "assent": "x", "journal": [{"fact": "said", "items": "hi"}]},
]


@pytest.mark.parametrize("data", OTHER_JSON, ids=str)
async def test_other_json(data: Any) -> None:
    run = await waiting()
    text = json.dumps(data)
    for load in (run.load(text), run.load(text.encode()), run.load(json.dumps(data, indent=2))):
        with pytest.raises(UnreadableState) as caught:
            await load
        assert type(caught.value) is UnreadableState
    with pytest.raises(UnreadableState):
        RunState.peek(text)
    with pytest.raises(UnreadableState):
        await RunState.from_json(run.agent, data)
    await run.still_works()


@pytest.mark.parametrize("text", ["", " ", "hello", "{", "}", "NaN", "\x00", "\ufeff{}", "\ud800", '{"schema": 1} x'])
async def test_text_that_is_no_json(text: str) -> None:
    run = await waiting()
    with pytest.raises(UnreadableState):
        await run.load(text)
    with pytest.raises(UnreadableState):
        RunState.peek(text)
    await run.still_works()


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"\x80", b'{"schema": 1, "assent": "\xff"}'])
async def test_bytes_that_are_no_text(data: bytes) -> None:
    run = await waiting()
    with pytest.raises(UnreadableState):
        await run.load(data)
    with pytest.raises(UnreadableState):
        RunState.peek(data)
    await run.still_works()


@pytest.mark.parametrize("thing", [None, 5, [], {}, object(), 1.5])
async def test_what_is_no_text_at_all(thing: Any) -> None:
    run = await waiting()
    with pytest.raises(UnreadableState):
        await run.load(thing)
    with pytest.raises(UnreadableState):
        RunState.peek(thing)
    await run.still_works()


@pytest.mark.parametrize("thing", [None, "{}", b"{}", [], {"x": object()}, {"x": "\ud800"}, {1: 2}])
async def test_what_is_no_json_object(thing: Any) -> None:
    run = await waiting()
    with pytest.raises(UnreadableState):
        await RunState.from_json(run.agent, thing)
    await run.still_works()


async def test_text_that_is_nested_too_deeply() -> None:
    run = await waiting()
    for text in ("[" * 100_000, '{"schema":' * 100_000, "[" * 100_000 + "]" * 100_000):
        with pytest.raises(UnreadableState):
            await run.load(text)
    await run.still_works()


@pytest.mark.parametrize("version", [0, 2, 99, -1, 10**6, 2**63])
async def test_an_unknown_schema_version(version: int) -> None:
    run = await waiting()
    for data in ({**json.loads(run.text), "schema": version}, {"schema": version, "all": "new"}):
        for load in (run.load(json.dumps(data)), RunState.from_json(run.agent, data)):
            with pytest.raises(UnknownSchema, match=str(version)):
                await load
        with pytest.raises(UnknownSchema):
            RunState.peek(json.dumps(data))
    await run.still_works()


async def test_a_journal_with_a_fact_missing_or_twice() -> None:
    run = await waiting()
    data = json.loads(run.text)
    journal = data["journal"]
    for n in range(len(journal)):
        for damaged in (journal[:n] + journal[n + 1 :], journal[: n + 1] + journal[n:]):
            text = json.dumps({**data, "journal": damaged})
            with contextlib.suppress(UnreadableState, DefinitionChanged):
                state = await run.load(text)
                assert len(state.get_interruptions()) <= 1
    await run.still_works()


WRONG: list[Any] = [
    None,
    True,
    5,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "\x00",
    [],
    [1],
    ["x"],
    [[]],
    {},
    {"x": 1},
    [{}],
    [{"x": 1}],
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to each value in a JSON value."""
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of a JSON value with another value in one place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


async def test_a_state_with_one_value_replaced_is_loaded_or_refused_and_never_a_strange_error() -> None:
    send, _ = sending(needs_approval=True)

    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        await ctx.step("one", lambda: 1)
        return str(await ctx.ask("when?", schema=str))

    calls = [call("send", {"to": "a"}), call("send", {"to": "b"}), call("send", {"to": "c"}), call("book"), call("no")]
    agent = scripted(calls, tools=[send, book])
    state = (await Runner.run(agent, "go", context={"user": 1})).to_state()
    first, second, *_ = state.get_interruptions()
    state.approve(first, always_approve=True)
    state.edit(second, {"to": "x"})
    data = state.to_json()
    strange = []
    for path, new in itertools.product(places(data), WRONG):
        text = json.dumps(replaced(data, path, new))
        try:
            with contextlib.suppress(AssentryError):
                RunState.peek(text)
            with contextlib.suppress(AssentryError, UserWarning):
                loaded = await RunState.from_string(agent, text)
                loaded.get_interruptions()
                loaded.grants()
                loaded.to_string()
        except Exception as error:
            strange.append((path, new, repr(error)))
    assert strange == [], f"{len(strange)}, of which {strange[:8]}"


@given(st.text() | st.binary())
async def test_any_text_is_refused_with_a_readable_error(text: str | bytes) -> None:
    with pytest.raises(UnreadableState) as caught:
        await RunState.from_string(Agent("agent"), text)
    assert len(str(caught.value)) < 500


# -- the wrong decision at the wrong time ----------------------------------------------------------


async def test_an_item_from_another_run() -> None:
    run, other = await waiting(), await waiting()
    refused(lambda: run.state.approve(other.item), QuestionNotFound, run.state)
    refused(lambda: run.state.reject(other.item), QuestionNotFound, run.state)
    refused(lambda: run.state.edit(other.item, {"to": "x"}), QuestionNotFound, run.state)
    refused(lambda: run.state.respond(other.item, "x"), QuestionNotFound, run.state)
    await run.still_works()


async def test_an_item_from_another_run_with_this_runs_id() -> None:
    run, other = await waiting(), await waiting()
    forged = other.item
    forged.id = run.item.id
    with pytest.raises(AssentryError):
        run.state.approve(forged)
    await run.still_works()


async def test_deciding_twice() -> None:
    run = await waiting()
    run.state.reject(run.item)
    item = RunState.peek(run.text).waiting[0]
    refused(lambda: run.state.approve(item), AlreadyDecided, run.state)
    refused(lambda: run.state.reject(item, rejection_message="x"), AlreadyDecided, run.state)
    result = await Runner.run(run.agent, run.state)
    assert run.sent == []
    assert result.final_output == "done"


async def test_deciding_what_is_done() -> None:
    run = await waiting()
    item = run.item
    run.state.approve(item)
    state = (await Runner.run(run.agent, run.state)).to_state()
    refused(lambda: state.reject(item), AlreadyDecided, state)
    refused(lambda: state.edit(item, {"to": "x"}), AlreadyDecided, state)
    refused(lambda: state.respond(item, "x"), AlreadyDecided, state)
    assert run.sent == [("ann", 1)]


async def test_resuming_what_is_finished() -> None:
    agent = scripted("hi", "again")
    state = (await Runner.run(agent, "go")).to_state()
    before = state.to_string()
    with pytest.raises(RunFinished):
        await Runner.run(agent, state)
    assert state.to_string() == before
    assert asked(agent) == 1
    state.add_input("more")
    assert (await Runner.run(agent, state)).final_output == "again"


async def test_resuming_a_state_twice() -> None:
    run = await waiting()
    run.state.approve(run.item)
    result = await Runner.run(run.agent, run.state)
    with pytest.raises(StateSpent):
        await Runner.run(run.agent, run.state)
    with pytest.raises(StateSpent):
        Runner.run_streamed(run.agent, run.state)
    assert run.sent == [("ann", 1)]
    assert asked(run.agent) == 2
    state = result.to_state()
    state.add_input("more")
    run.agent.model = ScriptedModel(["more done"])
    assert (await Runner.run(run.agent, state)).final_output == "more done"


async def test_a_changed_tool() -> None:
    run = await waiting()
    changed, did = sending(needs_approval=True, version="2")
    with pytest.raises(DefinitionChanged, match="send"):
        await RunState.from_string(run.agent.clone(tools=[changed]), run.text)
    assert did == []
    await run.still_works()


async def test_a_missing_tool() -> None:
    run = await waiting()
    with pytest.raises(DefinitionChanged, match="send"):
        await RunState.from_string(run.agent.clone(tools=[]), run.text)
    await run.still_works()


async def test_editing_for_a_tool_that_is_gone() -> None:
    run = await waiting()
    result = await Runner.run(run.agent, await run.load(run.text))
    state = result.to_state()
    run.agent.tools, tools = [], run.agent.tools
    with pytest.raises(AssentryError):
        state.edit(result.interruptions[0], {"to": "x"})
    run.agent.tools = tools
    await run.still_works()


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["[1]", '"x"', "5", "null", '{"to": NaN}', '{"to": "a", "to": "b"}', "", "{"],
    ids=["array", "string", "number", "null", "NaN", "duplicate keys", "blank", "truncated"],
)
async def test_arguments_that_cannot_be_read(text: str) -> None:
    """Not run, refused or asked about, and the model's next try works."""
    for gated in (False, True):
        send, sent = sending(needs_approval=gated)
        agent = scripted(call("send", text), call("send", {"to": "ann"}), "done", tools=[send])
        result = await Runner.run(agent, "go")
        if gated:
            state = result.to_state()
            refused(lambda s=state, i=result.interruptions[0]: s.approve(i), InvalidDecision, state)  # type: ignore[misc]
            state.reject(result.interruptions[0])
            result = await Runner.run(agent, state)
            assert sent == []
            state = result.to_state()
            state.approve(result.interruptions[0])
            result = await Runner.run(agent, state)
        assert sent == [("ann", 1)]
        assert outcomes(result)[0].status in ("refused", "rejected")
        assert result.final_output == "done"


async def test_an_argument_of_almost_ten_megabytes() -> None:
    size = 9_900_000
    text = json.dumps({"to": "x" * size})
    send, sent = sending(needs_approval=lambda ctx, params, call_id: len(params["to"]) > 5)
    began = time.process_time()
    agent = scripted(call("send", text), "done", tools=[send])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert len(item.arguments) > size
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.final_output == "done"
    assert sent == [("x" * size, 1)]
    assert time.process_time() - began < 30, "megabytes take moments, unless something is quadratic"


@pytest.mark.parametrize(
    "text",
    [
        '{"to": "' + "x" * 10_000_000,
        "[" * 10_000_000,
        '{"to": [' + "1," * 3_000_000 + "1]}",
        "{" + ",".join(f'"k{n}": {n}' for n in range(100_000)) + "}",
        "9" * 10_000_000,
    ],
    ids=["truncated", "brackets", "wrong type", "unknown keys", "digits"],
)
@pytest.mark.parametrize("gated", [True, False])
async def test_megabytes_that_cannot_run(text: str, gated: bool) -> None:
    send, sent = sending(needs_approval=gated)
    began = time.process_time()
    agent = scripted(call("send", text), "sorry", tools=[send])
    result = await Runner.run(agent, "go")
    if gated:
        assert len(result.interruptions[0].reason) < 2_000
        state = await reloaded(agent, result.to_state())
        state.reject(state.get_interruptions()[0])
        result = await Runner.run(agent, state)
    assert result.final_output == "sorry"
    assert len(told(result)[0]) < 2_000
    assert sent == []
    assert time.process_time() - began < 60, "megabytes take moments, unless something is quadratic"


async def test_an_output_and_an_answer_of_ten_megabytes() -> None:
    @function_tool(needs_approval=True)
    async def big() -> str:
        return "x" * 10_000_000

    began = time.process_time()
    agent = scripted([call("big"), call("big")], "done", tools=[big])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.respond(result.interruptions[1], ["y" * 10_000_000])
    result = await Runner.run(agent, await reloaded(agent, state))
    assert [len(text) for text in told(result)] == [10_000_000, 10_000_004]
    assert time.process_time() - began < 30


# -- half surrogate pairs --------------------------------------------------------------------------

HALF = "a\ud800b"


async def test_half_a_surrogate_pair_in_the_input() -> None:
    agent = scripted("hi")
    for bad in (HALF, [{"role": "user", "content": HALF}], [{HALF: 1}], [{"content": [{"text": HALF}]}]):
        with pytest.raises(InvalidInput):
            await Runner.run(agent, bad)
        with pytest.raises(InvalidInput):
            Runner.run_streamed(agent, bad)
    assert asked(agent) == 0
    assert (await Runner.run(agent, "hi")).final_output == "hi"


async def test_half_a_surrogate_pair_in_more_input() -> None:
    run = await waiting()
    refused(lambda: run.state.add_input(HALF), InvalidInput, run.state)
    refused(lambda: run.state.add_input([{"content": HALF}]), InvalidInput, run.state)
    await run.still_works()


async def test_half_a_surrogate_pair_in_a_decision() -> None:
    run = await waiting()
    state, item = run.state, run.item
    refused(lambda: state.reject(item, rejection_message=HALF), InvalidDecision, state)
    refused(lambda: state.reject(item, always_reject=True, rejection_message=HALF), InvalidDecision, state)
    refused(lambda: state.respond(item, HALF), InvalidDecision, state)
    refused(lambda: state.respond(item, {"x": [HALF]}), InvalidDecision, state)
    refused(lambda: state.approve(item, by=HALF), InvalidDecision, state)
    refused(lambda: state.decide(item.id, {"type": "approve", "note": HALF}), InvalidDecision, state)
    refused(lambda: state.decide(item.id, {"type": "edit", "arguments": {"to": HALF}}), InvalidArguments, state)
    refused(lambda: state.decide(HALF, {"type": "approve"}), QuestionNotFound, state)
    with pytest.raises(AssentryError):
        state.decide(item.id, {"type": "approve"}, digest=HALF)
    with pytest.raises(AssentryError):
        state.decide(item.id, {"type": HALF})
    await run.still_works()


async def test_half_a_surrogate_pair_in_the_models_text() -> None:
    agent = scripted(HALF, "again")
    result = await Runner.run(agent, "go")
    assert result.final_output == "a�b"
    assert "UTF-8" in facts(result.to_state(), "replied")[0]["note"]
    state = await reloaded(agent, result.to_state())
    state.add_input("more")
    assert (await Runner.run(agent, state)).final_output == "again"
    assert heard(agent)[1]["content"][0]["text"] == "a�b"


async def test_half_a_surrogate_pair_in_a_call() -> None:
    """What runs is what is recorded and shown, whatever the model sent."""
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", f'{{"to": "{HALF}"}}'), "done", tools=[send])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert HALF not in item.arguments
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert sent == [("a�b", 1)]


async def test_half_a_surrogate_pair_in_a_tools_name() -> None:
    send, sent = sending()
    agent = scripted([call(HALF), call("send", {"to": "ann"})], "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert outcomes(result)[0].status == "refused"
    assert sent == [("ann", 1)]
    assert (await reloaded(agent, result.to_state())).status == "done"


@pytest.mark.parametrize("part", ["call_id", "response_id"])
async def test_half_a_surrogate_pair_in_a_providers_id(part: str) -> None:
    send, sent = sending(needs_approval=True)
    item = {"type": "function_call", "call_id": "x", "name": "send", "arguments": '{"to":"ann"}'}
    if part == "call_id":
        item["call_id"] = HALF
    agent = scripted(ModelResponse([item], response_id=HALF if part == "response_id" else "r"), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    assert (await Runner.run(agent, state)).final_output == "done"
    assert sent == [("ann", 1)]


async def test_half_a_surrogate_pair_in_a_tools_output_and_error() -> None:
    @function_tool
    async def give() -> str:
        return HALF

    @function_tool
    async def fail() -> str:
        raise ValueError(HALF)

    agent = scripted([call("give"), call("fail")], "done", tools=[give, fail])
    result = await Runner.run(agent, "go")
    assert told(result)[0] == "a�b"
    assert "a�b" in told(result)[1]
    assert (await reloaded(agent, result.to_state())).status == "done"


# -- a rule that raises ----------------------------------------------------------------------------


async def test_a_rule_that_raises() -> None:
    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        raise LookupError("no such team")

    send, sent = sending(needs_approval=rule)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert "no such team" in result.interruptions[0].reason
    assert sent == []
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    assert (await Runner.run(agent, state)).final_output == "done"
    assert sent == [("ann", 1)]


# -- replies that are not what a provider should send ----------------------------------------------


class Says:
    """A model that gives these replies, unseen."""

    name = "scripted"

    def __init__(self, *replies: list[Any]) -> None:
        self.replies = list(replies)

    async def stream(self, request: Any) -> AsyncIterator[ModelResponse]:
        yield ModelResponse(self.replies.pop(0))


FINE = [{"type": "message", "role": "assistant", "content": "fine"}]
CALL: dict[str, Any] = {"type": "function_call", "call_id": "x", "name": "send", "arguments": '{"to": "ann"}'}


@pytest.mark.parametrize(
    "item",
    [
        {**CALL, "call_id": 5},
        {**CALL, "call_id": ["x"]},
        {**CALL, "id": 5},
        {**CALL, "name": None},
        {**CALL, "arguments": {"to": "ann"}},
        {**CALL, "arguments": None},
        {"type": ["function_call"]},
        {"type": {}},
        "text",
        None,
        ["function_call"],
    ],
    ids=str,
)
async def test_a_reply_that_cannot_be_read_is_the_models_failure_and_is_not_kept(item: Any) -> None:
    send, sent = sending()
    agent = Agent("agent", tools=[send], model=Says([item], FINE))
    with pytest.raises(ModelFailed) as caught:
        await Runner.run(agent, "go")
    result = await Runner.run(agent, await reloaded(agent, caught.value.state))
    assert result.final_output == "fine"
    assert sent == []


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        [],
        [{"type": "output_text", "text": None}],
        [{"type": "output_text"}],
    ],
    ids=str,
)
async def test_a_message_without_text_has_none(content: Any) -> None:
    agent: Agent[Any] = Agent("agent", model=Says([{"type": "message", "role": "assistant", "content": content}]))
    result = await Runner.run(agent, "go")
    assert result.final_output == ""
    [item] = result.new_items
    assert isinstance(item, MessageOutputItem)
    assert item.text == ""
    assert (await reloaded(agent, result.to_state())).status == "done"
