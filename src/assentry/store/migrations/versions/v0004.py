"""Migration to schema version 4: the inbox's users, tokens and sign-ins, webhooks and their outbox, agents, news."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0004"
down_revision = "0003"

_Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Id = sa.Text().with_variant(TEXT(collation="C"), "postgresql")


def _text(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=nullable) for name in names]


def _times(*names: str, nullable: bool = False) -> list[sa.Column[int]]:
    return [sa.Column(name, _Big, nullable=nullable) for name in names]


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "assent_users",
        sa.Column("name", _Id, primary_key=True),
        *_text("role"),
        *_text("groups", "password", nullable=True),
        *_text("stamp"),
        *_times("made"),
        *_times("disabled", nullable=True),
    )
    op.create_table(
        "assent_tokens",
        sa.Column("id", _Id, primary_key=True),
        sa.Column("name", _Id, nullable=False),
        *_text("role"),
        *_text("groups", nullable=True),
        *_text("hash"),
        *_times("made"),
        *_times("until", "used", "revoked", nullable=True),
    )
    op.create_table(
        "assent_signins",
        sa.Column("hash", _Id, primary_key=True),
        sa.Column("user", _Id, nullable=False),
        *_text("stamp", "csrf"),
        *_times("made", "seen", "until"),
    )
    op.create_table(
        "assent_webhooks",
        sa.Column("id", _Id, primary_key=True),
        *_text("url", "secret", "events"),
        *_times("made"),
        *_times("disabled", nullable=True),
        *_text("reason", nullable=True),
    )
    op.create_table(
        "assent_outbox",
        sa.Column("id", _Id, primary_key=True),
        *_text("webhook", "event", "body"),
        *_times("at", "tries", "due"),
        *_text("error", nullable=True),
    )
    op.create_index("assent_outbox_due", "assent_outbox", ["due", "id"])
    for name, table, column, key, where in (
        ("assent_questions_decided", "assent_questions", "decided", "id", "verdict IS NOT NULL"),
        ("assent_runs_rested", "assent_runs", "changed", "run", "status <> 'working'"),
    ):
        op.create_index(name, table, [column, key], sqlite_where=sa.text(where), postgresql_where=sa.text(where))
    op.create_table("assent_agents", sa.Column("name", _Id, primary_key=True), *_text("began"), *_times("seen"))
