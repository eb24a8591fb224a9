"""Whether a fact may follow, what is owed, and where the run stands: the law, read off the naive account.

It knows nothing of phases and of the table. What it says is held against the core for every fact that is offered, good
or bad: a fact that slips through and one that is refused for nothing are both found. A new fact needs its law here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from assentry.core import facts as f
from tests.property.ledger import Ledger, Line, Path, Place

FITS: dict[str, set[str]] = {
    "approval": {"approve", "edit", "reject", "respond"},
    "input": {"respond", "reject"},
    "doubt": {"approve", "respond", "reject"},
}


def fits(line: Line, kind: str) -> set[str]:
    """The answers that a question of this kind can have; nobody answers in an output's place."""
    return FITS[kind] - ({"respond"} if line.call.kind == "output" else set())


# -- where a call stands, in words of its own ------------------------------------------------------


def ready(line: Line) -> bool:
    return line.may_run and not line.running and line.question is None and not line.done


def in_body(line: Line) -> bool:
    return line.running and line.branch is None


def unjudged(line: Line) -> bool:
    return not line.judged


def open_question(line: Line) -> bool:
    return line.question is not None


# -- whether a fact may follow ----------------------------------------------------------------------


def may_follow(ledger: Ledger, fact: Any) -> bool:
    """Whether the law lets this fact pass."""
    if type(fact) is f.Began:
        return _may_begin(ledger, fact)
    place = ledger.places.get(fact.path)
    if place is None or (ledger.over(fact.path) and type(fact) is not f.Witnessed):
        return False
    if type(fact) in OF_THE_RUN:
        return OF_THE_RUN[type(fact)](ledger, place, fact)
    line = place.lines.get(fact.call)
    return line is not None and OF_A_CALL[type(fact)](ledger, place, line, fact)


def _may_begin(ledger: Ledger, fact: f.Began) -> bool:
    if fact.max_turns < 1:
        return False
    if not fact.path:
        return not ledger.places and fact.run != ""
    above = ledger.places.get(fact.path[:-1])
    if above is None or ledger.over(fact.path[:-1]) or fact.live:
        return False
    line = above.lines.get(fact.path[-1])
    return line is not None and line.call.kind == "agent" and ready(line) and _released(ledger, fact.path[:-1], line)


def _released(ledger: Ledger, path: Path, line: Line) -> bool:
    guards = any(ledger.places[path[:n]].awaited for n in range(len(path) + 1))
    return not (ledger.cancelled or guards or ledger.held(path, line))


def _fresh(place: Place, calls: tuple[f.Call, ...]) -> bool:
    ids = [call.id for call in calls]
    return all(ids) and len(set(ids)) == len(ids) and not set(ids) & place.lines.keys()


def _replied(ledger: Ledger, place: Place, fact: f.Replied) -> bool:
    saw = place.said if fact.saw is None else fact.saw
    if not (place.heard <= saw <= place.said and _fresh(place, fact.calls)):
        return False
    if place.live:
        return True
    asked = saw > place.heard or (place.answering and not place.concluding)
    return asked and not place.open() and place.turns < place.max_turns


def _proposed(ledger: Ledger, place: Place, fact: f.Proposed) -> bool:
    kind = fact.proposal.kind
    ends = place.concluding and not place.open() and place.said == place.heard and not place.live
    fits = _fresh(place, (fact.proposal,)) and (fact.saw is None or place.heard <= fact.saw <= place.said)
    return fits and (kind == "hook" or (kind == "output" and ends))


def _handled(ledger: Ledger, place: Place, fact: f.Concluded) -> bool:
    """An error handler's output: in the run itself, in place of an error that is there, with all input in view."""
    if fact.path or fact.call is not None or not fact.output or fact.saw != place.said:
        return False
    if place.open() or place.live or place.awaited:
        return False
    if fact.source is not None and fact.source not in place.lines:
        return False
    if fact.handled != "max_turns":
        return place.concluding and place.said == place.heard
    awaited = place.said > place.heard or (place.answering and not place.concluding)
    return awaited and place.turns >= place.max_turns and not ledger.cancelled


def _concluded(ledger: Ledger, place: Place, fact: f.Concluded) -> bool:
    if fact.handled is not None:
        return _handled(ledger, place, fact)
    if not place.concluding or place.live or place.awaited:
        return False
    if fact.source is not None and fact.source not in place.lines:
        return False
    if fact.call is None:
        return not place.open() and place.said == place.heard
    line = place.lines.get(fact.call)
    return line is not None and place.open() == [line] and ready(line) and line.call.kind == "output"


def _guarded(ledger: Ledger, place: Place, fact: f.Guarded) -> bool:
    if fact.where not in ("tool_input", "tool_output"):
        return fact.call is None and (fact.where != "input" or fact.name in place.awaited)
    line = place.lines.get(fact.call or "")
    return fact.call is not None and line is not None and (unjudged(line) or ready(line) or in_body(line))


def _may_switch(place: Place, fact: f.Switched) -> bool:
    outputs = [line for line in place.open() if line.call.kind == "output"]
    return not fact.path and place.live != fact.live and not (fact.live and outputs)


def _always(ledger: Ledger, place: Place, fact: Any) -> bool:
    return True


OF_THE_RUN: dict[type[f.Fact], Callable[[Ledger, Place, Any], bool]] = {
    f.Said: _always,
    f.Awaited: lambda ledger, place, fact: ledger.may_await(fact.path),
    f.Defined: _always,
    f.Closed: _always,
    f.Replied: _replied,
    f.Proposed: _proposed,
    f.Concluded: _concluded,
    f.Guarded: _guarded,
    f.Continued: lambda ledger, place, fact: not place.open() and place.concluding and place.answering,
    f.Granted: lambda ledger, place, fact: not fact.path and fact.id != "" and fact.id not in ledger.grants,
    f.Revoked: lambda ledger, place, fact: not fact.path and fact.grant in ledger.grants,
    f.Limited: lambda ledger, place, fact: fact.max_turns >= 1,
    f.Cancelled: lambda ledger, place, fact: not fact.path and not ledger.cancelled,
    f.Resumed: lambda ledger, place, fact: not fact.path and ledger.cancelled,
    f.Switched: lambda ledger, place, fact: _may_switch(place, fact),
    f.Saved: lambda ledger, place, fact: place.saved <= fact.upto <= place.entries + place.said - place.heard,
}


def _answers(line: Line, fact: Any, verdict: str) -> bool:
    """A person's word: on the question now open, in time, and such as the question allows."""
    question = line.question
    if question is None or fact.asked != question.id:
        return False
    if question.until is not None and fact.at > question.until:
        return verdict == "reject"
    return verdict in (fits(line, question.kind) if question.allowed is None else question.allowed)


def _asked(ledger: Ledger, place: Place, line: Line, fact: f.Asked) -> bool:
    old = line.question
    if old is not None:
        arises = fact.replaces == old.id and fact.kind == old.kind
    elif in_body(line):
        arises = fact.replaces is None and fact.kind in ("input", "doubt")
    else:
        replaces = fact.replaces is None or (ready(line) and fact.replaces == line.passed)
        arises = replaces and fact.kind == "approval" and (unjudged(line) or ready(line))
    allowed = fact.allowed is None or (fact.allowed != () and set(fact.allowed) <= fits(line, fact.kind))
    return (
        arises
        and allowed
        and (fact.voids is None or fact.voids in voidable(place, line, fact.kind))
        and fact.id != ""
        and fact.id not in ledger.asked
    )


def voidable(place: Place, line: Line, kind: str) -> list[str]:
    """The questions that the code which asks now may have been answered for nothing: the last one of a body, and any
    of the hooks before a hook that has not asked."""
    if in_body(line):
        return [question.id for question, _ in line.answers[-1:] if kind == "input"]
    if line.call.kind != "hook" or not unjudged(line):
        return []
    return [id for one in place.lines.values() if one.call.kind == "hook" and one.done for id in one.asked]


def _approved(ledger: Ledger, place: Place, line: Line, fact: f.Approved) -> bool:
    if line.question is not None:
        return _answers(line, fact, "edit" if fact.args or fact.tool is not None else "approve")
    return unjudged(line) and fact.asked is None and fact.tool is None and _granted(ledger, fact)


def _refused(ledger: Ledger, place: Place, line: Line, fact: f.Refused) -> bool:
    if line.question is not None:
        return _answers(line, fact, "reject")
    return (unjudged(line) or ready(line)) and fact.asked is None and _granted(ledger, fact)


def _granted(ledger: Ledger, fact: Any) -> bool:
    """Whether a grant, if it was one, may still decide: it was not taken back, is not used up, and has not ended."""
    if not fact.by.startswith("grant:"):
        return True
    id = fact.by.removeprefix("grant:")
    grant = ledger.grants.get(id)
    if grant is None:
        return id not in ledger.revoked
    enough = grant.max_uses is None or ledger.uses.get(id, 0) < grant.max_uses
    return enough and (grant.until is None or fact.at <= grant.until)


def _answered(ledger: Ledger, place: Place, line: Line, fact: f.Answered) -> bool:
    return line.question is not None and line.question.kind == "input" and _answers(line, fact, "respond")


def _started(ledger: Ledger, place: Place, line: Line, fact: f.Started) -> bool:
    due = (ready(line) or in_body(line)) and fact.attempt == len(line.starts) + 1
    if not due or line.call.kind in ("agent", "output") or not _released(ledger, fact.path, line):
        return False
    return line.call.kind != "handoff" or alone(place, line)


def alone(place: Place, line: Line) -> bool:
    """Whether a handoff has nothing to wait for but handoffs that wait for it."""
    others = [one for one in place.open() if one is not line and (one.turn == line.turn or not place.live)]
    return line.turn not in place.handed and all(one.call.kind == "handoff" and ready(one) for one in others)


def _finished(ledger: Ledger, place: Place, line: Line, fact: f.Finished) -> bool:
    if line.question is not None:
        return line.question.kind != "input" and _answers(line, fact, "respond")
    if fact.asked is not None or not line.running:
        return False
    return line.branch is None or ended(ledger.places[line.branch])


def _handed_off(ledger: Ledger, place: Place, line: Line, fact: f.HandedOff) -> bool:
    return in_body(line) and line.call.kind == "handoff" and line.turn not in place.handed


OF_A_CALL: dict[type[f.Fact], Callable[[Ledger, Place, Line, Any], bool]] = {
    f.Asked: _asked,
    f.Approved: _approved,
    f.Refused: _refused,
    f.Told: lambda ledger, place, line, fact: type(line.outcome) is f.Refused and not line.done,
    f.Answered: _answered,
    f.Redefined: lambda ledger, place, line, fact: unjudged(line) or open_question(line) or ready(line),
    f.Started: _started,
    f.Left: lambda ledger, place, line, fact: (
        in_body(line) and (fact.attempt, fact.fence) == (len(line.starts), line.fence)
    ),
    f.Stepped: lambda ledger, place, line, fact: in_body(line),
    f.Finished: _finished,
    f.Witnessed: lambda ledger, place, line, fact: fact.attempt in line.starts,
    f.HandedOff: _handed_off,
}


# -- what is owed, and where it stands ----------------------------------------------------------------


def awaits_model(place: Place) -> bool:
    return place.said > place.heard or (place.answering and not place.concluding)


def ended(place: Place) -> bool:
    """Whether a branch is over: given up, out of turns, or with its output."""
    if place.closed:
        return True
    if place.open() or place.awaited:
        return False
    return place.turns >= place.max_turns if awaits_model(place) else place.concluded is not None


def due(ledger: Ledger, path: Path = ()) -> Iterator[f.AnyEffect]:
    """Everything that is owed, in the order of the calls."""
    place = ledger.places.get(path)
    if place is None or place.closed or ledger.cancelled:
        return
    yield from (f.Guard(None, path, name) for name in place.awaited)
    for line in place.open():
        yield from _due_of(ledger, path, place, line)
    if not place.open() and not place.live:
        if not awaits_model(place):
            yield from [f.Conclude(None, path)] if place.concluding and not place.awaited else []
        elif place.turns < place.max_turns:
            yield f.AskModel(None, path, place.said)


def _due_of(ledger: Ledger, path: Path, place: Place, line: Line) -> Iterator[f.AnyEffect]:
    id = line.call.id
    if unjudged(line):
        yield f.Judge(id, path)
    elif ready(line):
        yield from _due_of_ready(ledger, path, place, line)
    elif in_body(line):
        yield f.Settle(id, path)
    elif type(line.outcome) is f.Refused:
        yield f.Tell(id, path)
    elif line.branch is not None and not place.awaited:
        yield from due(ledger, line.branch)
        if ended(ledger.places[line.branch]):
            yield f.Return(id, path)


def _due_of_ready(ledger: Ledger, path: Path, place: Place, line: Line) -> Iterator[f.AnyEffect]:
    id, kind = line.call.id, line.call.kind
    if kind == "output":
        if place.open() == [line] and not place.awaited:
            yield f.Conclude(id, path)
    elif kind == "handoff" and line.turn in place.handed:
        yield f.Judge(id, path)
    elif _released(ledger, path, line):
        near = [one for one in place.open() if one.turn == line.turn or not place.live]
        first = next(one for one in near if one.call.kind == kind and ready(one))
        if kind != "handoff" or (first is line and alone(place, line)):
            yield f.Execute(id, path)


def standing(ledger: Ledger) -> str:
    """The status of the run."""
    root = ledger.places.get(())
    if root is None:
        return "idle"
    if root.closed:
        return "closed"
    if ledger.cancelled:
        return "cancelled"
    if any(True for _ in due(ledger)):
        return "working"
    if root.open():
        return "waiting" if any(True for _ in ledger.questions()) else "idle"
    if not root.live and awaits_model(root):
        return "exhausted"
    return "done" if root.concluded is not None else "idle"
