"""Migration to schema version 6: chapters, the snapshots of long runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "assent_chapters",
        sa.Column("run", _Big, nullable=False),
        sa.Column("seq", _Big, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("snapshot", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run", "seq", name="assent_chapters_pkey"),
    )
