"""The store in a Postgres database: what can happen to a server and its connections, and what is then said."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from assentry.core import facts as f
from assentry.errors import StoreFailed, UsageError
from assentry.sql.pool import Pool
from assentry.store import PostgresStore
from assentry.store.sql import postgres_server as inside
from assentry.store.sql.schema import VERSION
from assentry.store.sql.statement import Transaction
from tests.store.postgres import NotStarted, Server
from tests.store.postgres import server as start
from tests.store.support import Script, asked, js, replied, waiting


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


@asynccontextmanager
async def made(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(url, upgrade=True, **options) as store:
        yield store


def cut(url: str) -> int:
    """End all connections of this place but one's own, and wait until they are gone; how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND usename = current_user"
        ).fetchone()
        assert row is not None
        return int(row[0])


# -- addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [None, "", 7, "postgresql://[", "nonsense", "host=a nonsense=b"])
def test_an_address_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(UsageError, match="address"):
        PostgresStore(url)


@pytest.mark.parametrize("size", [0, True, 2.5, None])
def test_a_pool_has_a_size(size: Any) -> None:
    with pytest.raises(UsageError, match="pool_size"):
        PostgresStore("postgresql://localhost/a", pool_size=size)


async def test_an_address_may_be_written_in_several_ways(url: str) -> None:
    rest = url.partition("://")[2]
    async with made(url) as store:
        await Script(store).begin()
    for address in (f"postgres://{rest}", f"postgresql+psycopg://{rest}", psycopg.conninfo.make_conninfo(url)):
        async with PostgresStore(address) as store:
            assert len((await store.runs()).items) == 1


async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    async with PostgresStore("postgresql://ann:geheim@127.0.0.1:1/shop") as store:
        with pytest.raises(StoreFailed, match=r"shop on 127.0.0.1: it cannot be reached. See that") as error:
            await store.runs()
        assert "geheim" not in str(error.value) + repr(store)
        assert error.value.unknown is False


# -- the tables --------------------------------------------------------------------------------------


async def test_tables_that_are_missing_are_not_made_unasked(url: str) -> None:
    async with PostgresStore(url) as store:
        with pytest.raises(StoreFailed, match=r"no tables for a store. Run `assentry db upgrade`"):
            await store.runs()
        await store.upgrade()
        assert (await store.runs()).items == []
        await store.upgrade()


async def test_tables_that_are_older_are_not_touched_unasked(url: str) -> None:
    async with made(url) as store:
        await store.runs()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE assentry_version SET version_num = '0000'")
    async with PostgresStore(url) as store:
        with pytest.raises(
            StoreFailed, match=f"version 0, and this Assentry needs {VERSION}. Run `assentry db upgrade`"
        ):
            await store.runs()


async def test_a_database_of_another_encoding_is_refused(postgres: Server) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    async with PostgresStore(postgres.url.replace("/postgres?", "/latin?")) as store:
        with pytest.raises(StoreFailed, match=r"its encoding is LATIN1. Make a database whose encoding is UTF8"):
            await store.runs()


async def test_what_is_written_outlives_the_server_whatever_its_settings(url: str) -> None:
    careless = url.replace("options=", "options=-csynchronous_commit%3Doff%20")
    async with made(careless) as store:
        row = await store._read(
            lambda transaction: transaction.connection.execute("SHOW synchronous_commit").fetchone()
        )
        assert row == ("on",)


async def test_a_user_who_may_not_write_is_told(url: str, postgres: Server) -> None:
    async with made(url) as store:
        await Script(store).begin()
    async with PostgresStore(url.replace("options=", "options=-cdefault_transaction_read_only%3Don%20")) as store:
        assert len((await store.runs()).items) == 1
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
        row = connection.execute("SELECT current_schema()").fetchone()
        assert row is not None
        connection.execute(f"GRANT USAGE ON SCHEMA {row[0]} TO guest")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {row[0]} TO guest")
    async with PostgresStore(url.replace("assentry@", "guest@")) as store:
        assert len((await store.runs()).items) == 1
        with pytest.raises(StoreFailed, match="this user may not do that"):
            await store.claim("w", agents=None, hold=1, limit=1)


# -- connections -------------------------------------------------------------------------------------


async def test_connections_that_were_cut_between_calls_are_made_anew(url: str) -> None:
    async with made(url) as store:
        script = await Script(store).begin()
        await asyncio.gather(*(store.runs() for _ in range(5)))
        assert cut(url) >= 1
        await script.ask()
        assert cut(url) >= 1
        assert len((await store.read("r1")).facts) == 4


def _interrupt(monkeypatch: pytest.MonkeyPatch, at: str, act: Callable[[], object]) -> None:
    """Do this once, just before a transaction comes to this."""
    execute, pending = psycopg.Connection.execute, [act]

    def interrupted(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        if pending and isinstance(query, str) and query.startswith(at):
            pending.pop()()
        return execute(self, query, *args, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", interrupted)


GRANT = f.Granted("g1", "helper", "send", "approve", "ann")
"""What is never written by one statement."""


@pytest.mark.parametrize("at", ["BEGIN", "SELECT assentry_runs.id", "UPDATE assentry_runs"])
async def test_a_connection_that_is_cut_before_the_commit_loses_and_doubles_nothing(
    url: str, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store:
        script = await Script(store).begin()
        _interrupt(monkeypatch, at, lambda: cut(url))
        await script.write(replied("c1"), asked("c1", "q1"), GRANT)
        assert len(await store.lines("r1")) == 5
        assert len((await store.questions()).items) == 1


async def test_a_connection_that_is_cut_at_the_commit_says_that_it_is_not_known(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store:
        script = await Script(store).begin()
        change = script.change(f.Cancelled("ann"), GRANT)
        _interrupt(monkeypatch, "COMMIT", lambda: cut(url))
        with pytest.raises(StoreFailed, match="not known whether the change was written") as error:
            await store.append(change)
        assert error.value.unknown is True
        assert len((await store.read("r1")).facts) == 2
        await store.append(change)
        assert len((await store.read("r1")).facts) == 4


async def test_a_reply_to_a_commit_that_is_lost_is_written_all_the_same(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = psycopg.Connection.execute

    def lost(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        done = execute(self, query, *args, **more)
        if query == "COMMIT":
            monkeypatch.setattr(psycopg.Connection, "execute", execute)
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return done

    async with made(url) as store:
        script = await Script(store).begin()
        monkeypatch.setattr(psycopg.Connection, "execute", lost)
        with pytest.raises(StoreFailed) as error:
            await script.write(f.Cancelled("ann"), GRANT)
        assert error.value.unknown is True
        assert len((await store.read("r1")).facts) == 4


async def test_transactions_that_stand_in_each_others_way_are_both_done(url: str) -> None:
    gate = threading.Barrier(2)

    def crossing(first: str, second: str) -> Callable[[Transaction], None]:
        tries = []

        def work(transaction: Transaction) -> None:
            text = "UPDATE assentry_runs SET failures = failures + 1 WHERE run = %s"
            transaction.connection.execute(text, (first,))
            if not tries:
                tries.append(1)
                gate.wait(60)
            transaction.connection.execute(text, (second,))

        return work

    async with made(url) as store:
        await Script(store, "r1").begin()
        await Script(store, "r2").begin()
        await asyncio.gather(store._write(crossing("r1", "r2")), store._write(crossing("r2", "r1")))
        assert [run.failures for run in (await store.runs()).items] == [2, 2]


async def test_a_server_that_is_restarted_is_found_again() -> None:
    try:
        with start() as own:  # one of its own: others have theirs open
            url = own.database()
            async with made(url) as store, made(url) as waiter:
                script = await waiting(store)
                await asyncio.wait_for(waiter.wait(600), 60)
                waits = asyncio.ensure_future(waiter.wait(600))
                await asyncio.sleep(0)
                await asyncio.to_thread(own.stop)
                with pytest.raises(StoreFailed, match=r"Nothing was written") as error:
                    await script.write(f.Cancelled("ann"))
                assert error.value.unknown is False
                await asyncio.to_thread(own.start)
                assert len((await store.read("r1")).facts) == 4
                assert (await store.question("q_r1")).verdict is None
                await Script(store, "r2").begin()
                await asyncio.wait_for(waits, 60)
    except NotStarted as error:
        pytest.skip(f"no Postgres: {error}")


async def _begin(store: PostgresStore, run_id: str) -> set[str]:
    await Script(store, run_id).begin()
    return {run.id for run in (await store.runs()).items}


async def test_what_is_under_way_while_another_connection_is_lost_is_done(url: str) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def long(transaction: Transaction) -> int:
        entered.set()
        assert go_on.wait(60)
        return 7

    async with made(url) as store:
        script = await Script(store).begin()
        reading = asyncio.ensure_future(store._read(long))
        await asyncio.to_thread(entered.wait, 60)
        store._server._pool.give_up()  # as it is when a connection is lost
        await script.ask()
        go_on.set()
        assert await reading == 7
        assert len((await store.read("r1")).facts) == 4


async def test_a_server_that_comes_back_older_is_given_the_definitions_that_it_lacks(url: str) -> None:
    known = {"mail": b"{}"}
    async with made(url) as store:
        await Script(store).begin(definitions=known)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DELETE FROM assentry_definitions")  # as in a copy from before that
        assert cut(url) > 0
        await store.runs()
        await Script(store, "r2").begin(definitions=known)
        assert await store.definition("mail") == b"{}"


# -- the clock ---------------------------------------------------------------------------------------


async def test_the_clock_is_the_servers(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with made(url) as store:
        with psycopg.connect(url) as connection:
            [[before]] = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
            now = store.clock()
            [[after]] = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
        assert before - 0.001 <= now <= after + 1
        monkeypatch.setattr(inside, "time", SimpleNamespace(monotonic=time.monotonic, time=lambda: 0.0))  # ours jumps
        assert abs(store.clock() - now) < 60
        assert store._server.clock.stale


async def test_the_clock_is_read_again_after_a_while(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with made(url) as store:
        store._server.clock.set(5.0)
        assert 5 <= store.clock() < 60
        later = time.monotonic() + inside.FRESH + 1
        monkeypatch.setattr(inside, "time", SimpleNamespace(monotonic=lambda: later, time=time.time))
        await store.runs()
        assert store.clock() > 1_000_000_000


def test_the_clock_does_not_jump_while_another_thread_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = inside.Clock(), [1000.0]
    ours = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr(inside, "time", ours)
    clock.set(5000.0)

    def set_meanwhile() -> float:
        now[0] = 1070.0
        ours.monotonic = lambda: now[0]
        clock.set(5070.0)
        return now[0]

    ours.monotonic = set_meanwhile
    assert clock.read() == 5070.0


async def test_a_clock_that_was_never_read_asks_the_server() -> None:
    async with PostgresStore("postgresql://ann@127.0.0.1:1/shop") as store:
        with pytest.raises(StoreFailed, match="cannot be reached"):
            store.clock()


async def test_the_server_is_asked_for_the_time_where_nobody_waits_for_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store:
        asked_on: list[str] = []
        read = store._server._read_clock

        def noted(connection: Any) -> None:
            asked_on.append(threading.current_thread().name)
            read(connection)

        monkeypatch.setattr(store._server, "_read_clock", noted)
        assert await store.claim("w", agents=None, hold=5, limit=1) == []
    async with made(url) as store:
        monkeypatch.setattr(store._server, "_read_clock", lambda connection: noted(connection))
        read = inside.StoreServer._read_clock.__get__(store._server)
        await store.open()
        assert store.clock() > 1_000_000_000
        await store.open()
    assert asked_on == ["assentry-store", "assentry-store"]


# -- the pool ----------------------------------------------------------------------------------------


class Idle:
    """A connection that is only ever closed."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def _pool(size: int) -> tuple[Pool, list[Any]]:
    made: list[Any] = []

    def connect() -> Any:
        made.append(Idle())
        return made[-1]

    return Pool(size, connect), made


def test_a_pool_has_no_more_connections_than_it_is_to_have() -> None:
    pool, made = _pool(2)
    one, other = pool.take(), pool.take()
    found: list[Any] = []
    waiting = [threading.Thread(target=lambda: found.append(pool.take())) for _ in range(2)]
    for thread in waiting:
        thread.start()
    pool.give(one)
    pool.give(other)
    for thread in waiting:
        thread.join(60)
    assert {id(link) for link in found} == {id(one), id(other)} and len(made) == 2


def test_a_pool_uses_what_was_used_last_and_closes_what_was_given_up() -> None:
    pool, made = _pool(3)
    one, other = pool.take(), pool.take()
    pool.give(one)
    pool.give(other)
    assert pool.take() is other
    pool.give_up()
    assert [connection.closed for connection in made] == [True, False]
    pool.give(other)
    assert [connection.closed for connection in made] == [True, True]
    assert pool.take().connection is made[2]


def test_a_connection_that_cannot_be_made_leaves_its_place_to_others() -> None:
    def connect() -> Any:
        raise psycopg.OperationalError("no")

    pool = Pool(1, connect)
    for _ in range(3):
        with pytest.raises(psycopg.OperationalError):
            pool.take()


# -- bytes -------------------------------------------------------------------------------------------


def _files(postgres: Server, url: str) -> bytes:
    """All that the files of the tables hold now."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        paths = connection.execute(
            "SELECT pg_relation_filepath(c.oid) FROM pg_class c LEFT JOIN pg_class t ON t.reltoastrelid = c.oid"
            " WHERE coalesce(t.relnamespace, c.relnamespace) = current_schema()::regnamespace"
            " AND c.relkind IN ('r', 't')"
        ).fetchall()
    return b"".join((postgres.folder / "data" / path).read_bytes() for (path,) in paths)


async def test_vacuum_takes_what_was_erased_out_of_the_tables(postgres: Server) -> None:
    url, secret = postgres.database(), "a secret that nobody may keep"
    async with made(url) as store:
        script = await Script(store).begin()
        await script.write(f.Said(js(secret)))
        await script.end()
        await store.erase("r1")
        assert secret.encode() in _files(postgres, url)
        await store.vacuum()
        assert secret.encode() not in _files(postgres, url)
        assert await store.verify("r1") == []
