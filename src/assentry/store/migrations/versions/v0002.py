"""Migration to schema version 2: seals of questions, and heads that also hash the facts' times and the context.

Existing rows are sealed as they are. The hash functions are copies of the store's, so that this migration never
changes.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BATCH = 500
# fmt: off
SEALED = (
    "id", "run", "agent", "tool", "kind", "digest", "arguments", "reason", "allowed", "call", "call_id", "path",
    "definition", "prompt", "schema", "at", "until", "due", "replaces", "evidence",
)
# fmt: on
NONE = bytes(32)

_runs = sa.table("assent_runs", *(sa.column(name) for name in ("id", "run", "erased", "head")))
_journal = sa.table("assent_journal", *(sa.column(name) for name in ("run", "seq", "at", "fact", "prev_hash")))
_contexts = sa.table("assent_contexts", *(sa.column(name) for name in ("run", "body", "kind")))
_questions = sa.table(
    "assent_questions",
    *(sa.column(name) for name in (*SEALED, "verdict", "by", "decided", "asked_seal", "ended_seal")),
)


def upgrade() -> None:
    """Add the seals, and recompute the heads."""
    op.add_column("assent_questions", sa.Column("asked_seal", sa.Text))
    op.add_column("assent_questions", sa.Column("ended_seal", sa.Text))
    connection = op.get_bind()
    last = -1
    while page := connection.execute(
        sa.select(_runs).where(_runs.c.id > last).order_by(_runs.c.id).limit(BATCH)
    ).fetchall():
        last = page[-1].id
        for row in page:
            head = _head(connection, row.id, bytes(row.head), row.erased)
            connection.execute(sa.update(_runs).where(_runs.c.id == row.id).values(head=head))
        _seal(connection, {row.id: row.run for row in page})


def _head(connection: sa.Connection, run: int, hash: bytes, erased: int | None) -> bytes:
    columns = [_journal.c.seq, _journal.c.at, _journal.c.prev_hash]
    columns += [] if erased is None else [_journal.c.fact]
    rows = connection.execute(sa.select(*columns).where(_journal.c.run == run).order_by(_journal.c.seq)).fetchall()
    hashes = [*(bytes(row.prev_hash) for row in rows[1:]), hash]
    tally = NONE
    try:
        for row, own in zip(rows, hashes, strict=False):
            text = b"" if erased is None else row.fact.encode("utf-8", "surrogateescape")
            tally = sha256(b"%s%s%d %d\n%s" % (tally, own, row.seq, row.at, text)).digest()
        if erased is not None:
            tally = sha256(b"%serased %d" % (tally, erased)).digest()
    except (TypeError, AttributeError):  # a row is damaged; the next read of the run says so
        tally = NONE
    return hash + tally + _context(connection, run)


def _context(connection: sa.Connection, run: int) -> bytes:
    row = connection.execute(sa.select(_contexts.c.body, _contexts.c.kind).where(_contexts.c.run == run)).fetchone()
    if row is None:
        return NONE
    return sha256(b"%s\n%s" % (_text([row.kind, row.body is None]), bytes(row.body or b""))).digest()


def _seal(connection: sa.Connection, names: dict[int, str]) -> None:
    rows = connection.execute(sa.select(_questions).where(_questions.c.run.in_(list(names)))).mappings().fetchall()
    for row in rows:
        asked = [names[row["run"]] if name == "run" else row[name] for name in SEALED]
        ended = [row["id"], row["verdict"], row["by"], row["decided"]]
        connection.execute(
            sa.update(_questions)
            .where(_questions.c.id == row["id"])
            .values(asked_seal=_hash(asked), ended_seal=None if row["verdict"] is None else _hash(ended))
        )


def _hash(values: list[Any]) -> str | None:
    plain = [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in values]
    try:
        return sha256(_text(plain)).hexdigest()[:32]
    except (TypeError, ValueError):  # the row is damaged, and gets no seal
        return None


def _text(value: list[Any]) -> bytes:
    """Return the JSON text that version 2 hashes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
