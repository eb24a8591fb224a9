"""Which modules faults are seeded in, and all of those faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import condition, table
from .mutant import Fault, Mutant, Text, named, path_of

CORE, RUNTIME = "core", "runtime"

WHERE: list[tuple[str, str, Callable[[Text], Iterator[Fault]]]] = [
    ("assentry.core.rules", CORE, table.faults),
    ("assentry.core.fold", CORE, condition.faults),
    ("assentry.core.run", CORE, condition.faults),
    ("assentry.approval.gate", RUNTIME, condition.faults),
    ("assentry.runtime.steps.door", RUNTIME, condition.faults),
]


def mutants() -> list[Mutant]:
    """Every fault there is, equivalents included."""
    return [
        mutant
        for module, group, faults in WHERE
        for mutant in named(module, group, faults(Text(path_of(module).read_bytes())))
    ]


CONTROL = Mutant("no fault", "assentry.core.rules", CORE, Fault("no fault", 0, 0, ""))
"""The code as it is: the tests must pass on it, or what they say of the others means nothing."""
