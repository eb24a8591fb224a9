"""Migration to schema version 5: no earlier Assent can write any more, and users and tokens have seals.

Earlier Assents compare the schema's version only when they open a connection. Each of their writes names one of the
columns that get another name here, so the statement fails, and its transaction with it. Later Assents compare the
version inside of every write, and need no such thing.

Existing rows are sealed as they are. The hash function is a copy of the store's, so that this migration never changes.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

RENAMED = (
    ("assent_runs", "fence", "lease_fence"),  # in every write of a run, but purging and rebuilding
    ("assent_runs", "changed", "changed_at"),  # in these two
    ("assent_users", "disabled", "disabled_at"),
    ("assent_tokens", "revoked", "revoked_at"),
    ("assent_webhooks", "disabled", "disabled_at"),
    ("assent_agents", "seen", "seen_at"),
)
SEALED = {
    "user": ("assent_users", ("name", "role", "groups", "password", "stamp", "made", "disabled_at")),
    "token": ("assent_tokens", ("id", "name", "role", "groups", "hash", "made", "until", "revoked_at")),
}


def upgrade() -> None:
    """Rename the columns, and add the seals."""
    for name, old, new in RENAMED:
        op.execute(f"ALTER TABLE {name} RENAME COLUMN {old} TO {new}")
    connection = op.get_bind()
    for kind, (name, columns) in SEALED.items():
        op.add_column(name, sa.Column("seal", sa.Text))
        table = sa.table(name, *map(sa.column, (*columns, "seal")))
        key = table.c[columns[0]]
        for row in connection.execute(sa.select(*(table.c[each] for each in columns))).fetchall():
            connection.execute(sa.update(table).where(key == row[0]).values(seal=_seal(kind, list(row))))


def _seal(kind: str, values: list[Any]) -> str | None:
    try:
        text = json.dumps([kind, *values], ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError):  # the row is damaged, and gets no seal
        return None
    return sha256(text).hexdigest()[:32]
