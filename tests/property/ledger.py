"""A second, naive account of a run, kept fact by fact, to hold the core's against.

It knows nothing of phases and of the table: it says what must be true of a journal, whoever wrote it. `observe` is
given every fact that the core accepted, and fails if the core should not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw
from msgspec.json import decode

from assentry.core import facts as f

Path = tuple[str, ...]


@dataclass
class Line:
    """What is known of one call."""

    call: f.Call
    turn: int
    args: Raw = field(default_factory=lambda: f.NOTHING)
    fills: Raw = field(default_factory=lambda: f.NOTHING)
    tool: str = ""
    digest: str | None = None
    preview: Raw = field(default_factory=lambda: f.NOTHING)
    judged: bool = False
    may_run: bool = False
    running: bool = False
    question: f.Asked | None = None
    starts: list[int] = field(default_factory=list)
    fence: int = 0
    """Of the lease that the last attempt was begun under."""
    in_vain: int = 0
    void: int = 0
    """How many attempts did nothing: the body was not entered."""
    late: list[f.Witnessed] = field(default_factory=list)
    outcome: Any = None
    done: bool = False
    edited: bool = False
    words: str | None = None
    told: str | None = None
    approval: f.Approved | None = None
    passed: str | None = None
    shown: f.Asked | None = None
    """The question on which a person approved the call: the door compares the world with its preview."""
    branch: Path | None = None
    proposal: tuple[str, str] = ("", "")
    fingerprint: str | None = None
    answers: list[tuple[f.Asked, f.Answered]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    steps: list[f.Stepped] = field(default_factory=list)


@dataclass
class Place:
    """What is known of the run itself, or of a branch."""

    began: f.Began
    max_turns: int
    awaited: list[str]
    armed: list[str]
    lines: dict[str, Line] = field(default_factory=dict)
    said: int = 0
    heard: int = 0
    turns: int = 0
    settled: int = 0
    unwatched: int = 0
    usage: list[f.Usage] = field(default_factory=list)
    live: bool = False
    switches: int = 0
    added: int = 0
    """How often calls were added: each time is a turn of its own."""
    replies: set[tuple[int, int, int]] = field(default_factory=set)
    handed: set[int] = field(default_factory=set)
    closed: bool = False
    definition: f.Defined | None = None
    answering: bool = False
    concluding: bool = False
    concluded: f.Concluded | None = None
    guarded: list[f.Guarded] = field(default_factory=list)
    entries: int = 0
    saved: int = 0

    def open(self) -> list[Line]:
        return [line for line in self.lines.values() if not line.done]


class Ledger:
    """The account of one journal."""

    def __init__(self) -> None:
        self.places: dict[Path, Place] = {}
        self.asked: list[str] = []
        self.decided: set[str] = set()
        self.grants: dict[str, f.Granted] = {}
        self.revoked: set[str] = set()
        self.uses: dict[str, int] = {}
        self.cancelled = False

    # -- reading -----------------------------------------------------------------------------------

    def questions(self, path: Path = ()) -> Iterator[tuple[Path, str]]:
        """The open questions, in the order of the calls, depth first."""
        place = self.places.get(path)
        if place is None or place.closed:
            return
        for line in place.open():
            if line.question is not None:
                yield path, line.question.id
            elif line.branch is not None:
                yield from self.questions(line.branch)

    def over(self, path: Path) -> bool:
        """Whether nothing but evidence may be added here: it, or something above it, has ended for good."""
        if any(self.places[path[:n]].closed for n in range(len(path) + 1) if path[:n] in self.places):
            return True
        return any(
            path[:n] in self.places and (line := self.places[path[:n]].lines.get(path[n])) is not None and line.done
            for n in range(len(path))
        )

    def held(self, path: Path, line: Line) -> bool:
        """Return True if a verdict of a turn that is released as a batch is open; a live run's turns are apart."""
        place = self.places[path]
        return place.began.release == "batch" and any(
            not one.judged or (one.question is not None and one.question.kind == "approval")
            for one in place.open()
            if one.turn == line.turn or not place.live
        )

    def may_await(self, path: Path) -> bool:
        """Whether guardrails can be asked to look again: something was said since they were in, and nobody answered."""
        place = self.places[path]
        return not self.over(path) and not place.awaited and place.unwatched > 0 and place.heard < place.said

    def used(self, path: Path) -> f.Usage:
        """What the models have used here, and in the branches under this path."""
        total = f.Usage()
        for where, place in self.places.items():
            for usage in place.usage if where[: len(path)] == path else ():
                total.add(usage)
        return total

    # -- observing -----------------------------------------------------------------------------------

    def observe(self, fact: Any) -> None:
        """Take note of a fact that was accepted."""
        if type(fact) is f.Began:
            return self._began(fact)
        assert () in self.places, "nothing comes before the beginning"
        assert fact.path in self.places, "a fact is about a branch that is there"
        if type(fact) is not f.Witnessed:
            assert not self.over(fact.path), "what is closed stays closed"
        place = self.places[fact.path]
        about = getattr(fact, "call", None)
        line = place.lines[about] if about is not None else None
        handler = getattr(self, "_" + type(fact).__name__.lower(), None)
        if handler is not None:
            handler(fact, place, line)
        return None

    def _began(self, fact: f.Began) -> None:
        assert fact.path not in self.places, "a branch begins once"
        if fact.path:
            assert not self.over(fact.path[:-1])
            line = self.places[fact.path[:-1]].lines[fact.path[-1]]
            assert line.call.kind == "agent"
            self._may_start(fact.path[:-1], line)
            line.branch, line.running = fact.path, True
        guards = list(dict.fromkeys(fact.guards))
        self.places[fact.path] = Place(fact, fact.max_turns, guards, list(guards), live=fact.live)

    def _may_start(self, path: Path, line: Line) -> None:
        """Nothing starts unapproved, or before its time."""
        assert line.may_run, "only what was approved runs"
        assert line.question is None and line.outcome is None and not line.done
        assert not self.places[path].awaited, "guardrails go before execution"
        assert not self.places[()].awaited, "and those of the run itself before any"
        assert not self.cancelled, "nothing starts in a cancelled run"
        assert not self.held(path, line), "a batch is released as a whole"

    def _said(self, fact: f.Said, place: Place, line: None) -> None:
        place.said += 1
        place.unwatched += 1
        place.concluded = None
        if place.awaited:  # those that are in have not seen this
            place.awaited = list(place.armed)

    def _awaited(self, fact: f.Awaited, place: Place, line: None) -> None:
        assert self.may_await(fact.path), "guardrails look at what is new, and at nothing twice"
        place.awaited, place.armed = list(dict.fromkeys(fact.guards)), list(dict.fromkeys(fact.guards))

    def _defined(self, fact: f.Defined, place: Place, line: None) -> None:
        place.definition = fact

    def _saved(self, fact: f.Saved, place: Place, line: None) -> None:
        assert place.saved <= fact.upto <= place.entries + place.said - place.heard
        place.saved = fact.upto

    def _replied(self, fact: f.Replied, place: Place, line: None) -> None:
        saw = place.said if fact.saw is None else fact.saw
        assert place.heard <= saw <= place.said
        if not place.live:
            assert not place.open(), "a turn waits for every outcome"
            state = (saw, place.settled, place.switches)
            assert state not in place.replies, "each state of the talk has one reply"
            place.replies.add(state)
            assert place.turns < place.max_turns
        place.entries += saw - place.heard
        place.heard = saw
        place.usage.append(f.Usage(*fact.usage))
        place.concluded = None
        if place.live:
            place.answering = bool(fact.calls or fact.missed)
            place.concluding = not place.answering
        else:
            place.turns += 1
            place.answering = bool(fact.calls)
            place.concluding = not fact.calls or bool(place.definition and place.definition.finishing)
        self._add(place, fact.calls)
        items = decode(fact.items)
        for call in fact.calls:
            place.lines[call.id].proposal = (items[call.item]["name"], items[call.item]["arguments"])

    def _add(self, place: Place, calls: tuple[f.Call, ...], args: Raw = f.NOTHING) -> None:
        place.entries += 1
        place.added += 1
        for call in calls:
            assert call.id and call.id not in place.lines, "a call's id is its own"
            place.lines[call.id] = Line(call, place.added, args, tool=call.tool)

    def _proposed(self, fact: f.Proposed, place: Place, line: None) -> None:
        assert fact.proposal.kind in ("output", "hook")
        if fact.proposal.kind == "output":
            assert place.said == place.heard and not place.open()
        self._add(place, (fact.proposal,), fact.args)
        place.lines[fact.proposal.id].proposal = (fact.proposal.tool, bytes(fact.args).decode())

    def _concluded(self, fact: f.Concluded, place: Place, line: Line | None) -> None:
        if fact.handled:
            assert not fact.path and fact.saw == place.said, "a handler answers all that was said, in the run itself"
            place.entries += place.said - place.heard
            place.heard = place.said
        assert line is not None or place.said == place.heard, "a run ends when every word was heard"
        assert not place.live
        assert not place.awaited, "guardrails go before the conclusion"
        assert place.open() == ([] if line is None else [line])
        if line is not None:
            assert line.call.kind == "output" and line.may_run and line.question is None
            self._end(place, line, fact)
        place.answering, place.concluding, place.concluded = False, False, fact

    def _continued(self, fact: f.Continued, place: Place, line: None) -> None:
        place.concluding = False

    def _guarded(self, fact: f.Guarded, place: Place, line: Line | None) -> None:
        place.guarded.append(fact)
        if fact.where == "input":
            assert fact.name in place.awaited
        if fact.where == "input" and not fact.tripped:
            place.awaited.remove(fact.name)
            if not place.awaited:
                place.unwatched = 0

    def _granted(self, fact: f.Granted, place: Place, line: None) -> None:
        assert not fact.path and fact.id and fact.id not in self.grants
        self.grants[fact.id] = fact
        self.revoked.discard(fact.id)
        self.uses.pop(fact.id, None)

    def _revoked(self, fact: f.Revoked, place: Place, line: None) -> None:
        del self.grants[fact.grant]
        self.revoked.add(fact.grant)

    def _by_grant(self, fact: f.Approved | f.Refused) -> None:
        """What a grant decides is within its terms, and counted."""
        if fact.asked is not None or not fact.by.startswith("grant:"):
            return
        id = fact.by.removeprefix("grant:")
        assert id not in self.revoked, "a grant that was taken back decides nothing"
        self.uses[id] = self.uses.get(id, 0) + 1
        grant = self.grants.get(id)
        if grant is not None:
            assert grant.max_uses is None or self.uses[id] <= grant.max_uses, "a grant is used as often as it says"
            assert grant.until is None or fact.at <= grant.until, "a grant ends when it says"

    def _limited(self, fact: f.Limited, place: Place, line: None) -> None:
        place.max_turns = fact.max_turns

    def _cancelled(self, fact: f.Cancelled, place: Place, line: None) -> None:
        assert not fact.path and not self.cancelled
        self.cancelled = True

    def _resumed(self, fact: f.Resumed, place: Place, line: None) -> None:
        assert not fact.path and self.cancelled
        self.cancelled = False

    def _switched(self, fact: f.Switched, place: Place, line: None) -> None:
        assert not fact.path and place.live != fact.live
        place.live = fact.live
        place.switches += 1
        if not fact.live and place.open():
            place.answering, place.concluding = True, False

    def _closed(self, fact: f.Closed, place: Place, line: None) -> None:
        place.closed = True

    # -- of a call -----------------------------------------------------------------------------------

    def _asked(self, fact: f.Asked, place: Place, line: Line) -> None:
        assert fact.id and fact.id not in self.asked, "a question's id is its own"
        assert line.outcome is None
        if line.question is not None:
            assert fact.replaces == line.question.id
            self.decided.add(line.question.id)
        else:
            assert fact.replaces in (None, line.passed), "only what is open, or was approved, is replaced"
        if fact.voids is not None:
            assert fact.voids in self.decided, "only what was answered can be asked anew"
            if line.running:
                assert line.answers.pop()[0].id == fact.voids, "and in a body only the last of it"
        self.asked.append(fact.id)
        line.asked.append(fact.id)
        line.judged, line.may_run, line.question = True, False, fact
        if fact.kind == "approval":
            assert not line.running, "what is running is not asked about as if it were not"
            line.digest, line.preview = fact.digest, fact.preview
            line.approval = line.passed = line.shown = None
            line.args, line.fills = fact.args or line.args, fact.fills or line.fills
        else:
            assert line.starts, "only a body can ask, and only what was started can be in doubt"
        line.running = False

    def _answers(self, fact: Any, line: Line, verdict: str) -> None:
        """A decision answers the question now open, in time, as it allows; and no question if none is open."""
        question = line.question
        assert fact.asked == (question.id if question else None), "a decision answers the question now open"
        if question is None:
            return
        if question.allowed is not None:
            assert verdict in question.allowed or (verdict == "reject" and self._late(fact, question))
        assert verdict == "reject" or not self._late(fact, question), "silence is never approval"
        self.decided.add(question.id)
        line.question = None

    @staticmethod
    def _late(fact: Any, question: f.Asked) -> bool:
        return question.until is not None and fact.at > question.until

    def _approved(self, fact: f.Approved, place: Place, line: Line) -> None:
        question, edit = line.question, bool(fact.args) or fact.tool is not None
        assert line.outcome is None and not line.running
        assert question is None or question.kind == "approval" or (question.kind == "doubt" and not edit)
        self._answers(fact, line, "edit" if edit else "approve")
        self._by_grant(fact)
        if question is not None:
            line.passed, line.in_vain = question.id, 0
            line.shown = line.shown if question.kind == "doubt" else question
        line.judged = line.may_run = True
        line.args, line.fills = fact.args or line.args, fact.fills or line.fills
        if fact.tool is not None:
            line.tool, line.fingerprint = fact.tool, fact.definition
        if fact.digest is not None:
            line.digest, line.preview = fact.digest, fact.preview
        line.edited = line.edited or (edit and question is not None)
        if question is None or question.kind != "doubt":
            line.approval = fact

    def _refused(self, fact: f.Refused, place: Place, line: Line) -> None:
        assert not line.running, "what is running is not refused"
        self._answers(fact, line, "reject")
        self._by_grant(fact)
        line.judged, line.may_run = True, False
        assert line.outcome is None, "a call has one outcome"
        line.outcome = fact
        grant = self.grants.get(fact.by.removeprefix("grant:")) if fact.by.startswith("grant:") else None
        line.words = fact.message if fact.message is not None or grant is None else grant.message

    def _told(self, fact: f.Told, place: Place, line: Line) -> None:
        assert type(line.outcome) is f.Refused and not line.done
        line.told = fact.text if fact.text is not None else line.words or ""
        if line.call.kind == "output":  # its refusal is something to reply to
            place.answering, place.concluding = True, False
        self._end(place, line, line.outcome)

    def _answered(self, fact: f.Answered, place: Place, line: Line) -> None:
        assert line.question is not None and line.question.kind == "input"
        line.answers.append((line.question, fact))
        self._answers(fact, line, "respond")
        line.may_run = True  # as it was when the body asked
        line.in_vain = 0

    def _redefined(self, fact: f.Redefined, place: Place, line: Line) -> None:
        assert line.outcome is None and not line.running
        line.fingerprint = fact.fingerprint

    def _started(self, fact: f.Started, place: Place, line: Line) -> None:
        assert line.call.kind not in ("agent", "output")
        self._may_start(fact.path, line)
        assert fact.attempt not in line.starts, "an attempt has one winner"
        assert fact.attempt == len(line.starts) + 1
        if line.call.kind == "handoff":
            self._alone(place, line)
        line.starts.append(fact.attempt)
        line.fence = fact.fence
        line.running = True

    def _left(self, fact: f.Left, place: Place, line: Line) -> None:
        assert line.running and line.branch is None and line.starts[-1] == fact.attempt
        assert line.fence == fact.fence, "an attempt of another lease is another's"
        line.running = False
        line.in_vain += 1
        line.void += fact.by in ("runtime", "probe")

    @staticmethod
    def _alone(place: Place, line: Line) -> None:
        assert line.turn not in place.handed, "of a turn's handoffs one is taken"
        others = [one for one in place.open() if one is not line and (one.turn == line.turn or not place.live)]
        assert all(one.call.kind == "handoff" and one.may_run and not one.running for one in others)

    def _stepped(self, fact: f.Stepped, place: Place, line: Line) -> None:
        assert line.running and line.starts
        line.steps.append(fact)

    def _finished(self, fact: f.Finished, place: Place, line: Line) -> None:
        if line.question is not None:
            assert line.question.kind != "input" and line.call.kind != "output"
        else:
            assert line.running, "an outcome comes from what ran, or from a person"
        self._answers(fact, line, "respond")
        self._end(place, line, fact)

    def _witnessed(self, fact: f.Witnessed, place: Place, line: Line) -> None:
        assert fact.attempt in line.starts
        above = [self.places[fact.path[:depth]].lines[hop] for depth, hop in enumerate(fact.path)]
        if not line.done and not self.over(fact.path) and not any(each.done for each in above):
            line.late.append(fact)

    def _handedoff(self, fact: f.HandedOff, place: Place, line: Line) -> None:
        assert line.call.kind == "handoff" and line.running
        assert line.turn not in place.handed, "of a turn's handoffs one is taken"
        others = [
            one for one in place.lines.values() if one.turn == line.turn and one.call.kind not in ("handoff", "hook")
        ]
        assert all(one.done for one in others), "a handoff comes after the turn's other calls"
        place.handed.add(line.turn)
        place.definition = None
        place.entries += 1
        self._end(place, line, fact)

    def _end(self, place: Place, line: Line, outcome: Any) -> None:
        assert not line.done and line.outcome in (None, outcome), "a call has one outcome"
        line.outcome, line.done, line.running = outcome, True, False
        if line.call.kind != "hook":
            place.settled += 1
        if place.live:  # the model did not wait for it, and has to hear of it
            place.answering, place.concluding = True, False
