"""Folding: the facts that may follow, and the change that each fact makes to a run.

`check` raises unless a fact may follow; `fold` checks and then advances the run in place. Nothing else changes a run.
The table in `rules` fixes the order of facts. Each fact has one function here. The function first checks what the fact
must match besides the phase. With `commit`, it then sets what changes besides it.

No I/O, no clock, no randomness and no user code may be put here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from ..errors import IllegalFact
from . import facts as f
from .rules import ASKED, DELEGATED, DONE, NEW, NEXT, READY, REFUSED, RUNNING, Phase, verdict_of
from .run import CallState, Run, Turn, ended, exhausted, held, may_hand_off, spent


def check(run: Run, fact: f.AnyFact) -> None:
    """Raise `IllegalFact` unless the fact may follow. The run does not change."""
    fold(run, fact, commit=False)


def fold(root: Run, fact: Any, commit: bool = True) -> None:
    """Check the fact and, with `commit`, advance the run by it, or raise `IllegalFact`."""
    run = root if not fact.path and root.closed is None else _locate(root, fact)
    rows, step = _STEPS[type(fact)]
    if rows is None or (call := fact.call) is None:
        if run.began is None and type(fact) is not f.Began:
            raise _illegal(root, fact, "the journal has no beginning")
        step(root, run, None, fact, commit)
    else:
        try:
            state = run.calls[call]
        except KeyError:
            raise _illegal(root, fact, f"call {call!r} is not there") from None
        phase = rows[state.phase]
        if phase is None:
            raise _illegal(root, fact, f"call {call!r} is {state.phase.name}")
        step(root, run, state, fact, commit)
        if commit:
            state.phase = phase
            if phase is DONE and run.open.pop(call, None) is not None and run.live:
                run.answering, run.concluding = True, False  # the model did not wait for the outcome
    if commit:
        root.seq += 1


def _locate(root: Run, fact: f.AnyFact) -> Run:
    """Return the run or branch that a fact is about; for a `Began`, the parent of the new branch."""
    kind, run, closed = type(fact), root, root.closed is not None
    late = kind is f.Witnessed
    for hop in fact.path if kind is not f.Began else fact.path[:-1]:
        state = run.calls.get(hop)
        if state is None or state.child is None or (state.phase is not DELEGATED and not late):
            raise _illegal(root, fact, f"there is no open branch under call {hop!r}")
        run = state.child
        if run.closed is not None:
            closed = True
    if closed and not late:
        raise _illegal(root, fact, "the run is closed")
    return run


def _illegal(run: Run, fact: f.AnyFact, why: str) -> IllegalFact:
    return IllegalFact(f"{type(fact).__name__} cannot follow fact {run.seq} of this journal: {why}.")


# -- facts of a call -----------------------------------------------------------------------------


def _verdict(root: Run, state: CallState, fact: Any) -> None:
    """Raise `IllegalFact` unless the verdict is on the open question, in time, and fits the question."""
    question = state.question if state.phase is ASKED else None
    if question is None:
        raise _illegal(root, fact, f"question {fact.asked!r} is not open")
    if fact.asked != question.id:
        raise _illegal(root, fact, f"the open question of call {fact.call!r} is {question.id!r}, not {fact.asked!r}")
    verdict = verdict_of(fact)
    if question.until is not None and fact.at > question.until:
        if verdict != "reject":
            raise _illegal(root, fact, "the question's deadline has passed")
    elif verdict not in state.allowed():
        raise _illegal(root, fact, f"{verdict!r} does not answer this question")


def _by_grant(root: Run, fact: f.Approved | f.Refused, commit: bool) -> None:
    """Raise `IllegalFact` if the grant is revoked or its terms are used up; count the use otherwise."""
    id = fact.by[6:]
    grant = root.grants.get(id)
    problem = f"grant {id!r} was revoked" if id in root.revoked else grant and spent(root, grant, fact.at)
    if problem:
        raise _illegal(root, fact, problem)
    if commit:
        root.uses[id] = root.uses.get(id, 0) + 1


def _approved(root: Run, run: Run, state: CallState, fact: f.Approved, commit: bool) -> None:
    if fact.asked is not None or state.phase is ASKED:
        _verdict(root, state, fact)
    elif fact.tool is not None:
        raise _illegal(root, fact, "only a person may choose another tool")
    elif fact.by.startswith("grant:"):
        _by_grant(root, fact, commit)
    if commit:
        if fact.asked is not None:
            root.decided[fact.asked] = fact
            state.passed, state.retries = fact.asked, 0
            if state.question is not None and state.question.kind == "approval":
                state.shown = state.question
            state.edited = state.edited or bool(fact.args or fact.tool)
        if fact.args:
            state.args = fact.args
        if fact.fills:
            state.fills = fact.fills
        if fact.digest is not None:
            state.digest, state.preview = fact.digest, fact.preview  # nobody has seen a preview of an edit
        if fact.tool is not None:
            state.chosen, state.fingerprint = fact.tool, fact.definition
        if fact.asked is None or state.question is None or state.question.kind != "doubt":
            state.approval = fact  # settling a doubt does not undo an edit


def _refused(root: Run, run: Run, state: CallState, fact: f.Refused, commit: bool) -> None:
    if fact.asked is not None or state.phase is ASKED:
        _verdict(root, state, fact)
    elif fact.by.startswith("grant:"):
        _by_grant(root, fact, commit)
    if commit:
        if fact.asked is not None:
            root.decided[fact.asked] = fact
        state.outcome, state.told = fact, None
        state.words = fact.message
        if state.words is None and fact.by.startswith("grant:") and (grant := root.grants.get(fact.by[6:])):
            state.words = grant.message


def _told(root: Run, run: Run, state: CallState, fact: f.Told, commit: bool) -> None:
    if commit:
        state.told = fact.text if fact.text is not None else state.words or ""
        if state.call.kind == "output":  # the model is told why its output was refused, and continues
            run.concluding, run.answering = False, True


def _asked(root: Run, run: Run, state: CallState, fact: f.Asked, commit: bool) -> None:
    old = state.question if state.phase is ASKED else None
    if fact.replaces != (old.id if old else None) and not _was_passed(state, fact):
        raise _illegal(root, fact, f"it must replace the question now open, {old.id if old else None!r}")
    if not fact.id or fact.id in root.asked:
        raise _illegal(root, fact, f"the question id {fact.id!r} is used already")
    if (old and old.kind != fact.kind) or (not old and (fact.kind == "approval") == (state.phase is RUNNING)):
        raise _illegal(root, fact, f"a question of kind {fact.kind!r} does not arise in {state.phase.name}")
    if fact.allowed is not None and not (fact.allowed and set(fact.allowed) <= set(state.answers_to(fact.kind))):
        raise _illegal(root, fact, f"{fact.allowed} are not all answers to a question of kind {fact.kind!r}")
    if fact.voids is not None and not _may_void(root, run, state, fact):
        raise _illegal(root, fact, f"{fact.voids!r} is not the last question that was answered here")
    if commit:
        if fact.voids is not None:
            state.answers = state.answers[:-1]
        if old is not None:
            root.decided[old.id] = fact
        root.asked[fact.id] = (fact.path, fact.call)
        state.question = fact
        if fact.kind == "approval":
            state.digest, state.approval, state.passed, state.shown = fact.digest, None, None, None
            state.preview = fact.preview
            state.args, state.fills = fact.args or state.args, fact.fills or state.fills


def _was_passed(state: CallState, fact: f.Asked) -> bool:
    """Return True if the question replaces the approved one. In older journals `replaces` is not set here."""
    return state.phase is READY and fact.replaces == state.passed


def _may_void(root: Run, run: Run, state: CallState, fact: f.Asked) -> bool:
    """Return True if the question may void an earlier answer.

    A body may void its last answer. A hook, each of whose questions is a call, may void any earlier answer of a hook.
    """
    if state.phase is RUNNING:
        return fact.kind == "input" and bool(state.answers) and state.answers[-1][0].id == fact.voids
    path, call = root.asked.get(fact.voids or "", (None, ""))
    old = run.calls[call] if path == fact.path else None
    if old is None or old.call.kind != "hook" or old.phase is not DONE:
        return False
    return state.call.kind == "hook" and state.phase is NEW


def _answered(root: Run, run: Run, state: CallState, fact: f.Answered, commit: bool) -> None:
    _verdict(root, state, fact)
    question = state.question
    if question is None or question.kind != "input":
        raise _illegal(root, fact, "only what a body asks can be answered so")
    if commit:
        root.decided[fact.asked] = fact
        state.answers = (*state.answers, (question, fact))
        state.retries = 0


def _redefined(root: Run, run: Run, state: CallState, fact: f.Redefined, commit: bool) -> None:
    if commit:
        state.fingerprint = fact.fingerprint


def _started(root: Run, run: Run, state: CallState, fact: f.Started, commit: bool) -> None:
    if fact.attempt != state.attempt + 1:
        raise _illegal(root, fact, f"attempt {state.attempt + 1} is due, not {fact.attempt}")
    kind = state.call.kind
    if kind == "agent" or kind == "output":
        raise _illegal(root, fact, f"a call of kind {kind!r} has no body")
    if fact.path or run.guards or run.batch or root.cancelled is not None or kind == "handoff":
        _released(root, run, state, fact)
    if commit:
        state.attempt, state.fence = fact.attempt, fact.fence


NOTHING_DONE = ("runtime", "probe")
"""The authors whose `Left` means that the attempt did nothing. From others it means that a repetition is allowed."""


def _left(root: Run, run: Run, state: CallState, fact: f.Left, commit: bool) -> None:
    if fact.attempt != state.attempt:
        raise _illegal(root, fact, f"attempt {state.attempt} is under way, not {fact.attempt}")
    if fact.fence != state.fence:
        raise _illegal(root, fact, f"the attempt under way was begun under lease {state.fence}, not {fact.fence}")
    if commit:
        state.retries += 1
        if fact.by in NOTHING_DONE:
            state.void += 1


def _released(root: Run, run: Run, state: CallState, fact: f.AnyFact) -> None:
    if root.cancelled is not None:
        raise _illegal(root, fact, "the run is cancelled")
    if _awaits_guards(root, fact.path):
        raise _illegal(root, fact, "input guardrails are not in yet")
    if held(run, state.turn):
        raise _illegal(root, fact, "the turn is released as a batch and has open questions")
    if state.call.kind == "handoff" and not may_hand_off(run, state):
        raise _illegal(root, fact, "a handoff waits for the turn's other calls, and only one is taken")


def _awaits_guards(root: Run, path: tuple[str, ...]) -> bool:
    """Return True if the branch at this path, or a run above it, waits for input guardrails."""
    run: Run | None = root
    for hop in (*path, ""):
        if run is None or run.guards:
            break
        run = run.calls[hop].child if hop else None
    return run is not None


def _stepped(root: Run, run: Run, state: CallState, fact: f.Stepped, commit: bool) -> None:
    if commit:
        state.steps = (*state.steps, fact)


def _finished(root: Run, run: Run, state: CallState, fact: f.Finished, commit: bool) -> None:
    if fact.asked is not None or state.phase is ASKED:
        _verdict(root, state, fact)
        if state.question is not None and state.question.kind == "input":
            raise _illegal(root, fact, "what a body asks is answered, and the body goes on")
    elif state.child is not None and not ended(state.child):
        raise _illegal(root, fact, f"the branch under call {fact.call!r} has not ended")
    if commit:
        if fact.asked is not None:
            root.decided[fact.asked] = fact
        state.outcome = fact


def _witnessed(root: Run, run: Run, state: CallState, fact: f.Witnessed, commit: bool) -> None:
    """Keep the late result as evidence for a person who is asked about the call. Nothing else changes."""
    if not 1 <= fact.attempt <= state.attempt:
        raise _illegal(root, fact, f"there was no attempt {fact.attempt}")
    if commit and _is_open(root, fact):  # forks of the run share what is done
        state.witnessed = (*state.witnessed, fact)


def _is_open(root: Run, fact: f.Witnessed) -> bool:
    """Return True if the call, and every call and run above it, is open."""
    runs = [root.at(fact.path[:depth]) for depth in range(len(fact.path) + 1)]
    return all(run.closed is None and call in run.open for run, call in zip(runs, (*fact.path, fact.call), strict=True))


def _handed_off(root: Run, run: Run, state: CallState, fact: f.HandedOff, commit: bool) -> None:
    if state.call.kind != "handoff" or state.turn.handed:
        raise _illegal(root, fact, "it is not a handoff, or another one was taken")
    if commit:
        state.outcome, state.turn.handed = fact, True
        run.agent, run.definition = fact.to, None
        run.entries.append(fact)


# -- facts of a run; some are about a call too -----------------------------------------------------


def _began(root: Run, run: Run, state: CallState | None, fact: f.Began, commit: bool) -> None:
    if fact.max_turns < 1:
        raise _illegal(root, fact, "max_turns must be at least 1")
    if state is not None:
        if state.call.kind != "agent" or fact.live:
            raise _illegal(root, fact, f"call {state.call.id!r} is not an agent call, or the branch would be live")
        _released(root, run, state, fact)
    elif run.began is not None:
        raise _illegal(root, fact, "the run began already")
    elif not fact.run:
        raise _illegal(root, fact, "the run needs an id")
    if commit:
        if state is not None:
            run.branches.append(state.call.id)
            run = state.child = Run()
        run.began, run.agent, run.max_turns = fact, fact.agent, fact.max_turns
        run.live, run.batch = fact.live, fact.release == "batch"
        if fact.guards:
            run.guards, run.armed = dict.fromkeys(fact.guards), fact.guards


def _said(root: Run, run: Run, state: None, fact: f.Said, commit: bool) -> None:
    if commit:
        run.said += 1
        run.unheard.append(fact)
        run.concluded = None
        if run.guards:  # guardrails that have passed did not see this input
            run.guards = dict.fromkeys(run.armed)


def _awaited(root: Run, run: Run, state: None, fact: f.Awaited, commit: bool) -> None:
    if run.guards or not run.unheard or run.watched >= run.said:
        raise _illegal(root, fact, "there is nothing new to guard, or guardrails are awaited already")
    if commit:
        run.guards, run.armed = dict.fromkeys(fact.guards), fact.guards


def _defined(root: Run, run: Run, state: None, fact: f.Defined, commit: bool) -> None:
    if commit:
        run.definition = fact
        if fact.tools:
            root.marks[fact.digest] = fact.tools


def _replied(root: Run, run: Run, state: None, fact: f.Replied, commit: bool) -> None:
    heard = run.said - len(run.unheard)
    saw = run.said if fact.saw is None else fact.saw
    if not heard <= saw <= run.said:
        raise _illegal(root, fact, f"it says it heard {saw} inputs of {run.said}, of which {heard} were answered")
    if not run.live:
        if run.open:
            raise _illegal(root, fact, "calls of the turn before are open")
        if saw == heard and (run.concluding or not run.answering):
            raise _illegal(root, fact, "there is nothing to reply to")
        if run.turns >= run.max_turns:
            raise _illegal(root, fact, f"its {run.max_turns} turns are used up")
    calls = fact.calls
    if calls:
        _fresh(root, run, fact, calls)
    if commit:
        news = saw - heard
        if news > 0:
            run.entries += run.unheard[:news]
            del run.unheard[:news]
        run.concluded = None
        if run.live:  # a live model replies when it likes: its replies are not counted
            run.answering = bool(calls) or bool(fact.missed)
            run.concluding = not run.answering
        else:
            run.turns += 1
            run.answering = bool(calls)
            run.concluding = not calls or (run.definition is not None and run.definition.finishing)
        _add(run, fact, calls)


def _fresh(root: Run, run: Run, fact: f.AnyFact, calls: tuple[f.Call, ...]) -> None:
    for call in calls:
        if call.id in run.calls or not call.id:
            raise _illegal(root, fact, f"the call id {call.id!r} is empty or used already")
    if len(calls) > 1 and len({call.id for call in calls}) < len(calls):
        raise _illegal(root, fact, "two of its calls have one id")


def _add(run: Run, reply: f.Replied | f.Proposed, calls: tuple[f.Call, ...], args: Raw = f.NOTHING) -> None:
    turn = Turn(reply, run.agent, [], run.definition)
    run.entries.append(turn)
    for call in calls:
        run.calls[call.id] = run.open[call.id] = state = CallState(call, turn, args)
        turn.calls.append(state)


def _proposed(root: Run, run: Run, state: None, fact: f.Proposed, commit: bool) -> None:
    kind = fact.proposal.kind
    if kind not in ("output", "hook"):
        raise _illegal(root, fact, f"the runtime does not propose a call of kind {kind!r}")
    if kind == "output" and (run.open or not run.concluding or run.unheard or run.live):
        raise _illegal(root, fact, "there is no final output to propose")
    if fact.saw is not None and not run.said - len(run.unheard) <= fact.saw <= run.said:
        raise _illegal(root, fact, f"it says it heard {fact.saw} inputs of {run.said}")
    _fresh(root, run, fact, (fact.proposal,))
    if commit:
        _add(run, fact, (fact.proposal,), fact.args)


def _concluded(root: Run, run: Run, state: CallState | None, fact: f.Concluded, commit: bool) -> None:
    if run.live or run.guards or not (_may_handle(run, fact) if fact.handled else _may_conclude(run, state)):
        raise _illegal(root, fact, "there is nothing to conclude")
    if state is not None and state.call.kind != "output":
        raise _illegal(root, fact, f"call {state.call.id!r} does not propose an output")
    if len(run.open) != (0 if state is None else 1) and not _is_over_for_caller(run):
        raise _illegal(root, fact, "calls are open")
    if fact.source is not None and fact.source not in run.calls:
        raise _illegal(root, fact, f"there is no call {fact.source!r}")
    if commit:
        if state is not None:
            state.outcome = fact
        if fact.handled:
            run.entries += run.unheard
            run.unheard.clear()
        run.concluding, run.answering, run.concluded = False, False, fact


def _may_conclude(run: Run, state: CallState | None) -> bool:
    if run.began is not None and run.began.caller is not None:
        return state is None and run.concluded is None and _is_over_for_caller(run)
    return run.concluding and not (run.unheard and state is None)


def _is_over_for_caller(run: Run) -> bool:
    """Return True if a program outside drives the run, and its calls have ended: no model hears of those refused."""
    if run.began is None or run.began.caller is None:
        return False
    return bool(run.calls) and all(state.phase is REFUSED for state in run.open.values())


def _may_handle(run: Run, fact: f.Concluded) -> bool:
    """Return True if an error handler's output can end the run: the error is there, and the handler knew all input."""
    if fact.path or fact.call is not None or not fact.output or fact.saw != run.said:
        return False
    if fact.handled == "max_turns":
        return exhausted(run)
    return run.concluding and all(said.by == f.ERROR_HANDLER for said in run.unheard)


def _continued(root: Run, run: Run, state: None, fact: f.Continued, commit: bool) -> None:
    if run.open or not run.concluding or not run.answering:
        raise _illegal(root, fact, "no outputs of calls wait to be looked at")
    if commit:
        run.concluding = False


def _guarded(root: Run, run: Run, state: CallState | None, fact: f.Guarded, commit: bool) -> None:
    if fact.where.startswith("tool") != (state is not None):
        raise _illegal(root, fact, "a tool's guardrail is about a call, and no other is")
    if fact.where == "input" and fact.name not in run.guards:
        raise _illegal(root, fact, f"no input guardrail {fact.name!r} is awaited")
    if commit:
        run.guarded.append(fact)
        if fact.where == "input" and not fact.tripped:  # a tripped guardrail never passes
            del run.guards[fact.name]
            if not run.guards:
                run.watched = run.said


def _granted(root: Run, run: Run, state: None, fact: f.Granted, commit: bool) -> None:
    _of_root(root, fact)
    if not fact.id or fact.id in run.grants:
        raise _illegal(root, fact, f"the grant id {fact.id!r} is used already")
    if commit:
        run.grants[fact.id] = fact
        for past in (run.revoked, run.uses):  # from an earlier grant with this id
            past.pop(fact.id, None)


def _of_root(root: Run, fact: f.AnyFact) -> None:
    if fact.path:
        raise _illegal(root, fact, "it belongs to the run itself, not to a branch")


def _revoked(root: Run, run: Run, state: None, fact: f.Revoked, commit: bool) -> None:
    _of_root(root, fact)
    if fact.grant not in run.grants:
        raise _illegal(root, fact, f"there is no grant {fact.grant!r}")
    if commit:
        del run.grants[fact.grant]
        run.revoked[fact.grant] = fact


def _limited(root: Run, run: Run, state: None, fact: f.Limited, commit: bool) -> None:
    if fact.max_turns < 1:
        raise _illegal(root, fact, "max_turns must be at least 1")
    if commit:
        run.max_turns = fact.max_turns


def _cancelled(root: Run, run: Run, state: None, fact: f.Cancelled, commit: bool) -> None:
    _of_root(root, fact)
    if run.cancelled:
        raise _illegal(root, fact, "the run is cancelled already")
    if commit:
        run.cancelled = fact


def _resumed(root: Run, run: Run, state: None, fact: f.Resumed, commit: bool) -> None:
    _of_root(root, fact)
    if not run.cancelled:
        raise _illegal(root, fact, "the run is not cancelled")
    if commit:
        run.cancelled = None


def _switched(root: Run, run: Run, state: None, fact: f.Switched, commit: bool) -> None:
    _of_root(root, fact)
    if run.live == fact.live:
        raise _illegal(root, fact, f"the run is {'live' if run.live else 'not live'} already")
    if fact.live and any(state.call.kind == "output" for state in run.open.values()):
        raise _illegal(root, fact, "a final output waits to be approved, and a live run has none")
    if commit:
        run.live = fact.live
        if not fact.live and run.open:  # a text model hears of the outcomes, whatever the live one said meanwhile
            run.answering, run.concluding = True, False


def _saved(root: Run, run: Run, state: None, fact: f.Saved, commit: bool) -> None:
    most = len(run.entries) + len(run.unheard)
    if not run.saved <= fact.upto <= most:
        raise _illegal(root, fact, f"entries {run.saved} to {most} can be saved, not up to {fact.upto}")
    if commit:
        run.saved = fact.upto


def _closed(root: Run, run: Run, state: None, fact: f.Closed, commit: bool) -> None:
    if commit:
        run.closed = fact


Step = Callable[[Run, Run, Any, Any, bool], None]
_BY_FACT: dict[type[f.Fact], Step] = {
    f.Began: _began,
    f.Said: _said,
    f.Awaited: _awaited,
    f.Defined: _defined,
    f.Replied: _replied,
    f.Proposed: _proposed,
    f.Concluded: _concluded,
    f.Continued: _continued,
    f.Guarded: _guarded,
    f.Granted: _granted,
    f.Revoked: _revoked,
    f.Limited: _limited,
    f.Cancelled: _cancelled,
    f.Resumed: _resumed,
    f.Switched: _switched,
    f.Saved: _saved,
    f.Closed: _closed,
    f.Asked: _asked,
    f.Approved: _approved,
    f.Refused: _refused,
    f.Told: _told,
    f.Answered: _answered,
    f.Redefined: _redefined,
    f.Started: _started,
    f.Left: _left,
    f.Stepped: _stepped,
    f.Finished: _finished,
    f.Witnessed: _witnessed,
    f.HandedOff: _handed_off,
}
_STEPS: dict[type[f.Fact], tuple[tuple[Phase | None, ...] | None, Step]] = {
    # Indexed by the phase's number: an enum member as a dict key is hashed in Python, which is slow.
    kind: (tuple(NEXT[kind].get(phase) for phase in Phase) if kind in NEXT else None, step)
    for kind, step in _BY_FACT.items()
}
