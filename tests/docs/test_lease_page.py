"""The page on the life of a lease is drawn from the table, so it cannot say anything else.

After a change of the table, write the page anew with: ASSENTRY_WRITE=1 python -m pytest tests/docs/test_lease_page.py
"""

from __future__ import annotations

import os
from pathlib import Path

from assentry.runtime.lease import ROWS, LeaseState

PAGE = Path(__file__).parent.parent.parent / "docs" / "explanation" / "lease.md"

TEXT = """\
# The life of a lease

A run in a store is driven by one process at a time: the one that holds its lease. A drive may begin something, such as
asking a model or entering a tool's body, only while its lease is free or held, and it writes with that lease or not at
all. Which step is legal in which state is one table, `ROWS` in `src/assentry/runtime/lease.py`; this page is drawn from
it, and a test keeps it so. Any other step raises `LeaseLost`, and nothing is begun or written.

A lease is mostly acquired and released with a write of facts, in one transaction with them. The store compares its
fence, a number that grows with every lease of a run: who holds an older one writes nothing.
"""


def page() -> str:
    """The page as the table has it today."""
    parts = [diagram(), ["## The states", "", *states()], ["## The table", "", *table()]]
    return "\n".join([TEXT, *(line for part in parts for line in [*part, ""])])


def diagram() -> list[str]:
    """The steps between states."""
    steps: dict[tuple[LeaseState, LeaseState], list[str]] = {}
    for row in ROWS:
        if row.state is not row.next:
            steps.setdefault((row.state, row.next), []).append(row.step)
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> FREE: Runner.run", "    [*] --> HELD: a worker's claim"]
    return [*lines, *(f"    {a.name} --> {b.name}: {', '.join(names)}" for (a, b), names in steps.items()), "```"]


def states() -> list[str]:
    return ["| state | the lease |", "|---|---|", *(f"| {state.name} | {state.value} |" for state in LeaseState)]


def table() -> list[str]:
    lines = ["| in state | step | comes | because |", "|---|---|---|---|"]
    return lines + [f"| {row.state.name} | {row.step} | {row.next.name} | {row.why} |" for row in ROWS]


def test_the_page_shows_the_table_as_it_is() -> None:
    if os.environ.get("ASSENTRY_WRITE"):
        PAGE.write_text(page(), "utf-8")
    assert PAGE.exists() and PAGE.read_text("utf-8") == page(), (
        f"{PAGE.name} is not what the table says; write it anew with ASSENTRY_WRITE=1 and read what changed"
    )
