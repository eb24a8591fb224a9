"""Guardrails on agents, tools and `RunConfig`."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from assentry import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from assentry.engines import Worker
from assentry.errors import (
    InputGuardrailTripwireTriggered,
    InvalidDefinition,
    ModelFailed,
    OutputGuardrailTripwireTriggered,
    RunFinished,
    ScriptExhausted,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    TripwireTriggered,
    UsageError,
)
from assentry.store import MemoryStore
from assentry.testing import ScriptedModel, call
from tests.runtime.support import (
    asked,
    facts,
    heard,
    outcomes,
    outputs,
    reloaded,
    scripted,
    sending,
    soon,
    stopped,
    told,
)

Allow = ToolGuardrailFunctionOutput.allow
Reject = ToolGuardrailFunctionOutput.reject_content
Raise = ToolGuardrailFunctionOutput.raise_exception


def fine(info: Any = None) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(info)


def trips(info: Any = None) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(info, tripwire_triggered=True)


class Watch:
    """A guardrail's function that keeps what it saw, and says what it is told to, in turn; then that all is fine."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.saw: list[Any] = []
        self.agents: list[str] = []

    def __call__(self, ctx: Any, agent: Agent[Any], seen: Any) -> GuardrailFunctionOutput:
        self.saw.append(seen)
        self.agents.append(agent.name)
        answer = self.answers.pop(0) if self.answers else fine(f"look {len(self.saw)}")
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


class Look:
    """The same for a tool's guardrail: it keeps arguments, or outputs."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.saw: list[Any] = []

    def __call__(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        self.saw.append(data.output if isinstance(data, ToolOutputGuardrailData) else data.context.arguments)
        answer = self.answers.pop(0) if self.answers else Allow(f"look {len(self.saw)}")
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


def watching(watch: Watch, **options: Any) -> InputGuardrail:
    return InputGuardrail(watch, **options)


def looking(look: Look, **options: Any) -> ToolInputGuardrail:
    return ToolInputGuardrail(look, **options)


async def leaves(error: type[BaseException], run: Any) -> Any:
    """The exception that leaves a run: of just this class, with the run's state."""
    with pytest.raises(error) as caught:
        await soon(run)
    assert type(caught.value) is error
    assert isinstance(caught.value.state, RunState)  # type: ignore[attr-defined]
    return caught.value


# -- making them -----------------------------------------------------------------------------------

DECORATORS: list[Any] = [
    (input_guardrail, InputGuardrail),
    (output_guardrail, OutputGuardrail),
    (tool_input_guardrail, ToolInputGuardrail),
    (tool_output_guardrail, ToolOutputGuardrail),
]


@pytest.mark.parametrize(("decorate", "kind"), DECORATORS)
def test_a_decorator_makes_a_guardrail_bare_or_with_options(decorate: Any, kind: Any) -> None:
    def check(*args: Any) -> Any: ...

    bare, named, empty = decorate(check), decorate(name="other")(check), decorate()(check)
    assert (type(bare), type(named), type(empty)) == (kind, kind, kind)
    assert (bare.get_name(), named.get_name(), empty.get_name()) == ("check", "other", "check")
    assert bare.guardrail_function is check


def test_an_input_guardrail_runs_beside_the_model_unless_told_otherwise() -> None:
    assert input_guardrail(Watch()).run_in_parallel is True
    assert input_guardrail(run_in_parallel=False)(Watch()).run_in_parallel is False
    assert InputGuardrail(Watch(), run_in_parallel=False).get_name() == "Watch"


@pytest.mark.parametrize("kind", [kind for _, kind in DECORATORS])
@pytest.mark.parametrize("options", [{"guardrail_function": "no"}, {"name": ""}, {"name": 3}, {"name": "\ud800"}])
def test_a_guardrail_that_cannot_be_is_refused_when_it_is_made(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition, match=rf"^{kind.__name__}: (guardrail_function|name) must be .*, got "):
        kind(**{"guardrail_function": Watch(), **options})


def test_an_input_guardrail_runs_in_parallel_or_not_and_nothing_else() -> None:
    with pytest.raises(InvalidDefinition, match="run_in_parallel"):
        InputGuardrail(Watch(), run_in_parallel="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, "yes", 1, re.search("a", "a")])
def test_a_tripwire_is_true_or_false_and_nothing_that_looks_like_it(given: Any) -> None:
    with pytest.raises(InvalidDefinition, match="tripwire_triggered"):
        GuardrailFunctionOutput(None, given)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolGuardrailFunctionOutput(None, "explode"),  # type: ignore[arg-type]
        lambda: ToolGuardrailFunctionOutput(None, "reject_content"),
        lambda: Reject(None),  # type: ignore[arg-type]
        lambda: Reject(5),  # type: ignore[arg-type]
    ],
)
def test_a_tools_guardrail_can_find_three_things_only(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidDefinition):
        make()


@pytest.mark.parametrize("wrong", [None, 5, "text", Watch(), [Watch()], [None], [output_guardrail(Watch())]])
def test_what_is_no_input_guardrail_is_refused_where_it_is_given(wrong: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"Agent 'a'.*input_guardrails"):
        Agent("a", input_guardrails=wrong)
    with pytest.raises(InvalidDefinition, match=r"RunConfig.*input_guardrails"):
        RunConfig(input_guardrails=wrong)


@pytest.mark.parametrize("wrong", [None, Watch(), [input_guardrail(Watch())], [tool_output_guardrail(Look())]])
def test_what_is_no_output_guardrail_is_refused_where_it_is_given(wrong: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"Agent 'a'.*output_guardrails"):
        Agent("a", output_guardrails=wrong)
    with pytest.raises(InvalidDefinition, match=r"RunConfig.*output_guardrails"):
        RunConfig(output_guardrails=wrong)


@pytest.mark.parametrize("option", ["tool_input_guardrails", "tool_output_guardrails"])
@pytest.mark.parametrize("wrong", [None, Look(), [Look()], [input_guardrail(Watch())]])
def test_what_is_no_guardrail_of_a_tool_is_refused_where_it_is_given(option: str, wrong: Any) -> None:
    with pytest.raises(InvalidDefinition, match=rf"Tool 'send'.*{option}"):
        sending(**{option: wrong})


def test_pre_approval_guardrails_are_on_or_off() -> None:
    with pytest.raises(InvalidDefinition, match="pre_approval"):
        RunConfig(pre_approval_tool_input_guardrails="yes")  # type: ignore[arg-type]


# -- input: what they see and what is kept -----------------------------------------------------------


async def test_an_input_guardrail_gets_context_agent_and_input() -> None:
    seen: list[Any] = []

    @input_guardrail
    async def look(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        seen.append((ctx.context, agent, given))
        return fine({"score": 1})

    agent = scripted("done", input_guardrails=[look])
    result = await Runner.run(agent, "go", context={"user": "ann"})
    assert seen == [({"user": "ann"}, agent, "go")]
    assert result.final_output == "done"
    [found] = result.input_guardrail_results
    assert found.guardrail is look
    assert found.output == fine({"score": 1})
    assert result.output_guardrail_results == result.tool_input_guardrail_results == []


async def test_items_are_given_as_items() -> None:
    watch = Watch()
    items = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    await Runner.run(scripted("done", input_guardrails=[watching(watch)]), items)
    assert watch.saw == [items]


async def test_what_a_guardrail_does_to_the_input_is_not_done_to_the_run() -> None:
    def vandal(ctx: Any, agent: Any, given: list[dict[str, Any]]) -> GuardrailFunctionOutput:
        given[0]["content"] = "vandalised"
        given.clear()
        return fine()

    agent = scripted("done", input_guardrails=[input_guardrail(run_in_parallel=False)(vandal)])
    await Runner.run(agent, [{"role": "user", "content": "go"}])
    assert heard(agent) == [{"role": "user", "content": "go"}]


async def test_guardrails_of_the_agent_and_of_the_run_look_each_once() -> None:
    first, second, third = Watch(fine(1)), Watch(fine(2)), Watch(fine(3))
    agent = scripted("done", input_guardrails=[watching(first), watching(second, run_in_parallel=False)])
    result = await Runner.run(agent, "go", run_config=RunConfig(input_guardrails=[watching(third)]))
    assert first.saw == second.saw == third.saw == ["go"]
    assert sorted(found.output.output_info for found in result.input_guardrail_results) == [1, 2, 3]


async def test_guardrails_of_one_name_are_each_their_own() -> None:
    one, two = watching(Watch(fine(1)), name="same"), watching(Watch(fine(2)), name="same")
    three, four = watching(Watch(fine(3)), name="same"), watching(Watch(fine(4)), name="same#2")
    agent = scripted("done", input_guardrails=[one, two])
    result = await Runner.run(agent, "go", run_config=RunConfig(input_guardrails=[three, four]))
    found = sorted(result.input_guardrail_results, key=lambda each: each.output.output_info)
    assert [each.guardrail for each in found] == [one, two, three, four]


async def test_results_are_kept_over_pause_save_and_resume() -> None:
    send, _ = sending(needs_approval=True)
    mine, theirs = Watch(fine({"n": 1})), Watch(fine("ok"))
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], input_guardrails=[watching(mine, name="mine")])
    config = RunConfig(input_guardrails=[watching(theirs, name="theirs")])
    result = await Runner.run(agent, "go", run_config=config)
    before = result.input_guardrail_results
    assert len(before) == 2
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state, run_config=config)
    assert result.final_output == "done"
    assert result.input_guardrail_results == before
    assert len(mine.saw) == len(theirs.saw) == 1, "a resume does not let them look again"


async def test_what_was_found_is_the_object_itself_until_it_is_reloaded() -> None:
    info = object()
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send], input_guardrails=[watching(Watch(fine(info)))])
    result = await Runner.run(agent, "go")
    assert result.input_guardrail_results[0].output.output_info is info
    state = result.to_state()
    loaded = await reloaded(agent, state)
    again = await Runner.run(agent, state)
    assert again.input_guardrail_results[0].output.output_info is info
    again = await Runner.run(agent, loaded)
    assert isinstance(again.input_guardrail_results[0].output.output_info, str)


async def test_input_guardrails_are_those_of_the_first_agent_only() -> None:
    mine, others = Watch(), Watch()
    other = scripted("done", name="other", input_guardrails=[watching(others)])
    agent = scripted(call("transfer_to_other"), handoffs=[other], input_guardrails=[watching(mine)])
    result = await Runner.run(agent, "go")
    assert result.last_agent is other
    assert (mine.saw, others.saw) == (["go"], [])
    assert len(result.input_guardrail_results) == 1


async def test_results_stay_when_the_agents_are_released() -> None:
    agent = scripted("done", input_guardrails=[watching(Watch(fine(1)))], output_guardrails=[OutputGuardrail(Watch())])
    result = await Runner.run(agent, "go")
    result.release_agents()
    assert [each.output.output_info for each in result.input_guardrail_results] == [1]
    assert [each.output.output_info for each in result.output_guardrail_results] == ["look 1"]


# -- input: order ------------------------------------------------------------------------------------


async def test_the_model_is_asked_while_a_parallel_guardrail_looks() -> None:
    looking, asked_ = asyncio.Event(), asyncio.Event()

    @input_guardrail
    async def slow(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        looking.set()
        await asked_.wait()
        return fine()

    async def reply(request: Any) -> str:
        await looking.wait()
        asked_.set()
        return "done"

    result = await soon(Runner.run(scripted(reply, input_guardrails=[slow]), "go"))
    assert result.final_output == "done"


async def test_no_tool_starts_before_a_parallel_guardrail_is_in() -> None:
    go, judged = asyncio.Event(), asyncio.Event()
    order: list[str] = []

    @input_guardrail
    async def slow(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await go.wait()
        order.append("in")
        return fine()

    def rule(ctx: Any, params: Any, call_id: str) -> bool:
        judged.set()
        return False

    @function_tool(needs_approval=rule)
    async def act() -> None:
        order.append("ran")

    run = asyncio.create_task(Runner.run(scripted(call("act"), "done", tools=[act], input_guardrails=[slow]), "go"))
    await soon(judged.wait())
    for _ in range(20):
        await asyncio.sleep(0)
    assert order == []
    go.set()
    assert (await soon(run)).final_output == "done"
    assert order == ["in", "ran"]


async def test_the_model_is_not_asked_before_a_blocking_guardrail_is_in() -> None:
    agent: Agent[Any] = scripted("done")

    @input_guardrail(run_in_parallel=False)
    async def block(ctx: Any, given_to: Any, given: Any) -> GuardrailFunctionOutput:
        for _ in range(20):
            await asyncio.sleep(0)
        return fine(asked(agent))

    agent.input_guardrails.append(block)
    result = await Runner.run(agent, "go")
    assert result.input_guardrail_results[0].output.output_info == 0
    assert asked(agent) == 1


async def test_mixed_the_model_waits_for_the_blocking_ones_and_for_no_others() -> None:
    order: list[str] = []
    replied = asyncio.Event()

    @input_guardrail
    async def parallel(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await replied.wait()
        order.append("parallel")
        return fine()

    def block(number: int) -> InputGuardrail:
        async def blocking(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
            for _ in range(number):
                await asyncio.sleep(0)
            order.append(f"blocking {number}")
            return fine()

        return InputGuardrail(blocking, run_in_parallel=False)

    def reply(request: Any) -> str:
        order.append("model")
        replied.set()
        return "done"

    agent = scripted(reply, input_guardrails=[parallel, block(9), block(1)])
    assert (await soon(Runner.run(agent, "go"))).final_output == "done"
    assert order == ["blocking 1", "blocking 9", "model", "parallel"]


async def test_a_run_that_is_done_has_all_its_guardrails_in() -> None:
    go = asyncio.Event()

    @input_guardrail
    async def slow(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await go.wait()
        return trips()

    def reply(request: Any) -> str:
        asyncio.get_running_loop().call_soon(go.set)
        return "the secret"

    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(scripted(reply, input_guardrails=[slow]), "go"))
    assert error.state.status == "closed"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_stream_is_guarded_like_a_plain_run(streamed: bool, parallel: bool) -> None:
    send, sent = sending()
    guard = watching(Watch(trips("no")), run_in_parallel=parallel)
    agent = scripted(call("send", {"to": "ann"}), tools=[send], input_guardrails=[guard])

    async def run() -> None:
        if not streamed:
            await Runner.run(agent, "go")
            return
        async for _ in Runner.run_streamed(agent, "go").stream_events():
            pass

    error = await leaves(InputGuardrailTripwireTriggered, run())
    assert error.state.status == "closed"
    assert sent == []
    assert parallel or asked(agent) == 0


# -- input: tripping -----------------------------------------------------------------------------------


async def test_a_tripwire_stops_the_model_and_closes_the_run() -> None:
    asked_, cancelled = asyncio.Event(), asyncio.Event()

    async def reply(request: Any) -> str:
        asked_.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    @input_guardrail
    async def homework(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await asked_.wait()
        return trips({"why": "homework"})

    agent = scripted(reply, "again", input_guardrails=[homework])
    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, "solve it"))
    assert cancelled.is_set()
    assert "homework" in str(error)
    assert error.guardrail_result.guardrail is error.guardrail is homework
    assert error.guardrail_result.output == error.output == trips({"why": "homework"})
    assert error.state.status == "closed"
    assert facts(error.state, "guarded")[0]["tripped"] is True
    loaded = await reloaded(agent, error.state)
    for state in (error.state, loaded):
        with pytest.raises(RunFinished):
            await Runner.run(agent, state)
        with pytest.raises(RunFinished):
            state.add_input("but I said please")
    assert asked(agent) == 1


async def test_a_tripwire_in_the_runs_config_closes_the_run_too() -> None:
    agent = scripted("done")
    config = RunConfig(input_guardrails=[watching(Watch(trips()), run_in_parallel=False)])
    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, "go", run_config=config))
    assert error.state.status == "closed"
    assert asked(agent) == 0


async def test_a_tripwire_after_the_reply_keeps_every_proposed_call_from_running() -> None:
    send, sent = sending()
    needs, _ = sending(name_override="needs", needs_approval=True)
    replied = asyncio.Event()

    @input_guardrail
    async def late(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await replied.wait()
        return trips()

    def reply(request: Any) -> Any:
        asyncio.get_running_loop().call_soon(replied.set)
        return [call("send", {"to": "ann"}), call("needs", {"to": "ann"})]

    agent = scripted(reply, tools=[send, needs], input_guardrails=[late])
    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert sent == []
    assert error.state.status == "closed"
    assert error.state.get_interruptions() == []


async def test_a_slower_guardrail_is_not_waited_for_when_one_trips() -> None:
    gone = asyncio.Event()

    @input_guardrail
    async def slow(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return fine()

    agent = scripted("done", input_guardrails=[slow, watching(Watch(trips()))])
    await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert gone.is_set()


@pytest.mark.parametrize("broken_first", [False, True])
async def test_a_tripwire_counts_beside_another_failure(broken_first: bool) -> None:
    """Whichever comes first: a run whose tripwire was triggered cannot be resumed past it."""
    pair = [watching(Watch(ValueError("broken"))), watching(Watch(trips()))]
    agent = scripted("done", input_guardrails=pair if broken_first else pair[::-1])
    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert error.state.status == "closed"


async def test_a_tripwire_counts_though_the_model_fails_at_the_same_time() -> None:
    together = asyncio.Event()

    @input_guardrail
    async def late(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await together.wait()
        await asyncio.sleep(0)
        return trips()

    async def reply(request: Any) -> str:
        together.set()
        await asyncio.sleep(0)
        raise ModelFailed("gone")

    agent = scripted(reply, input_guardrails=[late])
    with pytest.raises((InputGuardrailTripwireTriggered, ModelFailed)) as caught:
        await soon(Runner.run(agent, "go"))
    tripped = bool(facts(caught.value.state, "guarded"))
    assert (caught.value.state.status == "closed") is tripped


async def test_a_tripped_guardrail_whose_run_was_cut_off_looks_again() -> None:
    """The journal's end can be lost, for instance with the process: what tripped is never passed for in."""
    watch = Watch(trips(), trips())
    agent = scripted("done", "done", input_guardrails=[watching(watch, run_in_parallel=False)])
    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    saved = error.state.to_json()
    assert saved["journal"].pop()["fact"] == "closed"
    state = await RunState.from_json(agent, saved)
    await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, state))
    assert asked(agent) == 0


# -- input: failing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_guardrail_that_raises_stops_the_run_and_looks_again_on_resume(parallel: bool) -> None:
    send, sent = sending()
    watch, good = Watch(ValueError("its service is down")), Watch(fine("ok"))
    guards = [watching(watch, name="bad", run_in_parallel=parallel), watching(good, name="good")]
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], input_guardrails=guards)
    error = await leaves(ValueError, Runner.run(agent, "go"))
    assert "its service is down" in str(error)
    assert sent == []
    assert error.state.status == "working"
    result = await Runner.run(agent, await reloaded(agent, error.state))
    assert sent == [("ann", 1)]
    assert (len(watch.saw), len(good.saw)) == (2, 1)
    assert sorted(each.guardrail.get_name() for each in result.input_guardrail_results) == ["bad", "good"]


@pytest.mark.parametrize("given", [None, True, "fine", Allow()])
async def test_a_guardrail_that_finds_nothing_readable_stops_the_run(given: Any) -> None:
    send, sent = sending()
    guard = InputGuardrail(lambda ctx, agent, said: given, name="odd")
    agent = scripted(call("send", {"to": "ann"}), tools=[send], input_guardrails=[guard])
    error = await leaves(UsageError, Runner.run(agent, "go"))
    assert "'odd'" in str(error) and "GuardrailFunctionOutput" in str(error)
    assert error.state.status == "working"
    assert sent == []


async def test_a_guardrail_that_is_missing_on_resume_is_an_error_and_nothing_runs() -> None:
    watch = Watch(ValueError("down"))
    agent = scripted("done")
    config = RunConfig(input_guardrails=[watching(watch, name="safety", run_in_parallel=False)])
    error = await leaves(ValueError, Runner.run(agent, "go", run_config=config))
    state = await reloaded(agent, error.state)
    error = await leaves(UsageError, Runner.run(agent, state))
    assert "'safety'" in str(error) and "RunConfig" in str(error)
    assert asked(agent) == 0, "the guardrail might have been a blocking one"
    result = await Runner.run(agent, error.state, run_config=config)
    assert result.final_output == "done"
    assert len(watch.saw) == 2


async def test_a_cancelled_look_is_made_again() -> None:
    looking_, seen = asyncio.Event(), []

    @input_guardrail(run_in_parallel=False)
    async def slow(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        seen.append(given)
        if len(seen) == 1:
            looking_.set()
            await asyncio.Event().wait()
        return fine()

    agent = scripted("done", input_guardrails=[slow])
    state = await stopped(Runner.run(agent, "go"), looking_)
    result = await soon(Runner.run(agent, await reloaded(agent, state)))
    assert result.final_output == "done"
    assert seen == ["go", "go"]


# -- input: more of it ---------------------------------------------------------------------------------


async def test_new_input_of_a_finished_run_is_guarded_and_nothing_else_is() -> None:
    mine, theirs = Watch(), Watch()
    agent = scripted("one", "two", "three", input_guardrails=[watching(mine)])
    config = RunConfig(input_guardrails=[watching(theirs)])
    result = await Runner.run(agent, "first", run_config=config)
    for more in ("second", "third"):
        state = await reloaded(agent, result.to_state())
        state.add_input(more)
        result = await Runner.run(agent, state, run_config=config)
    assert mine.saw == theirs.saw == ["first", "second", "third"]
    assert len(result.input_guardrail_results) == 6
    assert [fact["guards"] for fact in facts(result.to_state(), "awaited")] == [["Watch", "Watch#2"]] * 2


async def test_several_new_inputs_are_looked_at_together() -> None:
    watch = Watch()
    agent = scripted("one", "two", input_guardrails=[watching(watch)])
    state = (await Runner.run(agent, "first")).to_state()
    state.add_input("second")
    state.add_input([{"role": "user", "content": "third"}])
    await Runner.run(agent, state)
    assert watch.saw[1] == [{"role": "user", "content": "second"}, {"role": "user", "content": "third"}]


async def test_tripping_on_new_input_closes_the_run() -> None:
    send, sent = sending()
    watch = Watch(fine(), trips("second"))
    agent = scripted("one", call("send", {"to": "ann"}), tools=[send], input_guardrails=[watching(watch)])
    state = (await Runner.run(agent, "first")).to_state()
    state.add_input("second")
    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, state))
    assert error.state.status == "closed"
    assert sent == []


async def test_no_approved_tool_runs_before_new_input_is_looked_at() -> None:
    send, sent = sending(needs_approval=True)
    guard = watching(Watch(fine(), trips()))
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], input_guardrails=[guard])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.add_input("and also something bad")
    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, state))
    assert sent == []
    assert error.state.status == "closed"


async def test_no_approved_tool_of_a_nested_agent_runs_before_new_input_is_looked_at() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted(call("send", {"to": "ann"}), "sent", name="inner", tools=[send])
    guard = watching(Watch(fine(), trips()))
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()], input_guardrails=[guard])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.add_input("and also something bad")
    error = await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, state))
    assert sent == []
    assert error.state.status == "closed"


async def test_a_nested_run_goes_on_when_new_input_is_found_fine() -> None:
    send, sent = sending(needs_approval=True)
    inner = scripted(call("send", {"to": "ann"}), "sent", name="inner", tools=[send])
    agent = scripted(
        call("inner", {"input": "x"}), "done", tools=[inner.as_tool()], input_guardrails=[watching(Watch())]
    )
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.add_input("thanks")
    result = await soon(Runner.run(agent, state))
    assert sent == [("ann", 1)]
    assert result.final_output == "done"


async def test_input_that_comes_while_guardrails_are_awaited_is_seen_by_all_of_them() -> None:
    quick, broken = Watch(), Watch(ValueError("down"))
    guards = [watching(quick, name="quick", run_in_parallel=False), watching(broken, name="broken")]
    agent = scripted("done", input_guardrails=guards)
    error = await leaves(ValueError, Runner.run(agent, "good"))
    assert quick.saw == ["good"]
    state = await reloaded(agent, error.state)
    state.add_input("bad")
    await Runner.run(agent, state)
    assert "bad" in str(quick.saw[-1])
    assert "bad" in str(broken.saw[-1])


async def test_a_guardrail_that_is_new_on_resume_looks_at_new_input() -> None:
    agent = scripted("one", "two")
    state = (await Runner.run(agent, "first")).to_state()
    state.add_input("second")
    watch = Watch(trips())
    config = RunConfig(input_guardrails=[watching(watch)])
    await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, state, run_config=config))
    assert "second" in str(watch.saw)


async def test_new_input_is_not_let_in_because_its_guardrails_were_not_given_again() -> None:
    watch = Watch(fine(), trips())
    config = RunConfig(input_guardrails=[watching(watch, name="mine")])
    agent = scripted("one", "two")
    state = (await Runner.run(agent, "first", run_config=config)).to_state()
    state.add_input("second")
    error = await leaves(UsageError, Runner.run(agent, state))
    assert "'mine'" in str(error)
    assert asked(agent) == 1
    await leaves(InputGuardrailTripwireTriggered, Runner.run(agent, error.state, run_config=config))
    assert watch.saw == ["first", "second"]


# -- input: nested agents --------------------------------------------------------------------------------


async def test_a_tripwire_of_a_nested_agent_is_the_outcome_of_its_call() -> None:
    send, sent = sending()
    inner = scripted(
        call("send", {"to": "ann"}), name="inner", tools=[send], input_guardrails=[watching(Watch(trips()), name="no")]
    )
    agent = scripted(call("inner", {"input": "bad"}), "done", tools=[inner.as_tool()])
    result = await Runner.run(agent, "go")
    assert sent == []
    assert result.final_output == "done"
    assert outcomes(result)[0].status == "failed"
    assert outcomes(result)[0].reason == "InputGuardrailTripwireTriggered"
    assert "'no'" in told(result)[0]


async def test_a_nested_agents_guardrails_look_at_its_input_and_not_again_on_resume() -> None:
    send, sent = sending(needs_approval=True)
    inside, outside, configured = Watch(), Watch(), Watch()
    inner = scripted(
        call("send", {"to": "ann"}), "sent", name="inner", tools=[send], input_guardrails=[watching(inside)]
    )
    agent = scripted(
        call("inner", {"input": "do it"}), "done", tools=[inner.as_tool()], input_guardrails=[watching(outside)]
    )
    config = RunConfig(input_guardrails=[watching(configured)])
    result = await Runner.run(agent, "go", run_config=config)
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state, run_config=config)
    assert sent == [("ann", 1)]
    assert result.final_output == "done"
    assert (inside.saw, outside.saw, configured.saw) == (["do it"], ["go"], ["go"])
    assert len(result.input_guardrail_results) == 2, "those of the run itself"


async def test_a_blocking_guardrail_of_a_nested_agent_holds_its_model_and_no_other() -> None:
    go = asyncio.Event()

    @input_guardrail(run_in_parallel=False)
    async def block(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await go.wait()
        return fine(asked(held))

    def reply(request: Any) -> str:
        go.set()
        return "free"

    held = scripted("held", name="held", input_guardrails=[block])
    free = scripted(reply, name="free")
    calls = [call("held", {"input": "x"}), call("free", {"input": "x"})]
    agent = scripted(calls, "done", tools=[held.as_tool(), free.as_tool()])
    result = await soon(Runner.run(agent, "go"))
    assert told(result) == ["held", "free"]


# -- output ----------------------------------------------------------------------------------------------


async def test_output_guardrails_of_agent_and_run_look_at_the_final_output() -> None:
    mine, theirs = Watch(fine(1)), Watch(fine(2))
    agent = scripted("done", output_guardrails=[OutputGuardrail(mine)])
    config = RunConfig(output_guardrails=[OutputGuardrail(theirs)])
    result = await Runner.run(agent, "go", run_config=config)
    assert mine.saw == theirs.saw == ["done"]
    found = result.output_guardrail_results
    assert [each.output.output_info for each in found] == [1, 2]
    assert [each.agent for each in found] == [agent, agent]
    assert [each.agent_output for each in found] == ["done", "done"]


async def test_an_async_output_guardrail_is_awaited() -> None:
    @output_guardrail(name="checks")
    async def check(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        await asyncio.sleep(0)
        return trips(output)

    error = await leaves(
        OutputGuardrailTripwireTriggered, Runner.run(scripted("secret", output_guardrails=[check]), "go")
    )
    assert "'checks'" in str(error)
    assert error.guardrail_result.agent_output == "secret"
    assert error.output.output_info == "secret"
    assert error.state.status == "closed"


@pytest.mark.parametrize("where", ["agent", "config"])
async def test_an_output_tripwire_closes_the_run(where: str) -> None:
    guards = [OutputGuardrail(Watch(trips()))]
    agent = scripted("secret", "again", output_guardrails=guards if where == "agent" else [])
    config = RunConfig(output_guardrails=guards if where == "config" else [])
    error = await leaves(OutputGuardrailTripwireTriggered, Runner.run(agent, "go", run_config=config))
    loaded = await reloaded(agent, error.state)
    for state in (error.state, loaded):
        assert state.status == "closed"
        with pytest.raises(RunFinished):
            await Runner.run(agent, state)


async def test_an_output_guardrail_that_raises_stops_the_run_which_can_go_on() -> None:
    send, sent = sending()
    watch = Watch(ValueError("down"))
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send], output_guardrails=[OutputGuardrail(watch)])
    error = await leaves(ValueError, Runner.run(agent, "go"))
    assert error.state.status == "working"
    result = await Runner.run(agent, await reloaded(agent, error.state))
    assert result.final_output == "done"
    assert watch.saw == ["done", "done"]
    assert sent == [("ann", 1)]
    assert asked(agent) == 2, "the model is not asked again for what it said"


@pytest.mark.parametrize("given", [None, False, Allow()])
async def test_an_output_guardrail_that_finds_nothing_readable_stops_the_run(given: Any) -> None:
    agent = scripted("done", output_guardrails=[OutputGuardrail(lambda ctx, agent, output: given, name="odd")])
    error = await leaves(UsageError, Runner.run(agent, "go"))
    assert "'odd'" in str(error)
    assert error.state.status == "working"


async def test_after_a_handoff_the_last_agents_output_guardrails_look() -> None:
    mine, others, theirs = Watch(), Watch(), Watch()
    other = scripted("done", name="other", output_guardrails=[OutputGuardrail(others)])
    agent = scripted(call("transfer_to_other"), handoffs=[other], output_guardrails=[OutputGuardrail(mine)])
    result = await Runner.run(agent, "go", run_config=RunConfig(output_guardrails=[OutputGuardrail(theirs)]))
    assert (mine.saw, others.saw, theirs.saw) == ([], ["done"], ["done"])
    assert others.agents == theirs.agents == ["other"]
    assert [each.agent for each in result.output_guardrail_results] == [other, other]


async def test_results_of_each_final_output_of_a_run_are_kept_with_their_agents() -> None:
    mine, others = Watch(), Watch()
    other = scripted("second", name="other", output_guardrails=[OutputGuardrail(others)])
    agent = scripted("first", call("transfer_to_other"), handoffs=[other], output_guardrails=[OutputGuardrail(mine)])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.add_input("more")
    result = await Runner.run(agent, state)
    found = result.output_guardrail_results
    assert [(each.agent, each.agent_output) for each in found] == [(agent, "first"), (other, "second")]
    state = result.to_state()
    state.add_input("still more")
    error = await leaves(ScriptExhausted, Runner.run(agent, await reloaded(agent, state)))
    assert [fact["name"] for fact in facts(error.state, "guarded")] == ["Watch", "Watch"]


async def test_output_guardrail_results_are_kept_over_a_reload() -> None:
    agent = scripted("first", "second", output_guardrails=[OutputGuardrail(Watch(fine({"n": 1})))])
    state = await reloaded(agent, (await Runner.run(agent, "go")).to_state())
    state.add_input("more")
    result = await Runner.run(agent, state)
    assert [each.output.output_info for each in result.output_guardrail_results] == [{"n": 1}, "look 2"]


async def test_a_nested_agents_output_guardrail_trips_for_its_call_alone() -> None:
    guard = OutputGuardrail(Watch(trips()), name="no")
    inner = scripted("secret", name="inner", output_guardrails=[guard])
    theirs = Watch()
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()])
    result = await Runner.run(agent, "go", run_config=RunConfig(output_guardrails=[OutputGuardrail(theirs)]))
    assert outcomes(result)[0].status == "failed"
    assert "secret" not in told(result)[0]
    assert theirs.saw == ["done"]


async def test_output_guardrails_look_before_a_person_is_asked() -> None:
    watch = Watch(trips())
    agent = scripted("secret", output_needs_approval=True, output_guardrails=[OutputGuardrail(watch)])
    error = await leaves(OutputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert error.state.get_interruptions() == []
    assert error.state.status == "closed"


async def test_output_guardrails_look_again_at_what_a_person_wrote_and_not_at_what_was_approved() -> None:
    for decide, saw in [("approve", ["draft"]), ("edit", ["draft", "better"])]:
        watch = Watch()
        agent = scripted("draft", output_needs_approval=True, output_guardrails=[OutputGuardrail(watch)])
        result = await Runner.run(agent, "go")
        assert [each.agent_output for each in result.output_guardrail_results] == ["draft"]
        state = result.to_state()
        [item] = result.interruptions
        if decide == "approve":
            state.approve(item)
        else:
            state.edit(item, {"output": "better"})
        result = await Runner.run(agent, state)
        assert result.final_output == saw[-1]
        assert watch.saw == saw
        assert [each.agent_output for each in result.output_guardrail_results] == saw


async def test_a_tripwire_on_an_edited_output_closes_the_run() -> None:
    agent = scripted("draft", output_needs_approval=True, output_guardrails=[OutputGuardrail(Watch(fine(), trips()))])
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    state.edit(result.interruptions[0], {"output": "worse"})
    error = await leaves(OutputGuardrailTripwireTriggered, Runner.run(agent, state))
    assert error.guardrail_result.agent_output == "worse"
    assert error.state.status == "closed"


async def test_an_output_that_tools_give_is_guarded_too() -> None:
    send, _ = sending()
    watch = Watch(trips())
    agent = scripted(
        call("send", {"to": "ann"}),
        tools=[send],
        tool_use_behavior="stop_on_first_tool",
        output_guardrails=[OutputGuardrail(watch)],
    )
    error = await leaves(OutputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert watch.saw == ["sent 1 to ann"]
    assert error.state.status == "closed"


# -- tool input --------------------------------------------------------------------------------------------


async def test_a_tools_input_guardrail_sees_the_canonical_arguments() -> None:
    seen: list[Any] = []

    @tool_input_guardrail
    async def look(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        seen.append((data.context.arguments, data.context.tool_name, data.context.call_id, data.agent))
        return Allow({"ok": 1})

    send, sent = sending(tool_input_guardrails=[look])
    agent = scripted(call("send", '{ "to": "ann" }', "abc"), "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert seen == [('{"copies":1,"to":"ann"}', "send", "abc", agent)]
    assert sent == [("ann", 1)]
    [found] = result.tool_input_guardrail_results
    assert found.guardrail is look
    assert found.output == Allow({"ok": 1})


async def test_what_a_tools_guardrail_refuses_does_not_run_and_the_model_hears_why() -> None:
    look, later = Look(Reject("not to ann", {"why": "ann"})), Look()
    send, sent = sending(tool_input_guardrails=[looking(look, name="no_ann"), looking(later)])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    formatted = RunConfig(tool_error_formatter=lambda args: "formatted")
    result = await Runner.run(agent, "go", run_config=formatted)
    assert sent == []
    assert told(result) == ["not to ann"]
    assert (outcomes(result)[0].status, outcomes(result)[0].by) == ("rejected", "guardrail:no_ann")
    assert result.final_output == "done"
    assert later.saw == []
    assert [each.output for each in result.tool_input_guardrail_results] == [Reject("not to ann", {"why": "ann"})]


async def test_a_tools_input_tripwire_closes_the_run_and_the_tool_does_not_run() -> None:
    look = Look(Raise("stop"))
    send, sent = sending(tool_input_guardrails=[looking(look, name="stops")])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    error = await leaves(ToolInputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert "'stops'" in str(error) and "'send'" in str(error)
    assert error.output == Raise("stop")
    assert sent == []
    loaded = await reloaded(agent, error.state)
    for state in (error.state, loaded):
        assert state.status == "closed"
        with pytest.raises(RunFinished):
            await Runner.run(agent, state)
    assert sent == []


async def test_a_body_that_runs_comes_to_its_end_when_a_sibling_trips() -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    @tool_input_guardrail
    async def late(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        await entered.wait()
        asyncio.get_running_loop().call_soon(go.set)
        return Raise()

    @function_tool
    async def slow() -> str:
        entered.set()
        await go.wait()
        return "slow is done"

    send, sent = sending(tool_input_guardrails=[late])
    agent = scripted([call("slow"), call("send", {"to": "ann"})], tools=[slow, send])
    error = await leaves(ToolInputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert sent == []
    assert facts(error.state, "finished")[0]["output"] == "slow is done"
    assert error.state.status == "closed"


async def test_a_tripwire_closes_the_run_though_a_sibling_failed_before_it() -> None:
    failed = asyncio.Event()

    @tool_output_guardrail
    async def late(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        await failed.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        return Raise()

    @function_tool(failure_error_function=None)
    async def fails() -> str:
        failed.set()
        raise ValueError("failed")

    send, _ = sending(tool_output_guardrails=[late])
    agent = scripted([call("fails"), call("send", {"to": "ann"})], "done", tools=[fails, send])
    error = await leaves(ToolOutputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert error.state.status == "closed"


async def test_a_tripwire_closes_a_run_that_is_cancelled_before_it_could() -> None:
    entered, tripped = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> None:
        entered.set()
        await asyncio.Event().wait()

    @tool_output_guardrail
    async def trip(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        await entered.wait()
        asyncio.get_running_loop().call_later(0, lambda: asyncio.get_running_loop().call_soon(tripped.set))
        return Raise()

    send, _ = sending(tool_output_guardrails=[trip])
    agent = scripted([call("slow"), call("send", {"to": "ann"})], "done", tools=[slow, send])
    state = await stopped(Runner.run(agent, "go"), tripped)
    assert [fact["tripped"] for fact in facts(state, "guarded")] == [True]
    assert state.status == "closed"


async def test_a_guardrail_of_a_tool_that_raises_stops_the_run_and_looks_again_on_resume() -> None:
    look = Look(ValueError("down"))
    send, sent = sending(tool_input_guardrails=[looking(look)])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    error = await leaves(ValueError, Runner.run(agent, "go"))
    assert sent == []
    assert error.state.status == "working"
    result = await Runner.run(agent, await reloaded(agent, error.state))
    assert sent == [("ann", 1)]
    assert result.final_output == "done"
    assert len(look.saw) == 2


@pytest.mark.parametrize("given", [None, "no", fine()])
async def test_a_guardrail_of_a_tool_that_finds_nothing_readable_stops_the_run(given: Any) -> None:
    guard = ToolInputGuardrail(lambda data: given, name="odd")
    send, sent = sending(tool_input_guardrails=[guard])
    error = await leaves(UsageError, Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "go"))
    assert "'odd'" in str(error) and "ToolGuardrailFunctionOutput" in str(error)
    assert sent == []


async def test_guardrails_see_edited_arguments_and_the_rule_is_not_asked_again() -> None:
    ruled: list[Any] = []

    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        ruled.append(params["to"])
        return True

    look = Look()
    send, sent = sending(needs_approval=rule, tool_input_guardrails=[looking(look)])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert look.saw == [], "a person is asked first"
    state = await reloaded(agent, result.to_state())
    state.edit(result.interruptions[0], {"to": "bob"})
    await Runner.run(agent, state)
    assert look.saw == ['{"copies":1,"to":"bob"}']
    assert ruled == ["ann"]
    assert sent == [("bob", 1)]


async def test_a_guardrail_refuses_what_a_person_wrote() -> None:
    send, sent = sending(needs_approval=True, tool_input_guardrails=[looking(Look(Reject("not bob")))])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.edit(result.interruptions[0], {"to": "bob"})
    result = await Runner.run(agent, state)
    assert sent == []
    assert told(result) == ["not bob"]


async def test_a_guardrail_refuses_what_a_person_or_a_grant_approved() -> None:
    send, sent = sending(
        needs_approval=True, tool_input_guardrails=[looking(Look(Reject("first"), Reject("second"), Reject("third")))]
    )
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    result = await Runner.run(agent, state)
    assert sent == []
    assert told(result) == ["first", "second"]


async def test_a_rejected_call_is_not_looked_at() -> None:
    look = Look()
    send, _ = sending(needs_approval=True, tool_input_guardrails=[looking(look)])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.reject(result.interruptions[0])
    await Runner.run(agent, state)
    assert look.saw == []


# -- tool input before a person is asked -------------------------------------------------------------------

EARLY = RunConfig(pre_approval_tool_input_guardrails=True)


async def test_what_a_guardrail_refuses_early_nobody_is_asked_about() -> None:
    ruled: list[str] = []

    def rule(ctx: Any, params: Any, call_id: str) -> bool:
        ruled.append(call_id)
        return True

    send, sent = sending(needs_approval=rule, tool_input_guardrails=[looking(Look(Reject("no")), name="early")])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go", run_config=EARLY)
    assert result.interruptions == []
    assert told(result) == ["no"]
    assert outcomes(result)[0].by == "guardrail:early"
    assert sent == ruled == []


async def test_what_a_guardrail_allows_early_it_sees_again_before_the_body() -> None:
    look = Look(Allow("before"), Reject("changed my mind", "after"))
    send, sent = sending(needs_approval=True, tool_input_guardrails=[looking(look)])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go", run_config=EARLY)
    assert len(result.interruptions) == len(look.saw) == 1
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state, run_config=EARLY)
    assert sent == []
    assert told(result) == ["changed my mind"]
    assert [each.output.output_info for each in result.tool_input_guardrail_results] == ["before", "after"]


async def test_an_early_look_does_not_stand_for_the_one_at_what_was_edited() -> None:
    look = Look()
    send, _ = sending(needs_approval=True, tool_input_guardrails=[looking(look)])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go", run_config=EARLY)
    state = result.to_state()
    state.edit(result.interruptions[0], {"to": "bob"})
    await Runner.run(agent, state, run_config=EARLY)
    assert look.saw == ['{"copies":1,"to":"ann"}', '{"copies":1,"to":"bob"}']


async def test_a_call_that_needs_nobody_is_looked_at_once() -> None:
    look = Look()
    send, sent = sending(tool_input_guardrails=[looking(look)])
    await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go", run_config=EARLY)
    assert len(look.saw) == len(sent) == 1


async def test_arguments_that_do_not_fit_are_not_shown_to_guardrails_and_a_person_is_asked() -> None:
    look = Look(KeyError("to"))
    send, sent = sending(needs_approval=True, tool_input_guardrails=[looking(look)])
    for bad in ({"copies": 2}, "[]", "{"):
        agent = scripted(call("send", bad), "done", tools=[send])
        result = await Runner.run(agent, "go", run_config=EARLY)
        assert len(result.interruptions) == 1
    assert look.saw == sent == []


async def test_an_early_tripwire_closes_the_run_and_nobody_is_asked() -> None:
    send, sent = sending(needs_approval=True, tool_input_guardrails=[looking(Look(Raise()))])
    agent = scripted([call("send", {"to": "ann"}), call("send", {"to": "bob"})], tools=[send])
    error = await leaves(ToolInputGuardrailTripwireTriggered, Runner.run(agent, "go", run_config=EARLY))
    assert error.state.status == "closed"
    assert error.state.get_interruptions() == []
    assert sent == []


async def test_when_one_early_look_fails_no_other_is_left_running() -> None:
    begun, done = asyncio.Event(), []

    @tool_input_guardrail
    async def slow(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        begun.set()
        for _ in range(10):
            await asyncio.sleep(0)
        done.append("slow")
        return Allow()

    @tool_input_guardrail
    async def fails(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        await begun.wait()
        raise ValueError("down")

    one, _ = sending(name_override="one", needs_approval=True, tool_input_guardrails=[slow])
    two, _ = sending(name_override="two", needs_approval=True, tool_input_guardrails=[fails])
    agent = scripted([call("one", {"to": "ann"}), call("two", {"to": "bob"})], tools=[one, two])
    error = await leaves(ValueError, Runner.run(agent, "go", run_config=EARLY))
    before = (list(done), len(error.state.to_json()["journal"]))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (done, len(error.state.to_json()["journal"])) == before
    assert len(asyncio.all_tasks()) == 1


async def test_an_early_failure_belongs_to_the_branch_it_is_in() -> None:
    """Two nested agents propose a call at the same time: what fails in one does not fail the other."""
    good, _ = sending(name_override="good", needs_approval=True, tool_input_guardrails=[looking(Look())])
    bad, _ = sending(name_override="bad", needs_approval=True, tool_input_guardrails=[looking(Look(Raise()))])
    one = scripted(call("good", {"to": "ann"}), "one is done", name="one", tools=[good])
    two = scripted(call("bad", {"to": "ann"}), "two is done", name="two", tools=[bad])
    calls = [call("one", {"input": "x"}), call("two", {"input": "x"})]
    agent = scripted(calls, "done", tools=[one.as_tool(), two.as_tool()])
    result = await Runner.run(agent, "go", run_config=EARLY)
    [item] = result.interruptions
    assert item.name == "good"
    state = result.to_state()
    state.approve(item)
    result = await Runner.run(agent, state, run_config=EARLY)
    assert [outcome.status for outcome in outcomes(result)] == ["finished", "failed"]
    assert result.final_output == "done"


# -- tool output ---------------------------------------------------------------------------------------------


async def test_a_tools_output_guardrail_sees_what_the_body_gave() -> None:
    seen: list[Any] = []

    @function_tool
    async def make(n: int = 2) -> dict[str, Any]:
        return {"made": n}

    @tool_output_guardrail
    async def look(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        seen.append((data.output, data.context.arguments, data.agent.name))
        return Allow("fine")

    guarded = function_tool(tool_output_guardrails=[look])(make.function)
    result = await Runner.run(scripted(call("make"), "done", tools=[guarded]), "go")
    assert seen == [({"made": 2}, '{"n":2}', "agent")]
    assert outputs(result)[0].output == {"made": 2}
    [found] = result.tool_output_guardrail_results
    assert (found.guardrail, found.output) == (look, Allow("fine"))


async def test_an_output_that_is_held_back_is_nowhere_and_the_model_hears_why() -> None:
    later = Look()
    send, sent = sending(
        tool_output_guardrails=[
            ToolOutputGuardrail(Look(Reject("it was secret", "why")), name="held"),
            ToolOutputGuardrail(later),
        ]
    )
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert sent == [("ann", 1)]
    assert told(result) == ["it was secret"]
    assert outputs(result)[0].output == "it was secret"
    assert (outcomes(result)[0].status, outcomes(result)[0].by) == ("finished", "guardrail:held")
    assert "sent 1 to ann" not in result.to_state().to_string()
    assert later.saw == [], "what is held back is shown to nobody"
    assert result.tool_output_guardrail_results[0].output == Reject("it was secret", "why")


async def test_a_tools_output_tripwire_closes_the_run_and_the_output_is_nowhere() -> None:
    send, sent = sending(tool_output_guardrails=[ToolOutputGuardrail(Look(Raise()), name="stops")])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    error = await leaves(ToolOutputGuardrailTripwireTriggered, Runner.run(agent, "go"))
    assert "'stops'" in str(error)
    assert sent == [("ann", 1)]
    assert "sent 1 to ann" not in error.state.to_string()
    assert error.state.status == "closed"
    with pytest.raises(RunFinished):
        await Runner.run(agent, await reloaded(agent, error.state))


async def test_a_body_whose_output_could_not_be_checked_is_not_run_again() -> None:
    send, sent = sending(tool_output_guardrails=[ToolOutputGuardrail(Look(ValueError("down")))])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    error = await leaves(ValueError, Runner.run(agent, "go"))
    assert error.state.status == "working"
    result = await Runner.run(agent, await reloaded(agent, error.state))
    assert sent == [("ann", 1)]
    assert result.final_output == "done"
    assert "sent 1" not in told(result)[0] and "could not be checked" in told(result)[0]
    assert outcomes(result)[0].status == "failed"


async def test_a_run_cancelled_while_an_output_is_looked_at_leaves_a_doubt() -> None:
    looking_ = asyncio.Event()

    @tool_output_guardrail
    async def slow(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        looking_.set()
        await asyncio.Event().wait()
        return Allow()

    send, sent = sending(tool_output_guardrails=[slow])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    state = await stopped(Runner.run(agent, "go"), looking_)
    result = await Runner.run(agent, await reloaded(agent, state))
    assert [item.kind for item in result.interruptions] == ["doubt"]
    assert sent == [("ann", 1)]


async def test_what_a_failed_body_says_is_not_an_output_to_guard() -> None:
    look = Look()

    @function_tool(tool_output_guardrails=[ToolOutputGuardrail(look)])
    async def fails() -> None:
        raise ValueError("failed")

    result = await Runner.run(scripted(call("fails"), "done", tools=[fails]), "go")
    assert look.saw == []
    assert outcomes(result)[0].status == "failed"


async def test_what_a_person_answers_for_a_tool_is_not_an_output_to_guard() -> None:
    look = Look()
    send, _ = sending(needs_approval=True, tool_output_guardrails=[ToolOutputGuardrail(look)])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.respond(result.interruptions[0], "by hand")
    result = await Runner.run(agent, state)
    assert look.saw == []
    assert told(result) == ["by hand"]


async def test_results_of_tools_guardrails_are_in_order_over_a_resume() -> None:
    before, after = Look(), Look()
    send, _ = sending(
        needs_approval=lambda ctx, params, call_id: params["to"] == "bob",
        tool_input_guardrails=[looking(before)],
        tool_output_guardrails=[ToolOutputGuardrail(after)],
    )
    agent = scripted(*(call("send", {"to": to}) for to in ("ann", "bob", "eve")), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = await reloaded(agent, result.to_state())
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state)
    looks = ["look 1", "look 2", "look 3"]
    assert [each.output.output_info for each in result.tool_input_guardrail_results] == looks
    assert [each.output.output_info for each in result.tool_output_guardrail_results] == looks
    assert after.saw == ["sent 1 to ann", "sent 1 to bob", "sent 1 to eve"]


async def test_results_are_kept_when_a_person_chose_another_tool() -> None:
    first, second = looking(Look(Allow("first")), name="same"), looking(Look(Allow("second")), name="other")
    one, _ = sending(name_override="one", needs_approval=True, tool_input_guardrails=[first])
    two, done = sending(name_override="two", needs_approval=True, tool_input_guardrails=[second])
    agent = scripted(call("one", {"to": "ann"}), "done", tools=[one, two])
    result = await Runner.run(agent, "go", run_config=EARLY)
    state = result.to_state()
    state.edit(result.interruptions[0], {"to": "bob"}, tool="two")
    result = await Runner.run(agent, state, run_config=EARLY)
    assert done == [("bob", 1)]
    assert [each.guardrail for each in result.tool_input_guardrail_results] == [first, second]


# -- guardrails, bodies that ask, and nested agents --------------------------------------------------------------


async def test_guardrails_around_a_body_that_asks() -> None:
    before, after = Look(), Look()

    @function_tool(tool_input_guardrails=[looking(before)], tool_output_guardrails=[ToolOutputGuardrail(after)])
    async def book(ctx: ToolContext[Any], place: str) -> str:
        return f"{place} at {await ctx.ask('When?')}"

    agent = scripted(call("book", {"place": "Rome"}), "done", tools=[book])
    result = await Runner.run(agent, "go")
    assert after.saw == []
    state = await reloaded(agent, result.to_state())
    state.respond(result.interruptions[0], "noon")
    result = await Runner.run(agent, state)
    assert told(result) == ["Rome at noon"]
    assert after.saw == ["Rome at noon"]
    assert before.saw == ['{"place":"Rome"}'] * 2, "they look each time the body is entered"


@pytest.mark.parametrize("ways", ["ask", "step", "ask_sync", "step_sync"])
@pytest.mark.parametrize("caught", [False, True])
async def test_a_guardrail_looks_and_can_neither_ask_nor_step(ways: str, caught: bool) -> None:
    async def looks(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        args = ("May I?",) if ways.startswith("ask") else ("step", lambda: 1)
        try:
            found = getattr(data.context, ways)(*args)
            await found if not ways.endswith("sync") else None
        except BaseException:
            if not caught:
                raise
        return Allow()

    ran: list[str] = []

    @function_tool(tool_input_guardrails=[ToolInputGuardrail(looks)])
    async def act(ctx: ToolContext[Any]) -> str:
        ran.append("ran")
        return str(await ctx.step("step", lambda: 2))

    agent = scripted(call("act"), "done", tools=[act])
    if caught:
        result = await Runner.run(agent, "go")
        assert told(result) == ["2"], "the body is not touched by what its guardrail tried"
        return
    error = await leaves(UsageError, Runner.run(agent, "go"))
    assert "looks" in str(error)
    assert ran == []
    assert facts(error.state, "asked") == []


async def test_a_guardrail_of_an_output_cannot_ask_either() -> None:
    async def looks(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        await data.context.ask("May it?")
        return Allow()

    send, sent = sending(tool_output_guardrails=[ToolOutputGuardrail(looks)])
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    error = await leaves(UsageError, Runner.run(agent, "go"))
    result = await Runner.run(agent, error.state)
    assert sent == [("ann", 1)]
    assert result.interruptions == []


async def test_guardrails_of_a_tool_in_a_nested_agent() -> None:
    look = Look(Reject("not there"), Raise())
    send, sent = sending(tool_input_guardrails=[looking(look)])
    inner = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), name="inner", tools=[send])
    agent = scripted(call("inner", {"input": "x"}), "done", tools=[inner.as_tool()])
    result = await Runner.run(agent, "go")
    assert heard(inner)[-1]["output"] == "not there"
    assert outcomes(result)[0].reason == "ToolInputGuardrailTripwireTriggered"
    assert result.final_output == "done"
    assert sent == []


async def test_a_guardrail_may_decide_about_other_calls_no_more_than_a_tool_may() -> None:
    """The context is the run's own: what it is asked, it answers."""
    seen: list[Any] = []

    @tool_input_guardrail
    def look(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        seen.append((data.context.is_tool_approved("send", data.context.call_id), data.context.usage.requests))
        return Allow()

    send, _ = sending(tool_input_guardrails=[look])
    await Runner.run(scripted(call("send", {"to": "ann"}), "done", tools=[send]), "go")
    assert seen == [(True, 1)]


async def test_a_handoff_waits_for_the_input_guardrails() -> None:
    replied, order = asyncio.Event(), []

    @input_guardrail
    async def slow(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await replied.wait()
        order.append("in")
        return fine()

    def reply(request: Any) -> Any:
        asyncio.get_running_loop().call_soon(replied.set)
        return call("transfer_to_other")

    other = scripted("done", name="other")
    on = handoff(other, on_handoff=lambda ctx: order.append("handed"))
    result = await soon(Runner.run(scripted(reply, handoffs=[on], input_guardrails=[slow]), "go"))
    assert order == ["in", "handed"]
    assert result.last_agent is other


def test_every_tripwire_is_one_kind_of_error() -> None:
    for kind in (
        InputGuardrailTripwireTriggered,
        OutputGuardrailTripwireTriggered,
        ToolInputGuardrailTripwireTriggered,
        ToolOutputGuardrailTripwireTriggered,
    ):
        assert issubclass(kind, TripwireTriggered)
        assert kind.status == 403
        assert kind().guardrail is None


# -- guardrails outside of a run ------------------------------------------------------------------------


async def test_a_guardrail_can_be_tried_outside_of_a_run() -> None:
    @input_guardrail
    async def short(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput({"length": len(given)}, len(given) > 5)

    @output_guardrail
    def clean(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(ctx.context, output == "bad")

    @tool_input_guardrail
    def closed(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("closed", data.agent)

    ctx = RunContextWrapper("here")
    found = await short.run("agent", "too long", ctx)
    assert found.guardrail is short and found.output.tripwire_triggered
    looked = await clean.run(ctx, "agent", "fine")
    assert (looked.agent, looked.agent_output, looked.output.output_info) == ("agent", "fine", "here")
    stopped = await closed.run(ToolInputGuardrailData(ToolContext(None, tool_name="t"), "agent"))
    assert (stopped.message, stopped.output_info) == ("closed", "agent")


async def test_a_guardrail_that_returns_something_else_is_refused_outside_of_a_run_too() -> None:
    guardrail = InputGuardrail(lambda ctx, agent, given: True)  # type: ignore[arg-type,return-value]
    with pytest.raises(UsageError, match="must return a GuardrailFunctionOutput"):
        await guardrail.run(None, "hello", RunContextWrapper(None))


@pytest.mark.parametrize("by", ["session", "error_handler", "runtime"])
async def test_nobody_gives_input_in_the_name_of_the_runtime(by: str) -> None:
    given: list[Any] = []

    def look(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        given.append(input)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="evil" in str(input))

    store, agent = MemoryStore(), Agent(name="A", model=ScriptedModel(["One.", "Two."]))
    agent.input_guardrails = [InputGuardrail(look, name="look")]
    await Runner.run(agent, "go", store=store)
    [run] = (await store.runs()).items
    with pytest.raises(UsageError, match=by):
        await store.say(run.id, "evil", by=by)
    await store.say(run.id, "evil", by="ann")
    await Worker(store, agent).run_until_idle()
    assert given == ["go", [{"role": "user", "content": "evil"}]]
