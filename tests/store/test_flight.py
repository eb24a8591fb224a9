"""Statements that an event loop waits for itself: whoever waits may go, and so may the loop, the server and the store;
no statement is ever given another's answer."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from assent.core import facts as f
from assent.errors import Overtaken, StoreFailed
from assent.runtime.blocking import block
from assent.store import PostgresStore, SavedContext
from assent.store.packing import LARGE
from assent.store.sql import pool as pooling
from assent.store.sql import postgres_append as appending
from assent.store.sql import server as inside
from assent.store.sql.flight import Flight
from assent.store.sql.lane import Lane
from assent.store.sql.pool import Link, Pool
from tests.store.postgres import Server
from tests.store.support import Script, at_once, js, waiting
from tests.store.test_at_once import Stepwise, _blocked, behind
from tests.store.test_postgres import Idle, made

MORE = f.Said(js("more"))


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> list[Flight]:
    """The statements that an event loop has sent."""
    sent: list[Flight] = []
    start = Flight.start

    def noted(self: Flight, given: Any) -> None:
        sent.append(self)
        start(self, given)

    monkeypatch.setattr(Flight, "start", noted)
    return sent


async def known(store: PostgresStore, run_id: str = "r1") -> Script:
    """A run of five facts, and a connection that knows what is needed to go on with it."""
    script = await Script(store, run_id).begin()
    for _ in range(3):
        await script.write(MORE)
    await store.read(run_id)
    return script


@contextmanager
def held(url: str, text: str = "SELECT FROM assent_runs FOR UPDATE") -> Iterator[psycopg.Connection[Any]]:
    """A transaction that did this, and stands in the way of others until it is committed."""
    with psycopg.connect(url) as holder:
        holder.execute(text)
        yield holder


async def under_way(work: Any, url: str, holder: psycopg.Connection[Any]) -> asyncio.Task[Any]:
    """Begin this, which is to wait for whoever holds what it needs."""
    task = asyncio.ensure_future(work)
    await asyncio.to_thread(_blocked, url, holder.info.backend_pid)
    return task


@contextmanager
def all_but_one(store: PostgresStore) -> Iterator[None]:
    """Leave the store with the one connection that is in use."""
    link = store._server._pool.take()
    yield
    store._server._pool.give(link)


def end(url: str, which: str = "usename = current_user") -> None:
    """End the connections of this place of which this is true, and wait until they are gone."""
    with behind(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity"
            f" WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND {which}"
        )


def count(url: str) -> int:
    """How many facts are stored."""
    with behind(url) as connection:
        [[found]] = connection.execute("SELECT count(*) FROM assent_journal").fetchall()
        return int(found)


BLOCKED = "cardinality(pg_blocking_pids(pid)) > 0"


# -- on the loop, and on the lane ------------------------------------------------------------------------


async def test_ordinary_changes_and_reads_need_no_thread(
    url: str, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store:
        script = await known(store)
        await store.newest("t")
        before = len(flights)

        def none(self: Lane, work: Any) -> Any:
            raise AssertionError("a thread was asked")

        with monkeypatch.context() as patch:
            patch.setattr(Lane, "do", none)
            await script.write(MORE)
            assert len((await store.read("r1")).facts) == script.seq
            assert await store.newest("t") is None
        assert len(flights) == before + 3
        assert store._server._pool.flights == set()


async def test_a_loop_that_cannot_watch_sockets_has_it_done_by_the_lane(
    url: str, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*given: Any) -> None:
        raise NotImplementedError

    async with made(url, pool_size=2) as store:
        script = await known(store)
        flights.clear()
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "add_reader", cannot)
            await script.write(MORE)
            assert len((await store.read("r1")).facts) == script.seq
        assert flights == []


@pytest.mark.parametrize("moment", ["the clock is stale", "a connection has rested", "nothing is idle"])
async def test_what_is_to_be_waited_for_first_is_waited_for_on_the_lane(
    url: str, flights: list[Flight], moment: str
) -> None:
    async with made(url, pool_size=2) as store:
        script, server = await known(store), store._server
        flights.clear()
        if moment == "the clock is stale":
            server.clock._monotonic -= inside.FRESH + 1
        elif moment == "a connection has rested":
            server._pool._idle[0].used -= pooling.REST + 1
        else:
            server._pool.give_up()
        await script.write(MORE)
        assert flights == []
        await script.write(MORE)
        assert len(flights) == 1
        assert len((await store.read("r1")).facts) == script.seq


async def test_what_takes_long_is_not_done_on_the_loop(
    url: str, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store, Stepwise(url) as other:
        script = await known(store)
        flights.clear()
        await script.write(*[MORE] * 501)
        assert flights == []
        on: list[str] = []
        at_once = inside.PostgresTransaction.at_once

        def noted(self: Any, *given: Any) -> Any:
            on.append(threading.current_thread().name)
            return at_once(self, *given)

        monkeypatch.setattr(inside.PostgresTransaction, "at_once", noted)
        assert await store.read("r1") == await other.read("r1")
        assert len(flights) == 1 and on == ["assent-store"]
        large = f.Said(js("x" * appending.LIGHT))
        await script.write(large)
        flights.clear()
        await script.write(large)
        assert flights == []


async def test_a_long_run_whose_connection_is_lost_while_it_is_made_out_is_read_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store, Stepwise(url) as other:
        script = await known(store)
        await script.write(f.Said(js("x" * 2 * LARGE)))
        await other.read("r1")
        monkeypatch.setattr(inside, "FEW", 3)
        at_once = inside.PostgresTransaction.at_once

        def lost(self: Any, *given: Any) -> Any:
            monkeypatch.setattr(inside.PostgresTransaction, "at_once", at_once)
            end(url)
            return at_once(self, *given)

        monkeypatch.setattr(inside.PostgresTransaction, "at_once", lost)
        stored = await store.read("r1")
        assert stored == await other.read("r1")


async def test_a_payload_that_is_kept_apart_is_read_on_the_loop_too(url: str, flights: list[Flight]) -> None:
    async with made(url) as store, Stepwise(url) as other:
        script = await known(store)
        await script.write(f.Said(js("x" * 2 * LARGE)))
        await store.read("r1")
        flights.clear()
        assert await store.read("r1") == await other.read("r1")
        assert len(flights) == 2


async def test_values_that_do_not_fit_the_socket_are_sent_and_read_piece_by_piece(
    url: str, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[bool] = []
    watch = Flight._watch_for_room

    def noted(self: Flight, sending: bool) -> None:
        rounds.append(sending)
        watch(self, sending)

    monkeypatch.setattr(Flight, "_watch_for_room", noted)
    monkeypatch.setattr(appending, "LIGHT", 2**30)
    large, context = f.Said(js("x" * 5_000_000)), SavedContext(b"y" * 5_000_000, "dict")
    async with made(url) as store, Stepwise(url) as other:
        script = await known(store)
        await script.write(f.Said(js("x" * 2 * LARGE)), context=SavedContext(b"{}", "dict"))
        await store.read("r1")
        flights.clear()
        work = [script.write(large, context=context), *(store.read("r1", 5) for _ in range(3))]
        await asyncio.wait_for(asyncio.gather(*work), 60)
        assert rounds == [True, False]
        stored = await store.read("r1")
        assert stored == await other.read("r1")
        assert stored.facts[-1] == large and stored.context == context
        assert len(flights) >= 3


async def test_many_who_wait_for_few_connections_are_all_served(url: str) -> None:
    async with made(url, pool_size=2) as store:
        scripts = [await known(store, f"r{number}") for number in range(4)]

        async def work(script: Script) -> int:
            for _ in range(10):
                await script.write(MORE)
                await store.runs(limit=1)
            return len((await store.read(script.id)).facts)

        assert await asyncio.wait_for(asyncio.gather(*map(work, scripts)), 60) == [15] * 4


def test_those_who_wait_for_a_connection_come_before_those_who_do_not() -> None:
    pool = Pool(2, lambda: Idle())  # type: ignore[arg-type,return-value]
    one, two, taken, done = pool.take(), pool.take(), threading.Event(), threading.Event()

    def wait() -> None:
        link = pool.take()
        taken.set()
        done.wait(30)
        pool.give(link)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while not pool._waiting:
        done.wait(0)
    pool.give(one)
    assert pool.spare() is None
    assert taken.wait(30)
    done.set()
    thread.join(30)
    pool.give(two)
    assert pool.spare() is two
    assert pool.spare() is None, "the last is left for those who can wait"
    assert pool.take() is one


# -- whoever waits goes --------------------------------------------------------------------------------


async def test_a_change_that_nobody_waits_for_any_more_is_written_and_confuses_nobody(
    url: str, flights: list[Flight]
) -> None:
    async with made(url, pool_size=2) as store:
        script = await known(store)
        flights.clear()
        with held(url) as holder:
            task = await under_way(script.write(MORE), url, holder)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            reading = [asyncio.ensure_future(store.read("r1", 4)), asyncio.ensure_future(store.newest("t"))]
            holder.commit()
        assert len(flights) == 1
        assert len((await asyncio.wait_for(reading[0], 30)).facts) == 2
        assert await asyncio.wait_for(reading[1], 30) is None
        assert count(url) == script.seq == 6


async def test_what_is_not_wholly_sent_when_whoever_waits_goes_is_sent_to_its_end(
    url: str, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "LIGHT", 2**30)
    async with made(url, pool_size=2) as store:
        script = await known(store)
        await script.write(f.Said(js("x" * 2 * LARGE)))
        flights.clear()
        task = asyncio.ensure_future(script.write(f.Said(js("x" * 20_000_000))))
        await asyncio.sleep(0)
        assert flights[0]._sending
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for thread in threading.enumerate():
            if thread.name == "assent-store-finish":
                await asyncio.to_thread(thread.join, 30)
        await script.write(MORE)
        assert len((await store.read("r1")).facts) == script.seq == 8


@pytest.mark.parametrize("moment", ["just before", "just after"])
async def test_whoever_goes_when_the_answer_comes_leaves_nothing_behind(
    url: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Flight._end

    def cancelled(self: Flight, *given: Any) -> None:
        monkeypatch.setattr(Flight, "_end", real)
        if moment == "just before":
            task.cancel()
        real(self, *given)
        task.cancel()

    wrong: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
    async with made(url, pool_size=2) as store:
        script = await known(store)
        monkeypatch.setattr(Flight, "_end", cancelled)
        task = asyncio.ensure_future(script.write(MORE))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(store._server._pool._idle) == 1 and wrong == []
        await script.write(MORE)
        assert len((await store.read("r1")).facts) == script.seq == 7


def test_a_loop_that_ends_while_it_waits_leaves_a_connection_that_others_can_use(
    url: str, flights: list[Flight]
) -> None:
    store = PostgresStore(url, upgrade=True, pool_size=2)
    script = asyncio.run(known(store))
    flights.clear()
    with held(url) as holder:

        async def begin() -> None:
            await under_way(script.write(MORE), url, holder)

        asyncio.run(begin())
        holder.commit()
    assert len(flights) == 1
    with all_but_one(store):
        assert len(asyncio.run(asyncio.wait_for(store.read("r1"), 30)).facts) == script.seq == 6
    asyncio.run(store.close())


def test_a_loop_that_is_closed_and_forgets_what_it_waits_for_does_not_keep_the_connection(
    url: str, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "GLANCE", 0.01)
    store = PostgresStore(url, upgrade=True, pool_size=2)
    script = asyncio.run(known(store))
    flights.clear()
    with held(url) as holder:
        loop = asyncio.new_event_loop()
        task = loop.run_until_complete(under_way(script.write(MORE), url, holder))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        holder.commit()
    assert len(flights) == 1
    with all_but_one(store):
        assert len(asyncio.run(asyncio.wait_for(store.read("r1"), 30)).facts) == script.seq == 6
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    asyncio.run(store.close())


async def test_where_no_thread_is_to_be_had_a_connection_that_was_left_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if self.name == "assent-store-finish":
            raise RuntimeError("can't start new thread")
        start(self)

    async with made(url, pool_size=2) as store:
        script = await known(store)
        with held(url) as holder:
            task = await under_way(script.write(MORE), url, holder)
            monkeypatch.setattr(threading.Thread, "start", refused)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len((await asyncio.wait_for(store.read("r1"), 30)).facts) == 5
            holder.commit()
        assert len((await store.read("r1")).facts) >= 5


def test_several_loops_share_a_store_and_each_has_its_own_answers(url: str, flights: list[Flight]) -> None:
    store = PostgresStore(url, upgrade=True, pool_size=2)
    asyncio.run(known(store, "r"))
    gate = threading.Barrier(3)

    async def work(number: int) -> list[int]:
        gate.wait(30)
        script = await Script(store, f"r{number}").begin()
        found = []
        for _ in range(30):
            await script.write(f.Said(js(number)))
            stored = await store.read(script.id, script.seq - 1)
            assert stored.record.id == script.id and stored.facts == [f.Said(js(number))]
            found.append(stored.record.seq)
        return found

    assert at_once(3, work) == [list(range(3, 33))] * 3
    assert flights
    asyncio.run(store.close())


# -- the store is closed -------------------------------------------------------------------------------


async def test_what_is_under_way_when_a_store_is_closed_is_done(url: str, flights: list[Flight]) -> None:
    async with made(url) as store:
        script = await known(store)
        flights.clear()
        with held(url) as holder:
            task = await under_way(script.write(MORE), url, holder)
            await store.close()
            holder.commit()
            await asyncio.wait_for(task, 30)
        assert len(flights) == 1 and count(url) == 6
        assert flights[0]._link.connection.closed and store._server._pool._idle == []


async def test_what_would_need_a_thread_of_a_store_that_was_closed_says_so(url: str) -> None:
    async with made(url) as store:
        script = await known(store)
        with held(url, "UPDATE assent_runs SET seq = seq + 1") as holder:
            task = await under_way(script.write(MORE), url, holder)
            await store.close()
            holder.commit()
            with pytest.raises(StoreFailed, match="was closed") as error:
                await asyncio.wait_for(task, 30)
            assert error.value.unknown is False
        assert count(url) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_sends_nothing_on_its_parents_connections(url: str, flights: list[Flight]) -> None:
    store = PostgresStore(url, upgrade=True, pool_size=2)
    asyncio.run(known(store))
    flights.clear()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(asyncio.wait_for(store.read("r1"), 20))
            code = 0 if flights == [] else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(asyncio.run(store.read("r1")).facts) == 5
    asyncio.run(store.close())


# -- the server goes -----------------------------------------------------------------------------------


async def test_a_connection_that_is_lost_while_it_rests_is_noticed_before_anything_is_sent(
    url: str, flights: list[Flight]
) -> None:
    async with made(url) as store:
        script = await known(store)
        flights.clear()
        end(url)
        await script.write(MORE)
        assert flights == []
        assert count(url) == script.seq == 6


async def test_a_connection_that_is_lost_after_a_change_was_sent_says_that_it_is_not_known(
    url: str, flights: list[Flight]
) -> None:
    async with made(url) as store:
        script = await known(store)
        flights.clear()
        change = script.change(MORE)
        with held(url) as holder:
            task = await under_way(store.append(change), url, holder)
            end(url, BLOCKED)
            with pytest.raises(StoreFailed, match="not known whether the change was written") as error:
                await asyncio.wait_for(task, 30)
            assert error.value.unknown is True
        assert len(flights) == 1
        await store.append(change)
        assert count(url) == 6


async def test_an_answer_that_is_lost_leaves_what_was_written(
    url: str, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: Flight) -> None:
        with behind(url) as connection:
            while connection.execute("SELECT count(*) FROM assent_journal").fetchall() != [(6,)]:
                pass
        line = self._link.connection.pgconn
        line.finish()
        self._end(None, psycopg.OperationalError("server closed the connection unexpectedly"))

    async with made(url) as store:
        script = await known(store)
        change = script.change(MORE)
        with monkeypatch.context() as patch:
            patch.setattr(Flight, "_go_on", lost)
            with pytest.raises(StoreFailed) as error:
                await store.append(change)
        assert error.value.unknown is True
        with pytest.raises(Overtaken):
            await store.append(change)
        assert len((await store.read("r1")).facts) == 6


async def test_a_read_whose_connection_is_lost_is_done_again(url: str, flights: list[Flight]) -> None:
    async with made(url) as store:
        await known(store)
        flights.clear()
        with held(url, "LOCK TABLE assent_runs") as holder:
            task = await under_way(store.read("r1"), url, holder)
            end(url, BLOCKED)
            await asyncio.to_thread(_blocked, url, holder.info.backend_pid)
            holder.commit()
            assert len((await asyncio.wait_for(task, 30)).facts) == 5
        assert len(flights) == 1


async def test_a_statement_that_the_server_gives_up_says_so_and_the_connection_is_kept(
    url: str, flights: list[Flight]
) -> None:
    impatient = url.replace("options=", "options=-cstatement_timeout%3D300%20")
    async with made(url) as store:
        await known(store)
    async with PostgresStore(impatient, pool_size=2) as store:
        script = await known(store, "r2")
        flights.clear()
        change = script.change(MORE)
        with held(url), pytest.raises(StoreFailed, match="took too long") as error:
            await store.append(change)
        assert error.value.unknown is False
        await store.append(change)
        assert len(flights) == 2, "the connection is the same"


async def test_a_statement_that_the_connection_has_forgotten_is_written_by_a_transaction(
    url: str, flights: list[Flight]
) -> None:
    async with made(url, pool_size=2) as store:
        script = await known(store)
        await store._read(lambda transaction: transaction.connection.pgconn.exec_(b"DEALLOCATE ALL"))
        flights.clear()
        await script.write(MORE)
        assert len(flights) == 1
        assert len((await store.read("r1")).facts) == script.seq


async def test_a_connection_that_was_lost_unseen_is_not_kept(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Link, "see_that_it_lives", lambda link: None)
    async with made(url, pool_size=2) as store:
        script = await waiting(store)
        for _ in range(2):
            await script.write(MORE)
        end(url)
        with pytest.raises(StoreFailed) as error:
            await script.write(MORE)
        assert error.value.unknown is True
        assert len((await store.read("r1")).facts) == 6


# -- what the server says last -------------------------------------------------------------------------

LATE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON assent_journal DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refuse()
"""
"""Lets every statement pass, and no commit."""


@pytest.mark.parametrize("blocks", [False, True])
async def test_a_commit_that_fails_after_its_statement_is_not_taken_for_made(url: str, blocks: bool) -> None:
    async with made(url) as store:
        script = await known(store)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(LATE)
        change = script.change(MORE)
        with pytest.raises(StoreFailed, match=r"not today[\s\S]*Nothing was written") as refused:
            await (asyncio.to_thread(block, store.append(change)) if blocks else store.append(change))
        assert refused.value.unknown is False
        assert len((await store.read("r1")).facts) == 5


async def test_a_blocking_call_on_a_loop_that_waits_for_statements_is_not_in_its_own_way(url: str) -> None:
    async with made(url, pool_size=3) as store:
        await known(store)
        await asyncio.gather(*(store.read("r1") for _ in range(12)))

        async def blocking() -> int:
            return len(block(store.read("r1")).facts)

        found = await asyncio.gather(*(store.read("r1") for _ in range(3)), blocking())
        assert found[-1] == 5


def test_a_store_that_is_closed_lets_go_of_what_a_closed_loop_has_left(url: str, flights: list[Flight]) -> None:
    store = PostgresStore(url, upgrade=True, pool_size=2)
    script = asyncio.run(known(store))
    flights.clear()
    with held(url) as holder:
        loop = asyncio.new_event_loop()
        task = loop.run_until_complete(under_way(script.write(MORE), url, holder))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.run(store.close())
        holder.commit()
    task._log_destroy_pending = False
    for thread in threading.enumerate():
        if thread.name == "assent-store-finish":
            thread.join(30)
    [flight] = flights
    assert flight._link.connection.closed
