"""The savers of langgraph: opened as another process would open them, and weighed."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver


class Store(ABC):
    """Where runs are saved."""

    remembers = False
    """Whether what is saved is in this process's memory."""
    saver: Any

    @abstractmethod
    async def open(self) -> None:
        """Connect, and make `saver`."""

    async def close(self) -> None:  # noqa: B027
        """Disconnect."""

    async def discard(self) -> None:  # noqa: B027
        """Forget everything."""

    @abstractmethod
    async def newest(self, thread: str) -> int:
        """The bytes of a thread's newest checkpoint and of the writes that wait for it."""

    @abstractmethod
    async def whole(self) -> int:
        """The bytes of the database: of the file with its log, or of the tables with their indexes."""


class Memory(Store):
    """In this process."""

    remembers = True

    def __init__(self) -> None:
        self.saver = InMemorySaver()

    async def open(self) -> None:
        pass

    async def newest(self, thread: str) -> int:
        saver = self.saver
        saved = await saver.aget_tuple({"configurable": {"thread_id": thread}})
        checkpoint_id = saved.config["configurable"]["checkpoint_id"]
        checkpoint, metadata, _ = saver.storage[thread][""][checkpoint_id]
        blobs = [
            saver.blobs.get((thread, "", channel, version), ("", b""))[1] or b""
            for channel, version in saved.checkpoint["channel_versions"].items()
        ]
        writes = [write[2][1] for write in saver.writes[thread, "", checkpoint_id].values()]
        return sum(map(len, [checkpoint[1], metadata[1], *blobs, *writes]))

    async def whole(self) -> int:
        raise NotImplementedError("there is no database")


class Sqlite(Store):
    """In a file."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="assentry-benchmark-")
        self.path = Path(self.folder.name, "runs.db")

    async def open(self) -> None:
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self.connection = await aiosqlite.connect(self.path)
        self.saver = AsyncSqliteSaver(self.connection)
        await self.saver.setup()

    async def close(self) -> None:
        await self.connection.close()

    async def discard(self) -> None:
        self.folder.cleanup()

    async def newest(self, thread: str) -> int:
        connection = sqlite3.connect(self.path)
        checkpoint_id, length = connection.execute(
            "select checkpoint_id, length(checkpoint) + length(metadata) from checkpoints"
            " where thread_id = ? and checkpoint_ns = '' order by checkpoint_id desc limit 1",
            [thread],
        ).fetchone()
        [writes] = connection.execute(
            "select coalesce(sum(length(value)), 0) from writes where thread_id = ? and checkpoint_id = ?",
            [thread, checkpoint_id],
        ).fetchone()
        connection.close()
        total: int = length + writes
        return total

    async def whole(self) -> int:
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
        files = self.path.parent.glob(f"{self.path.name}*")
        return sum(file.stat().st_size for file in files if not file.name.endswith("-shm"))


NEWEST_IN_POSTGRES = """
with newest as (
    select * from checkpoints where thread_id = %(thread)s and checkpoint_ns = '' order by checkpoint_id desc limit 1
)
select octet_length(checkpoint::text) + octet_length(metadata::text)
    + (select coalesce(sum(octet_length(blob)), 0)
       from checkpoint_blobs join jsonb_each_text(newest.checkpoint -> 'channel_versions') using_(key, value)
       on channel = using_.key and version = using_.value
       where thread_id = newest.thread_id and checkpoint_ns = '')
    + (select coalesce(sum(octet_length(blob)), 0) from checkpoint_writes
       where thread_id = newest.thread_id and checkpoint_ns = '' and checkpoint_id = newest.checkpoint_id)
    as bytes
from newest
"""


WHOLE_IN_POSTGRES = """
select sum(pg_total_relation_size(oid))::bigint as bytes from pg_class
where relkind = 'r' and relnamespace = 'public'::regnamespace and relname like 'checkpoint%'
"""


class Postgres(Store):
    """In a server; its own CPU time is not the client's, so compare wall time too."""

    async def open(self) -> None:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row

        self.connection = await psycopg.AsyncConnection.connect(
            os.environ["ASSENTRY_BENCHMARK_POSTGRES"], autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        self.saver = AsyncPostgresSaver(self.connection)
        await self.saver.setup()

    async def close(self) -> None:
        await self.connection.close()

    async def newest(self, thread: str) -> int:
        cursor = await self.connection.execute(NEWEST_IN_POSTGRES, {"thread": thread})
        row: Any = await cursor.fetchone()
        return int(row["bytes"])

    async def whole(self) -> int:
        cursor = await self.connection.execute(WHOLE_IN_POSTGRES)
        row: Any = await cursor.fetchone()
        return int(row["bytes"])


STORES: dict[str, type[Store]] = {"memory": Memory, "sqlite": Sqlite, "postgres": Postgres}
