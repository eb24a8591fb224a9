"""Migration to schema version 1: the first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0001"
down_revision = None

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_ID = sa.Text().with_variant(TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create the tables and their indexes."""
    _runs()
    _journal()
    _questions()
    _grants()


def _runs() -> None:
    op.create_table(
        "assent_runs",
        sa.Column("id", _BIG, primary_key=True, autoincrement=True),
        sa.Column("run", _ID, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("thread", sa.Text),
        sa.Column("seq", _BIG, nullable=False),
        sa.Column("began", _BIG, nullable=False),
        sa.Column("changed", _BIG, nullable=False),
        sa.Column("wake", _BIG),
        sa.Column("waiting", _BIG, nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column("until", _BIG),
        sa.Column("fence", _BIG, nullable=False),
        sa.Column("failures", _BIG, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("erased", _BIG),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("run", name="assent_runs_run"),
    )
    op.create_index("assent_runs_began", "assent_runs", ["began", "run"])
    op.create_index("assent_runs_status", "assent_runs", ["status", "began", "run"])
    _partial("assent_runs_thread", "assent_runs", ["thread", "began", "run"], "thread IS NOT NULL")
    _partial("assent_runs_wake", "assent_runs", ["wake", "run"], "wake IS NOT NULL AND worker IS NULL")
    _partial("assent_runs_worker", "assent_runs", ["worker"], "worker IS NOT NULL")


def _journal() -> None:
    op.create_table(
        "assent_journal",
        sa.Column("run", _BIG, nullable=False),
        sa.Column("seq", _BIG, nullable=False),
        sa.Column("at", _BIG, nullable=False),
        sa.Column("fact", sa.Text, nullable=False),
        sa.Column("prev_hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run", "seq", name="assent_journal_pkey"),
    )
    op.create_table(
        "assent_blobs",
        sa.Column("run", _BIG, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run", "hash", name="assent_blobs_pkey"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_contexts",
        sa.Column("run", _BIG, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary),
        sa.Column("kind", sa.Text),
    )
    op.create_table(
        "assent_definitions",
        sa.Column("fingerprint", _ID, primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _questions() -> None:
    op.create_table(
        "assent_questions",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("run", _BIG, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("allowed", sa.Text, nullable=False),
        sa.Column("call", sa.Text, nullable=False),
        sa.Column("call_id", sa.Text),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("definition", sa.Text),
        sa.Column("prompt", sa.Text),
        sa.Column("schema", sa.Text),
        sa.Column("at", _BIG, nullable=False),
        sa.Column("until", _BIG),
        sa.Column("due", _BIG),
        sa.Column("replaces", sa.Text),
        sa.Column("verdict", sa.Text),
        sa.Column("by", sa.Text),
        sa.Column("decided", _BIG),
        sa.Column("evidence", sa.Text),
    )
    op.create_index("assent_questions_run", "assent_questions", ["run", "at", "id"])
    for name, columns in (("open", []), ("agent", ["agent"]), ("tool", ["tool"])):
        _partial(f"assent_questions_{name}", "assent_questions", [*columns, "at", "id"], "verdict IS NULL")
    _partial("assent_questions_settled", "assent_questions", ["at", "id"], "verdict IS NOT NULL")


def _grants() -> None:
    op.create_table(
        "assent_grants",
        sa.Column("run", _BIG, nullable=False),
        sa.Column("id", _ID, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", _BIG, nullable=False),
        sa.Column("message", sa.Text),
        sa.Column("server", sa.Text),
        sa.Column("definition", sa.Text),
        sa.Column("max_uses", _BIG),
        sa.Column("used", _BIG, nullable=False),
        sa.Column("until", _BIG),
        sa.Column("pins", sa.Text),
        sa.Column("revoked", _BIG),
        sa.Column("revoked_by", sa.Text),
        sa.PrimaryKeyConstraint("run", "id", name="assent_grants_pkey"),
        sqlite_with_rowid=False,
    )


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
