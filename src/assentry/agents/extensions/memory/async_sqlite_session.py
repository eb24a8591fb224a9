"""The names of `agents.extensions.memory.async_sqlite_session`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...absent import find_absent
from ...memory.sqlite_session import SQLiteSession

__all__ = ["AsyncSQLiteSession"]


class AsyncSQLiteSession(SQLiteSession):
    """A conversation in an SQLite file, or in memory. `SQLiteSession` never blocks either; only `close` differs."""

    async def close(self) -> None:  # type: ignore[override]
        """Close the session after its pending work. Closing twice does no harm."""
        await self.__aexit__()

    async def __aexit__(self, *exc: object) -> None:
        """Close the session."""
        if self._closes():
            await self._queue.do(self._leave)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
