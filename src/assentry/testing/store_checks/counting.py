"""Checks of the counts for statistics, and of ids by their beginning.

A store that has no statistics refuses to count, and no further check of them applies to it.
"""

from __future__ import annotations

from typing import Any

from ...approval.decision import Decider
from ...errors import UsageError
from ...store.record import Question, RunRecord
from ...store.statistics import Counted, TimeSlice, count_among, count_open_among
from ...store.store import Store
from ..clock import FakeClock
from .draft import SEND, SHRED, put_asking, put_begun
from .expect import alike

CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"tool": "send"},
    {"agent": "Clerk"},
    {"by": "ann"},
    {"tool": "shred", "by": "ann"},
)


async def counts_for_statistics(store: Store, clock: FakeClock) -> None:
    """Questions are counted by when they were asked, when and how they ended, by whom, and about which tool."""
    begin = int(clock() * 1000)
    try:
        await store.count_open(TimeSlice(begin, begin + 1))
    except UsageError:
        return
    questions = await _some_that_ended(store, clock)
    first, *_, last = sorted(each.decided or 0 for each in questions if each.verdict is not None)
    for start, end in ((begin, last + 1), (begin, last), (first, last), (first + 1, last + 1), (last + 1, last + 2)):
        for chosen in CHOICES:
            part = TimeSlice(start, end, **chosen)
            counted = _in_order(await store.count_part(part))
            alike(counted, _in_order(count_among(questions, part)), f"What ended is counted as it ended, of {chosen}.")
            alike(await store.count_open(part), count_open_among(questions, part), "What was open then is counted.")


async def _some_that_ended(store: Store, clock: FakeClock) -> list[Question]:
    """Store some questions, decide some of them after different times, and return all."""
    decisions: list[dict[str, Any]] = [{"type": "approve"}, {"type": "reject"}, {"type": "respond", "output": "sent"}]
    deciders = [Decider("ann", looked=900), Decider("bob"), Decider("ann", looked=5000)]
    asked = await put_asking(store, (SEND, SHRED, SEND, SEND))
    for question, decision, who in zip(asked, decisions, deciders, strict=False):
        clock.advance(40)
        await store.decide(question.id, decision, by=who, digest=question.digest)
    await put_asking(store, (SEND,), agent="Bailiff")
    return [*(await store.questions()).items, *(await store.questions(settled=True)).items]


def _in_order(counted: Counted) -> Counted:
    return counted._replace(authors=sorted(counted.authors), tools=sorted(counted.tools))


async def finds_ids_by_their_beginning(store: Store, clock: FakeClock) -> None:
    """The ids that begin with a text are found, to the letter, in their order and up to a number."""
    for run in ("run_2", "run_1b_", "run_1a%"):
        await put_begun(store, id=run)
    for beginning, expected in (
        ("run_1", ["run_1a%", "run_1b_"]),
        ("run_", ["run_1a%", "run_1b_", "run_2"]),
        ("run_2", ["run_2"]),
        ("run_1%", []),
        ("run__", []),
        ("RUN", []),
    ):
        alike(await store.ids(RunRecord, beginning), expected, f"Runs are found by the beginning {beginning!r}.")
    alike(await store.ids(RunRecord, "run_", limit=2), ["run_1a%", "run_1b_"], "No more ids are found than wanted.")


COUNTING_CHECKS = (counts_for_statistics, finds_ids_by_their_beginning)
