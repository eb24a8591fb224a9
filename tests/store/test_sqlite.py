"""The store in an SQLite file: what can happen to a file, and what is then said."""

# ruff: noqa: ASYNC240 (nobody else is in the loop while a test looks at its files)

import asyncio
import gc
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection

from assentry import Agent, Runner, function_tool
from assentry.core import facts as f
from assentry.errors import Conflict, StoreFailed, UnreadableState, UsageError
from assentry.runtime.sync import block
from assentry.sql import sqlite_connection as file
from assentry.sql.thread_queue import ThreadQueue
from assentry.store import Question, SavedContext, SQLiteStore
from assentry.store.filter import Filter, page_start
from assentry.store.row_codec import LARGE
from assentry.store.sql import migrating, sqlite_file
from assentry.store.sql.schema import VERSION
from assentry.store.sqlite import MOST_FACTS
from assentry.testing import FakeClock, ScriptedModel, call
from assentry.testing.store_checks.draft import SEND, put_asking
from tests.store.support import Script, asked, ended, js, replied, waiting

SECRET = "correct horse battery staple"
ROOT = Path(__file__).parents[2]


@function_tool(needs_approval=True)
async def mail() -> str:
    """Send a mail."""
    raise AssertionError("nobody approved it")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def other(path: Path) -> sqlite3.Connection:
    """A connection that the store knows nothing of."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)


# -- files that are not ours -------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, 7, b"runs.db", "", "a\0b"])
def test_a_path_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="path is that of a file"):
        SQLiteStore(given)


def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        SQLiteStore(tmp_path)
    with pytest.raises(UsageError, match=r"no directory .* make it first"):
        SQLiteStore(tmp_path / "missing" / "runs.db")
    with pytest.raises(UsageError, match="MemoryStore"):
        SQLiteStore(":memory:")


@pytest.mark.parametrize("timeout", [-1, True, "5", None, float("nan")])
def test_a_busy_timeout_is_a_number_of_seconds(path: Path, timeout: Any) -> None:
    with pytest.raises(UsageError, match="busy_timeout"):
        SQLiteStore(path, busy_timeout=timeout)


async def test_the_database_of_another_program_is_left_as_it_is(path: Path) -> None:
    with other(path) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    before = path.read_bytes()
    async with SQLiteStore(path) as store:
        with pytest.raises(StoreFailed, match="database of another program; it was left as it is"):
            await store.runs()
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_left_as_it_is(path: Path) -> None:
    path.write_text("dear diary, " * 1000)
    async with SQLiteStore(path) as store:
        with pytest.raises(StoreFailed, match="not an SQLite database; it was left as it is"):
            await store.runs()
    assert path.read_text() == "dear diary, " * 1000


async def test_tables_that_could_not_all_be_made_are_not_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = migrating.upgrade

    def fails(connection: Connection) -> None:
        real(connection)
        raise sqlite3.OperationalError("no more")

    monkeypatch.setattr(migrating, "upgrade", fails)
    async with SQLiteStore(path) as store:
        with pytest.raises(StoreFailed, match="no more"):
            await store.runs()
    connection = other(path)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchall() == [(0,)]
    connection.close()
    monkeypatch.undo()
    async with SQLiteStore(path) as store:
        assert (await store.runs()).items == []


async def test_an_older_file_is_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SQLiteStore(path) as store:
        await Script(store).begin()
    told: list[Any] = []
    monkeypatch.setattr(sqlite_file, "VERSION", VERSION + 1)
    monkeypatch.setattr(
        migrating, "upgrade", lambda opened: told.extend(opened.exec_driver_sql("SELECT * FROM assentry_version"))
    )
    async with SQLiteStore(path) as store:
        assert len((await store.read("r1")).facts) == 2
        assert store._reader.execute("PRAGMA user_version") == [(VERSION + 1,)]
    assert told == [(f"{VERSION:04}",)]


async def test_a_file_that_is_as_it_should_be_needs_no_alembic(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await store.upgrade()
    code = (
        "import asyncio, sys\nfrom assentry.store import SQLiteStore\n"
        "async def run():\n async with SQLiteStore(sys.argv[1]) as store: await store.runs()\n"
        "asyncio.run(run())\nprint('alembic' in sys.modules)"
    )
    run = [sys.executable, "-c", code, str(path)]
    done = await asyncio.to_thread(subprocess.run, run, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


# -- trouble -----------------------------------------------------------------------------------------


async def test_a_file_that_is_locked_says_so_and_nothing_is_written(path: Path) -> None:
    async with SQLiteStore(path, busy_timeout=0) as store:
        script = await Script(store).begin()
        connection = other(path)
        connection.execute("BEGIN IMMEDIATE")
        change = script.change(f.Cancelled("ann"))
        with pytest.raises(StoreFailed, match=r"locked by another connection.*busy_timeout.*Nothing was written") as e:
            await store.append(change)
        assert e.value.unknown is False
        assert len((await store.read("r1")).facts) == 2
        connection.execute("ROLLBACK")
        connection.close()
        await store.append(change)
        assert len((await store.read("r1")).facts) == 3


async def test_a_long_read_holds_up_no_commit(path: Path) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def long(transaction: Any) -> None:
        entered.set()
        assert go_on.wait(60)

    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        reading = asyncio.ensure_future(store._read(long))
        await asyncio.to_thread(entered.wait, 60)
        await asyncio.wait_for(script.ask(), 60)
        go_on.set()
        await reading


async def test_a_file_that_is_removed_is_missed_and_not_made_again(path: Path, tmp_path: Path) -> None:
    async with SQLiteStore(path) as store:
        script = await waiting(store)
        kept = {file: file.read_bytes() for file in tmp_path.iterdir()}
        for file in kept:
            file.unlink()
        with pytest.raises(StoreFailed, match="removed or replaced while it was in use"):
            await script.write(f.Cancelled("ann"))
        for work in (store.read("r1"), store.runs(), store.take("r1", "w", seq=4, hold=1)):
            with pytest.raises(StoreFailed, match="removed or replaced while it was in use"):
                await work
        assert list(tmp_path.iterdir()) == []
        for file, content in kept.items():
            file.write_bytes(content)
        assert len((await store.read("r1")).facts) == 4


async def test_a_copy_that_is_put_back_is_given_the_definitions_that_it_lacks(path: Path, tmp_path: Path) -> None:
    known = {"mail": b"{}"}
    async with SQLiteStore(path) as store:
        await store.upgrade()
        connection = other(path)
        connection.execute("VACUUM INTO ?", [str(tmp_path / "copy.db")])
        connection.close()
        await Script(store).begin(definitions=known)
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink()
        (tmp_path / "copy.db").replace(path)
        for work in (Script(store, "r2").begin(definitions=known), store.runs()):
            with pytest.raises(StoreFailed, match="removed or replaced while it was in use"):
                await work
        await Script(store, "r2").begin(definitions=known)
        assert await store.definition("mail") == b"{}"


async def test_a_file_that_may_not_be_written_says_so(path: Path) -> None:
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        store._writer._connection.execute("PRAGMA query_only=ON")  # type: ignore[union-attr]
        with pytest.raises(StoreFailed, match=r"may not be written. See to the permissions"):
            await script.write(f.Cancelled("ann"))


async def test_a_disk_that_is_full_says_so_and_nothing_is_written(path: Path) -> None:
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        [[pages]] = store._writer.execute("PRAGMA page_count")
        store._writer.execute(f"PRAGMA max_page_count={pages + 1}")
        change = script.change(*(f.Said(js("x" * 4000)) for _ in range(8)))
        with pytest.raises(StoreFailed, match=r"no room for it. Make room.*Nothing was written") as error:
            await store.append(change)
        assert error.value.unknown is False
        assert len((await store.read("r1")).facts) == 2
        await store.append(change)  # there is room again: the connection that was at its limit is gone
        assert len((await store.read("r1")).facts) == 10


FULL = """
import asyncio, resource, signal, sys
from assentry.errors import StoreFailed
from assentry.core import facts as f
from assentry.store import SQLiteStore
from tests.store.support import Script, js

async def run():
    async with SQLiteStore(sys.argv[1]) as store:
        script = await Script(store).begin()
        size = 400_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        written = 2
        try:
            while True:
                await script.write(f.Said(js("x" * 8000)))
                written += 1
        except StoreFailed as error:
            print(error, error.unknown)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert len((await store.read("r1")).facts) == written, "what was said to be written is there, and no more"
        script.seq -= 1
        await script.write(f.Said(js("y")))
        assert len((await store.read("r1")).facts) == written + 1
        print("went on")

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
asyncio.run(run())
"""


async def test_a_file_that_may_not_grow_loses_nothing_that_was_written(path: Path) -> None:
    run = [sys.executable, "-c", FULL, str(path)]
    done = await asyncio.to_thread(subprocess.run, run, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "The store cannot use" in done.stdout and "went on" in done.stdout, done.stdout + done.stderr


async def test_text_that_is_not_utf8_is_damage_of_its_row(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await waiting(store)
        connection = other(path)
        connection.execute("UPDATE assentry_journal SET fact = CAST(x'7bff7d' AS TEXT) WHERE seq = 2")
        with pytest.raises(UnreadableState, match="Fact 2 of run 'r1'"):
            await store.read("r1")
        connection.execute("UPDATE assentry_journal SET fact = 7.5 WHERE seq = 2")
        connection.execute("UPDATE assentry_journal SET fact = x'00' WHERE seq = 2")
        with pytest.raises(UnreadableState, match="Fact 2 of run 'r1' is damaged: it is not text"):
            await store.read("r1")
        connection.close()


async def test_a_commit_that_the_disk_refused_may_have_been_written(path: Path) -> None:
    class Refusing:
        in_transaction = False

        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection

        def execute(self, text: str, *values: Any) -> Any:
            if text == "COMMIT":
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC  # type: ignore[misc]
                raise error
            return self._connection.execute(text, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        store._writer._connection = Refusing(store._writer._connection)  # type: ignore[assignment, arg-type]
        with pytest.raises(StoreFailed, match=r"the disk fails.*not known whether the change was written") as error:
            await script.write(f.Cancelled("ann"))
        assert error.value.unknown is True
        assert len((await store.read("r1")).facts) == 2


# -- processes ---------------------------------------------------------------------------------------


def _append(path: str, gate: Any, number: int, won: Any) -> None:
    async def run() -> None:
        async with SQLiteStore(path) as store:
            script = Script(store)
            for fact in (await store.read("r1")).facts:
                script.change(fact)
            gate.wait(60)
            try:
                await script.write(f.Cancelled(f"process {number}"))
                won.put(number)
            except Conflict:
                won.put(None)

    asyncio.run(run())


async def test_of_processes_that_append_at_once_one_does(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await Script(store).begin()
        context = multiprocessing.get_context("spawn")
        gate, won = context.Barrier(3), context.Queue()
        processes = [context.Process(target=_append, args=(str(path), gate, n, won)) for n in range(3)]
        for process in processes:
            process.start()
        results = [await asyncio.to_thread(won.get, True, 60) for _ in processes]
        for process in processes:
            await asyncio.to_thread(process.join, 60)
        winners = [number for number in results if number is not None]
        assert len(winners) == 1
        assert (await store.read("r1")).facts[2:] == [f.Cancelled(f"process {winners[0]}")]


async def _begin(store: SQLiteStore, run_id: str) -> set[str]:
    await Script(store, run_id).begin()
    return {run.id for run in (await store.runs()).items}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_drive_that_is_collected_in_the_middle_of_a_write_does_not_write(path: Path) -> None:
    armed = False

    def clock() -> float:
        nonlocal armed
        if armed and store._writing.turn.locked():  # it is asked for in the transaction
            armed = False
            gc.collect()
        return 1000.0

    @function_tool
    async def stay() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.Event().wait()

    def leave() -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda loop, what: None)  # that a task was destroyed
        agent = Agent("helper", tools=[stay], model=ScriptedModel([call("stay")]))
        drive = loop.create_task(Runner.run(agent, "go", store=store))
        loop.run_forever()
        loop.close()
        del drive

    store, done = SQLiteStore(path, clock=clock), threading.Event()
    gc.disable()
    try:
        leave()
        armed = True

        def work() -> None:
            block(_begin(store, "r1"))
            done.set()

        threading.Thread(target=work, daemon=True).start()
        assert done.wait(60)
    finally:
        gc.enable()
    assert not armed
    asyncio.run(store.close())


async def test_a_store_that_is_dropped_lets_go_of_its_threads(path: Path) -> None:
    before = threading.enumerate()  # another test's store may still be there
    store = SQLiteStore(path)
    await store.runs()
    await store.wait(0)
    threads = [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("assentry-store") and thread.is_alive() and thread not in before
    ]
    assert threads
    del store
    gc.collect()
    for thread in threads:
        await asyncio.to_thread(thread.join, 60)
        assert not thread.is_alive()


# -- erasing -----------------------------------------------------------------------------------------


async def _secret(store: SQLiteStore, run_id: str) -> None:
    """A run with a secret in all that can be said."""
    script = Script(store, run_id)
    context = SavedContext(f'{{"pin": "{SECRET}"}}'.encode(), "dict")
    await script.write(f.Began("helper", 10, run_id, at=1), f.Said(js(SECRET)), context=context)
    arguments = f'{{"to":"{SECRET}"}}'
    await script.write(
        replied("c1", arguments=arguments),
        asked("c1", f"q_{run_id}", why=SECRET, prompt=js(SECRET), schema=js({"const": SECRET})),
        context=SavedContext(f'{{"pin": "{SECRET} {"x" * 9000}"}}'.encode(), "dict"),
    )
    grant = f.Granted(f"g_{run_id}", "helper", "send", "approve", "ann", message=SECRET, pins=js({"to": SECRET}))
    await script.write(f.Approved("c1", "ann", f"q_{run_id}"), grant, f.Started("c1"), context=context)
    await script.write(f.Finished("c1", js(SECRET * (LARGE // 10))))
    await script.write(replied("c2", arguments=arguments), asked("c2", f"p_{run_id}", why=SECRET, prompt=js(SECRET)))
    await script.write(f.Refused("c2", "ann", f"p_{run_id}", message=SECRET), f.Told("c2", SECRET))
    await script.write(replied(text=SECRET), f.Concluded(js(SECRET)))


async def test_what_is_erased_is_gone_from_the_files(path: Path, tmp_path: Path) -> None:
    async with SQLiteStore(path, clock=FakeClock()) as store:
        for number in range(20):
            await _secret(store, f"r{number}")
        assert any(SECRET.encode() in file.read_bytes() for file in tmp_path.iterdir())
        for number in range(20):
            await store.erase(f"r{number}")
        for file in tmp_path.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file
        assert len(await store.lines("r3")) == 14
        assert (await store.question("q_r3")).arguments == ""


async def test_erasing_while_another_process_reads_says_that_the_log_still_has_it(path: Path) -> None:
    async with SQLiteStore(path, busy_timeout=0) as store:
        await ended(store)
        connection = other(path)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM assentry_runs").fetchall()
        with pytest.raises(StoreFailed, match=r"'r1' is erased, but .*-wal still has what was in it"):
            await store.erase("r1")
        assert (await store.read("r1")).record.erased is not None
        connection.close()
        await store.erase("r1")


async def test_what_is_purged_is_gone_from_the_files(path: Path, tmp_path: Path) -> None:
    async with SQLiteStore(path, clock=FakeClock()) as store:
        for number in range(5):
            await _secret(store, f"r{number}")
        assert await store.purge(unchanged_for=0) == 5
        for file in tmp_path.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file


async def test_vacuum_makes_the_file_smaller_and_waits_for_who_writes(path: Path, tmp_path: Path) -> None:
    async with SQLiteStore(path, clock=FakeClock(), busy_timeout=30) as store:
        for number in range(20):
            await _secret(store, f"r{number}")
        await store.purge(unchanged_for=0)
        before = path.stat().st_size
        writer = other(path)
        writer.execute("BEGIN IMMEDIATE")
        threading.Timer(0.0, writer.rollback).start()
        await store.vacuum()
        writer.close()
        assert path.stat().st_size < before / 2
        for file in tmp_path.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file
        assert await store.strays() == []


# -- who may read it ---------------------------------------------------------------------------------


def _modes(folder: Path) -> set[int]:
    return {file.stat().st_mode & 0o777 for file in folder.iterdir()}


async def test_only_its_owner_may_read_a_file_that_the_store_makes(path: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with SQLiteStore(path) as store:
            await waiting(store)
            assert {file.name for file in tmp_path.iterdir()} == {path.name, f"{path.name}-wal", f"{path.name}-shm"}
            assert _modes(tmp_path) == {0o600}
    finally:
        os.umask(before)


async def test_the_mode_of_a_file_that_is_there_is_its_owners_business(path: Path, tmp_path: Path) -> None:
    path.touch(0o640)
    path.chmod(0o640)
    async with SQLiteStore(path) as store:
        await waiting(store)
        assert _modes(tmp_path) == {0o640}


# -- how it is kept ----------------------------------------------------------------------------------


async def test_what_is_written_outlives_a_power_cut(path: Path) -> None:
    async with SQLiteStore(path) as store:
        await store.upgrade()
        for handle in (store._writer, store._reader):
            assert handle.execute("PRAGMA synchronous") == [(2,)]
            assert handle.execute("PRAGMA journal_mode") == [("wal",)]


async def test_a_store_takes_little_more_than_what_is_in_it(path: Path) -> None:
    useful = 0
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        for turn in range(80):
            call, text = f"c{turn}", js("lorem ipsum " * 80)
            useful += 2 * len(text) + 150
            await script.write(replied(call), f.Approved(call, "rule"), f.Started(call))
            await script.write(f.Stepped(call, "draft", text), f.Finished(call, text))
    assert path.stat().st_size < 400_000
    assert path.stat().st_size < 2.5 * useful


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "assentry_questions_open"),
        ({"agent": "a"}, "assentry_questions_agent"),
        ({"tool": "t"}, "assentry_questions_tool"),
        ({"run": "r"}, "assentry_questions_run"),
        ({"run": "r", "agent": "a", "tool": "t"}, "assentry_questions_run"),
        ({"settled": True}, "assentry_questions_decided"),
        ({"decider": "ann"}, "assentry_questions_open"),
    ],
)
@pytest.mark.parametrize("after", [None, '[5,"q"]'])
@pytest.mark.parametrize("older_than", [None, 5.0])
async def test_every_list_of_questions_is_read_off_an_index(
    path: Path, filters: dict[str, Any], index: str, after: str | None, older_than: float | None
) -> None:
    async with SQLiteStore(path) as store:
        await store.upgrade()
        seen: list[str] = []
        store._reader._connection.set_trace_callback(seen.append)  # type: ignore[union-attr]
        await store.questions(**filters, after=after, older_than=older_than)
        plan = store._reader.execute(f"EXPLAIN QUERY PLAN {seen[0]}")
    steps = [step[3] for step in plan]
    assert any(index in step.split() for step in steps), steps
    assert not any("TEMP B-TREE" in step or (step.startswith("SCAN") and "INDEX" not in step) for step in steps), steps


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize(
    ("equal", "ended", "index"),
    [
        ({}, False, "assentry_questions_open"),
        ({"agent": "Clerk"}, False, "assentry_questions_agent"),
        ({"tool": "send"}, False, "assentry_questions_tool"),
        ({}, True, "assentry_questions_decided"),
    ],
)
async def test_a_search_reads_a_part_of_an_index(
    path: Path, equal: dict[str, str], ended: bool, index: str, newest: bool
) -> None:
    async with SQLiteStore(path) as store:
        for question in await put_asking(store, (SEND,) * 9):
            if ended:
                await store.decide(question.id, {"type": "reject"}, by="ann", digest=question.digest)
        await store.runs()
        seen: list[str] = []
        store._reader._connection.set_trace_callback(seen.append)  # type: ignore[union-attr]
        more: dict[str, Any] = {"equal": equal, "ended": ended, "newest": newest}
        page = await store.page(Filter(kind=Question, search="no such text", limit=5, reach=3, **more))
        assert page.items == [] and page.next is not None
        await store.page(Filter(kind=Question, search="none", limit=5, reach=3, start=page_start(5, page.next), **more))
        store._reader._connection.set_trace_callback(None)  # type: ignore[union-attr]
        plans = [[step[3] for step in store._reader.execute(f"EXPLAIN QUERY PLAN {text}")] for text in seen]
    assert len(plans) == 4
    for steps in plans:
        assert not any("TEMP B-TREE" in step or step.startswith("SCAN assentry_runs") for step in steps), steps
        assert any(index in step.split() for step in steps), steps
    (_, first), (_, second) = plans[:2], plans[2:]
    order = "decided" if ended else "at"
    assert f"{order}{'>' if newest else '<'}?" in first[0], first
    assert f"{order}>? AND {order}<?" in second[0], second


@pytest.mark.parametrize("agents", [None, ["a"], ["a", "b"]])
async def test_claiming_is_read_off_an_index(path: Path, agents: list[str] | None) -> None:
    async with SQLiteStore(path) as store:
        await store.upgrade()
        seen: list[str] = []
        await store.runs()
        store._writer.execute("SELECT 1")
        store._writer._connection.set_trace_callback(seen.append)  # type: ignore[union-attr]
        await store.claim("w", agents=agents, hold=1, limit=5)
        plans = [store._writer.execute(f"EXPLAIN QUERY PLAN {text}") for text in seen if "UPDATE" in text]
    steps = [step[3] for plan in plans for step in plan]
    assert len(plans) == 2
    assert any("USING INDEX assentry_runs_wake" in step for step in steps), steps
    assert any("USING INDEX assentry_runs_worker" in step for step in steps), steps
    assert not any(step.startswith("SCAN assentry_runs") and "INDEX" not in step for step in steps), steps


# -- where it is done --------------------------------------------------------------------------------


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A disk that takes so many seconds for everything."""
    made = SimpleNamespace(now=0.0, takes=0.0)

    def look() -> float:
        made.now += made.takes
        return float(made.now)

    monkeypatch.setattr(file, "perf_counter", look)
    return made


@pytest.fixture
def given(disk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is given to the store's threads."""
    seen: list[str] = []

    def noting(do: Any) -> Any:
        def noted(queue: ThreadQueue, *given: Any) -> Any:
            seen.append(queue._name)
            return do(queue, *given)

        return noted

    for name in ("do", "then"):
        monkeypatch.setattr(ThreadQueue, name, noting(getattr(ThreadQueue, name)))
    return seen


WRITING = "assentry-store-write"


async def test_a_file_that_is_quick_is_written_where_it_is_asked_for(path: Path, given: list[str]) -> None:
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        assert given == [WRITING]  # the file is made on a thread
        await script.ask()
        assert given == [WRITING]
        async with SQLiteStore(path) as reader:
            assert len((await reader.read("r1")).facts) == 4


async def test_a_file_that_is_slow_is_written_on_a_thread(path: Path, given: list[str], disk: SimpleNamespace) -> None:
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        await script.write(replied("c1"), f.Approved("c1", "rule"))
        given.clear()
        disk.takes = 0.1
        await script.write(f.Started("c1"))
        assert given == []  # nobody could know
        await script.write(f.Stepped("c1", "first", js(1)))
        assert given == [WRITING]
        disk.takes = 0.0
        for turn in range(50):
            await script.write(f.Stepped("c1", f"step {turn}", js(turn)))
        assert 10 < len(given) < 50  # it is believed after a while


async def test_what_is_large_is_written_on_a_thread(path: Path, given: list[str]) -> None:
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        await script.write(replied("c1"), f.Approved("c1", "rule"), f.Started("c1"))
        given.clear()
        await script.write(*(f.Stepped("c1", f"step {turn}", js(turn)) for turn in range(MOST_FACTS)))
        assert given == []
        await script.write(f.Stepped("c1", "large", js("x" * LARGE)))
        assert given == [WRITING]
        await script.write(*(f.Stepped("c1", f"more {turn}", js(turn)) for turn in range(MOST_FACTS + 1)))
        assert given == [WRITING, WRITING]


async def test_a_lock_is_waited_for_on_a_thread(path: Path, given: list[str]) -> None:
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        connection = other(path)
        connection.execute("BEGIN IMMEDIATE")
        given.clear()
        writing = asyncio.create_task(store.append(script.change(f.Cancelled("ann"))))
        await asyncio.sleep(0)
        assert given == [WRITING]
        assert not writing.done()
        connection.execute("ROLLBACK")
        connection.close()
        await writing
        assert len((await store.read("r1")).facts) == 3


async def test_a_reader_that_is_locked_out_is_patient_on_a_thread(
    path: Path, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(transaction: Any, *_: Any) -> Any:
        transaction.connection.execute("SELECT 1")
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    async with SQLiteStore(path) as store:
        await Script(store).begin()
        monkeypatch.setattr("assentry.store.sqlite.read_short", locked)
        given.clear()
        assert len((await store.read("r1")).facts) == 2
        assert given == ["assentry-store-read"]
        monkeypatch.undo()
        assert store._writer.connected


async def test_a_short_read_does_not_wait_for_who_writes(path: Path, given: list[str]) -> None:
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        await script.ask()
        [id] = [question.id for question in (await store.questions()).items]
        given.clear()
        assert (await store.question(id)).run == "r1"
        assert given == []
        with store._writing.turn:
            assert (await store.question(id)).run == "r1"
            assert len((await store.read("r1")).facts) == 4
        assert given == ["assentry-store-read"] * 2
        second = SQLiteStore(path)
        await second.say("r1", "more")  # of another process, and not in any cache
        assert len((await store.read("r1")).facts) == 5
        await second.close()


@pytest.mark.usefixtures("disk")
async def test_the_log_is_written_into_the_file_on_a_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.store.sqlite.MANY", 5)
    async with SQLiteStore(path) as store:
        script = await Script(store).begin()
        for _ in range(4):
            await script.write(f.Said(js([])))
        assert b"r1" not in path.read_bytes()
        await script.write(f.Said(js([])))
        await store._writing.do(lambda: None)
        assert b"r1" in path.read_bytes()
        for _ in range(4):
            await script.write(f.Said(js(["again"])))
        await store._writing.do(lambda: None)
        assert b"again" not in path.read_bytes()


async def test_whoever_writes_on_a_thread_and_whoever_does_not_take_turns(path: Path) -> None:
    async with SQLiteStore(path) as first, SQLiteStore(path) as second:
        second._writer.pace = 1e9
        scripts = [Script(store, f"r{number}") for number, store in enumerate((first, second, first, second))]
        await asyncio.gather(*(script.begin() for script in scripts))

        async def write(script: Script) -> None:
            for _ in range(30):
                await script.write(f.Said(js([])))

        await asyncio.gather(*map(write, scripts))
        assert [len((await first.read(script.id)).facts) for script in scripts] == [32] * 4


async def test_a_drive_that_is_cancelled_while_its_write_waits_is_written_whole(path: Path, given: list[str]) -> None:
    async with SQLiteStore(path) as store:
        await Script(store).begin()
        connection = other(path)
        connection.execute("BEGIN IMMEDIATE")
        given.clear()
        agent = Agent("helper", tools=[mail], model=ScriptedModel([call("mail", {})]))
        drive = asyncio.create_task(Runner.run(agent, "go", store=store))
        async with asyncio.timeout(60):
            while not given:  # noqa: ASYNC110 - a file tells nobody that it is locked
                await asyncio.sleep(0)
        assert given == [WRITING]
        drive.cancel()
        await asyncio.sleep(0)
        assert not drive.done()
        connection.execute("ROLLBACK")
        connection.close()
        with pytest.raises(asyncio.CancelledError):
            await drive
        [question] = (await store.questions()).items
        record = (await store.read(question.run)).record
        assert (question.tool, record.status, record.worker) == ("mail", "waiting", None)
