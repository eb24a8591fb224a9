"""Alembic's environment: runs the migrations on the given connection, in its open transaction."""

from __future__ import annotations

from alembic import context

from assentry.store.sql.schema import VERSION_TABLE, metadata


def run() -> None:
    """Run the migrations."""
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


if __name__ == "env_py":  # the name under which Alembic loads this module
    run()
