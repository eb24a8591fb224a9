"""Where runs live: a store keeps them, hands out their questions, and takes the decisions."""

from typing import TYPE_CHECKING, Any

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
    """The stores in databases, with what they need, when they are first asked for."""
    if name == "SQLiteStore":
        from .sqlite import SQLiteStore

        return SQLiteStore
    if name == "PostgresStore":
        from .postgres import PostgresStore

        return PostgresStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
