"""Runs on Temporal: the same agents, gate, door and inbox, with a Temporal cluster as the engine and the authority."""

from .archive import JournalArchive, StoreArchive
from .client import TemporalRun, TemporalRuns, register_search_attributes
from .connect import connect
from .message import Recorded, Standing, Waiting
from .object_archive import ObjectArchive
from .object_storage import FolderStorage, ObjectStorage, ObstoreStorage
from .options import ActivityOptions
from .plugin import AssentryPlugin
from .store_projection import rebuild_projection, rebuild_projections

__all__ = [
    "ActivityOptions",
    "AssentryPlugin",
    "FolderStorage",
    "JournalArchive",
    "ObjectArchive",
    "ObjectStorage",
    "ObstoreStorage",
    "Recorded",
    "Standing",
    "StoreArchive",
    "TemporalRun",
    "TemporalRuns",
    "Waiting",
    "connect",
    "rebuild_projection",
    "rebuild_projections",
    "register_search_attributes",
]
