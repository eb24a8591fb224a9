"""Stores and sessions after a fork: a child cannot use what its parent opened, and does not disturb the parent."""

import asyncio
import gc
import inspect
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assentry import PostgresSession, SQLiteSession, UsageError
from assentry.store import PostgresStore, SQLiteStore
from tests.store.postgres import Server
from tests.store.support import Script

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]

KINDS = ["SQLiteStore", "PostgresStore", "SQLiteSession", "PostgresSession", "SQLiteSession in memory"]
LIMIT = 100


class Opened:
    """A store or a session, and how it is used."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.it = make()
        self.is_store = isinstance(self.it, SQLiteStore | PostgresStore)

    async def add(self, name: str) -> None:
        if self.is_store:
            await Script(self.it, name).begin()
        else:
            await self.it.add_items([{"content": name}])

    async def found(self) -> list[str]:
        if self.is_store:
            return sorted(run.id for run in (await self.it.runs()).items)
        return [item["content"] for item in await self.it.get_items()]

    async def close(self) -> None:
        if self.is_store:
            await self.it.close()
        else:
            self.it.close()


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    path = tmp_path / "shared.db"
    if request.param.startswith("Postgres"):
        url = request.getfixturevalue("postgres").database()
    makes: dict[str, Callable[[], Any]] = {
        "SQLiteStore": lambda: SQLiteStore(path),
        "PostgresStore": lambda: PostgresStore(url, upgrade=True),
        "SQLiteSession": lambda: SQLiteSession("s", path),
        "PostgresSession": lambda: PostgresSession("s", url),
        "SQLiteSession in memory": lambda: SQLiteSession("s"),
    }
    made = Opened(makes[request.param])
    yield made
    asyncio.run(made.close())


def in_a_fork(work: Callable[[], Any]) -> None:
    """Do this in a forked child, and see that it succeeds."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, LIMIT))


def test_what_the_parent_opened_is_refused_in_a_child_and_goes_on_in_the_parent(opened: Opened) -> None:
    run(opened.add("r1"))

    def child() -> None:
        for use in (opened.add("r2"), opened.found(), opened.close()):
            with pytest.raises(UsageError, match=r"was opened in another process.*Open it after the fork"):
                run(use)
        opened.it = None
        gc.collect()

    for _ in range(2):
        in_a_fork(child)
        run(opened.add(f"r{len(run(opened.found())) + 1}"))
    assert run(opened.found()) == ["r1", "r2", "r3"]


def test_what_was_used_by_blocking_calls_only_is_refused_as_well(opened: Opened) -> None:
    from assentry.runtime.sync import block

    block(opened.add("r1"))  # without a thread

    def child() -> None:
        with pytest.raises(UsageError, match="opened in another process"):
            run(opened.found())
        opened.it = None
        gc.collect()

    in_a_fork(child)
    block(opened.add("r2"))
    assert block(opened.found()) == ["r1", "r2"]


def test_what_nobody_has_used_yet_may_be_used_on_both_sides(opened: Opened) -> None:
    in_a_fork(lambda: run(opened.add("r1")))
    run(opened.add("r2"))
    assert run(opened.found()) in (["r1", "r2"], ["r2"]), "each process has its own, if it is in memory"


def in_a_file(opened: Opened) -> bool:
    return isinstance(opened.it, SQLiteStore) or (
        isinstance(opened.it, SQLiteSession) and "memory" not in repr(opened.it)
    )


def test_a_child_makes_its_own_unless_it_is_of_a_file_that_the_parent_has_open(opened: Opened) -> None:
    run(opened.add("r1"))
    file = in_a_file(opened)

    def child() -> None:
        own = Opened(opened.make)
        if file:
            with pytest.raises(UsageError, match=r"still open when this one was forked.*Open it after the fork"):
                run(own.add("r2"))
        else:
            run(own.add("r2"))
            assert "r2" in run(own.found())
        run(own.close())

    in_a_fork(child)
    run(opened.add("r3"))
    found = run(opened.found())
    assert found == (["r1", "r2", "r3"] if isinstance(opened.it, PostgresStore | PostgresSession) else ["r1", "r3"])


@pytest.mark.parametrize("kind", [SQLiteStore, lambda path: SQLiteSession("s", path)], ids=["store", "session"])
def test_what_a_child_writes_stays_when_its_parent_closed_the_file_before_the_fork(kind: Any, tmp_path: Path) -> None:
    (heard, tell), (hear, told) = os.pipe(), os.pipe()
    parent = Opened(lambda: kind(tmp_path / "shared.db"))
    run(parent.add("r1"))
    run(parent.close())

    def child() -> None:
        own = Opened(parent.make)
        run(own.add("r2"))
        os.write(tell, b".")
        os.read(hear, 1)
        run(own.add("r3"))
        os._exit(0)

    process = os.fork()
    if process == 0:
        try:
            child()
        finally:
            os._exit(1)
    os.read(heard, 1)
    again = Opened(parent.make)
    run(again.add("r4"))
    run(again.close())
    os.write(told, b".")
    assert os.waitpid(process, 0)[1] == 0
    for end in (heard, tell, hear, told):
        os.close(end)
    last = Opened(parent.make)
    assert sorted(run(last.found())) == ["r1", "r2", "r3", "r4"]
    run(last.close())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of open files here")
def test_a_child_does_not_close_its_parents_file(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"

    def descriptors() -> int:
        return sum(os.path.realpath(f"/proc/self/fd/{each}") == str(path) for each in os.listdir("/proc/self/fd"))

    made: list[Any] = [SQLiteStore(path), SQLiteSession("s", path)]
    run(Script(made[0]).begin())
    run(made[1].add_items([{"content": "x"}]))
    before = descriptors()
    assert before >= 2

    def child() -> None:
        made.clear()
        gc.collect()
        assert descriptors() == before

    in_a_fork(child)
    run(made[0].close())
    made[1].close()
    assert descriptors() == 0


def test_a_child_whose_interpreter_ends_leaves_the_parents_connections_alone(tmp_path: Path, postgres: Server) -> None:
    code = """
        import asyncio, os, sys
        from assentry import PostgresSession, SQLiteSession
        from assentry.store import PostgresStore, SQLiteStore

        stores = [SQLiteStore(PATH), PostgresStore(URL, upgrade=True)]
        sessions = [SQLiteSession("s", PATH), PostgresSession("s", URL)]

        async def use():
            for session in sessions:
                await session.add_items([{"content": "x"}])
            for store in stores:
                await store.runs()
            return [len(await session.get_items()) for session in sessions]

        async def connections():
            def count(connection):
                return connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'fork'").fetchall()
            return sorted(await sessions[1]._do(count, writes=False))

        asyncio.run(use())
        before = asyncio.run(connections())
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(asyncio.run(use()), len(before), asyncio.run(connections()) == before)
    """
    path = tmp_path / "shared.db"
    url = f"{postgres.database()}&application_name=fork"
    program = f"PATH, URL = {str(path)!r}, {url!r}\n" + inspect.cleandoc(code)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=4 * LIMIT)
    assert ended.stdout == "[2, 2] 2 True\n", ended.stderr
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
