"""Work does not grow with the run. Counted in operations and allocations, never in time."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from assentry.core import facts as f
from assentry.core.codec import replay
from assentry.core.fold import fold
from assentry.core.run import Run, owed, questions, status
from assentry.core.transcript import transcript
from tests.core.support import answered, approved, asked, began, branch, finished, js, play, replied, said, under


def operations(work: Callable[..., Any], *args: Any) -> int:
    """How many lines, each as often as it runs, and calls into C the work takes."""
    count = 0

    def trace(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal count
        count += kind in ("call", "line")
        return trace

    def profile(frame: FrameType, kind: str, _: Any) -> None:
        nonlocal count
        count += kind == "c_call"

    tracing, profiling = sys.gettrace(), sys.getprofile()
    gc.disable()  # what others do when it collects is not this work
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        work(*args)
    finally:
        sys.setprofile(profiling)
        sys.settrace(tracing)
        gc.enable()
    return count


def allocated(work: Callable[..., Any], *args: Any) -> int:
    """How much more memory is in use at the height of the work than before it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work(*args)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def turn(number: int, heard: int = 1) -> list[Any]:
    """A turn with three calls: one runs, one is asked about and edited, one is refused. Ids have the same length."""
    a, b, c = (f"{letter}{number:05}" for letter in "abc")
    q = f"q{number:05}"
    facts: list[Any] = [replied(heard, a, b, c), approved(a), asked(b, q), refused_by_rule(c), f.Told(c, "no")]
    facts += [f.Started(a), finished(a), approved(b, q, args=js({"x": 1})), f.Started(b), finished(b)]
    return facts


def refused_by_rule(id: str) -> f.Refused:
    return f.Refused(id, "rule")


def drive(run: Run, facts: list[Any]) -> None:
    """What a driver does: fold a fact, then look at what is owed."""
    for fact in facts:
        fold(run, fact)
        owed(run)
    status(run)
    list(questions(run))
    transcript(run)


def driven(turns: int) -> Run:
    run = play(began(max_turns=10_000), said())
    for number in range(turns):
        drive(run, turn(number))
    return run


def test_a_turn_takes_the_same_work_at_turn_5_and_at_turn_400() -> None:
    early, late = driven(4), driven(399)
    assert operations(drive, early, turn(4)) == operations(drive, late, turn(399)) > 100


def test_a_turn_of_a_branch_takes_the_same_work_at_turn_5_and_at_turn_400() -> None:
    def nested(turns: int) -> Run:
        run = play(began(), said(), replied(1, "p1:agent"), approved("p1"), branch("p1", max_turns=10_000))
        drive(run, [said(path=("p1",))])
        for number in range(turns):
            drive(run, under(("p1",), turn(number)))
        return run

    early, late = nested(4), nested(399)
    work = [operations(drive, run, under(("p1",), turn(n))) for run, n in ((early, 4), (late, 399))]
    assert work[0] == work[1]


def test_a_turn_with_new_input_takes_the_same_work_at_turn_5_and_at_turn_400() -> None:
    def steered(turns: int) -> Run:
        run = play(began(max_turns=10_000), said())
        for number in range(turns):
            drive(run, [*turn(number, number + 1), said("more")])
        return run

    early, late = steered(4), steered(399)
    work = [operations(drive, run, [*turn(n, n + 1), said("x")]) for run, n in ((early, 4), (late, 399))]
    assert work[0] == work[1]


def test_a_turn_copies_no_more_at_turn_400_than_at_turn_5() -> None:
    """Now and then a list or a dict grows; a copy of what is there would be made at every turn."""

    def least(run: Run, start: int) -> int:
        return min(allocated(drive, run, turn(number)) for number in range(start, start + 8))

    early, late = driven(4), driven(399)
    least(driven(4), 4)  # what is made once in a process is made now
    assert least(late, 399) <= least(early, 4) + 1024


def test_a_replay_takes_work_in_proportion_to_the_journal() -> None:
    def journal(turns: int) -> list[Any]:
        return [began(max_turns=10_000), said(), *(fact for number in range(turns) for fact in turn(number))]

    one, two, three = (operations(replay, journal(turns)) for turns in (50, 100, 150))
    assert three - two == two - one


def test_what_is_owed_in_a_turn_takes_work_in_proportion_to_its_calls() -> None:
    def wide(calls: int) -> Run:
        return play(began(), said(), replied(1, *(f"c{n:03}" for n in range(calls))))

    ten, twenty, thirty = (operations(owed, run) for run in map(wide, (10, 20, 30)))
    assert thirty - twenty == twenty - ten


@pytest.mark.parametrize("read", [owed, status], ids=lambda read: read.__name__)
def test_what_is_owed_takes_work_in_proportion_to_the_depth(read: Callable[[Run], Any]) -> None:
    def deep(levels: int) -> Run:
        run, path = play(began(), said()), ()
        for level in range(levels):
            id = f"p{level}"
            for fact in under(path, [replied(1, f"{id}:agent"), approved(id), branch(id), said(path=(id,))]):
                fold(run, fact)
            path = (*path, id)
        return run

    two, four, six = (operations(read, run) for run in map(deep, (2, 4, 6)))
    assert six - four == pytest.approx(four - two, rel=0.1)


def test_an_asking_body_takes_the_same_work_at_its_hundredth_question() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"))

    def ask(number: int) -> list[Any]:
        id = f"q{number:05}"
        step = f.Stepped("c1", "s", js(1))
        return [f.Started("c1", number), step, asked("c1", id, "input"), answered("c1", id)]

    work = [operations(drive, run, ask(number)) for number in range(1, 101)]
    assert work[4] == work[99]
