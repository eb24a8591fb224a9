"""Savers: where threads are kept. Each is an Assent store by a name of this vocabulary, and nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from ..core.digest import described
from ..errors import InvalidDefinition
from ..runtime.blocking import block
from ..store.memory import MemoryStore
from ..store.store import Store


class Saver:
    """Keeps threads in a store: `saver.store`, where their runs, questions and decisions can be looked at too."""

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make

    @functools.cached_property
    def store(self) -> Store:
        """The store, opened when it is first needed."""
        return self._make()

    def setup(self) -> Any:
        """Make the tables, or bring them to what this Assent needs. May be awaited, and need not be."""
        upgrade = getattr(self.store, "upgrade", None)
        if upgrade is not None:
            block(upgrade())
        return _Done()

    def close(self) -> None:
        """Let go of the file, or of the connections."""
        block(self.store.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.store.close()


class _Done:
    """Something that was done already, for those who await it."""

    def __await__(self) -> Any:
        return iter(())


class InMemorySaver(Saver):
    """Keeps threads in the memory of this process; they end with it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore)


class SqliteSaver(Saver):
    """Keeps threads in an SQLite file, for any number of processes on one machine."""

    def __init__(self, path: str | Path) -> None:
        def make() -> Store:
            from ..store.sqlite import SQLiteStore

            return SQLiteStore(path)

        super().__init__(make)

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """The same, to be used as a context manager: `with SqliteSaver.from_conn_string("threads.db") as saver`."""
        return cls(conn_string.removeprefix("sqlite:///"))


class PostgresSaver(Saver):
    """Keeps threads in a Postgres database, for any number of machines. Call `setup()` once."""

    def __init__(self, url: str) -> None:
        def make() -> Store:
            from ..store.postgres import PostgresStore

            return PostgresStore(url)

        super().__init__(make)

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """The same, to be used as a context manager: `with PostgresSaver.from_conn_string(url) as saver`."""
        return cls(conn_string)


AsyncSqliteSaver = SqliteSaver
"""Another name of `SqliteSaver`, which is for sync and async programs alike."""
AsyncPostgresSaver = PostgresSaver
"""Another name of `PostgresSaver`, which is for sync and async programs alike."""


def store_of(checkpointer: Any) -> Store | None:
    """The store behind a checkpointer: a saver, or a store itself."""
    if checkpointer is None:
        return None
    if isinstance(checkpointer, Saver):
        return checkpointer.store
    if isinstance(checkpointer, Store):
        return checkpointer
    raise InvalidDefinition(
        "checkpointer is where threads are kept: InMemorySaver(), SqliteSaver(path), PostgresSaver(url) or a store; "
        f"got {described(checkpointer)}."
    )
