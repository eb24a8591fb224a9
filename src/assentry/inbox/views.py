"""The views of the list of questions: what somebody may decide, everything, and what they decided; and their counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ..approval.decision import Decider
from ..store.filter import MOST_COUNTED
from ..store.store import Store
from .identity import Identity
from .language import local_number, translate
from .metrics import KEPT, KeptTally

View = Literal["mine", "all", "decided"]
SLOW = 0.05
"""The seconds from which a count is slow: it is then kept for a while."""
MOST_KEPT = 1000
"""The most counts that are kept."""


class ListTab(Struct, frozen=True):
    """A view to choose, with the number of its questions."""

    view: View
    words: str
    count: str


class ListView(Struct, frozen=True):
    """A view of the list for somebody, with the filters of the request."""

    name: View
    who: Identity
    filters: dict[str, str]

    @property
    def settled(self) -> bool:
        """True for the questions that somebody decided, the newest first."""
        return self.name == "decided"

    def wanted(self, name: View | None = None) -> dict[str, Any]:
        """Return the filters of the store for this view, or for another one."""
        chosen: dict[View, dict[str, Any]] = {
            "mine": {"decider": Decider(self.who.name, self.who.groups)},
            "all": {},
            "decided": {"by": self.who.name, "settled": True, "newest": True},
        }
        return {**self.filters, **chosen[name or self.name]}


def view_of(who: Identity, query: Mapping[str, str]) -> ListView:
    """Return the view that an address names: first of all what somebody may decide."""
    filters = {name: query[name] for name in ("tool", "agent") if name in query}
    if not who.may("decide"):
        return ListView("all", who, filters)
    named: dict[str, View] = {"all": "all", "decided": "decided"}
    return ListView(named.get(query.get("view", ""), "mine"), who, filters)


class KeptCounts:
    """The numbers of questions in lists. One that took long, or went as far as is counted, is kept for some seconds."""

    def __init__(self, store: Store) -> None:
        self._store, self._tally = store, KeptTally(store)
        self._kept: dict[str, tuple[float, int]] = {}
        """The kept counts by their filters, each with the time until which it is good."""
        self._counting: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[int]] = {}

    async def number(self, filters: dict[str, Any]) -> tuple[int, bool]:
        """Return the number of questions that fit, and True if it is exact: there may be more."""
        now, key = time.monotonic(), repr(filters)
        kept = self._kept.get(key)
        if kept is not None and now < kept[0]:
            count = kept[1]
        else:
            count = await self._count_once(key, filters)
        if count == MOST_COUNTED and not filters:
            return max(count, (await self._tally.get()).open), True
        return count, count < MOST_COUNTED

    async def _count_once(self, key: str, filters: dict[str, Any]) -> int:
        """Return a new count. All who ask for the same one meanwhile share it."""
        loop = asyncio.get_running_loop()
        counting = self._counting.get((loop, key))
        if counting is None:
            counting = self._counting[loop, key] = loop.create_task(self._count(loop, key, filters))
        return await asyncio.shield(counting)  # others may wait for it after this request is cancelled

    async def _count(self, loop: asyncio.AbstractEventLoop, key: str, filters: dict[str, Any]) -> int:
        began = time.monotonic()
        try:
            count = await self._store.count_questions(**filters)
            self._keep(key, began, count)
            return count
        finally:
            del self._counting[loop, key]

    def _keep(self, key: str, began: float, count: int) -> None:
        now = time.monotonic()
        if now - began < SLOW and count < MOST_COUNTED:
            self._kept.pop(key, None)
            return
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = now + KEPT, count


class PageCounts:
    """The numbers of questions for one page, each counted once however often the page shows it."""

    def __init__(self, counts: KeptCounts) -> None:
        self._counts = counts
        self._found: dict[str, tuple[int, bool]] = {}

    async def number(self, filters: dict[str, Any]) -> tuple[int, bool]:
        """Return the number of questions that fit, and True if it is exact: there may be more."""
        key = repr(sorted(filters.items()))
        if key not in self._found:
            self._found[key] = await self._counts.number(filters)
        return self._found[key]

    async def words(self, filters: dict[str, Any]) -> str:
        """Return the number of questions that fit, as text: "10,000+" if there are more than are counted."""
        return count_words(*await self.number(filters))


def count_words(count: int, exact: bool) -> str:
    """Return a number of questions as text."""
    return local_number(count) if exact else f"{local_number(count)}+"


async def tabs_of(counts: PageCounts, view: ListView) -> list[ListTab]:
    """Return the views to choose from; none for somebody who decides nothing."""
    if not view.who.may("decide"):
        return []
    words: dict[View, str] = {
        "mine": translate("For me"),
        "all": translate("All"),
        "decided": translate("Decided by me"),
    }
    found = []
    for name, text in words.items():
        wanted = {key: value for key, value in view.wanted(name).items() if key != "newest"}
        found.append(ListTab(name, text, await counts.words(wanted)))
    return found
