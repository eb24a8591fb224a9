"""The names of `agents.memory.util`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from ..absent import find_absent
from ..items import TResponseInputItem

__all__ = ["SessionInputCallback"]

SessionInputCallback: TypeAlias = Callable[
    [list[TResponseInputItem], list[TResponseInputItem]],
    Awaitable[list[TResponseInputItem]] | list[TResponseInputItem],
]
"""A function that merges the session's items and the new items into the run's input."""

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
