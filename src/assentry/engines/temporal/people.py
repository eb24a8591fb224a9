"""Requests of people to a run in its workflow: decisions and words as facts, and the questions that wait.

Pure functions of a ledger. What needs the definition of a tool, or the past before this execution of the workflow,
raises `NeedsTool`: then an activity looks at it. Waiting, and recording the facts, belong to the workflow.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw
from msgspec.json import encode

from ...approval.decide import VERDICT_NAMES, already_decided, decide
from ...approval.decision import Decider, Edit, checked_name, decision_from
from ...approval.question import arguments_text
from ...core import facts as f
from ...core.digest import canonical
from ...core.rules import ASKED, verdict_of
from ...core.run import CallState
from ...core.wording import holds
from ...errors import AssentryError, Conflict, GrantNotFound, NotPending, QuestionNotFound, RunFinished, UsageError
from . import message as m
from .ledger import Ledger, Path


class NeedsTool(Exception):
    """A decision cannot be looked at without the definition of a tool."""


def decision_facts(ledger: Ledger, text: m.DecisionText, at: int) -> list[f.AnyFact]:
    """Return the facts of a decision; raise `NeedsTool` if only an activity can look at it."""
    given = decision_from(text.decision)
    run, who = ledger.run, Decider(text.by, text.groups, text.shown, text.looked)
    if text.question not in run.asked and not ledger.whole:
        raise NeedsTool  # it may have been decided before this execution of the workflow
    if text.grant is not None or type(given) is Edit:
        _check_open(ledger, text, VERDICT_NAMES[type(given)])
        raise NeedsTool
    return decide(run, text.question, given, by=who, at=at, digest=text.digest, tool_of=_no_tool, grant=None)


def _check_open(ledger: Ledger, text: m.DecisionText, verdict: f.Verdict) -> None:
    """Raise the error of a decision that no tool could make right."""
    run = ledger.run
    if text.question not in run.asked:
        raise QuestionNotFound(f"This run never asked a question with the id {text.question!r:.80}.")
    earlier = run.decided.get(text.question)
    if earlier is not None and verdict_of(earlier) != verdict:
        raise earlier_decision_error(ledger, text)


def earlier_decision_error(ledger: Ledger, text: m.DecisionText) -> AssentryError:
    """Return the error of a decision that others were quicker with."""
    run = ledger.run
    earlier = run.decided.get(text.question)
    if earlier is None or verdict_of(earlier) is None:
        return NotPending(f"Question {text.question} is not open any more.")
    return already_decided(run, text.question, earlier)


def recorded(ledger: Ledger, question: str | None = None) -> m.Recorded:
    """Return the workflow's answer: the number of facts, and what became of the question, if one is named."""
    run = ledger.run
    fact = run.decided.get(question) if question is not None else None
    if fact is None or run.began is None:
        return m.Recorded(run.seq)
    by, shown = getattr(fact, "by", None), getattr(fact, "shown", None)
    return m.Recorded(run.seq, verdict_of(fact), by, run.began.at + fact.at, shown)


def word_facts(ledger: Ledger, word: m.Word, at: int) -> list[f.AnyFact]:
    """Return the facts of a word; raise an error if it cannot be recorded."""
    run = ledger.run
    checked_name(word.by)
    if word.kind == "retry":
        return []
    if run.began is None:
        raise Conflict(f"Run {ledger.id!r} has not begun yet.")
    if word.kind == "cancel":
        facts: list[f.AnyFact] = [] if run.cancelled is not None else [f.Cancelled(word.by, word.text, at=at)]
    elif word.kind == "resume":
        facts = [] if run.cancelled is None else [f.Resumed(word.by, at=at)]
    elif word.kind == "revoke":
        if word.text not in run.grants:
            raise GrantNotFound(f"Run {ledger.id!r} has no grant {word.text!r:.80}.")
        facts = [f.Revoked(word.text or "", word.by, at=at)]
    else:
        facts = [_said(word, at)]
    if (illegal := ledger.refuses(facts)) is not None:
        raise RunFinished(f"This cannot be recorded in run {ledger.id!r} any more: {illegal}")
    return facts


def says(fact: f.AnyFact) -> tuple[Any, ...]:
    """Return what a decision comes to, whoever made it."""
    fields = ("args", "tool", "message", "output", "value")
    return (
        verdict_of(fact),
        *(bytes(value) if isinstance(value := getattr(fact, name, None), Raw) else value for name in fields),
    )


def repeats(earlier: f.AnyFact | None, text: m.DecisionText) -> bool:
    """Return True if a decision that needs the tool is, to the letter, the one that is recorded."""
    given = decision_from(text.decision)
    if earlier is None or verdict_of(earlier) != VERDICT_NAMES[type(given)] or text.grant is not None:
        return False
    return type(given) is Edit and given.tool is None and bytes(says(earlier)[1]) == canonical(given.arguments)


def _no_tool(state: CallState, name: str) -> Any:
    raise NeedsTool


def _said(word: m.Word, at: int) -> f.Said:
    if word.by in f.OWN_AUTHORS:
        raise UsageError(f"`by` must say who gives the input; {word.by!r} is a name that only the runtime uses.")
    if not word.text or not holds(word.text):
        raise UsageError(f"Input is text that is not empty, got {word.text!r:.80}.")
    return f.Said(Raw(encode([{"role": "user", "content": word.text}])), word.by, at=at)


def waiting_question(path: Path, state: CallState) -> m.Waiting:
    """Return an open question as the workflow tells it."""
    asked = state.question
    assert asked is not None and state.phase is ASKED
    arguments = "" if asked.kind == "input" else arguments_text(state, asked)
    return m.Waiting(
        asked.id,
        state.tool,
        arguments,
        asked.digest,
        asked.kind,
        asked.why,
        state.allowed(),
        path,
        asked.until,
        asked.prompt,
    )
