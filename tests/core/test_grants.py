"""Grants with terms: as often as they say, until they say, and not once they are taken back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from assentry.core import facts as f
from assentry.core.fold import fold
from assentry.core.run import Run
from tests.core.support import asked, began, branch, js, legal, play, replied, said


def granting(*more: Any, **terms: Any) -> Run:
    grant = f.Granted("g1", "root", "send", terms.pop("verdict", "approve"), "ana", at=5, **terms)
    return play(began(), said(), replied(1, "c1", "c2", "c3"), grant, *more)


def by_grant(call: str, at: int = 6, id: str = "g1", **more: Any) -> f.Approved:
    return f.Approved(call, f"grant:{id}", at=at, **more)


def refused_by_grant(call: str, at: int = 6) -> f.Refused:
    return f.Refused(call, "grant:g1", at=at)


@pytest.mark.parametrize("make", [by_grant, refused_by_grant])
def test_a_grant_decides_as_many_calls_as_it_says(make: Any) -> None:
    run = granting(max_uses=2)
    for call in ("c1", "c2"):
        assert legal(run, make(call))
        fold(run, make(call))
    assert run.uses == {"g1": 2}
    assert not legal(run, make("c3"))
    assert legal(run, replace(make("c3"), by="rule"))


@pytest.mark.parametrize("make", [by_grant, refused_by_grant])
def test_a_grant_decides_until_its_time_is_up(make: Any) -> None:
    run = granting(until=100)
    assert legal(run, make("c1", at=100))
    assert not legal(run, make("c1", at=101))


@pytest.mark.parametrize("make", [by_grant, refused_by_grant])
def test_a_grant_that_was_taken_back_decides_nothing(make: Any) -> None:
    assert not legal(granting(f.Revoked("g1", "ana")), make("c1"))


def test_a_grant_without_terms_is_counted_and_has_no_end() -> None:
    run = granting()
    for call in ("c1", "c2", "c3"):
        fold(run, by_grant(call, at=10**12))
    assert run.uses == {"g1": 3}


def test_a_grant_that_nobody_gave_is_as_it_always_was() -> None:
    assert legal(granting(), by_grant("c1", id="g9"))


def test_a_person_who_bears_the_name_of_a_grant_uses_none() -> None:
    run = granting(asked("c1", "q1"), max_uses=1)
    fold(run, f.Approved("c1", "grant:g1", "q1"))
    assert run.uses == {}
    assert legal(run, by_grant("c2"))


def test_what_branches_use_counts_in_the_run_itself() -> None:
    grant = f.Granted("g1", "root", "send", "approve", "ana", max_uses=1)
    path = ("p1",)
    opening = [began(), said(), replied(1, "p1:agent"), grant, f.Approved("p1", "rule"), branch("p1")]
    run = play(*opening, said(path=path), replied(1, "c1", "c2", path=path), by_grant("c1", path=path))
    assert (run.uses, run.at(path).uses) == ({"g1": 1}, {})
    assert not legal(run, by_grant("c2", path=path))


def test_a_fork_counts_for_itself() -> None:
    run = granting(max_uses=1)
    fork = run.fork()
    fold(fork, by_grant("c1"))
    fold(fork, f.Revoked("g1", "ana"))
    assert (run.uses, run.revoked) == ({}, {})
    assert legal(run, by_grant("c1"))


def test_an_id_that_is_given_again_is_another_grant() -> None:
    run = granting(by_grant("c1"), f.Revoked("g1", "ana"), max_uses=1)
    fold(run, f.Granted("g1", "root", "send", "approve", "ana", max_uses=1))
    assert legal(run, by_grant("c2"))
    fold(run, by_grant("c2"))
    assert not legal(run, by_grant("c3"))


def test_an_attempt_that_came_to_nothing_is_followed_by_the_next() -> None:
    run = granting(f.Approved("c1", "rule"), f.Started("c1"), f.Stepped("c1", "pay", js(1)), f.Left("c1", 1))
    state = run.calls["c1"]
    assert (state.attempt, state.retries, len(state.steps)) == (1, 1, 1)
    assert not legal(run, f.Started("c1", 1))
    assert legal(run, f.Started("c1", 2))


@pytest.mark.parametrize("closed", [False, True])
def test_evidence_is_kept_with_what_is_open_and_leaves_forks_alone(closed: bool) -> None:
    run = granting(f.Approved("c1", "rule"), f.Started("c1"), asked("c1", "q1", "doubt"))
    if closed:
        fold(run, f.Closed("over"))
    fork = run.fork()
    late = f.Witnessed("c1", 1, js("sent"))
    fold(fork, late)
    assert fork.calls["c1"].witnessed == (() if closed else (late,))
    assert run.calls["c1"].witnessed == ()
