"""Snapshots of a thread, and the points at which they are taken.

A snapshot is derived and never stored: a point is a number of facts of one run's journal. Points lie where a step of
the run ends: after its input, after a reply, after the outcomes of a reply's calls, at the end, and where the thread
stands now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ..core import facts as f
from ..core.fold import fold
from ..core.rules import ASKED, NEW
from ..core.run import Run, Turn, exhausted, owed, status
from ..core.wording import described
from ..errors import UsageError
from .interrupts import Interrupt, pending
from .stream import GATE

START = "__start__"
"""The name of the step before the first."""
END = "__end__"
"""The name of the step after the last."""
_ID = re.compile(r"([0-9]{6,18})-([0-9]{6,18})")


class PregelTask(NamedTuple):
    """A step that is due at a snapshot."""

    id: str
    name: str
    """The step's name, as in `StateSnapshot.next`."""
    path: tuple[Any, ...] = ()
    error: Any = None
    """The error with which a worker's last attempt ended, as text."""
    interrupts: tuple[Interrupt, ...] = ()
    """The interrupts that the step waits for."""
    state: None = None
    result: None = None


class StateSnapshot(NamedTuple):
    """The state of a thread at one point: now, or earlier."""

    values: dict[str, Any]
    """`{"messages": [...]}` and the keys of the state; empty if the thread does not exist."""
    next: tuple[str, ...]
    """The step that is due: "model", "tools" or the gate's; empty when nothing is."""
    config: dict[str, Any]
    """The config that names this point, with a `checkpoint_id`: for `get_state`, for a fork, for `update_state`."""
    metadata: dict[str, Any] | None = None
    """The origin: "source" ("input", "loop", "update" or "fork"), "step", and "run_id", the run in the store."""
    created_at: str | None = None
    """The time of the point's last fact, as ISO 8601."""
    parent_config: dict[str, Any] | None = None
    """The config of the point before; a fork's is the point that it was forked from."""
    tasks: tuple[PregelTask, ...] = ()
    interrupts: tuple[Interrupt, ...] = ()
    """The open interrupts."""


class StateUpdate(NamedTuple):
    """One update of `bulk_update_state`."""

    values: dict[str, Any] | None
    as_node: str | None = None
    task_id: str | None = None


class ThreadPoint(NamedTuple):
    """A point of a thread: the number of a run, and a number of its facts."""

    run: int
    facts: int

    @property
    def id(self) -> str:
        """The `checkpoint_id`. Later points of a thread have greater ids."""
        return f"{self.run:06d}-{self.facts:06d}"

    def config(self, thread: str) -> dict[str, Any]:
        """Return the config that names the point."""
        return {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": self.id}}


def point_of(config: Any) -> ThreadPoint | None:
    """Return the point that a config names; None if it names the thread only."""
    options = config.get("configurable") if isinstance(config, Mapping) else None
    options = options if isinstance(options, Mapping) else {}
    if options.get("checkpoint_ns"):
        raise UsageError("A thread has no other checkpoint_ns than '': agents inside others are part of their threads.")
    id = options.get("checkpoint_id")
    if id is None:
        return None
    found = _ID.fullmatch(id) if isinstance(id, str) else None
    if found is None:
        raise UsageError(
            f"A checkpoint_id is that of a snapshot, from get_state or get_state_history; got {described(id)}."
        )
    return ThreadPoint(int(found[1]), int(found[2]))


def forked_point(forked: str | None, thread: str) -> ThreadPoint | None:
    """Return the point of this thread that a run was forked from, as `Began.forked` names it; None if there is none."""
    run, _, facts = (forked or "").rpartition("@")
    number = run.removeprefix(f"{thread}:")
    return ThreadPoint(int(number), int(facts)) if number.isdecimal() and facts.isdecimal() else None


# -- points of a journal ----------------------------------------------------------------------------

FORKED = (f.COPIED_REPLY, f.GIVEN_REPLY)
"""The notes of a reply with which a fork begins."""
STARTS = (f.Started, f.Finished, f.Told, f.HandedOff, f.Began)
"""The facts after which calls are not as the reply left them."""
OUTCOMES = (f.Finished, f.Told, f.HandedOff)


def opening_facts(facts: Sequence[f.AnyFact]) -> int:
    """Return the number of facts that begin a run: its input and, in a fork, the reply that is judged anew."""
    number = _after(facts, 0, (f.Began, f.Said))
    began = facts[0] if facts else None
    if not isinstance(began, f.Began) or began.forked is None:
        return number
    reply = _after(facts, number, (f.Defined,))
    if reply < len(facts) and isinstance(copied := facts[reply], f.Replied) and copied.note in FORKED:
        number = _after(facts, reply + 1, (f.Said,))
    return number + (number < len(facts) and isinstance(facts[number], f.Cancelled | f.Closed))


def _after(facts: Sequence[f.AnyFact], number: int, kinds: tuple[type[f.AnyFact], ...]) -> int:
    """Return the number of the first fact, from this one on, that is of another kind."""
    while number < len(facts) and isinstance(facts[number], kinds):
        number += 1
    return number


def points_in(facts: Sequence[f.AnyFact]) -> list[int]:
    """Return the numbers of facts at which the steps of a run end, in order; the last is where the run stands."""
    first, run, found = opening_facts(facts), Run(), set[int]()
    judged_anew = isinstance(facts[first - 1], f.Replied) if first else False
    replied = first if judged_anew else None  # the reply whose calls are being judged
    waited = decided = False
    for number, fact in enumerate(facts, 1):
        fold(run, fact)
        if number <= first:
            continue
        if isinstance(fact, STARTS):
            found |= (
                {replied} if replied is not None else {number - 1} if decided and type(fact) is f.Started else set()
            )
            replied, decided = None, False
        elif type(fact) is f.Replied and not fact.path:
            replied = number
        waits = status(run) == "waiting"
        if (waits and not waited) or _ends_step(run, fact):
            found.add(number)
            replied = None
        waited, decided = waits, decided or (waited and not waits)
    is_withdrawn = bool(facts) and type(facts[-1]) is f.Closed and len(facts) > first
    now = set() if is_withdrawn else {len(facts)}
    return sorted({*found, *(() if judged_anew else {first}), *({replied} if replied is not None else ()), *now})


def _ends_step(run: Run, fact: f.AnyFact) -> bool:
    if fact.path or run.open:
        return False
    if isinstance(fact, OUTCOMES):
        return run.calls[fact.call].call.kind not in ("hook", "output")
    return isinstance(fact, f.Concluded | f.Said)


def step_of(before: Sequence[Run], run: Run | None, gated: bool) -> int:
    """Return the number of a point's step over the whole thread; the first input has -1, and a gate is a step too."""
    earlier = sum(2 + _steps(each, gated) for each in before) - 1
    return earlier if run is None else earlier + 1 + _steps(run, gated)


def _steps(run: Run, gated: bool) -> int:
    turns = [entry for entry in run.entries if type(entry) is Turn and type(entry.reply) is f.Replied]
    judged = sum(not any(state.phase in (NEW, ASKED) for state in turn.calls) for turn in turns) if gated else 0
    return len(turns) + judged + sum(bool(turn.calls) and not turn.pending for turn in turns)


def next_steps(run: Run, gated: bool = False) -> tuple[str, ...]:
    """Return the step that is due; with `gated`, a person is to be asked about a call that is not judged yet."""
    waiting = pending(run)
    if waiting:
        first, state = waiting[0], waiting[0].states[0][1]
        by_gate = first.decides and not first.alone
        return ((GATE if by_gate else "model" if state.call.kind == "hook" else "tools"),)
    tools = GATE if gated else "tools"
    if run.closed is None and (run.cancelled is not None or exhausted(run)):  # due as soon as somebody goes on
        return (tools,) if run.open else ("model",) if run.concluded is None else ()
    left = owed(run)
    return () if not left else ("model",) if type(left[0]) in (f.AskModel, f.Guard, f.Conclude) else (tools,)


def iso_time(milliseconds: int) -> str:
    """Return a time in milliseconds since 1970 as ISO 8601."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
