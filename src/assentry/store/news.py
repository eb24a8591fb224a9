"""News of a store: what changed since a time, for those who watch. No I/O here.

News are hints: whoever gets one reads the question or the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal

from msgspec import Struct

from .record import Change, Question, RunRecord
from .stop import AgentStop

NewsKind = Literal[
    "question.asked", "question.decided", "question.replaced", "question.void", "run.changed", "stop.changed"
]

MOST_NEWS = 1000
"""The most news of each list that a look reads."""


class News(Struct, frozen=True, kw_only=True):
    """One thing that happened to a question or to a run."""

    kind: NewsKind
    id: str
    """The id of the question, of the run or of the stop."""
    run: str
    """The run's id; empty for a stop."""
    at: int
    """The time at which it happened, in milliseconds since 1970."""
    agent: str
    """The agent's name; empty for a stop of all agents."""
    tool: str | None = None
    verdict: str | None = None
    """The end of a question."""
    by: str | None = None
    """Whoever decided the question, or made or lifted the stop."""
    status: str | None = None
    """The status of a run."""
    waiting: int | None = None
    """The number of open questions of a run."""
    seq: int | None = None
    """The number of facts of a run."""


class Tally(Struct, frozen=True):
    """The number of open questions, and the time of the oldest."""

    open: int
    oldest: int | None = None


def is_news(change: Change) -> bool:
    """Return True if a change asks a question or ends one, so that watchers are woken at once."""
    return bool(change.asked or change.settled)


def question_news(question: Question) -> News:
    """Return the news of an open question."""
    id, run, agent, tool = question.id, question.run, question.agent, question.tool
    return News(kind="question.asked", id=id, run=run, at=question.at, agent=agent, tool=tool)


def question_end_news(question: Question) -> News:
    """Return the news of a question's end."""
    return end_news(
        question.id, question.run, question.agent, question.tool, question.verdict, question.by, question.decided
    )


def end_news(
    id: str, run: str, agent: str, tool: str, verdict: str | None, by: str | None, decided: int | None
) -> News:
    """Return the news of a question's end, from its fields."""
    kind: NewsKind = "question.decided"
    if verdict == "replaced":
        kind = "question.replaced"
    elif verdict == "void":
        kind = "question.void"
    return News(kind=kind, id=id, run=run, at=decided or 0, agent=agent, tool=tool, verdict=verdict, by=by)


def stop_news(stop: AgentStop) -> News:
    """Return the news of a stop that was made or lifted."""
    at, by = (stop.at, stop.by) if stop.lifted is None else (stop.lifted, stop.lifted_by)
    return News(kind="stop.changed", id=stop.id, run="", at=at, agent=stop.agent or "", by=by)


def changed(record: RunRecord) -> News:
    """Return the news of a run."""
    return run_news(record.id, record.agent, record.status, record.waiting, record.seq, record.changed)


def run_begun_news(record: RunRecord) -> News:
    """Return the news of a run that began and works."""
    return run_news(record.id, record.agent, record.status, record.waiting, record.seq, record.began)


def run_news(id: str, agent: str, status: str, waiting: int, seq: int, at: int) -> News:
    """Return the news of a run, from its fields."""
    return News(kind="run.changed", id=id, run=id, at=at, agent=agent, status=status, waiting=waiting, seq=seq)


def in_order(news: Iterable[News]) -> list[News]:
    """Return the oldest news first, each once."""
    return sorted(dict.fromkeys(news), key=lambda each: (each.at, each.kind, each.id))


def merged(lists: Sequence[Sequence[News]]) -> list[News]:
    """Merge lists of news that are each in the order of time and have at most `MOST_NEWS`; the oldest first.

    A full list may go on. So everything later than its end is left out, and the next look starts from there.
    """
    ends = [each[-1].at for each in lists if len(each) >= MOST_NEWS]
    found = in_order(chain.from_iterable(lists))
    return [each for each in found if each.at <= min(ends)] if ends else found
