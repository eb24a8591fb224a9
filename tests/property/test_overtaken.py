"""What others write while a driver has facts that are not written yet.

The driver holds the run with its own facts first and theirs after; the store has theirs first. Where both orders are
legal they must come to the same: what is owed, where the run stands, what is asked, and what models hear.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from assentry.core import facts as f
from assentry.core.fold import fold
from assentry.core.rules import verdict_of
from assentry.core.run import Run, overdue, owed, questions, status
from assentry.core.transcript import transcript
from assentry.errors import IllegalFact
from tests.core.support import Path, began, js, play, replied, said
from tests.draws import examples
from tests.property.machine import CAST, Machine

Journal = list[Any]
OUTSIDE = (f.Said, f.Granted, f.Revoked, f.Cancelled, f.Resumed, f.Limited, f.Witnessed)


def outside(fact: Any) -> bool:
    """Whether somebody else than the driver writes such a fact."""
    return isinstance(fact, OUTSIDE) or verdict_of(fact) is not None


def drawn(seed: int, steps: int) -> Machine:
    """A run as far as it has come after so many steps; the same for the same numbers."""
    machine, chance = Machine(), Random(seed)
    machine.begin(chance.getrandbits(32))
    for _ in range(steps):
        machine.act(chance.choice(CAST), chance.getrandbits(32))
    return machine


def pending(seed: int, steps: int, more: int) -> Journal:
    """What a driver goes on to write, up to what is another's. It says how much the model heard: others may speak."""
    machine, chance = drawn(seed, steps), Random(more)
    done = len(machine.journal)
    for _ in range(6):
        if outside_at(machine.journal, done) == len(machine.journal) < done + 8:
            machine.drive(chance)
    run, facts = play(*machine.journal[:done]), []
    for fact in machine.journal[done : outside_at(machine.journal, done)]:
        if type(fact) is f.Replied and fact.saw is None:
            fact = replace(fact, saw=run.at(fact.path).said)
        fold(run, fact)
        facts.append(fact)
    return facts[: Random(more).randint(1, 8)]


def outside_at(journal: Journal, start: int) -> int:
    return next((n for n in range(start, len(journal)) if outside(journal[n])), len(journal))


def tail(machine: Machine, chance: Random) -> Journal:
    """What people write meanwhile: decisions, input, grants, a stop."""
    run, facts = machine.run.fork(), []
    for _ in range(chance.randint(1, 3)):
        options = [
            said("meanwhile", at=machine.tick()),
            f.Granted(machine.new_id("g"), "agent", "t", chance.choice(["approve", "reject"]), "ana"),
            f.Cancelled("ana") if run.cancelled is None else f.Resumed("ana"),
            *(f.Revoked(grant, "ana") for grant in run.grants),
            *overdue(run, machine.now),
        ]
        for path, state in [*questions(run)] * 8:
            options.append(machine.answer(chance, path, state, chance.choice(state.allowed() or ("reject",))))
        for path, state in machine.calls("ASKED", "RUNNING"):
            if state.attempt:
                options.append(f.Witnessed(state.call.id, state.attempt, js("late"), path=path))
        fact = chance.choice(options)
        if follows(run, fact):
            facts.append(fact)
    return facts


def follows(run: Run, fact: Any) -> bool:
    try:
        fold(run, fact)
    except IllegalFact:
        return False
    return True


def both(base: Journal, one: Journal, other: Journal) -> Run | None:
    """The run with the one before the other, if that is legal."""
    run = play(*base)
    return run if all(follows(run, fact) for fact in [*one, *other]) else None


def shown(run: Run, paths: list[Path]) -> dict[str, Any]:
    """All that a driver, a person or a model can tell of a run."""
    return {
        "owed": owed(run),
        "status": status(run),
        "questions": [(path, state.question) for path, state in questions(run)],
        "heard": {path: transcript(run.at(path)) for path in paths},
        "uses": run.uses,
        "phases": {path: [(id, state.phase) for id, state in run.at(path).calls.items()] for path in paths},
    }


def looked_before(base: Journal, theirs: Journal, ours: Journal) -> bool:
    """Whether a guardrail of the run itself has looked before something was said: then it has not seen that."""
    return any(type(fact) is f.Said for fact in theirs) and any(
        type(fact) is f.Guarded and fact.where == "input" and not fact.path for fact in ours
    )


def compare(seed: int, steps: int, more: int, counts: Counter[str]) -> None:
    machine = drawn(seed, steps)
    base, ours, theirs = list(machine.journal), pending(seed, steps, more), tail(machine, Random(more))
    if not ours or not theirs:
        counts["nothing to compare"] += 1
        return
    stored, held = both(base, theirs, ours), both(base, ours, theirs)
    if stored is None or held is None:
        counts["refused"] += 1
        return
    if looked_before(base, theirs, ours):
        counts["guardrails"] += 1
        return
    counts["same"] += 1
    counts.update(f"{type(fact).__name__} meanwhile" for fact in theirs)
    paths = [path for path in machine.ledger.places if all(path[:n] in machine.ledger.places for n in range(len(path)))]
    assert shown(stored, paths) == shown(held, paths)


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(0, 20), more=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_what_others_write_meanwhile_comes_to_the_same_before_and_after(seed: int, steps: int, more: int) -> None:
    counts: Counter[str] = Counter()
    compare(seed, steps, more, counts)
    assume(not counts["nothing to compare"])
    for each in counts:
        event(each)


def test_enough_of_it_is_compared() -> None:
    counts: Counter[str] = Counter()
    for seed in range(300):
        compare(seed, seed % 20, seed, counts)
    assert counts["same"] > 60, counts
    for name in ("Approved", "Refused", "Said", "Granted", "Revoked", "Cancelled", "Witnessed"):
        assert counts[f"{name} meanwhile"] >= 2, counts


def test_a_guardrail_that_looked_before_something_was_said_is_the_one_thing_that_differs() -> None:
    base = [began(guards=("g1", "g2")), said(), replied(1, "c1"), f.Guarded("input", "g1")]
    ours, theirs = [f.Guarded("input", "g2")], [said("meanwhile")]
    stored, held = both(base, theirs, ours), both(base, ours, theirs)
    assert stored is not None and held is not None
    assert (list(stored.guards), list(held.guards)) == (["g1"], [])
