"""Checkpointers."""

import os
import sqlite3

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver, MemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from scripted import EMAIL_POLICY, ScriptedChat, call, show, thread, turn


def send(to: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


def mailer(saver, *replies):
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    return create_agent(ScriptedChat(*replies), [send], middleware=[gate], checkpointer=saver)


APPROVED = {"decisions": [{"type": "approve"}]}


def ask_and_approve(saver):
    mailer(saver, turn(call("send", {"to": "ann"}))).invoke({"messages": "Mail"}, thread())
    show(mailer(saver, "Sent.").invoke(Command(resume=APPROVED), thread()))


def case_memory_saver():
    ask_and_approve(MemorySaver())


def case_sqlite_connection():
    ask_and_approve(SqliteSaver(sqlite3.connect("threads.db", check_same_thread=False)))


def case_sqlite_connection_in_memory():
    ask_and_approve(SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False)))


def case_sqlite_from_conn_string():
    with SqliteSaver.from_conn_string("threads.db") as saver:
        mailer(saver, turn(call("send", {"to": "ann"}))).invoke({"messages": "Mail"}, thread())
    with SqliteSaver.from_conn_string("threads.db") as saver:
        show(mailer(saver, "Sent.").invoke(Command(resume=APPROVED), thread()))


async def case_async_sqlite():
    async with AsyncSqliteSaver.from_conn_string("threads.db") as saver:
        agent = mailer(saver, turn(call("send", {"to": "ann"})), "Sent.")
        await agent.ainvoke({"messages": "Mail"}, thread())
        show(await agent.ainvoke(Command(resume=APPROVED), thread()))


def case_postgres_connection():
    from psycopg import Connection
    from psycopg.rows import dict_row

    with Connection.connect(os.environ["POSTGRES"], autocommit=True, prepare_threshold=0, row_factory=dict_row) as conn:
        saver = PostgresSaver(conn)
        saver.setup()
        ask_and_approve(saver)


def case_postgres_pool():
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(os.environ["POSTGRES"], kwargs=options, min_size=1, max_size=4) as pool:
        saver = PostgresSaver(pool)
        saver.setup()
        ask_and_approve(saver)


def case_postgres_from_conn_string():
    with PostgresSaver.from_conn_string(os.environ["POSTGRES"]) as saver:
        saver.setup()
        ask_and_approve(saver)


async def case_async_postgres():
    async with AsyncPostgresSaver.from_conn_string(os.environ["POSTGRES"]) as saver:
        await saver.setup()
        agent = mailer(saver, turn(call("send", {"to": "ann"})), "Sent.")
        await agent.ainvoke({"messages": "Mail"}, thread())
        show(await agent.ainvoke(Command(resume=APPROVED), thread()))


def case_list():
    saver = InMemorySaver()
    agent = mailer(saver, "One.", "Two.")
    agent.invoke({"messages": "Hi"}, thread("a"))
    agent.invoke({"messages": "Hi"}, thread("b"))
    print(sorted({each.config["configurable"]["thread_id"] for each in saver.list(None)}))
    print({each.config["configurable"]["thread_id"] for each in saver.list(thread("a"))})


def case_get_tuple():
    saver = InMemorySaver()
    mailer(saver, "One.").invoke({"messages": "Hi"}, thread())
    found = saver.get_tuple(thread())
    print([each.content for each in found.checkpoint["channel_values"]["messages"]])
    print(saver.get_tuple(thread("never")))


def case_delete_thread():
    saver = InMemorySaver()
    agent = mailer(saver, "One.", "Two.")
    agent.invoke({"messages": "Hi"}, thread("a"))
    agent.invoke({"messages": "Hi"}, thread("b"))
    saver.delete_thread("a")
    print(agent.get_state(thread("a")).values, len(agent.get_state(thread("b")).values["messages"]))


def case_two_threads_in_one_saver():
    agent = mailer(InMemorySaver(), "One.", "Two.", "Three.")
    agent.invoke({"messages": "1"}, thread("a"))
    agent.invoke({"messages": "2"}, thread("b"))
    show(agent.invoke({"messages": "3"}, thread("a")))
