"""Savers, the checkpointers of threads. A saver only wraps an Assentry store."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from .. import store as stores
from ..core.wording import described
from ..errors import InvalidDefinition
from ..runtime.sync import block


class Saver:
    """A checkpointer. `saver.store` is the store with the threads' runs, questions and decisions."""

    def __init__(self, make: Callable[[], stores.Store]) -> None:
        self._make = make

    @functools.cached_property
    def store(self) -> stores.Store:
        """The store, created on first access."""
        return self._make()

    def setup(self) -> Any:
        """Create or upgrade the tables. The result may be awaited, and need not be."""
        upgrade = getattr(self.store, "upgrade", None)
        if upgrade is not None:
            block(upgrade())
        return _Done()

    def close(self) -> None:
        """Close the store, with its file or connections."""
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
    """An awaitable that is already done."""

    def __await__(self) -> Any:
        return iter(())


class InMemorySaver(Saver):
    """A saver in the memory of this process; threads end with the process."""

    def __init__(self) -> None:
        super().__init__(stores.MemoryStore)


class SqliteSaver(Saver):
    """A saver in an SQLite file, for any number of processes on one machine."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(lambda: stores.SQLiteStore(path))

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """Make a saver to use as a context manager: `with SqliteSaver.from_conn_string("threads.db") as saver`."""
        return cls(conn_string.removeprefix("sqlite:///"))


class PostgresSaver(Saver):
    """A saver in a Postgres database, for any number of machines. Call `setup()` once."""

    def __init__(self, url: str) -> None:
        super().__init__(lambda: stores.PostgresStore(url))

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """Make a saver to use as a context manager: `with PostgresSaver.from_conn_string(url) as saver`."""
        return cls(conn_string)


AsyncSqliteSaver = SqliteSaver
"""Another name of `SqliteSaver`, which works in sync and async programs."""
AsyncPostgresSaver = PostgresSaver
"""Another name of `PostgresSaver`, which works in sync and async programs."""


def store_of(checkpointer: Any) -> stores.Store | None:
    """Return the store of a checkpointer: of a saver, or the store itself; None without a checkpointer."""
    if checkpointer is None:
        return None
    if isinstance(checkpointer, Saver):
        return checkpointer.store
    if isinstance(checkpointer, stores.Store):
        return checkpointer
    raise InvalidDefinition(
        "checkpointer is where threads are kept: InMemorySaver(), SqliteSaver(path), PostgresSaver(url) or a store; "
        f"got {described(checkpointer)}."
    )
