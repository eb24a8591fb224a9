"""Migration to schema version 9: columns of questions and webhooks, stops, standing grants, previews."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0009"
down_revision = "0008"

_Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Id = sa.Text().with_variant(TEXT(collation="C"), "postgresql")
_REQUEST = ("question", "run_id", "agent", "digest", "definition", "arguments", "asker")


def upgrade() -> None:
    """Add the columns and the tables."""
    _add_standing_grants()
    op.add_column("assentry_questions", sa.Column("risk", sa.Text))
    op.add_column("assentry_questions", sa.Column("looked", _Big))
    op.add_column(
        "assentry_webhooks", sa.Column("format", sa.Text, nullable=False, server_default=sa.text("'standard'"))
    )
    op.create_table(
        "assentry_previews",
        sa.Column("id", _Id, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in _REQUEST),
        sa.Column("until", _Big, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("worker", "answer", "seal")),
    )
    for name in ("settled", "decided"):
        op.drop_index(f"assentry_questions_{name}", table_name="assentry_questions")
    _settled("settled", ["at", "verdict", "tool", "agent"])
    _settled("decided", ["decided", "id", "by", "verdict", "tool", "agent", "at", "looked"])
    _stops()


def _settled(name: str, columns: list[str]) -> None:
    """Make an index of the settled questions."""
    where = sa.text("verdict IS NOT NULL")
    op.create_index(
        f"assentry_questions_{name}", "assentry_questions", columns, sqlite_where=where, postgresql_where=where
    )


def _stops() -> None:
    """Make the table of stops."""
    op.create_table(
        "assentry_stops",
        sa.Column("id", _Id, primary_key=True),
        sa.Column("agent", _Id),
        sa.Column("stopped_by", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("at", _Big, nullable=False),
        sa.Column("lifted_at", _Big),
        sa.Column("lifted_by", sa.Text),
        sa.Column("seal", sa.Text),
    )
    holding = sa.text("lifted_at IS NULL")
    op.create_index(
        "assentry_stops_holding", "assentry_stops", ["at", "id"], sqlite_where=holding, postgresql_where=holding
    )


def _add_standing_grants() -> None:
    op.create_table(
        "assentry_standing_log",
        sa.Column("seq", _Big, primary_key=True, autoincrement=False),
        sa.Column("entry", sa.Text, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "assentry_standing_grants",
        sa.Column("id", _Id, primary_key=True),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("max_uses", _Big),
        sa.Column("until", _Big),
        sa.Column("used", _Big, nullable=False),
        sa.Column("revoked_at", _Big),
        sa.Column("revoked_by", sa.Text),
        sa.Column("seal", sa.Text, nullable=False),
    )
    held = sa.text("revoked_at IS NULL")
    op.create_index(
        "assentry_standing_grants_tool",
        "assentry_standing_grants",
        ["tool"],
        sqlite_where=held,
        postgresql_where=held,
    )
