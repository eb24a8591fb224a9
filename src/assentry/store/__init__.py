"""Stores of runs, with their journals, questions, grants and leases."""

from typing import TYPE_CHECKING, Any

from .filter import Filter
from .memory import MemoryStore
from .open import open_store
from .record import Change, Entry, GrantRecord, Lease, Page, Question, RunRecord, SavedContext, Settled, Stored
from .store import Store

if TYPE_CHECKING:
    from .postgres import PostgresStore
    from .sqlite import SQLiteStore

__all__ = [
    "Change",
    "Entry",
    "Filter",
    "GrantRecord",
    "Lease",
    "MemoryStore",
    "Page",
    "PostgresStore",
    "Question",
    "RunRecord",
    "SQLiteStore",
    "SavedContext",
    "Settled",
    "Store",
    "Stored",
    "open_store",
]


def __getattr__(name: str) -> Any:
    """Import a database store on first use, since each needs packages that may not be installed."""
    if name == "SQLiteStore":
        from .sqlite import SQLiteStore

        return SQLiteStore
    if name == "PostgresStore":
        from .postgres import PostgresStore

        return PostgresStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
