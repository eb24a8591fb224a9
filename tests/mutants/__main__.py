"""`python -m tests.mutants`: seed every fault, and see that the tests find it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable

from .equivalent import EQUIVALENT
from .mutant import Mutant
from .seeds import CONTROL, CORE, mutants
from .trial import BY_PROPERTY, JUDGES, Verdict, trials


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="only faults whose name contains this")
    parser.add_argument("--list", action="store_true", help="say which faults there are, and seed none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many at a time")
    flags = {
        "--property-only": "the core's, with the property tests as only judge",
        "--equivalent": "those that are said to be none, to see that they are",
        "--quick": "with the first judge only; what it misses, others may find",
        "--verbose": "show those that were found too",
    }
    for flag, text in flags.items():
        parser.add_argument(flag, action="store_true", help=text)
    return parser.parse_args(arguments)


def judges(mutant: Mutant, given: argparse.Namespace) -> list[str]:
    """Which judges see this mutant."""
    every = list(JUDGES[mutant.group])
    if given.quick:
        return every[:1]
    return [name for name in every if name in BY_PROPERTY] if given.property_only else every


def line(verdict: Verdict) -> str:
    found = f"{verdict.judge}: {verdict.test} ({verdict.where})" if verdict.judge else "SURVIVED"
    return f"{verdict.seconds:6.1f} s  {verdict.mutant.name}\n          {found}"


def main(arguments: list[str] | None = None) -> int:
    given = options(arguments)
    every = mutants()
    stale = EQUIVALENT.keys() - {mutant.name for mutant in every}
    for name in sorted(stale):
        print(f"STALE in equivalent.py: {name}")
    chosen = [m for m in every if given.only in m.name and not (given.property_only and m.group != CORE)]
    if given.list:
        for mutant in chosen:
            print(mutant.name + (" -- equivalent" if mutant.name in EQUIVALENT else ""))
        return bool(stale)
    todo = [mutant for mutant in chosen if (mutant.name in EQUIVALENT) == given.equivalent]
    since = time.monotonic()
    verdicts = []
    for verdict in trials([CONTROL, *todo], given.jobs, lambda mutant: judges(mutant, given)):
        if verdict.mutant != CONTROL:
            verdicts.append(verdict)
            if given.verbose or verdict.judge is None:
                print(line(verdict), flush=True)
        elif verdict.judge is not None:
            print(f"The tests fail without any fault:\n{line(verdict)}", file=sys.stderr)
            return 2
    summary(verdicts, len(chosen) - len(todo), time.monotonic() - since)
    return bool(stale) or any(verdict.judge is None for verdict in verdicts)


def summary(verdicts: list[Verdict], equivalent: int, seconds: float) -> None:
    """One line for each module, and what the property tests alone do not find."""
    alone = [v for v in verdicts if v.judge not in (None, *BY_PROPERTY) and v.mutant.group == CORE]
    if alone:
        print("\nNot by the property tests alone:")
        for verdict in alone:
            print(line(verdict))
    print(f"\n{'module':24}{'faults':>8}{'found':>8}{'survived':>10}  by")
    for module in dict.fromkeys(verdict.mutant.module for verdict in verdicts):
        row(module, [verdict for verdict in verdicts if verdict.mutant.module == module])
    row("all", verdicts)
    print(f"\nLeft out: {equivalent} (equivalent.py says why). {seconds:.0f} s")


def row(name: str, verdicts: Iterable[Verdict]) -> None:
    verdicts = list(verdicts)
    found = [verdict.judge for verdict in verdicts if verdict.judge]
    by = ", ".join(f"{judge} {found.count(judge)}" for judge in dict.fromkeys(found))
    print(f"{name:24}{len(verdicts):8}{len(found):8}{len(verdicts) - len(found):10}  {by}")


if __name__ == "__main__":
    sys.exit(main())
