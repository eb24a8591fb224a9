"""Stopping a stream: at once or after the turn, by a call or by leaving it; the run is not closed."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from assentry import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    RunConfig,
    RunHooks,
    Runner,
    RunResultStreaming,
    RunState,
    SQLiteSession,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    function_tool,
    handoff,
)
from assentry.errors import (
    InputGuardrailTripwireTriggered,
    RunFinished,
    SessionFailed,
    ToolOutputGuardrailTripwireTriggered,
    UsageError,
)
from assentry.runtime import session_sync as history
from assentry.testing import ScriptedModel, call
from tests.runtime.support import asked, facts, heard, outcomes, reloaded, scripted, sending, soon, told

LONG = 1000.0
"""A grace that no test waits for."""


class Gate:
    """A place that code comes to, and stays at until it is let through."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.times = 0

    async def __call__(self) -> None:
        self.times += 1
        self.reached.set()
        await self.opened.wait()


async def drained(result: RunResultStreaming) -> list[Any]:
    """The events up to the stream's end."""

    async def drain() -> list[Any]:
        return [event async for event in result.stream_events()]

    return await soon(drain())


async def quiet() -> set[asyncio.Task[Any]]:
    """The tasks there are besides the test's own, once the loop had time to clean up."""
    me: Any = asyncio.current_task()
    for _ in range(20):
        await asyncio.sleep(0)
    return asyncio.all_tasks() - {me}


async def cancelled(result: RunResultStreaming, when: asyncio.Event) -> RunState[Any]:
    """Cancel a stream when the event is set, read it to its end, and give the state it leaves."""
    await soon(when.wait())
    result.cancel()
    await drained(result)
    assert result.is_complete
    assert not await quiet()
    return result.to_state()


async def ended(agent: Agent[Any], state: RunState[Any], **options: Any) -> Any:
    """The output of the run, resumed after it was written down and read again; nothing is asked."""
    result = await soon(Runner.run(agent, await reloaded(agent, state), **options))
    assert result.interruptions == []
    assert not await quiet()
    return result.final_output


def counted(gate: Gate | None = None, **options: Any) -> tuple[Any, list[str]]:
    """A tool that counts its runs and passes a gate on the way."""
    ran: list[str] = []

    @function_tool(**options)
    async def work(name: str = "it") -> str:
        ran.append(name)
        if gate is not None:
            await gate()
        return f"did {name}"

    return work, ran


# -- at once, while the model speaks ---------------------------------------------------------------


async def test_a_model_that_is_cut_off_leaves_no_fact_and_is_asked_the_same_again() -> None:
    gate = Gate()

    async def think(request: Any) -> str:
        await gate()
        return "never"

    agent = scripted(think, "done")
    result = Runner.run_streamed(agent, "go")
    state = await cancelled(result, gate.reached)
    assert state.status == "cancelled"
    assert [fact["fact"] for fact in state.to_json()["journal"]] == ["began", "said", "defined", "cancelled"]
    assert await ended(agent, state) == "done"
    model: Any = agent.model
    assert model.requests[0] == replace(model.requests[1], streamed=True)  # only the first was streamed


async def test_half_a_reply_is_no_reply_and_the_models_stream_is_closed() -> None:
    closed: list[str] = []
    speaking = asyncio.Event()

    class Halting:
        name = "halting"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            try:
                yield {"type": "response.output_text.delta", "delta": "he"}
                speaking.set()
                await asyncio.Event().wait()
            finally:
                closed.append("closed")

    agent = Agent("agent", model=Halting())
    result = Runner.run_streamed(agent, "go")
    state = await cancelled(result, speaking)
    assert closed == ["closed"]
    assert (result.new_items, result.raw_responses, result.final_output) == ([], [], None)
    agent.model = ScriptedModel(["hello"], name="halting")
    assert await ended(agent, state) == "hello"


async def test_a_stream_that_was_cancelled_raises_nothing_and_ends_at_once() -> None:
    gate = Gate()

    async def think(request: Any) -> str:
        await gate()
        return "never"

    result = Runner.run_streamed(scripted(think), "go", run_config=RunConfig(cancel_grace=LONG))
    await cancelled(result, gate.reached)
    assert await drained(result) == []


async def test_a_model_that_will_not_be_stopped_and_replies_has_replied() -> None:
    gate = Gate()

    async def stubborn(request: Any) -> str:
        try:
            await gate()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    agent = scripted(stubborn)
    state = await cancelled(Runner.run_streamed(agent, "go"), gate.reached)
    assert await ended(agent, state) == "done all the same"
    assert asked(agent) == 1


# -- at once, while bodies run ---------------------------------------------------------------------


async def test_a_body_that_ends_within_the_grace_is_finished_and_never_runs_again() -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    result.cancel()
    await asyncio.sleep(0)
    assert not result.is_complete, "the body has its grace"
    gate.opened.set()
    await drained(result)
    state = result.to_state()
    assert (state.status, told(result), asked(agent)) == ("cancelled", ["did it"], 1)
    assert await ended(agent, state) == "done"
    assert ran == ["it"]
    assert heard(agent)[-1]["output"] == "did it"


async def test_the_output_of_a_body_that_ends_in_its_grace_is_streamed() -> None:
    gate = Gate()
    work, _ = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    result.cancel()
    gate.opened.set()
    assert "tool_output" in [getattr(event, "name", "") for event in await drained(result)]


@pytest.mark.parametrize("grace", [0, 0.01])
async def test_a_body_that_outlasts_its_grace_is_in_doubt_and_a_person_is_asked(grace: float) -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=grace))
    state = await cancelled(result, gate.reached)
    again = await Runner.run(agent, await reloaded(agent, state))
    [item] = again.interruptions
    assert (item.kind, ran, asked(agent)) == ("doubt", ["it"], 1)
    state = again.to_state()
    state.respond(item, "it was done")
    assert await ended(agent, state) == "done"
    assert ran == ["it"]
    assert heard(agent)[-1]["output"] == "it was done"


async def test_a_body_in_doubt_runs_again_only_if_a_person_says_so() -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=0))
    again = await Runner.run(agent, await cancelled(result, gate.reached))
    state = again.to_state()
    state.approve(again.interruptions[0])
    gate.opened.set()
    assert await ended(agent, state) == "done"
    assert ran == ["it", "it"]


async def test_of_several_bodies_each_has_its_own_fate(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = Gate(), Gate()
    ran: list[str] = []

    @function_tool
    async def work(name: str) -> str:
        ran.append(name)
        await (quick if name == "quick" else slow)()
        return f"did {name}"

    agent = scripted([call("work", {"name": name}) for name in ("slow", "quick")], "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(slow.reached.wait())
    await soon(quick.reached.wait())
    result.cancel()
    quick.opened.set()
    assert len(await quiet()) > 0  # the quick one has ended, and the slow one is waited for
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + LONG)
    await drained(result)
    again = await Runner.run(agent, await reloaded(agent, result.to_state()))
    [item] = again.interruptions
    assert (item.kind, item.call_id) == ("doubt", "call_1_0")
    state = again.to_state()
    state.reject(item)
    assert await ended(agent, state) == "done"
    assert sorted(ran) == ["quick", "slow"]
    assert [item["output"] for item in heard(agent) if item.get("type") == "function_call_output"][1] == "did quick"


@pytest.mark.parametrize("ends", [True, False], ids=["in its grace", "after it"])
async def test_a_body_in_a_thread_has_the_grace_too(ends: bool) -> None:
    inside, may_end = asyncio.Event(), threading.Event()
    loop, ran = asyncio.get_running_loop(), []

    @function_tool
    def work() -> str:
        ran.append(1)
        loop.call_soon_threadsafe(inside.set)
        may_end.wait(60)
        return "did it"

    agent = scripted(call("work"), "done", tools=[work])
    config = RunConfig(cancel_grace=LONG if ends else 0.01)
    result = Runner.run_streamed(agent, "go", run_config=config)
    await soon(inside.wait())
    result.cancel()
    if ends:
        may_end.set()
    await drained(result)
    may_end.set()
    state = result.to_state()
    if ends:
        assert await ended(agent, state) == "done"
    else:
        again = await Runner.run(agent, await reloaded(agent, state))
        assert [item.kind for item in again.interruptions] == ["doubt"]
    assert ran == [1]


async def test_a_body_that_waits_for_a_slot_has_not_begun_and_is_not_in_doubt() -> None:
    gate = Gate()
    work, ran = counted(gate)
    calls = [call("work", {"name": name}) for name in ("a", "b", "c")]
    agent = scripted(calls, "done", tools=[work])
    config = RunConfig(cancel_grace=LONG, max_parallel_tools=1)
    result = Runner.run_streamed(agent, "go", run_config=config)
    await soon(gate.reached.wait())
    result.cancel()
    gate.opened.set()
    await drained(result)
    assert ran == ["a"]
    assert await ended(agent, result.to_state()) == "done"
    assert sorted(ran) == ["a", "b", "c"]


async def test_a_body_that_catches_its_cancellation_and_ends_has_ended() -> None:
    gate = Gate()

    @function_tool
    async def work() -> str:
        try:
            await gate()
        except asyncio.CancelledError:
            return "tidied up"
        return "never"

    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=0))
    state = await cancelled(result, gate.reached)
    assert told(result) == ["tidied up"]
    assert await ended(agent, state) == "done"
    assert gate.times == 1


@pytest.mark.parametrize("raised", [False, True], ids=["told to the model", "raised to the user"])
async def test_a_body_that_fails_in_its_grace_has_failed_and_never_runs_again(
    raised: bool, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()

    async def work() -> str:
        await gate()
        raise OSError("the disk is full")

    tool = function_tool(failure_error_function=None)(work) if raised else function_tool(work)
    agent = scripted(call("work"), "done", tools=[tool])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    result.cancel()
    gate.opened.set()
    await drained(result)
    assert [outcome.status for outcome in outcomes(result)] == ["failed"]
    assert await ended(agent, result.to_state()) == "done"
    assert gate.times == 1
    assert ("This failed" in caplog.text) is raised, "what would have been raised is not lost"


async def test_a_body_that_asks_in_its_grace_has_asked() -> None:
    gate = Gate()

    @function_tool
    async def work(ctx: ToolContext[Any]) -> str:
        await gate()
        return str(await ctx.ask("when?"))

    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    result.cancel()
    gate.opened.set()
    await drained(result)
    assert [item.question for item in result.interruptions] == ["when?"]
    state = await reloaded(agent, result.to_state())
    state.respond(state.get_interruptions()[0], "May")
    assert await ended(agent, state) == "done"


async def test_a_step_that_was_done_before_the_end_of_the_grace_is_not_done_again() -> None:
    gate, steps = Gate(), []

    @function_tool
    async def work(ctx: ToolContext[Any]) -> str:
        await ctx.step("pay", lambda: steps.append(1))
        await gate()
        return "paid"

    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=0))
    state = await cancelled(result, gate.reached)
    again = await Runner.run(agent, await reloaded(agent, state))
    state = again.to_state()
    state.approve(again.interruptions[0])
    gate.opened.set()
    assert await ended(agent, state) == "done"
    assert (steps, gate.times) == ([1], 2)


async def test_a_body_may_stop_the_run_it_is_in() -> None:
    running: list[RunResultStreaming] = []

    @function_tool
    async def stop() -> str:
        running[0].cancel()
        return "stopped"

    agent = scripted(call("stop"), "done", tools=[stop])
    running.append(Runner.run_streamed(agent, "go"))
    await drained(running[0])
    assert (told(running[0]), asked(agent)) == (["stopped"], 1)
    assert await ended(agent, running[0].to_state()) == "done"


# -- at once, elsewhere ----------------------------------------------------------------------------


async def test_a_nested_agents_model_is_cut_off_and_its_bodies_have_the_grace() -> None:
    body, model = Gate(), Gate()
    work, ran = counted(body)

    async def think(request: Any) -> str:
        await model()
        return "never"

    inner = scripted(call("work"), "inner done", name="inner", tools=[work])
    other = scripted(think, "other done", name="other")
    outer = scripted(
        [call("inner", {"input": "a"}), call("other", {"input": "b"})],
        "outer done",
        name="outer",
        tools=[inner.as_tool("inner", "works"), other.as_tool("other", "thinks")],
    )
    result = Runner.run_streamed(outer, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(body.reached.wait())
    await soon(model.reached.wait())
    result.cancel()
    body.opened.set()
    await drained(result)
    assert not await quiet()
    assert await ended(outer, result.to_state()) == "outer done"
    assert (ran, asked(inner), asked(other), asked(outer)) == (["it"], 2, 2, 2)


async def test_a_doubt_in_a_nested_agent_comes_to_the_outer_run() -> None:
    gate = Gate()
    work, ran = counted(gate)
    inner = scripted(call("work"), "inner done", name="inner", tools=[work])
    outer = scripted(call("inner", {"input": "a"}), "done", name="outer", tools=[inner.as_tool("inner", "works")])
    result = Runner.run_streamed(outer, "go", run_config=RunConfig(cancel_grace=0))
    again = await Runner.run(outer, await reloaded(outer, await cancelled(result, gate.reached)))
    [item] = again.interruptions
    assert (item.kind, len(item.path)) == ("doubt", 1)
    state = again.to_state()
    state.respond(item, "did it")
    assert await ended(outer, state) == "done"
    assert ran == ["it"]


async def test_an_input_guardrail_that_is_cut_off_looks_again() -> None:
    gate = Gate()
    work, ran = counted()

    async def look(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        await gate()
        return GuardrailFunctionOutput("fine", False)

    agent = scripted(call("work"), "done", tools=[work], input_guardrails=[InputGuardrail(look)])
    result = Runner.run_streamed(agent, "go")
    state = await cancelled(result, gate.reached)
    assert (ran, result.input_guardrail_results) == ([], [])
    gate.opened.set()
    assert await ended(agent, state) == "done"
    assert (gate.times, ran) == (2, ["it"])


async def test_an_output_guardrail_that_is_cut_off_looks_again() -> None:
    gate = Gate()

    async def look(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        await gate()
        return GuardrailFunctionOutput("fine", False)

    agent = scripted("done", output_guardrails=[OutputGuardrail(look)])
    result = Runner.run_streamed(agent, "go")
    state = await cancelled(result, gate.reached)
    assert result.final_output is None
    gate.opened.set()
    assert await ended(agent, state) == "done"
    assert (gate.times, asked(agent)) == (2, 1)


async def test_a_tools_input_guardrail_that_is_cut_off_looks_again_and_the_tool_runs_once() -> None:
    gate = Gate()

    async def look(data: Any) -> ToolGuardrailFunctionOutput:
        await gate()
        return ToolGuardrailFunctionOutput.allow()

    work, ran = counted(tool_input_guardrails=[ToolInputGuardrail(look)])
    agent = scripted(call("work"), "done", tools=[work])
    state = await cancelled(Runner.run_streamed(agent, "go"), gate.reached)
    assert ran == []
    gate.opened.set()
    assert await ended(agent, state) == "done"
    assert ran == ["it"]


async def test_a_tripwire_that_goes_off_in_a_bodys_grace_closes_the_run() -> None:
    gate = Gate()

    async def look(data: Any) -> ToolGuardrailFunctionOutput:
        await gate()
        return ToolGuardrailFunctionOutput.raise_exception("a secret")

    work, ran = counted(tool_output_guardrails=[ToolOutputGuardrail(look)])
    agent = scripted(call("work"), "told anyway", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    result.cancel()
    gate.opened.set()
    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as caught:
        await drained(result)
    assert caught.value.state.status == "closed"
    with pytest.raises(RunFinished):
        await Runner.run(agent, result.to_state())
    assert (asked(agent), ran) == (1, ["it"])


async def test_a_tripwire_goes_off_although_a_body_that_still_runs_is_stopped() -> None:
    gate = Gate()

    async def look(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.raise_exception("a secret")

    leak, _ = counted(name_override="leak", tool_output_guardrails=[ToolOutputGuardrail(look)])
    work, ran = counted(gate)
    agent = scripted([call("work"), call("leak")], "told anyway", tools=[work, leak])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=0))
    await soon(gate.reached.wait())
    for _ in range(10):
        await asyncio.sleep(0)
    result.cancel()
    with pytest.raises(ToolOutputGuardrailTripwireTriggered):
        await drained(result)
    assert result.to_state().status == "closed"
    assert ran == ["it"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_tripwire_goes_off_although_its_guardrail_was_told_to_stop(streamed: bool) -> None:
    gate = Gate()

    async def look(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        try:
            await gate()
        except asyncio.CancelledError:
            return GuardrailFunctionOutput("bad", True)
        return GuardrailFunctionOutput("fine", False)

    agent = scripted("never", input_guardrails=[InputGuardrail(look, run_in_parallel=False)])
    if streamed:
        result = Runner.run_streamed(agent, "go")
        await soon(gate.reached.wait())
        result.cancel()
        with pytest.raises(InputGuardrailTripwireTriggered):
            await drained(result)
        state = result.to_state()
    else:
        task = asyncio.create_task(Runner.run(agent, "go"))
        await soon(gate.reached.wait())
        task.cancel()
        with pytest.raises((asyncio.CancelledError, InputGuardrailTripwireTriggered)) as caught:
            await task
        state = caught.value.state  # type: ignore[union-attr]
    assert state.status == "closed"
    assert asked(agent) == 0


HOOKS = ["on_agent_start", "on_llm_start", "on_llm_end", "on_tool_start", "on_tool_end", "on_agent_end"]


@pytest.mark.parametrize("name", HOOKS)
async def test_a_hook_that_is_cut_off_stops_nothing_for_good(name: str) -> None:
    gate = Gate()

    async def hook(*args: Any) -> None:
        await gate()

    hooks: RunHooks[Any] = RunHooks()
    setattr(hooks, name, hook)
    work, ran = counted()
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", hooks=hooks, run_config=RunConfig(cancel_grace=0))
    state = await cancelled(result, gate.reached)
    gate.opened.set()
    assert await ended(agent, state, hooks=hooks) == "done"
    assert (ran, asked(agent)) == (["it"], 2)


@pytest.mark.parametrize("name", ["on_approval_requested", "on_approval_decided"])
async def test_a_hook_for_approvals_that_is_cut_off_stops_nothing_for_good(name: str) -> None:
    gate = Gate()

    async def hook(*args: Any) -> None:
        await gate()

    hooks: RunHooks[Any] = RunHooks()
    setattr(hooks, name, hook)
    work, ran = counted(needs_approval=True)
    agent = scripted(call("work"), "done", tools=[work])
    if name == "on_approval_requested":
        state = await cancelled(Runner.run_streamed(agent, "go", hooks=hooks), gate.reached)
        state.approve(state.get_interruptions()[0])
    else:
        paused = await Runner.run(agent, "go")
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        state = await cancelled(Runner.run_streamed(agent, state, hooks=hooks), gate.reached)
    gate.opened.set()
    assert await ended(agent, state, hooks=hooks) == "done"
    assert ran == ["it"]


@pytest.mark.parametrize("several", [False, True])
async def test_a_rule_that_is_cut_off_is_asked_again(several: bool) -> None:
    gate = Gate()

    async def rule(ctx: Any, params: Any, call_id: str) -> bool:
        await gate()
        return False

    work, ran = counted(needs_approval=rule)
    calls = [call("work", {"name": name}) for name in (("a", "b") if several else ("a",))]
    agent = scripted(calls, "done", tools=[work])
    state = await cancelled(Runner.run_streamed(agent, "go"), gate.reached)
    assert (ran, facts(state, "approved")) == ([], [])
    gate.opened.set()
    assert await ended(agent, state) == "done"
    assert sorted(ran) == ["a", "b"][: len(calls)]


async def test_a_rule_that_catches_its_cancellation_does_not_keep_the_run_going() -> None:
    gate = Gate()

    async def rule(ctx: Any, params: Any, call_id: str) -> bool:
        try:
            await gate()
        except asyncio.CancelledError:
            return False
        return True

    work, ran = counted(needs_approval=rule)
    agent = scripted(call("work"), "done", tools=[work])
    state = await cancelled(Runner.run_streamed(agent, "go"), gate.reached)
    assert (state.status, ran) == ("cancelled", [])
    gate.opened.set()
    assert await ended(agent, state) == "done"
    assert ran == ["it"]


async def test_instructions_that_are_cut_off_are_made_again() -> None:
    gate = Gate()

    async def instructions(ctx: Any, agent: Any) -> str:
        await gate()
        return "Be brief."

    agent = scripted("done", instructions=instructions)
    state = await cancelled(Runner.run_streamed(agent, "go"), gate.reached)
    gate.opened.set()
    assert await ended(agent, state) == "done"


async def test_the_wording_of_a_refusal_that_is_cut_off_is_made_again() -> None:
    gate = Gate()

    async def wording(args: Any) -> str:
        await gate()
        return "not today"

    config = RunConfig(tool_error_formatter=wording)
    work, ran = counted(needs_approval=True)
    agent = scripted(call("work"), "done", tools=[work])
    state = (await Runner.run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0])
    state = await cancelled(Runner.run_streamed(agent, state, run_config=config), gate.reached)
    gate.opened.set()
    assert await ended(agent, state, run_config=config) == "done"
    assert heard(agent)[-1]["output"] == "not today"
    assert ran == []


async def test_a_handoff_that_ends_in_its_grace_has_happened_once() -> None:
    gate = Gate()

    async def on_handoff(ctx: Any) -> None:
        await gate()

    target = scripted("from the other", name="other")
    agent = scripted(call("transfer_to_other"), handoffs=[handoff(target, on_handoff=on_handoff)])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    result.cancel()
    gate.opened.set()
    await drained(result)
    assert result.current_agent is target
    assert await ended(agent, result.to_state()) == "from the other"
    assert gate.times == 1


# -- at once: before, after, and more than once ----------------------------------------------------


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
async def test_a_run_that_is_cancelled_before_it_began_does_nothing_and_can_be_resumed(mode: Any) -> None:
    work, ran = counted()
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go")
    result.cancel(mode)
    await drained(result)
    assert (asked(agent), result.to_state().status) == (0, "cancelled")
    assert await ended(agent, result.to_state()) == "done"
    assert ran == ["it"]


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
async def test_a_resumed_run_can_be_cancelled_before_it_goes_on(mode: Any) -> None:
    work, ran = counted(needs_approval=True)
    agent = scripted(call("work"), "done", tools=[work])
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    result = Runner.run_streamed(agent, state)
    result.cancel(mode)
    await drained(result)
    assert ran == ([] if mode == "immediate" else ["it"])
    assert await ended(agent, result.to_state()) == "done"
    assert ran == ["it"]


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
async def test_cancelling_what_waits_or_is_over_changes_nothing(mode: Any) -> None:
    work, _ = counted(needs_approval=True)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go")
    await drained(result)
    before = result.to_state().to_string()
    result.cancel(mode)
    assert await drained(result) == []
    assert result.to_state().to_string() == before
    assert result.to_state().status == "waiting"


async def test_a_second_cancel_takes_no_grace_away() -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    for mode in ("immediate", "immediate", "after_turn", "immediate"):
        result.cancel(mode)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not result.is_complete
    gate.opened.set()
    await drained(result)
    assert told(result) == ["did it"]
    assert await ended(agent, result.to_state()) == "done"
    assert ran == ["it"]


async def test_after_turn_does_not_take_back_a_cancel_at_once() -> None:
    gate = Gate()

    async def think(request: Any) -> str:
        await gate()
        return "never"

    agent = scripted(think, "done")
    result = Runner.run_streamed(agent, "go")
    await soon(gate.reached.wait())
    result.cancel("immediate")
    result.cancel("after_turn")
    await drained(result)
    assert result.to_state().status == "cancelled"
    assert await ended(agent, result.to_state()) == "done"


async def test_a_cancel_after_the_turn_can_be_hurried() -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=0))
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    await asyncio.sleep(0)
    assert not result.is_complete
    state = await cancelled(result, gate.reached)
    again = await Runner.run(agent, await reloaded(agent, state))
    assert [item.kind for item in again.interruptions] == ["doubt"]
    assert ran == ["it"]


async def test_a_run_that_has_its_output_is_done_however_late_it_is_cancelled() -> None:
    running: list[RunResultStreaming] = []

    class Late(RunHooks[Any]):
        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            asyncio.get_running_loop().call_soon(running[0].cancel)

    agent = scripted("done")
    running.append(Runner.run_streamed(agent, "go", hooks=Late()))
    await drained(running[0])
    state = running[0].to_state()
    assert (running[0].final_output, state.status) in [("done", "done"), (None, "cancelled")]


@pytest.mark.parametrize("mode", ["", "now", "IMMEDIATE", None, 1, True, [], "after-turn"])
async def test_a_mode_that_is_none_is_refused_and_the_run_goes_on(mode: Any) -> None:
    result = Runner.run_streamed(scripted("done"), "go")
    with pytest.raises(UsageError, match="after_turn"):
        result.cancel(mode)
    await drained(result)
    assert result.final_output == "done"
    with pytest.raises(UsageError):
        result.cancel(mode)


# -- after the turn --------------------------------------------------------------------------------


async def test_after_the_turn_means_that_its_calls_are_done_and_the_model_is_not_asked() -> None:
    gate = Gate()
    work, ran = counted(gate)
    calls = [call("work", {"name": name}) for name in ("a", "b")]
    agent = scripted(calls, call("work", {"name": "c"}), "done", tools=[work])
    result = Runner.run_streamed(agent, "go")
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    gate.opened.set()
    await drained(result)
    state = result.to_state()
    assert (state.status, sorted(ran), asked(agent)) == ("cancelled", ["a", "b"], 1)
    assert result.to_input_list()[-1]["output"] == "did b"
    assert await ended(agent, state) == "done"
    assert sorted(ran) == ["a", "b", "c"]


async def test_after_the_turn_the_reply_under_way_is_waited_for_with_its_calls() -> None:
    gate = Gate()
    work, ran = counted()

    async def think(request: Any) -> Any:
        await gate()
        return call("work")

    agent = scripted(think, "done", tools=[work])
    result = Runner.run_streamed(agent, "go")
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    gate.opened.set()
    await drained(result)
    assert (ran, asked(agent), result.to_state().status) == (["it"], 1, "cancelled")
    assert await ended(agent, result.to_state()) == "done"


async def test_after_the_last_turn_the_run_is_simply_done() -> None:
    gate = Gate()

    async def think(request: Any) -> str:
        await gate()
        return "done"

    result = Runner.run_streamed(scripted(think), "go")
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    gate.opened.set()
    await drained(result)
    assert (result.final_output, result.to_state().status) == ("done", "done")


async def test_after_a_turn_that_ends_the_run_by_its_tools_it_is_done() -> None:
    gate = Gate()
    work, _ = counted(gate)
    agent = scripted(call("work"), tools=[work], tool_use_behavior="stop_on_first_tool")
    result = Runner.run_streamed(agent, "go")
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    gate.opened.set()
    await drained(result)
    assert result.final_output == "did it"


async def test_after_the_turn_an_open_question_waits_and_the_rest_is_done() -> None:
    gate = Gate()
    send, sent = sending(needs_approval=True)
    work, ran = counted(gate)
    agent = scripted([call("send", {"to": "ann"}), call("work")], "done", tools=[send, work])
    result = Runner.run_streamed(agent, "go")
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    gate.opened.set()
    await drained(result)
    assert (len(result.interruptions), ran, sent) == (1, ["it"], [])
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    assert await ended(agent, state) == "done"
    assert (ran, sent) == (["it"], [("ann", 1)])


async def test_after_the_turn_a_nested_agent_comes_to_its_end() -> None:
    gate = Gate()
    work, ran = counted(gate)
    inner = scripted(call("work"), call("work"), "inner done", name="inner", tools=[work])
    outer = scripted(call("inner", {"input": "a"}), "done", name="outer", tools=[inner.as_tool("inner", "works")])
    result = Runner.run_streamed(outer, "go")
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    gate.opened.set()
    await drained(result)
    assert (told(result), asked(inner), asked(outer)) == (["inner done"], 3, 1)
    assert result.to_state().status == "cancelled"
    assert await ended(outer, result.to_state()) == "done"
    assert ran == ["it", "it"]


async def test_after_the_turn_a_guardrail_that_the_model_waits_for_ends_and_the_model_is_not_asked() -> None:
    gate = Gate()

    async def look(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        await gate()
        return GuardrailFunctionOutput("fine", False)

    agent = scripted("done", input_guardrails=[InputGuardrail(look, run_in_parallel=False)])
    result = Runner.run_streamed(agent, "go")
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    gate.opened.set()
    await drained(result)
    assert (asked(agent), len(result.input_guardrail_results)) == (0, 1)
    assert await ended(agent, result.to_state()) == "done"
    assert gate.times == 1


async def test_a_stop_is_not_kept_a_resumed_run_goes_on_to_its_end() -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go")
    await soon(gate.reached.wait())
    result.cancel("after_turn")
    gate.opened.set()
    await drained(result)
    assert await ended(agent, result.to_state()) == "done"
    assert len(ran) == 2


async def test_a_run_is_cancelled_and_resumed_any_number_of_times() -> None:
    work, ran = counted()
    agent = scripted(*[call("work", {"name": str(n)}) for n in range(5)], "done", tools=[work])
    start: Any = "go"
    for n in range(5):
        result = Runner.run_streamed(agent, start)
        async for event in result.stream_events():
            if getattr(event, "name", "") == "tool_called":
                result.cancel("after_turn")
        assert ran == [str(each) for each in range(n + 1)]
        start = await reloaded(agent, result.to_state())
    assert await ended(agent, start) == "done"
    assert len(facts(result.to_state(), "cancelled")) == 5


async def test_questions_of_a_cancelled_run_can_be_decided_before_it_is_resumed() -> None:
    gate = Gate()
    send, sent = sending(needs_approval=True)
    work, ran = counted(gate)
    agent = scripted([call("send", {"to": "ann"}), call("work")], "done", tools=[send, work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    result.cancel()
    gate.opened.set()
    await drained(result)
    state = await reloaded(agent, result.to_state())
    assert state.status == "cancelled"
    state.approve(state.get_interruptions()[0])
    assert await ended(agent, state) == "done"
    assert (sent, ran) == ([("ann", 1)], ["it"])


async def test_new_input_can_be_given_to_a_cancelled_run() -> None:
    gate = Gate()
    work, _ = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    result.cancel()
    gate.opened.set()
    await drained(result)
    state = result.to_state()
    state.add_input("and hurry")
    assert await ended(agent, state) == "done"
    assert [item.get("type") or item["content"] for item in heard(agent)] == [
        "go",
        "function_call",
        "function_call_output",
        "and hurry",
    ]


# -- leaving without a word ------------------------------------------------------------------------

Leave = Callable[[RunResultStreaming], Awaitable[None]]


async def breaks_off(result: RunResultStreaming) -> None:
    async for _ in result.stream_events():
        break


async def raises(result: RunResultStreaming) -> None:
    async def reader() -> None:
        async for _ in result.stream_events():
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        await reader()


async def closes(result: RunResultStreaming) -> None:
    events = result.stream_events()
    await anext(events)
    await events.aclose()  # type: ignore[attr-defined]


async def forgets(result: RunResultStreaming) -> None:
    events = result.stream_events()
    await anext(events)
    del events


async def is_cancelled(result: RunResultStreaming) -> None:
    async def reader() -> None:
        async for _ in result.stream_events():
            pass

    task = asyncio.create_task(reader())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def runs_out_of_time(result: RunResultStreaming) -> None:
    async def reader() -> None:
        async with asyncio.timeout(0.001):
            async for _ in result.stream_events():
                pass

    with pytest.raises(TimeoutError):
        await reader()


LEAVE: list[Leave] = [breaks_off, raises, closes, forgets, is_cancelled, runs_out_of_time]


@pytest.mark.parametrize("leave", LEAVE)
async def test_a_reader_that_stops_reading_leaves_no_task_and_a_run_that_can_go_on(leave: Leave) -> None:
    gate = Gate()

    async def think(request: Any) -> str:
        await gate()
        return "never"

    agent = scripted(think, "done")
    result = Runner.run_streamed(agent, "go")
    await soon(gate.reached.wait())
    await leave(result)
    gc.collect()
    assert not await quiet()
    assert result.is_complete
    assert result.to_state().status == "cancelled"
    assert await ended(agent, result.to_state()) == "done"


@pytest.mark.parametrize("leave", LEAVE)
async def test_a_reader_that_stops_reading_gives_bodies_their_grace(leave: Leave) -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    asyncio.get_running_loop().call_later(0.01, gate.opened.set)
    await soon(leave(result))
    gc.collect()
    await soon(result._task)  # type: ignore[arg-type]
    assert not await quiet()
    assert told(result) == ["did it"]
    assert await ended(agent, result.to_state()) == "done"
    assert ran == ["it"]


async def test_a_reader_that_will_not_wait_for_the_grace_need_not() -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())

    async def reader() -> None:
        async for _ in result.stream_events():
            pass

    task = asyncio.create_task(reader())
    for _ in range(3):
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.opened.set()
    await drained(result)
    assert not await quiet()
    assert (told(result), ran) == (["did it"], ["it"])


async def test_a_run_that_nobody_reads_goes_on_to_its_end() -> None:
    work, ran = counted()
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go")
    result.stream_events()  # made, and not read
    await soon(result._task)  # type: ignore[arg-type]
    assert not await quiet()
    assert (result.is_complete, result.final_output, ran) == (True, "done", ["it"])
    assert [getattr(event, "name", event.type) for event in await drained(result)][-1] == "message_output_created"


async def test_two_readers_share_the_events_and_both_come_to_the_end() -> None:
    agent = scripted("one two three four five six")
    alone = [event.type for event in await drained(Runner.run_streamed(scripted("one two three four five six"), "go"))]
    result = Runner.run_streamed(agent, "go")
    first, second = await asyncio.gather(drained(result), drained(result))
    assert sorted(event.type for event in [*first, *second]) == sorted(alone)
    assert not await quiet()


async def test_a_reader_that_leaves_ends_the_stream_of_the_other_too() -> None:
    gate = Gate()

    async def think(request: Any) -> str:
        await gate()
        return "never"

    agent = scripted(think, "done")
    result = Runner.run_streamed(agent, "go")
    other = asyncio.create_task(drained(result))
    await soon(gate.reached.wait())
    await is_cancelled(result)
    await soon(other)
    assert not await quiet()
    assert await ended(agent, result.to_state()) == "done"


async def test_a_reader_that_leaves_after_the_end_changes_nothing() -> None:
    result = Runner.run_streamed(scripted("a b c"), "go")
    await soon(result._task)  # type: ignore[arg-type]
    await breaks_off(result)
    assert not await quiet()
    assert (result.final_output, result.to_state().status) == ("a b c", "done")


# -- cancelled from outside ------------------------------------------------------------------------


async def test_a_plain_run_that_runs_out_of_time_carries_its_state_and_its_body_is_in_doubt() -> None:
    limits: list[asyncio.Timeout] = []
    ran: list[int] = []

    @function_tool
    async def work() -> str:
        ran.append(1)
        limits[0].reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()
        return "never"

    agent = scripted(call("work"), "done", tools=[work])

    async def run() -> None:
        async with asyncio.timeout(None) as limit:
            limits.append(limit)
            await Runner.run(agent, "go", run_config=RunConfig(cancel_grace=LONG))

    with pytest.raises(TimeoutError) as caught:
        await soon(run())
    assert not await quiet()
    state = caught.value.__cause__.state  # type: ignore[union-attr]
    again = await Runner.run(agent, await reloaded(agent, state))
    assert ([item.kind for item in again.interruptions], ran) == (["doubt"], [1])


async def test_a_streams_own_task_that_is_cancelled_from_outside_stops_at_once() -> None:
    gate = Gate()
    work, ran = counted(gate)
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", run_config=RunConfig(cancel_grace=LONG))
    await soon(gate.reached.wait())
    [*others] = await quiet()
    for task in others:
        task.cancel()
    await drained(result)
    assert result.is_complete
    again = await Runner.run(agent, await reloaded(agent, result.to_state()))
    assert ([item.kind for item in again.interruptions], ran) == (["doubt"], ["it"])


def test_a_loop_that_ends_takes_a_stream_with_it() -> None:
    async def main() -> None:
        async def think(request: Any) -> str:
            await asyncio.Event().wait()
            return "never"

        result = Runner.run_streamed(scripted(think), "go")
        async for _ in result.stream_events():
            break

    asyncio.run(main())


# -- with a session --------------------------------------------------------------------------------


class Slow:
    """A session whose calls pass gates; it says nothing of runs, so what is added twice is there twice."""

    def __init__(self) -> None:
        self.session_id = "slow"
        self.items: list[Any] = []
        self.reading: Gate | None = None
        self.adding: Gate | None = None

    async def get_items(self, limit: int | None = None) -> list[Any]:
        if self.reading is not None:
            await self.reading()
        return list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        if self.adding is not None:
            await self.adding()
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


async def test_a_cancel_while_the_session_is_written_stores_nothing_twice() -> None:
    session = Slow()
    session.adding = Gate()
    work, ran = counted()
    agent = scripted(call("work"), "done", tools=[work])
    result = Runner.run_streamed(agent, "go", session=session, run_config=RunConfig(cancel_grace=LONG))
    await soon(session.adding.reached.wait())
    result.cancel()
    await asyncio.sleep(0)
    session.adding.opened.set()
    await drained(result)
    assert len(session.items) == 3
    assert await ended(agent, result.to_state(), session=session) == "done"
    assert (len(session.items), ran, session.adding.times) == (4, ["it"], 2)


async def test_a_cancel_while_the_last_turn_is_written_lets_it_be_written() -> None:
    session = Slow()
    session.adding = Gate()
    result = Runner.run_streamed(scripted("done"), "go", session=session, run_config=RunConfig(cancel_grace=LONG))
    await soon(session.adding.reached.wait())
    result.cancel()
    await asyncio.sleep(0)
    session.adding.opened.set()
    await drained(result)
    assert (result.final_output, result.to_state().status, len(session.items)) == ("done", "done", 2)


async def test_a_session_that_outlasts_the_grace_is_an_error_and_can_be_written_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "PATIENCE", 0.01)
    session = Slow()
    session.adding = Gate()
    agent = scripted("done")
    result = Runner.run_streamed(agent, "go", session=session, run_config=RunConfig(cancel_grace=0.01))
    await soon(session.adding.reached.wait())
    result.cancel()
    with pytest.raises(SessionFailed) as caught:
        await drained(result)
    assert not await quiet()
    assert session.items == []
    session.adding.opened.set()
    assert await ended(agent, caught.value.state, session=session) == "done"
    assert (len(session.items), asked(agent)) == (2, 1)


async def test_bodies_without_any_grace_do_not_cost_the_session_its_time(tmp_path: Any) -> None:
    session = SQLiteSession("one", tmp_path / "talk.db")
    running: list[RunResultStreaming] = []

    class Stops(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            running[0].cancel()

    work, _ = counted()
    agent = scripted(call("work"), "done", tools=[work])
    config = RunConfig(cancel_grace=0)
    running.append(Runner.run_streamed(agent, "go", hooks=Stops(), session=session, run_config=config))
    await drained(running[0])
    assert len(await session.get_items()) == 3
    assert await ended(agent, running[0].to_state(), session=session) == "done"
    assert len(await session.get_items()) == 4


async def test_a_cancel_while_the_session_is_read_waits_for_it_and_can_be_resumed() -> None:
    session = Slow()
    session.items = [{"role": "user", "content": "before"}]
    session.reading = Gate()
    agent = scripted("done")
    result = Runner.run_streamed(agent, "go", session=session, run_config=RunConfig(cancel_grace=LONG))
    await soon(session.reading.reached.wait())
    result.cancel()
    await asyncio.sleep(0)
    session.reading.opened.set()
    await drained(result)
    assert asked(agent) == 0
    assert await ended(agent, result.to_state(), session=session) == "done"
    assert [item["content"] for item in heard(agent)] == ["before", "go"]


@pytest.mark.parametrize("early", [True, False], ids=["before it is read", "while it is read"])
async def test_a_session_that_cannot_be_read_within_the_grace_ends_the_stream_and_nothing_had_begun(
    early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PATIENCE", 0.01)
    session = Slow()
    session.reading = Gate()
    agent = scripted("done")
    result = Runner.run_streamed(agent, "go", session=session, run_config=RunConfig(cancel_grace=0.01))
    if early:
        result.cancel()
    await soon(session.reading.reached.wait())
    result.cancel()
    with pytest.raises(SessionFailed) as caught:
        await drained(result)
    assert not await quiet()
    assert caught.value.state is None
    with pytest.raises(UsageError, match="begun"):
        result.to_state()
    assert (result.current_agent, result.last_agent, result.final_output) == (agent, agent, None)
    assert (result.new_items, result.interruptions) == ([], [])
    assert "None" in repr(result)


async def test_a_timeout_of_the_sessions_own_is_its_own() -> None:
    class Late(Slow):
        async def get_items(self, limit: int | None = None) -> list[Any]:
            raise TimeoutError("the database is far away")

    with pytest.raises(TimeoutError, match="far away"):
        await Runner.run(scripted("done"), "go", session=Late())


async def test_a_cancelled_run_leaves_its_done_turns_in_a_database(tmp_path: Any) -> None:
    session = SQLiteSession("one", tmp_path / "talk.db")
    gate = Gate()
    work, ran = counted()

    async def think(request: Any) -> str:
        await gate()
        return "never"

    agent = scripted(call("work"), think, "done", tools=[work])
    result = Runner.run_streamed(agent, "go", session=session)
    state = await cancelled(result, gate.reached)
    assert [item.get("type", "said") for item in await session.get_items()] == [
        "said",
        "function_call",
        "function_call_output",
    ]
    other = SQLiteSession("one", tmp_path / "talk.db")
    assert await ended(agent, state, session=other) == "done"
    assert [item.get("type", "said") for item in await session.get_items()][3:] == ["message"]
    assert ran == ["it"]


# -- the setting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("grace", [-1, float("nan"), float("inf"), "5", None, True])
def test_a_grace_is_a_number_of_seconds(grace: Any) -> None:
    with pytest.raises(UsageError, match="cancel_grace"):
        RunConfig(cancel_grace=grace)
