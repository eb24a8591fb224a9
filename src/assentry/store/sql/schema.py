"""The tables. All but journal, blobs, contexts and definitions can be rebuilt from the journal.

Rows refer to a run by the number of its row, which is shorter than its id. Only the statements of this package write
the tables, in one transaction per change, so there are no foreign keys to check.
Every table and index takes at least one page of an SQLite file, which is much for a file with one run. So there are
few, and the tables without a rowid need no index for their primary key.
Every change here needs a migration; a test compares the two.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
    literal_column,
)
from sqlalchemy.dialects.postgresql import TEXT

from ..record import GrantRecord, Question, RunRecord

VERSION = 10
"""The number of the newest migration; a database with a higher version is from a newer Assentry.

Every write compares it with the database's version, inside of its transaction. So no process goes on writing after a
newer one has upgraded the database.
"""
VERSION_TABLE = "assentry_version"
EARLIER_VERSION_TABLE = "assent_version"
RENAMED_IN = 7
"""The schema version in which the tables got the name that they have now."""
READY = "assentry_ready"
"""The Postgres notification channel for runs that may be claimed."""
NEWS = "assentry_news"
"""The Postgres notification channel for questions that were asked or ended."""
ASKS = "assentry_previews"
"""The Postgres notification channel for requests for previews, and their answers."""

metadata = MetaData()

Big = BigInteger().with_variant(Integer(), "sqlite")  # SQLite assigns numbers only in an INTEGER column
Id = Text().with_variant(TEXT(collation="C"), "postgresql")  # the same byte order in every database


def _fields(kind: type[msgspec.Struct], **other: str) -> list[Column[Any]]:
    """Return a column for each field of a record; `other` are names in the database that differ from the field's.

    A field that is neither text nor a number is JSON text.
    """
    return [
        Column(
            other.get(field.name, field.name),
            Id if field.name == "id" else Big if field.name == "run" or int in _types(field) else Text,
            key=field.name,
            nullable=field.name in ("evidence", "reviewers", "redact") or not {Any, NoneType}.isdisjoint(_types(field)),
        )
        for field in msgspec.structs.fields(kind)
    ]


def _types(field: msgspec.structs.FieldInfo) -> tuple[Any, ...]:
    return get_args(field.type) or (field.type,)


LATER = ("reviewers", "redact", "started_by", "shown", "preview", "risk", "looked")
"""The columns of questions that came later than the seals."""


def too_new(version: int) -> str:
    """Return the reason why a database of a newer Assentry cannot be used."""
    return (
        f"a newer Assentry has upgraded it to schema version {version}, and this Assentry knows {VERSION}. Restart "
        "this process with the newer Assentry, which goes on where this one stops"
    )


# Schema version 5 gave some columns other names, so that the statements of earlier versions, which compare no version,
# fail instead of writing. In Python they are known by their key.
runs = Table(
    "assentry_runs",
    metadata,
    Column("id", Big, primary_key=True, autoincrement=True),
    Column("run", Id, nullable=False),
    *_fields(RunRecord, changed="changed_at")[1:-2],  # its `id` is the column `run` here
    Column("lease_fence", Big, key="fence", nullable=False),
    Column("head", LargeBinary, nullable=False),
    *_fields(RunRecord)[-2:],  # they came later
    UniqueConstraint("run"),
)
Index("assentry_runs_began", runs.c.began, runs.c.run)
Index("assentry_runs_status", runs.c.status, runs.c.began, runs.c.run)
_threaded = runs.c.thread.is_not(None)
Index(
    "assentry_runs_thread",
    runs.c.thread,
    runs.c.began,
    runs.c.run,
    sqlite_where=_threaded,
    postgresql_where=_threaded,
)
# A worker looks in two indexes: for runs without a worker, and for runs whose worker may be dead. Neither index has
# the `wake` or `until` of a run with a worker, so a driver can change both without writing an index.
_free = and_(runs.c.wake.is_not(None), runs.c.worker.is_(None))
_held = runs.c.worker.is_not(None)
Index("assentry_runs_wake", runs.c.wake, runs.c.run, sqlite_where=_free, postgresql_where=_free)
# The text of the condition must be the same in queries, or SQLite does not use the index. A run under way is not in it,
# so that a driver can change `changed` without writing the index.
at_rest = runs.c.status != literal_column("'working'")
Index("assentry_runs_rested", runs.c.changed, runs.c.run, sqlite_where=at_rest, postgresql_where=at_rest)
Index("assentry_runs_worker", runs.c.worker, sqlite_where=_held, postgresql_where=_held)

_outside = runs.c.caller.is_not(None)
Index("assentry_runs_caller", runs.c.caller, runs.c.status, sqlite_where=_outside, postgresql_where=_outside)

journal = Table(
    "assentry_journal",
    metadata,
    Column("run", Big, nullable=False),
    Column("seq", Big, nullable=False),
    Column("at", Big, nullable=False),
    Column("fact", Text, nullable=False),
    Column("prev_hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run", "seq", name="assentry_journal_pkey"),
)

blobs = Table(
    "assentry_blobs",
    metadata,
    Column("run", Big, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run", "hash", name="assentry_blobs_pkey"),
    sqlite_with_rowid=False,
)

chapters = Table(
    "assentry_chapters",
    metadata,
    Column("run", Big, nullable=False),
    Column("seq", Big, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("snapshot", Text, nullable=False),
    Column("seal", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("run", "seq", name="assentry_chapters_pkey"),
)

contexts = Table(
    "assentry_contexts",
    metadata,
    Column("run", Big, primary_key=True, autoincrement=False),
    Column("body", LargeBinary),
    Column("kind", Text),
)

definitions = Table(
    "assentry_definitions",
    metadata,
    Column("fingerprint", Id, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

questions = Table(
    "assentry_questions",
    metadata,
    *(column for column in _fields(Question) if column.name not in LATER),
    Column("asked_seal", Text),
    Column("ended_seal", Text),
    *(column for column in _fields(Question) if column.name in LATER),
    PrimaryKeyConstraint("id"),
)
_open = questions.c.verdict.is_(None)
_settled = questions.c.verdict.is_not(None)
Index("assentry_questions_run", questions.c.run, questions.c.at, questions.c.id)
for _name, _columns, _where in (
    ("open", (), _open),
    ("agent", (questions.c.agent,), _open),
    ("tool", (questions.c.tool,), _open),
):
    Index(
        f"assentry_questions_{_name}",
        *_columns,
        questions.c.at,
        questions.c.id,
        sqlite_where=_where,
        postgresql_where=_where,
    )

# The further columns are those by which lists and statistics select: without them, each would read all rows of a time.
Index(
    "assentry_questions_settled",
    questions.c.at,
    questions.c.verdict,
    questions.c.tool,
    questions.c.agent,
    sqlite_where=_settled,
    postgresql_where=_settled,
)
Index(
    "assentry_questions_decided",
    questions.c.decided,
    *(questions.c[name] for name in ("id", "by", "verdict", "tool", "agent", "at", "looked")),
    sqlite_where=_settled,
    postgresql_where=_settled,
)

grants = Table(
    "assentry_grants",
    metadata,
    *_fields(GrantRecord),
    PrimaryKeyConstraint("run", "id", name="assentry_grants_pkey"),
    sqlite_with_rowid=False,
)

# -- the inbox: what is told to others; the tables of accounts are in `account` ----------------------------------------

webhooks = Table(
    "assentry_webhooks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("events", Text, nullable=False),
    Column("made", Big, nullable=False),
    Column("disabled_at", Big, key="disabled"),
    Column("reason", Text),
    Column("format", Text, nullable=False, server_default="standard"),
)

outbox = Table(
    "assentry_outbox",
    metadata,
    Column("id", Id, primary_key=True),
    Column("webhook", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Big, nullable=False),
    Column("tries", Big, nullable=False),
    Column("due", Big, nullable=False),
    Column("error", Text),
)
Index("assentry_outbox_due", outbox.c.due, outbox.c.id)

agents = Table(
    "assentry_agents",
    metadata,
    Column("name", Id, primary_key=True),
    Column("began", Text, nullable=False),
    Column("seen_at", Big, key="seen", nullable=False),
)
