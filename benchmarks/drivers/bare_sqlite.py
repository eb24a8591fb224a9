"""The floor of a store in SQLite: the same rows, written by nothing but the standard library.

Same tables, indexes and settings, taken from a file that Assentry has made; no comparison with what is there, no chain,
no thread. What is written is read from that file before the clock runs.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from assentry.sql.sqlite_connection import PAGE, SETTINGS
from assentry.store import SQLiteStore
from assentry.store.record import Change

from ..clock import Clock
from . import assentry_store

ADVANCE = "UPDATE assentry_runs SET seq=?, changed_at=?, wake=?, waiting=?, head=?, until=?, status=? WHERE id=?"
SETTLE = "UPDATE assentry_questions SET verdict=?, by=?, decided=? WHERE id=?"


class Write(NamedTuple):
    """One statement of a transaction, with its rows."""

    text: str
    rows: list[tuple[Any, ...]]


class Source:
    """A file of Assentry's with one run in it: its schema, and the transactions that would write it again."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path)
        made = self.connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        self.schema = [text for (text,) in made]
        [(self.number, self.head)] = self.connection.execute("SELECT id, head FROM assentry_runs")

    def transactions(self, changes: list[Change]) -> list[list[Write]]:
        """One list of statements a change."""
        return [self._transaction(change) for change in changes]

    def _transaction(self, change: Change) -> list[Write]:
        last, record = change.record.seq, change.record
        after = self.connection.execute("SELECT prev_hash FROM assentry_journal WHERE seq = ?", [last + 1]).fetchone()
        head = self.head if after is None else after[0]
        facts = self._rows("assentry_journal", "seq > ? AND seq <= ?", change.seq, last)
        state = (last, record.changed, record.wake, record.waiting, head, record.changed + 30_000, record.status)
        if change.seq == 0:
            writes = [self._rows("assentry_runs", "id = ?", self.number), facts]
        else:
            writes = [Write(ADVANCE, [(*state, self.number)]), facts]
        for question in change.asked:
            writes.append(self._rows("assentry_questions", "id = ?", question.id, verdict=None, by=None, decided=None))
        if change.definitions:
            writes.append(self._rows("assentry_definitions", "1"))
        writes += [Write(SETTLE, [(one.verdict, one.by, one.at, one.id)]) for one in change.settled]
        return [write for write in writes if write.rows]

    def _rows(self, table: str, where: str, *values: Any, **other: Any) -> Write:
        """The insertion of these rows, but with these values."""
        cursor = self.connection.execute(f"SELECT * FROM {table} WHERE {where}", values)
        names = [column[0] for column in cursor.description]
        rows = [tuple(other.get(name, value) for name, value in zip(names, row, strict=True)) for row in cursor]
        columns = ", ".join(f'"{name}"' for name in names)
        return Write(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(names))})", rows)


class Driver:
    """Bare SQLite, driven; what is written is what Assentry has written."""

    lacks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.assentry = assentry_store.make("sqlite")

    async def commit(self, clock: Clock, n: int) -> None:
        """Write again what a run has written, commit by commit."""
        changes = await self.assentry.recorded(n)
        turns, ask, settle = assentry_store.parts(changes)
        with tempfile.TemporaryDirectory(prefix="assentry-benchmark-") as folder:
            async with SQLiteStore(Path(folder, "source.db")) as store:
                for change in changes:
                    await store.append(change)
            source = Source(Path(folder, "source.db"))
            connection = opened(Path(folder, "bare.db"), source.schema)
            first, *rest = source.transactions(changes)
            source.connection.close()
            write(connection, first)
            with clock.phase("turn", shares=len(turns)):
                for transaction in rest[: len(turns)]:
                    write(connection, transaction)
            with clock.phase("ask", shares=len(ask)):
                for transaction in rest[len(turns) : -1]:
                    write(connection, transaction)
            with clock.phase("decide"):
                write(connection, rest[-1])
            [(count,)] = connection.execute("SELECT count(*) FROM assentry_journal")
            connection.close()
            assert count == settle.record.seq, f"{count} facts, not {settle.record.seq}"


def opened(path: Path, schema: list[str]) -> sqlite3.Connection:
    """A file with these tables."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size={PAGE}")
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    for text in (*schema, *SETTINGS):
        connection.execute(text).fetchall()
    return connection


def write(connection: sqlite3.Connection, transaction: list[Write]) -> None:
    """One transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for text, rows in transaction:
        connection.executemany(text, rows)
    connection.execute("COMMIT")


def make() -> Driver:
    """The driver."""
    return Driver()
