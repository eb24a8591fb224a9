"""Statistics for those who look at them: counted every few seconds, and with the figures that they may see."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from msgspec.structs import replace

from ..errors import Forbidden
from ..store.statistics import Counted, Period, Statistics, TimeSlice, checked_names, period_of, statistics_of
from ..store.store import Store
from .identity import Identity

KEPT = 10
"""The seconds for which statistics are kept: all who ask during that time share them."""
KEPT_PART = 600
"""The seconds for which the counts of a part that is over are kept. Only a purge or a rebuild changes them."""
OVER = 3_600_000
"""The milliseconds after its end from which nothing is written into a part any more."""
MOST_CELLS = 200_000
"""The most groups of questions that are kept."""


class StatisticsQuery(NamedTuple):
    """A request for statistics."""

    period: Period
    until: int | None
    tool: str | None
    agent: str | None
    by: str | None


class KeptStatistics:
    """The statistics of a store, kept for some seconds. All who ask for the same at once share the work."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[object, ...], tuple[float, Statistics]] = OrderedDict()
        self._parts: OrderedDict[TimeSlice, tuple[float, Counted]] = OrderedDict()
        self._counting: dict[tuple[object, ...], asyncio.Task[Statistics]] = {}

    async def get(
        self,
        who: Identity,
        *,
        since: int | None = None,
        until: int | None = None,
        tool: str | None = None,
        agent: str | None = None,
        by: str | None = None,
    ) -> Statistics:
        """Return the figures of a period as somebody may see them; see `Store.statistics`."""
        check_may_see(who, by)
        checked_names(tool=tool, agent=agent, by=by)
        await self._store.open()
        period = period_of(since, until, int(self._store.clock() * 1000))
        asked = StatisticsQuery(period, until, tool, agent, by)
        # The period of a week until now ends later each time, and is the same for some seconds.
        key = (period.since, period.step, until, tool, agent, by)
        kept = self._kept.get(key)
        if kept is not None and 0 <= self._store.clock() - kept[0] < KEPT:
            return statistics_for(who, kept[1])
        here = (asyncio.get_running_loop(), *key)
        counting = self._counting.get(here)
        if counting is None:
            counting = self._counting[here] = asyncio.get_running_loop().create_task(self._count(here, key, asked))
        return statistics_for(who, await asyncio.shield(counting))  # others may wait for it, too

    async def _count(self, here: tuple[object, ...], key: tuple[object, ...], asked: StatisticsQuery) -> Statistics:
        try:
            parts = asked.period.parts(asked.tool, asked.agent, asked.by)
            counted = [await self._part(each) for each in parts]
            waiting = await self._store.count_open(parts[-1])
            made = statistics_of(asked.period, counted, waiting, asked.by)
            self._kept[key] = self._store.clock(), made
            while len(self._kept) > 50:
                self._kept.popitem(last=False)
            return made
        finally:
            del self._counting[here]

    async def _part(self, part: TimeSlice) -> Counted:
        now = self._store.clock()
        kept = self._parts.get(part)
        if kept is not None and 0 <= now - kept[0] < KEPT_PART:
            return kept[1]
        counted = await self._store.count_part(part)
        if part.end + OVER < now * 1000:
            self._parts[part] = now, counted
            size = sum(len(each.authors) + len(each.tools) + 1 for _, each in list(self._parts.values()))
            while size > MOST_CELLS and self._parts:
                _, (_, oldest) = self._parts.popitem(last=False)
                size -= len(oldest.authors) + len(oldest.tools) + 1
        return counted


def check_may_see(who: Identity, by: str | None) -> None:
    """Raise `Forbidden` if somebody asks for the figures of another, and may not see them."""
    if by is not None and by != who.name and not who.may("audit"):
        raise Forbidden(f"{who.name} is a {who.role}, and sees the figures of all together, and {who.name}'s own.")


def statistics_for(who: Identity, found: Statistics) -> Statistics:
    """Return statistics as somebody may see them: of people, only themselves, unless the role allows an audit."""
    if who.may("audit"):
        return found
    return replace(found, people=[each for each in found.people if each.name == who.name], whole=False)
