"""Final outputs: their types, a person's approval of them, tools that end a run."""

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from assentry import (
    Agent,
    AgentOutputSchema,
    ApprovalDecidedEvent,
    ApprovalRequestedEvent,
    OutputGuardrail,
    RunConfig,
    Runner,
    RunState,
    ToolCallOutputItem,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolsToFinalOutputResult,
    function_tool,
    handoff,
    tool_output_guardrail,
)
from assentry.errors import (
    AlreadyDecided,
    DefinitionChanged,
    InvalidArguments,
    InvalidDecision,
    InvalidDefinition,
    InvalidOutput,
    MaxTurnsExceeded,
    ModelRefused,
    RunFinished,
    UsageError,
)
from assentry.testing import ScriptedModel, call
from tests.runtime.support import (
    asked,
    facts,
    heard,
    outcomes,
    outputs,
    refused,
    reloaded,
    scripted,
    sending,
    told,
)
from tests.runtime.test_guardrails import Watch, leaves


class Order(BaseModel):
    item: str
    count: int = Field(alias="howMany", default=1)


@dataclass
class Point:
    x: int
    y: int


class Movie(TypedDict):
    title: str
    year: int


class Leaf(msgspec.Struct):
    name: str
    size: int


class Cat(BaseModel):
    meows: bool


class Dog(BaseModel):
    barks: bool


POINT = '{"x": 1, "y": 2}'
TYPES: list[Any] = [
    (Order, '{"item": "tea", "howMany": 2}', Order(item="tea", howMany=2)),
    (Point, POINT, Point(1, 2)),
    (Movie, '{"title": "M", "year": 1931}', {"title": "M", "year": 1931}),
    (Leaf, '{"name": "a", "size": 3}', Leaf("a", 3)),
    (list[Point], '{"response": [{"x": 1, "y": 2}]}', [Point(1, 2)]),
    (list[int], '{"response": [1, 2]}', [1, 2]),
    (Cat | Dog, '{"response": {"barks": true}}', Dog(barks=True)),
    (int, '{"response": 5}', 5),
    (bool, '{"response": false}', False),
]
NAMES = ["pydantic", "dataclass", "TypedDict", "msgspec", "list", "list of int", "union", "int", "bool"]


def refusing(words: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": words}]}


async def drafted(*steps: Any, **options: Any) -> tuple[Agent[Any], RunState[Any], Any]:
    """An agent whose output waits for a person, its state, and the question."""
    agent = scripted(*(steps or ("draft", "better", "best")), **{"output_needs_approval": True, **options})
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    return agent, result.to_state(), item


# -- types -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "text", "value"), TYPES, ids=NAMES)
async def test_the_final_output_is_an_instance_of_the_output_type(kind: Any, text: str, value: Any) -> None:
    watch = Watch()
    agent = scripted(text, output_type=kind, output_guardrails=[OutputGuardrail(watch)])
    result = await Runner.run(agent, "go")
    assert result.final_output == value
    assert type(result.final_output) is type(value)
    assert watch.saw == [value]
    assert type(watch.saw[0]) is type(value)


@pytest.mark.parametrize(("kind", "text", "value"), TYPES, ids=NAMES)
async def test_an_approved_output_is_typed_again_after_a_reload(kind: Any, text: str, value: Any) -> None:
    agent, state, item = await drafted(text, output_type=kind)
    shown = json.loads(text)
    assert json.loads(item.arguments) == {"output": shown.get("response", shown)}
    state = await reloaded(agent, state)
    state.approve(item)
    result = await Runner.run(agent, state)
    assert result.final_output == value
    assert type(result.final_output) is type(value)


async def test_the_model_is_offered_the_type_s_schema() -> None:
    agent = scripted(POINT, "text", output_type=Point)
    await Runner.run(agent, "go")
    model: Any = agent.model
    schema = AgentOutputSchema(Point)
    offered = model.requests[0].output
    assert (offered.name, offered.schema, offered.strict) == ("Point", schema.json_schema, True)
    plain = scripted("text")
    await Runner.run(plain, "go")
    model = plain.model
    assert model.requests[0].output is None


@pytest.mark.parametrize("kind", [None, str, AgentOutputSchema(str)])
async def test_text_is_text(kind: Any) -> None:
    agent = scripted('{"x": 1}', output_type=kind)
    result = await Runner.run(agent, "go")
    assert result.final_output == '{"x": 1}'


def test_an_agent_keeps_the_output_type_it_was_given() -> None:
    agent = Agent("a", output_type=Point)
    assert agent.output_type is Point
    assert agent.clone(name="b").output_type is Point
    assert agent.clone(output_type=None).output_type is None


async def test_an_output_type_that_changes_between_runs_is_the_new_one() -> None:
    agent = scripted(POINT, '{"title": "M", "year": 1931}', output_type=Point)
    assert (await Runner.run(agent, "go")).final_output == Point(1, 2)
    agent.output_type = Movie
    assert (await Runner.run(agent, "go")).final_output == {"title": "M", "year": 1931}


async def test_final_output_as_checks_when_it_is_asked_to() -> None:
    result = await Runner.run(scripted(POINT, output_type=Point), "go")
    assert result.final_output_as(Point) == Point(1, 2)
    assert result.final_output_as(Point, raise_if_incorrect_type=True) == Point(1, 2)
    assert result.final_output_as(Leaf) == Point(1, 2)
    with pytest.raises(TypeError, match=r"Point.*Leaf"):
        result.final_output_as(Leaf, raise_if_incorrect_type=True)


async def test_there_is_no_final_output_while_the_run_waits() -> None:
    agent, state, _ = await drafted()
    result = await Runner.run(agent, state)
    assert result.final_output is None


async def test_after_a_handoff_the_last_agents_type_counts() -> None:
    other = scripted(POINT, name="other", output_type=Point)
    agent = scripted(call("transfer_to_other"), handoffs=[other], output_type=Movie)
    result = await Runner.run(agent, "go")
    assert result.final_output == Point(1, 2)


async def test_a_nested_agents_typed_output_is_what_its_call_gives() -> None:
    inner = scripted(POINT, name="inner", output_type=Point)
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()])
    result = await Runner.run(agent, "go")
    assert outputs(result)[0].output == Point(1, 2)
    assert json.loads(told(result)[0]) == {"x": 1, "y": 2}


# -- outputs that do not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "hello", '{"x": 1}', '{"x": 1, "y": "two"}', f"```json\n{POINT}\n```"])
async def test_an_output_that_does_not_fit_is_an_error_and_the_run_can_go_on(text: str) -> None:
    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), text, POINT, tools=[send], output_type=Point)
    error = await leaves(InvalidOutput, Runner.run(agent, "go"))
    assert "Point" in str(error) and "add_input" in str(error)
    assert error.state.status == "working"
    state = await reloaded(agent, error.state)
    again = await leaves(InvalidOutput, Runner.run(agent, state))
    assert asked(agent) == 2, "the model is not asked again unasked"
    again.state.add_input("Give me a Point.")
    result = await Runner.run(agent, again.state)
    assert result.final_output == Point(1, 2)
    assert heard(agent)[-1] == {"role": "user", "content": "Give me a Point."}
    assert sent == [("ann", 1)]


async def test_a_nested_output_that_does_not_fit_is_the_failure_of_its_call() -> None:
    inner = scripted("no point", name="inner", output_type=Point)
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()])
    result = await Runner.run(agent, "go")
    assert (outcomes(result)[0].status, outcomes(result)[0].reason) == ("failed", "InvalidOutput")
    assert result.final_output == "done"


async def test_a_refusal_where_a_type_was_asked_for_is_an_error_and_the_run_can_go_on() -> None:
    agent = scripted([refusing("I will not.")], POINT, output_type=Point)
    error = await leaves(ModelRefused, Runner.run(agent, "go"))
    assert "I will not." in str(error)
    state = await reloaded(agent, error.state)
    state.add_input("Please.")
    result = await Runner.run(agent, state)
    assert result.final_output == Point(1, 2)


async def test_a_refusal_is_the_text_where_text_was_asked_for() -> None:
    result = await Runner.run(scripted([refusing("I will not.")]), "go")
    assert result.final_output == "I will not."


async def test_a_refusal_beside_a_call_does_not_stop_the_call() -> None:
    send, sent = sending()
    agent = scripted([refusing("I will not."), call("send", {"to": "ann"})], POINT, tools=[send], output_type=Point)
    assert (await Runner.run(agent, "go")).final_output == Point(1, 2)
    assert sent == [("ann", 1)]


# -- a person's approval -----------------------------------------------------------------------------------


async def test_an_output_that_needs_approval_is_an_interruption() -> None:
    agent, state, item = await drafted()
    assert item.agent is agent
    assert item.name == "final_output"
    assert json.loads(item.arguments) == {"output": "draft"}
    assert item.allowed == ("approve", "edit", "reject")
    assert (item.path, item.kind, item.raw_item) == ((), "approval", {})
    assert state.status == "waiting"
    assert item in state.get_interruptions()
    assert [each.id for each in RunState.peek(state.to_string()).waiting] == [item.id]


async def test_an_approved_output_is_the_final_one() -> None:
    agent, state, item = await drafted()
    state.approve(item, by="ann")
    result = await Runner.run(agent, state)
    assert result.final_output == "draft"
    assert result.interruptions == []
    assert asked(agent) == 1
    assert result.to_state().status == "done"
    assert facts(result.to_state(), "approved")[0]["by"] == "ann"
    with pytest.raises(RunFinished):
        await Runner.run(agent, result.to_state())


async def test_an_edited_output_is_what_the_person_wrote() -> None:
    agent, state, item = await drafted()
    state.edit(item, {"output": "what the person wrote"})
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.final_output == "what the person wrote"
    assert asked(agent) == 1


async def test_an_edited_output_is_one_of_the_type() -> None:
    agent, state, item = await drafted(POINT, output_type=Point)
    for wrong in (
        {"output": {"x": 1}},
        {"output": POINT},
        {},
        {"x": 1, "y": 2},
        {"output": {"x": 1, "y": 2}, "more": 1},
    ):
        refused(lambda wrong=wrong: state.edit(item, wrong), InvalidArguments, state)  # type: ignore[misc]
    state.edit(item, {"output": {"x": 3, "y": 4}})
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.final_output == Point(3, 4)


async def test_an_edited_text_is_text() -> None:
    _, state, item = await drafted()
    for wrong in ({"output": 5}, {"output": None}, {"text": "x"}, {}):
        refused(lambda wrong=wrong: state.edit(item, wrong), InvalidArguments, state)  # type: ignore[misc]


async def test_an_edit_cannot_make_a_tool_call_of_an_output() -> None:
    send, sent = sending()
    _, state, item = await drafted("draft", tools=[send])
    refused(lambda: state.edit(item, {"to": "ann"}, tool="send"), InvalidDecision, state)
    assert sent == []


async def test_a_rejected_output_is_another_try_for_the_model() -> None:
    agent, state, item = await drafted()
    state.reject(item, rejection_message="Too short.")
    result = await Runner.run(agent, await reloaded(agent, state))
    [again] = result.interruptions
    assert json.loads(again.arguments) == {"output": "better"}
    assert again.id != item.id and again.digest != item.digest
    said = heard(agent)
    assert [each["role"] for each in said] == ["user", "assistant", "user"]
    assert said[-1]["content"] == "Too short."
    state = result.to_state()
    state.approve(again)
    result = await Runner.run(agent, state)
    assert result.final_output == "better"
    assert asked(agent) == 2


async def test_a_rejection_without_words_says_that_it_was_the_output() -> None:
    agent, state, item = await drafted()
    state.reject(item)
    await Runner.run(agent, state)
    words = heard(agent)[-1]["content"]
    assert "output" in words and "call" not in words and "run" not in words


@pytest.mark.parametrize("words", ["", None])
async def test_a_rejection_is_always_heard(words: str | None) -> None:
    agent, state, item = await drafted()
    state.reject(item, rejection_message=words)
    await Runner.run(agent, state)
    assert heard(agent)[-1]["role"] == "user" and heard(agent)[-1]["content"]


async def test_a_formatter_words_the_rejection_of_an_output_too() -> None:
    agent, state, item = await drafted()
    state.reject(item)
    await Runner.run(
        agent, state, run_config=RunConfig(tool_error_formatter=lambda args: f"{args.kind}: {args.tool_name}")
    )
    assert heard(agent)[-1]["content"] == "approval_rejected: final_output"


async def test_nobody_answers_in_the_place_of_an_output() -> None:
    _, state, item = await drafted()
    refused(lambda: state.respond(item, "mine"), InvalidDecision, state)
    state.approve(item)
    state.approve(item)
    refused(lambda: state.reject(item), AlreadyDecided, state)


async def test_approved_for_always_outputs_pass_and_tools_of_that_name_do_not() -> None:
    @function_tool(needs_approval=True)
    async def final_output(output: str) -> str:
        raise AssertionError("it was never approved")

    agent, state, item = await drafted("one", "two", call("final_output", {"output": "x"}), tools=[final_output])
    state.approve(item, always_approve=True)
    result = await Runner.run(agent, state)
    assert result.final_output == "one"
    state = await reloaded(agent, result.to_state())
    state.add_input("more")
    result = await Runner.run(agent, state)
    assert result.final_output == "two"
    state = result.to_state()
    state.add_input("and more")
    result = await Runner.run(agent, state)
    assert [each.name for each in result.interruptions] == ["final_output"]


async def test_rejected_for_always_the_model_tries_until_its_turns_are_used_up() -> None:
    agent, state, item = await drafted("one", "two", "three", "never")
    state.reject(item, always_reject=True, rejection_message="No.")
    error = await leaves(MaxTurnsExceeded, Runner.run(agent, state, max_turns=3))
    assert asked(agent) == 3
    assert heard(agent)[-1]["content"] == "No."
    state = await reloaded(agent, error.state)
    state.revoke(state.grants()[0].id)
    result = await Runner.run(agent, state, max_turns=4)
    assert len(result.interruptions) == 1


async def test_a_rule_judges_the_output() -> None:
    seen: list[Any] = []

    async def long(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        seen.append((ctx.context, params, call_id))
        return len(params["output"]) > 5

    agent = scripted("short", "long enough", output_needs_approval=long)
    result = await Runner.run(agent, "go", context={"me": 1})
    assert result.final_output == "short"
    result = await Runner.run(agent, "go", context={"me": 1})
    assert "long" in result.interruptions[0].reason
    assert seen == [({"me": 1}, {"output": "short"}, ""), ({"me": 1}, {"output": "long enough"}, "")]


async def test_a_rule_sees_a_typed_output_as_json() -> None:
    seen: list[Any] = []
    agent = scripted(POINT, output_type=Point, output_needs_approval=lambda ctx, params, id: bool(seen.append(params)))
    assert (await Runner.run(agent, "go")).final_output == Point(1, 2)
    assert seen == [{"output": {"x": 1, "y": 2}}]


def _raises(ctx: Any, params: Any, call_id: str) -> bool:
    raise ValueError("no idea")


@pytest.mark.parametrize("rule", [_raises, lambda ctx, params, id: "yes", lambda ctx, params, id: None])
async def test_a_rule_that_cannot_judge_an_output_asks_a_person(rule: Any) -> None:
    _, _, item = await drafted("draft", output_needs_approval=rule)
    assert "rule" in item.reason


async def test_a_changed_rule_or_type_is_found_on_load() -> None:
    agent, state, item = await drafted(POINT, POINT, output_type=Point)
    saved = state.to_string()
    other_type, no_rule = agent.clone(output_type=Leaf), agent.clone(output_needs_approval=False)
    for changed in (other_type, no_rule, agent.clone(output_needs_approval=_raises)):
        with pytest.raises(DefinitionChanged, match="final_output"):
            await RunState.from_string(changed, saved)
    with pytest.warns(UserWarning, match="output"):
        state = await RunState.from_string(other_type, saved, on_change="ask")
    [again] = state.get_interruptions()
    assert again.id != item.id
    assert "approve" not in again.allowed, "a Point is no Leaf"
    state.edit(again, {"output": {"name": "a", "size": 1}})
    assert (await Runner.run(other_type, state)).final_output == Leaf("a", 1)
    with pytest.warns(UserWarning, match="output"):
        state = await RunState.from_string(no_rule, saved, on_change="accept")
    assert (await Runner.run(no_rule, state)).final_output == Point(1, 2)


async def test_an_approval_given_for_another_type_is_void() -> None:
    agent, state, item = await drafted(POINT, POINT, output_type=Point)
    state.approve(item)
    saved = state.to_string()
    changed = agent.clone(output_needs_approval=_raises)
    with pytest.raises(DefinitionChanged):
        await RunState.from_string(changed, saved)
    with pytest.warns(UserWarning, match="output"):
        state = await RunState.from_string(changed, saved, on_change="ask")
    assert len(state.get_interruptions()) == 1
    with pytest.raises(DefinitionChanged):
        await Runner.run(changed, await RunState.from_string(agent, saved))


async def test_an_output_whose_agents_were_released_can_still_be_decided() -> None:
    agent = scripted(POINT, output_needs_approval=True, output_type=Point)
    result = await Runner.run(agent, "go")
    result.release_agents()
    state = result.to_state()
    state.edit(result.interruptions[0], {"output": {"x": 5, "y": 6}})
    assert (await Runner.run(agent, state)).final_output == Point(5, 6)


async def test_the_output_of_the_agent_that_took_over_is_judged_by_its_own_rule() -> None:
    other = scripted("draft", name="other", output_needs_approval=True)
    agent = scripted(call("transfer_to_other"), handoffs=[other])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert item.agent is other
    state = await reloaded(agent, result.to_state())
    state.approve(item)
    result = await Runner.run(agent, state)
    assert result.final_output == "draft"
    assert result.last_agent is other


async def test_the_output_of_a_nested_agent_can_need_approval() -> None:
    inner = scripted(POINT, POINT, name="inner", output_type=Point, output_needs_approval=True)
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert item.agent is inner and len(item.path) == 1
    state = await reloaded(agent, result.to_state())
    state.reject(item, rejection_message="Again.")
    result = await Runner.run(agent, state)
    assert heard(inner)[-1]["content"] == "Again."
    state = await reloaded(agent, result.to_state())
    state.edit(result.interruptions[0], {"output": {"x": 7, "y": 8}})
    result = await Runner.run(agent, state)
    assert json.loads(told(result)[0]) == {"x": 7, "y": 8}
    assert outputs(result)[0].output == Point(7, 8)
    assert result.final_output == "done"


async def test_a_stream_says_that_an_output_waits_and_how_it_was_decided() -> None:
    agent = scripted("draft", output_needs_approval=True)
    streamed = Runner.run_streamed(agent, "go")
    events = [event async for event in streamed.stream_events()]
    [requested] = [event for event in events if isinstance(event, ApprovalRequestedEvent)]
    assert requested.item == streamed.interruptions[0]
    assert streamed.final_output is None
    state = streamed.to_state()
    state.approve(requested.item, by="ann")
    streamed = Runner.run_streamed(agent, state)
    events = [event async for event in streamed.stream_events()]
    [decided] = [event for event in events if isinstance(event, ApprovalDecidedEvent)]
    assert (decided.question_id, decided.decision, decided.by) == (requested.item.id, "approve", "ann")
    assert streamed.final_output == "draft"


async def test_input_given_while_an_output_waits_is_answered_after_it() -> None:
    agent, state, item = await drafted("draft", "more", output_needs_approval=lambda ctx, p, id: p["output"] == "draft")
    state.add_input("And something else.")
    waiting = await Runner.run(agent, await reloaded(agent, state))
    assert waiting.interruptions == [item]
    assert asked(agent) == 1
    state.approve(item)
    result = await Runner.run(agent, state)
    assert result.final_output == "more"
    assert heard(agent)[-1]["content"] == "And something else."


async def test_what_an_output_call_is_called_is_in_no_history() -> None:
    agent, state, item = await drafted()
    state.approve(item)
    result = await Runner.run(agent, state)
    assert [each.get("role") for each in result.to_input_list()] == ["user", "assistant"]
    assert "final_output" not in json.dumps(result.to_input_list())
    assert [each.type for each in result.new_items] == ["message_output_item"]


async def test_an_output_can_wait_more_than_once_in_a_run() -> None:
    agent, state, item = await drafted("one", "two")
    state.approve(item)
    result = await Runner.run(agent, state)
    state = result.to_state()
    state.add_input("more")
    result = await Runner.run(agent, state)
    assert json.loads(result.interruptions[0].arguments) == {"output": "two"}
    assert result.interruptions[0].id != item.id


# -- tools that end a run ------------------------------------------------------------------------------------


class Thing:
    """What JSON can only say as text."""

    def __str__(self) -> str:
        return "a thing"


def making(value: Any, name: str = "make", **options: Any) -> Any:
    async def make() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return function_tool(name_override=name, **options)(make)


async def test_by_default_the_model_hears_what_tools_gave() -> None:
    agent = scripted(call("make"), "done", tools=[making("made")])
    assert (await Runner.run(agent, "go")).final_output == "done"
    assert asked(agent) == 2


async def test_the_first_tool_ends_the_run() -> None:
    agent = scripted(call("make"), "never", tools=[making("made")], tool_use_behavior="stop_on_first_tool")
    result = await Runner.run(agent, "go")
    assert result.final_output == "made"
    assert asked(agent) == 1
    assert told(result) == ["made"]
    assert result.to_state().status == "done"


async def test_of_several_calls_the_first_in_their_order_ends_the_run() -> None:
    tools = [making("one", "one"), making("two", "two")]
    agent = scripted([call("two"), call("one")], tools=tools, tool_use_behavior="stop_on_first_tool")
    result = await Runner.run(agent, "go")
    assert result.final_output == "two"
    assert told(result) == ["two", "one"], "both ran"


async def test_only_named_tools_end_the_run() -> None:
    tools = [making("one", "one"), making("two", "two")]
    agent = scripted(
        call("one"), [call("one"), call("two")], "never", tools=tools, tool_use_behavior={"stop_at_tool_names": ["two"]}
    )
    result = await Runner.run(agent, "go")
    assert result.final_output == "two"
    assert asked(agent) == 2


async def test_a_tool_whose_name_is_part_of_a_named_one_does_not_end_the_run() -> None:
    agent = scripted(
        call("make"), "done", tools=[making("x")], tool_use_behavior={"stop_at_tool_names": ("make_more",)}
    )
    assert (await Runner.run(agent, "go")).final_output == "done"


async def test_the_output_is_the_tools_own_object_until_a_reload() -> None:
    thing = Thing()
    agent = scripted(call("make"), "more", tools=[making(thing)], tool_use_behavior="stop_on_first_tool")
    result = await Runner.run(agent, "go")
    assert result.final_output is thing
    assert outputs(result)[0].output is thing
    state = await reloaded(agent, result.to_state())
    assert facts(state, "concluded")[0]["source"] == "c1"
    other = scripted(
        call("make"), tools=[making({"n": 1})], tool_use_behavior="stop_on_first_tool", output_needs_approval=False
    )
    assert (await Runner.run(other, "go")).final_output == {"n": 1}


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_function_says_whether_tools_end_the_run_and_with_what(awaited: bool) -> None:
    seen: list[Any] = []

    def use(ctx: Any, results: list[ToolCallOutputItem]) -> Any:
        seen.append((ctx.context, [(item.tool_name, item.output) for item in results]))
        done = len(seen) > 1
        return ToolsToFinalOutputResult(done, {"all": [item.output for item in results]} if done else None)

    async def later(ctx: Any, results: list[ToolCallOutputItem]) -> Any:
        return use(ctx, results)

    tools = [making("one", "one"), making("two", "two")]
    agent = scripted(call("one"), [call("one"), call("two")], tools=tools, tool_use_behavior=later if awaited else use)
    result = await Runner.run(agent, "go", context={"me": 1})
    assert seen == [({"me": 1}, [("one", "one")]), ({"me": 1}, [("one", "one"), ("two", "two")])]
    assert result.final_output == {"all": ["one", "two"]}
    assert facts(result.to_state(), "concluded")[0]["output"] == {"all": ["one", "two"]}
    assert len(facts(result.to_state(), "continued")) == 1


@pytest.mark.parametrize("given", [None, True, "done", {"is_final_output": True}, ToolsToFinalOutputResult("no")])  # type: ignore[arg-type]
async def test_a_function_that_says_nothing_readable_is_an_error_and_no_tool_runs_twice(given: Any) -> None:
    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], tool_use_behavior=lambda ctx, results: given)
    error = await leaves(UsageError, Runner.run(agent, "go"))
    assert "tool_use_behavior" in str(error)
    agent.tool_use_behavior = lambda ctx, results: ToolsToFinalOutputResult(False)
    result = await Runner.run(agent, await reloaded(agent, error.state))
    assert result.final_output == "done"
    assert sent == [("ann", 1)]


async def test_a_function_that_raises_stops_the_run_which_can_go_on() -> None:
    send, sent = sending()
    answers: list[Any] = [ValueError("down"), ToolsToFinalOutputResult(True, "ended")]

    def use(ctx: Any, results: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent = scripted(call("send", {"to": "ann"}), tools=[send], tool_use_behavior=use)
    error = await leaves(ValueError, Runner.run(agent, "go"))
    result = await Runner.run(agent, await reloaded(agent, error.state))
    assert result.final_output == "ended"
    assert sent == [("ann", 1)]


@pytest.mark.parametrize("use", ["stop_on_first_tool", {"stop_at_tool_names": ["send"]}, "callable"])
@pytest.mark.parametrize("how", ["reject", "always_reject", "fresh"])
async def test_a_call_that_did_not_run_never_ends_the_run(use: Any, how: str) -> None:
    def first(ctx: Any, results: list[ToolCallOutputItem]) -> ToolsToFinalOutputResult:
        return ToolsToFinalOutputResult(True, results[0].output)

    send, _ = sending(needs_approval=True)
    agent = scripted(
        call("send", {"to": "ann"}),
        *([call("send", {"to": "bob"})] if how == "fresh" else []),
        "done",
        tools=[send],
        tool_use_behavior=first if use == "callable" else use,
    )
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=how != "reject", rejection_message="no")
    result = await Runner.run(agent, await reloaded(agent, state))
    assert result.final_output == "done"
    assert set(told(result)) == {"no"}


async def test_an_unknown_tool_and_bad_arguments_never_end_the_run() -> None:
    send, _ = sending()
    agent = scripted([call("nothing"), call("send", "{")], "done", tools=[send], tool_use_behavior="stop_on_first_tool")
    assert (await Runner.run(agent, "go")).final_output == "done"


async def test_a_tool_that_failed_does_not_end_the_run() -> None:
    tools = [making(ValueError("failed"), "bad"), making("good", "good")]
    agent = scripted(call("bad"), [call("bad"), call("good")], tools=tools, tool_use_behavior="stop_on_first_tool")
    result = await Runner.run(agent, "go")
    assert result.final_output == "good"
    assert asked(agent) == 2


async def test_an_output_that_a_guardrail_held_back_does_not_end_the_run() -> None:
    @tool_output_guardrail
    def hold(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("For the model alone: try something else.")

    agent = scripted(
        call("make"),
        "done",
        tools=[making("secret", tool_output_guardrails=[hold])],
        tool_use_behavior="stop_on_first_tool",
    )
    assert (await Runner.run(agent, "go")).final_output == "done"


@pytest.mark.parametrize("how", ["approve", "edit", "respond"])
async def test_a_call_that_a_person_saw_to_can_end_the_run(how: str) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "never", tools=[send], tool_use_behavior="stop_on_first_tool")
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    [item] = result.interruptions
    if how == "approve":
        state.approve(item)
    elif how == "edit":
        state.edit(item, {"to": "bob"})
    else:
        state.respond(item, {"by": "hand"})
    result = await Runner.run(agent, state)
    ends: dict[str, Any] = {"approve": "sent 1 to ann", "edit": "sent 1 to bob", "respond": {"by": "hand"}}
    assert result.final_output == ends[how]
    assert asked(agent) == 1
    assert len(sent) == (how != "respond")


async def test_the_run_does_not_end_while_a_sibling_waits() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(
        [call("make"), call("send", {"to": "ann"})],
        tools=[making("made"), send],
        tool_use_behavior="stop_on_first_tool",
    )
    result = await Runner.run(agent, "go")
    assert result.final_output is None
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert result.final_output == "made", "its JSON form, after the reload"
    assert sent == [("ann", 1)]


async def test_a_turn_that_hands_over_does_not_end_the_run() -> None:
    other = scripted("done", name="other")
    agent = scripted(
        [call("make"), call("transfer_to_other")],
        tools=[making("made")],
        handoffs=[other],
        tool_use_behavior="stop_on_first_tool",
    )
    result = await Runner.run(agent, "go")
    assert result.final_output == "done"
    assert result.last_agent is other


async def test_a_handoff_that_was_rejected_leaves_the_tools_output() -> None:
    other = scripted("never", name="other")
    agent = scripted(
        [call("transfer_to_other"), call("make")],
        tools=[making("made")],
        handoffs=[handoff(other, needs_approval=True)],
        tool_use_behavior="stop_on_first_tool",
    )
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0])
    result = await Runner.run(agent, state)
    assert result.final_output == "made"
    assert result.last_agent is agent


async def test_a_body_that_asks_ends_the_run_when_it_has_its_answer() -> None:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        return f"booked {await ctx.ask('When?')}"

    agent = scripted(call("book"), tools=[book], tool_use_behavior="stop_on_first_tool")
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    state.respond(result.interruptions[0], "noon")
    assert (await Runner.run(agent, state)).final_output == "booked noon"


async def test_a_nested_agent_whose_tools_end_its_run() -> None:
    inner = scripted(call("make"), name="inner", tools=[making("made")], tool_use_behavior="stop_on_first_tool")
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()])
    result = await Runner.run(agent, "go")
    assert told(result) == ["made"]
    assert asked(inner) == 1


async def test_new_input_after_tools_ended_a_run() -> None:
    agent = scripted(
        call("make"), call("make"), "never", tools=[making("made")], tool_use_behavior="stop_on_first_tool"
    )
    state = await reloaded(agent, (await Runner.run(agent, "go")).to_state())
    state.add_input("again")
    result = await Runner.run(agent, state)
    assert result.final_output == "made"
    assert asked(agent) == 2
    assert [item.get("type") for item in heard(agent)] == [None, "function_call", "function_call_output", None]


async def test_an_output_that_tools_give_is_of_the_agents_type() -> None:
    """An instance of the output type, whoever gave it."""
    for given in (Order(item="tea", howMany=2), {"item": "tea", "howMany": 2}):
        agent = scripted(call("make"), tools=[making(given)], tool_use_behavior="stop_on_first_tool", output_type=Order)
        result = await Runner.run(agent, "go")
        assert result.final_output == Order(item="tea", howMany=2)
        assert isinstance(result.final_output, Order)


async def test_an_output_of_tools_that_does_not_fit_the_type_is_an_error_and_the_run_can_go_on() -> None:
    send, sent = sending()
    agent = scripted(
        call("send", {"to": "ann"}), POINT, tools=[send], tool_use_behavior="stop_on_first_tool", output_type=Point
    )
    error = await leaves(InvalidOutput, Runner.run(agent, "go"))
    assert "Point" in str(error)
    state = await reloaded(agent, error.state)
    state.add_input("Then say it yourself.")
    result = await Runner.run(agent, state)
    assert result.final_output == Point(1, 2)
    assert sent == [("ann", 1)]


@pytest.mark.parametrize("value", ["made", {"n": 1}, 5, None])
async def test_an_output_of_tools_can_need_approval(value: Any) -> None:
    agent = scripted(
        call("make"), tools=[making(value)], tool_use_behavior="stop_on_first_tool", output_needs_approval=True
    )
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert "approve" in item.allowed
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    assert json.loads(item.arguments) == {"output": text}
    state = await reloaded(agent, result.to_state())
    state.approve(item)
    assert (await Runner.run(agent, state)).final_output == text


async def test_a_rejected_output_of_tools_is_another_try_for_the_model() -> None:
    agent = scripted(
        call("make"),
        "mine",
        tools=[making("made")],
        tool_use_behavior="stop_on_first_tool",
        output_needs_approval=lambda ctx, params, id: params["output"] == "made",
    )
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    state.reject(result.interruptions[0], rejection_message="In your own words.")
    result = await Runner.run(agent, state)
    assert result.final_output == "mine"
    assert heard(agent)[-1]["content"] == "In your own words."


async def test_a_final_output_of_nothing_is_an_output() -> None:
    agent = scripted(
        call("make"), tools=[making("x")], tool_use_behavior=lambda ctx, results: ToolsToFinalOutputResult(True)
    )
    result = await Runner.run(agent, "go")
    assert result.final_output is None
    assert result.to_state().status == "done"


async def test_when_what_tools_lead_to_changes_a_load_says_so() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    changed = agent.clone(tool_use_behavior="stop_on_first_tool")
    with pytest.warns(UserWarning, match="outputs lead to"):
        state = await reloaded(changed, result.to_state())
    assert state.changes


# -- agents that cannot be ---------------------------------------------------------------------------------------

WRONG: list[tuple[str, Any]] = [
    ("output_needs_approval", "yes"),
    ("output_needs_approval", None),
    ("output_needs_approval", 1),
    ("output_type", "Point"),
    ("output_type", 5),
    ("output_type", lambda: 1),
    ("output_type", dict[str, Any]),
    ("tool_use_behavior", "stop"),
    ("tool_use_behavior", None),
    ("tool_use_behavior", {"stop_at": []}),
    ("tool_use_behavior", {"stop_at_tool_names": "send"}),
    ("tool_use_behavior", {"stop_at_tool_names": None}),
    ("tool_use_behavior", {"stop_at_tool_names": [5]}),
    ("tool_use_behavior", {"stop_at_tool_names": [], "more": 1}),
    ("model_settings", {"temperature": 1}),
    ("model_settings", None),
    ("hooks", object()),
    ("hooks", "hooks"),
    ("reset_tool_choice", "no"),
    ("handoff_description", 5),
    ("handoff_description", type("Words", (str,), {})("Knows refunds.")),
    ("tools", None),
    ("tools", "send"),
    ("tools", [5]),
    ("handoffs", None),
    ("handoffs", [5]),
    ("input_guardrails", [5]),
    ("output_guardrails", [5]),
    ("model", 5),
    ("instructions", 5),
]


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_an_agent_that_cannot_be_is_refused_by_its_name_and_what_is_wrong(option: str, value: Any) -> None:
    what = {"output_type": "[Oo]utput type", "tools": "tool", "handoffs": "handoff"}.get(option, option)
    with pytest.raises(InvalidDefinition, match=rf"Agent 'clerk'.*{what}"):
        Agent("clerk", **{option: value})
    with pytest.raises(InvalidDefinition, match="Agent 'clerk'"):
        Agent("clerk").clone(**{option: value})


async def test_outputs_are_guarded_approved_and_recorded_once_in_a_stream_of_a_run_that_hands_over() -> None:
    watch = Watch()
    other = scripted(
        POINT, name="other", output_type=Point, output_needs_approval=True, output_guardrails=[OutputGuardrail(watch)]
    )
    agent = Agent("agent", handoffs=[other], model=ScriptedModel([call("transfer_to_other")]))
    streamed = Runner.run_streamed(agent, "go")
    async for _ in streamed.stream_events():
        pass
    state = await reloaded(agent, streamed.to_state())
    state.approve(state.get_interruptions()[0])
    streamed = Runner.run_streamed(agent, state)
    async for _ in streamed.stream_events():
        pass
    assert streamed.final_output == Point(1, 2)
    assert watch.saw == [Point(1, 2)]
    assert len(facts(streamed.to_state(), "concluded")) == 1


async def test_an_output_that_was_changed_is_told_to_whoever_goes_on_with_the_talk() -> None:
    agent = scripted("The code is 1234.", output_needs_approval=True)
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.edit(result.interruptions[0], {"output": "The code is secret."})
    result = await Runner.run(agent, state)
    told = result.to_input_list()[-1]
    assert told["role"] == "user" and '{"output":"The code is secret."}' in told["content"]
