"""Statistics of questions: how many waited, how soon they were decided, by which tool and by whom. No I/O here.

A store counts settled questions in groups, time by time; everything else is computed from these groups. Times to decide
are counted in classes, so that no store has to sort them: a percentile is the middle of its class, and at most a sixth
off. The rows are counted as they are: whoever needs evidence reads the journals.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from math import ceil, sqrt
from typing import NamedTuple

from msgspec import Struct

from ..approval.decision import OURS
from ..core.number import is_count
from ..core.wording import described, holds
from ..errors import UsageError
from .record import Question

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_CLOCK = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50)
"""The beginnings of classes in a minute or an hour: each is at most a third wider than the one before."""
WAITS = tuple(
    int(each * unit)
    for unit, steps in (
        (_SECOND, _CLOCK),
        (_MINUTE, _CLOCK),
        (_HOUR, (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 18)),
        (_DAY, (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 9, 11, 14, 18, 23, 30, 40, 50, 65, 85)),
    )
    for each in steps
)
"""The milliseconds at which the classes of waiting times begin; the first class is below them all."""
BARS = (
    10 * _SECOND, 30 * _SECOND, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR, 4 * _HOUR,
    12 * _HOUR, _DAY, 3 * _DAY, 7 * _DAY,
)  # fmt: skip
"""The ends of the bars in which waiting times are shown; each is the beginning of a class."""
UNREAD = 2 * _SECOND
"""The milliseconds below which nobody can have read a question."""
STEPS = (_HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY)
"""The lengths of the parts of a period; the smallest is taken that makes at most `MOST_PARTS`."""
MOST_PARTS = 62
MONDAY = 4 * _DAY
"""The first Monday since 1970, in UTC: longer parts begin with a week."""
WEEK = 7 * _DAY
DECISIONS = ("approve", "edit", "reject", "respond")
"""The ends of questions that are decisions."""
ENDS = (*DECISIONS, "replaced", "void")
PROGRAMS = (*OURS, "code")
"""The authors who are no people, alone or before a colon."""


class TimeSlice(NamedTuple):
    """A part of a period, and the questions that are counted in it."""

    start: int
    end: int
    tool: str | None = None
    agent: str | None = None
    by: str | None = None
    """Whose decisions are counted by tool; None for those of all people."""


class Cell(NamedTuple):
    """The questions of a tool, or of an author, that ended in a part of a period after about the same time."""

    name: str
    wait: int
    """The class of the time from question to end: the number of `WAITS` that it reached."""
    ended: int
    approved: int
    edited: int
    rejected: int
    answered: int
    replaced: int
    void: int
    known: int
    """The number of those of which it is known how long their decider had them open."""
    unread: int
    """The number of those that were open for less than `UNREAD`."""
    longest: int
    """The longest time from question to end, in milliseconds."""

    @property
    def decided(self) -> int:
        """The number of decisions."""
        return self.approved + self.edited + self.rejected + self.answered


class Counted(NamedTuple):
    """The counts of a store in a part of a period."""

    asked: int
    authors: list[Cell]
    """All questions that ended, by their author."""
    tools: list[Cell]
    """The decisions of people, by tool."""


class Figures(Struct, frozen=True, kw_only=True):
    """The figures of some decisions. Times are milliseconds from the question to the decision."""

    name: str
    """The tool, or whoever decided; empty for all together."""
    decided: int
    approved: int
    edited: int
    rejected: int
    answered: int
    known: int
    """The number of decisions of which it is known how long the decider had the question open."""
    unread: int
    """The number of these that were made within two seconds of opening the question."""
    median: int | None
    slow: int | None
    """The time within which nine of ten decisions were made."""
    longest: int | None


class PeriodPart(Struct, frozen=True):
    """The counts from a time on, until the next one in the list."""

    at: int
    asked: int
    decided: int
    """The decisions of people."""
    ended: int
    """All questions that ended: decided by anybody, replaced, or closed with their run."""
    waiting: int
    """The number of open questions at the end of this part."""
    median: int | None
    """The median time to decide of the people's decisions."""


class WaitBar(Struct, frozen=True):
    """The number of decisions that people made within a time, and not within that of the bar before."""

    within: int | None
    """The time in milliseconds; None for any longer one."""
    count: int


class Statistics(Struct, frozen=True, kw_only=True):
    """The figures of a period. They are counted from the records, and are no evidence: the journals are."""

    since: int
    until: int
    step: int
    """The length of a part, in milliseconds."""
    waiting: int
    """The number of questions that were open at the end."""
    asked: int
    replaced: int
    void: int
    """The number of questions that were closed with their run."""
    total: Figures
    """All decisions of people."""
    parts: list[PeriodPart]
    waits: list[WaitBar]
    tools: list[Figures]
    """The decisions of people, by tool; the most used first."""
    people: list[Figures]
    others: list[Figures]
    """The decisions of programs, and of deadlines."""
    whole: bool = True
    """False if people are left out whose figures are not for whoever asked."""


class Period(Struct, frozen=True):
    """A time, in parts that begin at full hours, days or weeks in UTC."""

    since: int
    until: int
    step: int

    def parts(self, tool: str | None = None, agent: str | None = None, by: str | None = None) -> list[TimeSlice]:
        """Return the parts, the oldest first."""
        starts = range(self.since, self.until, self.step)
        return [TimeSlice(start, min(start + self.step, self.until), tool, agent, by) for start in starts]


def period_of(since: int | None, until: int | None, now: int) -> Period:
    """Return the period between two times; the last seven days without any. It ends now if it would end later."""
    for name, value in (("since", since), ("until", until)):
        if value is not None and not is_count(value, 0):
            raise UsageError(f"{name} is a time in milliseconds since 1970, got {described(value)}.")
    latest = now + 1  # with what happens in this millisecond
    end = latest if until is None else min(until, latest)
    start = max(0, end - 7 * _DAY) if since is None else since
    if start >= end:
        raise UsageError("The period is empty: since must be before until, and in the past.")
    step = next((each for each in STEPS if ceil((end - _begin(start, each)) / each) <= MOST_PARTS), STEPS[-1])
    return Period(_begin(start, step), end, step)


def _begin(at: int, step: int) -> int:
    """Return the beginning of the part that a time is in."""
    first = MONDAY if step >= WEEK else 0
    return max(0, first + (at - first) // step * step)


def checked_names(**given: str | None) -> None:
    """Raise `UsageError` unless each value is text, if given."""
    for name, value in given.items():
        if value is not None and (type(value) is not str or not holds(value)):
            raise UsageError(f"{name} is text, got {described(value)}.")


def is_person(by: str) -> bool:
    """Return True if the author of a decision is a person, or whoever else signed in under a name."""
    return by.partition(":")[0] not in PROGRAMS


def count_among(questions: Iterable[Question], part: TimeSlice) -> Counted:
    """Count the questions of a part, as the stores in SQL do."""
    fit = [q for q in questions if part.tool in (None, q.tool) and part.agent in (None, q.agent)]
    ended = [q for q in fit if q.verdict is not None and part.start <= (q.decided or 0) < part.end]
    decided = [
        q for q in ended if q.verdict in DECISIONS and is_person(q.by or "") and part.by in (None, q.by)
    ]  # fmt: skip
    asked = sum(part.start <= q.at < part.end for q in fit)
    return Counted(asked, _cells(ended, lambda q: q.by or ""), _cells(decided, lambda q: q.tool))


def _cells(questions: Iterable[Question], name_of: Callable[[Question], str]) -> list[Cell]:
    found: dict[tuple[str, int], list[Question]] = {}
    for q in questions:
        found.setdefault((name_of(q), bisect_right(WAITS, (q.decided or 0) - q.at)), []).append(q)
    return [_cell(name, wait, some) for (name, wait), some in found.items()]


def _cell(name: str, wait: int, questions: list[Question]) -> Cell:
    ends = Counter[str](str(q.verdict) for q in questions)
    looks = [q.looked for q in questions if q.looked is not None]
    return Cell(
        name=name,
        wait=wait,
        ended=len(questions),
        approved=ends["approve"],
        edited=ends["edit"],
        rejected=ends["reject"],
        answered=ends["respond"],
        replaced=ends["replaced"],
        void=ends["void"],
        known=len(looks),
        unread=sum(each < UNREAD for each in looks),
        longest=max((q.decided or 0) - q.at for q in questions),
    )


def count_open_among(questions: Iterable[Question], part: TimeSlice) -> int:
    """Return the number of questions that were open at the end of a part."""
    return sum(
        q.at < part.end and (q.verdict is None or (q.decided or 0) >= part.end)
        for q in questions
        if part.tool in (None, q.tool) and part.agent in (None, q.agent)
    )


def statistics_of(period: Period, counted: list[Counted], waiting: int, by: str | None = None) -> Statistics:
    """Return the figures of a period from what was counted in its parts, and the questions open at its end."""
    every = [cell for each in counted for cell in each.authors]
    theirs = _by_people(every, by)
    others = [cell for cell in every if cell.decided and not is_person(cell.name) and by in (None, cell.name)]
    return Statistics(
        since=period.since,
        until=period.until,
        step=period.step,
        waiting=waiting,
        asked=sum(each.asked for each in counted),
        replaced=sum(cell.replaced for cell in every),
        void=sum(cell.void for cell in every),
        total=_figures("", theirs),
        parts=_parts(period, counted, waiting, by),
        waits=_waits(theirs),
        tools=_by_name(cell for each in counted for cell in each.tools),
        people=_by_name(theirs),
        others=_by_name(others),
    )


def _by_people(cells: Iterable[Cell], by: str | None) -> list[Cell]:
    return [cell for cell in cells if cell.decided and is_person(cell.name) and by in (None, cell.name)]


def _figures(name: str, cells: list[Cell]) -> Figures:
    median, slow = (_percentile(cells, share) for share in (0.5, 0.9))
    return Figures(
        name=name,
        decided=sum(cell.decided for cell in cells),
        approved=sum(cell.approved for cell in cells),
        edited=sum(cell.edited for cell in cells),
        rejected=sum(cell.rejected for cell in cells),
        answered=sum(cell.answered for cell in cells),
        known=sum(cell.known for cell in cells),
        unread=sum(cell.unread for cell in cells),
        median=median,
        slow=slow,
        longest=max((cell.longest for cell in cells), default=None),
    )


def _percentile(cells: Iterable[Cell], share: float) -> int | None:
    """Return the time within which this share of the decisions was made: the middle of its class."""
    classes: Counter[int] = Counter()
    longest: dict[int, int] = {}
    for cell in cells:
        classes[cell.wait] += cell.decided
        longest[cell.wait] = max(longest.get(cell.wait, 0), cell.longest)
    left = max(1, ceil(classes.total() * share))
    for number in sorted(classes):
        left -= classes[number]
        if left <= 0:
            return max(0, min(_middle(number, longest[number]), longest[number]))
    return None


def _middle(number: int, longest: int) -> int:
    if number == 0:
        return WAITS[0] // 2
    end = WAITS[number] if number < len(WAITS) else max(longest, WAITS[-1])
    return int(sqrt(WAITS[number - 1] * end))


def _by_name(cells: Iterable[Cell]) -> list[Figures]:
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.name, []).append(cell)
    return sorted((_figures(name, some) for name, some in found.items()), key=lambda each: (-each.decided, each.name))


def _parts(period: Period, counted: list[Counted], waiting: int, by: str | None) -> list[PeriodPart]:
    """Return the parts. The number that waited is known at the end, and goes back from there."""
    parts: list[PeriodPart] = []
    for part, each in reversed(list(zip(period.parts(), counted, strict=True))):
        theirs = _by_people(each.authors, by)
        ended = sum(cell.ended for cell in each.authors)
        decided, median = sum(cell.decided for cell in theirs), _percentile(theirs, 0.5)
        parts.append(PeriodPart(part.start, each.asked, decided, ended, max(0, waiting), median))
        waiting += ended - each.asked
    return parts[::-1]


def _waits(cells: list[Cell]) -> list[WaitBar]:
    counts = [0] * (len(BARS) + 1)
    for cell in cells:
        begin = WAITS[cell.wait - 1] if cell.wait else 0
        counts[bisect_right(BARS, begin)] += cell.decided
    return [WaitBar(within, count) for within, count in zip((*BARS, None), counts, strict=True)]
