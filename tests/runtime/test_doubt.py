"""Calls whose end nobody saw: the probe, another attempt, or a person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from assentry import (
    Agent,
    CannotTell,
    Happened,
    NotHappened,
    RunConfig,
    Runner,
    RunState,
    ToolContext,
    function_tool,
)
from assentry.core import facts as f
from assentry.errors import InvalidDefinition, UsageError
from assentry.runtime.steps import recovery as doubt
from assentry.testing import call
from tests.runtime.support import facts, outcomes, reloaded, scripted, stopped, told


class Payments:
    """A tool whose first attempts are broken off in the middle."""

    def __init__(self, broken: int = 1, **options: Any) -> None:
        self.keys: list[str] = []
        self.inside = asyncio.Event()

        @function_tool(**options)
        async def pay(ctx: ToolContext[Any], amount: int, to: str = "ann") -> str:
            """Pay."""
            self.keys.append(ctx.idempotency_key)
            if len(self.keys) <= broken:
                self.inside.set()
                await asyncio.Event().wait()
            return f"paid {amount}"

        self.tool = pay
        self.agent: Agent[Any] = scripted(call("pay", {"amount": 5}), "done", tools=[pay])

    async def broken_off(self, given: Any = "go") -> RunState[Any]:
        """The state after a run was broken off in the middle of the body."""
        self.inside.clear()
        return await reloaded(self.agent, await stopped(Runner.run(self.agent, given), self.inside))


async def settled(found: Any, **options: Any) -> tuple[Payments, Any]:
    """A call in doubt after the run is resumed, with a probe that gives, or does, this."""
    payments = Payments(probe=found if callable(found) else lambda ctx, args: found, **options)
    return payments, await Runner.run(payments.agent, await payments.broken_off())


async def test_what_the_probe_says_happened_is_the_outcome_and_nothing_runs_again() -> None:
    payments, result = await settled(Happened({"id": 7}))
    assert (result.final_output, len(payments.keys)) == ("done", 1)
    assert outcomes(result)[0].by == "probe"
    assert told(result) == ['{"id":7}']


async def test_what_the_probe_says_did_not_happen_runs_with_the_same_key() -> None:
    payments, result = await settled(NotHappened())
    assert (result.final_output, told(result)) == ("done", ["paid 5"])
    assert len(payments.keys) == 2
    assert len(set(payments.keys)) == 1
    [left] = facts(result.to_state(), "left")
    assert (left["attempt"], left["by"]) == (1, "probe")


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_probe_gets_the_context_and_the_canonical_arguments(is_async: bool) -> None:
    seen: list[Any] = []

    def look(ctx: ToolContext[Any], args: dict[str, Any]) -> Any:
        seen.append((ctx.tool_name, ctx.idempotency_key, args, ctx.arguments))
        return Happened("found")

    async def look_slowly(ctx: ToolContext[Any], args: dict[str, Any]) -> Any:
        return look(ctx, args)

    payments, result = await settled(look_slowly if is_async else look)
    assert told(result) == ["found"]
    assert seen == [("pay", payments.keys[0], {"amount": 5, "to": "ann"}, '{"amount":5,"to":"ann"}')]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_probe_gets_the_steps_that_the_body_recorded_in_their_order(is_async: bool) -> None:
    inside, seen = asyncio.Event(), list[Any]()

    async def look(ctx: ToolContext[Any], args: dict[str, Any]) -> Any:
        seen.extend([await ctx.step("order", dict), await ctx.step("order", dict), await ctx.step("other", dict)])
        with pytest.raises(UsageError, match="can neither ask nor step"):
            await ctx.step("order", lambda: seen.append("taken"))
        return Happened("found")

    def look_in_thread(ctx: ToolContext[Any], args: dict[str, Any]) -> Any:
        seen.extend([ctx.step_sync("order", dict), ctx.step_sync("order", dict), ctx.step_sync("other", dict)])
        with pytest.raises(UsageError, match="can neither ask nor step"):
            ctx.step_sync("order", lambda: seen.append("taken"))
        return Happened("found")

    @function_tool(probe=look if is_async else look_in_thread)
    async def pay(ctx: ToolContext[Any]) -> str:
        """Pay."""
        for name, number in (("order", 1), ("order", 2), ("other", 3)):
            await ctx.step(name, lambda number=number: number)
        inside.set()
        await asyncio.Event().wait()
        return "paid"

    agent = scripted(call("pay", {}), "done", tools=[pay])
    state = await reloaded(agent, await stopped(Runner.run(agent, "go"), inside))
    assert told(await Runner.run(agent, state)) == ["found"]
    assert seen == [1, 2, 3]


async def ask_in_probe(ctx: Any, args: Any) -> Any:
    return await ctx.ask("?")


def step_in_probe(ctx: Any, args: Any) -> Any:
    return ctx.step_sync("look", lambda: Happened("x"))


def fails(ctx: Any, args: Any) -> Any:
    raise ValueError("no connection")


async def is_cancelled(ctx: Any, args: Any) -> Any:
    raise asyncio.CancelledError


async def runs_out_of_its_own_time(ctx: Any, args: Any) -> Any:
    raise TimeoutError("of the bank")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "cannot tell"),
        (CannotTell("The bank's line was busy."), "is not known. The bank's line was busy. Respond"),
        (CannotTell("x" * 9000), f"is not known. {'x' * 2000}... (9000 characters) Respond"),
        (CannotTell("a\udc80b"), "is not known. a\ufffdb Respond"),
        (CannotTell(None), "gave CannotTell(seen=None), which is neither"),  # type: ignore[arg-type]
        (True, "gave True, which is neither"),
        ("paid", "gave 'paid', which is neither"),
        (Happened, "failed with TypeError"),
        (fails, "failed with ValueError: no connection"),
        (is_cancelled, "failed with CancelledError"),
        (runs_out_of_its_own_time, "failed with TimeoutError: of the bank"),
        (ask_in_probe, "can neither ask nor step"),
        (step_in_probe, "can neither ask nor step"),
    ],
)
async def test_whatever_else_a_probe_does_a_person_is_asked_and_told(found: Any, words: str) -> None:
    payments, result = await settled(found)
    [item] = result.interruptions
    assert item.kind == "doubt"
    assert words in item.reason
    assert "attempt 1" in item.reason
    assert len(payments.keys) == 1


async def test_a_probe_that_takes_too_long_has_found_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubt, "PROBE_TIMEOUT", 0.001)

    async def never(ctx: Any, args: Any) -> Any:
        await asyncio.Event().wait()

    payments, result = await settled(never)
    assert "took longer than 0.001 seconds" in result.interruptions[0].reason
    assert len(payments.keys) == 1


async def test_a_probe_that_is_broken_off_with_the_run_leaves_the_call_in_doubt() -> None:
    looking = asyncio.Event()

    async def never(ctx: Any, args: Any) -> Any:
        looking.set()
        await asyncio.Event().wait()

    payments = Payments(probe=never)
    state = await payments.broken_off()
    state = await stopped(Runner.run(payments.agent, state), looking)
    assert (state.status, facts(state, "asked"), facts(state, "left")) == ("working", [], [])


async def test_an_idempotent_tool_runs_again_with_the_same_key() -> None:
    payments = Payments(idempotent=True)
    result = await Runner.run(payments.agent, await payments.broken_off())
    assert result.final_output == "done"
    assert len(payments.keys) == 2
    assert len(set(payments.keys)) == 1
    assert facts(result.to_state(), "left")[0]["by"] == "idempotent"


@pytest.mark.parametrize("options", [{"idempotent": True}, {"probe": lambda ctx, args: NotHappened()}])
async def test_what_never_comes_to_an_end_is_put_to_a_person(options: Any) -> None:
    payments = Payments(broken=10, **options)
    state = await payments.broken_off()
    for _ in range(2):
        state = await payments.broken_off(state)
    result = await Runner.run(payments.agent, state)
    [item] = result.interruptions
    assert len(payments.keys) == 3
    assert "It was tried 3 times" in item.reason
    state = result.to_state()
    state.approve(item)
    state = await payments.broken_off(await reloaded(payments.agent, state))
    state = await payments.broken_off(state)
    assert len(payments.keys) == 5, "whoever says to run it again gives it as many attempts"


async def test_a_probe_that_knows_the_end_is_heard_however_often_it_was_tried() -> None:
    found: list[Any] = [NotHappened(), NotHappened(), Happened("at last")]
    payments = Payments(broken=10, probe=lambda ctx, args: found.pop(0))
    state = await payments.broken_off()
    for _ in range(2):
        state = await payments.broken_off(state)
    assert told(await Runner.run(payments.agent, state)) == ["at last"]


@pytest.mark.parametrize("options", [{"idempotent": True}, {"probe": lambda ctx, args: Happened("x")}])
async def test_nobody_but_a_person_settles_a_call_of_a_tool_that_has_changed(options: Any) -> None:
    payments, changed = Payments(**options), Payments(version="2", **options)
    state = await stopped(Runner.run(payments.agent, "go"), payments.inside)
    with pytest.warns(UserWarning, match="has changed"):
        state = await reloaded(changed.agent, state)
    result = await Runner.run(changed.agent, state)
    [item] = result.interruptions
    assert item.kind == "doubt"
    assert "has changed since" in item.reason
    assert changed.keys == []


async def test_late_results_are_shown_to_whoever_is_asked() -> None:
    payments = Payments()
    state = await payments.broken_off()
    state._journal.add(f.Witnessed(next(iter(state._journal.run.open)), 1, Raw(b'"paid 5"')))
    result = await Runner.run(payments.agent, state)
    [item] = result.interruptions
    assert 'Attempt 1 gave this, too late to count: "paid 5"' in item.reason
    assert [(late.attempt, late.output) for late in item.evidence] == [(1, "paid 5")]


async def test_calls_in_doubt_are_settled_each_by_its_own_tool() -> None:
    two = Payments(idempotent=True)
    both = asyncio.Event()

    @function_tool(probe=lambda ctx, args: Happened("known"))
    async def wire(amount: int) -> str:
        """Wire."""
        await two.inside.wait()
        both.set()
        await asyncio.Event().wait()
        return "never"

    agent = scripted([call("wire", {"amount": 1}), call("pay", {"amount": 2})], "done", tools=[wire, two.tool])
    state = await reloaded(agent, await stopped(Runner.run(agent, "go"), both))
    result = await Runner.run(agent, state)
    assert told(result) == ["known", "paid 2"]


@pytest.mark.parametrize("options", [{"idempotent": 1}, {"idempotent": None}, {"probe": "look"}])
def test_options_that_make_no_sense_are_refused(options: Any) -> None:
    with pytest.raises(InvalidDefinition):
        Payments(**options)


async def given_up(payments: Payments, state: RunState[Any]) -> list[str]:
    """What the model is told when a person gives a call in doubt up without a word."""
    state.reject(state.get_interruptions()[0])
    return told(await Runner.run(payments.agent, await reloaded(payments.agent, state)))


async def test_a_call_in_doubt_that_is_given_up_is_not_said_to_have_not_run() -> None:
    payments = Payments()
    state = (await Runner.run(payments.agent, await payments.broken_off())).to_state()
    assert await given_up(payments, state) == ["The call was given up. It had begun, and may have run."]
    assert len(payments.keys) == 1


async def test_a_formatter_is_told_what_is_known_of_a_call_that_is_given_up() -> None:
    payments = Payments()
    state = (await Runner.run(payments.agent, await payments.broken_off())).to_state()
    state.reject(state.get_interruptions()[0])
    config = RunConfig(tool_error_formatter=lambda args: f"{args.kind}: {args.default_message}")
    result = await Runner.run(payments.agent, state, run_config=config)
    assert told(result) == ["approval_rejected: The call was given up. It had begun, and may have run."]


async def test_a_call_that_ended_too_late_and_is_given_up_is_said_to_have_ended() -> None:
    payments = Payments()
    journal = (await Runner.run(payments.agent, await payments.broken_off())).to_state().to_json()
    journal["journal"].append({"fact": "witnessed", "call": "c1", "attempt": 1, "output": "paid"})
    state = await RunState.from_json(payments.agent, journal)
    [words] = await given_up(payments, state)
    assert words == "The call was given up. It had begun, and came to its end too late for its result to count."
