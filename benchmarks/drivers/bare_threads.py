"""The floor of a durable thread: as many durable writes as a cycle cannot do without, and nothing else.

A question is written before anybody is asked, and a call before it runs; the end is written before anybody is told.
Each is one row in one table, by the database's own driver: no agent, no model, no run. What is less than this has not
been written.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from ..clock import Clock
from ..conversation import answer, arguments_json

MAKE = "CREATE TABLE IF NOT EXISTS bare_rows (thread TEXT, number INTEGER, body TEXT, PRIMARY KEY (thread, number))"


class Table(Protocol):
    """Where rows are kept."""

    async def write(self, thread: str, number: int, body: str) -> None:
        """A row, durable when this returns."""


class File:
    """A table in an SQLite file, written where it is asked for."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    async def write(self, thread: str, number: int, body: str) -> None:
        self.connection.execute("INSERT INTO bare_rows VALUES (?, ?, ?)", (thread, number, body))


@asynccontextmanager
async def in_sqlite() -> AsyncIterator[Table]:
    """A new file."""
    with tempfile.TemporaryDirectory(prefix="assentry-benchmark-") as folder:
        connection = sqlite3.connect(Path(folder, "bare.db"), isolation_level=None)
        for text in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", MAKE):
            connection.execute(text).fetchall()
        yield File(connection)
        connection.close()


class Server:
    """A table in Postgres."""

    def __init__(self, connection: object) -> None:
        self.connection = connection

    async def write(self, thread: str, number: int, body: str) -> None:
        await self.connection.execute("INSERT INTO bare_rows VALUES (%s, %s, %s)", (thread, number, body))  # type: ignore[attr-defined]


@asynccontextmanager
async def in_postgres() -> AsyncIterator[Table]:
    """A table that stays where it is."""
    from psycopg import AsyncConnection

    address = os.environ["ASSENTRY_BENCHMARK_POSTGRES"]
    connection = await AsyncConnection.connect(address, autocommit=True, prepare_threshold=0)
    async with connection:
        await connection.execute(MAKE)
        yield Server(connection)


PLACES = {"sqlite": in_sqlite, "postgres": in_postgres}


class Driver:
    """Durable rows, driven."""

    lacks: frozenset[str] = frozenset()

    def __init__(self, saver: str) -> None:
        self.place = PLACES[saver]

    async def thread(self, clock: Clock, prior: int, cycles: int) -> None:
        """One row a turn, one for the question, one for the answer with the call that begins, one for the end."""
        async with self.place() as table:
            for cycle in range(-(cycles // 3 + 1), cycles):
                told = clock if cycle >= 0 else Clock()
                thread = uuid.uuid4().hex
                with told.phase("to interrupt", shares=cycles):
                    for turn in range(prior + 1):
                        await table.write(thread, turn, arguments_json(turn))
                with told.phase("to the end", shares=cycles):
                    await table.write(thread, prior + 1, arguments_json(prior))
                    await table.write(thread, prior + 2, answer(prior))


def make(saver: str) -> Driver:
    """The driver."""
    return Driver(saver)
