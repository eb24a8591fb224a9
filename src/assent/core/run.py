"""A run: what a journal folds into, and what can be read off it.

`owed`, `status` and `questions` are derived and never stored. Their cost does not grow with the
run: open calls are kept apart, and nothing that is done is looked at again. Only `fold` and `replay` change one.

No I/O, no clock, no randomness and no user code may be put here.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Literal

from msgspec import MsgspecError, Raw, Struct, field
from msgspec.json import Decoder
from msgspec.structs import replace

from ..errors import IllegalFact, UnreadableState
from . import facts as f
from .rules import ANSWERS, ASKED, NEW, READY, REFUSED, RUNNING, Phase

Status = Literal["idle", "working", "waiting", "done", "exhausted", "cancelled", "closed"]
Outcome = f.Finished | f.Refused | f.HandedOff | f.Concluded


class Proposal(Struct, frozen=True):
    """What Assent reads of a provider's item that is a call."""

    name: str = ""
    arguments: str = ""
    call_id: str | None = None
    id: str | None = None
    server_label: str | None = None


_items = Decoder(list[Raw]).decode
_proposal = Decoder(Proposal).decode


class CallState(Struct, eq=False):
    """One call, as far as it has come."""

    call: f.Call
    turn: Turn
    args: Raw = f.NOTHING
    """The arguments that will run, where they are not the proposed ones as they stand."""
    fills: Raw = f.NOTHING
    """The defaults to fill into the proposed arguments."""
    phase: Phase = NEW
    chosen: str | None = None
    """The tool a person chose instead."""
    digest: str | None = None
    """Of what was approved, where a person was asked."""
    fingerprint: str | None = None
    """Of the tool a person chose, or as it was accepted after it changed."""
    question: f.Asked | None = None
    approval: f.Approved | None = None
    passed: str | None = None
    """The question that a person approved last; if what was approved changes, a new question replaces it."""
    edited: bool = False
    """Whether a person changed what runs."""
    attempt: int = 0
    fence: int = 0
    """The fence of the lease under which the attempt was begun."""
    retries: int = 0
    """How many attempts in a row came to nothing, since a person last had a say in it."""
    void: int = 0
    """How many attempts are known to have done nothing: the body was not entered, or the tool's probe says so."""
    answers: tuple[tuple[f.Asked, f.Answered], ...] = ()
    steps: tuple[f.Stepped, ...] = ()
    witnessed: tuple[f.Witnessed, ...] = ()
    """What came too late to count, while the call was open."""
    outcome: Outcome | None = None
    words: str | None = None
    """What whoever refused wants the model to be told."""
    told: str | None = None
    child: Run | None = None
    read: Proposal | None = None

    @property
    def proposal(self) -> Proposal:
        """The call as the model put it."""
        if self.read is None:
            reply = self.turn.reply
            if isinstance(reply, f.Proposed):
                self.read = Proposal(reply.proposal.tool, bytes(reply.args).decode())
            else:
                try:
                    self.read = _proposal(self.turn.items[self.call.item])
                except (MsgspecError, IndexError, UnicodeDecodeError) as error:
                    raise UnreadableState(f"This run is damaged: a call's item cannot be read ({error}).") from None
        return self.read

    @property
    def tool(self) -> str:
        """The tool that will run."""
        return self.chosen or self.call.tool

    @property
    def begun(self) -> bool:
        """Whether its body may have done something."""
        return self.attempt > self.void

    def allowed(self) -> tuple[f.Verdict, ...]:
        """The verdicts that fit the question now open."""
        question = self.question
        if question is None or self.phase is not ASKED:
            return ()
        return self.answers_to(question.kind) if question.allowed is None else question.allowed

    def answers_to(self, kind: f.QuestionKind) -> tuple[f.Verdict, ...]:
        """The verdicts that can fit a question of this kind about this call."""
        fit = ANSWERS[kind]
        return fit if self.call.kind != "output" else tuple(v for v in fit if v != "respond")


class Turn(Struct, eq=False):
    """One reply of the model and its calls."""

    reply: f.Replied | f.Proposed
    agent: str
    calls: list[CallState]
    left: int = 0
    """How many of its calls are not done."""
    definition: f.Defined | None = None
    handed: bool = False
    parts: list[Raw] | None = None

    @property
    def items(self) -> list[Raw]:
        """The reply's items, each as it came."""
        if self.parts is None:
            self.parts = [] if isinstance(self.reply, f.Proposed) else _items(self.reply.items)
        return self.parts


Entry = f.Said | Turn | f.HandedOff


class Run(Struct, eq=False):
    """A folded journal. Read it freely; only `fold` and `replay` may change it."""

    began: f.Began | None = None
    seq: int = 0
    agent: str = ""
    """The place of the agent that has the word."""
    max_turns: int = 0
    turns: int = 0
    live: bool = False
    batch: bool = False
    definition: f.Defined | None = None
    entries: list[Entry] = []
    """The talk in the order the model hears it."""
    unheard: list[f.Said] = []
    said: int = 0
    calls: dict[str, CallState] = {}
    open: dict[str, CallState] = {}
    guards: dict[str, None] = {}
    """The input guardrails that are not in yet."""
    armed: tuple[str, ...] = ()
    """The input guardrails that must look at what was said last."""
    guarded: list[f.Guarded] = []
    watched: int = 0
    """How many inputs guardrails have looked at."""
    branches: list[str] = []
    """The agent calls that opened a branch."""
    answering: bool = False
    concluding: bool = False
    concluded: f.Concluded | None = None
    cancelled: f.Cancelled | None = None
    closed: f.Closed | None = None
    saved: int = 0
    counted: int = 0
    used: f.Usage = field(default_factory=f.Usage)
    asked: dict[str, tuple[tuple[str, ...], str]] = {}
    """Where each question of the run and its branches was asked. Only in the run itself."""
    decided: dict[str, f.CallFact] = {}
    """What settled each question. Only in the run itself."""
    grants: dict[str, f.Granted] = {}
    """Who decided for later calls too. Only in the run itself."""
    uses: dict[str, int] = {}
    """How many calls each grant has decided. Only in the run itself."""
    revoked: dict[str, f.Revoked] = {}
    """The grants that were taken back. Only in the run itself."""
    marks: dict[str, dict[str, str]] = {}
    """The marks of the tools of each definition, by its digest. Only in the run itself."""
    talk: Any = None
    """What `transcript` has made of the entries so far."""

    @property
    def id(self) -> str:
        """The run's own id."""
        return self.began.run if self.began else ""

    @property
    def usage(self) -> f.Usage:
        """What the run's model calls and those of its branches have used; of its own, each is counted once."""
        for entry in self.entries[self.counted :]:
            if type(entry) is Turn and type(entry.reply) is f.Replied:
                self.used.add(usage_of(entry.reply))
        self.counted = len(self.entries)
        if not self.branches:
            return self.used
        used = replace(self.used)
        for child in self.children():
            used.add(child.usage)
        return used

    def news(self, saw: int) -> list[f.Said]:
        """What the model has not answered of the first `saw` inputs."""
        return self.unheard[: saw - (self.said - len(self.unheard))]

    def children(self) -> list[Run]:
        """The branches that calls of this run have opened, done ones too."""
        return [child for call in self.branches if (child := self.calls[call].child) is not None]

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
        calls = self.calls.copy()
        for id, old in self.open.items():
            turn = turns.get(id_of := _identity(old.turn))
            if turn is None:
                turn = turns[id_of] = replace(old.turn, calls=old.turn.calls.copy())
            new = replace(old, turn=turn, child=old.child.fork() if old.child else None)
            turn.calls[old.turn.calls.index(old)] = new
            calls[id] = new
        return replace(
            self,
            entries=[turns.get(_identity(e), e) for e in self.entries] if turns else self.entries.copy(),
            calls=calls,
            open={id: calls[id] for id in self.open},
            unheard=self.unheard.copy(),
            guarded=self.guarded.copy(),
            branches=self.branches.copy(),
            guards=self.guards.copy(),
            asked=self.asked.copy(),
            decided=self.decided.copy(),
            grants=self.grants.copy(),
            uses=self.uses.copy(),
            revoked=self.revoked.copy(),
            marks=self.marks.copy(),
            used=replace(self.used),
            talk=None,
        )


_identity = id
NUMBERS = len(f.Usage.__struct_fields__)


def usage_of(reply: f.Replied) -> f.Usage:
    """What a reply has used; numbers that this Assent has no name for are left out."""
    return f.Usage(*reply.usage[:NUMBERS])


# -- reading -------------------------------------------------------------------------------------

UNDER_WAY = ("working", "waiting")
"""A run of another status is not for whoever drives what is owed."""
ENDED = ("done", "exhausted", "closed")


def awaits_model(run: Run) -> bool:
    """Whether something was said or done that the model has not answered."""
    return bool(run.unheard) or (run.answering and not run.concluding)


def held(run: Run) -> bool:
    """Whether a turn released as a batch still has an open verdict."""
    for s in run.open.values() if run.batch else ():
        if s.phase is NEW or (s.phase is ASKED and s.question is not None and s.question.kind == "approval"):
            return True
    return False


def may_hand_off(run: Run, state: CallState) -> bool:
    """Whether the turn's other calls are done but for handoffs that wait behind this one."""
    if state.turn.handed:
        return False
    rest = (s for s in run.open.values() if s is not state)
    return all(s.call.kind == "handoff" and s.phase is READY for s in rest)


def spent(run: Run, grant: f.Granted, at: int) -> str | None:
    """Why a grant decides no more calls at this time; None if it does."""
    if grant.max_uses is not None and run.uses.get(grant.id, 0) >= grant.max_uses:
        return f"grant {grant.id!r} is used up"
    if grant.until is not None and at > grant.until:
        return f"grant {grant.id!r} has expired"
    return None


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
        if awaits_model(run):
            if run.turns < run.max_turns:
                out.append(f.AskModel(None, path, run.said))
        elif run.concluding and not run.guards:
            out.append(f.Conclude(None, path))


def _owed_calls(run: Run, path: tuple[str, ...], mine: Container[Any], out: list[f.AnyEffect]) -> None:
    guarded = bool(run.guards)
    stopped = guarded or (len(run.open) > 1 and held(run))  # nothing holds back a call that is alone
    for id, state in run.open.items():
        phase, child = state.phase, state.child
        if child is not None:  # it is delegated
            if not guarded:
                before = len(out)
                _owed(child, (*path, id), mine, out)
                if len(out) == before and ended(child):
                    out.append(f.Return(id, path))
        elif phase is NEW:
            out.append(f.Judge(id, path))
        elif phase is READY:
            if state.call.kind in _WAITS:
                _owed_ready(run, path, state, stopped, out)
            elif not stopped:
                out.append(f.Execute(id, path))
        elif phase is RUNNING:
            if (path, id) not in mine:
                out.append(f.Settle(id, path))
        elif phase is REFUSED:
            out.append(f.Tell(id, path))


def ended(run: Run) -> bool:
    """Whether a branch is over: closed, concluded, or out of turns."""
    return run.closed is not None or (not run.open and (run.concluded is not None or exhausted(run)))


def exhausted(run: Run) -> bool:
    """Whether the model has something to answer and no turn is left for it."""
    if run.turns < run.max_turns or run.open or run.guards or run.live:
        return False
    return awaits_model(run) and run.closed is None and run.cancelled is None


_WAITS = ("output", "handoff")
"""The kinds of call that wait for others of their turn, though they may run."""


def _owed_ready(run: Run, path: tuple[str, ...], state: CallState, stopped: bool, out: list[f.AnyEffect]) -> None:
    id = state.call.id
    if state.call.kind == "output":
        if len(run.open) == 1 and not run.guards:
            out.append(f.Conclude(id, path))
    elif state.turn.handed:
        out.append(f.Judge(id, path))
    elif not stopped:
        first = next(s for s in run.open.values() if s.call.kind == "handoff" and s.phase is READY)
        if state is first and may_hand_off(run, state):
            out.append(f.Execute(id, path))


def status(run: Run) -> Status:
    """Where the run stands: someone must work on it, someone must answer, or it is over."""
    if run.closed is not None:
        return "closed"
    if run.cancelled is not None:
        return "cancelled"
    if owed(run):
        return "working"
    if run.open:
        return "waiting" if next(questions(run), None) is not None else "idle"
    if exhausted(run):
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


def overdue(run: Run, at: int) -> list[f.Refused]:
    """What silence comes to, at this time, for the questions whose deadline has passed: a rejection."""
    if len(run.asked) == len(run.decided):  # none is open
        return []
    return [
        f.Refused(state.call.id, "deadline", state.question.id, why="nobody decided in time", at=at, path=path)
        for path, state in questions(run)
        if state.question is not None and state.question.until is not None and at > state.question.until
    ]
