"""Migration to schema version 3: previews, reviewers, masked arguments, who asked for a run, what was shown."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; earlier runs and questions have nothing there."""
    op.add_column("assent_runs", sa.Column("started_by", sa.Text))
    for name in ("reviewers", "redact", "started_by", "shown", "preview"):
        op.add_column("assent_questions", sa.Column(name, sa.Text))
