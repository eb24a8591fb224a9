"""A run: the state that a journal folds into, and the values derived from that state.

`owed`, `status` and `questions` are derived and never stored. Their cost does not grow with the run: open calls are
kept apart, and calls that are done are not read again. Only `fold` changes a run.

No I/O, no clock, no randomness and no user code may be put here.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Literal

from msgspec import MsgspecError, Raw, Struct, field
from msgspec.json import Decoder
from msgspec.structs import replace

from ..errors import IllegalFact, MaxTurnsExceeded, UnreadableState
from . import facts as f
from .digest import BadJSON, canonical, parse_object
from .number import counted
from .rules import ANSWERS, ASKED, DONE, NEW, READY, REFUSED, RUNNING, Phase

Status = Literal["idle", "working", "waiting", "done", "exhausted", "cancelled", "closed"]
Outcome = f.Finished | f.Refused | f.HandedOff | f.Concluded


class CallItem(Struct, frozen=True):
    """The fields of a provider's call item that Assentry reads."""

    name: str = ""
    arguments: str = ""
    call_id: str | None = None
    id: str | None = None
    server_label: str | None = None
    type: str = ""
    action: Raw = f.NOTHING
    """The arguments of a `shell_call`."""
    operation: Raw = f.NOTHING
    """The arguments of an `apply_patch_call`."""


NATIVE = {"shell_call": "shell", "apply_patch_call": "apply_patch"}
"""The kinds of calls that some providers have items of their own for, by the items' type."""
_items = Decoder(list[Raw]).decode
_call_item = Decoder(CallItem).decode


def native_arguments(text: str) -> str:
    """Return the arguments of a provider's own kind of call, as a function would get them: without empty fields."""
    try:
        given = parse_object(text)
    except BadJSON:
        return text  # the gate says what is wrong with it
    return canonical({name: value for name, value in given.items() if value is not None}).decode()


class CallState(Struct, eq=False):
    """The state of one call."""

    call: f.Call
    turn: Turn
    args: Raw = f.NOTHING
    """The arguments that will run, if they differ from the proposed ones in more than defaults."""
    fills: Raw = f.NOTHING
    """The defaults to fill into the proposed arguments."""
    phase: Phase = NEW
    chosen: str | None = None
    """The tool that a person chose instead."""
    digest: str | None = None
    """The digest of the action that a person was asked about, or that was approved."""
    fingerprint: str | None = None
    """The fingerprint of the tool that a person chose, or of a changed tool that was accepted."""
    question: f.Asked | None = None
    approval: f.Approved | None = None
    preview: Raw = f.NOTHING
    """The preview that the digest covers, if any."""
    shown: f.Asked | None = None
    """The question on which a person approved the call, or asked to run it with other arguments."""
    passed: str | None = None
    """The question that a person approved last. If the approved action changes, a new question replaces it."""
    edited: bool = False
    """True if a person changed the arguments or the tool."""
    attempt: int = 0
    fence: int = 0
    """The fencing token of the lease under which the attempt started."""
    retries: int = 0
    """The number of attempts without a result since a person last decided on the call."""
    void: int = 0
    """The number of attempts known to have done nothing: the body was not entered, or the tool's probe says so."""
    answers: tuple[tuple[f.Asked, f.Answered], ...] = ()
    steps: tuple[f.Stepped, ...] = ()
    witnessed: tuple[f.Witnessed, ...] = ()
    """Results that came too late to count, while the call was open."""
    outcome: Outcome | None = None
    words: str | None = None
    """The text for the model from whoever refused the call."""
    told: str | None = None
    child: Run | None = None
    read: CallItem | None = None

    @property
    def proposal(self) -> CallItem:
        """The call as it was proposed."""
        if self.read is None:
            reply = self.turn.reply
            if isinstance(reply, f.Proposed):
                self.read = CallItem(reply.proposal.tool, bytes(reply.args).decode())
            else:
                try:
                    read = _call_item(self.turn.items[self.call.item])
                    if read.type in NATIVE:
                        given = read.action if read.type == "shell_call" else read.operation
                        read = replace(read, arguments=native_arguments(bytes(given).decode()))
                    self.read = read
                except (MsgspecError, IndexError, UnicodeDecodeError, RecursionError) as error:
                    raise UnreadableState(f"This run is damaged: a call's item cannot be read ({error}).") from None
        return self.read

    @property
    def tool(self) -> str:
        """The name of the tool that will run."""
        return self.chosen or self.call.tool

    @property
    def begun(self) -> bool:
        """True if the call's body may have done something."""
        return self.attempt > self.void

    def allowed(self) -> tuple[f.Verdict, ...]:
        """Return the verdicts that fit the open question; none if no question is open."""
        question = self.question
        if question is None or self.phase is not ASKED:
            return ()
        return self.answers_to(question.kind) if question.allowed is None else question.allowed

    def answers_to(self, kind: f.QuestionKind) -> tuple[f.Verdict, ...]:
        """Return the verdicts that can fit a question of this kind about this call."""
        fit = ANSWERS[kind]
        return fit if self.call.kind != "output" else tuple(v for v in fit if v != "respond")


class Turn(Struct, eq=False):
    """One reply of the model and its calls."""

    reply: f.Replied | f.Proposed
    agent: str
    calls: list[CallState]
    definition: f.Defined | None = None
    handed: bool = False
    parts: list[Raw] | None = None

    @property
    def pending(self) -> bool:
        """True if a call of the turn is not done."""
        return any(state.phase is not DONE for state in self.calls)

    @property
    def items(self) -> list[Raw]:
        """The reply's items, each as received."""
        if self.parts is None:
            self.parts = [] if isinstance(self.reply, f.Proposed) else _items(self.reply.items)
        return self.parts


TranscriptEntry = f.Said | Turn | f.HandedOff


class Run(Struct, eq=False):
    """A folded journal. Anyone may read a run; only `fold` may change it."""

    began: f.Began | None = None
    seq: int = 0
    agent: str = ""
    """The place of the active agent."""
    max_turns: int = 0
    turns: int = 0
    live: bool = False
    batch: bool = False
    definition: f.Defined | None = None
    entries: list[TranscriptEntry] = []
    """The conversation, in the order in which the model gets it."""
    unheard: list[f.Said] = []
    said: int = 0
    calls: dict[str, CallState] = {}
    open: dict[str, CallState] = {}
    guards: dict[str, None] = {}
    """The input guardrails that have not passed yet."""
    armed: tuple[str, ...] = ()
    """The input guardrails that must check the latest input."""
    guarded: list[f.Guarded] = []
    watched: int = 0
    """The number of inputs that guardrails have checked."""
    branches: list[str] = []
    """The ids of the agent calls that opened a branch."""
    answering: bool = False
    concluding: bool = False
    concluded: f.Concluded | None = None
    cancelled: f.Cancelled | None = None
    closed: f.Closed | None = None
    saved: int = 0
    counted: int = 0
    used: f.Usage = field(default_factory=f.Usage)
    asked: dict[str, tuple[tuple[str, ...], str]] = {}
    """The path and call of each question of the run and its branches, by id. Only set in the root run."""
    decided: dict[str, f.CallFact] = {}
    """The fact that settled each question, by the question's id. Only set in the root run."""
    grants: dict[str, f.Granted] = {}
    """The grants that are not revoked, by id. Only set in the root run."""
    uses: dict[str, int] = {}
    """The number of calls that each grant has decided. Only set in the root run."""
    revoked: dict[str, f.Revoked] = {}
    """The revocations, by the grant's id. Only set in the root run."""
    marks: dict[str, dict[str, str]] = {}
    """The starts of the tools' fingerprints, by the definition's digest. Only set in the root run."""
    transcript_cache: Any = None
    """The cache of `transcript`."""

    @property
    def id(self) -> str:
        """The run's own id."""
        return self.began.run if self.began else ""

    @property
    def own_usage(self) -> f.Usage:
        """The usage of the run's own model calls. The sum is cached."""
        for entry in self.entries[self.counted :]:
            if type(entry) is Turn and type(entry.reply) is f.Replied:
                self.used.add(usage_of(entry.reply))
        self.counted = len(self.entries)
        return self.used

    @property
    def usage(self) -> f.Usage:
        """The usage of the model calls of the run and its branches."""
        if not self.branches:
            return self.own_usage
        used = replace(self.own_usage)
        for child in self.children():
            used.add(child.usage)
        return used

    def news(self, saw: int) -> list[f.Said]:
        """Return those of the first `saw` inputs that the model has not answered."""
        return self.unheard[: saw - (self.said - len(self.unheard))]

    def children(self) -> list[Run]:
        """Return the branches that calls of this run have opened, including those that have ended."""
        return [child for call in self.branches if (child := self.calls[call].child) is not None]

    def at(self, path: tuple[str, ...]) -> Run:
        """Return the branch at this path, or raise `IllegalFact` if there is none."""
        run = self
        for hop in path:
            state = run.calls.get(hop)
            if state is None or state.child is None:
                raise IllegalFact(f"There is no branch under call {hop!r}.")
            run = state.child
        return run

    def fork(self) -> Run:
        """Return an independent run with the same past. Calls that are done are shared; open calls are copied."""
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
            entries=_with(self.entries.copy(), turns),
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
            transcript_cache=None,
        )


_identity = id


def _with(entries: list[TranscriptEntry], turns: dict[int, Turn]) -> list[TranscriptEntry]:
    """Put these turns, by the identities of the old ones, in the place of the old ones. They are among the last."""
    left, number = len(turns), len(entries)
    while left:
        number -= 1
        turn = turns.get(_identity(entries[number]))
        if turn is not None:
            entries[number], left = turn, left - 1
    return entries


NUMBERS = len(f.Usage.__struct_fields__)


def usage_of(reply: f.Replied) -> f.Usage:
    """Return the usage of a reply. Numbers that this version of Assentry has no name for are left out."""
    return f.Usage(*reply.usage[:NUMBERS])


# -- reading -------------------------------------------------------------------------------------

UNDER_WAY = ("working", "waiting")
"""The statuses in which a run can still be driven. A cancelled run must be resumed first."""
ENDED = ("done", "exhausted", "closed")


def awaits_model(run: Run) -> bool:
    """Return True if there are inputs or outputs of calls that the model has not answered."""
    return bool(run.unheard) or (run.answering and not run.concluding)


def held(run: Run, turn: Turn | None = None) -> bool:
    """Return True if calls are released as a batch and one of them still has no verdict.

    In a live run, calls of other turns may wait for long: with `turn`, those do not count.
    """
    for s in run.open.values() if run.batch else ():
        if run.live and turn is not None and s.turn is not turn:
            continue
        if s.phase is NEW or (s.phase is ASKED and s.question is not None and s.question.kind == "approval"):
            return True
    return False


def may_hand_off(run: Run, state: CallState) -> bool:
    """Return True if no handoff was taken in the turn, and the only other open calls are handoffs that are ready.

    In a live run, calls of other turns may wait for long, and do not count.
    """
    if state.turn.handed:
        return False
    rest = (s for s in run.open.values() if s is not state and (s.turn is state.turn or not run.live))
    return all(s.call.kind == "handoff" and s.phase is READY for s in rest)


def spent(run: Run, grant: f.Granted, at: int) -> str | None:
    """Return the reason why a grant no longer decides calls at this time; None if it still does."""
    if grant.max_uses is not None and run.uses.get(grant.id, 0) >= grant.max_uses:
        return f"grant {grant.id!r} is used up"
    if grant.until is not None and at > grant.until:
        return f"grant {grant.id!r} has expired"
    return None


def owed(run: Run, mine: Container[tuple[tuple[str, ...], str | None]] = ()) -> list[f.AnyEffect]:
    """Return the effects that must happen next. `mine` has the calls (path, id) that the caller is executing now."""
    out: list[f.AnyEffect] = []
    if run.cancelled is None:
        _owed(run, (), mine, out)
    return out


def _owed(run: Run, path: tuple[str, ...], mine: Container[Any], out: list[f.AnyEffect]) -> None:
    if run.began is None or run.closed is not None:
        return
    if run.began.caller is not None:
        _owed_for_caller(run, path, mine, out)
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


def _owed_for_caller(run: Run, path: tuple[str, ...], mine: Container[Any], out: list[f.AnyEffect]) -> None:
    """Owe what a program outside cannot do itself: to settle a call that it started, and of which it tells no more."""
    out += [f.Settle(id, path) for id, state in run.open.items() if state.phase is RUNNING and (path, id) not in mine]


def _owed_calls(run: Run, path: tuple[str, ...], mine: Container[Any], out: list[f.AnyEffect]) -> None:
    guarded = bool(run.guards)
    held_back = len(run.open) > 1 and held(run)  # a ready call that is alone has no other to wait for
    for id, state in run.open.items():
        phase, child = state.phase, state.child
        stopped = guarded or (held_back and (not run.live or held(run, state.turn)))
        if child is not None:  # a delegated call
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
    """Return True if a branch is over: closed, concluded, or out of turns."""
    return run.closed is not None or (not run.open and (run.concluded is not None or exhausted(run)))


def exhausted(run: Run) -> bool:
    """Return True if the model has something to answer and no turn is left."""
    if run.turns < run.max_turns or run.open or run.guards or run.live:
        return False
    return awaits_model(run) and run.closed is None and run.cancelled is None


def turns_used_up(run: Run, advice: str = "", who: str = "The run") -> MaxTurnsExceeded:
    """Return the error for a run, or a branch of it, that has no turn left; `advice` says how to go on."""
    return MaxTurnsExceeded(f"{who} used up its {counted(run.max_turns, 'turn')}. {advice}".rstrip())


_WAITS = ("output", "handoff")
"""The kinds of call that wait for other calls even when they are ready."""


def _owed_ready(run: Run, path: tuple[str, ...], state: CallState, stopped: bool, out: list[f.AnyEffect]) -> None:
    id = state.call.id
    if state.call.kind == "output":
        if len(run.open) == 1 and not run.guards:
            out.append(f.Conclude(id, path))
    elif state.turn.handed:
        out.append(f.Judge(id, path))
    elif not stopped:
        ready = (s for s in run.open.values() if s.call.kind == "handoff" and s.phase is READY)
        first = next(s for s in ready if s.turn is state.turn or not run.live)
        if state is first and may_hand_off(run, state):
            out.append(f.Execute(id, path))


def status(run: Run) -> Status:
    """Return the run's status: it needs a driver, it waits for an answer, or it is over."""
    if run.closed is not None:
        return "closed"
    if run.cancelled is not None:
        return "cancelled"
    if owed(run):
        return "working"
    if run.began is not None and run.began.caller is not None and run.calls:
        return _status_for_caller(run)
    if run.open:
        return "waiting" if next(questions(run), None) is not None else "idle"
    if exhausted(run):
        return "exhausted"
    return "done" if run.concluded is not None else "idle"


def _status_for_caller(run: Run) -> Status:
    """Return the status of a run that a program outside drives: its model is not asked, so it ends with its call."""
    if next(questions(run), None) is not None:
        return "waiting"
    return "idle" if any(state.phase is not REFUSED for state in run.open.values()) else "done"


def questions(run: Run, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], CallState]]:
    """Yield the open questions, each with its path, in the order of the calls, depth first."""
    if run.closed is not None:
        return
    for id, state in run.open.items():
        if state.phase is ASKED:
            yield path, state
        elif state.child is not None:
            yield from questions(state.child, (*path, id))


def deadline(run: Run) -> int | None:
    """Return the earliest deadline of the open questions; None if none has a deadline."""
    return min(
        (s.question.until for _, s in questions(run) if s.question and s.question.until is not None), default=None
    )


def overdue(run: Run, at: int) -> list[f.Refused]:
    """Return a rejection for each open question whose deadline has passed at this time."""
    if len(run.asked) == len(run.decided):  # no question is open
        return []
    return [
        f.Refused(state.call.id, "deadline", state.question.id, why="nobody decided in time", at=at, path=path)
        for path, state in questions(run)
        if state.question is not None and state.question.until is not None and at > state.question.until
    ]
