"""Migration to schema version 7: the tables carry the name Assentry.

They were made under the earlier name, Assent. In Postgres a table `assent_version` stays, with this version in it: a
program under the earlier name looks there before each write, and refuses a store that is newer than itself. In SQLite
it looks into the file's header.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

OLD, NEW = "assent_", "assentry_"
TABLES = (
    "runs", "journal", "blobs", "chapters", "contexts", "definitions", "questions", "grants", "users", "tokens",
    "signins", "webhooks", "outbox", "agents",
)  # fmt: skip


def upgrade() -> None:
    """Rename the tables, and what belongs to them."""
    for name in TABLES:
        op.rename_table(OLD + name, NEW + name)
    if op.get_bind().dialect.name == "sqlite":
        _rename_in_sqlite()
    else:
        # From here on, look and create only where the tables are: the search path may have another schema before.
        op.execute(
            "SELECT set_config('search_path', relnamespace::regnamespace::text, true)"
            " FROM pg_class WHERE oid = 'assentry_runs'::regclass"
        )
        _rename_in_postgres()
        op.execute("CREATE TABLE IF NOT EXISTS assent_version (version_num VARCHAR(32) NOT NULL)")
        op.execute("DELETE FROM assent_version")  # it may be left of tables that were dropped
        op.execute("INSERT INTO assent_version VALUES ('0007')")
        op.execute("GRANT SELECT ON assent_version TO PUBLIC")


def _rename_in_sqlite() -> None:
    """Make the indexes anew: SQLite cannot rename one. A constraint keeps its name, which is never shown."""
    found = sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '% assent\\_%' ESCAPE '\\'")
    for name, statement in op.get_bind().execute(found).fetchall():
        if name.startswith(OLD) and f"ON {NEW}" in statement.replace('"', ""):
            op.execute(f"DROP INDEX {name}")
            op.execute(statement.replace(name, NEW + name.removeprefix(OLD), 1))


def _rename_in_postgres() -> None:
    ours = "(" + ", ".join(f"'{NEW}{name}'::regclass" for name in TABLES) + ")"
    for kind, query in {
        "INDEX": f"SELECT relname FROM pg_class JOIN pg_index ON oid = indexrelid WHERE indrelid IN {ours}",
        "SEQUENCE": "SELECT relname FROM pg_class JOIN pg_depend ON objid = oid"
        f" WHERE relkind = 'S' AND refobjid IN {ours}",
    }.items():
        for (name,) in _older(query):
            op.execute(f"ALTER {kind} {name} RENAME TO {NEW}{name.removeprefix(OLD)}")
    query = f"SELECT conname, conrelid::regclass::text FROM pg_constraint WHERE conrelid IN {ours}"
    for name, table in _older(query):
        op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {name} TO {NEW}{name.removeprefix(OLD)}")


def _older(query: str) -> list[tuple[str, ...]]:
    return [tuple(row) for row in op.get_bind().execute(sa.text(query)) if row[0].startswith(OLD)]
