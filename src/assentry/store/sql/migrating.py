"""Creating and migrating the tables. Besides the migrations, the only module that imports Alembic."""

from __future__ import annotations

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

MIGRATIONS = Path(__file__).parent.parent / "migrations"

_one = threading.Lock()
"""Held during a migration, since Alembic keeps its state in module globals."""


def config() -> Config:
    """Return an Alembic configuration that points to the migrations."""
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    return made


def upgrade(connection: Connection) -> None:
    """Run the missing migrations in the connection's open transaction."""
    with _one:
        settings = config()
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")
