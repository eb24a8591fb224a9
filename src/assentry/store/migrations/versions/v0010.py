"""Migration to schema version 10: runs that programs outside drive.

An older process would take such a run for one that its workers drive; the new version turns it away.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the column that names the program, and the index by which its open questions are counted."""
    op.add_column("assentry_runs", sa.Column("caller", sa.Text))
    where = sa.text("caller IS NOT NULL")
    op.create_index(
        "assentry_runs_caller", "assentry_runs", ["caller", "status"], sqlite_where=where, postgresql_where=where
    )
