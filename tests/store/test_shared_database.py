"""A store and sessions in one SQLite file, or in one Postgres database."""

import asyncio
import multiprocessing
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assentry import Agent, PostgresSession, Runner, SQLiteSession
from assentry.errors import StoreFailed
from assentry.sql.sqlite_connection import SESSIONS, STORE
from assentry.store import PostgresStore, SQLiteStore
from assentry.testing import ScriptedModel, check_session
from tests.store.support import Script

LIMIT = 60


class Place(NamedTuple):
    """A file or a database, by its address."""

    kind: str
    address: str

    def store(self) -> Any:
        return SQLiteStore(self.address) if self.kind == "sqlite" else PostgresStore(self.address, upgrade=True)

    def session(self, session_id: str = "s") -> Any:
        return (SQLiteSession if self.kind == "sqlite" else PostgresSession)(session_id, self.address)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place("sqlite", str(tmp_path / "shared.db"))
    return Place("postgres", request.getfixturevalue("postgres").database())


async def use_store(place: Place, name: str) -> None:
    async with place.store() as store:
        for n in range(10):
            script = await Script(store, f"{name}_{n}").begin()
            await script.ask()


async def use_session(place: Place, name: str) -> None:
    async with place.session() as session:
        for n in range(10):
            await session.add_items([{"content": f"{name} {n} {part}"} for part in "ab"])


async def see_that_all_is_there(place: Place, *names: str) -> None:
    async with place.store() as store, place.session() as session:
        runs = [run.id for run in (await store.runs(limit=1000)).items]
        items = [item["content"] for item in await session.get_items()]
    assert sorted(runs) == sorted(f"{name}_{n}" for name in names for n in range(10))
    assert sorted(items) == sorted(f"{name} {n} {part}" for name in names for n in range(10) for part in "ab")
    for name in names:
        assert [item for item in items if item.startswith(f"{name} ")] == [
            f"{name} {n} {part}" for n in range(10) for part in "ab"
        ]


ORDERS: dict[str, Callable[[Place], Any]] = {
    "the store first": lambda place: (use_store(place, "r0"), use_session(place, "r0")),
    "the session first": lambda place: (use_session(place, "r0"), use_store(place, "r0")),
}


@pytest.mark.parametrize("order", ORDERS)
async def test_either_may_be_there_first(order: str, place: Place) -> None:
    for use in ORDERS[order](place):
        await use
    await see_that_all_is_there(place, "r0")


async def test_both_are_used_at_once(place: Place) -> None:
    uses = [use(place, f"r{n}") for n in range(4) for use in (use_store, use_session)]
    await asyncio.wait_for(asyncio.gather(*uses), LIMIT)
    await see_that_all_is_there(place, "r0", "r1", "r2", "r3")


def process(place: Place, name: str, begin: Any) -> None:
    async def both() -> None:
        await asyncio.gather(use_store(place, name), use_session(place, name))

    begin.wait(LIMIT)
    asyncio.run(both())


def test_processes_use_both_at_once(place: Place) -> None:
    spawn = multiprocessing.get_context("spawn")
    begin = spawn.Barrier(2)
    children = [spawn.Process(target=process, args=(place, f"r{n}", begin)) for n in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(LIMIT)
    assert [child.exitcode for child in children] == [0, 0]
    asyncio.run(see_that_all_is_there(place, "r0", "r1"))


async def test_a_run_is_kept_in_both(place: Place) -> None:
    async with place.store() as store, place.session() as session:
        for n in range(2):
            agent = Agent("helper", model=ScriptedModel([f"answer {n}"]))
            await Runner.run(agent, f"question {n}", store=store, session=session)
        assert len((await store.runs()).items) == 2
        assert [item["role"] for item in await session.get_items()] == ["user", "assistant", "user", "assistant"]


async def test_sessions_do_what_they_must_in_a_stores_database(place: Place) -> None:
    await use_store(place, "r0")
    await check_session(place.session)


async def test_erasing_and_vacuum_leave_a_session_as_it_is(place: Place) -> None:
    async with place.store() as store, place.session() as session:
        await use_session(place, "r0")
        script = await Script(store, "r1").begin()
        assert len(await session.get_items()) == 20
        await script.end()
        await store.erase("r1")
        await store.vacuum()
        assert await store.purge(unchanged_for=0) == 1
        assert len(await session.get_items()) == 20
        await session.clear_session()
        assert (await store.runs()).items == []


def header(path: Path) -> tuple[int, int]:
    connection = sqlite3.connect(path)
    [[application]] = connection.execute("PRAGMA application_id")
    [[version]] = connection.execute("PRAGMA user_version")
    connection.close()
    return application, version


OLDER = (
    "CREATE TABLE assentry_items"
    " (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, run TEXT, position INTEGER, item TEXT NOT NULL)",
    "CREATE INDEX assentry_items_of_session ON assentry_items (session)",
    "CREATE UNIQUE INDEX assentry_items_of_run ON assentry_items (session, run, position) WHERE run IS NOT NULL",
    "CREATE TABLE assentry_file (id BLOB NOT NULL)",
    "INSERT INTO assentry_file VALUES (randomblob(16))",
    """INSERT INTO assentry_items (session, item) VALUES ('s', '{"content":"old"}')""",
    f"PRAGMA application_id={SESSIONS}",
    "PRAGMA user_version=1",
)
"""A file of sessions as it was made when a session had a file without a store."""


async def test_a_file_of_sessions_of_an_older_assentry_is_taken_by_both(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    for statement in OLDER:
        connection.execute(statement)
    connection.commit()
    connection.close()
    place = Place("sqlite", str(path))
    async with place.session() as session:
        assert await session.get_items() == [{"content": "old"}]
        assert header(path) == (SESSIONS, 1)
        await use_store(place, "r0")
        assert header(path)[0] == STORE
        await session.add_items([{"content": "new"}])
    async with place.session() as session:
        assert await session.get_items() == [{"content": "old"}, {"content": "new"}]


async def test_a_store_of_a_later_assentry_is_refused_and_its_sessions_are_not(tmp_path: Path) -> None:
    place = Place("sqlite", str(tmp_path / "shared.db"))
    await use_store(place, "r0")
    connection = sqlite3.connect(place.address)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    async with place.store() as store:
        with pytest.raises(StoreFailed, match="schema version 99"):
            await store.runs()
    await use_session(place, "r0")
