"""Making the tables, and bringing them to what this Assent needs: the only module that knows Alembic."""

from __future__ import annotations

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

MIGRATIONS = Path(__file__).parent.parent / "migrations"

_one = threading.Lock()
"""Alembic keeps what it is doing in its modules, so two cannot do it at once."""


def config() -> Config:
    """How Alembic finds the migrations."""
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    return made


def upgrade(connection: Connection) -> None:
    """Run the migrations that this database lacks, in the transaction that the connection is in."""
    with _one:
        settings = config()
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")
