"""A place for a store in each kind of database, and a way to it behind the store's back."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, delete, select, text
from sqlalchemy.pool import NullPool

from assentry.store import PostgresStore, SQLiteStore, Store
from assentry.store.sql.schema import VERSION_TABLE, metadata
from assentry.testing import FakeClock
from tests.store.postgres import Server

Rows = list[tuple[Any, ...]]


class Place:
    """Where a store keeps its runs, and a way to it behind the store's back."""

    def __init__(self, make: Callable[..., Store], engine: Engine) -> None:
        self._make, self.engine = make, engine
        self.clock = FakeClock()

    @asynccontextmanager
    async def store(self, **options: Any) -> AsyncIterator[Any]:
        async with self._make(clock=self.clock, **options) as store:
            yield store

    def execute(self, statement: str, **values: Any) -> Rows:
        with self.engine.begin() as connection:
            found = connection.execute(text(statement), values)
            return [tuple(row) for row in found] if found.returns_rows else []

    def tables(self) -> dict[str, Rows]:
        with self.engine.connect() as connection:
            return {
                table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=str)
                for table in metadata.sorted_tables
            }

    def set_version(self, version: int) -> None:
        """Say that the tables are of this version."""
        if self.engine.dialect.name == "sqlite":
            self.execute(f"PRAGMA user_version = {version}")
        else:
            self.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{version:04}'")

    def clear(self) -> None:
        """Delete all rows: those of runs first, as each write locks them, so that one under way is waited for."""
        with self.engine.begin() as connection:
            for table in sorted(metadata.sorted_tables, key=lambda table: table.name != "assentry_runs"):
                connection.execute(delete(table))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place in each kind of database."""
    if request.param == "sqlite":
        path = tmp_path / "runs.db"
        return Place(lambda **more: SQLiteStore(path, **more), create_engine(f"sqlite:///{path}", poolclass=NullPool))
    server: Server = request.getfixturevalue("postgres")
    url = server.database()
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    return Place(lambda **more: PostgresStore(url, upgrade=True, **more), engine)
