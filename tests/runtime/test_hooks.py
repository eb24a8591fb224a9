"""Hooks of runs and agents: when each is called, and what an error in one does."""

import asyncio
from typing import Any

import pytest

from assentry import (
    Agent,
    AgentHooks,
    RunHooks,
    Runner,
    ToolContext,
    ToolGuardrailFunctionOutput,
    function_tool,
    handoff,
    tool_input_guardrail,
)
from assentry.errors import InvalidDefinition, ModelFailed, UsageError
from assentry.testing import call
from tests.runtime.support import asked, heard, outcomes, reloaded, scripted, sending, soon, stopped, told
from tests.runtime.test_guardrails import leaves

EVENTS = (
    "agent_start",
    "agent_end",
    "handoff",
    "tool_start",
    "tool_end",
    "llm_start",
    "llm_end",
    "approval_requested",
    "approval_decided",
)
OF_AGENTS = ("start", "end", *EVENTS[2:])


class Broken(Exception):
    """What a hook raises."""


class Log(RunHooks[Any]):
    """Keeps what it is told; raises where it is told to, once."""

    def __init__(self, *raises: str) -> None:
        self.told: list[str] = []
        self.details: list[tuple[Any, ...]] = []
        self.raises = list(raises)

    def names(self) -> list[str]:
        return [each.split()[0] for each in self.told]

    def count(self, name: str) -> int:
        return self.names().count(name)


class Own(AgentHooks[Any]):
    """The same for one agent."""

    def __init__(self, *raises: str) -> None:
        self.told: list[str] = []
        self.details: list[tuple[Any, ...]] = []
        self.raises = list(raises)

    names = Log.names
    count = Log.count


def _subject(name: str, args: tuple[Any, ...]) -> str:
    agent, *rest = args
    words = [agent.name]
    if name in ("handoff", "tool_start", "tool_end", "approval_requested", "approval_decided"):
        words.append(rest[0].name)
    if name == "approval_decided":
        words += rest[1:]
    return " ".join(words)


def _method(name: str) -> Any:
    async def on(self: Any, context: Any, *args: Any) -> None:
        await asyncio.sleep(0)
        self.told.append(f"{name} {_subject(name, args)}")
        self.details.append((name, context, *args))
        if name in self.raises:
            self.raises.remove(name)
            raise Broken(name)

    return on


for _name in EVENTS:
    setattr(Log, f"on_{_name}", _method(_name))
for _name in OF_AGENTS:
    setattr(Own, f"on_{_name}", _method(_name))


async def play(agent: Agent[Any], given: Any, streamed: bool, **options: Any) -> Any:
    if not streamed:
        return await Runner.run(agent, given, **options)
    result = Runner.run_streamed(agent, given, **options)
    async for _ in result.stream_events():
        pass
    return result


# -- what is told, and in which order --------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_is_told_in_order(streamed: bool) -> None:
    send, _ = sending()
    log, own = Log(), Own()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], hooks=own)
    result = await play(agent, "go", streamed, hooks=log)
    assert result.final_output == "done"
    assert log.told == [
        "agent_start agent",
        "llm_start agent",
        "llm_end agent",
        "tool_start agent send",
        "tool_end agent send",
        "llm_start agent",
        "llm_end agent",
        "agent_end agent",
    ]
    assert own.told == [each.removeprefix("agent_") for each in log.told]


async def test_the_runs_hooks_are_told_before_the_agents() -> None:
    order: list[str] = []

    class Theirs(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            order.append("run")

    class Mine(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            order.append("agent")

    await Runner.run(scripted("done", hooks=Mine()), "go", hooks=Theirs())
    assert order == ["run", "agent"]


async def test_hooks_get_what_it_is_about() -> None:
    send, _ = sending()
    log = Log()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], instructions="Be brief.")
    await Runner.run(agent, "go", hooks=log, context={"user": "ann"})
    assert all(context.context == {"user": "ann"} for _, context, *_ in log.details)
    by = {name: args for name, _, *args in log.details}
    assert by["agent_start"] == [agent]
    assert by["agent_end"] == [agent, "done"]
    assert by["tool_start"] == [agent, send]
    assert by["tool_end"] == [agent, send, "sent 1 to ann"]
    asked_, words, items = by["llm_start"]
    assert (asked_, words) == (agent, "Be brief.")
    assert [item.get("type") for item in items] == [None, "function_call", "function_call_output"]
    assert by["llm_end"][1].response_id == "resp_3"
    assert by["llm_end"][1].output[0]["type"] == "message"


async def test_hooks_know_which_of_two_calls_of_a_tool_they_are_told_of() -> None:
    send, _ = sending()
    log = Log()
    calls = [call("send", {"to": "ann"}, "a"), call("send", {"to": "bob"}, "b")]
    await Runner.run(scripted(calls, "done", tools=[send]), "go", hooks=log, context={"user": "ann"})
    for name in ("tool_start", "tool_end"):
        about = [context for what, context, *_ in log.details if what == name]
        assert {ctx.call_id: ctx.tool_arguments for ctx in about} == {
            "a": '{"copies":1,"to":"ann"}',
            "b": '{"copies":1,"to":"bob"}',
        }
        assert all(ctx.tool_name == "send" and ctx.context == {"user": "ann"} for ctx in about)


async def test_hooks_know_which_call_an_agent_was_asked_by() -> None:
    log = Log()
    inner = scripted("done", name="inner")
    agent = scripted(call("inner", {"input": "hello"}, "a"), "done", tools=[inner.as_tool()])
    await Runner.run(agent, "go", hooks=log)
    about = [context for name, context, *_ in log.details if name.startswith("tool_")]
    assert [(ctx.call_id, ctx.arguments) for ctx in about] == [("a", '{"input":"hello"}')] * 2


@pytest.mark.parametrize("how", ["ask", "ask_sync", "step", "step_sync"])
async def test_a_hook_can_neither_ask_nor_step(how: str) -> None:
    class Curious(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            given = ["Really?"] if how.startswith("ask") else ["once", dict]
            done = getattr(context, how)(*given)
            if not how.endswith("sync"):
                await done

    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    with pytest.raises(UsageError, match="A hook is told, and can neither ask nor step"):
        await Runner.run(agent, "go", hooks=Curious())
    assert sent == []


async def test_a_hook_that_changes_what_it_is_given_changes_nothing() -> None:
    class Vandal(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            for item in input_items:
                item.clear()
            input_items.clear()

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            for item in response.output:
                item["arguments"] = '{"to": "eve"}'
            response.output.clear()

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            context.context["user"] = "still theirs"

    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go", hooks=Vandal(), context={})
    assert sent == [("ann", 1)]
    assert heard(agent)[0] == {"role": "user", "content": "go"}
    assert heard(agent)[1]["type"] == "function_call"
    assert result.final_output == "done"


async def test_hooks_that_are_not_async_are_called_too() -> None:
    told_: list[str] = []

    class Plain(RunHooks[Any]):
        def on_agent_start(self, context: Any, agent: Any) -> None:  # type: ignore[override]
            told_.append("start")

        def on_approval_requested(self, context: Any, agent: Any, item: Any) -> None:  # type: ignore[override]
            told_.append(item.name)

    class Mine(AgentHooks[Any]):
        def on_end(self, context: Any, agent: Any, output: Any) -> None:  # type: ignore[override]
            told_.append(output)

    agent = scripted("draft", output_needs_approval=True, hooks=Mine())
    result = await Runner.run(agent, "go", hooks=Plain())
    state = result.to_state()
    state.approve(result.interruptions[0])
    await Runner.run(agent, state, hooks=Plain())
    assert told_ == ["start", "final_output", "draft"]


async def test_hooks_that_override_nothing_do_nothing() -> None:
    send, _ = sending(needs_approval=True)
    other = scripted("done", name="other", hooks=AgentHooks())
    agent = scripted([call("send", {"to": "ann"}), call("transfer_to_other")], tools=[send], handoffs=[other])
    result = await Runner.run(agent, "go", hooks=RunHooks())
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert (await Runner.run(agent, state, hooks=RunHooks())).final_output == "done"


@pytest.mark.parametrize("wrong", [object(), AgentHooks(), RunHooks, "hooks", [RunHooks()]])
async def test_what_is_no_run_hooks_is_refused_and_nothing_runs(wrong: Any) -> None:
    agent = scripted("done")
    with pytest.raises(UsageError, match="hooks"):
        await Runner.run(agent, "go", hooks=wrong)
    with pytest.raises(UsageError, match="hooks"):
        Runner.run_streamed(agent, "go", hooks=wrong)
    assert asked(agent) == 0


@pytest.mark.parametrize("wrong", [object(), RunHooks(), AgentHooks, "hooks"])
def test_what_is_no_agent_hooks_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"Agent 'a'.*hooks.*AgentHooks"):
        Agent("a", hooks=wrong)


# -- tools --------------------------------------------------------------------------------------------------


async def test_a_tool_that_fails_has_ended_with_what_the_model_is_told() -> None:
    @function_tool
    async def fails() -> None:
        raise ValueError("failed")

    log = Log()
    result = await Runner.run(scripted(call("fails"), "done", tools=[fails]), "go", hooks=log)
    assert log.details[4][0] == "tool_end"
    assert log.details[4][-1] == told(result)[0]


async def test_no_hook_is_told_of_a_body_that_is_not_entered() -> None:
    @tool_input_guardrail
    def refuse(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("no")

    send, _ = sending(needs_approval=True)
    kept, _ = sending(name_override="kept", tool_input_guardrails=[refuse])
    calls = [call("send", {"to": "ann"}), call("kept", {"to": "ann"}), call("nothing"), call("kept", "{")]
    agent = scripted(calls, "done", tools=[send, kept])
    log = Log()
    result = await Runner.run(agent, "go", hooks=log)
    state = result.to_state()
    state.reject(result.interruptions[0])
    await Runner.run(agent, state, hooks=log)
    assert log.count("tool_start") == log.count("tool_end") == 0
    assert log.count("agent_start") == log.count("agent_end") == 1


async def test_a_person_who_answers_for_a_tool_is_not_the_tool() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    log = Log()
    result = await Runner.run(agent, "go", hooks=log)
    state = result.to_state()
    state.respond(result.interruptions[0], "by hand", by="ann")
    await Runner.run(agent, state, hooks=log)
    assert log.count("tool_start") == 0
    assert "approval_decided agent send respond ann" in log.told


async def test_a_body_that_asks_is_entered_again_and_ends_once() -> None:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        return f"booked {await ctx.ask('When?')}"

    log = Log()
    agent = scripted(call("book"), "done", tools=[book])
    result = await Runner.run(agent, "go", hooks=log)
    state = await reloaded(agent, result.to_state())
    state.respond(result.interruptions[0], "noon")
    await Runner.run(agent, state, hooks=log)
    assert log.names() == [
        "agent_start",
        "llm_start",
        "llm_end",
        "tool_start",
        "approval_requested",
        "approval_decided",
        "tool_start",
        "tool_end",
        "llm_start",
        "llm_end",
        "agent_end",
    ]


# -- several agents -------------------------------------------------------------------------------------------


async def test_a_handoff_is_told_as_one_and_not_as_a_tool() -> None:
    log, mine, others = Log(), Own(), Own()
    other = scripted("done", name="other", hooks=others)
    agent = scripted(call("transfer_to_other"), handoffs=[other], hooks=mine)
    await Runner.run(agent, "go", hooks=log)
    assert log.told == [
        "agent_start agent",
        "llm_start agent",
        "llm_end agent",
        "handoff agent other",
        "agent_start other",
        "llm_start other",
        "llm_end other",
        "agent_end other",
    ]
    assert mine.told == ["start agent", "llm_start agent", "llm_end agent"]
    assert others.told == ["handoff other agent", "start other", "llm_start other", "llm_end other", "end other"]


async def test_a_handoff_that_fails_is_told_to_nobody() -> None:
    def fails(ctx: Any) -> None:
        raise ValueError("failed")

    log = Log()
    other = scripted("never", name="other")
    agent = scripted(call("transfer_to_other"), "done", handoffs=[handoff(other, on_handoff=fails)])
    error = await leaves(ValueError, Runner.run(agent, "go", hooks=log))
    assert log.count("handoff") == 0
    assert (await Runner.run(agent, error.state, hooks=log)).last_agent is agent


async def test_an_agent_that_is_handed_back_to_has_the_word_again() -> None:
    log = Log()
    agent = scripted(call("transfer_to_other"), "done")
    other = scripted(call("transfer_to_agent"), name="other", handoffs=[agent])
    agent.handoffs.append(other)
    await Runner.run(agent, "go", hooks=log)
    assert [each for each in log.told if each.startswith(("agent", "handoff"))] == [
        "agent_start agent",
        "handoff agent other",
        "agent_start other",
        "handoff other agent",
        "agent_start agent",
        "agent_end agent",
    ]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_nested_agent_is_told_of_between_the_start_and_the_end_of_its_call(streamed: bool) -> None:
    log, mine, inside = Log(), Own(), Own()
    inner = scripted("inner is done", name="inner", hooks=inside)
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()], hooks=mine)
    await play(agent, "go", streamed, hooks=log)
    assert log.told == [
        "agent_start agent",
        "llm_start agent",
        "llm_end agent",
        "tool_start agent inner",
        "agent_start inner",
        "llm_start inner",
        "llm_end inner",
        "agent_end inner",
        "tool_end agent inner",
        "llm_start agent",
        "llm_end agent",
        "agent_end agent",
    ]
    assert inside.told == ["start inner", "llm_start inner", "llm_end inner", "end inner"]
    assert "tool_end agent inner" in mine.told
    assert log.details[8][-1] == "inner is done"


async def test_a_nested_agents_questions_are_told_with_the_agent_they_are_of() -> None:
    log, inside, mine = Log(), Own(), Own()
    send, _ = sending(needs_approval=True)
    inner = scripted(call("send", {"to": "ann"}), "sent", name="inner", tools=[send], hooks=inside)
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()], hooks=mine)
    result = await Runner.run(agent, "go", hooks=log)
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0], by="ann")
    await Runner.run(agent, state, hooks=log)
    told_ = [each for each in log.told if "approval" in each]
    assert told_ == ["approval_requested inner send", "approval_decided inner send approve ann"]
    assert [each for each in inside.told if "approval" in each] == told_
    assert not [each for each in mine.told if "approval" in each]
    assert log.count("agent_start") == log.count("agent_end") == 2
    assert log.told.count("tool_start agent inner") == log.told.count("tool_end agent inner") == 1


# -- over a pause ---------------------------------------------------------------------------------------------


async def test_an_agent_starts_once_however_often_it_is_resumed() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    log = Log()
    result = await Runner.run(agent, "go", hooks=log)
    while result.interruptions:
        state = await reloaded(agent, result.to_state())
        state.approve(result.interruptions[0])
        result = await Runner.run(agent, state, hooks=log)
    assert log.count("agent_start") == log.count("agent_end") == 1
    turn = ["llm_start", "llm_end", "approval_requested", "approval_decided", "tool_start", "tool_end"]
    assert log.names() == ["agent_start", *turn, *turn, "llm_start", "llm_end", "agent_end"]


async def test_hooks_that_come_with_the_resume_hear_what_is_left() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    log = Log()
    await Runner.run(agent, state, hooks=log)
    assert log.names() == ["approval_decided", "tool_start", "tool_end", "llm_start", "llm_end", "agent_end"]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("load", [False, True])
@pytest.mark.parametrize("how", ["approve", "edit", "reject", "respond"])
async def test_each_decision_is_told_once_wherever_it_was_made(how: str, load: bool, streamed: bool) -> None:
    send, _ = sending(needs_approval=True)
    own = Own()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], hooks=own)
    log = Log()
    result = await play(agent, "go", streamed, hooks=log)
    [item] = result.interruptions
    state = result.to_state()
    if load:
        state = await reloaded(agent, state)
    decide: Any = {
        "approve": lambda: state.approve(item, by="ann"),
        "edit": lambda: state.edit(item, {"to": "bob"}, by="ann"),
        "reject": lambda: state.reject(item, by="ann"),
        "respond": lambda: state.respond(item, "x", by="ann"),
    }
    decide[how]()
    if load:
        state = await reloaded(agent, state)
    await play(agent, state, streamed, hooks=log)
    assert [each for each in log.told if "approval" in each] == [
        "approval_requested agent send",
        f"approval_decided agent send {how} ann",
    ]
    assert [each for each in own.told if "approval" in each] == [each for each in log.told if "approval" in each]
    [(_, _, _, asked_)] = [each for each in log.details if each[0] == "approval_requested"]
    [(_, _, _, settled, *_)] = [each for each in log.details if each[0] == "approval_decided"]
    assert asked_ == settled == item
    assert asked_.arguments == settled.arguments == item.arguments, "the question as it was asked, whatever was decided"


@pytest.mark.parametrize("load", [False, True])
@pytest.mark.parametrize("way", ["tool", "handoff"])
async def test_hooks_of_an_agent_that_the_run_comes_to_are_told_of_its_questions_and_of_no_others(
    way: str, load: bool
) -> None:
    send, _ = sending(needs_approval=True)
    own = Own()
    inner = scripted(call("send", {"to": "ann"}), "sent", name="inner", tools=[send], hooks=own)
    leads: dict[str, Any] = {"tools": [inner.as_tool("ask")]} if way == "tool" else {"handoffs": [inner]}
    name, args = ("ask", {"input": "go"}) if way == "tool" else ("transfer_to_inner", {})
    outer = scripted(call("send", {"to": "bob"}), call(name, args), "done", name="outer")
    outer.tools = [send, *leads.get("tools", [])]
    outer.handoffs = leads.get("handoffs", [])
    result = await Runner.run(outer, "go")
    for _ in range(2):
        state = await reloaded(outer, result.to_state()) if load else result.to_state()
        state.approve(state.get_interruptions()[0], by="ann")
        result = await Runner.run(outer, state)
    assert result.final_output == ("done" if way == "tool" else "sent")
    assert [each for each in own.told if "approval" in each] == [
        "approval_requested inner send",
        "approval_decided inner send approve ann",
    ]


async def test_partial_decisions_are_told_as_they_come() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": to}) for to in ("ann", "bob")], "done", tools=[send])
    log = Log()
    result = await Runner.run(agent, "go", hooks=log)
    for _ in range(2):
        state = await reloaded(agent, result.to_state())
        state.approve(result.interruptions[0])
        result = await Runner.run(agent, state, hooks=log)
    assert log.count("approval_requested") == log.count("approval_decided") == 2
    ids = [each[3].id for each in log.details if "approval" in each[0]]
    assert ids == [ids[0], ids[1], ids[0], ids[1]]


async def test_a_resume_that_decides_nothing_tells_nothing() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    log = Log()
    result = await Runner.run(agent, "go", hooks=log)
    before = list(log.told)
    result = await Runner.run(agent, await reloaded(agent, result.to_state()), hooks=log)
    await Runner.run(agent, result.to_state(), hooks=log)
    assert log.told == before


async def test_a_question_that_replaces_another_is_told() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    other, _ = sending(needs_approval=True, version="2")
    changed = agent.clone(tools=[other])
    with pytest.warns(UserWarning, match="changed"):
        state = await reloaded(changed, result.to_state(), on_change="ask")
    log = Log()
    await Runner.run(changed, state, hooks=log)
    assert log.told == ["approval_requested agent send"]


async def test_a_question_in_place_of_one_that_was_approved_is_told_and_so_is_the_approval() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    state = (await Runner.run(agent, "go")).to_state()
    [old] = state.get_interruptions()
    state.approve(old, by="ann")
    other, again = sending(needs_approval=True, version="2")
    changed = agent.clone(tools=[other])
    with pytest.warns(UserWarning, match="changed"):
        state = await reloaded(changed, state, on_change="ask")
    [new] = state.get_interruptions()
    assert (old.replaces, new.replaces) == (None, old.id)
    log = Log()
    result = await Runner.run(changed, state, hooks=log)
    assert log.told == ["approval_decided agent send approve ann", "approval_requested agent send"]
    assert sent == again == [] and result.interruptions == [new]


async def test_what_code_decides_is_no_question() -> None:
    send, _ = sending(needs_approval=True, on_approval=lambda ctx, item: {"approve": True})
    log = Log()
    await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go", hooks=log)
    assert not [each for each in log.told if "approval" in each]


async def test_a_hook_may_decide_what_it_is_told_of() -> None:
    class Decides(Log):
        async def on_approval_requested(self, context: Any, agent: Any, item: Any) -> None:
            self.told.append("asked")
            context.approve_tool(item)

    send, sent = sending(needs_approval=True)
    log = Decides()
    result = await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go", hooks=log)
    assert result.final_output == "done"
    assert sent == [("ann", 1)]
    told_ = [each for each in log.told if each == "asked" or "approval" in each]
    assert told_ == ["asked", "approval_decided agent send approve code"]


async def test_a_decision_made_in_the_run_is_told_of_the_question_it_settled() -> None:
    """The call that was approved asks something itself, before the hooks hear of the approval."""
    entered, decided = asyncio.Event(), asyncio.Event()

    @function_tool(needs_approval=True)
    async def book(ctx: ToolContext[Any]) -> str:
        return f"booked {await ctx.ask('When?')}"

    @function_tool
    async def decide(ctx: ToolContext[Any]) -> None:
        [item] = waiting
        ctx.approve_tool(item)
        entered.set()

    waiting: list[Any] = []

    class Keeps(Log):
        async def on_approval_requested(self, context: Any, agent: Any, item: Any) -> None:
            waiting.append(item)
            self.told.append(f"requested {item.kind}")

        async def on_approval_decided(self, context: Any, agent: Any, item: Any, decision: Any, by: str) -> None:
            self.told.append(f"decided {item.kind} {decision}")
            decided.set()

    agent = scripted(call("book"), "done", tools=[book, decide])
    log = Keeps()
    result = await Runner.run(agent, "go", hooks=log)
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state, hooks=log)
    state = result.to_state()
    state.respond(result.interruptions[0], "noon")
    result = await Runner.run(agent, state, hooks=log)
    assert [each for each in log.told if each.startswith(("requested", "decided"))] == [
        "requested approval",
        "decided approval approve",
        "requested input",
        "decided input respond",
    ]


async def test_an_outputs_approval_is_told_like_a_tools() -> None:
    log, own = Log(), Own()
    agent = scripted("draft", output_needs_approval=True, hooks=own)
    result = await Runner.run(agent, "go", hooks=log)
    assert log.count("agent_end") == 0
    state = await reloaded(agent, result.to_state())
    state.edit(result.interruptions[0], {"output": "better"}, by="ann")
    await Runner.run(agent, state, hooks=log)
    assert log.told[-3:] == [
        "approval_requested agent final_output",
        "approval_decided agent final_output edit ann",
        "agent_end agent",
    ]
    assert log.details[-1][-1] == "better"


# -- hooks that raise --------------------------------------------------------------------------------------------


async def _through(agent: Agent[Any], hooks: Any, streamed: bool = False) -> tuple[Any, list[str]]:
    """Run to the end, approving what is asked, resuming after each exception of a hook."""
    raised: list[str] = []
    given: Any = "go"
    while True:
        try:
            result = await soon(play(agent, given, streamed, hooks=hooks))
        except Broken as error:
            raised.append(str(error))
            given = await reloaded(agent, error.state) if len(raised) % 2 else error.state  # type: ignore[attr-defined]
        else:
            if not result.interruptions:
                return result, raised
            given = result.to_state()
        for item in given.get_interruptions():
            given.approve(item)


def _whole() -> tuple[Agent[Any], Agent[Any], list[tuple[str, int]]]:
    """An agent that asks, runs a tool, calls another agent, hands over; and the one it hands over to."""
    send, sent = sending(needs_approval=True)
    inner = scripted("inner is done", name="inner")
    other = scripted("done", name="other")
    agent = scripted(
        [call("send", {"to": "ann"}), call("inner", {"input": "x"})],
        call("transfer_to_other"),
        tools=[send, inner.as_tool()],
        handoffs=[other],
    )
    return agent, other, sent


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", EVENTS)
async def test_a_hook_of_a_run_that_raises_stops_it_and_nothing_happens_twice(name: str, streamed: bool) -> None:
    agent, other, sent = _whole()
    log = Log(name)
    result, raised = await _through(agent, log, streamed)
    assert raised == [name]
    assert result.final_output == "done"
    assert sent == [("ann", 1)]
    assert asked(other) == 1
    assert [outcome.status for outcome in outcomes(result)] == ["finished", "finished"]


@pytest.mark.parametrize("name", ["start", "end", "llm_start", "llm_end", "tool_start", "tool_end"])
async def test_a_hook_that_raises_inside_a_nested_agent_stops_the_run_and_not_only_the_agent(name: str) -> None:
    send, sent = sending()
    inner = scripted(call("send", {"to": "ann"}), "sent", name="inner", tools=[send], hooks=Own(name))
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()])
    result, raised = await _through(agent, None)
    assert raised == [name]
    assert [outcome.status for outcome in outcomes(result)] == ["finished"]
    assert told(result) == ["sent"]
    assert sent == [("ann", 1)]
    assert asked(inner) == 2


@pytest.mark.parametrize("name", ["start", "end", "tool_start", "tool_end", "llm_start", "llm_end", *EVENTS[-2:]])
async def test_a_hook_of_an_agent_that_raises_stops_the_run_and_nothing_happens_twice(name: str) -> None:
    send, sent = sending(needs_approval=True)
    own = Own(name)
    agent = scripted(call("send", {"to": "ann"}), "done", "again", tools=[send], hooks=own)
    result, raised = await _through(agent, None)
    assert raised == [name]
    assert result.final_output == "done"
    assert sent == [("ann", 1)]


async def test_a_handoff_hook_that_raises_leaves_the_handoff_done() -> None:
    other = scripted("done", name="other", hooks=Own("handoff"))
    agent = scripted(call("transfer_to_other"), handoffs=[other])
    result, raised = await _through(agent, None)
    assert raised == ["handoff"]
    assert result.last_agent is other
    assert asked(agent) == asked(other) == 1


async def test_a_hook_that_raises_in_a_stream_ends_the_stream_with_it() -> None:
    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    streamed = Runner.run_streamed(agent, "go", hooks=Log("tool_end"))
    with pytest.raises(Broken) as caught:
        async for _ in streamed.stream_events():
            pass
    result = await Runner.run(agent, caught.value.state)  # type: ignore[attr-defined]
    assert result.final_output == "done"
    assert sent == [("ann", 1)]


async def test_a_tool_that_was_about_to_start_when_a_hook_raised_starts_on_resume() -> None:
    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    log = Log("tool_start")
    error = await leaves(Broken, Runner.run(agent, "go", hooks=log))
    assert sent == []
    assert error.state.status == "working"
    result = await Runner.run(agent, await reloaded(agent, error.state), hooks=log)
    assert sent == [("ann", 1)]
    assert result.final_output == "done"


async def test_one_question_whose_hook_raised_does_not_hide_the_others() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": to}) for to in ("ann", "bob")], "done", tools=[send])
    log = Log("approval_requested")
    error = await leaves(Broken, Runner.run(agent, "go", hooks=log))
    assert len(error.state.get_interruptions()) == 2
    await Runner.run(agent, error.state, hooks=log)
    ids = [each[3].id for each in log.details if each[0] == "approval_requested"]
    assert len(set(ids)) == 2


async def test_a_decision_that_was_told_is_not_told_again_when_the_run_fails_after_it() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), ModelFailed("gone"), "done", tools=[send])
    log = Log()
    result = await Runner.run(agent, "go", hooks=log)
    state = result.to_state()
    state.respond(result.interruptions[0], "by hand")
    error = await leaves(ModelFailed, Runner.run(agent, state, hooks=log))
    await Runner.run(agent, error.state, hooks=log)
    assert log.count("approval_decided") == 1


async def test_a_decision_whose_hook_raised_is_told_again_and_the_next_is_told() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted([call("send", {"to": to}) for to in ("ann", "bob")], "done", tools=[send])
    log = Log("approval_decided")
    result = await Runner.run(agent, "go", hooks=log)
    state = result.to_state()
    for item in result.interruptions:
        state.approve(item)
    error = await leaves(Broken, Runner.run(agent, state, hooks=log, max_turns=5))
    assert sent == []
    await Runner.run(agent, error.state, hooks=log)
    ids = [each[3].id for each in log.details if each[0] == "approval_decided"]
    assert ids == [result.interruptions[0].id, *(item.id for item in result.interruptions)]
    assert sorted(sent) == [("ann", 1), ("bob", 1)]


async def test_a_run_cancelled_in_a_hook_can_be_resumed() -> None:
    there = asyncio.Event()

    class Hangs(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            there.set()
            await asyncio.Event().wait()

    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    state = await stopped(Runner.run(agent, "go", hooks=Hangs()), there)
    assert sent == []
    result = await Runner.run(agent, await reloaded(agent, state))
    assert sent == [("ann", 1)]
    assert result.final_output == "done"


# -- the input of an agent --------------------------------------------------------------------------


class Inputs(RunHooks[Any]):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.seen.append(("start", agent.name, context.turn_input))

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.seen.append(("end", agent.name, context.turn_input))


async def test_hooks_of_agents_see_the_input_and_not_what_the_run_has_generated() -> None:
    send, _ = sending()
    other = scripted("done", name="other")
    agent = scripted(call("send", {"to": "ann"}), call("transfer_to_other"), tools=[send], handoffs=[other])
    hooks = Inputs()
    await Runner.run(agent, "go", hooks=hooks)
    given = [{"role": "user", "content": "go"}]
    assert hooks.seen == [("start", "agent", given), ("start", "other", given), ("end", "other", given)]


async def test_after_an_input_filter_an_agent_s_input_is_what_the_filter_chose() -> None:
    other = scripted("done", name="other")
    to_other = handoff(other, input_filter=lambda data: data.clone(input_history="only this", new_items=()))
    hooks = Inputs()
    await Runner.run(scripted(call("transfer_to_other"), handoffs=[to_other]), "go", hooks=hooks)
    assert hooks.seen[-1] == ("end", "other", [{"role": "user", "content": "only this"}])


async def test_hooks_that_ask_for_it_are_told_of_a_handoff_when_their_agent_leaves() -> None:
    told: list[tuple[str, str, str]] = []

    class Leaving(AgentHooks[Any]):
        told_of_leaving = True

        def __init__(self, whose: str) -> None:
            self.whose = whose

        async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
            told.append((self.whose, agent.name, source.name))

    other = scripted("done", name="other", hooks=Leaving("other"))
    agent = scripted(call("transfer_to_other"), handoffs=[other], hooks=Leaving("agent"))
    await Runner.run(agent, "go")
    assert told == [("agent", "other", "agent")]
