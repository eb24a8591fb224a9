"""The page on the life of a call is drawn from the table, so it cannot say anything else.

After a change of the table, write the page anew with: ASSENTRY_WRITE=1 python -m pytest tests/docs/test_lifecycle.py
"""

from __future__ import annotations

import os
from pathlib import Path

from assentry.core.rules import ANSWERS, ROWS, Phase

PAGE = Path(__file__).parent.parent.parent / "docs" / "explanation" / "lifecycle.md"

MEANING = {
    Phase.NEW: "proposed, and not judged yet",
    Phase.ASKED: "a person is asked",
    Phase.READY: "may run",
    Phase.RUNNING: "its body was entered",
    Phase.DELEGATED: "an agent of its own works on it, in a branch of the journal",
    Phase.REFUSED: "will not run, and the model is not told yet",
    Phase.DONE: "has its outcome",
}

TEXT = """\
# The life of a call

Everything that can wait in Assentry is a call: of a tool, to an agent, a handoff, a final output, a hosted tool, a hook
that asks. Every call goes through the same phases, and every step from one to the next is a fact in the journal. Which
fact may follow in which phase is one table, `ROWS` in `src/assentry/core/rules.py`; this page is drawn from it, and a
test keeps it so. A fact that has no row is refused with `IllegalFact`, and the run stays exactly as it was.

Beside the phase, a fact must match what is open: a decision names the question it answers, an attempt has the number
that is due, and what a person may say depends on the kind of question. A fact that leads back to the same phase changes
what is known of the call and not where it stands.
"""


def page() -> str:
    """The page as the table has it today."""
    parts = [diagram(), ["## The phases", "", *phases()], ["## The questions", "", *answers()]]
    parts.append(["## The table", "", *table()])
    return "\n".join([TEXT, *(line for part in parts for line in [*part, ""])])


def diagram() -> list[str]:
    """The steps between phases, each with the facts that take it."""
    steps: dict[tuple[Phase, Phase], list[str]] = {}
    for row in ROWS:
        steps.setdefault((row.phase, row.next), []).append(row.fact.__name__)
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> NEW: Replied, Proposed"]
    lines += [f"    {a.name} --> {b.name}: {', '.join(facts)}" for (a, b), facts in sorted(steps.items())]
    return [*lines, "    DONE --> [*]", "```"]


def phases() -> list[str]:
    lines = ["| phase | the call |", "|---|---|"]
    return lines + [f"| {phase.name} | {MEANING[phase]} |" for phase in Phase]


def answers() -> list[str]:
    lines = ["| kind of question | what a person may say |", "|---|---|"]
    return lines + [f"| {kind} | {', '.join(verdicts)} |" for kind, verdicts in ANSWERS.items()]


def table() -> list[str]:
    lines = ["| in phase | after | comes | because |", "|---|---|---|---|"]
    return lines + [
        f"| {r.phase.name} | {r.fact.__name__} | {r.next.name} | {r.why} |" for r in sorted(ROWS, key=order)
    ]


def order(row: tuple[Phase, type, Phase, str]) -> tuple[int, int]:
    return row[0], ROWS.index(row)  # type: ignore[arg-type]


def test_the_page_shows_the_table_as_it_is() -> None:
    if os.environ.get("ASSENTRY_WRITE"):
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(), "utf-8")
    assert PAGE.exists() and PAGE.read_text("utf-8") == page(), (
        f"{PAGE.name} is not what the table says; write it anew with ASSENTRY_WRITE=1 and read what changed"
    )


def test_every_phase_and_every_row_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    assert all(f"| {phase.name} | {MEANING[phase]} |" in text for phase in Phase)
    assert all(f"| {row.phase.name} | {row.fact.__name__} | {row.next.name} | {row.why} |" in text for row in ROWS)
    for row in ROWS:
        assert any(
            line.strip().startswith(f"{row.phase.name} --> {row.next.name}:") and row.fact.__name__ in line
            for line in text.splitlines()
        )
