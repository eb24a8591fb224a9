"""Statistics: exact numbers of a small office in every store, who may see whose, and what it costs."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assentry.cli import main
from assentry.errors import UsageError
from assentry.inbox.identity import Identity
from assentry.inbox.statistics import KeptStatistics
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.store.sql import statistics as sql
from assentry.store.statistics import BARS, MOST_PARTS, WAITS, Figures, Statistics, TimeSlice, is_person, period_of
from assentry.testing import FakeClock
from tests.inbox.past import APPROVE, DAY, HOUR, MINUTE, START, a_week, decided
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes, clock, each_store
from tests.inbox.support import client

__all__ = ["cheap_hashes", "clock", "each_store"]


def ms(seconds: float) -> int:
    return int(seconds * 1000)


def short(figures: Figures) -> tuple[Any, ...]:
    return (figures.name, figures.decided, figures.approved, figures.edited, figures.rejected, figures.answered,
            figures.known, figures.unread)  # fmt: skip


def in_class(milliseconds: int | None, real: float) -> bool:
    """Whether a percentile is at most a sixth off."""
    return milliseconds is not None and real * 1000 / 1.17 <= milliseconds <= real * 1000 * 1.17


async def test_the_figures_of_a_week_are_exact_in_every_store(each_store: Store, clock: FakeClock) -> None:
    async with each_store as store:
        await a_week(store, clock)
        found = await store.statistics(since=ms(START))
    assert (found.since, found.until, found.step) == (ms(START), ms(clock.now) + 1, ms(HOUR))
    assert (found.asked, found.waiting, found.replaced, found.void) == (6, 1, 0, 0)
    assert short(found.total) == ("", 4, 1, 1, 1, 1, 3, 2)
    assert [short(each) for each in found.people] == [("ann", 3, 1, 1, 0, 1, 3, 2), ("ben", 1, 0, 0, 1, 0, 0, 0)]
    assert [short(each) for each in found.tools] == [("send", 3, 1, 1, 0, 1, 3, 2), ("shred", 1, 0, 0, 1, 0, 0, 0)]
    assert [short(each) for each in found.others] == [("deadline", 1, 0, 0, 1, 0, 0, 0)]
    assert in_class(found.total.median, 20) and in_class(found.total.slow, 2 * HOUR)
    assert found.total.longest == ms(2 * HOUR)
    bars = {each.within: each.count for each in found.waits}
    assert {within: n for within, n in bars.items() if n} == {30_000: 2, ms(15 * MINUTE): 1, ms(4 * HOUR): 1}
    parts = {each.at: each for each in found.parts}
    nine, next_day = parts[ms(START + 9 * HOUR)], ms(START + DAY)
    assert (nine.asked, nine.decided, nine.ended, nine.waiting) == (2, 2, 2, 0)
    waiting = [parts[next_day + ms(n * HOUR)].waiting for n in range(8, 14)]
    assert waiting == [0, 1, 1, 1, 0, 0]
    assert [each.waiting for each in found.parts][-1] == 1


async def test_a_period_that_is_over_has_what_waited_then(each_store: Store, clock: FakeClock) -> None:
    async with each_store as store:
        await a_week(store, clock)
        found = await store.statistics(since=ms(START + DAY), until=ms(START + DAY + 10 * HOUR))
    assert (found.asked, found.waiting, found.total.decided) == (1, 1, 0)
    assert (found.total.median, found.total.longest, found.tools, found.people) == (None, None, [], [])
    assert [each.waiting for each in found.parts][-2:] == [0, 1]


@pytest.mark.parametrize(
    ("chosen", "asked", "expected"),
    [
        ({"tool": "shred"}, 1, ("", 1, 0, 0, 1, 0, 0, 0)),
        ({"agent": "Clerk"}, 6, ("", 4, 1, 1, 1, 1, 3, 2)),
        ({"agent": "Nobody"}, 0, ("", 0, 0, 0, 0, 0, 0, 0)),
        ({"by": "ann"}, 6, ("", 3, 1, 1, 0, 1, 3, 2)),
        ({"by": "ben", "tool": "send"}, 5, ("", 0, 0, 0, 0, 0, 0, 0)),
        ({"by": "deadline"}, 6, ("", 0, 0, 0, 0, 0, 0, 0)),
    ],
)
async def test_figures_can_be_those_of_one_tool_agent_or_person(
    each_store: Store, clock: FakeClock, chosen: Any, asked: int, expected: tuple[Any, ...]
) -> None:
    async with each_store as store:
        await a_week(store, clock)
        found = await store.statistics(since=ms(START), **chosen)
    assert (found.asked, short(found.total)) == (asked, expected)
    assert sum(each.decided for each in found.tools) == expected[1]
    assert sum(each.decided for each in found.parts) == expected[1]


async def test_both_kinds_of_stores_say_the_same_of_many_decisions(tmp_path: Path) -> None:
    found: list[Statistics] = []
    for make in (lambda clock: MemoryStore(clock=clock), lambda clock: SQLiteStore(tmp_path / "a.db", clock=clock)):
        clock = FakeClock(START)
        async with make(clock) as store:  # type: ignore[no-untyped-call]
            for n in range(40):
                await decided(store, clock, f"p{n % 7}", APPROVE, after=1.7**n % 90_000, looked=(n * 331) % 5000)
                clock.advance(700.0)
            found.append(await store.statistics(since=ms(START)))
    assert found[0] == found[1] and found[0].total.decided == 40


def test_authors_that_are_no_people_are_known() -> None:
    assert [is_person(by) for by in ("deadline", "code:auto", "runtime", "rule:x", "grant:g1")] == [False] * 5
    assert [is_person(by) for by in ("ann", "Deadline", "code", "decoder:x")] == [True, True, False, True]


def test_classes_of_times_are_narrow_and_bars_begin_with_one() -> None:
    assert list(WAITS) == sorted(set(WAITS)) and set(BARS) <= set(WAITS)
    # The middle of a class is at most a sixth off.
    assert max(b / a for a, b in pairwise(WAITS)) <= 1.17**2


@pytest.mark.parametrize("days", [0.01, 1, 2, 3, 7, 14, 30, 62, 90, 365, 1000, 5000, 19_000])
def test_a_period_has_few_parts_that_begin_with_full_hours_days_or_weeks(days: float) -> None:
    now = ms(START + 12_345)
    period = period_of(max(0, now - ms(days * DAY)), None, now)
    parts = period.parts()
    assert 1 <= len(parts) <= MOST_PARTS and parts[-1].end == now + 1 and parts[0].start <= now - ms(days * DAY) + 1
    assert all(one.end == two.start for one, two in pairwise(parts))
    if ms(DAY) * 7 <= period.step < ms(DAY) * 300 and period.since:
        assert datetime.fromtimestamp(period.since / 1000, UTC).weekday() == 0


@pytest.mark.parametrize(
    "wrong", [{"since": -1}, {"since": 5, "until": 5}, {"since": 2**52}, {"until": "now"}, {"tool": 5}, {"by": b"x"}]
)
async def test_a_period_that_makes_no_sense_is_refused(wrong: Any) -> None:
    async with MemoryStore(clock=FakeClock()) as store:
        with pytest.raises(UsageError):
            await store.statistics(**wrong)


def test_every_count_reads_an_index_and_no_table(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def make() -> None:
        async with SQLiteStore(path) as store:
            await store.upgrade()

    asyncio.run(make())
    some = {"start": 0, "end": 5, "tool": "t", "agent": "a", "by": "b"}
    with closing(sqlite3.connect(path)) as connection:
        for chosen in ((), ("tool",), ("tool", "agent")):
            for statement, index in (
                (sql._cells("author", chosen), "assentry_questions_decided"),
                (sql._cells("tool", (*chosen, "by")), "assentry_questions_decided"),
                (sql._asked(True, chosen), "assentry_questions_settled"),
                (sql._open_then(chosen), "assentry_questions_decided"),
            ):
                text, fixed = statement.on("sqlite")
                plan = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", {**fixed, **some})]
                assert f"COVERING INDEX {index}" in plan[0], plan


class Counting(MemoryStore):
    """A store that notes the parts that it counts."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.counted: list[TimeSlice] = []

    async def count_part(self, part: TimeSlice) -> Any:
        self.counted.append(part)
        return await super().count_part(part)


async def test_fifty_viewers_share_one_count_and_the_past_is_not_counted_again() -> None:
    clock = FakeClock()
    async with Counting(clock) as store:
        await a_week(store, clock)
        kept, ann = KeptStatistics(store), Identity("ann", "operator")
        found = await asyncio.gather(*(kept.get(ann) for _ in range(50)))
        assert len(store.counted) == len(found[0].parts) and all(each == found[0] for each in found)
        store.counted.clear()
        await kept.get(ann)
        assert store.counted == []
        clock.advance(11)
        later = await kept.get(ann)
        assert len(store.counted) <= 2 and later.until == found[0].until + 11_000
        clock.advance(601)
        await kept.get(ann)
        assert len(store.counted) > 20


@pytest.mark.parametrize(
    ("name", "role", "people", "whole"),
    [("rita", "operator", ["ann", "ben"], True), ("root", "admin", ["ann", "ben"], True),
     ("ann", "reviewer", ["ann"], False), ("vera", "viewer", [], False)],
)  # fmt: skip
async def test_a_reviewer_sees_her_own_figures_and_those_of_all(
    name: str, role: str, people: list[str], whole: bool
) -> None:
    clock = FakeClock()
    async with MemoryStore(clock=clock) as store:
        await a_week(store, clock)
        async with client(store, name, role) as web:
            answer = await web.get("/api/statistics")
            others = await web.get("/api/statistics?by=ben")
            page = await web.get("/api/statistics?since=5&until=4")
    found = answer.json()
    assert ([each["name"] for each in found["people"]], found["whole"]) == (people, whole)
    assert found["total"]["decided"] == 4 and others.status_code == (200 if whole else 403)
    assert page.status_code == 400


async def test_the_page_says_the_numbers_and_draws_them(each_store: Store, clock: FakeClock) -> None:
    from tests.inbox.office import hire, make_app

    async with each_store as store:
        await hire(store)
        await a_week(store, clock)
        app = make_app(store)
        async with Reader(app, "ann") as ann, Reader(app, "ben") as ben:
            page = await ann.open("/statistics?period=month")
            assert "4 of 6 questions asked" in page.text and "nobody, in time 1" in page.text
            assert "2 of 3" in page.text and "/audit?by=ben" in page.links()
            drawn = [given["aria-label"] for tag, given in page.tags if tag == "svg" and given.get("role") == "img"]
            assert len(drawn) >= 6 and drawn[0].startswith("Questions that waited. At most 1, 1 at the end.")
            assert "style=" not in page.source
            for path, words in (
                ("/statistics?since=2026-01-17&until=2026-01-17", "2 of 3 questions asked"),
                ("/statistics?period=day&tool=none", "Nothing was asked in this time."),
                ("/statistics?since=soon", "“soon” is no day."),
                ("/statistics?since=2026-01-17&until=2026-01-16", "The first day comes after the last"),
            ):
                assert words in (await ann.open(path)).text, path
            own = await ben.open("/statistics?period=month")
            assert "You see your own figures" in own.text and "/audit?by=ann" not in own.links()
            assert (await ben.client.get("/statistics?by=ann")).status_code == 403


def test_the_command_line_prints_statistics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a.db")

    async def fill() -> None:
        clock = FakeClock()
        async with SQLiteStore(path, clock=clock) as store:
            await a_week(store, clock)

    asyncio.run(fill())
    words = ("statistics", "--store", path, "--since", "2026-01-16", "--until", "2026-01-19")
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2026-01-16 00:00:00 to 2026-01-19 00:00:00 (UTC): 6 asked, 1 waiting at the end"
    table = [line.split() for line in lines]
    assert ["ann", "3", "1", "1", "1", "0", "22.4s", "5.5m", "5m", "2", "of", "3"][:6] in [row[:6] for row in table]
    assert ["deadline", "1", "0", "0", "0", "1"] in [row[:6] for row in table]
    assert ["30s", "2", "#" * 30] in table
    assert main((*words, "--json", "--tool", "shred")) == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=Statistics).total.decided == 1
    assert main((*words[:3], "--since", "2026-01-19", "--until", "2026-01-16")) == 1
    assert "The period is empty" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main((*words[:3], "--since", "soon"))
    assert "is no day" in capsys.readouterr().err
