"""Writes to an SQLite file that share a commit: each is as good as one that is alone."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assentry.core import facts as f
from assentry.errors import AlreadyDecided, LeaseLost, Overtaken, StoreFailed
from assentry.sql import shared_writes
from assentry.store import SQLiteStore
from assentry.testing.store_checks.draft import asking, put_asking, put_begun
from tests.store.support import Script, js

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@asynccontextmanager
async def slow(path: Path) -> AsyncIterator[SQLiteStore]:
    """A store whose file is too slow to be written on the event loop."""
    async with SQLiteStore(path) as store:
        await store.upgrade()
        await Script(store, "first").begin()
        store._writer.pace = 1e9
        yield store


async def until_waiting(store: SQLiteStore, count: int) -> None:
    """Let the tasks run until so many writes wait for the writer thread."""
    async with asyncio.timeout(60):
        while len(store._shared._waiting) != count:  # noqa: ASYNC110 - other threads bring it about
            await asyncio.sleep(0.001)


async def together(store: SQLiteStore, *writes: Coroutine[Any, Any, Any]) -> tuple[list[Any], list[str]]:
    """Let all writes wait for the writer thread, and then go on; what came of each, and the statements."""
    statements: list[str] = []
    connection: Any = store._writer._connection
    with store._writing.turn:
        tasks = [asyncio.ensure_future(write) for write in writes]
        await until_waiting(store, len(writes))
        if isinstance(connection, sqlite3.Connection):
            connection.set_trace_callback(statements.append)
    came = await asyncio.gather(*tasks, return_exceptions=True)
    return came, statements


async def test_writes_that_wait_share_a_commit(path: Path) -> None:
    async with slow(path) as store:
        drafts = [asking(store.clock) for _ in range(5)]
        _, statements = await together(store, *(draft.write(store) for draft in drafts))
        assert statements.count("COMMIT") == 1
        async with SQLiteStore(path) as other:
            assert {question.run for question in (await other.questions()).items} == {draft.id for draft in drafts}
            assert [await other.verify(draft.id) for draft in drafts] == [[]] * 5


async def test_no_more_share_a_commit_than_may(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_writes, "MOST_WRITES", 2)
    async with slow(path) as store:
        drafts = [asking(store.clock) for _ in range(5)]
        _, statements = await together(store, *(draft.write(store) for draft in drafts))
        assert statements.count("COMMIT") == 3
        assert len((await store.questions()).items) == 5


async def test_one_that_is_refused_changes_only_itself(path: Path) -> None:
    async with slow(path) as store:
        behind, without = await put_begun(store), await put_begun(store)
        late = behind.add(f.Cancelled("ann")).change()
        await store.say(behind.id, "more")
        driven = without.conclude().change()  # needs a lease, and has none
        first, last = asking(store.clock), asking(store.clock)
        writes = (first.write(store), store.append(late), store.append(driven), last.write(store))
        came, statements = await together(store, *writes)
        assert [type(each) for each in came[1:3]] == [Overtaken, LeaseLost]
        assert statements.count("COMMIT") == 1
        assert not any(isinstance(each, Exception) for each in (came[0], came[3]))
        async with SQLiteStore(path) as other:
            assert {question.run for question in (await other.questions()).items} == {first.id, last.id}
            for run in (behind.id, without.id, first.id, last.id):
                assert await other.verify(run) == []
            assert (await other.read(behind.id)).record.status == "working"
            assert (await other.read(without.id)).record.seq == without.seq


async def test_of_two_decisions_in_one_commit_one_wins(path: Path) -> None:
    async with slow(path) as store:
        [question] = await put_asking(store)
        came, _ = await together(
            store,
            *(
                store.decide(question.id, {"type": kind}, by=by, digest=question.digest)
                for kind, by in (("approve", "ann"), ("reject", "bob"))
            ),
        )
        [won] = [each for each in came if not isinstance(each, AlreadyDecided)]  # either may be the first to wait
        assert won.by in ("ann", "bob") and (await store.question(question.id)).by == won.by
        assert await store.verify(question.run) == []


async def test_a_fault_in_one_leaves_the_others_written(path: Path) -> None:
    async with slow(path) as store:
        drafts = [asking(store.clock) for _ in range(2)]

        async def faulty() -> None:
            def work(connection: sqlite3.Connection) -> None:
                connection.execute("DELETE FROM assentry_runs")
                raise RuntimeError("a fault")

            await store._shared.do(work)

        came, statements = await together(store, drafts[0].write(store), faulty(), drafts[1].write(store))
        assert isinstance(came[1], RuntimeError)
        assert "COMMIT" not in statements  # of all at once; then each had a transaction of its own
        async with SQLiteStore(path) as other:
            assert [await other.verify(draft.id) for draft in drafts] == [[], []]
            assert (await other.read("first")).record.seq == 2


class Refusing:
    """A connection whose commits fail."""

    def __init__(self, connection: sqlite3.Connection, code: int) -> None:
        self._connection, self._code = connection, code

    def execute(self, text: str, *values: Any) -> Any:
        if text == "COMMIT":
            error = sqlite3.OperationalError("refused")
            error.sqlite_errorcode = self._code
            raise error
        return self._connection.execute(text, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize(
    ("code", "unknown"), [(sqlite3.SQLITE_IOERR_FSYNC, True), (sqlite3.SQLITE_FULL, False)], ids=["unknown", "full"]
)
async def test_a_commit_that_fails_is_told_to_all(path: Path, code: int, unknown: bool) -> None:
    async with slow(path) as store:
        drafts = [asking(store.clock) for _ in range(3)]
        behind = await put_begun(store)
        late = behind.add(f.Cancelled("ann")).change()
        await store.say(behind.id, "more")
        store._writer._connection = Refusing(store._writer._connection, code)  # type: ignore[assignment, arg-type]
        came, _ = await together(store, *(draft.write(store) for draft in drafts), store.append(late))
        assert [(type(each), each.unknown) for each in came] == [(StoreFailed, unknown)] * 4
        assert len({id(each) for each in came}) == 4  # no two callers share an error
        assert (await store.questions()).items == []
        await asking(store.clock).write(store)  # on another connection


async def test_a_file_that_is_locked_is_told_to_all_at_once(path: Path) -> None:
    async with slow(path) as store:
        store._file.busy_timeout = 0.0
        locking = sqlite3.connect(path, isolation_level=None)
        locking.execute("BEGIN IMMEDIATE")
        came, _ = await together(store, *(asking(store.clock).write(store) for _ in range(3)))
        locking.close()
        assert [(type(each), each.unknown) for each in came] == [(StoreFailed, False)] * 3
        assert (await store.questions()).items == []


async def test_one_that_nobody_waits_for_any_more_is_left_out(path: Path) -> None:
    async with slow(path) as store:
        script = await Script(store, "r1").begin()
        with store._writing.turn:
            given_up = asyncio.ensure_future(script.write(f.Said(js([]))))
            draft = asking(store.clock)
            other = asyncio.ensure_future(draft.write(store))
            await until_waiting(store, 2)
            given_up.cancel()
            await asyncio.sleep(0)
        await other
        assert (await store.read("r1")).record.seq == 2
        assert (await store.read(draft.id)).record.waiting == 1


PROGRAM = """
import asyncio, os, shutil, signal, sys
from assentry.store import SQLiteStore
from assentry.testing.store_checks.draft import asking

def empty(path):
    async def make():
        async with SQLiteStore(path) as store:
            await store.upgrade()
    asyncio.run(make())
    os._exit(0)

def child(path, number):
    async def live():
        store = SQLiteStore(path)
        await asking(store.clock).write(store)
        store._writer.pace = 1e9
        told = os.open(f"{path}.told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        async def write():
            draft = asking(store.clock)
            await draft.write(store)
            os.write(told, f"{draft.id}\\n".encode())

        left = [number]

        def count(statement):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        for _ in range(2):
            with store._writing.turn:
                tasks = [asyncio.ensure_future(write()) for _ in range(4)]
                while len(store._shared._waiting) < 4:
                    await asyncio.sleep(0)
                store._writer._connection.set_trace_callback(count)
            await asyncio.gather(*tasks)
    asyncio.run(live())
    os._exit(0)

def in_a_fork(work, *given):
    process = os.fork()
    if process == 0:
        try:
            work(*given)
        finally:
            os._exit(1)
    return os.waitpid(process, 0)[1]

path, last = sys.argv[1], int(sys.argv[2])
assert in_a_fork(empty, f"{path}.db") == 0
for number in range(1, last + 1):
    shutil.copy(f"{path}.db", f"{path}_{number}.db")
    status = in_a_fork(child, f"{path}_{number}.db", number)
    print(os.waitstatus_to_exitcode(status), flush=True)
    if os.waitstatus_to_exitcode(status) == 0:
        break
"""


def _told(path: Path) -> list[str]:
    told = path.with_suffix(".db.told")
    return told.read_text().split() if told.exists() else []


async def test_a_process_that_is_killed_loses_nothing_that_it_was_told(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "killed"), "200"]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    ends = [int(line) for line in out.split()]
    assert ends[-1] == 0 and len(ends) > 40, ends  # killed at every statement of two shared commits
    assert set(ends[:-1]) == {-9}
    for number in range(1, len(ends) + 1):
        path = tmp_path / f"killed_{number}.db"
        told = _told(path)
        async with SQLiteStore(path) as store:
            runs = {run.id for run in (await store.runs()).items}
            assert runs.issuperset(told)
            assert len(runs) in (1, 5, 9), "a commit was made in part"
            for run in runs:
                assert await store.verify(run) == []
