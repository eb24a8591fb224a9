"""Compares all cases, or those whose names begin as given, and prints a table: `python -m tests.threads.peer gate`.

With `-v`, what both sides printed, and where ours failed. With `--write`, what is the same by now is taken out of
`not_yet.txt`: cases, names and signatures.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack

from tests.store.postgres import NotStarted, server

from .known_differences import LIST
from .outcome import Outcome, compared, needs_postgres
from .program import everything
from .worker import Worker


def main(arguments: list[str]) -> None:
    begins = tuple(each for each in arguments if not each.startswith("-")) or ("",)
    names = [name for name in everything() if name.startswith(begins)]
    outcomes = []
    with ExitStack() as stack:
        databases = None
        if any(map(needs_postgres, names)):
            try:
                databases = stack.enter_context(server())
            except NotStarted as error:
                print(f"Cases with Postgres fail: {error}")
        worker = Worker()
        stack.callback(worker.close)
        print("| case | outcome | why |\n|---|---|---|")
        for name in names:
            outcome = compared(worker, name, databases)
            outcomes.append(outcome)
            print(f"| {name} | {outcome.kind} | {outcome.why.replace('|', '/')} |", flush=True)
            if outcome.theirs.error or "-v" in arguments:
                _explain(outcome)
    counts = Counter(outcome.kind for outcome in outcomes)
    print("\n" + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    if "--write" in arguments:
        _write({outcome.name for outcome in outcomes if outcome.good})


def _explain(outcome: Outcome) -> None:
    print(f"--- theirs\n{outcome.theirs.printed}{outcome.theirs.trace}")
    print(f"--- ours\n{outcome.ours.printed}{outcome.ours.trace}\n")


def _write(good: set[str]) -> None:
    """Take out of the list what is the same by now: these cases, names that are here, and signatures that fit."""
    from .test_names import found as found_name
    from .test_signatures import found as differing

    def still(line: str) -> bool:
        kind, _, name = line.strip().partition(" ")
        return name not in good if kind == "case" else not found_name(name) if kind == "name" else name in differing()

    lines = LIST.read_text("utf-8").splitlines(keepends=True)
    LIST.write_text("".join(filter(still, lines)), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
