"""Savers: an Assentry store by another name, for sync and async programs alike."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from assentry import InvalidDefinition, UsageError
from assentry.errors import RunBusy, StoreFailed
from assentry.store import MemoryStore
from assentry.testing import call
from assentry.threads import (
    AsyncPostgresSaver,
    AsyncSqliteSaver,
    InMemorySaver,
    MemorySaver,
    PostgresSaver,
    Saver,
    SqliteSaver,
)
from tests.store.postgres import Server
from tests.threads.support import Ran, decide, office, only, say, texts, thread


def test_the_async_names_are_other_names() -> None:
    assert AsyncSqliteSaver is SqliteSaver
    assert AsyncPostgresSaver is PostgresSaver
    assert MemorySaver is InMemorySaver


def test_a_store_is_a_checkpointer_too() -> None:
    store = MemoryStore()
    agent, _ = office("ok", checkpointer=store)
    assert agent.store is store
    saver = InMemorySaver()
    agent, _ = office("ok", checkpointer=saver)
    assert agent.store is saver.store


async def test_a_saver_is_an_async_context_manager_and_setup_may_be_awaited(tmp_path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(f"sqlite:///{tmp_path}/t.db") as saver:
        await saver.setup()
        agent, ran = office(call("execute_sql", {"query": "a"}), "ok", checkpointer=saver)
        await agent.ainvoke(say("go"), thread())
        await agent.ainvoke(decide("approve"), thread())
        assert ran == [("execute_sql", "a")]
    with pytest.raises(StoreFailed, match="closed"):
        await agent.ainvoke(None, thread())
    assert (tmp_path / "t.db").exists()


def test_setup_of_a_store_that_needs_none_is_nothing() -> None:
    InMemorySaver().setup()


def test_a_path_that_cannot_be_is_refused_when_the_agent_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        office("ok", checkpointer=SqliteSaver(tmp_path / "nowhere" / "t.db"))
    with pytest.raises(UsageError):
        office("ok", checkpointer=SqliteSaver(":memory:"))


async def test_a_thread_goes_on_in_another_program(tmp_path: Path) -> None:
    ran = Ran()
    async with SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office("Hello.", call("execute_sql", {"query": "a"}), ran=ran, checkpointer=saver)
        await agent.ainvoke(say("hi"), thread())
        waiting = only(await agent.ainvoke(say("go"), thread()))
    async with SqliteSaver(tmp_path / "t.db") as saver:
        again, _ = office("Done.", ran=ran, checkpointer=saver)
        assert again.get_state(thread()).interrupts == (waiting,)
        result = await again.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "a")]
    assert [text for _, text in texts(result)] == ["hi", "Hello.", "go", "", "ran a", "Done."]


def test_threads_live_in_postgres_too(postgres: Server) -> None:
    ran, url = Ran(), postgres.database()
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        agent, _ = office("Hello.", call("execute_sql", {"query": "a"}), ran=ran, checkpointer=saver)
        agent.invoke(say("hi"), thread())
        waiting = only(agent.invoke(say("go"), thread()))
    with PostgresSaver(url) as saver:
        again, _ = office("Done.", ran=ran, checkpointer=saver)
        assert again.get_state(thread()).interrupts == (waiting,)
        result = again.invoke(decide("approve"), thread())
    assert ran == [("execute_sql", "a")]
    assert texts(result)[-1] == ("ai", "Done.")


# -- connections ------------------------------------------------------------------------------------


def talk(saver: Saver) -> list[tuple[str, str]]:
    """Return the messages on a thread of a saver."""
    agent, _ = office("Hello.", checkpointer=saver)
    return texts(agent.invoke(say("hi"), thread()))


def test_a_connection_names_its_file(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db", check_same_thread=False)
    connection.row_factory = sqlite3.Row
    with SqliteSaver(connection) as saver:
        assert talk(saver)[-1] == ("ai", "Hello.")
    connection.close()
    with SqliteSaver(tmp_path / "t.db") as saver:
        assert saver.get(thread()) is not None


def test_a_connection_to_memory_keeps_threads_in_memory() -> None:
    connection = sqlite3.connect(":memory:")
    with SqliteSaver(connection) as saver:
        assert talk(saver)[-1] == ("ai", "Hello.")
    connection.close()
    with SqliteSaver.from_conn_string(":memory:") as saver:
        assert talk(saver)[-1] == ("ai", "Hello.")


def test_a_closed_connection_and_what_is_none_are_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.close()
    wrong: Any
    for wrong in (connection, 7, object()):
        with pytest.raises(UsageError):
            office("ok", checkpointer=SqliteSaver(wrong))
    for wrong in (7, object()):
        with pytest.raises(UsageError):
            office("ok", checkpointer=PostgresSaver(wrong))
        with pytest.raises(UsageError, match="serde"):
            InMemorySaver(serde=wrong)


async def test_an_async_connection_names_its_file_too(tmp_path: Path) -> None:
    aiosqlite = pytest.importorskip("aiosqlite")
    async with aiosqlite.connect(tmp_path / "t.db") as connection, AsyncSqliteSaver(connection) as saver:
        agent, _ = office("Hello.", checkpointer=saver)
        await agent.ainvoke(say("hi"), thread())
        assert await saver.aget(thread()) is not None
    assert (tmp_path / "t.db").exists()


class Pool:
    """A pool, as psycopg_pool has it."""

    def __init__(self, conninfo: str, kwargs: dict[str, Any]) -> None:
        self.conninfo, self.kwargs = conninfo, kwargs


Pool.__module__ = "psycopg_pool.pool"


def test_a_postgres_connection_or_pool_names_its_database(postgres: Server) -> None:
    import psycopg

    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as connection, PostgresSaver(connection) as saver:
        saver.setup()
        assert talk(saver)[-1] == ("ai", "Hello.")
    with PostgresSaver(Pool(url, {"autocommit": True, "application_name": "x"})) as saver:
        assert saver.get(thread()) is not None


def test_a_postgres_connection_gives_its_password_along() -> None:
    from assentry.sql.postgres_connection import connection_address

    class Info:
        dsn, password = "user=ann dbname=threads host=h", "it's secret"

    connection = type("Connection", (), {"info": Info, "__module__": "psycopg"})()
    address = connection_address(connection)
    assert address is not None
    from psycopg.conninfo import conninfo_to_dict

    assert conninfo_to_dict(address) == {"user": "ann", "dbname": "threads", "host": "h", "password": "it's secret"}


def test_a_saver_of_langgraph_is_not_taken_for_one_of_ours() -> None:
    memory = pytest.importorskip("langgraph.checkpoint.memory")
    with pytest.raises(InvalidDefinition, match=r"Import InMemorySaver from assentry\.threads"):
        office("ok", checkpointer=memory.InMemorySaver())


# -- checkpoints ------------------------------------------------------------------------------------


async def test_a_saver_shows_the_checkpoints_of_a_thread() -> None:
    saver = InMemorySaver()
    agent, _ = office(call("execute_sql", {"query": "a"}), "Done.", "Hello.", checkpointer=saver)
    waiting = only(await agent.ainvoke(say("go"), thread()))
    now = saver.get_tuple(thread())
    assert now is not None
    assert [each[1:] for each in now.pending_writes] == [("__interrupt__", (waiting,))]
    await agent.ainvoke(decide("approve"), thread())
    await agent.ainvoke(say("hi"), thread("other"))
    found = list(saver.list(thread()))
    history = list(agent.get_state_history(thread()))
    assert [each.config for each in found] == [each.config for each in history]
    assert [each.checkpoint["channel_values"]["messages"] for each in found] == [
        each.values["messages"] for each in history
    ]
    assert [each.metadata["source"] for each in found] == ["loop"] * 5 + ["input"]
    assert await saver.aget_tuple(found[2].config) == found[2]
    assert saver.get(found[2].config) == found[2].checkpoint == await saver.aget(found[2].config)
    assert list(saver.list(thread(), limit=1)) == found[:1]
    assert [each async for each in saver.alist(thread(), before=found[1].config)] == found[2:]
    assert {each.config["configurable"]["thread_id"] for each in saver.list(None)} == {"t", "other"}
    assert saver.get_tuple(thread("nobody")) is None and list(saver.list(thread("nobody"))) == []


def test_a_checkpoint_cannot_be_put() -> None:
    saver = InMemorySaver()
    for put in (saver.put, saver.put_writes, saver.aput, saver.aput_writes):
        with pytest.raises(UsageError, match="update_state"):
            put(thread(), {}, {}, {})


# -- deleting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_deleted_thread_is_empty_and_can_begin_again(kind: str, tmp_path: Path) -> None:
    with InMemorySaver() if kind == "memory" else SqliteSaver(tmp_path / "t.db") as saver:
        agent, _ = office("One.", "Two.", "Three.", "Four.", checkpointer=saver)
        await agent.ainvoke(say("secret"), thread())
        await agent.ainvoke(say("b"), thread())
        await agent.ainvoke(say("c"), thread("other"))
        saver.delete_thread("t")
        assert agent.get_state(thread()).values == {}
        assert list(agent.get_state_history(thread())) == list(saver.list(thread())) == []
        assert saver.get(thread()) is None
        assert "secret" not in str(await saver.store.history("t:1"))
        await saver.adelete_thread("t")
        saver.delete_thread("nobody")
        result = await agent.ainvoke(say("d"), thread())
        assert texts(result) == [("human", "d"), ("ai", "Four.")]
        assert len(agent.get_state(thread("other")).values["messages"]) == 2


async def test_a_waiting_thread_that_is_deleted_withdraws_its_question() -> None:
    saver = InMemorySaver()
    agent, ran = office(call("execute_sql", {"query": "a"}), "Done.", checkpointer=saver)
    await agent.ainvoke(say("go"), thread())
    await saver.adelete_thread("t")
    assert (await saver.store.questions()).items == []
    agent.update_state(thread(), {"messages": "hi"})
    assert texts(await agent.ainvoke(None, thread())) == [("human", "hi"), ("ai", "Done.")]
    assert ran == []


async def test_a_driven_thread_is_not_deleted() -> None:
    saver = InMemorySaver()
    agent, _ = office(call("execute_sql", {"query": "a"}), "Done.", checkpointer=saver)
    await agent.ainvoke(say("go"), thread())
    record = await saver.store.record("t:1")
    await saver.store.take("t:1", "worker", seq=record.seq, hold=60)
    with pytest.raises(RunBusy):
        await saver.adelete_thread("t")
    assert len(agent.get_state(thread()).values["messages"]) == 2
