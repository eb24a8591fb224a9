"""What others write to a run while it is driven: it changes the run's course where it must, and breaks nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    RunConfig,
    Runner,
    SQLiteSession,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    function_tool,
)
from assentry.core import facts as f
from assentry.errors import InputGuardrailTripwireTriggered
from assentry.store import Change
from assentry.testing import FakeClock, call
from tests.runtime.support import scripted, sending, soon, told
from tests.store.test_stored_runs import AT_ONCE, Watched, has, kinds


class Boom(Exception):
    """What a tool fails with."""


async def others_first() -> None:
    """Let whatever can go on do so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_an_agent_that_fails_while_a_call_of_it_is_being_written_fails_alone() -> None:
    entered, writing = asyncio.Event(), asyncio.Event()

    @function_tool(failure_error_function=None)
    async def fail() -> str:
        entered.set()
        await soon(writing.wait())
        raise Boom("no")

    async def late(data: Any) -> ToolGuardrailFunctionOutput:
        await soon(entered.wait())
        return ToolGuardrailFunctionOutput.allow()

    send, sent = sending(tool_input_guardrails=[ToolInputGuardrail(late)])
    store = Watched()

    async def hold(change: Change) -> None:
        if entered.is_set() and has(change, f.Started):
            writing.set()
            await others_first()

    store.before = hold
    clerk = scripted([call("fail"), call("send", {"to": "bob"})], tools=[fail, send], name="Clerk")
    boss = scripted(call("clerk", {"input": "x"}), "all the same", tools=[clerk.as_tool("clerk", "A clerk.")])
    result = await soon(Runner.run(boss, "go", store=store))
    assert writing.is_set() and sent == []
    assert result.final_output == "all the same" and "no" in told(result)[0]


def watching(seen: list[str], gate: asyncio.Event | None = None, bad: str = "bad") -> Any:
    """A guardrail that notes what it was shown."""

    async def look(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        seen.append(str(input))
        if gate is not None:
            await soon(gate.wait())
        return GuardrailFunctionOutput(None, bad in str(input))

    return look


async def test_what_is_said_between_two_guardrails_is_seen_by_both_and_the_run_can_be_read() -> None:
    gate = asyncio.Event()
    quick, slow = list[str](), list[str]()
    store = Watched()

    async def say(change: Change) -> None:
        if has(change, f.Guarded) and not gate.is_set():
            gate.set()
            await store.say(change.record.id, "And?", by="ann")

    store.before = say
    guards = [InputGuardrail(watching(quick), "quick"), InputGuardrail(watching(slow, gate), "slow")]
    agent = scripted("one", "two", "three", input_guardrails=guards)
    result = await soon(Runner.run(agent, "go", store=store, run_config=AT_ONCE))
    assert gate.is_set()
    stored = await store.load(result.run_id)
    assert stored.record.status == "done"
    assert "And?" in quick[-1] and "And?" in slow[-1]


@pytest.mark.parametrize("text", ["And?", "bad"])
async def test_what_is_said_to_a_run_that_is_driven_is_guarded_before_the_model_acts_on_it(text: str) -> None:
    seen: list[str] = []
    send, sent = sending()
    store = Watched()

    async def say(change: Change) -> None:
        if has(change, f.Started) and sent:
            store.before = None
            await store.say(change.record.id, text, by="ann")

    store.before = say
    agent = scripted(
        call("send", {"to": "bob"}),
        call("send", {"to": "eve"}),
        call("send", {"to": "zoe"}),
        "done",
        tools=[send],
        input_guardrails=[InputGuardrail(watching(seen))],
    )
    if text == "bad":
        with pytest.raises(InputGuardrailTripwireTriggered):
            await soon(Runner.run(agent, "go", store=store))
    else:
        await soon(Runner.run(agent, "go", store=store))
    assert sent == [("bob", 1), ("eve", 1), ("zoe", 1)][: 2 if text == "bad" else 3]
    assert text in seen[-1]


async def test_a_run_that_a_guardrail_stops_as_others_write_to_it_is_closed() -> None:
    store = Watched()

    async def meddle(change: Change) -> None:
        if has(change, f.Closed):
            store.before = None
            await store.cancel(change.record.id, by="ann")
            await store.resume(change.record.id, by="ann")

    store.before = meddle
    agent = scripted("one", input_guardrails=[InputGuardrail(watching([]))])
    with pytest.raises(InputGuardrailTripwireTriggered):
        await soon(Runner.run(agent, "bad", store=store, run_config=AT_ONCE))
    [record] = (await store.runs()).items
    assert store.before is None
    assert (record.status, record.worker) == ("closed", None)


async def test_a_run_that_is_cancelled_as_it_is_saved_writes_nothing_to_its_session_twice(tmp_path: Path) -> None:
    send, sent = sending()
    store = Watched()
    session = SQLiteSession("talk", tmp_path / "talk.db")

    async def cancel(change: Change) -> None:
        if has(change, f.Saved) and has(change, f.Started):
            store.before = None
            await store.cancel(change.record.id, by="ann")

    store.before = cancel

    def think(request: Any) -> Any:
        return "done" if len(request.input) > 4 else call("send", {"to": f"p{len(request.input)}"})

    agent = scripted(*[think] * 9, tools=[send])
    patient = RunConfig(write_lag=60)  # what is saved is written with the next start, however slow the machine is
    await soon(Runner.run(agent, "go", store=store, session=session, run_config=patient))
    [record] = (await store.runs()).items
    assert store.before is None and record.status == "cancelled"
    assert len(await session.get_items()) == 3, "what was said, the call, and its output"
    await soon(Runner.run(agent, await store.load(record.id), store=store, session=session))
    items = await session.get_items()
    outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
    assert (sent, outputs) == ([("p1", 1), ("p3", 1)], ["sent 1 to p1", "sent 1 to p3"])


async def test_a_result_that_is_late_with_the_last_write_is_evidence_too() -> None:
    clock = FakeClock()
    store = Watched(clock=clock)

    @function_tool(failure_error_function=None)
    async def fail() -> str:
        raise Boom("no")

    async def take_over(change: Change) -> None:
        if has(change, f.Finished):
            store.before = None
            clock.advance(31)
            assert await store.claim("other", agents=None, hold=30, limit=5)

    store.before = take_over
    with pytest.raises(Boom):
        await soon(Runner.run(Agent("agent", tools=[fail], model=scripted(call("fail")).model), "go", store=store))
    [record] = (await store.runs()).items
    assert (await kinds(store, record.id))[-2:] == ["Started", "Witnessed"] and record.worker == "other"


async def test_a_call_that_others_have_stopped_while_a_guardrail_looked_does_not_begin() -> None:
    gate = asyncio.Event()

    async def late(data: Any) -> ToolGuardrailFunctionOutput:
        await soon(gate.wait())
        return ToolGuardrailFunctionOutput.allow()

    @function_tool
    async def act() -> str:
        return "acted"

    send, sent = sending(tool_input_guardrails=[ToolInputGuardrail(late)])
    store = Watched()

    async def cancel(change: Change) -> None:
        if has(change, f.Finished):
            store.before = None
            await store.cancel(change.record.id, by="ann")

    async def go(change: Change) -> None:
        if has(change, f.Finished):
            gate.set()

    store.before, store.after = cancel, go
    agent = scripted([call("act"), call("send", {"to": "bob"})], "done", tools=[act, send])
    await soon(Runner.run(agent, "go", store=store))
    [record] = (await store.runs()).items
    assert (record.status, record.worker, sent) == ("cancelled", None, [])
    result = await soon(Runner.run(agent, await store.load(record.id), store=store))
    assert (result.final_output, sent, told(result)) == ("done", [("bob", 1)], ["acted", "sent 1 to bob"])


async def test_what_a_body_came_to_is_written_last_whatever_others_write_meanwhile() -> None:
    store = Watched()

    @function_tool(failure_error_function=None)
    async def fail() -> str:
        raise Boom("no")

    async def say(change: Change) -> None:
        if has(change, f.Finished) and change.release:
            store.before = None
            await store.say(change.record.id, "And?", by="ann")

    store.before = say
    with pytest.raises(Boom):
        await soon(Runner.run(scripted(call("fail"), tools=[fail]), "go", store=store))
    [record] = (await store.runs()).items
    assert store.before is None and record.worker is None
    assert "Finished" in await kinds(store, record.id)


async def test_a_bodys_step_is_written_before_it_goes_on() -> None:
    store = Watched()
    seen: list[int] = []

    @function_tool
    async def ship(ctx: ToolContext[Any]) -> str:
        for step in ("label", "post"):
            await ctx.step(step, lambda: 1)
            seen.append(sum(type(fact) is f.Stepped for change in store.changes for fact in change.facts))
        return "ok"

    await soon(Runner.run(scripted(call("ship"), "done", tools=[ship]), "go", store=store))
    assert seen == [1, 2]
