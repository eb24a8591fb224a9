"""Deadlines: how long a question waits, and what silence comes to. It never approves."""

from __future__ import annotations

from typing import Any

import pytest

from assentry import Deadline, RunConfig, Runner, ToolApprovalItem, function_tool
from assentry.core.run import deadline, overdue
from assentry.errors import InvalidDefinition, NotPending
from assentry.testing import FakeClock, call
from tests.runtime.support import refused, reloaded, scripted, sending

NOW = 1_800_000_000_000


async def question(tool: Any = None, **options: Any) -> tuple[ToolApprovalItem, Any, FakeClock, Any]:
    clock = FakeClock()
    send = tool or sending(needs_approval=True)[0]
    agent = scripted(call("send", {"to": "a"}), "done", tools=[send])
    result = await Runner.run(agent, "go", run_config=RunConfig(clock=clock, **options))
    [item] = result.interruptions
    return item, result.to_state(), clock, agent


@pytest.mark.parametrize("limit", [60, 60.0, Deadline(60), Deadline(60.0, "reject")])
@pytest.mark.parametrize("whose", ["tool", "run"])
async def test_a_deadline_says_when_a_question_is_rejected(limit: Any, whose: str) -> None:
    send = sending(needs_approval=True, deadline=limit if whose == "tool" else None)[0]
    item, _, _, _ = await question(send, **({"deadline": limit} if whose == "run" else {}))
    assert (item.until, item.due) == (NOW + 60_000, None)


async def test_a_question_may_be_overdue_and_go_on_waiting() -> None:
    item, state, clock, agent = await question(deadline=Deadline(60, silence="wait"))
    assert (item.until, item.due) == (None, NOW + 60_000)
    clock.advance(3600)
    assert overdue(state._journal.run, state._journal.now()) == []
    state.approve(item)
    assert (await Runner.run(agent, state)).final_output == "done"


async def test_the_tools_own_deadline_goes_first() -> None:
    send = sending(needs_approval=True, deadline=Deadline(5, "wait"))[0]
    item, _, _, _ = await question(send, deadline=60)
    assert (item.until, item.due) == (None, NOW + 5000)


async def test_without_a_deadline_a_question_waits_for_as_long_as_it_takes() -> None:
    item, _, _, _ = await question()
    assert (item.until, item.due) == (None, None)


async def test_after_the_deadline_nobody_can_approve_and_silence_is_a_rejection() -> None:
    item, state, clock, _ = await question(deadline=60)
    run = state._journal.run
    assert deadline(run) == 60_000
    clock.advance(60)
    assert overdue(run, state._journal.now()) == []
    clock.advance(0.001)
    refused(lambda: state.approve(item), NotPending, state)
    [fact] = overdue(run, state._journal.now())
    assert (fact.by, fact.asked) == ("deadline", item.id)


async def test_a_deadline_is_not_part_of_what_is_asked_about() -> None:
    @function_tool(needs_approval=True)
    def send(to: str) -> str:
        """Send."""
        return to

    plain = send
    limited = function_tool(needs_approval=True, deadline=5, idempotent=True, probe=lambda ctx, args: None)(
        send.function
    )
    assert plain.fingerprint == limited.fingerprint


async def test_a_new_question_about_a_tool_that_changed_waits_no_longer_than_the_old() -> None:
    item, state, clock, _ = await question(deadline=60)
    clock.advance(30)
    changed = sending(needs_approval=True, version="2", deadline=600)[0]
    agent = scripted(tools=[changed])
    with pytest.warns(UserWarning, match="has changed"):
        loaded = await reloaded(agent, state, on_change="ask")
    [again] = loaded.get_interruptions()
    assert again.id != item.id
    assert again.until == item.until


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "60", None, True])
def test_a_deadline_is_a_number_of_seconds_above_zero(seconds: Any) -> None:
    with pytest.raises(InvalidDefinition):
        Deadline(seconds)


@pytest.mark.parametrize("silence", ["approve", "", None, "Reject"])
def test_silence_never_approves(silence: Any) -> None:
    with pytest.raises(InvalidDefinition, match="reject"):
        Deadline(1, silence)


@pytest.mark.parametrize("given", [0, "60", True, {"seconds": 1}])
def test_what_is_no_deadline_is_refused_where_it_is_given(given: Any) -> None:
    with pytest.raises(InvalidDefinition):
        RunConfig(deadline=given)
    with pytest.raises(InvalidDefinition):
        sending(deadline=given)
