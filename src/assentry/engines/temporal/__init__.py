"""Runs on Temporal: the same agents, gate, door and inbox, with a Temporal cluster as the engine and the authority."""

from .archive import JournalArchive, StoreArchive
from .client import TemporalRun, TemporalRuns, register_search_attributes
from .connect import connect
from .message import Recorded, Standing, Waiting
from .options import ActivityOptions
from .plugin import AssentryPlugin

__all__ = [
    "ActivityOptions",
    "AssentryPlugin",
    "JournalArchive",
    "Recorded",
    "Standing",
    "StoreArchive",
    "TemporalRun",
    "TemporalRuns",
    "Waiting",
    "connect",
    "register_search_attributes",
]
