"""Agents of the OpenAI Agents SDK whose calls are asked about first: the loop, and tools that ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, RunState, function_tool, set_tracing_disabled
from agents.exceptions import MaxTurnsExceeded, ModelBehaviorError, UserError
from agents.testing import ModelStep, ScriptedModel
from agents.tool_context import ToolContext

from assentry import Approve, Edit, Reject, Respond
from assentry.errors import Conflict, InvalidDecision, NotDecided, RunBusy, UsageError
from assentry.outside.openai_agents import ask_first, run_with_approvals
from assentry.store import SQLiteStore
from assentry.testing import FakeClock
from tests.outside.desk import EDITED, KINDS, MASKED, Effects, desk, output_of, start_program
from tests.outside.peer.shop import calling, done, refund_call, refund_tool, shop, telling

PROGRAM = Path(__file__).parent / "openai_agents_program.py"
WAYS = ("plain", "asks")


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


def paid(effects: Effects) -> Callable[[int, int], str]:
    def body(order: int, amount: int) -> str:
        effects.add(f"{order} {amount}")
        return f"paid {amount}"

    return body


def tool_of(way: str, body: Callable[[int, int], Any], approvals: Any, **options: Any) -> Any:
    tool = refund_tool(body, **options)
    return ask_first(tool, approvals, pause=True) if way == "asks" else tool


# -- the loop, with tools as they are and with tools that ask ----------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_runs_after_an_approval_and_is_reported(kind: str, way: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        agent = shop(calling(), tool_of(way, paid(effects), at.approvals))
        running = asyncio.create_task(run_with_approvals(agent, "Refund.", at.approvals))
        [question] = await at.questions()
        assert (question.tool, question.arguments, effects.lines()) == ("refund", '{"amount":50,"order":7}', [])
        await at.decide(Approve())
        assert (await running).final_output == "call_1: paid 50"
        assert (effects.lines(), await at.runs()) == (["7 50"], ["finished"])
        assert (await at.approvals.load(question.run)).status.output == "paid 50"
        assert await at.store.verify(question.run) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_rejection_reaches_the_model_in_the_persons_words(kind: str, way: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        agent = shop(calling(), tool_of(way, paid(effects), at.approvals))
        running = asyncio.create_task(run_with_approvals(agent, "Refund.", at.approvals))
        await at.decide(Reject("Ask for a receipt first."))
        assert (await running).final_output == "call_1: Ask for a receipt first."
        assert effects.lines() == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_persons_answer_takes_the_tools_place(way: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        agent = shop(calling(), tool_of(way, paid(effects), at.approvals))
        running = asyncio.create_task(run_with_approvals(agent, "Refund.", at.approvals))
        await at.decide(Respond("paid by hand"))
        assert (await running).final_output == "call_1: paid by hand"
        assert effects.lines() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_person_edits_is_what_the_body_of_a_tool_that_asks_gets(kind: str, tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []

    @function_tool
    def refund(ctx: ToolContext[Any], order: int, amount: int) -> str:
        """Pay an order back."""
        seen.append((amount, ctx.tool_arguments))
        return f"paid {amount}"

    async with desk(kind, tmp_path) as at:
        agent = shop(calling(), ask_first(refund, at.approvals, pause=True))
        running = asyncio.create_task(run_with_approvals(agent, "Refund.", at.approvals))
        await at.decide(Edit({"order": 7, "amount": 20}))
        assert (await running).final_output == f"call_1: paid 20\n\n[{EDITED}]"
        [(amount, arguments)] = seen
        assert (amount, json.loads(arguments)) == (20, {"order": 7, "amount": 20})


@pytest.mark.parametrize("kind", KINDS)
async def test_the_model_is_not_told_what_a_person_typed_into_a_masked_argument(kind: str, tmp_path: Path) -> None:
    async with desk(kind, tmp_path) as at:
        agent = shop(calling(), ask_first(refund_tool(paid(Effects(tmp_path))), at.approvals, redact=["order"]))
        running = asyncio.create_task(Runner.run(agent, "Refund."))
        await at.decide(Edit({"order": 81239, "amount": 20}))
        assert (await running).final_output == f"call_1: paid 20\n\n[{MASKED}]"


@pytest.mark.parametrize(
    ("output", "ends", "final"),
    [
        ({"paid": 20}, False, "call_1: {'paid': 20}"),
        ("paid 20", True, "paid 20"),
    ],
)
async def test_what_programs_read_of_an_edited_call_stays_as_it_is(
    output: Any, ends: bool, final: Any, tmp_path: Path
) -> None:
    async with desk("store", tmp_path) as at:
        agent = shop(calling(), ask_first(refund_tool(lambda *_: output), at.approvals))
        if ends:
            agent.tool_use_behavior = "stop_on_first_tool"
        running = asyncio.create_task(Runner.run(agent, "Refund."))
        await at.decide(Edit({"order": 7, "amount": 20}))
        assert (await running).final_output == final


async def test_the_model_is_told_of_an_edit_of_a_call_that_failed(tmp_path: Path) -> None:
    def body(order: int, amount: int) -> str:
        raise RuntimeError("the bank says no")

    tool = refund_tool(body, failure_error_function=lambda ctx, error: str(error))
    async with desk("store", tmp_path) as at:
        running = asyncio.create_task(Runner.run(shop(calling(), ask_first(tool, at.approvals)), "Refund."))
        await at.decide(Edit({"order": 7, "amount": 20}))
        assert (await running).final_output == f"call_1: the bank says no\n\n[{EDITED}]"


async def test_nobody_is_offered_an_edit_that_the_sdk_cannot_make(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        agent = shop(calling(), refund_tool(paid(Effects(tmp_path))))
        running = asyncio.create_task(run_with_approvals(agent, "Refund.", at.approvals))
        [question] = await at.questions()
        assert set(question.allowed) == {"approve", "reject", "respond"}
        with pytest.raises(InvalidDecision):
            await at.decide(Edit({"order": 7, "amount": 20}))
        await at.decide(Approve())
        await running
        with pytest.raises(UsageError, match="ask_first"):
            await run_with_approvals(
                shop(calling(refund_call(id="call_2")), refund_tool(paid(Effects(tmp_path)))),
                "Refund.",
                at.approvals,
                describe=lambda item: {"allowed": ("approve", "edit", "reject")},
            )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_rules_decide_and_several_calls_are_decided_apart(kind: str, way: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    calls = [
        refund_call(1, 5, "allowed"),
        refund_call(2, 5000, "denied"),
        refund_call(3, 50, "first"),
        refund_call(4, 60, "second"),
    ]
    async with desk(kind, tmp_path) as at:
        agent = shop(calling(*calls), tool_of(way, paid(effects), at.approvals))
        running = asyncio.create_task(run_with_approvals(agent, "Refund.", at.approvals))
        await at.decide(Approve(), Reject("No."))
        told = dict(line.split(": ", 1) for line in (await running).final_output.split("; "))
        assert "Nobody refunds that much." in told.pop("denied")
        assert told == {"allowed": "paid 5", "first": "paid 50", "second": "No."}
        assert sorted(effects.lines()) == ["1 5", "3 50"]
        assert await at.runs() == ["finished", "finished", "rejected", "rejected"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_decision_after_the_timeout_counts_when_the_state_goes_on(way: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        agent = shop(calling(), tool_of(way, paid(effects), at.approvals))
        ended = await run_with_approvals(agent, "Refund.", at.approvals, timeout=0)
        assert len(ended.interruptions) == 1
        kept = ended.to_state().to_string()
        await at.decide(Approve())
        for _ in range(2):  # going on twice from the same state runs nothing twice
            agent.model = done()
            state = await RunState.from_string(agent, kept)
            assert (await run_with_approvals(agent, state, at.approvals)).final_output == "call_1: paid 50"
        assert (effects.lines(), await at.runs()) == (["7 50"], ["finished"])


@pytest.mark.parametrize("way", WAYS)
async def test_a_saved_state_with_other_arguments_is_refused(way: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        agent = shop(calling(), tool_of(way, paid(effects), at.approvals))
        kept = (await run_with_approvals(agent, "Refund.", at.approvals, timeout=0)).to_state().to_string()
        await at.decide(Approve())
        agent.model = done()
        state = await RunState.from_string(agent, kept.replace('\\"amount\\": 50', '\\"amount\\": 90'))
        with pytest.raises((Conflict, ModelBehaviorError)):  # the SDK sees it itself, from a fingerprint in the state
            await run_with_approvals(agent, state, at.approvals)
        assert effects.lines() == []


async def test_a_run_with_a_name_keeps_calls_of_equal_ids_apart(tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        for name in ("monday", "tuesday"):
            agent = shop(calling(refund_call(1, 5)), refund_tool(paid(effects)))
            assert (await run_with_approvals(agent, "Refund.", at.approvals, key=name)).final_output == "call_1: paid 5"
        assert effects.lines() == ["1 5", "1 5"]


@pytest.mark.parametrize("way", WAYS)
async def test_the_tools_of_an_agent_that_is_a_tool_are_asked_about(way: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        inner = shop(calling(), tool_of(way, paid(effects), at.approvals))
        desk_call = refund_call(id="outer", tool="desk").model_copy(update={"arguments": '{"input": "Refund."}'})
        outer = Agent(
            "front",
            model=ScriptedModel([[desk_call], ModelStep.respond(telling)]),
            tools=[inner.as_tool("desk", "Pay.")],
        )
        running = asyncio.create_task(run_with_approvals(outer, "Refund.", at.approvals))
        await at.decide(Approve())
        assert (await running).final_output == "outer: call_1: paid 50"
        assert (effects.lines(), await at.runs()) == (["7 50"], ["finished"])


async def test_an_error_after_the_tool_has_run_is_no_doubt_about_it(tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        model = ScriptedModel([[refund_call(1, 5)], [refund_call(2, 5, "call_2")]])
        with pytest.raises(MaxTurnsExceeded):
            await run_with_approvals(shop(model, refund_tool(paid(effects))), "Refund.", at.approvals, max_turns=1)
        assert (effects.lines(), await at.runs()) == (["1 5"], ["finished"])


async def test_an_error_that_leaves_no_output_leaves_the_call_in_doubt(tmp_path: Path) -> None:
    clock = FakeClock()

    def body(order: int, amount: int) -> str:
        raise ValueError("no such order")

    async with desk("store", tmp_path, clock=clock) as at:
        agent = shop(calling(refund_call(1, 5)), refund_tool(body, failure_error_function=None))
        with pytest.raises(Exception, match="no such order"):
            await run_with_approvals(agent, "Refund.", at.approvals)
        clock.advance(61)
        assert await at.runs() == ["doubt"]


# -- tools that ask, in the SDK's own runner ---------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_that_asks_needs_no_loop(kind: str, tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk(kind, tmp_path) as at:
        calls = refund_call(1, 50, "call_1"), refund_call(2, 60, "call_2"), refund_call(3, 70, "call_3")
        agent = shop(calling(*calls), ask_first(refund_tool(paid(effects)), at.approvals))
        running = asyncio.create_task(Runner.run(agent, "Refund."))
        await at.decide(Edit({"order": 7, "amount": 20}), Reject("No."), Respond("paid by hand"))
        told = f"call_1: paid 20\n\n[{EDITED}]; call_2: No.; call_3: paid by hand"
        assert (await running).final_output == told
        assert (effects.lines(), await at.runs()) == (["7 20"], ["answered", "finished", "rejected"])


async def test_a_tool_that_asks_streams(tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        agent = shop(calling(), ask_first(refund_tool(paid(effects)), at.approvals))
        streaming = Runner.run_streamed(agent, "Refund.")

        async def seen() -> int:
            return len([event async for event in streaming.stream_events()])

        running = asyncio.create_task(seen())
        await at.decide(Approve())
        assert await running > 0
        assert streaming.final_output == "call_1: paid 50"


async def test_the_error_of_a_body_is_reported_and_told_as_the_tool_tells_it(tmp_path: Path) -> None:
    def body(order: int, amount: int) -> str:
        raise ValueError("no such order")

    async with desk("store", tmp_path) as at:
        tool = ask_first(refund_tool(body, failure_error_function=lambda ctx, error: f"Sorry: {error}"), at.approvals)
        result = await Runner.run(shop(calling(refund_call(1, 5)), tool), "Refund.")
        assert result.final_output == "call_1: Sorry: no such order"
        raising = ask_first(refund_tool(body, failure_error_function=None), at.approvals)
        with pytest.raises(Exception, match="no such order"):
            await Runner.run(shop(calling(refund_call(1, 5)), raising), "Refund.")
        assert await at.runs() == ["failed", "failed"]


async def test_a_body_that_is_cut_off_is_in_doubt(tmp_path: Path) -> None:
    clock, entered = FakeClock(), asyncio.Event()

    @function_tool
    async def refund(order: int, amount: int) -> None:
        """Pay an order back."""
        entered.set()
        await asyncio.Event().wait()

    async with desk("store", tmp_path, clock=clock) as at:
        agent = shop(calling(refund_call(1, 5)), ask_first(refund, at.approvals))
        running = asyncio.create_task(Runner.run(agent, "Refund."))
        await entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        clock.advance(61)
        assert await at.runs() == ["doubt"]


async def test_a_body_that_outlives_its_time_limit_is_in_doubt(tmp_path: Path) -> None:
    clock = FakeClock()

    @function_tool(timeout=1)
    async def refund(order: int, amount: int) -> None:
        """Pay an order back."""
        await asyncio.Event().wait()

    async with desk("store", tmp_path, clock=clock) as at:
        agent = shop(calling(refund_call(1, 5)), ask_first(refund, at.approvals))
        assert "timed out" in (await Runner.run(agent, "Refund.")).final_output
        clock.advance(61)
        assert await at.runs() == ["doubt"]


async def test_a_tool_that_nobody_decides_about_in_time_does_not_run(tmp_path: Path) -> None:
    effects = Effects(tmp_path)
    async with desk("store", tmp_path) as at:
        agent = shop(calling(), ask_first(refund_tool(paid(effects)), at.approvals, timeout=0))
        with pytest.raises(UserError, match="Nobody has decided") as raised:
            await Runner.run(agent, "Refund.")
        assert isinstance(raised.value.__cause__, NotDecided)
        assert (effects.lines(), await at.runs()) == ([], ["waiting"])


async def test_only_function_tools_ask_first(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        with pytest.raises(UsageError, match="function tool"):
            ask_first(print, at.approvals)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="is an agent"):
            ask_first(shop(done()).as_tool("desk", "Pay."), at.approvals)


# -- other processes ---------------------------------------------------------------------------------


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


@pytest.mark.parametrize("way", WAYS)
async def test_a_killed_process_is_followed_by_another_without_a_second_question(way: str, tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        first = await start_program(PROGRAM, tmp_path, way)
        [question] = await at.questions()
        first.kill()
        await first.wait()
        second = await start_program(PROGRAM, tmp_path, way)
        assert await line_of(second) == "going on"
        assert [each.id for each in await at.questions()] == [question.id]
        await at.decide(Approve())
        assert await output_of(second) == "call_1: paid 50"
        assert (Effects(tmp_path).lines(), await at.runs()) == (["7 50"], ["finished"])


@pytest.mark.parametrize("way", WAYS)
async def test_of_two_processes_with_the_same_state_one_runs_the_body(way: str, tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        first = await start_program(PROGRAM, tmp_path, way)
        await at.questions()
        second = await start_program(PROGRAM, tmp_path, way)
        assert (await line_of(first), await line_of(second)) == ("asking", "going on")
        await at.decide(Approve())
        ended = [await output_of(process) for process in (first, second)]
        assert set(ended) <= {"call_1: paid 50", RunBusy.__name__}
        assert "call_1: paid 50" in ended
        assert (Effects(tmp_path).lines(), await at.runs()) == (["7 50"], ["finished"])


@pytest.mark.parametrize("way", WAYS)
async def test_a_process_that_dies_in_the_body_leaves_the_call_in_doubt(way: str, tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        first = await start_program(PROGRAM, tmp_path, way, "dies")
        await at.decide(Approve())
        await first.wait()
        assert Effects(tmp_path).lines() == ["7 50"]
        second = await start_program(PROGRAM, tmp_path, way)
        assert await line_of(second) == "going on"
        assert await output_of(second) == RunBusy.__name__
    later = FakeClock()
    async with SQLiteStore(tmp_path / "runs.db") as store:
        later.now = store.clock() + 120
    async with desk("store", tmp_path, clock=later) as at:
        assert (await at.runs(), Effects(tmp_path).lines()) == (["doubt"], ["7 50"])
