"""Databases that take many rows at once: an SQLite file, and a Postgres schema.

All indexes stay while rows are written, so they have the size that they get when runs come one after the other.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assentry.store import PostgresStore, SQLiteStore, Store

TABLES = ("assentry_runs", "assentry_journal", "assentry_questions")

Row = dict[str, Any]


class Bulk(ABC):
    """A database of a store, without the store."""

    @abstractmethod
    def open_store(self) -> Store:
        """Open a store in the database."""

    @abstractmethod
    def read(self, table: str, column: str, value: int) -> list[Row]:
        """Return the rows of a table with this value in a column, in the order of their primary keys."""

    @abstractmethod
    def replace(self, batches: Iterator[Sequence[Sequence[tuple[Any, ...]]]]) -> None:
        """Write these rows in place of all that are there; a batch has a list of rows for each of the `TABLES`."""


class SQLiteBulk(Bulk):
    """A file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open_store(self) -> Store:
        return SQLiteStore(self.path)

    def read(self, table: str, column: str, value: int) -> list[Row]:
        with self._connected() as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(_select(table, column, "?"), [value])]

    def replace(self, batches: Iterator[Sequence[Sequence[tuple[Any, ...]]]]) -> None:
        with self._connected() as connection:
            for setting in ("synchronous=OFF", "cache_size=-500000", "secure_delete=OFF", "journal_size_limit=0"):
                connection.execute(f"PRAGMA {setting}").fetchall()
            for table in TABLES:
                connection.execute(f"DELETE FROM {table}")
            for batch in batches:
                connection.execute("BEGIN")
                for table, rows in zip(TABLES, batch, strict=True):
                    places = ", ".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
                connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()


class PostgresBulk(Bulk):
    """The tables at an address."""

    def __init__(self, url: str) -> None:
        self.url = url

    def open_store(self) -> Store:
        return PostgresStore(self.url, upgrade=True)

    def read(self, table: str, column: str, value: int) -> list[Row]:
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return connection.execute(_select(table, column, "%s").encode(), [value]).fetchall()

    def replace(self, batches: Iterator[Sequence[Sequence[tuple[Any, ...]]]]) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"TRUNCATE {', '.join(TABLES)}".encode())
            for batch in batches:
                with connection.transaction():
                    for table, rows in zip(TABLES, batch, strict=True):
                        with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                            for row in rows:
                                copy.write_row(row)
            # As autovacuum does for a table that was filled slowly.
            connection.execute(f"VACUUM (ANALYZE) {', '.join(TABLES)}".encode())


def _select(table: str, column: str, place: str) -> str:
    return f"SELECT * FROM {table} WHERE {column} = {place} ORDER BY 1, 2"
