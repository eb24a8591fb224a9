"""The lease of a drive: every step in every state, and nothing that is not a row of the table."""

from __future__ import annotations

from typing import get_args

import pytest

from assentry.errors import LeaseLost
from assentry.runtime.lease import FREE, HELD, LOST, REFUSED, RELEASED, RELEASING, ROWS, LeaseState, RunLease, Step
from assentry.store import Lease

STEPS: tuple[Step, ...] = get_args(Step)
LEGAL = {(row.state, row.step): row.next for row in ROWS}


def lease_in(state: LeaseState) -> RunLease:
    """A lease that has come to a state by the table's own steps."""
    lease = RunLease("r1", "w1", 30.0, None, 3)
    ways: dict[LeaseState, list[Step]] = {
        FREE: [],
        HELD: ["acquire"],
        RELEASING: ["acquire", "release"],
        RELEASED: ["acquire", "release", "released"],
        REFUSED: ["refuse"],
        LOST: ["acquire", "lose"],
    }
    for step in ways[state]:
        lease.acquire(Lease("r1", "w1", 4)) if step == "acquire" else lease.step(step)
    assert lease.state is state
    return lease


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.state.name} {row.step}" for row in ROWS])
def test_each_row_of_the_table_is_taken_and_has_its_reason(row: tuple[LeaseState, Step, LeaseState, str]) -> None:
    state, step, after, why = row
    lease = lease_in(state)
    assert lease.may(step) and why
    lease.step(step)
    assert lease.state is after


@pytest.mark.parametrize("state", list(LeaseState))
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_is_no_row_is_refused_and_changes_nothing(state: LeaseState, step: Step) -> None:
    lease = lease_in(state)
    if (state, step) in LEGAL:
        assert lease.may(step)
        return
    with pytest.raises(LeaseLost, match=f"its lease {state.value}"):
        lease.step(step)
    with pytest.raises(LeaseLost):
        lease.check(step)
    assert lease.state is state and not lease.may(step)


def test_no_state_and_step_has_two_rows() -> None:
    assert len(LEGAL) == len(ROWS)


def test_a_drive_begins_and_writes_only_with_a_lease_that_it_has_or_can_have() -> None:
    for step in ("begin", "write"):
        assert {state for state in LeaseState if (state, step) in LEGAL} == {FREE, HELD}
    assert {state for state in LeaseState if lease_in(state).active} == {FREE, HELD}


def test_what_is_lost_or_refused_stays_so() -> None:
    for state in (LOST, REFUSED):
        assert not any((state, step) in LEGAL for step in STEPS)
        lease = lease_in(state)
        lease.lose()
        assert lease.state is state


def test_only_a_write_that_is_known_to_be_stored_releases_the_lease() -> None:
    assert [(row.state, row.step) for row in ROWS if row.next is RELEASED] == [(RELEASING, "released")]
    lease = lease_in(RELEASING)
    lease.give_up_release()
    assert lease.state is HELD and lease.offered() == Lease("r1", "w1", 4)
    lease.step("release")
    lease.released()
    assert (lease.state, lease.held, lease.next_fence) == (RELEASED, None, 5)


def test_a_last_write_that_failed_before_the_lease_was_acquired_leaves_it_free() -> None:
    lease = lease_in(FREE)
    lease.step("release")
    assert lease.offered() == Lease("r1", "w1", 4) and not lease.acquired
    lease.give_up_release()
    assert lease.state is FREE
    lease.give_up_release()
    assert lease.state is FREE, "there is nothing to give up"


def test_a_lease_that_was_given_is_held_and_its_fence_is_the_newest() -> None:
    lease = RunLease("r1", "w1", 30.0, Lease("r1", "w1", 9), 3)
    assert (lease.state, lease.fence, lease.next_fence, lease.kept) == (HELD, 9, 9, True)
    lease.lose()
    assert (lease.state, lease.kept, lease.acquired) == (LOST, False, True)
    assert lease.offered().fence == 9, "a store refuses it; the next one might be somebody's"
