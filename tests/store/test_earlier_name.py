"""What was stored under the product's earlier name, Assent, is there under the new one.

`assent_v6.sql` is a file with a store and a session, as the last program under that name wrote it: a run that waits,
a run that waits after one approval, a user and a token.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from assentry import Agent, Approve, PostgresSession, Runner, SQLiteSession, function_tool
from assentry.core.codec import decode_run
from assentry.errors import SessionFailed, StoreFailed
from assentry.inbox.accounts import accounts_of
from assentry.sql.sqlite_connection import STORE
from assentry.store import PostgresStore, SQLiteStore
from assentry.store.sql.migrating import config
from assentry.testing import ScriptedModel
from tests.store.postgres import Server

OLD = (Path(__file__).parent / "assent_v6.sql").read_text()
ITEM: dict[str, Any] = {"role": "user", "content": "hello"}
TOKEN = "assent_07bbfd43ac95d63f_CUFx7RkyEeFu_5yT53jE7ZBo59G1w9012GK_xkO_WiA"


@function_tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def make_file(path: Path) -> None:
    """Write the file as it was."""
    connection = sqlite3.connect(path)
    connection.executescript(OLD)
    connection.execute(f"PRAGMA application_id={STORE}")
    connection.execute("PRAGMA user_version=6")
    connection.close()


def make_database(url: str, path: Path) -> None:
    """Make the tables as they were on a server, and fill them with what the file has."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    with engine.begin() as connection:
        settings = config()
        settings.attributes["connection"] = connection
        command.upgrade(settings, "0006")
        connection.exec_driver_sql("ALTER TABLE assentry_version RENAME TO assent_version")
    file = sqlite3.connect(path)
    with psycopg.connect(url) as server:
        for (table,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if table in ("assent_file", "assent_items"):
                continue
            rows = file.execute(f"SELECT * FROM {table}")
            names = ", ".join(f'"{column[0]}"' for column in rows.description)
            for row in rows.fetchall():
                places = ", ".join("%s" for _ in row)
                server.execute(f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE VALUES ({places})".encode(), row)
        server.execute(
            "CREATE TABLE assent_session_items (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            ' session TEXT COLLATE "C" NOT NULL, run TEXT COLLATE "C", position BIGINT, item TEXT NOT NULL);'
            "CREATE INDEX assent_session_items_of_session ON assent_session_items (session, seq);"
            "CREATE UNIQUE INDEX assent_session_items_of_run ON assent_session_items (session, run, position)"
            " WHERE run IS NOT NULL;"
            "CREATE TABLE assent_session_schema (version INTEGER NOT NULL, tables UUID NOT NULL);"
            "INSERT INTO assent_session_schema VALUES (1, gen_random_uuid())"
        )
        for row in file.execute("SELECT session, run, position, item FROM assent_items ORDER BY seq").fetchall():
            server.execute(
                "INSERT INTO assent_session_items (session, run, position, item) VALUES (%s, %s, %s, %s)", row
            )
    file.close()


@pytest.fixture(params=["sqlite", "postgres"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / "runs.db"
    make_file(path)
    if request.param == "sqlite":
        return str(path)
    url: str = request.getfixturevalue("postgres").database()
    make_database(url, path)
    return url


def store_of(address: str) -> SQLiteStore | PostgresStore:
    return PostgresStore(address) if address.startswith("postgresql") else SQLiteStore(address)


def session_of(address: str) -> SQLiteSession | PostgresSession:
    kind = PostgresSession if address.startswith("postgresql") else SQLiteSession
    return kind("talk", address)


async def test_a_store_of_the_earlier_name_is_upgraded_with_all_that_it_holds(earlier: str) -> None:
    session = session_of(earlier)
    async with store_of(earlier) as store:
        await store.upgrade()
        assert [await store.verify(run.id) for run in (await store.runs()).items] == [[], []]
        assert await store.strays() == []
        first, _ = sorted((await store.questions()).items, key=lambda question: question.arguments)
        await store.decide(first.id, Approve(), by="ann", digest=first.digest)
        agent = Agent(name="Shop", tools=[pay], model=ScriptedModel(["Done."]))
        result = await Runner.run(agent, await store.load(first.run), store=store, session=session)
        assert result.final_output == "Done."
        accounts = accounts_of(store)
        who = await accounts.identity_of_token(TOKEN)
        assert who is not None and (who.name, who.role) == ("ann", "viewer")
    assert [item["role"] for item in await session.get_items() if "role" in item] == ["user", "assistant"]
    assert (await session.get_items())[0]["content"] == "go"


async def test_no_table_or_index_keeps_the_earlier_name_but_for_what_turns_older_programs_away(earlier: str) -> None:
    await session_of(earlier).get_items()
    async with store_of(earlier) as store:
        await store.upgrade()
    if earlier.startswith("postgresql"):
        query = (
            "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
            " AND relname LIKE {0} UNION"
            " SELECT conname FROM pg_constraint WHERE connamespace = current_schema()::regnamespace"
            " AND conname LIKE {0}"
        )
        with psycopg.connect(earlier) as server:
            found = {name for (name,) in server.execute(query.format("'assent\\_%'").encode())}
            assert {name for name in found if not name.endswith("_not_null")} == {
                "assent_version",
                "assent_session_schema",
            }
            assert server.execute("SELECT version_num FROM assent_version").fetchall() == [("0007",)]
            assert server.execute("SELECT version FROM assent_session_schema").fetchall() == [(2,)]
    else:
        file = sqlite3.connect(earlier)
        found = {
            name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE name LIKE 'assent\\_%' ESCAPE '\\'")
        }
        assert found == {"assent_file"}
        assert file.execute("SELECT version FROM assent_file").fetchall() == [(2,)]
        file.close()


async def test_what_turns_older_programs_away_is_where_the_tables_are(postgres: Server, tmp_path: Path) -> None:
    make_file(tmp_path / "runs.db")
    url, first = postgres.database(), postgres.database().rpartition("%3D")[2]
    make_database(url, tmp_path / "runs.db")
    before, after = url.rsplit("%3D", 1)
    path = f"{before}%3D{first},{after}"
    async with store_of(path) as store:
        await store.upgrade()
    await session_of(path).add_items([ITEM])
    with psycopg.connect(url) as server:
        assert server.execute("SELECT version_num FROM assent_version").fetchall() == [("0007",)]
        assert server.execute("SELECT version FROM assent_session_schema").fetchall() == [(2,)]
        tables = server.execute("SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace", (first,))
        assert tables.fetchall() == [(0,)]
    assert await session_of(url).get_items() == [ITEM]


async def test_tables_that_were_dropped_but_for_the_earlier_version_are_made_anew(postgres: Server) -> None:
    url = postgres.database()
    with psycopg.connect(url) as server:
        server.execute(
            "CREATE TABLE assent_version (version_num VARCHAR(32)); INSERT INTO assent_version VALUES ('0007')"
        )
    async with PostgresStore(url) as store:
        with pytest.raises(StoreFailed, match="it has no tables for a store"):
            await store.runs()
        await store.upgrade()
        assert (await store.runs()).items == []
    with psycopg.connect(url) as server:
        assert server.execute("SELECT version_num FROM assent_version").fetchall() == [("0007",)]


async def test_tables_of_sessions_that_were_dropped_but_for_the_earlier_version_are_made_anew(earlier: str) -> None:
    session = session_of(earlier)
    await session.add_items([ITEM, ITEM])
    session.close()
    if earlier.startswith("postgresql"):
        with psycopg.connect(earlier) as server:
            server.execute("DROP TABLE assentry_session_items, assentry_session_schema")
    else:
        file = sqlite3.connect(earlier)
        file.executescript("DROP TABLE assentry_items; DROP TABLE assentry_file")
        file.close()
    again = session_of(earlier)
    with suppress(SessionFailed):  # this process has used the tables that are gone
        await again.get_items()
    await again.add_items([ITEM])
    assert await again.get_items() == [ITEM]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_tables_of_sessions_that_are_new_turn_older_programs_away_too(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        address = str(tmp_path / "sessions.db")
        await session_of(address).add_items([ITEM])
        file = sqlite3.connect(address)
        assert file.execute("SELECT version FROM assent_file").fetchall() == [(2,)]
        file.close()
    else:
        address = request.getfixturevalue("postgres").database()
        await session_of(address).add_items([ITEM])
        with psycopg.connect(address) as server:
            assert server.execute("SELECT version FROM assent_session_schema").fetchall() == [(2,)]


async def test_who_was_granted_the_tables_of_sessions_may_use_them_after_the_upgrade(
    postgres: Server, tmp_path: Path
) -> None:
    make_file(tmp_path / "runs.db")
    url = postgres.database()
    make_database(url, tmp_path / "runs.db")
    with psycopg.connect(url) as server:
        server.execute(
            "CREATE ROLE granted LOGIN; GRANT SELECT, INSERT, DELETE ON assent_session_items TO granted;"
            "GRANT SELECT ON assent_session_schema TO granted"
        )
        row = server.execute("SELECT current_schema()").fetchone()
        assert row is not None
        server.execute(f"GRANT USAGE ON SCHEMA {row[0]} TO granted".encode())
    await session_of(url).add_items([ITEM])
    async with store_of(url) as store:
        await store.upgrade()
    granted = url.replace("//assentry@", "//granted@")
    assert await session_of(granted).get_items() == [ITEM]
    with psycopg.connect(granted) as server:  # as a program under the earlier name does
        assert server.execute("SELECT version FROM assent_session_schema").fetchall() == [(2,)]
        assert server.execute("SELECT version_num FROM assent_version").fetchall() == [("0007",)]


def test_a_run_that_was_saved_under_the_earlier_name_tells_its_version() -> None:
    saved = decode_run((Path(__file__).parent.parent / "journals" / "v1.json").read_text())
    assert saved.assentry == "0.1.0"
