"""The core under random fire, and that the fire is heavy enough."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import ClassVar, get_args

from hypothesis import HealthCheck, Phase, settings

from assentry.core.rules import ROWS
from assentry.core.run import Status
from tests.core.support import EFFECTS, FACTS
from tests.draws import examples
from tests.property.machine import CAST, Machine

TestCore = Machine.TestCase
TestCore.settings = settings(
    max_examples=examples(120),
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
    phases=set(Phase) - {Phase.explain},  # a run is explained by its journal, and sooner
)


class Counted(Machine):
    """The same machine with counters of its own."""

    rows: ClassVar[Counter[tuple[str, str]]] = Counter()
    effects: ClassVar[Counter[str]] = Counter()
    facts: ClassVar[Counter[str]] = Counter()
    refusals: ClassVar[Counter[str]] = Counter()
    statuses: ClassVar[Counter[str]] = Counter()
    depths: ClassVar[Counter[int]] = Counter()


def play(seed: int, steps: int = 50) -> None:
    """One run of the machine without hypothesis, which prefers what is small: here every step is as likely."""
    machine, chance = Counted(), Random(seed)
    machine.begin(chance.getrandbits(32))
    for _ in range(steps):
        machine.act(chance.choice(CAST), chance.getrandbits(32))
    machine.teardown()
    Counted.depths[max(len(path) for path in machine.ledger.places)] += 1


def test_the_machine_reaches_every_row_effect_fact_refusal_and_status() -> None:
    for seed in range(150):
        play(seed)
    seldom = 3
    assert {row for row, n in Counted.rows.items() if n >= seldom} == {(r.phase.name, r.fact.__name__) for r in ROWS}
    assert {name for name, n in Counted.effects.items() if n >= seldom} == {effect.__name__ for effect in EFFECTS}
    assert {name for name, n in Counted.facts.items() if n >= seldom} == {fact.__name__ for fact in FACTS}
    assert {name for name, n in Counted.refusals.items() if n >= seldom} == {fact.__name__ for fact in FACTS}
    assert {name for name, n in Counted.statuses.items() if n >= seldom} == set(get_args(Status))
    assert all(Counted.depths[depth] >= seldom for depth in range(3))
