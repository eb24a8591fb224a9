"""The beginning of an id, by which people name questions, runs and grants."""

from __future__ import annotations

from typing import TypeAlias

from ..core.wording import described, holds
from ..errors import UsageError
from .filter import page_start
from .record import GrantRecord, Question, RunRecord

WithId: TypeAlias = type[Question] | type[RunRecord] | type[GrantRecord]
"""The records that are found by the beginning of their id."""


def check_beginning(beginning: str, limit: int) -> None:
    """Raise `UsageError` unless this is the beginning of an id, and a number of ids."""
    if type(beginning) is not str or not beginning or not holds(beginning):
        raise UsageError(f"The beginning of an id is text, got {described(beginning)}.")
    page_start(limit, None)
