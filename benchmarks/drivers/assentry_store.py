"""Assentry with its runs in a store: an SQLite file, or Postgres."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Literal

from assentry import Agent, Approve, Runner, RunResult
from assentry.store import MemoryStore, PostgresStore, SQLiteStore, Store
from assentry.store.record import Change

from ..clock import Clock
from ..conversation import PROMPT, WIRE
from . import assentry, stored
from .bulk import Bulk, PostgresBulk, SQLiteBulk
from .processes import cpu_of_server
from .waiting import AGENTS, RARE, TOOLS, Inbox, asking

WRITES = ("append", "take", "renew", "release")
"""What of a store is a transaction in a drive."""
LOOKS = 20
"""How often each page is read, and each decision made."""
FURTHER = 1000
"""After how many questions the page that is further on begins, if there are so many."""


class Place(ABC):
    """Where a store is, and what it weighs."""

    store: Store

    @abstractmethod
    def open(self) -> Store:
        """Make a store there."""

    @abstractmethod
    def weigh(self) -> int:
        """The bytes there."""

    @abstractmethod
    def weigh_parts(self, kind: Literal["table", "index"]) -> dict[str, int]:
        """The bytes of each table or index there; nothing where the database does not say."""

    @abstractmethod
    def bulk(self) -> Bulk:
        """The database there, to be filled with many rows."""

    @abstractmethod
    def files(self) -> list[Path]:
        """The files of the database, if they are on this machine."""

    def forget(self) -> bool:
        """Drop the files from the system's cache; False where that cannot be done."""
        files = self.files() if hasattr(os, "posix_fadvise") else []
        for path in files:
            drop_from_cache(path)
        return bool(files)

    @property
    @abstractmethod
    def address(self) -> str:
        """The address of the store."""

    def server_cpu(self) -> float | None:
        """The seconds of CPU time of the database's own processes; None where it has none, or they are not here."""
        return None

    def discard(self) -> None:  # noqa: B027
        """Forget everything."""


class File(Place):
    """A file, with its log."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="assentry-benchmark-")
        self.path = Path(self.folder.name, "runs.db")

    def open(self) -> Store:
        return SQLiteStore(self.path)

    @property
    def address(self) -> str:
        return str(self.path)

    def weigh(self) -> int:
        return weight_of(self.path)

    def weigh_parts(self, kind: Literal["table", "index"]) -> dict[str, int]:
        connection = sqlite3.connect(self.path)
        try:
            return dict(
                connection.execute(
                    "SELECT name, sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master WHERE type = ?)"
                    " GROUP BY name",
                    [kind],
                )
            )
        except sqlite3.OperationalError:  # SQLite may be built without `dbstat`
            return {}
        finally:
            connection.close()

    def bulk(self) -> Bulk:
        return SQLiteBulk(self.path)

    def files(self) -> list[Path]:
        return list(self.path.parent.glob(f"{self.path.name}*"))

    def discard(self) -> None:
        self.folder.cleanup()


class Schema(Place):
    """A schema of its own in a Postgres database."""

    def __init__(self) -> None:
        import psycopg

        self.connection = psycopg.connect(os.environ["ASSENTRY_BENCHMARK_POSTGRES"], autocommit=True)
        self.name = f"bench_{uuid.uuid4().hex}"
        self.connection.execute(f"CREATE SCHEMA {self.name}")

    @property
    def address(self) -> str:
        url = os.environ["ASSENTRY_BENCHMARK_POSTGRES"]
        return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{self.name}"

    def open(self) -> Store:
        return PostgresStore(self.address, upgrade=True)

    def weigh(self) -> int:
        [total] = self.connection.execute(
            "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = %s::regnamespace",
            [self.name],
        ).fetchone()
        return int(total)

    def weigh_parts(self, kind: Literal["table", "index"]) -> dict[str, int]:
        found = self.connection.execute(
            "SELECT relname, pg_table_size(oid) FROM pg_class WHERE relkind = %s AND relnamespace = %s::regnamespace",
            [kind[0].replace("t", "r"), self.name],
        )
        return dict(found.fetchall())

    def bulk(self) -> Bulk:
        return PostgresBulk(self.address)

    def files(self) -> list[Path]:
        import psycopg

        try:
            self.connection.execute("CHECKPOINT")
            [folder] = self.connection.execute("SHOW data_directory").fetchone()
            return [path for path in Path(folder, "base").rglob("*") if path.is_file() and os.access(path, os.R_OK)]
        except (PermissionError, psycopg.errors.InsufficientPrivilege):  # of somebody else's server
            return []

    def server_cpu(self) -> float | None:
        return cpu_of_server(self.connection.info.backend_pid)

    def discard(self) -> None:
        self.connection.execute(f"DROP SCHEMA {self.name} CASCADE")
        self.connection.close()


PLACES: dict[str, type[Place]] = {"sqlite": File, "postgres": Schema}


def drop_from_cache(path: Path) -> None:
    """Write a file to the disk, and drop it from the system's cache."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def weight_of(path: Path) -> int:
    """The bytes of an SQLite file whose log has been written into it."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if not file.name.endswith("-shm"))


class Seat:
    """An agent and its store."""

    def __init__(self, agent: Agent[Any], place: Place) -> None:
        self.agent, self.place, self.store = agent, place, place.open()
        self.commits = 0
        for name in WRITES:
            setattr(self.store, name, self._counted(getattr(self.store, name)))

    def _counted(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(method)
        def counted(*args: Any, **options: Any) -> Awaitable[Any]:
            self.commits += 1
            return method(*args, **options)

        return counted


class Recording(MemoryStore):
    """Remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Change] = []

    async def append(self, change: Change) -> None:
        await super().append(change)
        self.changes.append(change)


class Driver(assentry.Driver, stored.Driver):
    """Assentry on a store, driven. What is kept of a run is its id."""

    encodes = False
    remembers = False

    def __init__(self, store: str) -> None:
        super().__init__()
        self.place = PLACES[store]
        if store != "sqlite":
            self.lacks = frozenset({"commit"})

    @asynccontextmanager
    async def ready(self, *, gated: bool = True, nested: bool = False) -> AsyncIterator[Seat]:
        place = self.place()
        try:
            seat = Seat(self.outer if nested else self.agent, place)
            async with seat.store:
                await seat.store.runs(limit=1)  # makes the tables
                yield seat
        finally:
            place.discard()

    async def begin(self, agent: Any) -> RunResult:
        return await Runner.run(agent.agent, PROMPT, max_turns=assentry.MAX_TURNS, store=agent.store)

    def keep(self, outcome: RunResult) -> Any:
        return outcome.run_id

    async def decide(self, agent: Seat, kept: str) -> None:
        for question in (await agent.store.questions(run=kept)).items:
            await agent.store.decide(question.id, Approve(), by="ann", digest=question.digest)

    async def go_on(self, agent: Seat, kept: str) -> RunResult:
        loaded = await agent.store.load(kept)
        return await Runner.run(agent.agent, loaded, max_turns=assentry.MAX_TURNS, store=agent.store)

    async def weigh(self, agent: Seat) -> int:
        return agent.place.weigh()

    def commits(self, agent: Seat) -> int:
        return agent.commits

    async def recorded(self, n: int) -> list[Change]:
        """What a run of n turns and a question that is decided on writes, commit by commit."""
        self.script.respond = self._replies([*map(self.calls, range(n)), self.calls(n, WIRE)])
        store = Recording()
        run = await Runner.run(self.agent, PROMPT, max_turns=assentry.MAX_TURNS, store=store)
        [question] = (await store.questions(run=run.run_id)).items
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        return store.changes

    async def commit(self, clock: Clock, n: int) -> None:
        """Write again what a run has written: the time of one commit of a turn, of a question, and of a decision."""
        changes = await self.recorded(n)
        turns, ask, settle = parts(changes)
        async with self.ready() as agent:
            append = agent.store.append
            await append(changes[0])
            with clock.phase("turn", shares=len(turns)):
                for change in turns:
                    await append(change)
            with clock.phase("ask", shares=len(ask)):
                for change in ask:
                    await append(change)
            with clock.phase("decide"):
                await append(settle)
            assert (await agent.store.load(changes[0].record.id)).record.seq == settle.record.seq

    async def inbox(self, clock: Clock, questions: int, few: int) -> None:
        """So many open questions: their weight, the first page by each filter; decisions, resumes and claims.

        The last three are beside those among few.
        """
        from . import serving  # with its libraries, which no other scenario needs

        async with self._filled(few) as (_, less), self._filled(questions) as (place, more):
            clock.metric("stored_bytes", place.weigh())
            clock.metric("waiting_bytes", place.weigh() / questions)
            clock.metric("index_bytes", sum(place.weigh_parts("index").values()) or None)
            for name, weight in (place.weigh_parts("table") | place.weigh_parts("index")).items():
                clock.metric(f"bytes of {name}", weight)
            async with less.database.open_store() as small, more.database.open_store() as large:
                await self._pages(clock, large, more)
                await serving.measure_pages(clock, large, place.address, 10 * LOOKS)
                await self._decisions(clock, small, less, "among few")
                await self._decisions(clock, large, more, "among all")
                if place.forget():
                    await self._decisions_from_disk(clock, large, more)

    @asynccontextmanager
    async def _filled(self, questions: int) -> AsyncIterator[tuple[Place, Inbox]]:
        place = self.place()
        try:
            inbox = Inbox(place.bulk())
            await inbox.fill(questions)
            yield place, inbox
        finally:
            place.discard()

    async def _pages(self, clock: Clock, store: Store, inbox: Inbox) -> None:
        age = time.time() - inbox.middle / 1000
        filters: dict[str, dict[str, Any]] = {
            "page": {},
            "page of an agent": {"agent": AGENTS[0]},
            "page of a rare agent": {"agent": RARE},
            "page of a tool": {"tool": TOOLS[-1]},
            "page of an agent and a tool": {"agent": AGENTS[0], "tool": TOOLS[-1]},
            "page of old ones": {"older_than": age},
            "page of old ones of a rare agent": {"agent": RARE, "older_than": age},
            "page of a run": {"run": inbox.runs[len(inbox.runs) // 2]},
            "page of settled ones": {"settled": True},
        }
        after = (await store.questions(limit=min(inbox.count // 2, FURTHER))).next
        filters["page further on"] = {"after": after}
        for name, given in filters.items():
            with clock.phase(name):
                page = await store.questions(**given)
            assert page.items or "rare" in name or "settled" in name, f"{name} is empty"
        for name, given in filters.items():  # the first read of each is from a cold cache, these are not
            with clock.phase(f"{name}, again", shares=LOOKS):
                for _ in range(LOOKS):
                    await store.questions(**given)

    async def _decisions(self, clock: Clock, store: Store, inbox: Inbox, where: str) -> None:
        found = [await store.question(id) for id in inbox.spread(4 * LOOKS + 2)[::2]]
        for number, question in enumerate(found):
            first = number == 0  # opens the connection that writes
            with clock.phase("opening" if first else f"decide {where}", shares=1 if first else 2 * LOOKS):
                await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        for question in found[:LOOKS]:
            agent = asking(question.agent, question.tool)
            with clock.phase(f"resume {where}", shares=LOOKS):
                result = await Runner.run(agent, await store.load(question.run), store=store)
            assert result.final_output == "done"
        with clock.phase(f"claim {where}", shares=LOOKS + 1):
            for _ in found[LOOKS:]:
                [lease] = await store.claim("bench", agents=None, hold=60, limit=1)
                assert lease.run

    async def _decisions_from_disk(self, clock: Clock, store: Store, inbox: Inbox) -> None:
        for id in inbox.spread(4 * LOOKS + 2)[1::2]:
            with clock.phase("decide from disk", shares=2 * LOOKS + 1):
                question = await store.question(id)
                await store.decide(id, Approve(), by="ann", digest=question.digest)

    async def served(self, clock: Clock, decisions: int, viewers: int) -> None:
        """Decide over HTTP, by one client and by many at once; show questions to many viewers."""
        from . import serving  # with its libraries, which no other scenario needs

        async with self.ready() as agent:
            await serving.measure(clock, agent.store, agent.place.address, decisions, viewers)

    async def inboxes(self, clock: Clock, questions: int, decisions: int, clients: int, most: int) -> None:
        """Decide over HTTP by so many clients at once, on 1, 2, 4 ... `most` inbox processes of one database."""
        from . import serving  # with its libraries, which no other scenario needs

        async with self._filled(questions) as (place, inbox), inbox.database.open_store() as store:
            await serving.measure_inboxes(clock, store, place, inbox, decisions, clients, most)

    async def asked_outside(self, clock: Clock, asks: int, clients: int) -> None:
        """Ask over HTTP about calls of programs outside, by one and by so many at once."""
        from . import outside  # with its libraries, which no other scenario needs

        async with self.ready() as agent:
            await outside.measure_asks(clock, agent.store, agent.place.address, asks, clients)

    async def viewed(self, clock: Clock, looks: int) -> None:
        """Look at `/health` while a viewer opens the largest pages."""
        from . import serving  # with its libraries, which no other scenario needs

        async with self.ready() as agent:
            await serving.measure_health(clock, agent.store, agent.place.address, looks)


def parts(changes: list[Change]) -> tuple[list[Change], list[Change], Change]:
    """Those of plain turns but the first, those of a question and of the pause that follows it, and the decision."""
    asks = next(number for number, change in enumerate(changes) if change.asked)
    return changes[1:asks], changes[asks:-1], changes[-1]


def make(store: str) -> Driver:
    """The driver."""
    return Driver(store)
