"""What the stores in SQL databases must do alike, beyond what every store must."""

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool

from assentry.core import facts as f
from assentry.errors import Conflict, Overtaken, RunFinished, StoreFailed, UnreadableState, UsageError
from assentry.store import Lease, PostgresStore, SavedContext, SQLiteStore, Store
from assentry.store.row_codec import LARGE, redacted
from assentry.store.sql.migrating import MIGRATIONS, config
from assentry.store.sql.schema import EARLIER_VERSION_TABLE, VERSION, VERSION_TABLE, metadata
from assentry.testing import check_store
from tests.store.place import Place
from tests.store.postgres import Server
from tests.store.support import Script, asked, at_once, ended, js, replied, waiting

# -- what every store must do ------------------------------------------------------------------------


def _damage(engine: Callable[[Store], Engine]) -> Callable[[Store, str, int, bytes], None]:
    def put(store: Store, run: str, seq: int, fact: bytes) -> None:
        with engine(store).begin() as connection:
            connection.execute(
                text("UPDATE assentry_journal SET fact = :fact WHERE seq = :seq AND run ="
                     " (SELECT id FROM assentry_runs WHERE run = :run)"),
                {"fact": fact.decode(), "seq": seq, "run": run},
            )  # fmt: skip

    return put


async def test_a_store_in_sqlite_does_what_it_must(tmp_path: Path) -> None:
    number, engines = itertools.count(), {}

    def make(clock: Callable[[], float]) -> Store:
        path = tmp_path / f"{next(number)}.db"
        store = SQLiteStore(path, clock=clock)
        engines[store] = create_engine(f"sqlite:///{path}", poolclass=NullPool)
        return store

    await check_store(make, damage=_damage(engines.__getitem__))


async def test_a_store_in_postgres_does_what_it_must(postgres: Server) -> None:
    engines = {}
    url = postgres.database()
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)

    def make(clock: Callable[[], float]) -> Store:
        store = PostgresStore(url, clock=clock, upgrade=True)
        engines[store] = engine
        with engine.begin() as connection:
            if connection.dialect.has_table(connection, "assentry_runs"):
                connection.execute(text("TRUNCATE " + ", ".join(metadata.tables)))
        return store

    await check_store(make, damage=_damage(engines.__getitem__))


# -- the schema --------------------------------------------------------------------------------------


async def test_the_migrations_make_what_the_statements_expect(place: Place) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    async with place.store() as store:
        await store.upgrade()
    with place.engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": False}
        options["include_name"] = lambda name, kind, parents: name != EARLIER_VERSION_TABLE
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        made = {
            index["name"]: index.get("dialect_options", {}).get(f"{connection.dialect.name}_where")
            for table in metadata.tables
            for index in connection.dialect.get_indexes(connection, table)  # type: ignore[attr-defined]
        }
    for table in metadata.sorted_tables:
        for index in table.indexes:
            where = index.dialect_options[place.engine.dialect.name]["where"]
            assert (made[index.name] is None) == (where is None), index.name
            assert where is None or any(word in str(made[index.name]) for word in ("NULL", "'working'")), index.name
    head = ScriptDirectory.from_config(config()).get_current_head()
    assert head is not None and int(head) == VERSION
    assert MIGRATIONS.is_dir()


async def test_a_store_of_a_newer_assentry_is_refused(place: Place) -> None:
    async with place.store() as store:
        await store.upgrade()
    if place.engine.dialect.name == "sqlite":
        place.execute("PRAGMA user_version = 99")
    else:
        place.execute(f"UPDATE {VERSION_TABLE} SET version_num = '0099'")
    async with place.store() as store:
        with pytest.raises(
            StoreFailed, match=f"schema version 99, and this Assentry knows {VERSION}. Restart this process"
        ):
            await store.runs()


def test_many_may_be_the_first_to_use_a_store(place: Place) -> None:
    gate = threading.Barrier(6)

    async def first(number: int) -> int:
        async with place.store() as store:
            gate.wait(60)
            await Script(store, f"r{number}").begin()
            return len((await store.runs()).items)

    assert max(at_once(6, first)) == 6


def test_only_the_stores_module_brings_its_driver() -> None:
    code = (
        "import sys, assentry.store, assentry.store.memory;"
        "print([name for name in ('sqlalchemy', 'sqlite3', 'psycopg', 'alembic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


# -- writing at once ---------------------------------------------------------------------------------


async def test_of_stores_that_append_at_once_one_does(place: Place) -> None:
    async with place.store() as store:
        await Script(store).begin()
    gate = threading.Barrier(8)

    async def write(number: int) -> bool:
        async with place.store() as store:
            script = Script(store)
            for fact in (await store.read("r1")).facts:
                script.change(fact)
            change = script.change(f.Cancelled(f"person {number}"))
            gate.wait(60)
            try:
                await store.append(change)
            except Overtaken:
                return False
            return True

    won = await asyncio.to_thread(at_once, 8, write)
    assert won.count(True) == 1
    async with place.store() as store:
        stored = await store.read("r1")
        assert stored.facts[2:] == [f.Cancelled(f"person {won.index(True)}")]
        assert len(await store.lines("r1")) == 3


async def test_threads_that_claim_at_once_get_each_run_once(place: Place) -> None:
    gate = threading.Barrier(32)
    async with place.store() as one, place.store() as other:
        for number in range(200):
            await Script(one, f"r{number}").begin()

        async def work(number: int) -> list[str]:
            store, taken = (one, other)[number % 2], []
            gate.wait(60)
            while leases := await store.claim(f"w{number}", agents=["helper"], hold=60, limit=3):
                taken += [lease.run for lease in leases]
            return taken

        taken = [run for runs in await asyncio.to_thread(at_once, 32, work) for run in runs]
    assert len(taken) == 200 and len(set(taken)) == 200


async def test_a_lease_that_was_to_hold_for_no_time_does_not_hold_for_ever(place: Place) -> None:
    async with place.store() as store:
        await Script(store).begin(lease=Lease("r1", "w1", 1))
        assert [lease.fence for lease in await store.claim("w2", agents=None, hold=60, limit=9)] == [2]


async def test_a_worker_gets_only_runs_of_its_agents(place: Place) -> None:
    async with place.store() as store:
        for number, agent in enumerate("aabbc"):
            await Script(store, f"r{number}", agent).begin()
            place.clock.advance(1)
        leases = await store.claim("w", agents=["c", "a"], hold=60, limit=2)
        assert [lease.run for lease in leases] == ["r0", "r1"]
        assert [lease.run for lease in await store.claim("w", agents=["c", "a"], hold=60, limit=9)] == ["r4"]
        assert await store.claim("w", agents=[], hold=60, limit=9) == []


# -- damage ------------------------------------------------------------------------------------------

HEAD = "(SELECT substr(head, 1, 32) FROM assentry_runs)"
CHANGE = "UPDATE assentry_journal SET"
DAMAGE = {
    "a changed fact": (f"""{CHANGE} fact = '{{"fact":"resumed","by":"eve"}}' WHERE seq = 3""", "Fact 3"),
    "text that is no JSON": (f"{CHANGE} fact = 'oh' WHERE seq = 2", "Fact 2"),
    "a changed hash": (f"{CHANGE} prev_hash = {HEAD} WHERE seq = 3", "Fact 2"),
    "a changed first hash": (f"{CHANGE} prev_hash = {HEAD} WHERE seq = 1", "Fact 1"),
    "a removed row": ("DELETE FROM assentry_journal WHERE seq = 2", "Fact 2 of run 'r1' is missing"),
    "a removed first row": ("DELETE FROM assentry_journal WHERE seq = 1", "Fact 1"),
    "a removed last row": ("DELETE FROM assentry_journal WHERE seq = 4", "Fact 4 of run 'r1' is missing"),
    "all rows removed": ("DELETE FROM assentry_journal", "Fact 1 of run 'r1' is missing"),
    "an added row": (
        f"INSERT INTO assentry_journal SELECT run, 5, at, fact, {HEAD} FROM assentry_journal WHERE seq = 2",
        "fact 5 was not written by its store",
    ),
    "rows that changed places": (
        f"{CHANGE} seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3)",
        "Fact 1",
    ),
    "a wrong head": (
        "UPDATE assentry_runs SET head = (SELECT prev_hash FROM assentry_journal WHERE seq = 2)",
        "The head",
    ),
    "a changed time": ("UPDATE assentry_journal SET at = at + 1 WHERE seq = 2", "The times of the facts"),
    "a last row that is gone, and its number": (
        "DELETE FROM assentry_journal WHERE seq = 4; UPDATE assentry_runs SET seq = 3",
        "Fact 3",
    ),
    "an erasure that was none": ("UPDATE assentry_runs SET erased = 1", "is marked as erased, and was not"),
    "a number that is none": ("UPDATE assentry_runs SET erased = 'now'", "The record of run 'r1' is damaged"),
}


@pytest.mark.parametrize("kind", DAMAGE)
async def test_damage_is_noticed_and_named(place: Place, kind: str) -> None:
    statement, named = DAMAGE[kind]
    async with place.store() as store:
        await waiting(store)
        if "'now'" in statement and place.engine.dialect.name != "sqlite":
            pytest.skip("its columns have types")
        for each in statement.split("; "):
            place.execute(each)
        place.execute("UPDATE assentry_journal SET seq = -seq WHERE seq < 0")
        for work in (store.read, store.lines):
            with pytest.raises(UnreadableState, match="'r1'") as error:
                await work("r1")
            assert named in str(error.value)


async def test_a_row_that_only_looks_erased_is_damaged(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        [[fact]] = place.execute("SELECT fact FROM assentry_journal WHERE seq = 4")
        place.execute("UPDATE assentry_journal SET fact = :fact WHERE seq = 4", fact=redacted(fact.encode()).decode())
        with pytest.raises(UnreadableState, match="Fact 4 of run 'r1'"):
            await store.read("r1")


async def test_a_payload_that_is_gone_or_changed_is_noticed_and_named(place: Place) -> None:
    async with place.store() as store:
        await Script(store).write(f.Began("helper", 10, "r1"), f.Said(js("x" * 2 * LARGE)))
        assert len(bytes((await store.read("r1")).facts[1].items)) == 2 * LARGE + 2
        for statement, why in (
            ("UPDATE assentry_blobs SET body = hash", "is not what was written"),
            ("DELETE FROM assentry_blobs", "is not there"),
        ):
            place.execute(statement)
            with pytest.raises(UnreadableState, match=f"Fact 2 of run 'r1' .*{why}"):
                await store.read("r1")


async def test_the_end_of_a_run_can_be_read_alone(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        facts = (await store.read("r1")).facts
        for after in range(6):
            assert (await store.read("r1", after)).facts == facts[after:]


# -- making the records anew -------------------------------------------------------------------------


async def _busy(store: Store) -> None:
    """Runs with all that a record can have."""
    script = await Script(store, "r1").begin(context=SavedContext(b'{"a":1}', "dict"), definitions={"d" * 32: b"{}"})
    await script.write(replied("c1"), asked("c1", "q1", prompt=js({"a": 1}), until=5000))
    grant = f.Granted("g1", "helper", "send", "approve", "ann", pins=js({"to": "ann"}), max_uses=2, until=9000)
    await script.write(f.Approved("c1", "ann", "q1"), grant, f.Started("c1"), f.Finished("c1", js("x" * 2 * LARGE)))
    await script.write(replied("c2"), f.Approved("c2", "grant:g1"), f.Revoked("g1", "eve"))
    await waiting(store, "r2")
    await ended(store, "r3")


async def test_records_made_anew_are_what_they_were(place: Place) -> None:
    async with place.store() as store:
        await _busy(store)
        before = place.tables()
        place.clock.advance(60)
        assert await store.rebuild() == 3
        assert place.tables() == before


async def test_records_that_were_lost_are_made_anew(place: Place) -> None:
    async with place.store() as store:
        await _busy(store)
        lease = await store.take("r2", "w", seq=4, hold=60)
        before = {name: place.tables()[name] for name in ("assentry_questions", "assentry_grants")}
        records = (await store.runs()).items
        for table in ("runs", "questions", "grants"):
            place.execute(f"DELETE FROM assentry_{table}")
        assert await store.rebuild() == 3
        assert {name: place.tables()[name] for name in before} == before
        for record in records:
            record.worker = record.until = None
        assert (await store.runs()).items == records
        assert (await store.read("r1")).context == SavedContext(b'{"a":1}', "dict")
        assert (await store.take("r2", "w", seq=4, hold=60)).fence > lease.fence


async def test_a_run_that_is_damaged_is_not_made_anew_and_the_others_are(place: Place) -> None:
    async with place.store() as store:
        await _busy(store)
        place.execute(
            "UPDATE assentry_journal SET fact = 'oh' WHERE seq = 4 AND run = (SELECT min(run) FROM assentry_journal)"
        )
        place.execute("DELETE FROM assentry_questions")
        with pytest.raises(UnreadableState, match=r"2 of 3 runs were made anew. Fact 4 of run 'r1'"):
            await store.rebuild()
        assert [question.id for question in (await store.questions()).items] == ["q_r2"]


# -- erasing and deleting ----------------------------------------------------------------------------


async def test_an_erased_run_holds_and_takes_nothing_more(place: Place) -> None:
    async with place.store() as store:
        script = await ended(store)
        await store.erase("r1")
        assert len(await store.lines("r1")) == 4
        with pytest.raises(RunFinished, match="erased"):
            await script.write(f.Said(js("more")))
        place.execute("UPDATE assentry_journal SET prev_hash = (SELECT head FROM assentry_runs) WHERE seq = 1")
        with pytest.raises(UnreadableState, match="Fact 1"):
            await store.lines("r1")


async def test_a_run_that_goes_on_is_not_erased(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        with pytest.raises(Conflict, match="'r1' is not over, it is waiting"):
            await store.erase("r1")


async def test_purging_leaves_no_row(place: Place) -> None:
    async with place.store() as store:
        for number in range(3):
            script = await Script(store, f"r{number}").begin(context=SavedContext(b"{}", "dict"))
            await script.write(replied("c1"), asked("c1", f"q{number}"))
            await script.write(f.Refused("c1", "ann", f"q{number}"), f.Granted("g", "helper", "send", "approve", "ann"))
            await script.write(f.Told("c1"), f.Said(js("x" * 2 * LARGE)), f.Closed("enough"))
        place.clock.advance(10)
        assert await store.purge(unchanged_for=10) == 3
        assert all(rows == [] for rows in place.tables().values())
        with pytest.raises(UsageError, match="a list of statuses"):
            await store.purge(unchanged_for=10, statuses="done")


# -- lists -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["", "x", "[1]", '["a","b"]', '[-1,"a"]', f'[{2**70},"a"]', "\ud800"])
async def test_a_page_that_follows_nothing_is_refused(place: Place, after: str) -> None:
    async with place.store() as store:
        for work in (store.questions, store.runs, store.grants):
            with pytest.raises(UsageError, match=r"`next` of the page before"):
                await work(after=after)


async def test_text_that_no_database_holds_is_not_found(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        for strange in ("\ud800", "a\0b"):
            assert (await store.questions(tool=strange)).items == []
            assert await store.definition(strange * 8) is None
            for work in (store.read, store.question, store.lines, store.erase):
                with pytest.raises(Exception, match="The store has no"):
                    await work(strange)


async def test_zeros_in_what_is_said_are_kept_in_the_facts(place: Place) -> None:
    async with place.store() as store:
        script = await Script(store).begin()
        await script.write(replied("c1"), asked("c1", "q1", why="a\0b"))
        await store.claim("w", agents=None, hold=60, limit=1)
        stored = await store.read("r1")
        assert stored.facts[3].why == "a\0b"
        assert (await store.question("q1")).reason.startswith("a")


# -- waiting -----------------------------------------------------------------------------------------


async def _woken(place: Place, wake: Callable[[Store], Awaitable[Any]]) -> None:
    async with place.store() as waiter, place.store() as other:
        await other.upgrade()
        if place.engine.dialect.name == "postgresql":
            await asyncio.wait_for(waiter.wait(600), 60)  # once, when it has begun to listen
        waits = asyncio.ensure_future(waiter.wait(600))
        await asyncio.sleep(0)
        assert waiter._wakeup._waiting
        await wake(other)
        await asyncio.wait_for(waits, 60)


async def test_a_run_that_is_written_elsewhere_wakes_who_waits(place: Place) -> None:
    await _woken(place, lambda store: Script(store).begin())


async def test_a_lease_that_is_given_back_elsewhere_wakes_who_waits(place: Place) -> None:
    async with place.store() as store:
        script = await Script(store).begin()
        lease = await store.take("r1", "w", seq=script.seq, hold=60)
    await _woken(place, lambda store: store.release(lease))


async def test_a_run_that_is_written_between_looking_and_waiting_is_not_missed(place: Place) -> None:
    async with place.store() as store:
        assert await store.claim("w", agents=None, hold=60, limit=1) == []
        await Script(store).begin()
        await asyncio.wait_for(store.wait(600), 60)


async def test_a_run_that_is_driven_wakes_nobody(place: Place) -> None:
    async with place.store() as store:
        script = await Script(store).begin()
        lease = await store.take("r1", "w", seq=script.seq, hold=60)
        rung = store._wakeup._rung
        await script.write(f.Said(js("more")), lease=lease, hold=60)
        assert store._wakeup._rung == rung
        await script.write(f.Said(js("more")), lease=lease, release=True)
        assert store._wakeup._rung == rung + 1


async def test_a_store_that_is_closed_says_so(place: Place) -> None:
    async with place.store() as store:
        await store.runs()
    with pytest.raises(StoreFailed, match=r"was closed. Make a new one"):
        await store.runs()
    with pytest.raises(StoreFailed, match=r"was closed. Make a new one"):
        await store.wait(1)


async def test_a_store_can_be_used_from_one_loop_after_another(place: Place) -> None:
    store: Any = place._make(clock=place.clock)
    await asyncio.to_thread(asyncio.run, Script(store).begin())
    assert len((await store.read("r1")).facts) == 2
    await asyncio.to_thread(asyncio.run, store.close())
