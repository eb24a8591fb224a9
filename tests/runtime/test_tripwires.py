"""What a tripwire stops, to the moment: found by runs in drawn worlds (tests/property/test_runs.py)."""

import asyncio
from typing import Any

import pytest

from assentry import (
    Agent,
    RunConfig,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from assentry.errors import ToolInputGuardrailTripwireTriggered, ToolOutputGuardrailTripwireTriggered
from assentry.testing import ScriptedModel, call
from tests.runtime.support import facts, scripted, sending

Found = ToolGuardrailFunctionOutput


@tool_input_guardrail
async def slow(data: Any) -> Found:
    for _ in range(5):
        await asyncio.sleep(0)
    return Found.allow()


@tool_input_guardrail
def trips(data: Any) -> Found:
    return Found.raise_exception("bad")


@tool_output_guardrail
def held(data: Any) -> Found:
    return Found.raise_exception("bad")


@pytest.mark.parametrize("config", [RunConfig(), RunConfig(max_parallel_tools=1)], ids=["each", "one by one"])
async def test_a_call_that_had_not_begun_when_a_guardrail_tripped_does_not_begin(config: RunConfig) -> None:
    send, sent = sending(tool_input_guardrails=[slow])

    @function_tool(tool_input_guardrails=[trips])
    async def look() -> str:
        raise AssertionError("it was entered")

    agent = scripted([call("look"), call("send", {"to": "ann"})], tools=[look, send])
    with pytest.raises(ToolInputGuardrailTripwireTriggered) as caught:
        await Runner.run(agent, "go", run_config=config)
    assert sent == [] and facts(caught.value.state, "started") == []
    assert caught.value.state.status == "closed"


async def test_an_agent_call_that_had_not_begun_when_a_guardrail_tripped_does_not_begin() -> None:
    inner = Agent("Inner", model=ScriptedModel([]))

    @function_tool(tool_output_guardrails=[held])
    async def look() -> str:
        return "seen"

    tools = [look, inner.as_tool("ask")]
    config = RunConfig(max_parallel_tools=1)
    agent = scripted([call("look"), call("ask", {"input": "hi"})], tools=tools)
    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as caught:
        await Runner.run(agent, "go", run_config=config)
    assert len(facts(caught.value.state, "began")) == 1


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_a_run_that_was_cut_off_after_a_tripwire_is_closed_and_nothing_goes_on(lost: int) -> None:
    """After the tool has run: the guardrail has tripped, the call has its outcome, and only then is the run closed."""
    send, sent = sending(tool_output_guardrails=[held])

    def agent() -> Agent[Any]:
        return scripted(call("send", {"to": "ann"}), "done", tools=[send])

    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as caught:
        await Runner.run(agent(), "go")
    saved = caught.value.state.to_json()
    assert [fact["fact"] for fact in saved["journal"][-3:]] == ["guarded", "finished", "closed"]
    del saved["journal"][-lost:]
    if lost == 3:  # not even that it tripped is known: a person is asked what became of the call
        result = await Runner.run(agent(), await RunState.from_json(agent(), saved))
        assert [item.kind for item in result.interruptions] == ["doubt"]
        return
    again = agent()
    with pytest.raises(ToolOutputGuardrailTripwireTriggered, match="'held' stopped the run") as caught:
        await Runner.run(again, await RunState.from_json(again, saved))
    assert caught.value.state.status == "closed" and caught.value.guardrail is held
    assert sent == [("ann", 1)]


async def test_a_branch_that_was_cut_off_after_a_tripwire_is_closed_and_the_run_goes_on() -> None:
    send, sent = sending(tool_output_guardrails=[held])
    inner = scripted(call("send", {"to": "ann"}), "inner", tools=[send], name="Inner")
    agent = scripted(call("ask", {"input": "hi"}), "done", tools=[inner.as_tool("ask")])
    result = await Runner.run(agent, "go")
    saved = result.to_state().to_json()
    first = next(n for n, fact in enumerate(saved["journal"]) if fact["fact"] == "closed")
    for kept in (first, first + 1):
        data = saved | {"journal": saved["journal"][:kept]}
        fresh = scripted("done", tools=[inner.as_tool("ask")])
        again = await Runner.run(fresh, await RunState.from_json(fresh, data))
        assert again.final_output == "done" and len(facts(again.to_state(), "closed")) == 1
    assert sent == [("ann", 1)]
