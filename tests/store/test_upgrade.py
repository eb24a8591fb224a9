"""Upgrades while older processes run: those write nothing more and say why, and the newer ones go on."""

import asyncio
import json
import logging
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from assentry import Approve, Runner
from assentry.engines import Worker
from assentry.errors import StoreFailed
from assentry.inbox.accounts import accounts_of
from assentry.store import PostgresStore, SQLiteStore
from assentry.store.outbox import Webhook
from assentry.store.sql.migrating import config
from assentry.store.sql.schema import EARLIER_VERSION_TABLE, VERSION, VERSION_TABLE
from assentry.store.sql.store import SQLStore
from tests.runtime.support import HANGS, soon
from tests.store.newer_program import shop
from tests.store.postgres import Server
from tests.store.support import Script

ROOT = Path(__file__).parents[2]
SAYS_WHY = (
    f"a newer Assentry has upgraded it to schema version {VERSION + 1}, and this Assentry knows {VERSION}. Restart"
)
STATEMENTS = json.loads(Path(__file__).with_name("statements_v4.json").read_text("utf-8"))
"""The transactions in which the last Assentry with schema version 4 writes, by database and by what they do."""


class Shared:
    """A database that an older and a newer Assentry share: the older is this process."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder, self.effects = address, folder, folder / "effects"
        self.is_postgres = address.startswith("postgresql")

    def store(self, **options: Any) -> SQLStore:
        return PostgresStore(self.address, upgrade=True, **options) if self.is_postgres else SQLiteStore(self.address)

    async def newer(self, what: str) -> Any:
        """What the newer Assentry came to."""
        command = [sys.executable, "-m", "tests.store.newer_program", self.address, what, str(self.folder)]
        return await asyncio.to_thread(self._run, [*command, str(self.effects)])

    def _run(self, command: list[str]) -> Any:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, timeout=HANGS
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout.splitlines()[-1])

    def sent(self) -> int:
        return len(self.effects.read_text().splitlines()) if self.effects.exists() else 0

    def rows(self) -> dict[str, list[Any]]:
        """All rows of all tables but the version's own."""
        address = self.address.replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(address if self.is_postgres else f"sqlite:///{self.address}", poolclass=NullPool)
        with engine.connect() as connection:
            names = connection.dialect.get_table_names(connection)  # type: ignore[no-untyped-call]
            return {
                name: sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {name}").fetchall()))
                for name in names
                if name != VERSION_TABLE
            }


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    if request.param == "sqlite":
        return Shared(str(tmp_path / "runs.db"), tmp_path)
    server: Server = request.getfixturevalue("postgres")
    return Shared(server.database(), tmp_path)


async def upgraded(shared: Shared) -> None:
    """Let the newer Assentry upgrade the database as its users do."""
    if shared.is_postgres:
        said = await shared.newer("open")
        assert f"version {VERSION}, and this Assentry needs {VERSION + 1}. Run `assentry db upgrade`" in said
        await shared.newer("upgrade")
    else:
        await shared.newer("open")


async def test_after_an_upgrade_an_older_process_writes_nothing_and_the_newer_goes_on(shared: Shared) -> None:
    async with shared.store() as store:
        agent, accounts = shop(shared.effects), accounts_of(store)
        await accounts.add_user("ann", "admin", "correct horse")
        token = await accounts.add_token("ann", "viewer")
        await store.announce({"Shop": "{}"})
        waiting = await Runner.run(agent, "go", store=store)
        await Runner.run(agent, "go on", store=store)
        question = waiting.interruptions[0]
        seq = (await store.read(waiting.run_id)).record.seq
        lease = await store.take(waiting.run_id, "w", seq=seq, hold=60)
        await upgraded(shared)
        before = shared.rows()
        hook = Webhook(id="h1", url="http://example.com", secret="s", events=("question.asked",), made=1)
        writes: dict[str, Callable[[], Awaitable[Any]]] = {
            "a decision": lambda: store.decide(question.id, Approve(), by="ann", digest=question.digest),
            "a new run": lambda: Runner.run(agent, "go", store=store),
            "input": lambda: store.say(waiting.run_id, "more"),
            "a cancellation": lambda: store.cancel(waiting.run_id, by="ann"),
            "a claim": lambda: store.claim("w", agents=None, hold=60, limit=9),
            "a lease": lambda: store.take(waiting.run_id, "w", seq=seq, hold=60),
            "a renewal": lambda: store.renew([lease], hold=60),
            "a release": lambda: store.release(lease),
            "a release after a failure": lambda: store.release(lease, error="It broke."),
            "a purge": lambda: store.purge(unchanged_for=0, statuses=["waiting"]),
            "a rebuild": store.rebuild,
            "an announcement": lambda: store.announce({"Shop": "{}"}),
            "a user": lambda: accounts.add_user("bob", "viewer", "correct horse"),
            "a role": lambda: accounts.set_role("ann", "viewer"),
            "a password": lambda: accounts.set_password("ann", "another horse"),
            "a token": lambda: accounts.add_token("ann", "admin"),
            "the use of a token": lambda: accounts.identity_of_token(token),
            "a sign-in": lambda: accounts.sign_in("ann"),
            "a webhook": lambda: store.outbox.add(hook),
            "a worker": lambda: Worker(store, agent).run_until_idle(),
        }
        for what, write in writes.items():
            with pytest.raises(StoreFailed, match=SAYS_WHY) as failed:
                await write()
            assert failed.value.unknown is False, what
            assert shared.rows() == before, what
    assert shared.sent() == 0
    found = await shared.newer("work")
    assert found == {"runs": ["done", "done"], "questions": [], "damaged": []}
    assert shared.sent() == 2


async def test_a_body_that_ran_in_an_older_process_during_the_upgrade_is_asked_about(shared: Shared) -> None:
    async with shared.store() as store:
        agent = shop(shared.effects, lambda: upgraded(shared))
        result = await Runner.run(agent, "go", store=store)
        [question] = result.interruptions
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        with pytest.raises(StoreFailed, match=SAYS_WHY):
            await Runner.run(agent, await store.load(result.run_id), store=store)
    assert shared.sent() == 1
    assert await shared.newer("work") == {"runs": ["waiting"], "questions": ["doubt"], "damaged": []}
    assert shared.sent() == 1, "nobody runs it again before a person has said what came of it"


async def blocks(pid: int, watch: psycopg.Connection[Any]) -> None:
    """Wait until somebody waits for this connection."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    async with asyncio.timeout(HANGS):
        while watch.execute(waits, [pid]).fetchall() == [(0,)]:  # noqa: ASYNC110 - there is nothing that tells it
            await asyncio.sleep(0.01)


async def test_an_upgrade_waits_for_the_writes_under_way(postgres: Server) -> None:
    url = postgres.database()
    _make_version_4_on(url)
    async with PostgresStore(url) as store:
        with psycopg.connect(url) as older, psycopg.connect(url, autocommit=True) as watch:
            older.execute(f"SELECT version_num FROM {EARLIER_VERSION_TABLE}")
            upgrading = asyncio.create_task(store.upgrade())
            await blocks(older.info.backend_pid, watch)
            assert not upgrading.done()
            older.rollback()
            await soon(upgrading)
        assert (await store.runs()).items == []


@pytest.mark.parametrize("write", ["say", "release"])
async def test_a_write_that_waited_for_the_upgrade_is_refused(postgres: Server, write: str) -> None:
    url = postgres.database()
    async with PostgresStore(url, upgrade=True) as store:
        await Script(store).begin()
        for number in range(8):  # the server keeps the plan of the statement from then on
            await store.say("r1", f"{number}")
        lease = await store.take("r1", "w", seq=10, hold=60)
        with psycopg.connect(url) as newer, psycopg.connect(url, autocommit=True) as watch:
            newer.execute(f"LOCK TABLE {VERSION_TABLE} IN ACCESS EXCLUSIVE MODE")
            newer.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{VERSION + 1:04}'")
            writing = asyncio.create_task(store.say("r1", "more") if write == "say" else store.release(lease))
            await blocks(newer.info.backend_pid, watch)
            newer.commit()
            with pytest.raises(StoreFailed, match=SAYS_WHY):
                await soon(writing)
            assert watch.execute("SELECT seq, worker FROM assentry_runs").fetchall() == [(10, "w")]


async def test_a_file_that_is_upgraded_says_so_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "runs.db"
    _make_version_4(path)
    caplog.set_level(logging.WARNING)
    async with SQLiteStore(path) as store:
        assert (await store.runs()).items == []
    assert f"Upgraded the store in {path} from schema version 4 to {VERSION}" in caplog.text
    caplog.clear()
    for name in ("runs.db", "new.db"):
        async with SQLiteStore(tmp_path / name) as store:
            await store.runs()
    assert caplog.text == "", "nothing is said of a file that is new, or as it should be"


async def test_an_older_database_on_a_server_is_upgraded_by_the_command_alone(postgres: Server) -> None:
    url = postgres.database()
    _make_version_4_on(url)
    for unasked in (False, True):
        async with PostgresStore(url, upgrade=unasked) as store:
            with pytest.raises(StoreFailed, match=r"version 4, and this Assentry needs .* Run `assentry db upgrade`"):
                await store.runs()
    async with PostgresStore(url) as store:
        await store.upgrade()
        assert (await store.runs()).items == []


# -- schema version 4, which compared no version -------------------------------------------------------------------


def _make_version_4(path: Path) -> None:
    """A file as the last Assentry with schema version 4 makes it."""
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with engine.begin() as connection:
        _migrate(connection)
        connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
        connection.exec_driver_sql(f"PRAGMA application_id={0x41735374}")
        connection.exec_driver_sql("PRAGMA user_version=4")


def _make_version_4_on(url: str) -> None:
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    with engine.begin() as connection:
        _migrate(connection)
        connection.exec_driver_sql(f"ALTER TABLE {VERSION_TABLE} RENAME TO {EARLIER_VERSION_TABLE}")


def _migrate(connection: Any) -> None:
    settings = config()
    settings.attributes["connection"] = connection
    command.upgrade(settings, "0004")


USERS_OF_VERSION_4 = (
    "INSERT INTO assent_users (name, role, groups, password, stamp, made, disabled)"
    " VALUES ('żółć', 'admin', '[\"ops\"]', 'hash', 's', 1, 2), ('bob', 'viewer', NULL, NULL, 's', 1, NULL)",
    "INSERT INTO assent_tokens (id, name, role, groups, hash, made, until, used, revoked)"
    " VALUES ('t1', 'bob', 'viewer', NULL, 'x', 1, 9, 8, 7), ('t2', 'bob', 'viewer', NULL, 'x', 1, NULL, NULL, NULL)",
)


async def test_users_and_tokens_of_schema_version_4_are_sealed_as_they_are(tmp_path: Path, postgres: Server) -> None:
    path, url = tmp_path / "runs.db", postgres.database()
    _make_version_4(path)
    _make_version_4_on(url)
    with sqlite3.connect(path) as file, psycopg.connect(url) as server:
        for statement in USERS_OF_VERSION_4:
            file.execute(statement)
            server.execute(statement.encode())
    file.close()
    for store in (SQLiteStore(path), PostgresStore(url)):
        async with store:
            await store.upgrade()
            assert await store.strays() == []
            accounts = accounts_of(store)
            assert [(user.name, user.disabled) for user in await accounts.users()] == [("bob", None), ("żółć", 2)]
            assert [(token.id, token.revoked) for token in await accounts.tokens()] == [("t1", 7), ("t2", None)]
            await accounts.set_role("bob", "viewer", ["ops"])
            assert await store.strays() == []


class _Anything(dict[str, None]):
    def __missing__(self, name: str) -> None:
        return None


def _sqlite_refuses(path: Path, statements: list[str]) -> bool:
    """Return True if one of these names a table or a column that is not there."""
    connection = sqlite3.connect(path)
    try:
        for statement in statements:
            connection.execute(f"EXPLAIN {statement}", _Anything())
    except sqlite3.OperationalError as error:
        return any(each in str(error) for each in ("no such table", "no such column", "has no column named"))
    finally:
        connection.close()
    return False


def _postgres_refuses(url: str, statements: list[str]) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        results = [connection.pgconn.prepare(b"", _numbered(statement).encode()) for statement in statements]
    errors = [psycopg.errors.error_from_result(result) for result in results if result.error_message]
    states = {error.sqlstate for error in errors}
    missing = {"42703", "42P01"}  # a column or a table
    assert states <= {*missing, "42P18"}, errors  # or a parameter of which nothing says the type
    return bool(states & missing)


def _numbered(statement: str) -> str:
    """A statement with numbers for the names of its parameters."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    for number, name in enumerate(names, 1):
        statement = statement.replace(f"%({name})s", f"${number}")
    return statement.replace("%%", "%")


async def test_no_write_of_schema_version_4_fits_the_tables_after_the_upgrade(tmp_path: Path, postgres: Server) -> None:
    path, url = tmp_path / "runs.db", postgres.database()
    _make_version_4(path)
    _make_version_4_on(url)
    refuses: dict[str, Callable[[list[str]], bool]] = {
        "sqlite": lambda statements: _sqlite_refuses(path, statements),
        "postgresql": lambda statements: _postgres_refuses(url, statements),
    }

    def fitting(kind: str) -> set[str]:
        """What can still be done."""
        known: dict[str, list[list[str]]] = STATEMENTS[kind]
        return {what for what, writes in known.items() if not all(map(refuses[kind], writes))}

    assert all(fitting(kind) >= {"decide", "claim", "purge"} for kind in refuses)
    async with SQLiteStore(path) as file, PostgresStore(url) as server:
        await file.upgrade()
        await server.upgrade()
    assert {kind: fitting(kind) for kind in refuses} == {kind: set() for kind in refuses}
