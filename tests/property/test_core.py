"""The core under random fire, and that the fire is heavy enough."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, get_args

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from assent.core.rules import ROWS
from assent.core.run import Status
from tests.core.support import EFFECTS, FACTS
from tests.property.machine import Machine

LIMITS = settings(max_examples=150, stateful_step_count=60, suppress_health_check=list(HealthCheck))

TestCore = Machine.TestCase
TestCore.settings = LIMITS


class Counted(Machine):
    """The same machine with counters of its own."""

    rows: ClassVar[Counter[tuple[str, str]]] = Counter()
    effects: ClassVar[Counter[str]] = Counter()
    facts: ClassVar[Counter[str]] = Counter()
    refusals: ClassVar[Counter[str]] = Counter()
    statuses: ClassVar[Counter[str]] = Counter()


def test_the_machine_takes_every_row_and_meets_every_effect_and_status() -> None:
    fixed = settings(LIMITS, max_examples=60, derandomize=True, database=None, phases=[Phase.generate])
    run_state_machine_as_test(Counted, settings=fixed)
    assert set(Counted.rows) == {(row.phase.name, row.fact.__name__) for row in ROWS}
    assert set(Counted.effects) == {effect.__name__ for effect in EFFECTS}
    assert set(Counted.facts) == {fact.__name__ for fact in FACTS}
    assert set(Counted.refusals) == {fact.__name__ for fact in FACTS} - {"Said", "Defined"} | set(Counted.refusals)
    assert set(Counted.statuses) >= set(get_args(Status)) - {"idle"}
