"""The table: which fact may follow in which phase of a call, and the phase after that fact.

Every rule about the order of facts is a row here; `fold.check` adds only what a fact must match (the open question, the
next attempt). No I/O, no clock, no user code and no state may be put here: a rule that needs more than the phase is not
a row. Rows may be added but never removed, so that old journals still fold. The diagram in the docs is drawn from this
table.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from . import facts as f


class Phase(IntEnum):
    """The phase of a call."""

    NEW = 0  # proposed, not judged
    ASKED = 1  # a person is asked
    READY = 2  # may run
    RUNNING = 3  # its body was entered
    DELEGATED = 4  # a nested agent works on it
    REFUSED = 5  # will not run; the text for the model is not settled yet
    DONE = 6  # has its outcome


NEW, ASKED, READY, RUNNING, DELEGATED, REFUSED, DONE = Phase


class Row(NamedTuple):
    """One transition: the phase before, the fact, the phase after, and the reason."""

    phase: Phase
    fact: type[f.Fact]
    next: Phase
    why: str


ROWS = (
    Row(NEW, f.Guarded, NEW, "a guardrail looks at the arguments before anyone is asked"),
    Row(NEW, f.Redefined, NEW, "the tool has changed and is accepted as it is now"),
    Row(NEW, f.Approved, READY, "a rule, a grant or code lets it pass"),
    Row(NEW, f.Refused, REFUSED, "a rule, a grant, code or the runtime says no"),
    Row(NEW, f.Asked, ASKED, "a person must say: the pause"),
    Row(ASKED, f.Approved, READY, "a person lets it run, as it is or with other arguments"),
    Row(ASKED, f.Refused, REFUSED, "a person says no, or the deadline passed"),
    Row(ASKED, f.Finished, DONE, "a person answers in the tool's place, or knows how it ended"),
    Row(ASKED, f.Answered, READY, "the body has its answer and is entered again"),
    Row(ASKED, f.Asked, ASKED, "what was asked about has changed; a new question replaces the old"),
    Row(ASKED, f.Redefined, ASKED, "the tool has changed and is accepted as it is now"),
    Row(READY, f.Guarded, READY, "a guardrail looks at the arguments that will run"),
    Row(READY, f.Refused, REFUSED, "a guardrail stops it, or another handoff was taken"),
    Row(READY, f.Asked, ASKED, "what was approved has changed; the approval is void"),
    Row(READY, f.Redefined, READY, "the tool has changed and is accepted as it is now"),
    Row(READY, f.Started, RUNNING, "recorded before the body is entered: the record is the lock"),
    Row(READY, f.Began, DELEGATED, "an agent call opens a branch of the journal"),
    Row(READY, f.Concluded, DONE, "a final output that was approved"),
    Row(RUNNING, f.Guarded, RUNNING, "a guardrail looks at the output"),
    Row(RUNNING, f.Stepped, RUNNING, "a step inside the body is done"),
    Row(RUNNING, f.Finished, DONE, "the body ended, well or not"),
    Row(RUNNING, f.HandedOff, DONE, "the other agent has taken over"),
    Row(RUNNING, f.Asked, ASKED, "the body asks, or nobody knows how it ended"),
    Row(RUNNING, f.Left, READY, "the body was not entered after all, or may be entered again"),
    Row(RUNNING, f.Started, RUNNING, "another attempt, of a tool that may be run again"),
    Row(DELEGATED, f.Finished, DONE, "the branch has ended"),
    Row(REFUSED, f.Told, DONE, "the words for the model are settled"),
    Row(ASKED, f.Witnessed, ASKED, "a late result, while a person is asked how it ended"),
    Row(READY, f.Witnessed, READY, "a late result of the attempt before"),
    Row(RUNNING, f.Witnessed, RUNNING, "a late result of the attempt before, or of a closed run"),
    Row(REFUSED, f.Witnessed, REFUSED, "a late result of what was given up"),
    Row(DONE, f.Witnessed, DONE, "a late result of what was settled otherwise"),
)

NEXT: dict[type[f.Fact], dict[Phase, Phase]] = {}
for _row in ROWS:
    NEXT.setdefault(_row.fact, {})[_row.phase] = _row.next

ANSWERS: dict[f.QuestionKind, tuple[f.Verdict, ...]] = {
    "approval": ("approve", "edit", "reject", "respond"),
    "input": ("respond", "reject"),  # the body has already begun: there is nothing left to approve
    "doubt": ("approve", "respond", "reject"),  # run it again, give its real outcome, or give it up
}
"""The verdicts that fit a question of each kind; a question may allow fewer."""

VERDICTS: dict[type[f.Fact], f.Verdict] = {
    f.Approved: "approve",
    f.Refused: "reject",
    f.Finished: "respond",
    f.Answered: "respond",
}
"""The verdict of each kind of fact that can settle a question."""


def verdict_of(fact: Any) -> f.Verdict | None:
    """Return the verdict of a fact on the question that the fact settles; None if it settles none."""
    verdict = VERDICTS.get(type(fact))
    if verdict is None or fact.asked is None:
        return None
    return "edit" if verdict == "approve" and (fact.args or fact.tool is not None) else verdict


ANYBODYS = (f.Said, f.Granted, f.Revoked, f.Cancelled, f.Resumed, f.Witnessed)
"""The facts, besides verdicts on questions, that may be recorded without the run's lease."""


def is_drivers(fact: f.AnyFact) -> bool:
    """Return True if only the holder of the run's lease may record this fact."""
    return bool(fact.path and type(fact) is f.Said) or (not isinstance(fact, ANYBODYS) and verdict_of(fact) is None)
