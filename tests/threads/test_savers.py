"""Savers: an Assentry store by another name, for sync and async programs alike."""

from pathlib import Path

import pytest

from assentry import UsageError
from assentry.errors import StoreFailed
from assentry.store import MemoryStore
from assentry.testing import call
from assentry.threads import AsyncPostgresSaver, AsyncSqliteSaver, InMemorySaver, PostgresSaver, SqliteSaver
from tests.store.postgres import Server
from tests.threads.support import Ran, decide, office, only, say, texts, thread


def test_the_async_names_are_other_names() -> None:
    assert AsyncSqliteSaver is SqliteSaver
    assert AsyncPostgresSaver is PostgresSaver


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
