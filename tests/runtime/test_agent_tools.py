"""Agents as tools: a call that is a run of its own inside the run."""

import asyncio
import copy
import dataclasses
import json
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from assentry import (
    Agent,
    AgentTool,
    AgentUpdatedStreamEvent,
    ApprovalDecidedEvent,
    ApprovalRequestedEvent,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    RawResponsesStreamEvent,
    RunConfig,
    RunItemStreamEvent,
    Runner,
    RunResult,
    RunState,
    SQLiteSession,
    ToolApprovalItem,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    function_tool,
    handoff,
)
from assentry.errors import (
    AgentFailed,
    DefinitionChanged,
    InputGuardrailTripwireTriggered,
    InvalidArguments,
    InvalidDecision,
    InvalidDefinition,
    InvalidInput,
    MaxTurnsExceeded,
    ModelFailed,
    NotPending,
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
    soon,
    stopped,
    told,
)


def ask(name: str = "inner", input: str = "do it", call_id: str | None = None) -> Any:
    """A call of an agent tool."""
    return call(name, {"input": input}, call_id)


def mail(to: str) -> Any:
    """A call of `send`."""
    return call("send", {"to": to})


def nested(*inner: Any, tools: Any = (), outer: Any = None, **options: Any) -> tuple[Agent[Any], Agent[Any]]:
    """An agent whose one tool is another agent."""
    below = scripted(*inner, name="inner", tools=tools)
    above = scripted(*(outer or [ask()]), "end", name="outer", tools=[below.as_tool(**options)])
    return above, below


async def go_on(agent: Agent[Any], state: RunState[Any], **options: Any) -> RunResult:
    """Approve what waits, write the state down, read it again, and resume."""
    for item in state.get_interruptions():
        state.approve(item)
    return await Runner.run(agent, await reloaded(agent, state), **options)


# -- defining ----------------------------------------------------------------------------------------


def test_an_agent_tool_takes_one_text() -> None:
    tool = Agent("Deep Thought!", handoff_description="Knows.").as_tool()
    assert isinstance(tool, AgentTool)
    assert (tool.name, tool.description, tool.kind) == ("deep_thought_", "Knows.", "agent")
    assert list(tool.params_json_schema["properties"]) == ["input"]
    assert tool.params_json_schema["required"] == ["input"]
    named = Agent("x").as_tool("solve", "Solves it.")
    assert (named.name, named.description) == ("solve", "Solves it.")


@pytest.mark.parametrize(
    "options",
    [
        {"needs_approval": "yes"},
        {"on_approval": 1},
        {"is_enabled": None},
        {"failure_error_function": "x"},
        {"custom_output_extractor": 1},
        {"on_stream": 1},
        {"input_builder": 1},
        {"max_turns": 0},
        {"max_turns": True},
        {"max_turns": "3"},
        {"parameters": int},
        {"parameters": dict[str, int]},
        {"tool_name": 5},
        {"version": 5},
    ],
)
def test_what_is_wrong_with_an_agent_tool_is_said_at_construction(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        Agent("x").as_tool(**options)


def test_two_tools_of_one_name_are_an_error_at_construction() -> None:
    with pytest.raises(InvalidDefinition, match="two tools named 'send'"):
        Agent("x", tools=[sending()[0], Agent("send").as_tool()])


@pytest.mark.parametrize("arguments", ["{}", '{"input": 5}', '{"input": "x", "more": 1}', "do it", ""])
async def test_bad_arguments_ask_no_agent(arguments: str) -> None:
    outer, inner = nested(outer=[call("inner", arguments)])
    result = await Runner.run(outer, "go")
    assert asked(inner) == 0
    assert outcomes(result)[0].status == "refused"


# -- running -----------------------------------------------------------------------------------------


async def test_an_agent_that_is_a_tool_gives_its_final_output() -> None:
    outer, inner = nested("42")
    result = await Runner.run(outer, "go")
    assert heard(inner) == [{"role": "user", "content": "do it"}]
    assert told(result) == ["42"]
    assert (result.final_output, result.last_agent) == ("end", outer)
    assert [item.type for item in result.new_items] == [
        "tool_call_item",
        "tool_call_output_item",
        "message_output_item",
    ]
    assert heard(outer)[-1]["output"] == "42"


async def test_usage_of_an_agent_that_is_a_tool_counts() -> None:
    send, _ = sending(needs_approval=True)
    outer, _ = nested(mail("ann"), "done", tools=[send])
    result = await Runner.run(outer, "go")
    assert result.context_wrapper.usage.requests == 2
    result = await go_on(outer, result.to_state())
    assert result.context_wrapper.usage.requests == 4
    assert result.context_wrapper.usage.total_tokens == 4 * 15


async def test_the_context_is_shared() -> None:
    seen: list[Any] = []

    @function_tool
    async def look(ctx: ToolContext[Any]) -> str:
        seen.append(ctx.context)
        return "seen"

    outer, _ = nested(call("look"), "done", tools=[look])
    mine = object()
    await Runner.run(outer, "go", context=mine)
    assert seen == [mine]


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 12])
async def test_a_question_comes_up_from_any_depth_and_nothing_restarts(depth: int) -> None:
    send, sent = sending(needs_approval=True)
    agents = [scripted(mail("ann"), mail("bob"), "deep", name=f"a{depth}", tools=[send])]
    for level in reversed(range(depth)):
        below = agents[0]
        agents.insert(0, scripted(ask(below.name), f"from {level}", name=f"a{level}", tools=[below.as_tool()]))
    root = agents[0]
    result = await Runner.run(root, "go")
    for to in ("ann", "bob"):
        [item] = result.interruptions
        assert (item.agent, item.path) == (agents[-1], ("c1",) * depth)
        assert json.loads(item.arguments)["to"] == to
        text = result.to_state().to_string()
        [peeked] = RunState.peek(text).waiting
        assert (peeked.agent, peeked.path, RunState.peek(text).agent) == (f"a{depth}", ("c1",) * depth, "a0")
        result = await go_on(root, result.to_state())
    assert (sent, result.final_output) == ([("ann", 1), ("bob", 1)], "from 0")
    assert [asked(each) for each in agents] == [2] * depth + [3]
    assert result.context_wrapper.usage.requests == 2 * depth + 3


async def test_several_agents_work_at_once() -> None:
    together = asyncio.Barrier(3)

    @function_tool
    async def meet() -> str:
        await together.wait()
        return "met"

    tools = [scripted(call("meet"), f"{n} done", name=n, tools=[meet]).as_tool() for n in ("x", "y", "z")]
    outer = scripted([ask("x"), ask("y"), ask("z")], "end", name="outer", tools=tools)
    result = await soon(Runner.run(outer, "go"))
    assert told(result) == ["x done", "y done", "z done"]


async def test_the_same_agent_can_be_asked_twice_in_a_turn() -> None:
    send, sent = sending(needs_approval=True)

    def step(request: Any) -> Any:
        words = request.input[0]["content"]
        return mail(words) if len(request.input) == 1 else f"told {words}"

    inner = Agent("inner", model=ScriptedModel(step for _ in range(9)), tools=[send])
    outer = scripted([ask(input="ann"), ask(input="bob")], "end", name="outer", tools=[inner.as_tool()])
    result = await Runner.run(outer, "go")
    one, two = result.interruptions
    assert (one.path, two.path) == (("c1",), ("c2",))
    assert one.call_id == two.call_id, "the provider's ids are the same, and confuse nobody"
    state = await reloaded(outer, result.to_state())
    state.approve(two)
    result = await Runner.run(outer, state)
    assert (sent, result.interruptions) == ([("bob", 1)], [one])
    assert asked(inner) == 3, "the second goes on, the first waits"
    state = result.to_state()
    state.reject(one)
    result = await Runner.run(outer, state)
    assert (sent, told(result)) == ([("bob", 1)], ["told ann", "told bob"])


async def test_both_layers_can_need_approval() -> None:
    send, sent = sending(needs_approval=True)
    outer, inner = nested(mail("ann"), "done", tools=[send], needs_approval=True)
    result = await Runner.run(outer, "go")
    [item] = result.interruptions
    assert (item.agent, item.name, item.path, item.arguments) == (outer, "inner", (), '{"input":"do it"}')
    assert asked(inner) == 0
    result = await go_on(outer, result.to_state())
    [item] = result.interruptions
    assert (item.agent, item.name, item.path) == (inner, "send", ("c1",))
    result = await go_on(outer, result.to_state())
    assert (sent, told(result)) == ([("ann", 1)], ["done"])


async def test_a_rule_and_code_can_decide_on_the_delegation() -> None:
    def secret(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        return "secret" in params["input"]

    def never(ctx: Any, item: ToolApprovalItem) -> dict[str, Any]:
        return {"approve": False, "reason": "no secrets"}

    steps: Any = [[ask(input="plain"), ask(input="a secret")]]
    outer, inner = nested("done", outer=steps, needs_approval=secret, on_approval=never)
    result = await Runner.run(outer, "go")
    assert told(result) == ["done", "no secrets"]
    assert asked(inner) == 1


async def test_a_rejected_delegation_asks_no_agent() -> None:
    outer, inner = nested(needs_approval=True)
    state = (await Runner.run(outer, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="do it yourself")
    result = await Runner.run(outer, state)
    assert (told(result), asked(inner)) == (["do it yourself"], 0)


async def test_a_person_may_answer_for_an_agent() -> None:
    outer, inner = nested(needs_approval=True)
    state = (await Runner.run(outer, "go")).to_state()
    state.respond(state.get_interruptions()[0], {"answer": 42})
    result = await Runner.run(outer, state)
    assert (told(result), asked(inner)) == (['{"answer":42}'], 0)


async def test_an_edited_delegation_tells_the_agent_what_the_person_wrote() -> None:
    outer, inner = nested("done", needs_approval=True)
    state = (await Runner.run(outer, "go")).to_state()
    [item] = state.get_interruptions()
    refused(lambda: state.edit(item, {"input": 5}), InvalidArguments, state)
    refused(lambda: state.edit(item, {"text": "x"}), InvalidArguments, state)
    state.edit(item, {"input": "do less"})
    result = await Runner.run(outer, await reloaded(outer, state))
    assert heard(inner) == [{"role": "user", "content": "do less"}]
    assert told(result)[0].startswith("done")
    assert '{"input":"do less"}' in told(result)[0]


async def test_a_person_may_choose_another_agent_and_no_other_kind() -> None:
    send, _ = sending()
    one, two = scripted(name="one"), scripted("two's words", name="two")
    outer = scripted(ask("one"), "end", name="outer", tools=[one.as_tool(needs_approval=True), two.as_tool(), send])
    state = (await Runner.run(outer, "go")).to_state()
    [item] = state.get_interruptions()
    refused(lambda: state.edit(item, {"to": "ann"}, tool="send"), InvalidDecision, state)
    state.edit(item, {"input": "x"}, tool="two")
    result = await Runner.run(outer, await reloaded(outer, state))
    assert told(result)[0].startswith("two's words")
    assert (asked(one), asked(two)) == (0, 1)


# -- partial decisions -------------------------------------------------------------------------------


async def test_decided_calls_inside_go_on_and_the_model_is_not_asked_until_all_are() -> None:
    send, sent = sending(needs_approval=True)
    outer, inner = nested([mail("ann"), mail("bob"), mail("eve")], "done", tools=[send])
    result = await Runner.run(outer, "go")
    for n, expected in enumerate((["ann"], ["ann", "bob"])):
        state = await reloaded(outer, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(outer, state)
        assert [to for to, _ in sent] == expected
        assert (asked(inner), asked(outer), len(result.interruptions)) == (1, 1, 2 - n)
    state = result.to_state()
    state.reject(state.get_interruptions()[0], rejection_message="not eve")
    result = await Runner.run(outer, state)
    assert (asked(inner), asked(outer), len(sent)) == (2, 2, 2)
    assert [item["output"] for item in heard(inner)[-3:]] == ["sent 1 to ann", "sent 1 to bob", "not eve"]


async def test_questions_of_several_layers_are_settled_in_any_order() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted(mail("deep"), "inner done", name="inner", tools=[send])
    outer = scripted([mail("flat"), ask()], "end", name="outer", tools=[send, inner.as_tool()])
    result = await Runner.run(outer, "go")
    flat, deep = result.interruptions
    assert (flat.path, deep.path) == ((), ("c2",))
    state = result.to_state()
    state.approve(deep)
    result = await Runner.run(outer, await reloaded(outer, state))
    assert (sent, result.interruptions, asked(inner), asked(outer)) == ([("deep", 1)], [flat], 2, 1)
    result = await go_on(outer, result.to_state())
    assert told(result) == ["sent 1 to flat", "inner done"]
    assert asked(inner) == 2


async def test_released_as_a_batch_inside_nothing_of_the_turn_runs_until_all_is_settled() -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["to"] != "free")
    outer, _ = nested([mail("free"), mail("ann"), mail("bob")], "done", tools=[send])
    result = await Runner.run(outer, "go", run_config=RunConfig(release="batch"))
    assert sent == []
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(outer, await reloaded(outer, state))
    assert sent == []
    await go_on(outer, result.to_state())
    assert sorted(to for to, _ in sent) == ["ann", "bob", "free"]


async def test_released_as_a_batch_a_delegation_waits_for_the_turns_questions() -> None:
    send, _ = sending(needs_approval=True)
    inner = scripted("inner done", name="inner")
    outer = scripted([ask(), mail("ann")], "end", name="outer", tools=[send, inner.as_tool()])
    result = await Runner.run(outer, "go", run_config=RunConfig(release="batch"))
    assert asked(inner) == 0
    await go_on(outer, result.to_state())
    assert asked(inner) == 1


async def test_a_body_inside_may_ask() -> None:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        return f"booked for {await ctx.ask('When?', schema=str)}"

    outer, inner = nested(call("book"), "done", tools=[book])
    result = await Runner.run(outer, "go")
    [item] = result.interruptions
    assert (item.kind, item.question, item.path, item.agent) == ("input", "When?", ("c1",), inner)
    state = await reloaded(outer, result.to_state())
    state.respond(item, "noon")
    await Runner.run(outer, state)
    assert heard(inner)[-1]["output"] == "booked for noon"


async def test_an_output_inside_can_need_approval() -> None:
    inner = scripted("a rude word", "a kind word", name="inner", output_needs_approval=True)
    outer = scripted(ask(), "end", name="outer", tools=[inner.as_tool()])
    result = await Runner.run(outer, "go")
    [item] = result.interruptions
    assert (item.name, item.path, item.agent) == ("final_output", ("c1",), inner)
    state = await reloaded(outer, result.to_state())
    state.reject(item, rejection_message="be kind")
    result = await go_on(outer, (await Runner.run(outer, state)).to_state())
    assert told(result) == ["a kind word"]
    assert asked(inner) == 2


# -- grants ------------------------------------------------------------------------------------------


async def test_always_inside_covers_later_calls_and_later_invocations_and_no_other_place() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted(mail("a"), mail("b"), "one", mail("c"), "two", name="same", tools=[send])
    outer = scripted(ask("ask_it"), ask("ask_it"), mail("d"), "end", name="same", tools=[send, inner.as_tool("ask_it")])
    result = await Runner.run(outer, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await Runner.run(outer, await reloaded(outer, state))
    assert [to for to, _ in sent] == ["a", "b", "c"]
    [item] = result.interruptions
    assert (item.agent, item.path, json.loads(item.arguments)["to"]) == (outer, (), "d")
    [grant] = result.to_state().grants()
    assert (grant.agent, grant.tool) == ("same/ask_it", "send")


async def test_always_outside_does_not_reach_inside() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted(mail("deep"), "done", name="same", tools=[send])
    outer = scripted(mail("flat"), ask("ask_it"), "end", name="same", tools=[send, inner.as_tool("ask_it")])
    state = (await Runner.run(outer, "go")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await Runner.run(outer, state)
    assert [to for to, _ in sent] == ["flat"]
    assert result.interruptions[0].agent is inner


async def test_always_reject_inside_beats_always_approve() -> None:
    send, sent = sending(needs_approval=True)
    outer, inner = nested([mail("a"), mail("b")], mail("c"), "done", tools=[send])
    state = (await Runner.run(outer, "go")).to_state()
    one, two = state.get_interruptions()
    state.approve(one, always_approve=True)
    state.reject(two, always_reject=True, rejection_message="no more")
    await Runner.run(outer, await reloaded(outer, state))
    assert [to for to, _ in sent] == ["a"]
    assert heard(inner)[-1]["output"] == "no more"


async def test_two_agents_of_one_name_do_not_share_a_grant() -> None:
    send, sent = sending(needs_approval=True)
    one = scripted(mail("a"), "one", name="twin", tools=[send])
    two = scripted(mail("b"), "two", name="twin", tools=[send])
    outer = scripted(ask("one"), ask("two"), "end", name="outer", tools=[one.as_tool("one"), two.as_tool("two")])
    state = (await Runner.run(outer, "go")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await Runner.run(outer, await reloaded(outer, state))
    assert [to for to, _ in sent] == ["a"]
    assert result.interruptions[0].agent is two


async def test_always_on_a_delegation_covers_it_and_not_what_is_inside() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted("one", mail("a"), "two", name="inner", tools=[send])
    outer = scripted(ask(), ask(), "end", name="outer", tools=[inner.as_tool(needs_approval=True)])
    state = (await Runner.run(outer, "go")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await Runner.run(outer, state)
    assert [item.name for item in result.interruptions] == ["send"]
    assert sent == []


# -- input -------------------------------------------------------------------------------------------


class Order(BaseModel):
    what: str
    count: int = 1


@dataclasses.dataclass
class OrderData:
    what: str
    count: int = 1


class OrderDict(TypedDict):
    what: str


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(Order, {"what": "tea", "count": 1}), (OrderData, {"what": "tea", "count": 1}), (OrderDict, {"what": "tea"})],
)
async def test_an_agent_tool_can_take_a_type(kind: Any, expected: Any) -> None:
    outer, inner = nested("done", outer=[call("inner", {"what": "tea"})], parameters=kind)
    await Runner.run(outer, "go")
    assert json.loads(heard(inner)[0]["content"]) == expected
    [spec] = outer.model.requests[0].tools  # type: ignore[union-attr]
    assert "what" in spec.parameters["properties"]


@pytest.mark.parametrize("arguments", ["{}", '{"what": 5}', '{"what": "tea", "sugar": true}', '{"input": "x"}'])
async def test_arguments_that_do_not_fit_the_type_are_refused(arguments: str) -> None:
    outer, inner = nested(outer=[call("inner", arguments)], parameters=Order)
    result = await Runner.run(outer, "go")
    assert (outcomes(result)[0].status, asked(inner)) == ("refused", 0)


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_an_input_builder_makes_the_input(asynchronous: bool) -> None:
    def build(args: dict[str, Any]) -> Any:
        return [{"role": "user", "content": f"{args['count']} x {args['what']}"}]

    async def later(args: dict[str, Any]) -> Any:
        return build(args)

    outer, inner = nested(
        "done",
        outer=[call("inner", {"what": "tea"})],
        parameters=Order,
        input_builder=later if asynchronous else build,
    )
    await Runner.run(outer, "go")
    assert heard(inner) == [{"role": "user", "content": "1 x tea"}]


async def test_an_input_builder_cannot_change_what_was_approved() -> None:
    def build(args: dict[str, Any]) -> str:
        args["input"] = "changed"
        return "said"

    outer, inner = nested("done", needs_approval=True, input_builder=build)
    state = (await Runner.run(outer, "go")).to_state()
    result = await go_on(outer, state)
    assert heard(inner)[0]["content"] == "said"
    assert told(result) == ["done"]


@pytest.mark.parametrize("bad", [None, 5, {"role": "user"}, ["text"], "\ud800", [{"content": object()}], []])
async def test_an_input_builder_that_gives_something_else_is_an_error_of_its_author(bad: Any) -> None:
    good: list[str] = []
    outer, inner = nested("done", input_builder=lambda args: good[0] if good else bad)
    with pytest.raises(InvalidInput, match="input_builder") as caught:
        await Runner.run(outer, "go")
    good.append("fixed")
    result = await Runner.run(outer, await reloaded(outer, caught.value.state))
    assert heard(inner)[0]["content"] == "fixed"
    assert told(result) == ["done"]


@pytest.mark.parametrize("depth", [1, 2])
async def test_an_input_builder_that_raises_is_a_failure_of_its_tool(depth: int) -> None:
    def build(args: dict[str, Any]) -> str:
        raise ValueError("no words")

    leaf = scripted(name="leaf")
    outer = scripted(ask("leaf"), "sorry", name="outer", tools=[leaf.as_tool(input_builder=build)])
    if depth == 2:
        outer = scripted(ask("outer"), "end", name="top", tools=[outer.as_tool()])
    result = await Runner.run(outer, "go")
    assert asked(leaf) == 0
    if depth == 1:
        assert told(result) == ["The tool failed with ValueError: no words"]
        assert outcomes(result)[0].status == "failed"
    else:
        assert told(result) == ["sorry"]


# -- output ------------------------------------------------------------------------------------------


async def test_a_typed_output_is_the_tools_output() -> None:
    inner = Agent("inner", model=ScriptedModel(['{"what": "tea", "count": 2}']), output_type=Order)
    outer = scripted(ask(), "end", name="outer", tools=[inner.as_tool()])
    result = await Runner.run(outer, "go")
    assert outputs(result)[0].output == Order(what="tea", count=2)
    assert json.loads(told(result)[0]) == {"what": "tea", "count": 2}


async def test_an_output_that_does_not_validate_is_a_failure_of_its_tool() -> None:
    inner = Agent("inner", model=ScriptedModel(["no JSON"]), output_type=Order)
    outer = scripted(ask(), "end", name="outer", tools=[inner.as_tool()])
    result = await Runner.run(outer, "go")
    assert "InvalidOutput" in told(result)[0]
    assert outcomes(result)[0].status == "failed"


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_an_extractor_makes_the_output_of_the_nested_result(asynchronous: bool) -> None:
    send, _ = sending(needs_approval=True)
    seen: list[RunResult] = []

    def extract(result: RunResult) -> Any:
        seen.append(result)
        with pytest.raises(UsageError, match="outer run"):
            result.to_state()
        return {"said": result.final_output, "items": len(result.new_items)}

    async def later(result: RunResult) -> Any:
        return extract(result)

    outer, inner = nested(mail("ann"), "done", tools=[send], custom_output_extractor=later if asynchronous else extract)
    result = await go_on(outer, (await Runner.run(outer, "go")).to_state())
    assert outputs(result)[0].output == {"said": "done", "items": 3}
    [given] = seen
    assert isinstance(given, RunResult)
    assert (given.input, given.last_agent, given.interruptions) == ("do it", inner, [])
    assert [type(item).__name__ for item in given.new_items] == [
        "ToolCallItem",
        "ToolCallOutputItem",
        "MessageOutputItem",
    ]
    assert len(given.raw_responses) == 2
    assert len(given.to_input_list()) == 4


async def test_an_extractor_that_raises_is_a_failure_of_its_tool() -> None:
    def extract(result: RunResult) -> Any:
        raise ValueError("nothing there")

    outer, _ = nested("done", custom_output_extractor=extract)
    result = await Runner.run(outer, "go")
    assert told(result) == ["The tool failed with ValueError: nothing there"]


async def test_stop_on_first_tool_takes_an_agents_output() -> None:
    inner = Agent("inner", model=ScriptedModel(['{"what": "tea"}']), output_type=Order)
    outer = scripted(ask(), name="outer", tools=[inner.as_tool()], tool_use_behavior="stop_on_first_tool")
    assert (await Runner.run(outer, "go")).final_output == Order(what="tea")


# -- failures ----------------------------------------------------------------------------------------


def raising(error: Exception) -> FunctionTool:
    """A tool whose exception reaches whoever runs the agent."""

    @function_tool(failure_error_function=None)
    async def fail() -> str:
        raise error

    return fail


def tripping() -> InputGuardrail:
    return InputGuardrail(lambda ctx, agent, input: GuardrailFunctionOutput("bad", True), name="trip")


def failing(how: str) -> Agent[Any]:
    """An agent that comes to no output."""
    if how == "model":
        return scripted(ModelFailed("down"), name="inner")
    if how == "tool":
        return scripted(call("fail"), name="inner", tools=[raising(ValueError("broken"))])
    if how == "guardrail":
        return scripted("never", name="inner", input_guardrails=[tripping()])
    nothing, _ = sending()
    return scripted(*[mail("x")] * 9, name="inner", tools=[nothing])


FAILURES = [
    ("model", ModelFailed, "down"),
    ("tool", ValueError, "broken"),
    ("guardrail", InputGuardrailTripwireTriggered, "trip"),
    ("turns", MaxTurnsExceeded, "2 turns"),
]


@pytest.mark.parametrize(("how", "kind", "words"), FAILURES)
async def test_the_model_is_told_of_an_agent_that_fails(how: str, kind: type[Exception], words: str) -> None:
    inner = failing(how)
    outer = scripted(ask(), "end", name="outer", tools=[inner.as_tool(max_turns=2)])
    result = await Runner.run(outer, "go")
    assert kind.__name__ in told(result)[0]
    assert words in told(result)[0]
    assert (outcomes(result)[0].status, outcomes(result)[0].reason) == ("failed", kind.__name__)
    assert result.final_output == "end"
    assert len((await reloaded(outer, result.to_state())).to_string()) > 0


@pytest.mark.parametrize(("how", "kind", "words"), FAILURES)
async def test_a_failure_function_words_it(how: str, kind: type[Exception], words: str) -> None:
    seen: list[Any] = []

    async def word(ctx: ToolContext[Any], error: Exception) -> str:
        seen.append((type(error), ctx.tool_name, ctx.call_id, ctx.arguments))
        return "it is ill"

    inner = failing(how)
    tool = inner.as_tool(max_turns=2, failure_error_function=word)  # type: ignore[arg-type]
    outer = scripted(ask(call_id="x"), "end", name="outer", tools=[tool])
    result = await Runner.run(outer, "go")
    assert told(result) == ["it is ill"]
    assert seen == [(kind, "inner", "x", '{"input":"do it"}')]


@pytest.mark.parametrize(("how", "kind", "words"), FAILURES)
async def test_without_a_failure_function_it_is_raised_and_the_rest_can_be_resumed(
    how: str, kind: type[Exception], words: str
) -> None:
    send, sent = sending(needs_approval=True)
    other = scripted(mail("ann"), "other done", name="other", tools=[send])
    tools = [failing(how).as_tool(max_turns=2, failure_error_function=None), other.as_tool()]
    outer = scripted([ask(), ask("other")], "end", name="outer", tools=tools)
    with pytest.raises(kind, match=words) as caught:
        await Runner.run(outer, "go")
    if how == "guardrail":  # a tripwire that leaves a run closes it
        assert caught.value.state.status == "closed"  # type: ignore[attr-defined]
        return
    state: RunState[Any] = await reloaded(outer, caught.value.state)  # type: ignore[attr-defined]
    result = await Runner.run(outer, state)
    assert [item.path for item in result.interruptions] == [("c2",)]
    result = await go_on(outer, result.to_state())
    assert (sent, told(result)[1], result.final_output) == ([("ann", 1)], "other done", "end")
    assert words in told(result)[0]


async def test_a_failure_deep_down_is_told_to_the_agent_above_it() -> None:
    deep = failing("tool")
    middle = scripted(ask("inner"), "middle copes", name="middle", tools=[deep.as_tool()])
    outer = scripted(ask("middle"), "end", name="outer", tools=[middle.as_tool()])
    result = await Runner.run(outer, "go")
    assert "broken" in heard(middle)[-1]["output"]
    assert told(result) == ["middle copes"]


async def test_a_failure_that_is_raised_deep_down_fails_the_agent_above_it() -> None:
    deep = failing("tool")
    middle = scripted(ask("inner"), name="middle", tools=[deep.as_tool(failure_error_function=None)])
    outer = scripted(ask("middle"), "end", name="outer", tools=[middle.as_tool()])
    result = await Runner.run(outer, "go")
    assert told(result) == ["The tool failed with ValueError: broken"]
    assert asked(middle) == 1


async def test_a_question_of_an_agent_that_failed_is_not_open_any_more() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted([call("fail"), mail("ann")], name="inner", tools=[raising(ValueError("broken")), send])
    gate, _ = sending(needs_approval=True, name_override="gate")
    outer = scripted([ask(), call("gate", {"to": "x"})], "end", name="outer", tools=[inner.as_tool(), gate])
    streamed = Runner.run_streamed(outer, "go")
    seen = [event.item async for event in streamed.stream_events() if isinstance(event, ApprovalRequestedEvent)]
    [lost] = [item for item in seen if item.name == "send"]
    state = streamed.to_state()
    assert [item.name for item in state.get_interruptions()] == ["gate"]
    refused(lambda: state.approve(lost), NotPending, state)
    refused(lambda: state.reject(lost), NotPending, state)
    await go_on(outer, state)
    assert sent == []


async def test_a_branch_and_a_branch_inside_it_may_both_fail() -> None:
    first, second = asyncio.Event(), asyncio.Event()

    @function_tool(failure_error_function=None)
    async def early() -> str:
        await second.wait()
        first.set()
        raise ValueError("early")

    @function_tool(failure_error_function=None)
    async def late() -> str:
        second.set()
        await first.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        raise ValueError("late")

    deep = scripted(call("late"), name="deep", tools=[late])
    middle = scripted([ask("deep"), call("early")], name="middle", tools=[deep.as_tool(), early])
    outer = scripted(ask("middle"), "end", name="outer", tools=[middle.as_tool()])
    result = await soon(Runner.run(outer, "go"))
    assert told(result) == ["The tool failed with ValueError: early"]
    assert result.final_output == "end"
    assert await reloaded(outer, result.to_state())


async def test_a_guardrail_before_approval_fails_the_branch_it_is_in_and_no_other() -> None:
    def trip(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.raise_exception()

    guarded, _ = sending(needs_approval=True, tool_input_guardrails=[ToolInputGuardrail(trip, name="trip")])
    plain, sent = sending(needs_approval=True)
    bad = scripted(mail("bad"), name="bad", tools=[guarded])
    good = scripted(mail("good"), "good done", name="good", tools=[plain])
    outer = scripted([ask("good"), ask("bad")], "end", name="outer", tools=[good.as_tool(), bad.as_tool()])
    config = RunConfig(pre_approval_tool_input_guardrails=True)
    result = await Runner.run(outer, "go", run_config=config)
    assert [item.path for item in result.interruptions] == [("c1",)]
    result = await go_on(outer, result.to_state(), run_config=config)
    assert sent == [("good", 1)]
    assert told(result)[0] == "good done"
    assert "trip" in told(result)[1]


async def test_a_run_that_fails_after_a_branch_has_closed_tells_of_it_later() -> None:
    outer = scripted(ask(), "end", name="outer", tools=[failing("tool").as_tool()])
    result = await Runner.run(outer, "go")
    journal = result.to_state().to_json()
    cut = next(n for n, fact in enumerate(journal["journal"]) if fact["fact"] == "closed") + 1
    again = scripted("end", name="outer", tools=[failing("tool").as_tool()])
    state = await RunState.from_json(again, {**journal, "journal": journal["journal"][:cut]})
    result = await Runner.run(again, state)
    assert AgentFailed.__name__ in told(result)[0]
    assert "broken" in told(result)[0]


async def test_turns_inside_are_their_own() -> None:
    send, _ = sending()
    outer, inner = nested(*[mail("x")] * 5, "done", tools=[send])
    result = await Runner.run(outer, "go", max_turns=2)
    assert (result.final_output, asked(inner)) == ("end", 6)


async def test_an_agent_that_asks_itself_for_ever_comes_to_an_end() -> None:
    agent = Agent("me", model=ScriptedModel(ask("me") for _ in range(9_999)))
    agent.tools.append(agent.as_tool())
    with pytest.raises(MaxTurnsExceeded):
        await soon(Runner.run(agent, "go", max_turns=6))
    assert asked(agent) == 2**6 - 1, "a turn fewer for each time that it asks itself"


async def test_agents_that_ask_each_other_for_ever_come_to_an_end() -> None:
    one = Agent("one", model=ScriptedModel(ask("two") for _ in range(9_999)))
    two = Agent("two", model=ScriptedModel(ask("one") for _ in range(9_999)), tools=[one.as_tool(max_turns=3)])
    one.tools.append(two.as_tool(max_turns=3))
    with pytest.raises(MaxTurnsExceeded):
        await soon(Runner.run(one, "go", max_turns=3))
    assert asked(one) + asked(two) < 100


async def test_an_agent_may_ask_itself() -> None:
    agent = Agent("me", model=ScriptedModel([ask("me"), ask("me"), "deepest", "deeper", "deep"]))
    agent.tools.append(agent.as_tool())
    result = await Runner.run(agent, "go")
    assert (told(result), result.final_output) == (["deeper"], "deep")


# -- streams -----------------------------------------------------------------------------------------


def named(event: Any) -> str:
    """What an event is, in short."""
    if isinstance(event, RunItemStreamEvent):
        return event.name
    if isinstance(event, AgentUpdatedStreamEvent):
        return f"agent {event.new_agent.name}"
    return {RawResponsesStreamEvent: "delta", ApprovalRequestedEvent: "asked", ApprovalDecidedEvent: "decided"}[
        type(event)
    ]


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_on_stream_gets_the_nested_events_in_order(asynchronous: bool) -> None:
    send, _ = sending(needs_approval=True)
    seen: list[dict[str, Any]] = []

    async def later(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        seen.append(payload)

    outer, inner = nested(
        mail("ann"),
        "all done",
        tools=[send],
        outer=[ask(call_id="x")],
        on_stream=later if asynchronous else seen.append,
    )
    result = await Runner.run(outer, "go")
    assert [named(payload["event"]) for payload in seen] == ["agent inner", "tool_called", "asked"]
    assert all((payload["agent"], payload["call_id"]) == (inner, "x") for payload in seen)
    seen.clear()
    await go_on(outer, result.to_state())
    assert [named(payload["event"]) for payload in seen] == [
        "agent inner",
        "decided",
        "tool_output",
        "delta",
        "delta",
        "message_output_created",
    ]


async def test_the_outer_stream_has_the_questions_of_branches_and_nothing_else_of_them() -> None:
    send, _ = sending(needs_approval=True)
    outer, _ = nested(mail("ann"), "inner words", tools=[send])
    streamed = Runner.run_streamed(outer, "go")
    assert [named(event) async for event in streamed.stream_events()] == ["agent outer", "tool_called", "asked"]
    state = streamed.to_state()
    state.approve(state.get_interruptions()[0])
    streamed = Runner.run_streamed(outer, await reloaded(outer, state))
    assert [named(event) async for event in streamed.stream_events()] == [
        "agent outer",
        "decided",
        "tool_output",
        "delta",
        "message_output_created",
    ]


async def test_each_listener_gets_the_events_of_its_own_branch() -> None:
    above: list[Any] = []
    below: list[Any] = []
    deep = scripted("deep words", name="deep")
    middle = scripted(ask("deep"), "middle words", name="middle", tools=[deep.as_tool(on_stream=below.append)])
    outer = scripted(ask("middle"), "end", name="outer", tools=[middle.as_tool(on_stream=above.append)])
    await Runner.run(outer, "go")
    assert [named(each["event"]) for each in below] == ["agent deep", "delta", "delta", "message_output_created"]
    assert [named(each["event"]) for each in above] == [
        "agent middle",
        "tool_called",
        "tool_output",
        "delta",
        "delta",
        "message_output_created",
    ]


async def test_a_handoff_inside_is_in_its_stream() -> None:
    seen: list[Any] = []
    second = scripted("words", name="second")
    first = scripted(call("transfer_to_second"), name="first", handoffs=[second])
    outer = scripted(ask("first"), "end", name="outer", tools=[first.as_tool(on_stream=seen.append)])
    await Runner.run(outer, "go")
    assert [named(each["event"]) for each in seen] == [
        "agent first",
        "handoff_requested",
        "handoff_occured",
        "agent second",
        "delta",
        "message_output_created",
    ]


async def test_a_listener_that_raises_does_not_stop_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def fail(payload: Any) -> None:
        raise ValueError("deaf")

    outer, _ = nested("done", on_stream=fail)
    result = await Runner.run(outer, "go")
    assert told(result) == ["done"]
    assert "on_stream" in caplog.text


# -- what bodies can know ----------------------------------------------------------------------------


async def test_a_body_inside_can_decide_for_another() -> None:
    send, sent = sending(needs_approval=True)
    waiting: list[ToolApprovalItem] = []

    def keep(ctx: Any, item: ToolApprovalItem) -> dict[str, Any]:
        waiting.append(item)
        raise ValueError("somebody else shall say")

    gated, done = sending(needs_approval=True, on_approval=keep, name_override="gated")

    @function_tool
    async def boss(ctx: ToolContext[Any]) -> str:
        ctx.approve_tool(waiting[0])
        return "approved"

    one = scripted(call("gated", {"to": "ann"}), "one done", name="one", tools=[gated])
    two = scripted(mail("bob"), call("boss"), "two done", name="two", tools=[send, boss])
    outer = scripted([ask("one"), ask("two")], "end", name="outer", tools=[one.as_tool(), two.as_tool()])
    result = await Runner.run(outer, "go")
    assert len(result.interruptions) == 2
    state = result.to_state()
    state.approve(result.interruptions[1])
    result = await Runner.run(outer, state)
    assert (sent, done, told(result)) == ([("bob", 1)], [("ann", 1)], ["one done", "two done"])


async def test_whether_a_call_is_approved_is_said_of_the_branch_one_is_in() -> None:
    seen: list[Any] = []
    send, _ = sending(needs_approval=True)

    @function_tool
    async def look(ctx: ToolContext[Any], id: str) -> str:
        seen.append(ctx.is_tool_approved("send", id))
        return "seen"

    def both(to: str) -> Any:
        return [call("send", {"to": to}, "same"), call("look", {"id": "same"})]

    inner = Agent("inner", model=ScriptedModel([both("a"), "one", both("b"), "two"]), tools=[send, look])
    outer = scripted(ask(), ask(), "end", name="outer", tools=[inner.as_tool()])
    result = await Runner.run(outer, "go")
    assert seen == [None]
    result = await go_on(outer, result.to_state())
    assert seen == [None, None], "the first invocation's call has the same id, and was approved"
    await go_on(outer, result.to_state())


async def test_a_grant_outside_is_not_said_to_cover_a_tool_inside() -> None:
    seen: list[Any] = []
    send, _ = sending(needs_approval=True)

    @function_tool
    async def look(ctx: ToolContext[Any]) -> str:
        seen.append(ctx.is_tool_approved("send", "later"))
        return "seen"

    inner = scripted(call("look"), "done", name="inner", tools=[send, look])
    outer = scripted(mail("a"), call("look"), ask(), "end", name="outer", tools=[send, look, inner.as_tool()])
    state = (await Runner.run(outer, "go")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    await Runner.run(outer, state)
    assert seen == [True, None]


# -- limits, cancelling ------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
async def test_one_slot_for_bodies_is_enough_at_any_depth(streamed: bool) -> None:
    send, sent = sending()
    leaf = scripted([mail("a"), mail("b")], "leaf", name="leaf", tools=[send])
    middle = scripted([ask("leaf"), mail("c")], "middle", name="middle", tools=[leaf.as_tool(), send])
    outer = scripted([ask("middle"), mail("d")], "end", name="outer", tools=[middle.as_tool(), send])
    config = RunConfig(max_parallel_tools=1)
    if streamed:
        result: Any = Runner.run_streamed(outer, "go", run_config=config)

        async def read() -> None:
            async for _ in result.stream_events():
                pass

        await soon(read())
    else:
        result = await soon(Runner.run(outer, "go", run_config=config))
    assert result.final_output == "end"
    assert sorted(to for to, _ in sent) == ["a", "b", "c", "d"]


async def test_a_run_cancelled_while_a_nested_model_thinks_goes_on_where_it_was() -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def think(request: Any) -> str:
        begun.set()
        await never.wait()
        return "never"

    send, sent = sending()
    inner = scripted(mail("ann"), think, "done", name="inner", tools=[send])
    outer = scripted(ask(), "end", name="outer", tools=[inner.as_tool()])
    state = await stopped(Runner.run(outer, "go"), begun)
    result = await Runner.run(outer, await reloaded(outer, state))
    assert (sent, told(result), asked(outer)) == ([("ann", 1)], ["done"], 2)


async def test_a_body_inside_that_was_cut_off_is_in_doubt() -> None:
    begun, never = asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    @function_tool
    async def slow() -> str:
        runs.append(1)
        begun.set()
        await never.wait()
        return "never"

    outer, inner = nested(call("slow"), "done", tools=[slow])
    state = await reloaded(outer, await stopped(Runner.run(outer, "go"), begun))
    result = await Runner.run(outer, state)
    [item] = result.interruptions
    assert (item.kind, item.path, item.agent, runs) == ("doubt", ("c1",), inner, [1])
    state = result.to_state()
    state.respond(item, "it happened")
    result = await Runner.run(outer, state)
    assert (told(result), heard(inner)[-1]["output"], runs) == (["done"], "it happened", [1])


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
async def test_a_stream_cancelled_while_a_branch_works_can_be_resumed(mode: Any) -> None:
    send, sent = sending()
    inner = scripted(mail("ann"), "done", name="inner", tools=[send])
    outer = scripted(ask(), "end", name="outer", tools=[inner.as_tool()])
    streamed = Runner.run_streamed(outer, "go")
    async for event in streamed.stream_events():
        if named(event) == "tool_called":
            streamed.cancel(mode)
    state = await reloaded(outer, streamed.to_state())
    assert state.status == "cancelled"
    result = await Runner.run(outer, state)
    assert (sent, result.final_output, asked(outer)) == ([("ann", 1)], "end", 2)


# -- definitions -------------------------------------------------------------------------------------


async def waiting_inside(**options: Any) -> str:
    """A run that waits for a tool of an agent that is a tool."""
    send, _ = sending(needs_approval=True)
    outer, _ = nested(mail("ann"), tools=[send], **options)
    return (await Runner.run(outer, "go")).to_state().to_string()


def later(change: str) -> tuple[Agent[Any], list[Any]]:
    """The same agents after a change, with what their tool did."""
    send, sent = sending(needs_approval=True, **({"description_override": "new"} if change == "inner tool" else {}))
    inner = scripted("done", name="inner", tools=[] if change == "inner tool gone" else [send])
    words = "new words" if change == "agent tool" else None
    tools = [] if change == "agent tool gone" else [inner.as_tool(tool_description=words)]
    return scripted("end", name="outer", tools=tools), sent


@pytest.mark.parametrize("change", ["inner tool", "inner tool gone", "agent tool gone"])
async def test_a_change_that_an_open_call_inside_needs_is_refused_by_default(change: str) -> None:
    outer, _ = later(change)
    with pytest.raises(DefinitionChanged):
        await RunState.from_string(outer, await waiting_inside())


@pytest.mark.filterwarnings("ignore:Agent 'outer'")
async def test_a_changed_tool_inside_can_be_asked_about_again() -> None:
    outer, sent = later("inner tool")
    text = await waiting_inside()
    [old] = RunState.peek(text).waiting
    state = await RunState.from_string(outer, text, on_change="ask")
    [item] = state.get_interruptions()
    assert item.id != old.id
    assert item.path == ("c1",)
    result = await go_on(outer, state)
    assert (sent, told(result)) == ([("ann", 1)], ["done"])


@pytest.mark.filterwarnings("ignore:Agent 'outer'")
@pytest.mark.parametrize("change", ["inner tool", "inner tool gone"])
async def test_a_changed_tool_inside_can_be_accepted(change: str) -> None:
    outer, sent = later(change)
    state = await RunState.from_string(outer, await waiting_inside(), on_change="accept")
    result = await go_on(outer, state)
    assert sent == ([("ann", 1)] if change == "inner tool" else [])
    assert told(result) == ["done"]


async def test_an_agent_tool_that_changed_while_its_agent_was_at_work_is_only_warned_of() -> None:
    outer, sent = later("agent tool")
    with pytest.warns(UserWarning, match="inner"):
        state = await RunState.from_string(outer, await waiting_inside())
    for item in state.get_interruptions():
        state.approve(item)
    result = await Runner.run(outer, state)
    assert (sent, told(result), result.final_output) == ([("ann", 1)], ["done"], "end")


async def test_an_agent_tool_that_waits_for_approval_and_leads_to_another_agent_has_changed() -> None:
    outer = scripted(ask("it"), name="outer", tools=[Agent("x").as_tool("it", "d", needs_approval=True)])
    text = (await Runner.run(outer, "go")).to_state().to_string()
    other = scripted("end", name="outer", tools=[Agent("y").as_tool("it", "d", needs_approval=True)])
    with pytest.raises(DefinitionChanged, match="'it'"):
        await RunState.from_string(other, text)


# -- size --------------------------------------------------------------------------------------------


def room(state: RunState[Any], calls: int) -> float:
    """How large a saved run may be: by the items of the run and of its branches, and by its calls."""
    items: list[Any] = []
    for fact in state.to_json()["journal"]:
        if fact["fact"] == "said":
            items.append({"role": "user", "content": fact["items"]})
        elif fact["fact"] == "replied":
            items += fact["items"]
        elif fact["fact"] == "finished":
            items.append({"type": "function_call_output", "call_id": "call_1_0", "output": fact["output"]})
    return 1.5 * len(json.dumps(items, separators=(",", ":")).encode()) + 400 * calls + 2048


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
async def test_the_size_is_linear_in_the_items_of_the_run_and_its_branches(depth: int) -> None:
    send, _ = sending(needs_approval=True)
    agents = [scripted(*[[mail(f"p{n}"), mail("q")] for n in range(20)], "deep", name="leaf", tools=[send])]
    for level in range(depth):
        below = agents[0]
        agents.insert(0, scripted(ask(below.name), "up", name=f"a{level}", tools=[below.as_tool(max_turns=30)]))
    result = await Runner.run(agents[0], "go", max_turns=30)
    while result.interruptions:
        result = await go_on(agents[0], result.to_state())
    state = result.to_state()
    assert len(state.to_string().encode()) <= room(state, 40 + depth)


async def test_many_short_branches_of_an_agent_with_many_tools_stay_small() -> None:
    tools = [sending(name_override=f"tool_number_{n}")[0] for n in range(35)]
    inner = scripted(*["ok"] * 100, name="inner", tools=tools)
    outer = scripted(*[ask()] * 100, "end", name="outer", tools=[inner.as_tool()])
    state = (await Runner.run(outer, "go", max_turns=101)).to_state()
    assert len(state.to_string().encode()) <= room(state, 100)
    assert len(facts(state, "began")) == 101


async def test_handing_back_and_forth_between_agents_with_many_tools_stays_small() -> None:
    tools = [sending(name_override=f"tool_number_{n}")[0] for n in range(35)]
    a = Agent("a", model=ScriptedModel([call("transfer_to_b")] * 30 + ["end"]), tools=list(tools))
    b = Agent("b", model=ScriptedModel([call("transfer_to_a")] * 30), tools=list(tools), handoffs=[a])
    a.handoffs.append(b)
    state = (await Runner.run(a, "go", max_turns=61)).to_state()
    assert len(state.to_string().encode()) <= room(state, 60)


@pytest.mark.filterwarnings("ignore:Agent 'outer'")
async def test_which_tool_inside_has_changed_is_said_in_the_tenth_branch_too() -> None:
    def cast(words: str, *steps: Any) -> Agent[Any]:
        send, _ = sending(needs_approval=True)
        other, _ = sending(name_override="other", description_override=words)
        inner = scripted(*["ok"] * 9, *steps, name="inner", tools=[send, other])
        return scripted(*[ask()] * 10, name="outer", tools=[inner.as_tool()])

    state = (await Runner.run(cast("old", mail("ann")), "go", max_turns=20)).to_state()
    loaded = await reloaded(cast("new"), state)
    assert loaded.changes == ["under call c10 of inner: tool 'other' has changed"]


async def test_resuming_again_and_again_does_not_make_a_run_with_branches_larger() -> None:
    send, _ = sending(needs_approval=True)
    outer, _ = nested(mail("ann"), tools=[send])
    state = (await Runner.run(outer, "go")).to_state()
    size = len(state.to_string())
    for _ in range(5):
        state = (await Runner.run(outer, await reloaded(outer, state))).to_state()
    assert len(state.to_string()) == size


# -- names -------------------------------------------------------------------------------------------


async def test_agents_of_one_name_may_be_nested_in_each_other() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted(mail("ann"), "inner words", name="twin", tools=[send])
    outer = scripted(ask("twin"), "end", name="twin", tools=[inner.as_tool()])
    result = await Runner.run(outer, "go")
    assert result.interruptions[0].agent is inner
    result = await go_on(outer, result.to_state())
    assert (sent, told(result), result.last_agent) == ([("ann", 1)], ["inner words"], outer)


async def test_a_tool_may_have_the_name_of_an_agent() -> None:
    other, done = sending(needs_approval=True, name_override="outer")
    inner = scripted(call("outer", {"to": "ann"}), "done", name="inner", tools=[other])
    outer = scripted(ask(), "end", name="outer", tools=[inner.as_tool()])
    result = await go_on(outer, (await Runner.run(outer, "go")).to_state())
    assert (done, result.final_output) == ([("ann", 1)], "end")


async def test_a_disabled_agent_tool_is_not_offered() -> None:
    outer, inner = nested(is_enabled=lambda ctx, agent: False)
    result = await Runner.run(outer, "go")
    assert outer.model.requests[0].tools == ()  # type: ignore[union-attr]
    assert asked(inner) == 0
    assert "no tool named" in told(result)[0]


# -- with everything else ------------------------------------------------------------------------------


async def streamed_to_its_end(agent: Agent[Any], given: Any, **options: Any) -> Any:
    result = Runner.run_streamed(agent, given, **options)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("run", [Runner.run, streamed_to_its_end])
async def test_branches_handoffs_and_questions_go_together_however_they_are_run(run: Any) -> None:
    agent, sent = crowd()
    result = await soon(run(agent, "go"))
    rounds = 0
    while result.interruptions:
        rounds += 1
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[-1])  # one at a time, the last first
        result = await soon(run(agent, state))
    assert (result.final_output, result.last_agent.name) == ("end", "last")
    assert sorted(to for to, _ in sent) == ["deep", "deep", "second", "top"]
    assert rounds == 5


def crowd() -> tuple[Agent[Any], list[tuple[str, int]]]:
    """Agents inside agents and handing over, each of whose models knows by what it has heard what to say next."""
    send, sent = sending(needs_approval=True)

    def knowing(*replies: Any) -> ScriptedModel:
        def step(request: Any) -> Any:
            return replies[sum(item.get("type") == "function_call" for item in request.input)]

        return ScriptedModel(step for _ in range(99))

    leaf = Agent("leaf", model=knowing(mail("deep"), "leaf's"), tools=[send])
    second = Agent("second", model=knowing(None, None, mail("second"), "second's"), tools=[send])
    middle = Agent("middle", model=knowing([ask("leaf"), call("transfer_to_second")]), tools=[leaf.as_tool()])
    middle.handoffs.append(handoff(second, needs_approval=True, input_filter=lambda data: data))
    last = Agent("last", model=knowing(*["end"] * 9))
    both = [ask("middle"), ask("leaf")]
    top = Agent("top", model=knowing(both, None, [mail("top"), call("transfer_to_last")]), handoffs=[last])
    top.tools += [middle.as_tool(), leaf.as_tool(), send]
    return top, sent


async def test_a_run_broken_off_after_any_fact_goes_on_and_no_body_runs_twice() -> None:
    agent, _ = crowd()
    result = await ended(agent, (await Runner.run(agent, "go")).to_state())
    whole = result.to_state().to_json()
    for cut in range(2, len(whole["journal"])):
        if whole["journal"][cut - 1]["fact"] == "began":
            continue  # it is recorded together with what is said first
        again, sent = crowd()
        state = await RunState.from_json(again, {**whole, "journal": whole["journal"][:cut]})
        begun = facts(state, "started")
        if state.status == "done":
            continue
        result = await ended(again, state)
        assert (result.final_output, result.last_agent.name) == ("end", "last")
        places = [(tuple(fact.get("path", ())), fact["call"]) for fact in begun]
        assert len(sent) == 4 - sum(place not in ((("c1",), "c2"), ((), "c4")) for place in places)


async def ended(agent: Agent[Any], state: RunState[Any]) -> RunResult:
    """The run at its end, where everything is approved, and what is in doubt has happened."""
    while True:
        for item in state.get_interruptions():
            happened = item.kind == "doubt" and item.name == "send"
            state.respond(item, "it happened") if happened else state.approve(item)
        result = await Runner.run(agent, state)
        if not result.interruptions:
            return result
        state = await reloaded(agent, result.to_state())


async def test_a_session_keeps_the_outer_talk_and_nothing_of_the_inner() -> None:
    session = SQLiteSession("s")
    send, _ = sending(needs_approval=True)
    outer, _ = nested(mail("ann"), "inner words", tools=[send])
    result = await Runner.run(outer, "go", session=session)
    await go_on(outer, result.to_state(), session=session)
    items = await session.get_items()
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert "send" not in json.dumps(items)


async def test_a_model_of_the_config_serves_the_agents_inside_too() -> None:
    model = ScriptedModel([ask(), "inner words", "end"])
    outer = Agent("outer", tools=[Agent("inner").as_tool()])
    result = await Runner.run(outer, "go", run_config=RunConfig(model=model))
    assert (told(result), result.final_output) == (["inner words"], "end")


async def test_an_agent_inside_may_end_with_a_tools_output() -> None:
    send, _ = sending(needs_approval=True)
    inner = scripted(mail("ann"), name="inner", tools=[send], tool_use_behavior="stop_on_first_tool")
    outer = scripted(ask(), "end", name="outer", tools=[inner.as_tool()])
    result = await go_on(outer, (await Runner.run(outer, "go")).to_state())
    assert told(result) == ["sent 1 to ann"]


async def test_released_agents_leave_the_questions_of_branches_decidable() -> None:
    send, sent = sending(needs_approval=True)
    outer, _ = nested(mail("ann"), "done", tools=[send])
    result = await Runner.run(outer, "go")
    result.release_agents()
    [item] = result.interruptions
    assert item.agent == "inner"
    state = result.to_state()
    state.edit(item, {"to": "bob"})
    await Runner.run(outer, state)
    assert sent == [("bob", 1)]


async def test_a_sync_body_inside_may_decide_from_its_thread() -> None:
    send, sent = sending(needs_approval=True)
    waiting: list[ToolApprovalItem] = []

    @function_tool(needs_approval=True)
    def boss(ctx: ToolContext[Any]) -> str:
        ctx.reject_tool(waiting[0], rejection_message="I said no")
        return str(ctx.is_tool_approved("send", waiting[0].call_id or ""))

    inner = scripted(mail("ann"), "inner's", name="inner", tools=[send])
    other = scripted(call("boss"), "other's", name="other", tools=[boss])
    outer = scripted([ask(), ask("other")], "end", name="outer", tools=[inner.as_tool(), other.as_tool()])
    state = (await Runner.run(outer, "go")).to_state()
    refused_one, boss_one = state.get_interruptions()
    waiting.append(refused_one)
    state.approve(boss_one)
    result = await soon(Runner.run(outer, state))
    assert (sent, result.final_output) == ([], "end")
    assert heard(inner)[-1]["output"] == "I said no"
    assert heard(other)[-1]["output"] == "False"


def test_a_blocking_run_goes_into_agents() -> None:
    send, sent = sending(needs_approval=True)
    outer, _ = nested(mail("ann"), "done", tools=[send])
    state = Runner.run_sync(outer, "go").to_state()
    state.approve(state.get_interruptions()[0])
    assert Runner.run_sync(outer, state).final_output == "end"
    assert sent == [("ann", 1)]


async def test_a_copy_of_an_agent_that_has_run_leads_where_its_own_tools_lead() -> None:
    def helper(name: str) -> Agent[Any]:
        return scripted(f"{name} was asked", name=name)

    def script() -> ScriptedModel:
        return ScriptedModel([call("ask", {"input": "go"}), "done"])

    outer = Agent("outer", model=script(), tools=[helper("one").as_tool("ask")])
    await Runner.run(outer, "go")
    other = copy.copy(outer)
    other.model, other.tools = script(), [helper("two").as_tool("ask")]
    deep = copy.deepcopy(outer)
    deep.model = script()
    deep.tools[0].agent.model = ScriptedModel(["the copy was asked"])
    for agent, words in ((other, "two was asked"), (deep, "the copy was asked")):
        result = await Runner.run(agent, "go")
        assert [item.output for item in outputs(result)] == [words]
        assert result.last_agent is agent


async def test_an_agent_whose_tools_change_between_runs_leads_where_they_lead_now() -> None:
    outer: Agent[Any] = Agent("outer")
    for name in ("one", "two", "three"):
        outer.model = ScriptedModel([call("ask", {"input": "go"}), "done"])
        outer.tools[:] = [scripted(f"{name} was asked", name=name).as_tool("ask")]
        result = await Runner.run(outer, "go")
        assert [item.output for item in outputs(result)] == [f"{name} was asked"]
