"""Savers, the checkpointers of threads. A saver only wraps an Assentry store.

Checkpoints are not stored: they are derived from the runs of a thread; see `threads/snapshot.py`.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

from .. import store as stores
from ..core.run import Run
from ..core.wording import described
from ..errors import InvalidDefinition, RunNotFound, UsageError
from ..runtime.sync import block, iterate
from .foreign import langchain_bases
from .fork import close_newest
from .history import ThreadHistory, limited
from .interrupts import PREFIX, Interrupt, interrupts
from .message import Message
from .opening import find_run_number, thread_of
from .snapshot import StateSnapshot, ThreadPoint, point_of
from .view import messages_of

DELETED = "The thread was deleted."
DERIVED = (
    "Assentry's savers keep the runs of threads, and checkpoints are derived from them, so none can be put here. "
    "To change the state of a thread, use agent.update_state(config, values)."
)


class CheckpointTuple(NamedTuple):
    """A point of a thread as a saver shows it."""

    config: dict[str, Any]
    checkpoint: dict[str, Any]
    """The point: "id", "ts" (its time) and "channel_values" (its messages)."""
    metadata: dict[str, Any]
    """As in `StateSnapshot`; a saver knows no agent, so that its steps are counted without a gate's."""
    parent_config: dict[str, Any] | None = None
    pending_writes: Sequence[tuple[str, str, Any]] = ()
    """The open interrupts, as `(task id, "__interrupt__", interrupts)`."""


class Saver:
    """A checkpointer. `saver.store` is the store with the threads' runs, questions and decisions."""

    def __init__(self, make: Callable[[], stores.Store]) -> None:
        self._make = make

    def _made_by(self, make: Callable[[], stores.Store]) -> Self:
        """Use another function that makes the store."""
        self._make = make
        return self

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

    # -- checkpoints -------------------------------------------------------------------------------

    def get(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Call `aget` and block until it returns."""
        return block(self.aget(config))

    async def aget(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the checkpoint of a config, or the newest one of its thread; None if there is none."""
        found = await self.aget_tuple(config)
        return found.checkpoint if found is not None else None

    def get_tuple(self, config: Mapping[str, Any]) -> CheckpointTuple | None:
        """Call `aget_tuple` and block until it returns."""
        return block(self.aget_tuple(config))

    async def aget_tuple(self, config: Mapping[str, Any]) -> CheckpointTuple | None:
        """Return the checkpoint of a config with its metadata, or the newest of its thread; None if there is none."""
        history, point = self._history(thread_of(config)), point_of(config)
        if point is None:
            last = await self.store.newest(history.thread)
            number = find_run_number(history.thread, last.record.id) if last is not None else None
            if last is None or last.record.erased is not None or number is None:
                return None
            point = ThreadPoint(number, last.record.seq)
        try:
            return _as_tuple(await history.snapshot(point))
        except RunNotFound:
            return None

    def list(
        self,
        config: Mapping[str, Any] | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Iterate over `alist`, and block for each checkpoint."""
        return iterate(self.alist(config, filter=filter, before=before, limit=limit))

    async def alist(
        self,
        config: Mapping[str, Any] | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[CheckpointTuple, None]:
        """Yield the checkpoints of a thread, newest first; without a config those of all threads, one by one."""
        async with aclosing(limited(self._snapshots(config, filter, before), limit)) as found:
            async for each in found:
                yield _as_tuple(each)

    async def _snapshots(
        self, config: Mapping[str, Any] | None, filter: Mapping[str, Any] | None, before: Mapping[str, Any] | None
    ) -> AsyncGenerator[StateSnapshot, None]:
        point = point_of(before)
        async for thread in _one(thread_of(config)) if config is not None else self._threads():
            last = await self.store.newest(thread)
            number = find_run_number(thread, last.record.id) if last is not None else None
            async with aclosing(self._history(thread).snapshots(number or 0, point, filter)) as found:
                async for each in found:
                    yield each

    async def _threads(self) -> AsyncIterator[str]:
        """Yield the threads, those with the newest runs first."""
        seen: set[str] = set()
        async for record in self._runs(newest=True):
            if record.thread is not None and record.thread not in seen:
                seen.add(record.thread)
                yield record.thread

    async def _runs(self, **filters: Any) -> AsyncIterator[stores.RunRecord]:
        after: str | None = None
        while True:
            page = await self.store.runs(**filters, limit=100, after=after)
            for record in page.items:
                yield record
            if page.next is None:
                return
            after = page.next

    def _history(self, thread: str) -> ThreadHistory:
        return ThreadHistory(self.store, thread, _shown)

    # -- deleting ----------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Call `adelete_thread` and block until it returns."""
        block(self.adelete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Erase the content of all runs of a thread: messages, arguments, outputs, context.

        Open questions are withdrawn, and nothing of the thread runs any more. The kinds and times of the facts and the
        names of the deciders are kept. Raises `RunBusy` while the thread is driven, and `Conflict` if a call has begun
        and nobody knows how it ended; then nothing is erased.
        """
        thread = thread_of({"configurable": {"thread_id": thread_id}})
        runs = [record async for record in self._runs(thread=thread) if record.erased is None]
        for record in reversed(runs):
            await close_newest(self.store, await self.store.read(record.id), DELETED)
        for record in runs:
            await self.store.erase(record.id)

    def put(self, *args: Any, **options: Any) -> NoReturn:
        """Raise `UsageError`: checkpoints are derived, and never put."""
        raise UsageError(DERIVED)

    put_writes = aput = aput_writes = put


async def _one(thread: str) -> AsyncIterator[str]:
    yield thread


def _shown(runs: Sequence[Run]) -> dict[str, Any]:
    messages: Sequence[Message] = messages_of(runs)
    waiting = interrupts(runs[-1], lambda state: PREFIX, lambda state, name: None) if runs[-1].open else ()
    return {"messages": messages, "__interrupt__": waiting}


def _as_tuple(snapshot: StateSnapshot) -> CheckpointTuple:
    checkpoint = {
        "v": 1,
        "id": snapshot.config["configurable"]["checkpoint_id"],
        "ts": snapshot.created_at,
        "channel_values": snapshot.values,
        "channel_versions": {},
        "versions_seen": {},
    }
    waiting: Sequence[Interrupt] = snapshot.interrupts
    writes = [(task.id, "__interrupt__", waiting) for task in snapshot.tasks if waiting]
    return CheckpointTuple(snapshot.config, checkpoint, snapshot.metadata or {}, snapshot.parent_config, writes)


class _Done:
    """An awaitable that is already done."""

    def __await__(self) -> Any:
        return iter(())


# -- kinds of savers ----------------------------------------------------------------------------------


class InMemorySaver(Saver):
    """A saver in the memory of this process; threads end with the process. `factory` changes nothing."""

    def __init__(self, *, serde: None = None, factory: Any = None) -> None:
        _check_no_serializer(serde)
        super().__init__(stores.MemoryStore)


class SqliteSaver(Saver):
    """A saver in an SQLite file, for any number of processes on one machine.

    Args:
        conn: The file's path, or a connection to the file, of `sqlite3` or `aiosqlite`. The saver makes connections
            of its own. With a connection to a database in memory, threads are kept in the memory of this process.
    """

    def __init__(self, conn: str | Path | Any, *, serde: None = None) -> None:
        _check_no_serializer(serde)
        super().__init__(lambda: _sqlite_store(conn))

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """Make a saver to use as a context manager: `with SqliteSaver.from_conn_string("threads.db") as saver`."""
        saver = cls(path := conn_string.removeprefix("sqlite:///"))
        return saver._made_by(stores.MemoryStore) if path == ":memory:" else saver


class PostgresSaver(Saver):
    """A saver in a Postgres database, for any number of machines. Call `setup()` once.

    Args:
        conn: The address, or a connection or pool of psycopg, whose address and password are used. The saver makes
            connections of its own.
        pipe: Accepted, and not used: the facts of a step are written together.
    """

    def __init__(self, conn: str | Any, pipe: Any = None, serde: None = None) -> None:
        _check_no_serializer(serde)
        super().__init__(lambda: stores.PostgresStore(conn) if isinstance(conn, str) else stores.PostgresStore.at(conn))

    @classmethod
    def from_conn_string(cls, conn_string: str, *, pipeline: bool = False, serde: None = None) -> Self:
        """Make a saver to use as a context manager: `with PostgresSaver.from_conn_string(url) as saver`.

        `pipeline` changes nothing: the facts of a step are written together.
        """
        return cls(conn_string, serde=serde)


AsyncSqliteSaver = SqliteSaver
"""Another name of `SqliteSaver`, which works in sync and async programs."""
AsyncPostgresSaver = PostgresSaver
"""Another name of `PostgresSaver`, which works in sync and async programs."""
MemorySaver = InMemorySaver
"""Another name of `InMemorySaver`."""


def _check_no_serializer(serde: Any) -> None:
    if serde is not None:
        raise UsageError(f"Threads are stored as JSON and need no serializer; leave serde out. Got {described(serde)}.")


def _sqlite_store(given: Any) -> stores.Store:
    """Return the store of an SQLite file, or of the file of a connection."""
    if isinstance(given, str | Path):
        return stores.SQLiteStore(given)
    import sqlite3  # a program that keeps threads in memory does not load it

    try:
        if isinstance(given, sqlite3.Connection):
            cursor = given.cursor()
            cursor.row_factory = None
            rows = cursor.execute("PRAGMA database_list").fetchall()
        elif type(given).__module__.partition(".")[0] == "aiosqlite":
            rows = block(_rows(given, "PRAGMA database_list"))
        else:
            raise UsageError(f"A SqliteSaver needs a path, or a connection to a file; got {described(given)}.")
    except (sqlite3.Error, ValueError) as error:
        raise UsageError(f"The SQLite connection does not say which file it is of: {error}. Give the path.") from None
    path = next((row[2] for row in rows if row[1] == "main"), "")
    return stores.SQLiteStore(path) if path else stores.MemoryStore()


async def _rows(connection: Any, sql: str) -> Any:
    cursor = await connection.execute(sql)
    rows = await cursor.fetchall()
    await cursor.close()
    return [tuple(row) for row in rows]


def store_of(checkpointer: Any) -> stores.Store | None:
    """Return the store of a checkpointer: of a saver, or the store itself; None without a checkpointer."""
    if checkpointer is None:
        return None
    if isinstance(checkpointer, Saver):
        return checkpointer.store
    if isinstance(checkpointer, stores.Store):
        return checkpointer
    kind: type = type(checkpointer)
    if "langgraph.checkpoint.base.BaseCheckpointSaver" in langchain_bases(kind):
        own = kind.__name__ if kind.__name__ in OWN else "SqliteSaver"
        raise InvalidDefinition(
            f"The checkpointer is LangGraph's {kind.__name__}, which keeps threads in another form. Import {own} from "
            "assentry.threads instead; threads that LangGraph has saved are finished there."
        )
    raise InvalidDefinition(
        "checkpointer is where threads are kept: InMemorySaver(), SqliteSaver(path), PostgresSaver(url) or a store; "
        f"got {described(checkpointer)}."
    )


OWN = ("InMemorySaver", "MemorySaver", "SqliteSaver", "AsyncSqliteSaver", "PostgresSaver", "AsyncPostgresSaver")
"""The savers of LangGraph that there are here by the same name."""
