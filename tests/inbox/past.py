"""An office with a past: questions that were asked and decided at known times, by known people, on any store."""

from __future__ import annotations

from typing import Any

from assentry.approval.decision import Decider
from assentry.core import facts as f
from assentry.store import Store
from assentry.store.record import Question
from assentry.testing import FakeClock
from assentry.testing.store_checks.draft import SEND, SHRED, RunDraft, put_asking

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
START = 1_768_521_600.0
"""Friday, 16 January 2026, at midnight in UTC."""


async def decided(
    store: Store, clock: FakeClock, by: str, verdict: dict[str, Any], *, after: float, tool: Any = SEND,
    looked: int | None = None,
) -> Question:  # fmt: skip
    """Ask a question now, and decide it after so many seconds."""
    [question] = await put_asking(store, (tool,))
    clock.advance(after)
    who = Decider(by, (), None if looked is None else "0" * 64, looked)
    return await store.decide(question.id, verdict, by=who, digest=question.digest)


APPROVE, REJECT = {"type": "approve"}, {"type": "reject", "message": "Not to him."}
EDIT = {"type": "edit", "arguments": {"to": "ben", "copies": 1}}
RESPOND = {"type": "respond", "output": "It was sent already."}


async def a_week(store: Store, clock: FakeClock) -> list[Question]:
    """Four decisions of two people, a deadline that passed, a question that was closed, and one that waits."""
    clock.now = START + 9 * HOUR
    made = [
        await decided(store, clock, "ann", APPROVE, after=20.0, looked=900),
        await decided(store, clock, "ann", EDIT, after=5 * MINUTE, looked=30_000),
    ]
    clock.now = START + DAY + 9 * HOUR
    made += [
        await decided(store, clock, "ben", REJECT, after=2 * HOUR, tool=SHRED),
        await decided(store, clock, "ann", RESPOND, after=20.0, looked=1_999),
    ]
    made.append(await expired(store, clock))
    clock.now = START + 2 * DAY + 9 * HOUR
    made += await put_asking(store, (SEND,))
    clock.advance(HOUR)
    return made


async def expired(store: Store, clock: FakeClock) -> Question:
    """Ask a question that nobody decides in time."""
    [question] = await put_asking(store, (SEND,))
    draft = await RunDraft.read(store, question.run)
    clock.advance(HOUR)
    why = "nobody decided in time"
    draft.add(f.Refused(question.call, "deadline", question.id, why=why, at=draft.now))
    await draft.write(store)
    return await store.question(question.id)
