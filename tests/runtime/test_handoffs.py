"""Handoffs: one agent gives the word to another."""

import asyncio
import contextlib
import dataclasses
import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from assentry import (
    Agent,
    AgentUpdatedStreamEvent,
    Edit,
    Handoff,
    HandoffCallItem,
    HandoffInputData,
    HandoffOutputItem,
    MessageOutputItem,
    RunConfig,
    RunHooks,
    RunItemStreamEvent,
    Runner,
    RunState,
    ToolApprovalItem,
    ToolContext,
    function_tool,
    handoff,
)
from assentry.errors import (
    DefinitionChanged,
    InvalidArguments,
    InvalidDecision,
    InvalidDefinition,
    ModelFailed,
    ReplayMismatch,
    UsageError,
)
from assentry.testing import ScriptedModel, call
from tests.runtime.support import asked, facts, heard, outcomes, refused, reloaded, scripted, sending, stopped, told

TO_B = "transfer_to_b"


def pair(*first: Any, then: tuple[Any, ...] = ("done by b",), **options: Any) -> tuple[Agent[Any], Agent[Any]]:
    """An agent `a` that may hand over to `b`, with these options."""
    b = scripted(*then, name="b")
    return scripted(*first, name="a", handoffs=[handoff(b, **options)]), b


async def approved(agent: Agent[Any], state: RunState[Any], **options: Any) -> Any:
    """What a run comes to when everything it asks is approved."""
    for item in state.get_interruptions():
        state.approve(item)
    return await Runner.run(agent, state, **options)


def well_formed(items: list[dict[str, Any]]) -> bool:
    """Whether a provider accepts these items: each call has one output, after it, and each output its call."""
    calls: list[Any] = []
    given: list[Any] = []
    for item in items:
        if item.get("type") == "function_call":
            calls.append(item["call_id"])
        if item.get("type") == "function_call_output":
            if item["call_id"] not in calls:
                return False
            given.append(item["call_id"])
    return bool(items) and sorted(calls) == sorted(given) and len(set(calls)) == len(calls)


# -- defining ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("b", "transfer_to_b"),
        ("Billing Agent", "transfer_to_billing_agent"),
        ("Tier-2 (EU)", "transfer_to_tier_2__eu_"),
        ("a.b/c", "transfer_to_a_b_c"),
        ("Ünïcode", "transfer_to__n_code"),
        ("UPPER_9", "transfer_to_upper_9"),
    ],
)
def test_a_handoff_is_named_after_its_agent(name: str, tool: str) -> None:
    made = handoff(Agent(name))
    assert made.name == tool
    assert made.agent_name == name
    assert name in made.description


def test_the_models_are_told_what_an_agent_is_for() -> None:
    assert "Knows refunds." in handoff(Agent("b", handoff_description="Knows refunds.")).description


async def test_name_and_description_can_be_overridden() -> None:
    a, b = pair(call("escalate"), tool_name_override="escalate", tool_description_override="Get help.")
    result = await Runner.run(a, "go")
    [spec] = a.model.requests[0].tools  # type: ignore[union-attr]
    assert (spec.name, spec.description) == ("escalate", "Get help.")
    assert spec.parameters["properties"] == {}
    assert result.final_output == "done by b"
    assert result.last_agent is b


async def test_an_agent_in_the_list_is_a_handoff_with_the_default_options() -> None:
    b = scripted("done by b", name="b")
    a = scripted(call(TO_B), name="a", handoffs=[b])
    result = await Runner.run(a, "go")
    assert result.final_output == "done by b"


@pytest.mark.parametrize(
    "make",
    [
        lambda: handoff("b"),  # type: ignore[arg-type]
        lambda: handoff(Agent("b"), on_handoff=5),  # type: ignore[arg-type]
        lambda: handoff(Agent("b"), input_filter="x"),  # type: ignore[arg-type]
        lambda: handoff(Agent("b"), input_type=BaseModel),
        lambda: handoff(Agent("b"), input_type=int, on_handoff=lambda ctx, said: None),
        lambda: handoff(Agent("b"), input_type=dict[str, int], on_handoff=lambda ctx, said: None),
        lambda: handoff(Agent("b"), needs_approval="yes"),  # type: ignore[arg-type]
        lambda: handoff(Agent("b"), is_enabled=None),  # type: ignore[arg-type]
        lambda: handoff(Agent("b"), on_approval=1),  # type: ignore[arg-type]
        lambda: handoff(Agent("b"), tool_name_override=7),  # type: ignore[arg-type]
        lambda: handoff(Agent("b"), on_handoff=lambda: None),
        lambda: handoff(Agent("b"), on_handoff=lambda ctx, said: None),
        lambda: handoff(Agent("b"), input_type=Why, on_handoff=lambda ctx: None),
        lambda: Agent("a", handoffs=["b"]),  # type: ignore[list-item]
        lambda: Agent("a", handoffs=[Agent("b"), Agent("B")]),
        lambda: Agent("a", handoffs=[Agent("b"), handoff(Agent("c"), tool_name_override=TO_B)]),
        lambda: Agent("a", tools=[named(TO_B)], handoffs=[Agent("b")]),
        lambda: Agent("a", tools=[Agent("c").as_tool(TO_B)], handoffs=[Agent("b")]),
    ],
)
def test_what_is_wrong_with_a_handoff_is_said_at_construction(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidDefinition):
        make()


class Why(BaseModel):
    """What the model says when it hands over."""

    reason: str
    urgent: bool = False


@dataclasses.dataclass
class WhyData:
    reason: str
    urgent: bool = False


class WhyDict(TypedDict):
    reason: str


def named(name: str, **options: Any) -> Any:
    """A tool of this name that does nothing."""

    @function_tool(name_override=name, **options)
    async def nothing() -> str:
        return f"{name} did nothing"

    return nothing


# -- on_handoff --------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_on_handoff_is_called_once_as_the_handoff_is_taken(asynchronous: bool) -> None:
    seen: list[Any] = []

    async def later(ctx: ToolContext[Any]) -> None:
        seen.append((ctx.agent.name, ctx.tool_name, ctx.context))

    def now(ctx: ToolContext[Any]) -> None:
        seen.append((ctx.agent.name, ctx.tool_name, ctx.context))

    a, _ = pair(call(TO_B), on_handoff=later if asynchronous else now)
    result = await Runner.run(a, "go", context="mine")
    assert seen == [("a", TO_B, "mine")]
    assert result.final_output == "done by b"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(Why, Why(reason="lost")), (WhyData, WhyData("lost")), (WhyDict, {"reason": "lost"})],
)
async def test_what_the_model_says_comes_as_the_input_type(kind: Any, expected: Any) -> None:
    seen: list[Any] = []
    a, _ = pair(call(TO_B, {"reason": "lost"}), input_type=kind, on_handoff=lambda ctx, said: seen.append(said))
    await Runner.run(a, "go")
    assert seen == [expected]
    [spec] = a.model.requests[0].tools  # type: ignore[union-attr]
    assert "reason" in spec.parameters["properties"]


@pytest.mark.parametrize("said", ["{}", '{"reason": 5}', "lost", '{"reason": "x", "other": 1}', ""])
async def test_a_handoff_with_bad_input_is_refused_and_the_agent_keeps_the_word(said: str) -> None:
    seen: list[Any] = []
    a, b = pair(call(TO_B, said), "sorry", input_type=Why, on_handoff=lambda ctx, said: seen.append(said))
    result = await Runner.run(a, "go")
    assert seen == []
    assert result.final_output == "sorry"
    assert result.last_agent is a
    assert asked(b) == 0
    assert outcomes(result)[0].status == "refused"


async def test_a_handoff_without_input_takes_none() -> None:
    a, b = pair(call(TO_B, {"reason": "x"}), "sorry")
    result = await Runner.run(a, "go")
    assert (result.final_output, asked(b)) == ("sorry", 0)


async def test_blank_arguments_hand_over() -> None:
    a, _ = pair(call(TO_B, ""))
    assert (await Runner.run(a, "go")).final_output == "done by b"


async def test_an_on_handoff_that_raises_reaches_the_user_and_is_not_entered_again() -> None:
    seen: list[int] = []

    def fail(ctx: Any) -> None:
        seen.append(1)
        raise ValueError("no")

    a, b = pair(call(TO_B), "then not", on_handoff=fail)
    with pytest.raises(ValueError, match="no") as caught:
        await Runner.run(a, "go")
    state = await reloaded(a, caught.value.state)  # type: ignore[attr-defined]
    result = await Runner.run(a, state)
    assert seen == [1]
    assert (result.final_output, result.last_agent) == ("then not", a)
    assert asked(b) == 0
    assert outcomes(result)[0].status == "failed"


async def test_an_on_handoff_may_ask_a_person() -> None:
    seen: list[str] = []

    async def ask(ctx: ToolContext[Any]) -> None:
        seen.append(await ctx.ask("To whom?", schema=str))

    a, b = pair(call(TO_B), on_handoff=ask)
    result = await Runner.run(a, "go")
    [item] = result.interruptions
    assert (item.kind, item.question, item.agent) == ("input", "To whom?", a)
    assert (seen, asked(b)) == ([], 0)
    state = await reloaded(a, result.to_state())
    state.respond(item, "ann")
    result = await Runner.run(a, state)
    assert seen == ["ann"]
    assert (result.final_output, result.last_agent) == ("done by b", b)


async def test_a_question_of_on_handoff_that_is_rejected_gives_the_handoff_up() -> None:
    async def ask(ctx: ToolContext[Any]) -> None:
        await ctx.ask("Sure?")

    a, b = pair(call(TO_B), "stayed", on_handoff=ask)
    state = (await Runner.run(a, "go")).to_state()
    state.reject(state.get_interruptions()[0])
    result = await Runner.run(a, state)
    assert (result.final_output, asked(b)) == ("stayed", 0)


async def test_an_on_handoff_that_asks_something_else_than_before_and_hides_it_hands_nothing_over() -> None:
    words = ["To whom?", "To whom then?"]

    async def ask(ctx: ToolContext[Any]) -> None:
        await ctx.step("note", lambda: 1)
        with contextlib.suppress(BaseException):
            await ctx.ask(words.pop(0), schema=str)

    a, b = pair(call(TO_B), on_handoff=ask)
    state = (await Runner.run(a, "go")).to_state()
    state.respond(state.get_interruptions()[0], "B")
    with pytest.raises(ReplayMismatch):
        await Runner.run(a, state)
    assert (words, asked(b)) == ([], 0)


async def test_a_hook_that_raises_after_a_handoff_does_not_undo_it() -> None:
    class Hooks(RunHooks[Any]):
        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
            raise ValueError("hooked")

    a, b = pair(call(TO_B))
    with pytest.raises(ValueError, match="hooked") as caught:
        await Runner.run(a, "go", hooks=Hooks())
    result = await Runner.run(a, caught.value.state)  # type: ignore[attr-defined]
    assert (result.final_output, result.last_agent) == ("done by b", b)


# -- what the next agent hears -------------------------------------------------------------------------


async def test_the_next_agent_hears_the_talk_and_who_has_the_word() -> None:
    a, b = pair(["I hand over.", call(TO_B, call_id="h")])
    await Runner.run(a, "go")
    said, words, made, given = heard(b)
    assert said == {"role": "user", "content": "go"}
    assert words["content"][0]["text"] == "I hand over."
    assert (made["name"], made["call_id"]) == (TO_B, "h")
    assert (given["call_id"], json.loads(given["output"])) == ("h", {"assistant": "b"})


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("where", ["handoff", "config"])
async def test_a_filter_chooses_what_the_next_agent_hears(asynchronous: bool, where: str) -> None:
    got: list[HandoffInputData] = []

    def choose(data: HandoffInputData) -> HandoffInputData:
        got.append(data)
        return data.clone(input_history=(*data.input_history, user("mind the step")), pre_handoff_items=())

    async def later(data: HandoffInputData) -> HandoffInputData:
        return choose(data)

    given: Any = later if asynchronous else choose
    send, _ = sending()
    b = scripted("done by b", name="b")
    own = given if where == "handoff" else None
    a = scripted(
        call("send", {"to": "ann"}), call(TO_B), name="a", tools=[send], handoffs=[handoff(b, input_filter=own)]
    )
    config = RunConfig(handoff_input_filter=given if where == "config" else None)
    result = await Runner.run(a, "go", run_config=config)
    [data] = got
    assert data.input_history == (user("go"),)
    assert [item.type for item in data.pre_handoff_items] == ["tool_call_item", "tool_call_output_item"]
    assert [item.type for item in data.new_items] == ["handoff_call_item", "handoff_output_item"]
    assert data.run_context is not None
    assert [item.get("content", item.get("type")) for item in heard(b)] == [
        "go",
        "mind the step",
        "function_call",
        "function_call_output",
    ]
    assert result.final_output == "done by b"
    assert well_formed(result.to_input_list())
    assert [item.get("content") for item in result.to_input_list() if item.get("role") == "user"] == ["go"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def test_a_handoffs_own_filter_goes_before_the_configs() -> None:
    a, b = pair(call(TO_B), input_filter=lambda data: data.clone(input_history="mine", new_items=()))
    config = RunConfig(handoff_input_filter=lambda data: data.clone(input_history="the config's"))
    await Runner.run(a, "go", run_config=config)
    assert heard(b) == [user("mine")]


@pytest.mark.parametrize("drop", ["call", "output"])
async def test_a_filter_that_tears_a_call_from_its_output_leaves_a_talk_that_providers_accept(drop: str) -> None:
    kind = HandoffCallItem if drop == "call" else HandoffOutputItem

    def tear(data: HandoffInputData) -> HandoffInputData:
        return data.clone(new_items=tuple(item for item in data.new_items if not isinstance(item, kind)))

    a, b = pair(call(TO_B), input_filter=tear)
    await Runner.run(a, "go")
    assert heard(b) == [user("go")]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "text",
        [],
        lambda data: data.clone(input_history=None),
        lambda data: data.clone(input_history=5),
        lambda data: data.clone(input_history=("text",)),
        lambda data: data.clone(new_items=("text",)),
        lambda data: data.clone(pre_handoff_items=None),
        lambda data: data.clone(input_history=({"role": "user", "content": object()},)),
        lambda data: data.clone(input_history="\ud800"),
        lambda data: data.clone(input_history=(), new_items=()),
    ],
)
async def test_a_filter_that_gives_something_else_is_an_error_of_its_author(bad: Any) -> None:
    a, b = pair(call(TO_B), "stayed", input_filter=bad if callable(bad) else lambda data: bad)
    with pytest.raises(UsageError, match="input_filter") as caught:
        await Runner.run(a, "go")
    assert asked(b) == 0
    result = await Runner.run(a, caught.value.state)
    assert (result.final_output, result.last_agent) == ("stayed", a)
    assert well_formed(result.to_input_list())


async def test_a_filter_that_raises_reaches_the_user_and_nobody_is_handed_over_to() -> None:
    def fail(data: HandoffInputData) -> HandoffInputData:
        raise ValueError("no")

    a, b = pair(call(TO_B), "stayed", input_filter=fail)
    with pytest.raises(ValueError, match="no") as caught:
        await Runner.run(a, "go")
    result = await Runner.run(a, caught.value.state)  # type: ignore[attr-defined]
    assert (result.final_output, asked(b)) == ("stayed", 0)


async def test_what_one_filter_took_out_the_next_does_not_bring_back() -> None:
    c = scripted("done by c", name="c")
    b = scripted(call("transfer_to_c"), name="b", handoffs=[handoff(c, input_filter=lambda data: data)])
    hide = handoff(b, input_filter=lambda data: data.clone(input_history="public", pre_handoff_items=(), new_items=()))
    a = scripted([call(TO_B)], name="a", handoffs=[hide])
    await Runner.run(a, "secret")
    assert heard(b) == [user("public")]
    assert heard(c)[0] == user("public")
    assert "secret" not in json.dumps(heard(c))
    assert TO_B not in json.dumps(heard(c))
    assert well_formed(heard(c))


async def test_what_is_said_while_a_handoff_waits_is_heard_once_and_last() -> None:
    a, b = pair(call(TO_B), needs_approval=True, input_filter=lambda data: data)
    state = (await Runner.run(a, "go")).to_state()
    state.add_input("and hurry")
    await approved(a, await reloaded(a, state))
    assert [item.get("content") for item in heard(b) if item.get("role") == "user"] == ["go", "and hurry"]
    assert heard(b)[-1] == user("and hurry")


async def test_a_filter_that_changes_nothing_changes_nothing() -> None:
    async def talk(choose: Any) -> list[dict[str, Any]]:
        b = scripted("done by b", name="b")
        a = scripted("first", call(TO_B), name="a", handoffs=[handoff(b, input_filter=choose)])
        state = (await Runner.run(a, "one")).to_state()
        state.add_input("two")
        await Runner.run(a, state)
        return heard(b)

    assert await talk(lambda data: data) == await talk(None)


async def test_a_filter_that_changes_nothing_keeps_why_an_output_was_refused() -> None:
    async def talk(choose: Any) -> list[dict[str, Any]]:
        b = scripted("done by b", name="b")
        made = handoff(b, input_filter=choose)
        a = scripted("rude", call(TO_B), name="a", handoffs=[made], output_needs_approval=True)
        state = (await Runner.run(a, "go")).to_state()
        state.reject(state.get_interruptions()[0], rejection_message="be kind")
        await Runner.run(a, state)
        return heard(b)

    assert await talk(lambda data: data) == await talk(None)


async def test_what_follows_a_filtered_handoff_survives_a_reload() -> None:
    send, sent = sending(needs_approval=True)
    b = scripted(call("send", {"to": "ann"}), "done by b", name="b", tools=[send])
    only = handoff(b, input_filter=lambda data: data.clone(input_history="short", new_items=()))
    a = scripted(call(TO_B), name="a", handoffs=[only])
    result = await Runner.run(a, "go")
    result = await approved(a, await reloaded(a, result.to_state()))
    assert sent == [("ann", 1)]
    assert heard(b)[0] == user("short")
    assert len(heard(b)) == 3
    assert well_formed(heard(b))


async def test_a_filter_cannot_change_a_talk_that_the_provider_keeps() -> None:
    seen: list[int] = []
    a, b = pair(call(TO_B), "stayed", input_filter=lambda data: data, on_handoff=lambda ctx: seen.append(1))
    with pytest.raises(UsageError, match="provider keeps"):
        await Runner.run(a, "go", conversation_id="conv_1")
    assert asked(b) == 0
    assert seen == [], "what cannot be done is not begun"


async def test_a_handoff_keeps_the_providers_conversation() -> None:
    a, b = pair(call(TO_B, call_id="h"))
    await Runner.run(a, "go", conversation_id="conv_1")
    [request] = b.model.requests  # type: ignore[union-attr]
    assert request.conversation_id == "conv_1"
    assert [item["type"] for item in request.input] == ["function_call_output"]


async def test_a_handoff_keeps_the_chain_of_responses_through_a_pause() -> None:
    a, b = pair(call(TO_B, call_id="h"), needs_approval=True)
    result = await Runner.run(a, "go", auto_previous_response_id=True)
    await approved(a, await reloaded(a, result.to_state()))
    [request] = b.model.requests  # type: ignore[union-attr]
    assert request.previous_response_id == result.last_response_id
    assert [item["call_id"] for item in request.input] == ["h"]


# -- whether it is offered -------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [False, lambda ctx, agent: False, lambda ctx, agent: ctx.context == "on"])
async def test_a_disabled_handoff_is_not_offered_and_not_taken(enabled: Any) -> None:
    a, b = pair(call(TO_B), "sorry", is_enabled=enabled)
    result = await Runner.run(a, "go", context="off")
    assert a.model.requests[0].tools == ()  # type: ignore[union-attr]
    assert (result.final_output, asked(b), result.last_agent) == ("sorry", 0, a)
    assert "no tool named" in told(result)[0]


async def test_an_enabled_handoff_is_offered() -> None:
    async def on(ctx: Any, agent: Any) -> bool:
        return bool(ctx.context == "on" and agent.name == "a")

    a, _ = pair(call(TO_B), is_enabled=on)
    assert (await Runner.run(a, "go", context="on")).final_output == "done by b"


async def test_an_is_enabled_that_raises_stops_the_run_which_can_be_resumed() -> None:
    fail = [True]

    def enabled(ctx: Any, agent: Any) -> bool:
        if fail:
            raise ValueError("no idea")
        return True

    a, _ = pair(call(TO_B), is_enabled=enabled)
    with pytest.raises(ValueError, match="no idea") as caught:
        await Runner.run(a, "go")
    fail.clear()
    result = await Runner.run(a, caught.value.state)  # type: ignore[attr-defined]
    assert result.final_output == "done by b"


# -- approval ----------------------------------------------------------------------------------------------


async def test_a_handoff_can_need_approval() -> None:
    a, b = pair(call(TO_B, call_id="h"), needs_approval=True)
    result = await Runner.run(a, "go")
    [item] = result.interruptions
    assert (item.name, item.agent, item.call_id, item.arguments) == (TO_B, a, "h", "{}")
    assert item.allowed == ("approve", "edit", "reject", "respond")
    assert result.last_agent is a
    assert asked(b) == 0
    result = await approved(a, await reloaded(a, result.to_state()))
    assert (result.final_output, result.last_agent) == ("done by b", b)


async def test_a_rule_is_asked_with_what_the_model_says() -> None:
    seen: list[Any] = []

    async def urgent(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        seen.append((params, call_id))
        return bool(params["urgent"])

    options: Any = {"needs_approval": urgent, "input_type": Why, "on_handoff": lambda ctx, said: None}
    calm, _ = pair(call(TO_B, {"reason": "x"}, "h"), **options)
    assert (await Runner.run(calm, "go")).final_output == "done by b"
    hot, _ = pair(call(TO_B, {"reason": "x", "urgent": True}, "h"), **options)
    assert len((await Runner.run(hot, "go")).interruptions) == 1
    assert seen == [({"reason": "x", "urgent": False}, "h"), ({"reason": "x", "urgent": True}, "h")]


async def test_a_rule_that_cannot_say_means_that_a_person_is_asked() -> None:
    def broken(ctx: Any, params: Any, call_id: str) -> bool:
        raise ValueError("no idea")

    a, b = pair(call(TO_B), needs_approval=broken)
    [item] = (await Runner.run(a, "go")).interruptions
    assert "no idea" in item.reason
    assert asked(b) == 0


@pytest.mark.parametrize("answer", [True, False])
async def test_code_can_decide_on_a_handoff(answer: bool) -> None:
    def decide(ctx: Any, item: ToolApprovalItem) -> dict[str, Any]:
        assert item.name == TO_B
        return {"approve": answer, "reason": "by the book"}

    a, _ = pair(call(TO_B), "stayed", needs_approval=True, on_approval=decide)
    result = await Runner.run(a, "go")
    assert result.interruptions == []
    assert result.final_output == ("done by b" if answer else "stayed")
    if not answer:
        assert told(result) == ["by the book"]


async def test_a_rejected_handoff_leaves_the_word_where_it_was() -> None:
    a, b = pair(call(TO_B), "stayed", needs_approval=True)
    state = (await Runner.run(a, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="not now")
    result = await Runner.run(a, state)
    assert (result.final_output, result.last_agent, asked(b)) == ("stayed", a, 0)
    assert told(result) == ["not now"]


async def test_a_handoff_that_was_answered_for_is_not_taken() -> None:
    a, b = pair(call(TO_B), "stayed", needs_approval=True)
    state = (await Runner.run(a, "go")).to_state()
    state.respond(state.get_interruptions()[0], "b is on holiday")
    result = await Runner.run(a, state)
    assert (result.final_output, result.last_agent, asked(b)) == ("stayed", a, 0)
    assert told(result) == ["b is on holiday"]


async def test_an_edited_handoff_says_what_the_person_wrote_and_the_model_is_told() -> None:
    seen: list[Any] = []
    a, b = pair(
        call(TO_B, {"reason": "lost"}),
        needs_approval=True,
        input_type=Why,
        on_handoff=lambda ctx, said: seen.append(said),
    )
    state = (await Runner.run(a, "go")).to_state()
    [item] = state.get_interruptions()
    refused(lambda: state.edit(item, {"reason": 5}), InvalidArguments, state)
    state.edit(item, {"reason": "found", "urgent": True})
    result = await Runner.run(a, await reloaded(a, state))
    assert seen == [Why(reason="found", urgent=True)]
    assert result.last_agent is b
    proposal, output = heard(b)[-2:]
    assert json.loads(proposal["arguments"]) == {"reason": "lost"}
    assert '{"reason":"found","urgent":true}' in output["output"]


@pytest.mark.parametrize("filtered", [True, False])
async def test_a_person_may_choose_another_handoff(filtered: bool) -> None:
    b, c = scripted(name="b"), scripted("done by c", name="c")
    keep = (lambda data: data) if filtered else None
    a = scripted(call(TO_B), name="a", handoffs=[handoff(b, needs_approval=True), handoff(c, input_filter=keep)])
    state = (await Runner.run(a, "go")).to_state()
    state.edit(state.get_interruptions()[0], {}, tool="transfer_to_c")
    result = await Runner.run(a, await reloaded(a, state))
    assert (result.final_output, result.last_agent, asked(b)) == ("done by c", c, 0)
    assert "transfer_to_c" in heard(c)[-1]["output"], "the model is told what ran instead"


async def test_a_tool_is_not_exchanged_for_a_handoff_nor_a_handoff_for_a_tool() -> None:
    send, sent = sending(needs_approval=True)
    b = scripted(name="b")
    a = scripted(
        [call("send", {"to": "ann"}), call(TO_B)],
        name="a",
        tools=[send, Agent("c").as_tool("ask_c")],
        handoffs=[handoff(b, needs_approval=True)],
    )
    state = (await Runner.run(a, "go")).to_state()
    mail, over = state.get_interruptions()
    for item, name, arguments in (
        (mail, TO_B, {}),
        (over, "send", {"to": "ann"}),
        (mail, "ask_c", {"input": "x"}),
        (over, "ask_c", {"input": "x"}),
        (over, "nothing", {}),
    ):
        refused(lambda: state.edit(item, arguments, tool=name), InvalidDecision, state)  # noqa: B023
        refused(lambda: state.decide(item.id, Edit(arguments, name)), InvalidDecision, state)  # noqa: B023
    assert (sent, asked(b)) == ([], 0)


async def test_always_approve_covers_the_same_handoff_of_the_same_agent_later() -> None:
    a = Agent("a", model=ScriptedModel([call(TO_B), call(TO_B), "end"]))
    b = scripted(call("transfer_to_a"), call("transfer_to_a"), name="b", handoffs=[a])
    a.handoffs.append(handoff(b, needs_approval=True))
    state = (await Runner.run(a, "go")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await Runner.run(a, await reloaded(a, state))
    assert (result.final_output, result.interruptions) == ("end", [])


# -- among other calls ---------------------------------------------------------------------------------------


async def test_a_handoff_takes_effect_when_the_turns_other_calls_are_done() -> None:
    order: list[str] = []

    @function_tool
    async def work() -> str:
        order.append("work")
        return "worked"

    a, b = pair([call(TO_B, call_id="h"), call("work", call_id="w")], on_handoff=lambda ctx: order.append("handoff"))
    a.tools.append(work)
    result = await Runner.run(a, "go")
    assert order == ["work", "handoff"]
    assert result.last_agent is b
    assert [item["call_id"] for item in heard(b)[1:]] == ["h", "w", "h", "w"], "outputs are in the order of the calls"


async def test_a_handoff_waits_for_a_call_that_waits() -> None:
    send, sent = sending(needs_approval=True)
    a, b = pair([call(TO_B), call("send", {"to": "ann"})])
    a.tools.append(send)
    result = await Runner.run(a, "go")
    [item] = result.interruptions
    assert (item.name, item.agent, asked(b), result.last_agent) == ("send", a, 0, a)
    state = await reloaded(a, result.to_state())
    state.reject(item)
    result = await Runner.run(a, state)
    assert (sent, result.final_output, result.last_agent) == ([], "done by b", b)
    assert well_formed(heard(b))


async def test_a_handoff_waits_for_a_branch_that_waits() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted(call("send", {"to": "ann"}), "inner done", name="inner", tools=[send])
    a, b = pair([call(TO_B), call("inner", {"input": "x"})])
    a.tools.append(inner.as_tool())
    result = await Runner.run(a, "go")
    assert asked(b) == 0
    result = await approved(a, await reloaded(a, result.to_state()))
    assert (sent, result.last_agent) == ([("ann", 1)], b)


@pytest.mark.parametrize("gated", [(False, False), (True, True), (True, False), (False, True)])
@pytest.mark.parametrize("filtered", [True, False])
async def test_of_several_handoffs_the_first_approved_wins(gated: tuple[bool, bool], filtered: bool) -> None:
    seen: list[str] = []
    keep = (lambda data: data) if filtered else None
    b, c = scripted("done by b", name="b"), scripted("done by c", name="c")
    options: Any = {"input_filter": keep}
    a = scripted(
        [call(TO_B, call_id="hb"), call("transfer_to_c", call_id="hc")],
        name="a",
        handoffs=[
            handoff(b, needs_approval=gated[0], on_handoff=lambda ctx: seen.append("b"), **options),
            handoff(c, needs_approval=gated[1], on_handoff=lambda ctx: seen.append("c"), **options),
        ],
    )
    result = await Runner.run(a, "go")
    assert len(result.interruptions) == sum(gated)
    if result.interruptions:
        assert seen == [], "a handoff waits for those that may go before it"
        result = await approved(a, await reloaded(a, result.to_state()))
    assert (result.final_output, result.last_agent) == ("done by b", b)
    assert (seen, asked(c)) == (["b"], 0)
    assert well_formed(heard(b))
    assert well_formed(result.to_input_list())
    assert len([item for item in result.new_items if isinstance(item, HandoffOutputItem)]) == 1
    assert "Another handoff was taken" in told(result)[0]


async def test_when_the_first_of_several_handoffs_is_rejected_the_next_is_taken() -> None:
    b, c = scripted(name="b"), scripted("done by c", name="c")
    a = scripted([call(TO_B), call("transfer_to_c")], name="a", handoffs=[handoff(b, needs_approval=True), c])
    state = (await Runner.run(a, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="not b")
    result = await Runner.run(a, state)
    assert (result.final_output, result.last_agent, asked(b)) == ("done by c", c, 0)
    assert told(result) == ["not b"]
    assert well_formed(heard(c))


async def test_the_same_handoff_twice_in_a_turn_is_taken_once() -> None:
    seen: list[int] = []
    a, b = pair([call(TO_B), call(TO_B)], on_handoff=lambda ctx: seen.append(1))
    result = await Runner.run(a, "go")
    assert (seen, asked(b), result.final_output) == ([1], 1, "done by b")
    assert well_formed(heard(b))


async def test_released_as_a_batch_a_handoff_waits_for_all_verdicts() -> None:
    send, sent = sending(needs_approval=True)
    a, b = pair([call("send", {"to": "ann"}), call(TO_B)], needs_approval=True)
    a.tools.append(send)
    result = await Runner.run(a, "go", run_config=RunConfig(release="batch"))
    mail, over = result.interruptions
    state = result.to_state()
    state.approve(mail)
    result = await Runner.run(a, state)
    assert (sent, asked(b)) == ([], 0)
    result = await approved(a, result.to_state())
    assert (sent, result.last_agent) == ([("ann", 1)], b)
    assert over not in result.interruptions


async def test_a_turns_outputs_do_not_end_the_run_when_it_is_handed_over() -> None:
    send, _ = sending()
    b = scripted("done by b", name="b")
    a = scripted(
        [call("send", {"to": "ann"}), call(TO_B)],
        name="a",
        tools=[send],
        handoffs=[b],
        tool_use_behavior="stop_on_first_tool",
    )
    result = await Runner.run(a, "go")
    assert result.final_output == "done by b"


# -- afterwards ------------------------------------------------------------------------------------------------


async def test_interruptions_after_a_handoff_belong_to_the_new_agent() -> None:
    send, sent = sending(needs_approval=True)
    a, b = pair(call(TO_B), then=(call("send", {"to": "ann"}), "done by b"))
    b.tools.append(send)
    result = await Runner.run(a, "go")
    [item] = result.interruptions
    assert (item.agent, item.path, result.last_agent) == (b, (), b)
    text = result.to_state().to_string()
    peeked = RunState.peek(text)
    assert peeked.agent == "b"
    assert [each.agent for each in peeked.waiting] == ["b"]
    with pytest.raises(UsageError, match="begun by agent 'a'"):
        await RunState.from_string(b, text)
    state = await RunState.from_string(a, text)
    assert state.get_interruptions()[0].agent is b
    state.approve(item)
    with pytest.raises(UsageError, match="begun by agent 'a'"):
        await Runner.run(b, state)
    result = await Runner.run(a, state)
    assert (sent, result.final_output, result.last_agent) == ([("ann", 1)], "done by b", b)


async def test_agents_may_hand_over_back_and_forth() -> None:
    send, sent = sending(needs_approval=True)
    a = Agent("a", model=ScriptedModel([call(TO_B), call(TO_B), call("send", {"to": "ann"}), "end"]), tools=[send])
    b = scripted(call("transfer_to_a"), call("transfer_to_a"), name="b", handoffs=[a])
    a.handoffs.append(b)
    result = await Runner.run(a, "go")
    assert result.last_agent is a
    assert result.interruptions[0].agent is a
    result = await approved(a, await reloaded(a, result.to_state()))
    assert (sent, result.final_output) == ([("ann", 1)], "end")
    over = [item for item in result.new_items if isinstance(item, HandoffOutputItem)]
    assert [(item.source_agent.name, item.target_agent.name) for item in over] == [
        ("a", "b"),
        ("b", "a"),
        ("a", "b"),
        ("b", "a"),
    ]
    assert well_formed(heard(a))


async def test_handing_over_for_ever_is_bounded_by_the_turns() -> None:
    a = Agent("a", model=ScriptedModel(call(TO_B) for _ in range(99)))
    b = Agent("b", model=ScriptedModel(call("transfer_to_a") for _ in range(99)), handoffs=[a])
    a.handoffs.append(b)
    with pytest.raises(UsageError, match="used up its 7 turns"):
        await Runner.run(a, "go", max_turns=7)
    assert asked(a) + asked(b) == 7


async def test_an_agent_may_hand_over_to_itself() -> None:
    a = Agent("a", model=ScriptedModel([call("transfer_to_a"), "end"]))
    a.handoffs.append(a)
    result = await Runner.run(a, "go")
    assert (result.final_output, result.last_agent) == ("end", a)
    result = await Runner.run(a.clone(model=ScriptedModel(["x"])), result.to_input_list())
    assert result.final_output == "x"


async def test_the_run_ends_with_the_output_type_of_the_last_agent() -> None:
    b = Agent("b", model=ScriptedModel(['{"reason": "r", "urgent": true}']), output_type=Why)
    a = scripted(call(TO_B), name="a", handoffs=[b])
    result = await Runner.run(a, "go")
    assert result.final_output == Why(reason="r", urgent=True)


async def test_a_model_that_fails_after_a_handoff_is_asked_again_and_nobody_hands_over_twice() -> None:
    seen: list[int] = []
    a, b = pair(call(TO_B), then=(ModelFailed("down"), "done by b"), on_handoff=lambda ctx: seen.append(1))
    with pytest.raises(ModelFailed) as caught:
        await Runner.run(a, "go")
    text = caught.value.state.to_string()
    assert RunState.peek(text).agent == "b"
    result = await Runner.run(a, await RunState.from_string(a, text))
    assert (seen, result.last_agent, asked(a)) == ([1], b, 1)


async def test_items_say_who_handed_over_to_whom() -> None:
    a, b = pair([call(TO_B, call_id="h")])
    result = await Runner.run(a, "go")
    made, over, words = result.new_items
    assert isinstance(made, HandoffCallItem)
    assert (made.agent, made.tool_name, made.call_id) == (a, TO_B, "h")
    assert isinstance(over, HandoffOutputItem)
    assert (over.agent, over.source_agent, over.target_agent) == (a, a, b)
    assert over.raw_item == {"type": "function_call_output", "call_id": "h", "output": '{"assistant": "b"}'}
    assert isinstance(words, MessageOutputItem)
    assert words.agent is b


async def test_a_stream_tells_of_a_handoff() -> None:
    a, b = pair(call(TO_B))
    streamed = Runner.run_streamed(a, "go")
    seen: list[str] = []
    async for event in streamed.stream_events():
        if isinstance(event, RunItemStreamEvent):
            seen.append(event.name)
        elif isinstance(event, AgentUpdatedStreamEvent):
            assert streamed.current_agent is event.new_agent or event.new_agent is a
            seen.append(event.new_agent.name)
    assert seen == ["a", "handoff_requested", "handoff_occured", "b", "message_output_created"]
    assert streamed.current_agent is b


async def test_a_stream_that_goes_on_after_a_handoff_begins_with_the_agent_that_has_the_word() -> None:
    send, _ = sending(needs_approval=True)
    a, b = pair(call(TO_B), then=(call("send", {"to": "ann"}), "done by b"))
    b.tools.append(send)
    state = await reloaded(a, (await Runner.run(a, "go")).to_state())
    state.approve(state.get_interruptions()[0])
    streamed = Runner.run_streamed(a, state)
    first, *_ = [event async for event in streamed.stream_events()]
    assert isinstance(first, AgentUpdatedStreamEvent)
    assert first.new_agent is b


async def test_released_agents_leave_their_names() -> None:
    a, b = pair(call(TO_B))
    result = await Runner.run(a, "go")
    result.release_agents()
    _, over, _ = result.new_items
    assert isinstance(over, HandoffOutputItem)
    assert (over.agent, over.source_agent, over.target_agent) == ("a", "a", "b")
    with pytest.raises(UsageError, match="'b'"):
        _ = result.last_agent
    assert result.final_output == "done by b"
    assert len(result.to_input_list()) == 4
    gone = [weakref.ref(a), weakref.ref(b)]
    del a, b
    gc.collect()
    assert [each() for each in gone] == [None, None]


async def test_a_handoff_inside_an_agent_that_is_a_tool_stays_inside() -> None:
    send, sent = sending(needs_approval=True)
    second = scripted(call("send", {"to": "ann"}), "second's words", name="second", tools=[send])
    first = scripted(call("transfer_to_second"), name="first", handoffs=[second])
    a = scripted(call("first", {"input": "x"}), "end", name="a", tools=[first.as_tool()])
    result = await Runner.run(a, "go")
    [item] = result.interruptions
    assert (item.agent, item.path, result.last_agent) == (second, ("c1",), a)
    result = await approved(a, await reloaded(a, result.to_state()))
    assert (sent, told(result), result.last_agent) == ([("ann", 1)], ["second's words"], a)
    assert asked(first) == 1


# -- places ------------------------------------------------------------------------------------------------------


async def test_what_is_granted_to_one_agent_is_not_granted_to_another_of_its_name() -> None:
    mine, by_first = sending(needs_approval=True)
    other, by_second = sending(needs_approval=True)
    second = scripted(call("send", {"to": "eve"}), "end", name="b", tools=[other])
    first = scripted(
        call("send", {"to": "ann"}),
        call("send", {"to": "bob"}),
        call("on"),
        name="b",
        tools=[mine],
        handoffs=[handoff(second, tool_name_override="on")],
    )
    a = scripted(call(TO_B), name="a", handoffs=[first])
    state = (await Runner.run(a, "go")).to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await Runner.run(a, await reloaded(a, state))
    assert by_first == [("ann", 1), ("bob", 1)]
    assert by_second == []
    [item] = result.interruptions
    assert (item.agent, json.loads(item.arguments)["to"]) == (second, "eve")


async def test_names_with_slashes_do_not_lead_two_agents_to_one_place() -> None:
    deep_tool, by_deep = sending(needs_approval=True)
    flat_tool, by_flat = sending(needs_approval=True)
    flat = scripted(call("send", {"to": "eve"}), "end", name="x", tools=[flat_tool])
    deep = scripted(call("send", {"to": "ann"}), call("back"), name="x", tools=[deep_tool])
    middle = scripted(call("q"), name="m", handoffs=[handoff(deep, tool_name_override="q")])
    a = Agent("a", model=ScriptedModel([call("p"), call("p/q")]))
    deep.handoffs.append(handoff(a, tool_name_override="back"))
    a.handoffs += [handoff(middle, tool_name_override="p"), handoff(flat, tool_name_override="p/q")]
    result = await Runner.run(a, "go")
    assert result.interruptions[0].agent is deep
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await Runner.run(a, await reloaded(a, state))
    assert (by_deep, by_flat) == ([("ann", 1)], [])
    assert result.interruptions[0].agent is flat


@pytest.mark.parametrize("how", ["shorter", "reordered"])
async def test_a_new_way_to_an_agent_does_not_lose_the_runs_that_are_with_it(how: str) -> None:
    def cast(changed: bool) -> Agent[Any]:
        send, _ = sending(needs_approval=True)
        c = scripted("done by c", name="c", tools=[send])
        if not changed:
            c.model = ScriptedModel([call("send", {"to": "ann"})])
        b = scripted(call("transfer_to_c"), name="b", handoffs=[c])
        a = scripted(call(TO_B), name="a", handoffs=[b])
        if how == "shorter":
            a.handoffs += [c] if changed else []
        else:
            b.handoffs += [handoff(c, tool_name_override="other")]
            b.handoffs.reverse() if changed else None
        return a

    first = cast(False)
    state = (await Runner.run(first, "go")).to_state()
    again = cast(True)
    result = await approved(again, await reloaded(again, state))
    assert (result.final_output, result.last_agent.name) == ("done by c", "c")


# -- definitions that change while a handoff waits -----------------------------------------------------------------


async def waiting_handoff(**options: Any) -> str:
    a, _ = pair(call(TO_B), needs_approval=True, **options)
    return (await Runner.run(a, "go")).to_state().to_string()


@pytest.mark.parametrize("change", ["description", "gone", "rule", "agent"])
async def test_a_changed_handoff_that_waits_is_refused_by_default(change: str) -> None:
    text = await waiting_handoff(tool_description_override="d")
    new = changed_handoff(change)
    with pytest.raises(DefinitionChanged, match=TO_B):
        await RunState.from_string(new, text)


def changed_handoff(change: str) -> Agent[Any]:
    b = scripted("done by b", name="b" if change != "agent" else "other")
    made = handoff(
        b,
        tool_name_override=TO_B,
        tool_description_override="new" if change == "description" else "d",
        needs_approval=change != "rule",
    )
    return scripted("stayed", name="a", handoffs=[] if change == "gone" else [made])


@pytest.mark.filterwarnings("ignore:Agent 'a'")
async def test_a_changed_handoff_can_be_asked_about_again() -> None:
    text = await waiting_handoff(tool_description_override="d")
    a = changed_handoff("description")
    [old] = RunState.peek(text).waiting
    state = await RunState.from_string(a, text, on_change="ask")
    [item] = state.get_interruptions()
    assert item.id != old.id
    assert "has changed" in item.reason
    result = await approved(a, await reloaded(a, state))
    assert result.final_output == "done by b"


@pytest.mark.filterwarnings("ignore:Agent 'a'")
async def test_a_changed_handoff_can_be_accepted() -> None:
    a = changed_handoff("description")
    state = await RunState.from_string(a, await waiting_handoff(tool_description_override="d"), on_change="accept")
    result = await approved(a, state)
    assert result.final_output == "done by b"


@pytest.mark.filterwarnings("ignore:Agent 'a'")
@pytest.mark.parametrize("on_change", ["ask", "accept"])
async def test_a_handoff_that_is_gone_cannot_be_taken(on_change: Any) -> None:
    a = changed_handoff("gone")
    state = await RunState.from_string(a, await waiting_handoff(tool_description_override="d"), on_change=on_change)
    for item in state.get_interruptions():
        assert item.allowed == ("respond", "reject")
        state.reject(item)
    result = await Runner.run(a, state)
    assert (result.final_output, result.last_agent) == ("stayed", a)


async def test_an_approved_handoff_that_changed_before_it_was_taken_is_not_taken() -> None:
    a, _ = pair(call(TO_B), needs_approval=True)
    state = (await Runner.run(a, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    b = scripted("done by the new b", name="b")
    a.handoffs[:] = [handoff(b, needs_approval=True, tool_description_override="another")]
    with pytest.raises(DefinitionChanged, match=TO_B):
        await Runner.run(a, state)
    assert asked(b) == 0


async def test_a_run_whose_agent_nothing_leads_to_any_more_says_so() -> None:
    send, _ = sending(needs_approval=True)
    a, b = pair(call(TO_B), then=(call("send", {"to": "ann"}),))
    b.tools.append(send)
    text = (await Runner.run(a, "go")).to_state().to_string()
    with pytest.raises(DefinitionChanged, match="nothing leads there"):
        await RunState.from_string(scripted(name="a"), text)


async def test_a_handoff_that_comes_while_the_run_goes_is_offered() -> None:
    c = scripted("done by c", name="c")

    @function_tool
    async def hire() -> str:
        a.handoffs.append(c)
        return "hired"

    a = scripted(call("hire"), call("transfer_to_c"), name="a", tools=[hire])
    result = await Runner.run(a, "go")
    assert (result.final_output, result.last_agent) == ("done by c", c)


async def test_an_agent_whose_way_was_closed_behind_it_can_still_hand_on() -> None:
    d = scripted("done by d", name="d")

    @function_tool
    async def burn() -> str:
        a.handoffs.clear()
        b.handoffs.append(d)
        return "burnt"

    a, b = pair(call(TO_B), then=(call("burn"), call("transfer_to_d")))
    b.tools.append(burn)
    result = await Runner.run(a, "go")
    assert (result.final_output, result.last_agent) == ("done by d", d)


def test_a_handoff_is_a_tool_of_its_own_kind() -> None:
    made = handoff(Agent("b"))
    assert isinstance(made, Handoff)
    assert made.kind == "handoff"
    assert made.failure_error_function is None


async def test_handing_over_records_one_fact() -> None:
    a, _ = pair(call(TO_B))
    result = await Runner.run(a, "go")
    [fact] = facts(result.to_state(), "handedoff")
    assert (fact["call"], fact["to"], fact["name"]) == ("c1", "a/transfer_to_b", "b")
    assert "history" not in fact


async def test_an_on_handoff_that_was_cut_off_is_in_doubt_and_not_entered_again_unasked() -> None:
    begun, never = asyncio.Event(), asyncio.Event()
    runs: list[int] = []

    async def slow(ctx: Any) -> None:
        runs.append(1)
        begun.set()
        if len(runs) == 1:
            await never.wait()

    a, b = pair(call(TO_B), on_handoff=slow)
    state = await reloaded(a, await stopped(Runner.run(a, "go"), begun))
    result = await Runner.run(a, state)
    [item] = result.interruptions
    assert (item.kind, item.name, runs, asked(b)) == ("doubt", TO_B, [1], 0)
    result = await approved(a, result.to_state())
    assert (result.last_agent, runs) == (b, [1, 1])


async def test_an_agent_may_be_a_tool_and_a_handoff_of_the_same_agent() -> None:
    send, sent = sending(needs_approval=True)
    b = scripted(call("send", {"to": "x"}), "asked", call("send", {"to": "y"}), "handed", name="b", tools=[send])
    a = scripted(call("b", {"input": "?"}), call(TO_B), name="a", tools=[b.as_tool()], handoffs=[b])
    result = await Runner.run(a, "go")
    assert result.interruptions[0].path == ("c1",)
    result = await approved(a, await reloaded(a, result.to_state()))
    assert result.interruptions[0].path == ()
    result = await approved(a, await reloaded(a, result.to_state()))
    assert (result.final_output, result.last_agent, len(sent)) == ("handed", b, 2)


async def test_a_handoff_to_an_agent_without_a_model_says_so_and_can_be_resumed() -> None:
    b = Agent("b")
    a = scripted(call(TO_B), name="a", handoffs=[b])
    with pytest.raises(UsageError, match="'b' has no model") as caught:
        await Runner.run(a, "go")
    b.model = ScriptedModel(["done by b"])
    assert (await Runner.run(a, caught.value.state)).final_output == "done by b"


@pytest.mark.parametrize("many", [False, True])
async def test_an_agent_that_has_the_word_again_is_defined_again_by_another_fact(many: bool) -> None:
    def named(name: str) -> Any:
        @function_tool(name_override=name)
        async def tool() -> None: ...

        return tool

    tools = [named(f"tool_with_a_long_name_{number}") for number in range(40 if many else 1)]
    b = scripted(call("transfer_to_a"), name="b")
    a = scripted(call(TO_B), "done", name="a", tools=tools, handoffs=[b])
    b.handoffs.append(a)
    result = await Runner.run(a, "go")
    assert result.final_output == "done"
    journal = result._scope.journal.facts
    assert [fact["agent"] for fact in facts(result.to_state(), "defined")] == ["a", "b", "a"]
    assert len({id(fact) for fact in journal}) == len(journal), "whoever writes them tells them apart"


async def test_a_filter_may_choose_the_items_of_the_turn_that_the_next_agent_gets() -> None:
    a, b = pair(call(TO_B), input_filter=lambda data: data.clone(input_items=()))
    await Runner.run(a, "go")
    assert heard(b) == [{"role": "user", "content": "go"}]
