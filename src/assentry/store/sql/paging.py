"""A page of questions, read in parts that each take a short time, so that other reads come in between.

A question may have megabytes of arguments, and a search has no index. A page ends early at a number of bytes, or at a
time: its `next` goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec.json import encode
from msgspec.structs import replace

from ..filter import Filter, page_start
from ..record import Page

T = TypeVar("T")

FIRST, FIRST_SEARCHED = 20, 16
"""The rows of the first part of a list, and of a search."""
SHORT, LONG = 0.01, 0.03
"""The seconds of a part below which the next part is larger, and above which it is smaller."""
MOST_BYTES = 8_000_000
"""The number of characters at which a page ends."""
MOST_SECONDS = 1.0
"""The seconds of reading at which a page ends."""

Read = Callable[[Filter[T]], Awaitable[tuple[Page[T], float]]]
"""Reads a page, and returns it with the seconds that this took."""


async def read_in_parts(read: Read[T], filter: Filter[T]) -> Page[T]:
    """Return a page of questions."""
    found: Page[T] = Page([])
    part = FIRST if filter.search is None else FIRST_SEARCHED
    start, looked, seconds, size = filter.start, 0, 0.0, 0
    while True:
        left = filter.limit - len(found.items) - len(found.damaged)
        rows = min(part, left) if filter.search is None else left
        reach = min(part, filter.reach - looked)
        page, took = await read(replace(filter, start=start, limit=rows, reach=reach))
        found.items += page.items
        found.damaged += [id for id in page.damaged if id not in found.damaged]
        found.next = page.next
        looked, seconds, size = looked + reach, seconds + took, size + sum(map(_size, page.items))
        full = len(found.items) + len(found.damaged) >= filter.limit
        over = filter.search is not None and looked >= filter.reach
        if page.next is None or full or over or size > MOST_BYTES or seconds > MOST_SECONDS:
            return found
        start = page_start(1, page.next)
        part = part * 4 if took < SHORT else max(1, part // 4) if took > LONG else part
        if size:  # no more rows than fit, if they are like those before
            part = min(part, max(1, (MOST_BYTES - size) * len(found.items) // size))


def _size(question: Any) -> int:
    large = question.prompt, question.preview, question.evidence
    return len(question.arguments) + sum(len(encode(each)) for each in large if each)


def timed(work: Callable[[], Page[T]]) -> tuple[Page[T], float]:
    """Return the result of some work, and the seconds that it took."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began
