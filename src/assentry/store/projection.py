"""The changes that facts make in the records, collected while the facts are folded.

Used by drives, by decisions, and to rebuild the records. No I/O here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from ..approval.grant import grant_of
from ..approval.question import evidence_of, item_of
from ..approval.standing import is_standing
from ..core import facts as f
from ..core.facts import AnyFact
from ..core.fold import fold
from ..core.rules import ASKED, verdict_of
from ..core.run import CallState, Run, deadline, questions, status
from ..definitions.item import Evidence
from ..errors import IllegalFact, UnreadableState
from .record import Change, GrantRecord, Question, Revocation, RunRecord, Settled


class Projection:
    """The changes to records that are not written yet. Call `note` after folding each fact."""

    __slots__ = ("asked", "evidence", "granted", "revoked", "settled", "standing", "starting", "used")

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.settled: list[Settled] = []
        self.evidence: dict[str, tuple[Evidence, ...]] = {}
        self.granted: list[GrantRecord] = []
        self.used: dict[str, int] = {}
        self.standing: dict[str, int] = {}
        self.revoked: list[Revocation] = []
        self.starting: dict[str, None] = {}

    def note(self, run: Run, fact: AnyFact) -> None:
        """Collect the changes of a fact, which must be the last one folded into the run."""
        change = _CHANGES.get(type(fact))
        if change is not None:
            change(self, run, fact)

    def change(self, run: Run, seq: int, facts: list[AnyFact], now: float) -> Change:
        """Return everything collected as one change, and start again empty.

        The run had `seq` facts before these `facts`. `now` is the time on the store's clock, in seconds.
        """
        made = Change(
            record=record_of(run, seq + len(facts), int(now * 1000)),
            seq=seq,
            facts=facts,
            asked=self.asked,
            settled=self.settled,
            evidence=self.evidence,
            granted=self.granted,
            used=self.used,
            revoked=self.revoked,
            standing=self.standing,
            starting=tuple(self.starting),
        )
        self.__init__()  # type: ignore[misc]
        return made

    def _decided(self, run: Run, fact: f.Approved | f.Refused | f.Finished | f.Answered) -> None:
        verdict = verdict_of(fact)
        if verdict is not None and fact.asked is not None:
            self.settled.append(Settled(fact.asked, verdict, fact.by, _at(run, fact), fact.shown, fact.looked))
        elif fact.by.startswith("grant:"):
            self._used(run, fact.by[6:])

    def _used(self, run: Run, grant: str) -> None:
        """Count the use of a grant: of the run's own in all, of a standing one in this change."""
        if is_standing(grant):
            self.standing[grant] = self.standing.get(grant, 0) + 1
        else:
            self.used[grant] = run.uses.get(grant, 0)

    def _asked(self, run: Run, fact: f.Asked) -> None:
        if fact.replaces is not None and run.decided.get(fact.replaces) is fact:  # it was still open
            self.settled.append(Settled(fact.replaces, "replaced", "runtime", _at(run, fact)))
        self.asked.append(_question(run, run.at(fact.path).calls[fact.call], fact))

    def _witnessed(self, run: Run, fact: f.Witnessed) -> None:
        state = run.at(fact.path).calls[fact.call]
        if state.phase is ASKED and state.question is not None:
            self.evidence[state.question.id] = evidence_of(state, _began(run))

    def _closed(self, run: Run, fact: f.Closed) -> None:
        """Mark the open questions of a closed run or branch as void."""
        self.settled += [Settled(id, "void", "runtime", _at(run, fact)) for id in _open(run.at(fact.path))]

    def _revoked(self, run: Run, fact: f.Revoked) -> None:
        self.revoked.append(Revocation(fact.grant, fact.by, _at(run, fact)))

    def _started(self, run: Run, fact: f.Started) -> None:
        self.starting |= dict.fromkeys(agents_behind(run, fact.path, fact.call))

    def _granted(self, run: Run, grant: f.Granted) -> None:
        self.granted.append(grant_of(run, grant, GrantRecord, run=run.id))


_CHANGES: dict[type[AnyFact], Callable[[Projection, Run, Any], None]] = {
    f.Asked: Projection._asked,
    f.Approved: Projection._decided,
    f.Refused: Projection._decided,
    f.Finished: Projection._decided,
    f.Answered: Projection._decided,
    f.Witnessed: Projection._witnessed,
    f.Closed: Projection._closed,
    f.Granted: Projection._granted,
    f.Started: Projection._started,
    f.Revoked: Projection._revoked,
}
"""The methods that collect the changes, by kind of fact."""


def agent_of(state: CallState) -> str:
    """Return the name of the agent that makes a call."""
    turn = state.turn
    return turn.definition.agent if turn.definition is not None else turn.agent


def agents_behind(run: Run, path: tuple[str, ...], call: str) -> Iterator[str]:
    """Yield the names of the agents that a call is made for, besides the run's own.

    They are the agent that makes it and, if that runs as a tool, those above: whoever began a branch, and whoever made
    the call that opened the next one.
    """
    for depth, id in enumerate((*path, call)):
        calls = run.at(path[:depth]).calls
        if depth:
            yield agent_of(next(iter(calls.values())))
        yield agent_of(calls[id])


def _question(run: Run, state: CallState, asked: f.Asked) -> Question:
    """Return the record of an open question."""
    began, agent = _began(run), agent_of(state)
    item = item_of(agent, began, asked.path, state, asked)
    return Question(
        id=asked.id,
        run=run.id,
        agent=agent,
        tool=item.tool_name,
        kind=asked.kind,
        digest=asked.digest,
        arguments=item.arguments,
        reason=item.reason,
        allowed=item.allowed,
        call=asked.call,
        call_id=item.call_id,
        path=asked.path,
        definition=state.fingerprint or state.call.definition,
        prompt=item.question,
        schema=item.schema,
        at=began + asked.at,
        until=None if asked.until is None else began + asked.until,
        due=None if asked.due is None else began + asked.due,
        replaces=item.replaces,
        evidence=item.evidence,
        reviewers=asked.reviewers,
        redact=asked.redact,
        risk=asked.risk,
        started_by=run.began.by if run.began is not None else None,
        preview=item.preview,
    )


def open_question(run: Run, id: str) -> Question | None:
    """Return the record of a question, made from the journal; None if the question is not open."""
    path, call = run.asked.get(id, ((), ""))
    if any(run.at(path[:depth]).closed is not None for depth in range(len(path) + 1)):
        return None  # its end has made the question void
    state = run.at(path).calls.get(call)
    if state is None or state.phase is not ASKED or state.question is None or state.question.id != id:
        return None
    return _question(run, state, state.question)


def _began(run: Run) -> int:
    return run.began.at if run.began is not None else 0


def _open(run: Run) -> Iterator[str]:
    """Yield the ids of the questions that are open in a run, or were when the run was closed."""
    for state in run.open.values():
        if state.phase is ASKED and state.question is not None:
            yield state.question.id
        elif state.child is not None and state.child.closed is None:
            yield from _open(state.child)


def _at(run: Run, fact: AnyFact) -> int:
    return _began(run) + fact.at


def anew(run_id: str, facts: list[AnyFact], at: int) -> Change:
    """Rebuild all records of a run from its facts; `at` is the time of the last fact."""
    run, projection = Run(), Projection()
    try:
        for fact in facts:
            fold(run, fact)
            projection.note(run, fact)
    except IllegalFact as error:
        raise UnreadableState(f"Run {run_id!r} is damaged: {error}") from None
    change = projection.change(run, 0, facts, 0)
    change.record = record_of(run, len(facts), at)
    return change


def note(questions: dict[str, Question], grants: dict[tuple[str, str], GrantRecord], change: Change) -> None:
    """Apply a change to a store's existing questions and grants; new ones are the caller's to add."""
    run = change.record.id
    for settled in change.settled:
        if (question := questions.get(settled.id)) is not None and question.run == run:
            question.verdict, question.by, question.decided = settled.verdict, settled.by, settled.at
            question.shown, question.looked = settled.shown, settled.looked
    for id, evidence in change.evidence.items():
        if (question := questions.get(id)) is not None and question.run == run:
            question.evidence = deepcopy(evidence)
    for id, count in change.used.items():
        if (grant := grants.get((run, id))) is not None:
            grants[run, id] = replace(grant, used=count)
    for taken in change.revoked:
        if (grant := grants.get((run, taken.id))) is not None:
            grants[run, taken.id] = replace(grant, revoked=taken.at, revoked_by=taken.by)


def record_of(run: Run, seq: int, now: int) -> RunRecord:
    """Return a run's entry in a list of runs."""
    state, wake = status(run), None
    if state == "working":
        wake = now
    elif state == "waiting" and (until := deadline(run)) is not None:
        wake = _began(run) + until + 1  # a decision in the deadline's own millisecond is in time
    return RunRecord(
        id=run.id,
        agent=run.began.agent if run.began is not None else "",
        status=state,
        thread=run.began.thread if run.began is not None else None,
        seq=seq,
        began=_began(run),
        changed=now,
        wake=wake,
        waiting=sum(1 for _ in questions(run)) if run.open else 0,
        started_by=run.began.by if run.began is not None else None,
        caller=run.began.caller if run.began is not None else None,
    )
