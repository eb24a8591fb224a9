"""The page on live conversations is drawn from the tables, so it cannot say anything else.

After a change of the tables, write the page anew with: ASSENTRY_WRITE=1 python -m pytest tests/docs/test_live_page.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from assentry.realtime.rules import SESSION_RULES, TURN_RULES, USERS, LiveState, TurnState

PAGE = Path(__file__).parent.parent.parent / "docs" / "explanation" / "live.md"

TEXT = """\
# A live conversation

In [a live session](../howto/realtime.md) nobody takes turns by the book: the user interrupts, words arrive after their
answer, the connection drops. What may happen when is two tables in `src/assentry/realtime/rules.py`: the states of the
session, and the states of each turn. This page is drawn from them, and a test keeps it so.

```mermaid
flowchart LR
    model["model<br/>WebSocket"] -- events --> machine["Conversation<br/>the tables, no I/O"]
    user([user]) -- messages --> machine
    clock([clock]) -- "words are late" --> machine
    machine -- "Said, Replied" --> journal[(journal)]
    journal -- "the run has changed" --> machine
    machine -- "what the model must be told" --> model
    machine -- events --> user
```

`Conversation` (`realtime/conversation.py`) is a machine without I/O: events come in, and out come facts to record,
messages for the model and events for the user. `RealtimeSession` carries them out, one after the other: it owns the
connection, the timers, the tasks and the store. What the model must be told is derived from the run
(`realtime/briefing.py`), so nothing is told twice, however a fact came into the journal.

A step that has no row changes nothing, because a provider may repeat an event or send it late. Steps of the user
({users}) are refused with a `UsageError` where they have no row.
"""

TURNS = """\
A turn is a message of the user, spoken or typed, or a reply of the model. The journal has the turns in an order that
can be continued as text: a message is recorded after the messages before it, and a reply after the speech that it
answers, however late the words come.
"""


def page() -> str:
    """The page as the tables have it today."""
    users = " and ".join(f"`{step}`" for step in USERS)
    parts = [
        ["## The session", "", *diagram(SESSION_RULES, ["[*] --> NEW: RealtimeRunner.run"])],
        [*states(LiveState, "session"), "", *table(SESSION_RULES)],
        ["## The turns", "", TURNS, *diagram(TURN_RULES, STARTS)],
        [*states(TurnState, "turn"), "", *table(TURN_RULES)],
    ]
    return "\n".join([TEXT.format(users=users), *(line for part in parts for line in [*part, ""])])


STARTS = [
    "[*] --> UNDER_WAY: a reply begins",
    "[*] --> AWAITED: the user has spoken",
    "[*] --> READY: the user has typed",
]


def diagram(rows: Any, starts: list[str]) -> list[str]:
    """The steps between states."""
    steps: dict[tuple[Any, Any], list[str]] = {}
    for row in rows:
        if row.state is not row.next:
            steps.setdefault((row.state, row.next), []).append(row.step)
    lines = ["```mermaid", "stateDiagram-v2", *(f"    {start}" for start in starts)]
    return [*lines, *(f"    {a.name} --> {b.name}: {', '.join(names)}" for (a, b), names in steps.items()), "```"]


def states(kind: Any, name: str) -> list[str]:
    return [f"| state | the {name} |", "|---|---|", *(f"| {state.name} | {state.value} |" for state in kind)]


def table(rows: Any) -> list[str]:
    lines = ["| in state | step | comes | because |", "|---|---|---|---|"]
    return lines + [f"| {row.state.name} | {row.step} | {row.next.name} | {row.why} |" for row in rows]


def test_the_page_shows_the_tables_as_they_are() -> None:
    if os.environ.get("ASSENTRY_WRITE"):
        PAGE.write_text(page(), "utf-8")
    assert PAGE.exists() and PAGE.read_text("utf-8") == page(), (
        f"{PAGE.name} is not what the tables say; write it anew with ASSENTRY_WRITE=1 and read what changed"
    )
