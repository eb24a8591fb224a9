"""Folding a whole journal, as when a saved run is loaded. The result is that of `fold`, fact by fact, but faster.

Most turns have one call that needed no person: a reply, an approval, a start and an end. These four facts are folded
together if they are in order. All other facts are left to `fold`, which folds them or raises the error.

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
    PLAIN = ()  # the table decides: without these rows, `fold` must fold every fact


def fold_all(run: Run, facts: list[Any]) -> None:
    """Fold the facts in order, or raise `IllegalFact` at the first that may not follow."""
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
    """Return True for a reply with one call, an approval without a person, the first start, and the end."""
    if len(reply.calls) != 1 or (type(approved), type(started), type(finished)) != PLAIN:
        return False
    call = reply.calls[0]
    return (
        call.kind == "tool"
        and approved.call == started.call == finished.call == call.id
        and not (reply.path or approved.path or started.path or finished.path)
        and approved.asked is None
        and approved.tool is None
        and not approved.by.startswith("grant:")  # a grant has terms, and its uses are counted
        and started.attempt == 1
        and finished.asked is None
    )


def _in_order(run: Run, reply: f.Replied) -> bool:
    """Return True if the reply may follow now, and nothing would hold its call back."""
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
    """Change the run as the four facts would, folded one after another."""
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
