"""The names of `agents.memory.sqlite_session`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...sessions.sqlite import SQLiteSession
from ..absent import find_absent

__all__ = ["SQLiteSession"]

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
