"""The connections of a Postgres store: whoever waits may go, and so may the server and the store; no statement is ever
given another's answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from assentry.core import facts as f
from assentry.errors import StoreFailed
from assentry.runtime.sync import block
from assentry.store import PostgresStore
from tests.store.postgres import Server
from tests.store.support import Script, at_once, js, waiting
from tests.store.test_postgres import made
from tests.store.test_postgres_writes import _blocked, behind, impatient

MORE = f.Said(js("more"))


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


async def known(store: PostgresStore, run_id: str = "r1") -> Script:
    """A run of five facts, and a connection that knows what is needed to go on with it."""
    script = await Script(store, run_id).begin()
    for _ in range(3):
        await script.write(MORE)
    await store.read(run_id)
    return script


@contextmanager
def held(url: str, text: str = "SELECT FROM assentry_runs FOR UPDATE") -> Iterator[psycopg.Connection[Any]]:
    """A transaction that did this, and stands in the way of others until it is committed."""
    with psycopg.connect(url) as holder:
        holder.execute(text)
        yield holder


async def under_way(work: Any, url: str, holder: psycopg.Connection[Any]) -> asyncio.Task[Any]:
    """Begin this, which is to wait for whoever holds what it needs."""
    task = asyncio.ensure_future(work)
    await asyncio.to_thread(_blocked, url, holder.info.backend_pid)
    return task


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
        [[found]] = connection.execute("SELECT count(*) FROM assentry_journal").fetchall()
        return int(found)


SLOW = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON assentry_journal DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION wait()
"""
"""Lets every statement pass, and every commit wait for this lock."""
BLOCKED = "cardinality(pg_blocking_pids(pid)) > 0"


# -- on the loop, and on the lane ------------------------------------------------------------------------


async def test_many_who_wait_for_few_connections_are_all_served(url: str) -> None:
    async with made(url, pool_size=2) as store:
        scripts = [await known(store, f"r{number}") for number in range(4)]

        async def work(script: Script) -> int:
            for _ in range(10):
                await script.write(MORE)
                await store.runs(limit=1)
            return len((await store.read(script.id)).facts)

        assert await asyncio.wait_for(asyncio.gather(*map(work, scripts)), 60) == [15] * 4


# -- whoever waits goes --------------------------------------------------------------------------------


async def test_a_change_that_nobody_waits_for_any_more_is_written_and_confuses_nobody(url: str) -> None:
    async with made(url, pool_size=2) as store:
        script = await known(store)
        with held(url) as holder:
            task = await under_way(script.write(MORE), url, holder)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            reading = [asyncio.ensure_future(store.read("r1", 4)), asyncio.ensure_future(store.newest("t"))]
            holder.commit()
        found = (await asyncio.wait_for(reading[0], 60)).facts
        assert 1 <= len(found) <= 2 and all(isinstance(fact, f.Said) for fact in found)
        assert await asyncio.wait_for(reading[1], 60) is None
    assert count(url) == script.seq == 6  # a store that is closed has waited for its writes


def test_several_loops_share_a_store_and_each_has_its_own_answers(url: str) -> None:
    store = PostgresStore(url, upgrade=True, pool_size=2)
    asyncio.run(known(store, "r"))
    gate = threading.Barrier(3)

    async def work(number: int) -> list[int]:
        gate.wait(60)
        script = await Script(store, f"r{number}").begin()
        found = []
        for _ in range(30):
            await script.write(f.Said(js(number)))
            stored = await store.read(script.id, script.seq - 1)
            assert stored.record.id == script.id and stored.facts == [f.Said(js(number))]
            found.append(stored.record.seq)
        return found

    assert at_once(3, work) == [list(range(3, 33))] * 3
    asyncio.run(store.close())


# -- the store is closed -------------------------------------------------------------------------------


async def test_what_is_under_way_when_a_store_is_closed_is_done(url: str) -> None:
    async with made(url) as store:
        script = await known(store)
        with held(url) as holder:
            task = await under_way(script.write(MORE), url, holder)
            await store.close()
            holder.commit()
            await asyncio.wait_for(task, 60)
        assert count(url) == 6
        assert store._server._pool._idle == []


# -- the server goes -----------------------------------------------------------------------------------


async def test_a_connection_that_is_lost_while_it_rests_is_noticed_before_anything_is_sent(url: str) -> None:
    async with made(url) as store:
        script = await known(store)
        end(url)
        await script.write(MORE)
        assert count(url) == script.seq == 6


async def test_a_connection_that_is_lost_after_a_change_was_sent_says_that_it_is_not_known(url: str) -> None:
    async with made(url) as store:
        script = await known(store)
        change = script.change(MORE)
        with behind(url) as connection:
            connection.execute(SLOW)
        with held(url, "SELECT pg_advisory_xact_lock(7)") as holder:
            task = await under_way(store.append(change), url, holder)
            end(url, BLOCKED)
            with pytest.raises(StoreFailed, match="not known whether the change was written") as error:
                await asyncio.wait_for(task, 60)
            assert error.value.unknown is True
        await store.append(change)
        assert count(url) == 6


async def test_a_connection_that_is_lost_before_a_change_is_committed_is_made_anew(url: str) -> None:
    async with made(url) as store:
        script = await known(store)
        with held(url) as holder:
            task = await under_way(store.append(script.change(MORE)), url, holder)
            end(url, BLOCKED)
            await asyncio.to_thread(_blocked, url, holder.info.backend_pid)
            holder.commit()
            await asyncio.wait_for(task, 60)
        assert count(url) == 6


async def test_a_read_whose_connection_is_lost_is_done_again(url: str) -> None:
    async with made(url) as store:
        await known(store)
        with held(url, "LOCK TABLE assentry_runs") as holder:
            task = await under_way(store.read("r1"), url, holder)
            end(url, BLOCKED)
            await asyncio.to_thread(_blocked, url, holder.info.backend_pid)
            holder.commit()
            assert len((await asyncio.wait_for(task, 60)).facts) == 5


async def test_a_statement_that_the_server_gives_up_says_so_and_the_connection_is_kept(url: str) -> None:
    async with made(url, pool_size=2) as store:
        script = await known(store)
        change, links = script.change(MORE), list(store._server._pool._idle)
        with held(url), impatient(store), pytest.raises(StoreFailed, match="took too long") as error:
            await store.append(change)
        assert error.value.unknown is False
        assert store._server._pool._idle == links
        await store.append(change)


async def test_a_connection_that_was_lost_unseen_is_not_kept(url: str) -> None:
    async with made(url, pool_size=2) as store:
        script = await waiting(store)
        for _ in range(2):
            await script.write(MORE)
        end(url)
        await Script(store, "r2").begin()
        end(url)
        await script.write(MORE)
        assert len((await store.read("r1")).facts) == 7


# -- what the server says last -------------------------------------------------------------------------

LATE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON assentry_journal DEFERRABLE INITIALLY DEFERRED
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
