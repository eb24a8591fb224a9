"""Stores of runs, with their journals, questions, grants and leases."""

from typing import TYPE_CHECKING, Any

from ..approval.standing import StandingGrant, StandingTerms
from .filter import Filter
from .memory import MemoryStore
from .open import open_store, postgres_store, sqlite_store
from .preview_requests import PreviewAnswer, PreviewRequest, PreviewRequests
from .record import Change, Entry, GrantRecord, Lease, Page, Question, RunRecord, SavedContext, Settled, Stored
from .statistics import Figures, PeriodPart, Statistics, WaitBar
from .stop import AgentStop
from .store import Store

if TYPE_CHECKING:
    from .postgres import PostgresStore
    from .sqlite import SQLiteStore

__all__ = [
    "AgentStop",
    "Change",
    "Entry",
    "Figures",
    "Filter",
    "GrantRecord",
    "Lease",
    "MemoryStore",
    "Page",
    "PeriodPart",
    "PostgresStore",
    "PreviewAnswer",
    "PreviewRequest",
    "PreviewRequests",
    "Question",
    "RunRecord",
    "SQLiteStore",
    "SavedContext",
    "Settled",
    "StandingGrant",
    "StandingTerms",
    "Statistics",
    "Store",
    "Stored",
    "WaitBar",
    "open_store",
]


def __getattr__(name: str) -> Any:
    """Import a database store on first use, since each needs packages that may not be installed."""
    if name == "SQLiteStore":
        return sqlite_store()
    if name == "PostgresStore":
        return postgres_store()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
