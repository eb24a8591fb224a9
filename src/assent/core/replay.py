"""Folding a whole journal, as when a saved run is loaded: the same as `fold`, fact by fact, and sooner done.

Most turns of most runs are of one call that needed nobody: a reply, an approval, a start and an end. These four are
folded at one go, if each is in order. Whatever is not just so is left to `fold`, which does it, or says why not.

No I/O, no clock, no randomness and no user code may be put here.
"""

from __future__ import annotations

from typing import Any

from . import facts as f
from .fold import fold
from .rules import DONE, NEW, NEXT, READY, RUNNING
from .run import CallState, Run, Turn

PLAIN: tuple[type[f.Fact], ...] = (f.Approved, f.Started, f.Finished)
if (NEXT[f.Approved].get(NEW), NEXT[f.Started].get(READY), NEXT[f.Finished].get(RUNNING)) != (READY, RUNNING, DONE):
    PLAIN = ()  # the table is the authority: without these rows no turn is a plain one


def fold_all(run: Run, facts: list[Any]) -> None:
    """Fold facts one after another, or raise `IllegalFact` at the first that may not follow."""
    number, count = 0, len(facts)
    while number < count:
        fact = facts[number]
        if type(fact) is f.Replied and number + 3 < count:
            approved, started, finished = facts[number + 1 : number + 4]
            if _plain(fact, approved, started, finished) and _in_order(run, fact):
                _fold_turn(run, fact, approved, started, finished)
                number += 4
                continue
        fold(run, fact)
        number += 1


def _plain(reply: f.Replied, approved: Any, started: Any, finished: Any) -> bool:
    """Whether these are a reply of one call, its approval by no person, its first start, and its end."""
    if len(reply.calls) != 1 or (type(approved), type(started), type(finished)) != PLAIN:
        return False
    call = reply.calls[0]
    return (
        call.kind == "tool"
        and approved.call == started.call == finished.call == call.id
        and not (reply.path or approved.path or started.path or finished.path)
        and approved.asked is None
        and approved.tool is None
        and not approved.by.startswith("grant:")  # which has terms, and is counted
        and started.attempt == 1
        and finished.asked is None
    )


def _in_order(run: Run, reply: f.Replied) -> bool:
    """Whether the reply may follow now, and nothing would hold its call back."""
    if run.began is None or run.live or run.batch or run.open or run.guards or run.turns >= run.max_turns:
        return False
    if run.cancelled is not None or run.closed is not None:
        return False
    heard = run.said - len(run.unheard)
    saw = run.said if reply.saw is None else reply.saw
    if not heard <= saw <= run.said or (saw == heard and (run.concluding or not run.answering)):
        return False
    id = reply.calls[0].id
    return id != "" and id not in run.calls


def _fold_turn(run: Run, reply: f.Replied, approved: f.Approved, started: f.Started, finished: f.Finished) -> None:
    """Set what the four facts set, one after another."""
    if run.unheard:
        news = (run.said if reply.saw is None else reply.saw) - (run.said - len(run.unheard))
        run.entries += run.unheard[:news]
        del run.unheard[:news]
    run.turns += 1
    run.concluded, run.answering = None, True
    run.concluding = run.definition is not None and run.definition.finishing
    call = reply.calls[0]
    turn = Turn(reply, run.agent, [], 0, run.definition)
    state = CallState(call, turn, approved.args, approved.fills, DONE, digest=approved.digest, approval=approved)
    state.attempt, state.fence, state.outcome = 1, started.fence, finished
    turn.calls.append(state)
    run.entries.append(turn)
    run.calls[call.id] = state
    run.seq += 4
