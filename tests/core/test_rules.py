"""Every fact in every phase: the table's row holds, and everything else is refused and changes nothing.

A stage is a journal that brings one call, `c1`, into a phase on one of the ways there. Every stage is tried in the run
itself and in a branch. The facts tried are such that only the table, the kind of call and the kind of question can be
against them; below, each is spoilt in every way that it can fail to match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from assentry.core import facts as f
from assentry.core.fold import fold
from assentry.core.rules import ANSWERS, NEXT, ROWS, Phase
from assentry.core.run import Run
from tests.core.support import (
    FACTS,
    KINDS,
    Path,
    answered,
    approved,
    asked,
    began,
    branch,
    call,
    finished,
    js,
    legal,
    phase_of,
    play,
    proposed,
    refused,
    replied,
    said,
    under,
)

TOLD = f.Told("c1", "no")
START = f.Started("c1", 1)


class Stage(NamedTuple):
    """A call of this kind, in this phase, and how it came there."""

    kind: f.CallKind
    phase: str
    way: str
    steps: tuple[Any, ...]
    question: f.Asked | None = None
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.kind}-{self.phase}-{self.way}"

    def journal(self) -> list[Any]:
        """The run's own journal up to here."""
        if self.kind == "output":
            opening = [began(), said(), replied(1), proposed("c1", "output", {"total": 1})]
        elif self.kind == "hook":
            opening = [began(), said(), proposed("c1", "hook", {"step": 1})]
        else:
            opening = [began(), said(), replied(1, f"c1:{self.kind}")]
        return [*opening, *self.steps]


def stages() -> list[Stage]:
    out: list[Stage] = []
    approval, doubt, body = asked("c1", "q1"), asked("c1", "q2", "doubt"), asked("c1", "q2", "input")
    for kind in KINDS:
        out += [
            Stage(kind, "NEW", "proposed", ()),
            Stage(kind, "ASKED", "approval", (approval,), approval),
            Stage(kind, "ASKED", "again", (approval, asked("c1", "q9", replaces="q1")), asked("c1", "q9")),
            Stage(kind, "READY", "by_rule", (approved("c1"),)),
            Stage(kind, "READY", "by_person", (approval, approved("c1", "q1", args=js({})))),
            Stage(kind, "ASKED", "void", (approved("c1"), approval), approval),
            Stage(kind, "REFUSED", "by_rule", (refused("c1"),)),
            Stage(kind, "REFUSED", "by_person", (approval, refused("c1", "q1"))),
            Stage(kind, "REFUSED", "stopped", (approved("c1"), refused("c1"))),
            Stage(kind, "DONE", "told", (refused("c1"), TOLD)),
        ]
        if kind != "output":
            out.append(Stage(kind, "DONE", "responded", (approval, finished("c1", asked="q1"))))
        if kind not in ("agent", "output"):
            running = (approved("c1"), START)
            out += [
                Stage(kind, "RUNNING", "started", running, None, 1),
                Stage(kind, "RUNNING", "again", (*running, f.Started("c1", 2)), None, 2),
                Stage(kind, "ASKED", "doubt", (*running, doubt), doubt, 1),
                Stage(kind, "ASKED", "input", (*running, body), body, 1),
                Stage(kind, "READY", "doubt_run_it", (*running, doubt, approved("c1", "q2")), None, 1),
                Stage(kind, "READY", "left", (*running, f.Left("c1", 1)), None, 1),
                Stage(kind, "READY", "answered", (*running, body, answered("c1", "q2")), None, 1),
                Stage(kind, "REFUSED", "doubt_give_up", (*running, doubt, refused("c1", "q2")), None, 1),
                Stage(kind, "REFUSED", "unanswered", (*running, body, refused("c1", "q2")), None, 1),
                Stage(kind, "DONE", "finished", (*running, finished("c1")), None, 1),
                Stage(kind, "DONE", "doubt_known", (*running, doubt, finished("c1", asked="q2")), None, 1),
            ]
    out += [
        Stage("agent", "DELEGATED", "ended", (approved("c1"), branch("c1"), f.Closed("over", path=("c1",)))),
        Stage("agent", "DONE", "returned", (approved("c1"), branch("c1"), f.Closed("x", path=("c1",)), finished("c1"))),
        Stage("output", "DONE", "concluded", (approved("c1"), f.Concluded(call="c1"))),
        Stage("handoff", "DONE", "handed_off", (approved("c1"), START, f.HandedOff("c1", "other")), None, 1),
    ]
    return out


STAGES = stages()
PATHS: list[Path] = [(), ("p1", "p2")]
every_stage = pytest.mark.parametrize("stage", STAGES, ids=str)
everywhere = pytest.mark.parametrize("path", PATHS, ids=lambda path: "/".join(path) or "root")


def at_stage(stage: Stage, path: Path) -> Run:
    """A run with the stage at this path: in itself, or in a branch of a branch."""
    run = play(began()) if path else Run()
    for depth in range(len(path)):
        above, here = path[:depth], path[: depth + 1]
        opening = [said(), replied(1, f"{here[-1]}:agent"), approved(here[-1])]
        for fact in under(above, opening):
            fold(run, fact)
        if here != path:
            fold(run, branch(*here))
    for fact in under(path, stage.journal()):
        fold(run, fact)
    assert phase_of(run, "c1", path) == stage.phase
    return run


def fitting(kind: type[f.Fact], stage: Stage) -> Any:
    """A fact of this type about `c1` that matches the open question and the attempt now due."""
    open = stage.question.id if stage.question else None
    question_kind = stage.question.kind if stage.question else "doubt" if stage.phase == "RUNNING" else "approval"
    makers: dict[type[f.Fact], Callable[[], Any]] = {
        f.Began: lambda: branch("c1"),
        f.Concluded: lambda: f.Concluded(call="c1"),
        f.Guarded: lambda: f.Guarded("tool_input", "g", call="c1"),
        f.Asked: lambda: asked("c1", "q_new", question_kind, replaces=open),
        f.Approved: lambda: approved("c1", open),
        f.Refused: lambda: refused("c1", open),
        f.Told: lambda: TOLD,
        f.Answered: lambda: answered("c1", open or ""),
        f.Redefined: lambda: f.Redefined("c1", "fp", "ana"),
        f.Started: lambda: f.Started("c1", stage.attempt + 1),
        f.Left: lambda: f.Left("c1", stage.attempt),
        f.Stepped: lambda: f.Stepped("c1", "s", js(1)),
        f.Finished: lambda: finished("c1", asked=open),
        f.Witnessed: lambda: f.Witnessed("c1", stage.attempt, js("late")),
        f.HandedOff: lambda: f.HandedOff("c1", "other"),
        f.Said: said,
        f.Awaited: lambda: f.Awaited(("g1",)),
        f.Defined: lambda: f.Defined("root"),
        f.Replied: lambda: replied(1, "c2"),
        f.Proposed: lambda: proposed("h1", "hook"),
        f.Continued: f.Continued,
        f.Granted: lambda: f.Granted("g1", "root", "send", "approve", "ana"),
        f.Revoked: lambda: f.Revoked("g1", "ana"),
        f.Limited: lambda: f.Limited(5),
        f.Cancelled: lambda: f.Cancelled("ana"),
        f.Resumed: lambda: f.Resumed("ana"),
        f.Switched: lambda: f.Switched(True),
        f.Saved: lambda: f.Saved(1),
        f.Closed: lambda: f.Closed("over"),
    }
    return makers[kind]()


CALL_FACTS = [kind for kind in FACTS if kind in NEXT]
RUN_FACTS = [kind for kind in FACTS if kind not in NEXT]


def follows(stage: Stage, kind: type[f.Fact]) -> str | None:
    """The phase after this fact: the table's, for the kinds of call and question that it is meant for."""
    next = NEXT[kind].get(Phase[stage.phase])
    question = stage.question.kind if stage.question else None
    meant = {
        f.Began: stage.kind == "agent",
        f.Concluded: stage.kind == "output",
        f.HandedOff: stage.kind == "handoff",
        f.Started: stage.kind not in ("agent", "output"),
        f.Answered: question == "input",
        f.Approved: question != "input",
        f.Finished: question != "input" and not (stage.kind == "output" and question),
        f.Witnessed: stage.attempt > 0,
    }
    return next.name if next is not None and meant.get(kind, True) else None


@every_stage
@everywhere
def test_the_rows_hold_and_no_other_fact_about_a_call_does(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    for kind in CALL_FACTS:
        [fact] = under(path, [fitting(kind, stage)])
        expected = follows(stage, kind)
        assert legal(run, fact) == (expected is not None), fact
        if expected is not None:
            after = run.fork()
            fold(after, fact)
            assert phase_of(after, "c1", path) == expected, fact


def test_every_row_is_taken_by_some_stage() -> None:
    taken = {(s.phase, kind) for s in STAGES for kind in CALL_FACTS if follows(s, kind)}
    assert taken == {(row.phase.name, row.fact) for row in ROWS}


def test_every_phase_of_every_kind_of_call_has_a_stage() -> None:
    bodied = {phase.name for phase in Phase} - {"DELEGATED"}
    without = {"agent": {"RUNNING"}, "output": {"RUNNING"}}
    for kind in KINDS:
        extra = {"DELEGATED"} if kind == "agent" else set()
        assert {s.phase for s in STAGES if s.kind == kind} == (bodied | extra) - without.get(kind, set())


def test_no_row_is_written_twice_and_each_has_its_reason() -> None:
    assert len({(row.phase, row.fact) for row in ROWS}) == len(ROWS)
    assert all(row.why for row in ROWS)
    assert len({row.why for row in ROWS if row.fact is not f.Redefined}) == len(
        [row for row in ROWS if row.fact is not f.Redefined]
    )


# -- facts of a run, whatever phase its call is in --------------------------------------------------


def welcome(stage: Stage, path: Path, kind: type[f.Fact]) -> bool:
    """Whether a fact that is not about a call may follow while `c1` is where it is."""
    if kind in (f.Said, f.Defined, f.Proposed, f.Limited, f.Saved, f.Closed):
        return True
    if kind in (f.Granted, f.Cancelled):
        return not path
    if kind is f.Switched:  # a final output that waits has no place in a live run
        return not path and not (stage.kind == "output" and stage.phase != "DONE")
    if kind is f.Replied:  # the turn must have all its outcomes, and not be over
        return stage.phase == "DONE" and stage.way != "concluded"
    if kind is f.Awaited:  # there must be something that the model has not heard
        return stage.kind == "hook"
    assert kind in (f.Continued, f.Revoked, f.Resumed), f"say when {kind.__name__} may follow"
    return False


@every_stage
@everywhere
def test_a_fact_about_the_run_leaves_the_call_where_it_is(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    for kind in RUN_FACTS:
        [fact] = under(path, [fitting(kind, stage)])
        expected = welcome(stage, path, kind)
        assert legal(run, fact) == expected, fact
        if expected:
            after = run.fork()
            fold(after, fact)
            assert phase_of(after, "c1", path) == stage.phase, fact


@every_stage
@everywhere
def test_whatever_is_under_way_guardrails_can_be_awaited_for_what_is_said_and_nothing_starts(
    stage: Stage, path: Path
) -> None:
    run = at_stage(stage, path)
    fold(run, said("more", path=path))
    awaited = f.Awaited(("g1", "g2", "g1"), path=path)
    assert legal(run, awaited)
    fold(run, awaited)
    assert phase_of(run, "c1", path) == stage.phase
    assert list(run.at(path).guards) == ["g1", "g2"]
    assert not legal(run, awaited)
    starts = [fitting(kind, stage) for kind in (f.Began, f.Started, f.Concluded)]
    assert not any(legal(run, fact) for fact in under(path, starts))
    for name in ("g2", "g1"):
        fold(run, f.Guarded("input", name, path=path))
    for fact in under(path, starts):
        assert legal(run, fact) == (follows(stage, type(fact)) is not None), fact
    assert not legal(run, awaited), "they have looked at it"


@every_stage
@everywhere
def test_an_output_is_not_proposed_while_a_call_is_open_or_nothing_is_to_conclude(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    assert not legal(run, proposed("o1", "output", path=path))


@every_stage
@everywhere
def test_the_runtime_proposes_no_call_that_is_the_models_to_make(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    for kind in set(KINDS) - {"output", "hook"}:
        assert not legal(run, f.Proposed(call("c2", kind), js({}), path=path))


# -- facts that do not match -------------------------------------------------------------------------


@every_stage
@everywhere
def test_a_verdict_that_names_no_open_question_is_refused(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    open = stage.question.id if stage.question else None
    for wrong in {None, "", "q1", "q2", "q9", "nope"} - {open}:
        if wrong is None and stage.question is None:
            continue  # that is a verdict on no question: a rule's
        verdicts = [approved("c1", wrong), refused("c1", wrong), finished("c1", asked=wrong)]
        verdicts += [approved("c1", wrong, args=js({})), answered("c1", wrong or "")]
        for fact in under(path, verdicts):
            assert not legal(run, fact), fact


@every_stage
@everywhere
def test_a_start_with_another_number_than_the_one_due_is_refused(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    for attempt in {-1, 0, 1, 2, 3, 4} - {stage.attempt + 1}:
        assert not legal(run, f.Started("c1", attempt, path=path))


@every_stage
@everywhere
def test_only_the_attempt_under_way_can_have_come_to_nothing(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    for attempt in {-1, 0, 1, 2, 3, 4} - {stage.attempt}:
        assert not legal(run, f.Left("c1", attempt, path=path))


@every_stage
@everywhere
def test_a_late_result_of_an_attempt_that_never_was_is_refused(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    for attempt in (-1, 0, stage.attempt + 1):
        assert not legal(run, f.Witnessed("c1", attempt, js("x"), path=path))
    for attempt in range(1, stage.attempt + 1):
        assert legal(run, f.Witnessed("c1", attempt, js("x"), path=path))


@every_stage
@everywhere
def test_a_question_that_does_not_replace_the_open_one_is_refused(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    [fact] = under(path, [fitting(f.Asked, stage)])
    passed = {each.asked for each in stage.steps if isinstance(each, f.Approved) and stage.phase == "READY"}
    for wrong in {None, "", "q1", "q2", "q9", "nope"} - {fact.replaces, *passed}:
        assert not legal(run, asked("c1", "q_new", fact.kind, replaces=wrong, path=path))


@pytest.mark.parametrize("stage", [each for each in STAGES if each.phase == "READY"], ids=str)
@everywhere
def test_a_question_may_replace_the_one_that_was_approved(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    given = [fact.asked for fact in stage.steps if isinstance(fact, f.Approved)]
    for each in given:
        assert legal(run, asked("c1", "q_new", replaces=each, path=path))
    decided = dict(run.decided)
    fold(run, asked("c1", "q_new", replaces=given[-1], path=path))
    assert run.decided == decided, "who approved it, did"


@every_stage
@everywhere
def test_a_question_needs_an_id_of_its_own(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    [fact] = under(path, [fitting(f.Asked, stage)])
    for id in ["", *run.asked]:
        assert not legal(run, asked("c1", id, fact.kind, replaces=fact.replaces, path=path))


@every_stage
@everywhere
def test_a_question_of_another_kind_than_the_phase_has_is_refused(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    [fact] = under(path, [fitting(f.Asked, stage)])
    kinds = {"input", "doubt"} if stage.phase == "RUNNING" else {fact.kind}
    for kind in ANSWERS:
        possible = kind in kinds and follows(stage, f.Asked) is not None
        assert legal(run, asked("c1", "q_new", kind, replaces=fact.replaces, path=path)) == possible


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_question_allows_only_answers_of_its_kind(kind: f.QuestionKind) -> None:
    way = {"approval": (), "input": (approved("c1"), START), "doubt": (approved("c1"), START)}[kind]
    run = play(began(), said(), replied(1, "c1"), *way)
    for verdict in ANSWERS["approval"]:
        assert legal(run, asked("c1", "q1", kind, allowed=(verdict,))) == (verdict in ANSWERS[kind])
    assert legal(run, asked("c1", "q1", kind, allowed=ANSWERS[kind]))


@pytest.mark.parametrize("stage", [s for s in STAGES if s.question and s.kind == "tool"], ids=str)
@pytest.mark.parametrize("only", ANSWERS["approval"])
def test_a_verdict_that_the_question_does_not_allow_is_refused(stage: Stage, only: f.Verdict) -> None:
    assert stage.question is not None
    kind = stage.question.kind
    if only not in ANSWERS[kind]:
        return
    run = play(*stage.journal())
    fold(run, asked("c1", "q_new", kind, allowed=(only,), replaces=stage.question.id))
    respond = answered("c1", "q_new") if kind == "input" else finished("c1", asked="q_new")
    verdicts = {
        "approve": approved("c1", "q_new"),
        "edit": approved("c1", "q_new", args=js({})),
        "reject": refused("c1", "q_new"),
        "respond": respond,
    }
    assert {name for name, fact in verdicts.items() if legal(run, fact)} == {only}
    assert legal(run, approved("c1", "q_new", tool="other")) == (only == "edit")


@pytest.mark.parametrize("stage", [s for s in STAGES if s.question and s.kind == "tool"], ids=str)
def test_what_a_person_may_say_is_fixed_by_the_kind_of_question(stage: Stage) -> None:
    assert stage.question is not None
    run, open, kind = play(*stage.journal()), stage.question.id, stage.question.kind
    assert run.calls["c1"].allowed() == ANSWERS[kind]
    assert legal(run, approved("c1", open)) == (kind != "input")
    assert legal(run, approved("c1", open, args=js({}))) == (kind == "approval")
    assert legal(run, approved("c1", open, tool="other")) == (kind == "approval")
    assert legal(run, refused("c1", open))
    assert legal(run, finished("c1", asked=open)) == (kind != "input")
    assert legal(run, answered("c1", open)) == (kind == "input")


@every_stage
@everywhere
def test_a_rule_cannot_choose_another_tool(stage: Stage, path: Path) -> None:
    if stage.question is None:
        assert not legal(at_stage(stage, path), approved("c1", tool="other", path=path))


@every_stage
@everywhere
def test_a_tools_guardrail_is_about_a_call_and_no_other_is(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    for where in ("input", "output"):
        assert not legal(run, f.Guarded(where, "g", call="c1", path=path))
    for where in ("tool_input", "tool_output"):
        assert not legal(run, f.Guarded(where, "g", path=path))
        assert legal(run, f.Guarded(where, "g", call="c1", path=path)) == (follows(stage, f.Guarded) is not None)


@every_stage
@everywhere
def test_a_fact_about_another_place_is_refused(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    facts = [fitting(kind, stage) for kind in CALL_FACTS]
    for wrong in {(), ("p1",), ("p1", "p2"), ("p2",), ("c1",), ("nope",), (*path, "c1"), (*path, "nope")} - {path}:
        for fact in under(wrong, facts):
            assert not legal(run, fact), fact


@every_stage
@everywhere
def test_a_fact_about_a_call_that_is_not_there_is_refused(stage: Stage, path: Path) -> None:
    run = at_stage(stage, path)
    for id in ("", "nope", "C1"):
        assert not legal(run, branch(*path, id))
        for kind in set(CALL_FACTS) - {f.Began}:
            [fact] = under(path, [fitting(kind, stage)])
            assert not legal(run, replace(fact, call=id)), fact


@every_stage
@everywhere
def test_a_closed_run_takes_only_evidence(stage: Stage, path: Path) -> None:
    for depth in range(len(path) + 1):
        run = at_stage(stage, path)
        fold(run, f.Closed("over", path=path[:depth]))
        for kind in FACTS:
            [fact] = under(path, [fitting(kind, stage)])
            assert legal(run, fact) == (kind is f.Witnessed and stage.attempt > 0), f"{fact}, closed at {path[:depth]}"


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
@everywhere
def test_nothing_comes_before_the_beginning(kind: type[f.Fact], path: Path) -> None:
    stage = STAGES[0]
    [fact] = under(path, [fitting(kind, stage)])
    assert not legal(Run(), fact)
