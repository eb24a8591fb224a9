"""A run: what a journal folds into, and what it owes the world.

`check` says whether a fact may follow; `fold` checks and then advances the run in place; nothing
else changes a run. `owed`, `status` and `questions` are read off it. The cost of each does not grow
with the run: open calls are kept apart, and nothing that is done is looked at again.

No I/O, no clock, no randomness and no user code may be put here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any, Literal, cast

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from ..errors import IllegalFact
from . import facts as f
from .rules import ANSWERS, ASKED, DELEGATED, DONE, NEW, NEXT, READY, REFUSED, RUNNING, Phase

Status = Literal["idle", "working", "waiting", "done", "exhausted", "cancelled", "closed"]
Outcome = f.Finished | f.Refused | f.HandedOff | f.Concluded


class Proposal(Struct, frozen=True):
    """What Assent reads of a provider's item that is a call."""

    name: str = ""
    arguments: str = ""
    call_id: str | None = None
    id: str | None = None
    server_label: str | None = None


_proposals = Decoder(list[Proposal]).decode


class CallState(Struct, eq=False):
    """One call, as far as it has come."""

    call: f.Call
    turn: Turn
    definition: f.Defined | None
    phase: Phase = NEW
    tool: str = ""
    """The tool that will run: the proposed one, unless a person chose another."""
    args: Raw = f.NOTHING
    """The arguments that will run, where they are not the proposed ones as they stand."""
    digest: str | None = None
    """Of what was approved, where a person was asked."""
    fingerprint: str | None = None
    """Of the tool as it was accepted after it changed."""
    question: f.Asked | None = None
    approval: f.Approved | None = None
    attempt: int = 0
    answers: tuple[tuple[f.Asked, f.Answered], ...] = ()
    steps: tuple[f.Stepped, ...] = ()
    outcome: Outcome | None = None
    told: str | None = None
    child: Run | None = None
    read: Proposal | None = None

    @property
    def proposal(self) -> Proposal:
        """The call as the model put it."""
        if self.read is None:
            reply = self.turn.reply
            if isinstance(reply, f.Proposed):
                self.read = Proposal(reply.call.tool, bytes(reply.args).decode())
            else:
                items = _proposals(reply.items)
                for state in self.turn.calls:
                    state.read = items[state.call.item]
        return cast(Proposal, self.read)

    @property
    def edited(self) -> bool:
        """Whether a person changed what runs."""
        given = self.approval
        return given is not None and given.asked is not None and bool(given.args or given.tool)

    def allowed(self) -> tuple[f.Verdict, ...]:
        """The verdicts that fit the question now open."""
        question = self.question
        if question is None or self.phase is not ASKED:
            return ()
        return ANSWERS[question.kind] if question.allowed is None else question.allowed


class Turn(Struct, eq=False):
    """One reply of the model and its calls."""

    reply: f.Replied | f.Proposed
    agent: str
    calls: list[CallState]
    left: int = 0
    """How many of its calls are not done."""
    handed: bool = False


Entry = f.Said | Turn | f.HandedOff


class Run(Struct, eq=False):
    """A folded journal. Read it freely; only `fold` may change it."""

    began: f.Began | None = None
    seq: int = 0
    agent: str = ""
    """The place of the agent that has the word."""
    max_turns: int = 0
    turns: int = 0
    live: bool = False
    batch: bool = False
    definition: f.Defined | None = None
    entries: list[Entry] = field(default_factory=list)
    """The talk in the order the model hears it."""
    unheard: list[f.Said] = field(default_factory=list)
    said: int = 0
    calls: dict[str, CallState] = field(default_factory=dict)
    open: dict[str, CallState] = field(default_factory=dict)
    guards: dict[str, None] = field(default_factory=dict)
    """The input guardrails that are not in yet."""
    guarded: list[f.Guarded] = field(default_factory=list)
    answering: bool = False
    concluding: bool = False
    concluded: f.Concluded | None = None
    cancelled: f.Cancelled | None = None
    closed: f.Closed | None = None
    saved: int = 0
    counted: int = 0
    used: f.Usage = field(default_factory=f.Usage)
    asked: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """Where each question of the run and its branches was asked. Only in the run itself."""
    decided: dict[str, f.CallFact] = field(default_factory=dict)
    """What settled each question. Only in the run itself."""
    grants: dict[str, f.Granted] = field(default_factory=dict)
    """Who decided for later calls too. Only in the run itself."""
    talk: Any = None
    """What `transcript` has made of the entries so far."""

    @property
    def id(self) -> str:
        """The run's own id."""
        return self.began.run if self.began else ""

    @property
    def usage(self) -> f.Usage:
        """What the run's own model calls have used; each reply is counted once, when first asked for."""
        for entry in self.entries[self.counted :]:
            if type(entry) is Turn and type(entry.reply) is f.Replied and entry.reply.usage is not None:
                self.used.add(entry.reply.usage)
        self.counted = len(self.entries)
        return self.used

    def at(self, path: tuple[str, ...]) -> Run:
        """The branch under these calls."""
        run = self
        for hop in path:
            state = run.calls.get(hop)
            if state is None or state.child is None:
                raise IllegalFact(f"There is no branch under call {hop!r}.")
            run = state.child
        return run

    def fork(self) -> Run:
        """A run of its own with the same past. What is done is shared; what is open is copied."""
        turns: dict[int, Turn] = {}
        calls = dict(self.calls)
        for id, old in self.open.items():
            turn = turns.get(id_of := _identity(old.turn))
            if turn is None:
                turn = turns[id_of] = _copy(old.turn)
                turn.calls = list(turn.calls)
            new = _copy(old)
            new.turn = turn
            new.child = old.child.fork() if old.child else None
            turn.calls[old.turn.calls.index(old)] = new
            calls[id] = new
        run: Run = _copy(self)
        run.entries = [turns.get(_identity(e), e) for e in self.entries] if turns else list(self.entries)
        run.calls = calls
        run.open = {id: calls[id] for id in self.open}
        run.unheard, run.guarded = list(self.unheard), list(self.guarded)
        run.guards, run.asked = dict(self.guards), dict(self.asked)
        run.decided, run.grants = dict(self.decided), dict(self.grants)
        run.used = _copy(self.used)
        run.talk = None
        return run


_identity = id


def _copy(struct: Any) -> Any:
    return struct.__copy__()


# -- checking ------------------------------------------------------------------------------------


def check(run: Run, fact: f.AnyFact) -> None:
    """Raise `IllegalFact` unless the fact may follow. Changes nothing."""
    _STEP[type(fact)][0](run, _locate(run, fact), fact)


def fold(run: Run, fact: f.AnyFact) -> None:
    """Check the fact, then advance the run by it: the only transition there is."""
    admit, advance = _STEP[type(fact)]
    branch = run if not fact.path and run.closed is None else _locate(run, fact)
    advance(run, branch, admit(run, branch, fact), fact)
    run.seq += 1


def _locate(root: Run, fact: f.AnyFact) -> Run:
    """The branch a fact is about; one that opens a branch is about the call in its parent."""
    run, late = root, type(fact) is f.Witnessed
    path = fact.path[:-1] if type(fact) is f.Began else fact.path
    for hop in (None, *path):
        if hop is not None:
            state = run.calls.get(hop)
            if state is None or state.child is None:
                raise _illegal(root, fact, f"there is no branch under call {hop!r}")
            run = state.child
        if run.closed is not None and not late:
            raise _illegal(root, fact, "the run is closed")
    return run


def _illegal(run: Run, fact: f.AnyFact, why: str) -> IllegalFact:
    return IllegalFact(f"{type(fact).__name__} cannot follow fact {run.seq} of this journal: {why}.")


def _call(root: Run, run: Run, fact: Any) -> tuple[CallState, Phase]:
    """The call the fact is about and its next phase, if the table has the row."""
    state = run.calls.get(fact.call)
    phase = NEXT[type(fact)].get(state.phase) if state is not None else None
    if state is None or phase is None:
        raise _illegal(root, fact, f"call {fact.call!r} is {state.phase.name if state else 'not there'}")
    return state, phase


def _verdict(root: Run, run: Run, fact: Any) -> tuple[CallState, Phase]:
    """A verdict: on the question now open, in time and of a kind that fits; or on no question."""
    step = _call(root, run, fact)
    if step[0].phase is ASKED:
        _answers(root, step[0], fact)
    elif fact.asked is not None:
        raise _illegal(root, fact, f"question {fact.asked!r} is not open")
    return step


def _answers(root: Run, state: CallState, fact: Any) -> None:
    question = state.question
    if question is None or fact.asked != question.id:
        open = question.id if question else None
        raise _illegal(root, fact, f"the open question of call {fact.call!r} is {open!r}, not {fact.asked!r}")
    verdict = _VERDICTS[type(fact)]
    if verdict == "approve" and (fact.args or fact.tool is not None):
        verdict = "edit"
    if verdict not in state.allowed():
        raise _illegal(root, fact, f"{verdict!r} does not answer this question")
    if question.until is not None and fact.at > question.until and verdict != "reject":
        raise _illegal(root, fact, "the question's deadline has passed")


_VERDICTS: dict[type[f.Fact], f.Verdict] = {
    f.Approved: "approve",
    f.Refused: "reject",
    f.Finished: "respond",
    f.Answered: "respond",
}


def _finished(root: Run, run: Run, fact: f.Finished) -> tuple[CallState, Phase]:
    step = _verdict(root, run, fact)
    state = step[0]
    if state.phase is ASKED:
        if state.question is not None and state.question.kind == "input":
            raise _illegal(root, fact, "what a body asks is answered, and the body goes on")
        if state.call.kind == "output":
            raise _illegal(root, fact, "a final output is concluded, not finished")
    elif state.child is not None and status(state.child) not in ENDED:
        raise _illegal(root, fact, f"the branch under call {fact.call!r} has not ended")
    return step


def _answered(root: Run, run: Run, fact: f.Answered) -> tuple[CallState, Phase]:
    state, phase = _verdict(root, run, fact)
    if state.question is None or state.question.kind != "input":
        raise _illegal(root, fact, "only what a body asks can be answered so")
    return state, phase


def _approved(root: Run, run: Run, fact: f.Approved) -> tuple[CallState, Phase]:
    step = _verdict(root, run, fact)
    if fact.tool is not None and step[0].phase is NEW:
        raise _illegal(root, fact, "only a person may choose another tool")
    return step


def _asked(root: Run, run: Run, fact: f.Asked) -> tuple[CallState, Phase]:
    state, phase = _call(root, run, fact)
    old = state.question if state.phase is ASKED else None
    if fact.replaces != (old.id if old else None):
        raise _illegal(root, fact, f"it must replace the question now open, {old.id if old else None!r}")
    if not fact.id or fact.id in root.asked:
        raise _illegal(root, fact, f"the question id {fact.id!r} is used already")
    if (fact.kind == "approval") == (state.phase is RUNNING) or (old and old.kind != fact.kind):
        raise _illegal(root, fact, f"a question of kind {fact.kind!r} does not arise in {state.phase.name}")
    if fact.allowed is not None and not set(fact.allowed) <= set(ANSWERS[fact.kind]):
        raise _illegal(root, fact, f"{fact.allowed} are not all answers to a question of kind {fact.kind!r}")
    return state, phase


def _started(root: Run, run: Run, fact: f.Started) -> tuple[CallState, Phase]:
    state, phase = _call(root, run, fact)
    if fact.attempt != state.attempt + 1:
        raise _illegal(root, fact, f"attempt {state.attempt + 1} is due, not {fact.attempt}")
    if state.call.kind == "agent" or state.call.kind == "output":
        raise _illegal(root, fact, f"a call of kind {state.call.kind!r} has no body")
    _released(root, run, state, fact)
    return state, phase


def _released(root: Run, run: Run, state: CallState, fact: f.AnyFact) -> None:
    if root.cancelled is not None:
        raise _illegal(root, fact, "the run is cancelled")
    if run.guards:
        raise _illegal(root, fact, "input guardrails are not in yet")
    if _held(run):
        raise _illegal(root, fact, "the turn is released as a batch and has open questions")
    if state.call.kind == "handoff" and not _may_hand_off(run, state):
        raise _illegal(root, fact, "a handoff waits for the turn's other calls, and only one is taken")


def _witnessed(root: Run, run: Run, fact: f.Witnessed) -> tuple[CallState, Phase]:
    state, phase = _call(root, run, fact)
    if not 1 <= fact.attempt <= state.attempt:
        raise _illegal(root, fact, f"there was no attempt {fact.attempt}")
    return state, phase


def _handed_off(root: Run, run: Run, fact: f.HandedOff) -> tuple[CallState, Phase]:
    state, phase = _call(root, run, fact)
    if state.call.kind != "handoff" or state.turn.handed:
        raise _illegal(root, fact, "it is not a handoff, or another one was taken")
    return state, phase


def _began(root: Run, run: Run, fact: f.Began) -> tuple[CallState | None, Phase]:
    if fact.max_turns < 1:
        raise _illegal(root, fact, "max_turns must be at least 1")
    if not fact.path:
        if run.began is not None:
            raise _illegal(root, fact, "the run began already")
        if not fact.run:
            raise _illegal(root, fact, "the run needs an id")
        return None, NEW
    state = run.calls.get(fact.path[-1])
    if state is None or state.call.kind != "agent" or state.phase is not READY:
        raise _illegal(root, fact, f"call {fact.path[-1]!r} is not an agent call that may begin")
    _released(root, run, state, fact)
    return state, NEXT[f.Began][READY]


def _lives(root: Run, run: Run, fact: Any) -> None:
    if run.began is None:
        raise _illegal(root, fact, "the journal has no beginning")


def _of_root(root: Run, run: Run, fact: Any) -> None:
    _lives(root, run, fact)
    if fact.path:
        raise _illegal(root, fact, "it belongs to the run itself, not to a branch")


def _replied(root: Run, run: Run, fact: f.Replied) -> None:
    if run.began is None:
        _lives(root, run, fact)
    heard = run.said - len(run.unheard)
    if not heard <= fact.saw <= run.said:
        raise _illegal(root, fact, f"it says it heard {fact.saw} inputs of {run.said}, of which {heard} were answered")
    if not run.live:
        if run.open:
            raise _illegal(root, fact, "calls of the turn before are open")
        if fact.saw == heard and (run.concluding or not run.answering):
            raise _illegal(root, fact, "there is nothing to reply to")
        if run.turns >= run.max_turns:
            raise _illegal(root, fact, f"its {run.max_turns} turns are used up")
    if fact.calls:
        _fresh(root, run, fact, fact.calls)


def _fresh(root: Run, run: Run, fact: f.AnyFact, calls: tuple[f.Call, ...]) -> None:
    known = run.calls
    for call in calls:
        if not call.id or call.id in known:
            raise _illegal(root, fact, f"the call id {call.id!r} is empty or used already")
    if len(calls) > 1 and len({call.id for call in calls}) < len(calls):
        raise _illegal(root, fact, "two of its calls have one id")


def _proposed(root: Run, run: Run, fact: f.Proposed) -> None:
    _lives(root, run, fact)
    if fact.call.kind not in ("output", "hook"):
        raise _illegal(root, fact, f"the runtime does not propose a call of kind {fact.call.kind!r}")
    if fact.call.kind == "output" and (run.open or not run.concluding or run.unheard):
        raise _illegal(root, fact, "there is no final output to propose")
    _fresh(root, run, fact, (fact.call,))


def _concluded(root: Run, run: Run, fact: f.Concluded) -> tuple[CallState, Phase] | None:
    _lives(root, run, fact)
    if run.unheard or not run.concluding or run.live:
        raise _illegal(root, fact, "there is nothing to conclude")
    if len(run.open) == 1:
        state = next(iter(run.open.values()))
        if state.call.kind == "output" and state.phase is READY and fact.call == state.call.id:
            return state, NEXT[f.Concluded][READY]
    if run.open:
        raise _illegal(root, fact, "calls are open")
    if fact.call is not None and fact.call not in run.calls:
        raise _illegal(root, fact, f"there is no call {fact.call!r}")
    return None


def _continued(root: Run, run: Run, fact: f.Continued) -> None:
    _lives(root, run, fact)
    if run.open or not run.concluding or not run.answering:
        raise _illegal(root, fact, "no outputs of calls wait to be looked at")


def _guarded(root: Run, run: Run, fact: f.Guarded) -> None:
    _lives(root, run, fact)
    if fact.where.startswith("tool"):
        _call(root, run, fact)
    elif fact.call is not None:
        raise _illegal(root, fact, "only a tool's guardrail is about a call")
    elif fact.where == "input" and fact.name not in run.guards:
        raise _illegal(root, fact, f"no input guardrail {fact.name!r} is awaited")


def _granted(root: Run, run: Run, fact: f.Granted) -> None:
    _of_root(root, run, fact)
    if not fact.id or fact.id in run.grants:
        raise _illegal(root, fact, f"the grant id {fact.id!r} is used already")


def _revoked(root: Run, run: Run, fact: f.Revoked) -> None:
    _of_root(root, run, fact)
    if fact.grant not in run.grants:
        raise _illegal(root, fact, f"there is no grant {fact.grant!r}")


def _limited(root: Run, run: Run, fact: f.Limited) -> None:
    _lives(root, run, fact)
    if fact.max_turns < 1:
        raise _illegal(root, fact, "max_turns must be at least 1")


def _cancelled(root: Run, run: Run, fact: f.Cancelled) -> None:
    _of_root(root, run, fact)
    if run.cancelled:
        raise _illegal(root, fact, "the run is cancelled already")


def _resumed(root: Run, run: Run, fact: f.Resumed) -> None:
    _of_root(root, run, fact)
    if not run.cancelled:
        raise _illegal(root, fact, "the run is not cancelled")


def _saved(root: Run, run: Run, fact: f.Saved) -> None:
    _lives(root, run, fact)
    if not run.saved <= fact.upto <= len(run.entries):
        raise _illegal(root, fact, f"entries {run.saved} to {len(run.entries)} can be saved, not up to {fact.upto}")


# -- advancing -----------------------------------------------------------------------------------


def _move(run: Run, state: CallState, phase: Phase) -> None:
    state.phase = phase
    if phase is DONE:
        del run.open[state.call.id]
        state.turn.left -= 1


def _on_approved(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Approved) -> None:
    state, phase = step
    if fact.asked is not None:
        root.decided[fact.asked] = fact
    if fact.args:
        state.args = fact.args
    if fact.digest is not None:
        state.digest = fact.digest
    if fact.tool is not None:
        state.tool = fact.tool
    state.approval, state.phase = fact, phase


def _on_refused(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Refused) -> None:
    state, phase = step
    if fact.asked is not None:
        root.decided[fact.asked] = fact
    state.outcome, state.phase = fact, phase


def _on_told(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Told) -> None:
    state, phase = step
    state.told = fact.text
    _move(run, state, phase)
    if state.call.kind == "output":  # the model hears why its output was refused, and goes on
        run.concluding, run.answering = False, True


def _on_asked(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Asked) -> None:
    state, phase = step
    if fact.replaces is not None:
        root.decided[fact.replaces] = fact
    state.question, state.phase = fact, phase
    if fact.kind == "approval":
        state.digest, state.approval = fact.digest, None
        if fact.args:
            state.args = fact.args
    root.asked[fact.id] = (fact.path, fact.call)


def _on_answered(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Answered) -> None:
    state, phase = step
    root.decided[fact.asked] = fact
    if state.question is not None:
        state.answers = (*state.answers, (state.question, fact))
    state.phase = phase


def _on_started(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Started) -> None:
    state, phase = step
    state.attempt, state.phase = fact.attempt, phase


def _on_stepped(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Stepped) -> None:
    step[0].steps = (*step[0].steps, fact)


def _on_finished(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Finished) -> None:
    state, phase = step
    if fact.asked is not None:
        root.decided[fact.asked] = fact
    state.outcome = fact
    _move(run, state, phase)


def _on_redefined(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Redefined) -> None:
    step[0].fingerprint = fact.fingerprint


def _on_handed_off(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.HandedOff) -> None:
    state, phase = step
    state.outcome, state.turn.handed = fact, True
    _move(run, state, phase)
    run.agent, run.definition = fact.to, None
    run.entries.append(fact)


def _on_began(root: Run, run: Run, step: tuple[CallState | None, Phase], fact: f.Began) -> None:
    state, phase = step
    if state is not None:
        state.phase = phase
        run = state.child = Run()
    run.began, run.agent, run.max_turns = fact, fact.agent, fact.max_turns
    run.guards = dict.fromkeys(fact.guards)
    run.live, run.batch = fact.live, fact.release == "batch"


def _on_said(root: Run, run: Run, step: None, fact: f.Said) -> None:
    run.said += 1
    run.unheard.append(fact)
    run.concluded = None


def _on_defined(root: Run, run: Run, step: None, fact: f.Defined) -> None:
    run.definition = fact


def _on_replied(root: Run, run: Run, step: None, fact: f.Replied) -> None:
    calls = fact.calls
    if run.unheard:
        heard = fact.saw - run.said + len(run.unheard)
        run.entries += run.unheard[:heard]
        del run.unheard[:heard]
    run.turns += 1
    run.concluded = None
    run.answering = calls != ()
    run.concluding = not calls or (run.definition is not None and run.definition.finishing)
    _add(run, fact, calls)


def _add(run: Run, reply: f.Replied | f.Proposed, calls: tuple[f.Call, ...], args: Raw = f.NOTHING) -> None:
    turn = Turn(reply, run.agent, [], len(calls))
    run.entries.append(turn)
    for call in calls:
        state = CallState(call, turn, run.definition, NEW, call.tool, args)
        turn.calls.append(state)
        run.calls[call.id] = run.open[call.id] = state


def _on_proposed(root: Run, run: Run, step: None, fact: f.Proposed) -> None:
    _add(run, fact, (fact.call,), fact.args)


def _on_concluded(root: Run, run: Run, step: tuple[CallState, Phase] | None, fact: f.Concluded) -> None:
    if step is not None:
        step[0].outcome = fact
        _move(run, *step)
    run.concluding, run.answering, run.concluded = False, False, fact


def _on_continued(root: Run, run: Run, step: None, fact: f.Continued) -> None:
    run.concluding = False


def _on_guarded(root: Run, run: Run, step: None, fact: f.Guarded) -> None:
    run.guarded.append(fact)
    if fact.where == "input":
        del run.guards[fact.name]


def _on_granted(root: Run, run: Run, step: None, fact: f.Granted) -> None:
    run.grants[fact.id] = fact


def _on_revoked(root: Run, run: Run, step: None, fact: f.Revoked) -> None:
    del run.grants[fact.grant]


def _on_limited(root: Run, run: Run, step: None, fact: f.Limited) -> None:
    run.max_turns = fact.max_turns


def _on_cancelled(root: Run, run: Run, step: None, fact: f.Cancelled) -> None:
    run.cancelled = fact


def _on_resumed(root: Run, run: Run, step: None, fact: f.Resumed) -> None:
    run.cancelled = None


def _on_saved(root: Run, run: Run, step: None, fact: f.Saved) -> None:
    run.saved = fact.upto


def _on_closed(root: Run, run: Run, step: None, fact: f.Closed) -> None:
    run.closed = fact


def _on_witnessed(root: Run, run: Run, step: tuple[CallState, Phase], fact: f.Witnessed) -> None:
    """Evidence changes nothing; it is in the journal."""


_STEP: dict[type[f.Fact], tuple[Callable[..., Any], Callable[..., None]]] = {
    f.Began: (_began, _on_began),
    f.Said: (_lives, _on_said),
    f.Defined: (_lives, _on_defined),
    f.Replied: (_replied, _on_replied),
    f.Proposed: (_proposed, _on_proposed),
    f.Concluded: (_concluded, _on_concluded),
    f.Continued: (_continued, _on_continued),
    f.Guarded: (_guarded, _on_guarded),
    f.Granted: (_granted, _on_granted),
    f.Revoked: (_revoked, _on_revoked),
    f.Limited: (_limited, _on_limited),
    f.Cancelled: (_cancelled, _on_cancelled),
    f.Resumed: (_resumed, _on_resumed),
    f.Saved: (_saved, _on_saved),
    f.Closed: (_lives, _on_closed),
    f.Asked: (_asked, _on_asked),
    f.Approved: (_approved, _on_approved),
    f.Refused: (_verdict, _on_refused),
    f.Told: (_call, _on_told),
    f.Answered: (_answered, _on_answered),
    f.Redefined: (_call, _on_redefined),
    f.Started: (_started, _on_started),
    f.Stepped: (_call, _on_stepped),
    f.Finished: (_finished, _on_finished),
    f.Witnessed: (_witnessed, _on_witnessed),
    f.HandedOff: (_handed_off, _on_handed_off),
}


# -- reading -------------------------------------------------------------------------------------

ENDED = ("done", "exhausted", "closed")


def _awaits_model(run: Run) -> bool:
    return bool(run.unheard) or (run.answering and not run.concluding)


def _held(run: Run) -> bool:
    """Whether a turn released as a batch still has an open verdict."""
    return run.batch and any(
        s.phase is NEW or (s.phase is ASKED and s.question is not None and s.question.kind == "approval")
        for s in run.open.values()
    )


def _may_hand_off(run: Run, state: CallState) -> bool:
    """Whether the turn's other calls are done but for handoffs that wait behind this one."""
    if state.turn.handed:
        return False
    rest = (s for s in run.open.values() if s is not state)
    return all(s.call.kind == "handoff" and s.phase is READY for s in rest)


def owed(run: Run, mine: Container[tuple[tuple[str, ...], str | None]] = ()) -> list[f.AnyEffect]:
    """What must happen next. `mine`: the calls (path, id) that the one who asks is executing now."""
    out: list[f.AnyEffect] = []
    if run.cancelled is None:
        _owed(run, (), mine, out)
    return out


def _owed(run: Run, path: tuple[str, ...], mine: Container[Any], out: list[f.AnyEffect]) -> None:
    if run.began is None or run.closed is not None:
        return
    if run.guards:
        out += [f.Guard(None, path, name) for name in run.guards]
    if run.open:
        _owed_calls(run, path, mine, out)
    elif not run.live:
        if _awaits_model(run):
            if run.turns < run.max_turns:
                out.append(f.AskModel(None, path, run.said))
        elif run.concluding and not run.guards:
            out.append(f.Conclude(None, path))


def _owed_calls(run: Run, path: tuple[str, ...], mine: Container[Any], out: list[f.AnyEffect]) -> None:
    stopped = bool(run.guards) or _held(run)
    for id, state in run.open.items():
        phase = state.phase
        if phase is NEW:
            out.append(f.Judge(id, path))
        elif phase is READY:
            effect = _owed_ready(run, path, state, stopped)
            if effect is not None:
                out.append(effect)
        elif phase is RUNNING:
            if (path, id) not in mine:
                out.append(f.Settle(id, path))
        elif phase is REFUSED:
            out.append(f.Tell(id, path))
        elif phase is DELEGATED and state.child is not None:
            if status(state.child) in ENDED:
                out.append(f.Return(id, path))
            else:
                _owed(state.child, (*path, id), mine, out)


def _owed_ready(run: Run, path: tuple[str, ...], state: CallState, stopped: bool) -> f.AnyEffect | None:
    id, kind = state.call.id, state.call.kind
    if kind == "output":
        return f.Conclude(id, path)
    if kind == "handoff":
        if state.turn.handed:
            return f.Judge(id, path)
        first = next(s for s in run.open.values() if s.call.kind == "handoff" and s.phase is READY)
        stopped = stopped or state is not first or not _may_hand_off(run, state)
    return None if stopped else f.Execute(id, path)


def status(run: Run) -> Status:
    """Where the run stands: someone must work on it, someone must answer, or it is over."""
    if run.closed is not None:
        return "closed"
    if run.cancelled is not None:
        return "cancelled"
    if owed(run):
        return "working"
    if run.open:
        return "waiting"
    if run.began is not None and not run.live and _awaits_model(run):
        return "exhausted"
    return "done" if run.concluded is not None else "idle"


def questions(run: Run, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CallState]]:
    """The open questions, each with the path it is under, in the order of the calls, depth first."""
    if run.closed is not None:
        return
    for id, state in run.open.items():
        if state.phase is ASKED:
            yield path, state
        elif state.child is not None:
            yield from questions(state.child, (*path, id))


def deadline(run: Run) -> int | None:
    """When the next open question runs out of time."""
    return min(
        (s.question.until for _, s in questions(run) if s.question and s.question.until is not None), default=None
    )
