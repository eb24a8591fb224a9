"""Contexts: what rules and bodies get, and a context's way into a saved run and back."""

import asyncio
import threading
import warnings
from collections import UserDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from assentry import (
    Agent,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ToolApprovalItem,
    ToolContext,
    Usage,
    function_tool,
)
from assentry.errors import AlreadyDecided, AssentryError, Conflict, ContextMissing, QuestionNotFound, UsageError
from assentry.testing import call
from tests.runtime.support import HANGS, facts, named, outcomes, reloaded, scripted, sending, told

# -- what code gets to know ------------------------------------------------------------------------


async def test_a_body_gets_its_context_if_its_first_parameter_asks_for_it() -> None:
    got: list[Any] = []

    @function_tool
    async def run(ctx: RunContextWrapper[Any]) -> str:
        got.append(ctx)
        return "ok"

    @function_tool
    async def tool(ctx: ToolContext[Any], n: int, m: int = 2) -> str:
        got.append(ctx)
        return "ok"

    @function_tool
    def sync(context: ToolContext[Any]) -> str:
        got.append(context)
        return "ok"

    calls = [call("run"), call("tool", '{"n" : 1}', "abc"), call("sync")]
    agent = scripted(calls, "done", tools=[run, tool, sync])
    mine = object()
    await Runner.run(agent, "go", context=mine)
    assert all(ctx.context is mine for ctx in got)
    [ctx] = [ctx for ctx in got if ctx.tool_name == "tool"]
    assert ctx.call_id == ctx.tool_call_id == "abc"
    assert ctx.arguments == ctx.tool_arguments == '{"m":2,"n":1}'
    assert ctx.agent is agent
    assert ctx.idempotency_key
    assert "ctx" not in tool.params_json_schema["properties"]


async def test_the_arguments_a_body_sees_are_the_ones_that_run() -> None:
    got: list[str] = []

    @function_tool(needs_approval=True)
    async def pay(ctx: ToolContext[Any], amount: int) -> str:
        got.append(ctx.arguments)
        return "ok"

    agent = scripted(call("pay", {"amount": 1}), "done", tools=[pay])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.edit(result.interruptions[0], {"amount": 2})
    await Runner.run(agent, state)
    assert got == ['{"amount":2}']


async def test_the_context_is_one_object_for_rules_bodies_and_the_result() -> None:
    got: list[Any] = []

    def rule(ctx: RunContextWrapper[Any], params: Any, call_id: str) -> bool:
        got.append(ctx.context)
        return False

    def instructions(ctx: RunContextWrapper[Any], agent: Any) -> str:
        got.append(ctx.context)
        return f"Serve {ctx.context['user']}."

    @function_tool(needs_approval=rule)
    async def work(ctx: RunContextWrapper[Any]) -> str:
        ctx.context["count"] = 1
        return "ok"

    agent = scripted(call("work"), "done", tools=[work], instructions=instructions)
    mine = {"user": "ann"}
    result = await Runner.run(agent, "go", context=mine)
    assert all(each is mine for each in got)
    assert result.context_wrapper.context is mine
    assert mine == {"user": "ann", "count": 1}
    model: Any = agent.model
    assert model.requests[0].instructions == "Serve ann."


async def test_usage_covers_the_whole_run_across_reloads() -> None:
    seen: list[int] = []

    @function_tool(needs_approval=True)
    async def work(ctx: RunContextWrapper[Any]) -> str:
        seen.append(ctx.usage.requests)
        return "ok"

    agent = scripted(call("work"), call("work"), "done", tools=[work])
    result = await Runner.run(agent, "go")
    while result.interruptions:
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state)
    assert seen == [1, 2]
    usage = result.context_wrapper.usage
    assert isinstance(usage, Usage)
    assert (usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens) == (3, 30, 15, 45)


async def test_a_body_can_decide_on_other_questions_of_its_run() -> None:
    send, sent = sending(needs_approval=True)
    waiting: list[ToolApprovalItem] = []

    @function_tool
    async def decide(ctx: ToolContext[Any]) -> str:
        one, two = waiting
        assert ctx.is_tool_approved("send", "a") is None
        ctx.approve_tool(one)
        ctx.reject_tool(two, rejection_message="no mail to bob")
        assert ctx.is_tool_approved("send", "a") is True
        assert ctx.is_tool_approved("send", "b") is False
        with pytest.raises(AlreadyDecided):
            ctx.reject_tool(one)
        return "decided"

    @function_tool(needs_approval=True)
    async def begin(ctx: ToolContext[Any]) -> str:
        return await decide.function(ctx)  # type: ignore[no-any-return]

    calls = [call("begin"), call("send", {"to": "ann"}, "a"), call("send", {"to": "bob"}, "b")]
    agent = scripted(calls, "done", tools=[send, begin])
    result = await Runner.run(agent, "go")
    first, *waiting[:] = result.interruptions
    state = result.to_state()
    state.approve(first)
    result = await Runner.run(agent, state)
    assert result.interruptions == []
    assert sent == [("ann", 1)]
    assert told(result) == ["decided", "sent 1 to ann", "no mail to bob"]
    assert outcomes(result)[2].status == "rejected"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_body_can_decide_for_always(is_async: bool) -> None:
    send, sent = sending(needs_approval=True)
    waiting: list[ToolApprovalItem] = []

    async def allow(ctx: ToolContext[Any]) -> str:
        ctx.approve_tool(waiting[0], always_approve=True)
        return "allowed"

    def allow_sync(ctx: ToolContext[Any]) -> str:
        ctx.approve_tool(waiting[0], always_approve=True)
        return "allowed"

    tool = function_tool(name_override="allow", needs_approval=True)(allow if is_async else allow_sync)
    agent = scripted(
        [call("allow"), call("send", {"to": "ann"})], call("send", {"to": "bob"}), "done", tools=[send, tool]
    )
    result = await Runner.run(agent, "go")
    first, *waiting[:] = result.interruptions
    state = result.to_state()
    state.approve(first)
    result = await Runner.run(agent, state)
    assert sent == [("ann", 1), ("bob", 1)]
    assert [grant.tool for grant in result.to_state().grants()] == ["send"]
    by = [fact["by"] for fact in facts(result.to_state(), "approved")]
    assert "code" in by[1]


async def test_a_body_cannot_decide_on_questions_of_another_run() -> None:
    send, sent = sending(needs_approval=True)
    other = (await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go")).interruptions[0]
    raised: list[Exception] = []

    @function_tool
    async def decide(ctx: ToolContext[Any]) -> str:
        try:
            ctx.approve_tool(other)
        except QuestionNotFound as error:
            raised.append(error)
        return "ok"

    await Runner.run(scripted(call("decide"), "done", tools=[decide]), "go")
    assert len(raised) == 1
    assert sent == []


async def test_what_is_decided_through_the_context_of_a_run_that_was_left_is_never_lost() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "ann"}), call("send", {"to": "bob"})], "done", tools=[send])
    result = await Runner.run(agent, "go")
    first, second = result.interruptions
    result.context_wrapper.approve_tool(first)
    state = result.to_state()
    assert state.get_interruptions() == [second]
    with pytest.raises(Conflict, match="state"):
        result.context_wrapper.approve_tool(second)
    assert state.get_interruptions() == [second]
    await Runner.run(agent, state)
    assert sent == [("ann", 1)]


@pytest.mark.parametrize("closed", [True, False])
def test_a_thread_that_outlives_its_run_and_its_loop_is_told_and_does_not_hang(closed: bool) -> None:
    began, go, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[Exception] = []

    @function_tool
    def work(ctx: ToolContext[Any]) -> None:
        began.set()
        go.wait(HANGS)
        for act in (lambda: ctx.step_sync("x", lambda: 1), lambda: ctx.approve_tool(waiting[0])):
            try:
                act()
            except Conflict as error:
                raised.append(error)
        ended.set()

    send, _ = sending(needs_approval=True)
    agent = scripted([call("work"), call("send", {"to": "ann"})], "done", tools=[send, work])

    async def main() -> list[ToolApprovalItem]:
        run = asyncio.create_task(Runner.run(agent, "go"))
        await asyncio.to_thread(began.wait, HANGS)
        run.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await run
        items: list[ToolApprovalItem] = caught.value.state.get_interruptions()  # type: ignore[attr-defined]
        return items

    loop = asyncio.new_event_loop()
    waiting = loop.run_until_complete(main())
    if closed:
        loop.close()
    go.set()
    assert ended.wait(HANGS)
    assert len(raised) == 2
    loop.close()


def test_a_wrapper_of_ones_own_holds_a_context_and_belongs_to_no_run() -> None:
    wrapper = RunContextWrapper({"a": 1})
    assert wrapper.context == {"a": 1}
    assert wrapper.usage == Usage()
    with pytest.raises(AssentryError, match="belongs to no run"):
        wrapper.is_tool_approved("x", "y")


async def test_a_tool_s_context_of_ones_own_has_its_call_and_can_neither_ask_nor_step() -> None:
    usage = Usage(requests=2)
    ctx = ToolContext({"a": 1}, usage, tool_name="send", tool_call_id="c1", tool_arguments='{"to": "ann"}')
    assert (ctx.context, ctx.usage, ctx.tool_name, ctx.call_id) == ({"a": 1}, usage, "send", "c1")
    assert (ctx.tool_arguments, ctx.tool_call, ctx.preconditions) == ('{"to": "ann"}', None, {})
    for refused in (ctx.ask("why?"), ctx.step("one", dict), ctx.holds_lease()):
        with pytest.raises(UsageError, match="belongs to no run"):
            await refused
    for call_it in (lambda: ctx.ask_sync("why?"), lambda: ctx.idempotency_key, lambda: ctx.progress(1)):
        with pytest.raises(UsageError, match="belongs to no run"):
            call_it()


async def test_a_body_sees_the_call_as_the_provider_s_item_and_the_settings_of_the_run() -> None:
    seen: list[Any] = []

    @function_tool
    async def look(ctx: ToolContext[Any], at: str) -> str:
        seen.extend((ctx.tool_call, ctx.run_config))
        return at

    config = RunConfig()
    await Runner.run(scripted(call("look", {"at": "sky"}, "c9"), "done", tools=[look]), "go", run_config=config)
    item, settings = seen
    assert (item.call_id, item.name, item["arguments"]) == ("c9", "look", '{"at": "sky"}')
    assert settings is config


# -- a saved context -------------------------------------------------------------------------------


@dataclass
class Team:
    name: str
    members: list[str] = field(default_factory=list)


class User(BaseModel):
    name: str
    since: datetime


class Secret:
    """A context that JSON knows nothing of."""

    def __init__(self, key: str) -> None:
        self.key = key


async def paused(context: Any) -> tuple[Agent[Any], RunState[Any], list[Any]]:
    """An agent that waits, its state, and the contexts its tool will have seen."""
    seen: list[Any] = []

    @function_tool(needs_approval=True)
    async def look(ctx: RunContextWrapper[Any]) -> str:
        seen.append(ctx.context)
        return "ok"

    agent = scripted(call("look"), "done", tools=[look])
    return agent, (await Runner.run(agent, "go", context=context)).to_state(), seen


async def resumed(agent: Agent[Any], state: RunState[Any], **options: Any) -> None:
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, **options)).final_output == "done"


MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("context", "loaded"),
    [
        (None, None),
        ({}, {}),
        ({"user": "ann", "tags": ["x", None, 1.5]}, {"user": "ann", "tags": ["x", None, 1.5]}),
        (UserDict(user="ann"), {"user": "ann"}),
        (Team("a", ["b"]), {"name": "a", "members": ["b"]}),
        (User(name="ann", since=MOMENT), {"name": "ann", "since": "2026-01-02T00:00:00Z"}),
    ],
    ids=["none", "empty", "dict", "mapping", "dataclass", "model"],
)
async def test_mappings_dataclasses_and_models_are_saved_by_themselves(context: Any, loaded: Any) -> None:
    agent, state, seen = await paused(context)
    again = await reloaded(agent, state)
    assert again.context == loaded
    text = again.to_string()
    assert RunState.peek(text).status == "waiting"
    await resumed(agent, again)
    assert seen == [loaded]


async def test_in_the_process_that_made_it_the_context_is_the_same_object() -> None:
    mine = Secret("k")
    agent, state, seen = await paused(mine)
    assert state.context is mine
    await resumed(agent, state)
    assert seen == [mine]


async def test_a_context_can_be_given_back_its_type() -> None:
    agent, state, seen = await paused(Team("a", ["b"]))
    again = await reloaded(agent, state, context_deserializer=lambda data: Team(**data))
    assert again.context == Team("a", ["b"])
    await resumed(agent, again)
    assert seen == [Team("a", ["b"])]


async def test_any_context_can_be_saved_with_a_serializer() -> None:
    agent, state, seen = await paused(Secret("k"))
    text = state.to_string(context_serializer=lambda context: {"key": context.key}, strict_context=True)
    again = await RunState.from_string(
        agent, text, context_deserializer=lambda data: Secret(data["key"]), strict_context=True
    )
    assert again.context.key == "k"
    await resumed(agent, again)
    assert seen[0].key == "k"
    data = (await paused(Secret("k")))[1].to_json(context_serializer=lambda context: [context.key])
    assert (await RunState.from_json(agent, data)).context == ["k"]


async def test_a_serializer_goes_before_what_would_be_saved_by_itself() -> None:
    agent, state, _ = await paused({"password": "x", "user": "ann"})
    text = state.to_string(context_serializer=lambda context: {"user": context["user"]})
    assert "password" not in text
    assert (await RunState.from_string(agent, text)).context == {"user": "ann"}


async def test_a_context_that_cannot_be_saved_is_left_out_with_a_warning() -> None:
    agent, state, seen = await paused(Secret("k"))
    with pytest.warns(UserWarning, match="Secret"):
        text = state.to_string()
    with pytest.warns(UserWarning, match="Secret"):
        state.to_json()
    again = await RunState.from_string(agent, text)
    assert again.context is None
    item = again.get_interruptions()[0]
    again.approve(item)
    with pytest.raises(ContextMissing):
        await Runner.run(agent, again)
    with pytest.raises(ContextMissing):
        Runner.run_streamed(agent, again)
    assert seen == []
    mine = Secret("new")
    await Runner.run(agent, again, context=mine)
    assert seen == [mine]


async def test_a_context_that_was_left_out_stays_left_out_when_saved_again() -> None:
    agent, state, _ = await paused(Secret("k"))
    with pytest.warns(UserWarning, match="Secret"):
        again = await reloaded(agent, state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        third = await reloaded(agent, again)
    with pytest.raises(ContextMissing):
        await Runner.run(agent, third)


async def test_an_override_goes_before_what_is_in_the_payload_and_does_not_remove_it() -> None:
    agent, state, seen = await paused({"user": "ann"})
    text = state.to_string()
    again = await RunState.from_string(agent, text, context_override={"user": "bob"})
    assert again.context == {"user": "bob"}
    assert (await RunState.from_string(agent, text)).context == {"user": "ann"}
    await resumed(agent, again)
    assert seen == [{"user": "bob"}]


async def test_an_override_stands_in_for_a_context_that_was_left_out() -> None:
    agent, state, seen = await paused(Secret("k"))
    with pytest.warns(UserWarning, match="Secret"):
        text = state.to_string()
    mine = Secret("new")
    again = await RunState.from_string(agent, text, context_override=mine, strict_context=True)
    await resumed(agent, again)
    assert seen == [mine]


async def test_a_context_given_on_resume_replaces_the_states() -> None:
    agent, state, seen = await paused({"user": "ann"})
    await resumed(agent, await reloaded(agent, state), context={"user": "bob"})
    assert seen == [{"user": "bob"}]


@pytest.mark.parametrize("context", [Team("a"), User(name="a", since=MOMENT), Secret("k"), 5], ids=named)
async def test_strict_saving_fails_for_all_but_mappings(context: Any) -> None:
    agent, state, seen = await paused(context)
    with pytest.raises(ContextMissing):
        state.to_string(strict_context=True)
    with pytest.raises(ContextMissing):
        state.to_json(strict_context=True)
    state.to_string(strict_context=True, context_serializer=lambda context: {})
    await resumed(agent, state)
    assert seen == [context]


async def test_strict_saving_and_loading_of_a_mapping_works() -> None:
    agent, state, _ = await paused({"user": "ann"})
    text = state.to_string(strict_context=True)
    assert (await RunState.from_string(agent, text, strict_context=True)).context == {"user": "ann"}


@pytest.mark.parametrize("context", [Team("a"), User(name="a", since=MOMENT)], ids=["dataclass", "model"])
async def test_strict_loading_fails_for_all_but_mappings_without_a_deserializer(context: Any) -> None:
    agent, state, _ = await paused(context)
    text = state.to_string()
    with pytest.raises(ContextMissing):
        await RunState.from_string(agent, text, strict_context=True)
    with pytest.raises(ContextMissing):
        await RunState.from_json(agent, state.to_json(), strict_context=True)
    await RunState.from_string(agent, text, strict_context=True, context_deserializer=lambda data: data)


async def test_strict_loading_fails_for_a_context_that_was_left_out() -> None:
    agent, state, _ = await paused(Secret("k"))
    with pytest.warns(UserWarning, match="Secret"):
        text = state.to_string()
    with pytest.raises(ContextMissing):
        await RunState.from_string(agent, text, strict_context=True)


UNSAVABLE: list[Any] = [{"client": object()}, {"x": float("nan")}, {"x": "\ud800"}, {"s": {1}}, {"when": MOMENT}]


@pytest.mark.parametrize("context", UNSAVABLE, ids=["object", "nan", "surrogate", "set", "datetime"])
async def test_a_mapping_that_json_cannot_hold_is_a_clear_error_and_the_state_stays_usable(context: Any) -> None:
    agent, state, _ = await paused(context)
    with pytest.raises(ContextMissing, match="context_serializer"):
        state.to_string()
    with pytest.raises(ContextMissing):
        state.to_string(context_serializer=lambda given: given)
    state.to_string(context_serializer=lambda given: {})
    await resumed(agent, state)


async def test_keys_that_json_would_change_are_not_changed_in_silence() -> None:
    agent, state, _ = await paused({1: "one"})
    try:
        again = await reloaded(agent, state)
    except ContextMissing:
        return
    assert again.context == {1: "one"}


async def test_secrets_are_left_out_unless_asked_for() -> None:
    _, state, _ = await paused(None)
    assert state.to_string(include_tracing_api_key=True) == state.to_string()
