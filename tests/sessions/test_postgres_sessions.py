"""Sessions in Postgres: what every session must do, and what these do when the server fails them."""

import asyncio
import inspect
import itertools
import multiprocessing
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from assentry import (
    ExactSession,
    InvalidInput,
    PostgresSession,
    Runner,
    RunState,
    SessionFailed,
    UsageError,
    function_tool,
)
from assentry.sessions import postgres_server as room
from assentry.sql.postgres_connection import TRIES
from assentry.testing import ScriptedModel, call, check_session
from tests.runtime.support import HANGS, python, reloaded, scripted, sending, soon
from tests.sessions.test_session_runs import failed, joined, next_run_works, sends, stored
from tests.sessions.test_sessions import said, words
from tests.store.postgres import Server as Started
from tests.store.postgres import postgres as postgres  # one of its own: these tests stop it and change its rules

SECRET = "s3cret-words"


class Server:
    """The server, with its door guarded, and what goes on in it."""

    def __init__(self, started: Started) -> None:
        self.folder, self.start, self.stop = started.folder, started.start, started.stop
        self.url = f"host={self.folder} user=assentry dbname=postgres"
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")
        self.execute("ALTER SYSTEM SET fsync = off")  # no power is cut here
        started.restart()
        self.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'", "CREATE ROLE nobody_special LOGIN")

    def execute(self, *statements: str, url: str | None = None) -> list[Any]:
        """What the last statement gives."""
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def connections(self, name: str) -> list[int]:
        """The backends of the sessions that a url of this name has."""
        found = self.execute(f"SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'")
        return [pid for [pid] in found]

    def terminate(self, name: str) -> None:
        """End them, and see that they are over."""
        query = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '{name}'"
        assert set(self.execute(query)) == {(True,)}


@pytest.fixture(scope="session")  # a module's is made anew where other tests come between these
def server(postgres: Started) -> Server:
    return Server(postgres)


numbers = itertools.count()


@pytest.fixture
def name(server: Server) -> str:
    """A schema of the test's own, and what the server calls its connections."""
    name = f"test_{next(numbers)}"
    server.execute(f"CREATE SCHEMA {name}", f"GRANT USAGE ON SCHEMA {name} TO PUBLIC")
    return name


@pytest.fixture
def url(server: Server, name: str) -> str:
    return f"{server.url} application_name={name} options=-csearch_path={name}"


def program(server: Server, url: str, *statements: str) -> list[Any]:
    """Another program that uses the same tables."""
    return server.execute(*statements, url=f"{url} application_name=other")


async def failing(work: Awaitable[Any], *parts: str) -> str:
    """What the session says when it fails: who it is, what is wrong, and what to do."""
    with pytest.raises(SessionFailed) as caught:
        await soon(work)
    message = str(caught.value)
    assert type(caught.value) is SessionFailed
    assert message.startswith("Session 'user-1' ") and message.endswith(".") and "\n" not in message
    for part in parts:
        assert part in message, message
    return message


def calls(session: PostgresSession) -> dict[str, Callable[[], Awaitable[Any]]]:
    return {
        "add_items": lambda: session.add_items(said("x")),
        "write": lambda: session.write("run", 0, said("x")),
        "pop_item": session.pop_item,
        "clear_session": session.clear_session,
    }


# -- what every session must do --------------------------------------------------------------------


async def test_a_session_in_postgres_does_what_it_must(server: Server, url: str) -> None:
    await check_session(lambda session_id: PostgresSession(session_id, url))
    assert program(server, url, "SELECT count(*) FROM assentry_session_items") == [(0,)], "and leaves nothing behind"


async def test_a_servers_settings_do_not_weaken_it(url: str) -> None:
    weak = "-csynchronous_commit=off -cdefault_transaction_isolation=serializable -cstandard_conforming_strings=off"
    hostile = url.replace("options=", f"options='{weak} ") + "'"
    await check_session(lambda session_id: PostgresSession(session_id, hostile))
    session = PostgresSession("user-1", hostile)
    shown = await session._do(lambda c: c.execute("SHOW synchronous_commit").fetchone())
    assert shown == ("on",), "what was stored outlives a power cut"


async def test_a_server_that_waits_for_its_replicas_is_not_made_to_hurry(url: str) -> None:
    session = PostgresSession("user-1", url.replace("options=", "options='-csynchronous_commit=remote_apply ") + "'")
    assert await session._do(lambda c: c.execute("SHOW synchronous_commit").fetchone()) == ("remote_apply",)


def test_it_is_an_exact_session(url: str) -> None:
    with PostgresSession("user-1", url) as session:
        assert isinstance(session, ExactSession)


async def test_a_conversation_is_found_again_by_another_session_object(url: str) -> None:
    async with PostgresSession("user-1", url) as session:
        await session.add_items(said("hello"))
    async with PostgresSession("user-1", url) as again:
        assert words(await again.get_items()) == ["hello"]


async def test_nothing_is_opened_before_the_first_use(server: Server, url: str, name: str) -> None:
    with PostgresSession("user-1", url) as session:
        assert server.connections(name) == []
        await session.get_items()
        assert len(server.connections(name)) == 1
    with PostgresSession("user-1", "host=/nowhere dbname=nothing"):
        pass


async def test_a_url_is_what_psycopg_or_sqlalchemy_take(server: Server, url: str, name: str) -> None:
    await PostgresSession("user-1", url).add_items(said("hello"))
    for scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        other = f"{scheme}://assentry@/postgres?host={server.folder}&options=-csearch_path%3D{name}"
        assert words(await PostgresSession("user-1", other).get_items()) == ["hello"]


async def test_ids_are_any_text(url: str) -> None:
    ids = ["a", "A", "a ", "a\0b", "a\0", "'; DROP TABLE assentry_session_items; --", "ü", "u\u0308", "%", "%s", "\\0"]
    ids += ["x" * 10_000, "".join(map(chr, range(0x4E00, 0x7000))), "y" * 200, "y" * 201]
    ids.append(PostgresSession("a\0b", url)._key)  # what another id is stored as
    sessions = [PostgresSession(session_id, url) for session_id in ids]
    for session in sessions:
        await session.add_items(said(session.session_id))
        await session.write(session.session_id, 0, said("by a run"))
        await session.write(session.session_id, 0, said("by a run"))
    found = [words(await session.get_items()) for session in sessions]
    assert found == [[each, "by a run"] for each in ids]


async def test_reading_the_latest_looks_at_no_others(server: Server, url: str) -> None:
    await PostgresSession("user-1", url).add_items(said("hello"))
    query = PostgresSession._sql.latest.replace("%s", "'user-1'", 1).replace("%s", "1")
    plan = program(server, url, "SET enable_seqscan = off", "SET enable_bitmapscan = off", f"EXPLAIN {query}")
    text = "\n".join(line for [line] in plan)
    assert "assentry_session_items_of_session" in text and "Sort" not in text


async def test_many_sessions_need_few_connections(server: Server, url: str, name: str) -> None:
    sessions = [PostgresSession(f"user-{n}", url) for n in range(100)]
    await asyncio.gather(*(session.add_items(said("hello")) for session in sessions))
    assert 1 < len(server.connections(name)) <= room.CONNECTIONS
    for session in sessions:
        session.close()


def test_importing_assentry_imports_no_driver() -> None:
    ended = python("import sys, assentry, assentry.testing; assentry.PostgresSession; print('psycopg' in sys.modules)")
    assert ended.stdout.strip() == "False", ended.stderr


def test_without_the_driver_it_says_what_to_install() -> None:
    code = """
        import sys
        sys.modules["psycopg"] = None
        from assentry import PostgresSession, UsageError
        try:
            PostgresSession("user-1", "postgresql://localhost/shop")
        except UsageError as error:
            print(error)
    """
    assert 'pip install ".[postgres]"' in python(inspect.cleandoc(code)).stdout


# -- any loop, any thread, any process -------------------------------------------------------------


def test_a_session_is_used_from_loop_after_loop(url: str) -> None:
    session = PostgresSession("user-1", url)
    for n in range(5):
        asyncio.run(session.add_items(said(f"{n}")))
    assert words(asyncio.run(session.get_items())) == ["0", "1", "2", "3", "4"]
    session.close()


def test_threads_with_loops_of_their_own_share_a_session(url: str) -> None:
    session = PostgresSession("user-1", url)
    begin = threading.Barrier(4)

    async def talk(name: str) -> None:
        begin.wait(HANGS)
        for n in range(10):
            await session.add_items(said(f"{name} {n} a", f"{name} {n} b"))

    threads = [threading.Thread(target=lambda name=f"t{n}": asyncio.run(talk(name))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    found = words(asyncio.run(session.get_items()))
    assert len(found) == 80
    assert all(first[:-1] == second[:-1] for first, second in zip(found[::2], found[1::2], strict=True))
    for name in ("t0", "t1", "t2", "t3"):
        own = [word for word in found if word.startswith(name)]
        assert own == [f"{name} {n} {part}" for n in range(10) for part in "ab"]
    session.close()


async def talk_in_a_process(url: str, name: str) -> None:
    session, tasks, done = (PostgresSession(each, url, timeout=HANGS) for each in ("user-1", "tasks", "done"))
    for n in range(25):
        await session.write("the same run", n, said(f"run {n}"))
        await session.add_items(said(*(f"{name} {n} {part}" for part in "abc")))
    while task := await tasks.pop_item():
        await done.add_items([task])


def process(url: str, name: str, begin: Any) -> None:
    begin.wait(HANGS)
    asyncio.run(talk_in_a_process(url, name))


def test_processes_that_begin_at_once_lose_nothing_and_store_nothing_twice(url: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    begin = spawn.Barrier(4)
    children = [spawn.Process(target=process, args=(url, f"p{n}", begin)) for n in range(3)]
    for child in children:
        child.start()
    begin.wait(HANGS)  # nobody has made the tables yet
    tasks = PostgresSession("tasks", url)
    asyncio.run(tasks.add_items(said(*(f"task {n}" for n in range(100)))))
    for child in children:
        child.join(3 * HANGS)
    assert [child.exitcode for child in children] == [0, 0, 0]
    asyncio.run(talk_in_a_process(url, "p3"))
    found = words(asyncio.run(PostgresSession("user-1", url).get_items()))
    done = words(asyncio.run(PostgresSession("done", url).get_items()))
    assert sorted(done) == sorted(f"task {n}" for n in range(100)), "each was popped by one"
    assert [word for word in found if word.startswith("run")] == [f"run {n}" for n in range(25)]
    for n in range(4):
        own = [word for word in found if word.startswith(f"p{n}")]
        assert own == [f"p{n} {m} {part}" for m in range(25) for part in "abc"]
    for at, word in enumerate(found):
        if word.endswith(" a"):
            assert found[at + 1 : at + 3] == [f"{word[:-1]}b", f"{word[:-1]}c"], "a batch was torn apart"


async def test_a_turn_waits_for_the_turn_that_another_process_is_writing(server: Server, url: str) -> None:
    session = PostgresSession("user-1", url, timeout=HANGS)
    await session.add_items(said("first"))
    with psycopg.connect(f"{url} application_name=other") as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (session._lock,))
        other.execute("INSERT INTO assentry_session_items (session, item) VALUES ('user-1', '{\"content\":\"a\"}')")
        adding = asyncio.ensure_future(session.add_items(said("c")))
        await waits_for_a_lock(server)
        other.execute("INSERT INTO assentry_session_items (session, item) VALUES ('user-1', '{\"content\":\"b\"}')")
        assert words(await session_of_another_line(session, url).get_items()) == ["first"], "reading waits for nobody"
        other.commit()
    await soon(adding)
    assert words(await session.get_items()) == ["first", "a", "b", "c"]


@pytest.mark.parametrize("isolation", ["read\\\\ committed", "repeatable\\\\ read", "serializable"])
async def test_a_turn_that_waited_sees_what_it_waited_for(isolation: str, server: Server, url: str) -> None:
    setting = f"options='-cdefault_transaction_isolation={isolation} "
    session = PostgresSession("user-1", url.replace("options=", setting) + "'", timeout=HANGS)
    await session.add_items(said("first"))
    with psycopg.connect(f"{url} application_name=other") as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (session._lock,))
        writing = asyncio.ensure_future(session.write("run", 0, said("a", "b")))
        await waits_for_a_lock(server)
        other.execute(
            "INSERT INTO assentry_session_items (session, run, position, item)"
            """ VALUES ('user-1', 'run', 0, '{"role":"user","content":"a"}')"""
        )
    await soon(writing)
    assert words(await session.get_items()) == ["first", "a", "b"]


def session_of_another_line(session: PostgresSession, url: str) -> PostgresSession:
    """The same conversation, as another process has it."""
    return PostgresSession(session.session_id, f"{url} connect_timeout=20")


async def waits_for_a_lock(server: Server) -> None:
    """Until a session waits for another's lock."""
    await asyncio.sleep(0)  # its call begins
    until(lambda: server.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


def until(true: Callable[[], Any]) -> None:
    """Look at the server until something is true there, in nobody's way but the loop's."""
    hangs = time.monotonic() + HANGS
    while not true():
        assert time.monotonic() < hangs


async def test_the_loop_goes_on_while_a_session_is_locked(server: Server, url: str) -> None:
    session, other = PostgresSession("user-1", url, timeout=HANGS), PostgresSession("user-2", url)
    assert session._queue is not other._queue, "or this would be about something else"
    await session.add_items(said("first"))
    with psycopg.connect(f"{url} application_name=other") as lock:
        lock.execute("SELECT pg_advisory_xact_lock(%s)", (session._lock,))
        waiting = asyncio.ensure_future(session.add_items(said("second")))
        queued = asyncio.ensure_future(session.add_items(said("third")))
        await waits_for_a_lock(server)
        await soon(other.add_items(said("meanwhile")))
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        assert not waiting.done()
    await soon(waiting)
    assert words(await session.get_items()) == ["first", "second"], "what was cancelled while it waited is not stored"


# -- the server goes away --------------------------------------------------------------------------


async def test_a_connection_that_was_ended_is_made_anew(server: Server, url: str, name: str) -> None:
    session = PostgresSession("user-1", url)
    await session.add_items(said("kept"))
    for work, expected in (
        (session.get_items, ["kept"]),
        (lambda: session.add_items(said("a")), ["kept", "a"]),
        (lambda: session.write("run", 0, said("b")), ["kept", "a", "b"]),
        (session.pop_item, ["kept", "a"]),
        (session.clear_session, []),
    ):
        server.terminate(name)
        await work()  # type: ignore[operator]
        assert words(await session.get_items()) == expected
    assert len(server.connections(name)) == 1


async def test_a_connection_that_ends_in_the_middle_leaves_nothing_and_is_made_anew(url: str, name: str) -> None:
    session = PostgresSession("user-1", url)
    tries: list[int] = []

    def work(connection: Any) -> None:
        connection.execute(
            "INSERT INTO assentry_session_items (session, item) VALUES ('user-1', '{\"content\":\"x\"}')"
        )
        tries.append(1)
        if len(tries) <= times:
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    times = 1
    await session._do(work)
    assert (words(await session.get_items()), len(tries)) == (["x"], 2)
    tries, times = [], TRIES
    await failing(session._do(work), "shutting down", "Try again", "Nothing was changed")
    assert (words(await session.get_items()), len(tries)) == (["x"], TRIES), "it is not tried for ever"


class Proxy:
    """Stands between a session or a store and the server, and can lose the answer to a COMMIT."""

    commits: tuple[bytes, ...] = (b"COMMIT\0",)
    """What ends a transaction."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._target = str(server.folder / ".s.PGSQL.5432")
        self._folder = folder
        self.loses = 0
        """How many answers are lost from now on."""
        self.refuses = False
        """Whether there is no server for anybody who comes now."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        return f"{url} host={self._folder}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
            else:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(self._target)
            answers = threading.Thread(target=self._copy, args=(upstream, client), daemon=True)
            lost = False
            answers.start()
            while not lost and (data := client.recv(65536)):
                lost = self.loses > 0 and any(text in data for text in self.commits)
                if lost:
                    self.loses -= 1
                    client.shutdown(socket.SHUT_RDWR)  # whoever waits for the answer never has it
                upstream.sendall(data)
            if lost:
                upstream.shutdown(socket.SHUT_WR)  # the server reads to the end, and so commits
            else:
                upstream.shutdown(socket.SHUT_RDWR)
            answers.join(HANGS)

    def _copy(self, upstream: socket.socket, client: socket.socket) -> None:
        try:
            while data := upstream.recv(65536):
                client.sendall(data)
        except OSError:
            while upstream.recv(65536):
                pass


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    folder = Path(tempfile.mkdtemp(prefix="assentry-px-", dir="/tmp"))
    made = Proxy(server, folder)
    yield made
    made.close()
    shutil.rmtree(folder)


async def test_a_turn_whose_commit_was_not_answered_is_stored_once(proxy: Proxy, url: str) -> None:
    session = PostgresSession("user-1", proxy.url(url))
    await session.write("run", 0, said("a"))
    proxy.loses = 1
    await soon(session.write("run", 1, said("b", "c")))
    assert proxy.loses == 0
    assert words(await session.get_items()) == ["a", "b", "c"]
    proxy.loses = 2
    await failing(session.write("run", 3, said("d")), "not known whether", "look at what is there")
    await session.write("run", 3, said("d"))
    assert words(await session.get_items()) == ["a", "b", "c", "d"]
    proxy.loses, proxy.refuses = 1, True
    await failing(session.write("run", 4, said("e")), "not known whether", "may just be resumed")
    proxy.refuses = False
    await over(session)
    assert words(await session.get_items()) == ["a", "b", "c", "d", "e"]


async def test_an_answer_that_is_lost_is_told_and_never_tried_again_on_its_own(proxy: Proxy, url: str) -> None:
    session = PostgresSession("user-1", proxy.url(url))
    await session.add_items(said("a", "b"))
    proxy.loses = 1
    await failing(session.add_items(said("c")), "not known whether", "look at what is there")
    await over(session)
    assert words(await session.get_items()) == ["a", "b", "c"], "it was stored, and once"
    proxy.loses = 1
    await failing(session.pop_item(), "not known whether")
    await over(session)
    assert words(await session.get_items()) == ["a", "b"]
    proxy.loses = 1
    assert words(await session.get_items()) == ["a", "b"], "reading changes nothing, so it is just done again"
    assert proxy.loses == 0


async def over(session: PostgresSession) -> None:
    """Wait until whoever had the session's lock has let it go: the server is done with what nobody heard of."""
    await session._do(lambda connection: None)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_was_restarted_is_found_again(server: Server, url: str, mode: str) -> None:
    session = PostgresSession("user-1", url)
    await session.write("run", 0, said("a"))
    server.stop(mode)
    server.start()
    await session.write("run", 1, said("b"))
    assert words(await session.get_items()) == ["a", "b"]


async def test_a_server_that_is_gone_says_so_until_it_is_back(server: Server, url: str) -> None:
    session = PostgresSession("user-1", url)
    await session.add_items(said("a"))
    server.stop("fast")
    try:
        for work in (session.get_items, *calls(session).values(), *calls(PostgresSession("user-1", url)).values()):
            await failing(work(), f"host={server.folder}", "cannot be reached", "See that it runs", "try again")
    finally:
        server.start()
    await session.add_items(said("b"))
    assert words(await session.get_items()) == ["a", "b"]


async def test_a_run_whose_server_stops_in_the_middle_goes_on_when_it_is_back(server: Server, url: str) -> None:
    session = PostgresSession("one", url)
    ran: list[int] = []

    @function_tool
    async def stop() -> str:
        ran.append(1)
        server.stop("fast")
        return "stopped"

    send, sent = sending()
    agent = scripted(sends("ann"), call("stop", call_id="stop"), "done", tools=[send, stop])
    try:
        error = await failed(Runner.run(agent, "go", session=session), SessionFailed)
        assert "cannot be reached" in str(error)
    finally:
        server.start()
    assert await stored(session) == ["go", "call ann", "out ann"]
    result = await Runner.run(agent, await reloaded(agent, error.state), session=session)
    assert result.final_output == "done"
    assert await stored(session) == ["go", "call ann", "out ann", "call stop", "out stop", "> done"]
    assert (sent, ran) == ([("ann", 1)], [1])
    await next_run_works(session)


# -- storing once ----------------------------------------------------------------------------------


def test_a_crash_between_writing_and_knowing_it_stores_nothing_twice(url: str) -> None:
    code = """
        import asyncio, os
        from assentry import PostgresSession

        async def main():
            items = [{"role": "user", "content": word} for word in ("a", "b")]
            await PostgresSession("user-1", URL).write("run", 0, items)
            os._exit(9)

        asyncio.run(main())
    """
    ended = python(f"URL = {url!r}\n" + inspect.cleandoc(code))
    assert ended.returncode == 9, ended.stderr
    session = PostgresSession("user-1", url)
    asyncio.run(session.write("run", 0, said("a", "b")))
    asyncio.run(session.write("run", 2, said("c")))
    assert words(asyncio.run(session.get_items())) == ["a", "b", "c"]
    session.close()


class Died(Exception):
    """Stands for the end of a process."""


class Mortal(PostgresSession):
    """A session whose process dies after so many writes."""

    writes = 1000

    async def write(self, run_id: str, position: int, items: list[Any]) -> None:
        await super().write(run_id, position, items)
        self.writes -= 1
        if not self.writes:
            raise Died


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_a_run_that_is_resumed_after_a_crash_stores_nothing_twice(writes: int, url: str) -> None:
    session = Mortal("user-1", url)
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    agent = scripted(sends("ann"), sends("bob"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    saved = state.to_string()
    session.writes = writes
    await failed(Runner.run(agent, state, session=session), Died)
    kept = [["go", "call ann", "out ann"], ["call bob", "out bob"], ["> done"]]
    assert await stored(session) == joined(kept[:writes])
    agent.model = ScriptedModel([sends("bob"), "done"])
    again = PostgresSession("user-1", url)
    assert (await Runner.run(agent, await RunState.from_string(agent, saved), session=again)).final_output == "done"
    assert await stored(again) == joined(kept)
    await next_run_works(again)


async def test_a_run_that_takes_another_course_after_a_crash_leaves_one_history(url: str) -> None:
    session = PostgresSession("user-1", url)
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    agent = scripted(sends("ann"), sends("bob", "eve"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    saved = state.to_string()
    await Runner.run(agent, state, session=session)
    agent.model = ScriptedModel([sends("cid"), "so"])
    await Runner.run(agent, await RunState.from_string(agent, saved), session=session)
    assert await stored(session) == ["go", "call ann", "out ann", "call cid", "out cid", "> so"]
    await next_run_works(session)


# -- trouble ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["add_items", "write", "pop_item", "clear_session"])
async def test_a_locked_session_changes_nothing_and_works_when_it_is_free(which: str, url: str) -> None:
    session = PostgresSession("user-1", url, timeout=0.001)
    await PostgresSession("user-1", url).add_items(said("kept"))
    with psycopg.connect(f"{url} application_name=other") as lock:
        lock.execute("SELECT pg_advisory_xact_lock(%s)", (session._lock,))
        await failing(calls(session)[which](), "locked", "Nothing was changed", "longer timeout")
        assert words(await session.get_items()) == ["kept"], "reading waits for nobody"
    session = PostgresSession("user-1", url)
    await calls(session)[which]()
    assert words(await session.get_items()) == (["kept", "x"] if which in ("add_items", "write") else [])


async def test_a_failure_in_the_middle_stores_nothing_and_locks_nobody_out(server: Server, url: str) -> None:
    session = PostgresSession("user-1", url)
    await session.write("run", 0, said("first", "second"))
    program(
        server,
        url,
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF NEW.item LIKE '%poison%' THEN RAISE 'no poison'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER no BEFORE INSERT ON assentry_session_items FOR EACH ROW EXECUTE FUNCTION no()",
    )
    await failing(session.add_items(said("third", "poison")), "no poison", "Nothing was changed")
    await failing(session.write("run", 1, said("another", "poison")), "no poison")
    assert words(await session.get_items()) == ["first", "second"], "nor was anything replaced"
    program(server, url, "DROP TRIGGER no ON assentry_session_items")
    await session.write("run", 1, said("another", "poison"))
    assert words(await session.get_items()) == ["first", "another", "poison"]


REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "a wrong password": ("user=guarded password=wrong-words", ("does not let this user in", "in the address")),
    "no password": ("user=guarded", ("does not let this user in", "in the address")),
    "no such database": ("dbname=nothing", ("no such database", "Create it", "dbname=nothing")),
    "no such user": ("user=nobody_at_all", ("no such user", "Create it")),
    "no such server": ("host=/nowhere", ("cannot be reached", "See that it runs", "host=/nowhere")),
    "nobody listens": ("host=127.0.0.1 port=1", ("cannot be reached", "port=1")),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_server_that_cannot_be_used_says_why(what: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    given, parts = REFUSED[what]
    session = PostgresSession("user-1", f"{url} {given}")
    for work in (session.get_items, *calls(session).values()):
        message = await failing(work(), "Postgres host=", *parts)
        assert "wrong-words" not in message
    session.close()


async def test_a_password_is_used_and_never_shown(server: Server, url: str, name: str) -> None:
    server.execute(f"GRANT CREATE ON SCHEMA {name} TO guarded")
    session = PostgresSession("user-1", f"{url} user=guarded password={SECRET}")
    await session.add_items(said("x"))
    assert "user=guarded" in repr(session) and SECRET not in repr(session)
    program(server, url, "UPDATE assentry_session_items SET item = '{'")
    assert SECRET not in await failing(session.get_items(), "damaged")
    for bad in (f"postgresql://assentry:{SECRET}@[host/x", f"password={SECRET} nonsense", f"what={SECRET}"):
        with pytest.raises(UsageError, match="url") as caught:
            PostgresSession("user-1", bad)
        assert SECRET not in str(caught.value)


async def test_a_user_who_may_not_is_told_what_to_grant(server: Server, url: str, name: str) -> None:
    session = PostgresSession("user-1", f"{url} user=nobody_special")
    await failing(session.add_items(said("x")), "may not", "Grant", "create tables")
    await PostgresSession("user-1", url).add_items(said("x"))
    await failing(session.get_items(), "may not", "read and write")
    server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO nobody_special")
    assert words(await session.get_items()) == ["x"]
    await failing(session.add_items(said("y")), "may not", "Nothing was changed")


async def test_a_server_that_may_only_be_read_is_read(url: str) -> None:
    await PostgresSession("user-1", url).add_items(said("x"))
    session = PostgresSession("user-1", url.replace("options=", "options='-cdefault_transaction_read_only=on ") + "'")
    assert words(await session.get_items()) == ["x"]
    await failing(session.add_items(said("y")), "may only be read", "Nothing was changed")


async def test_a_database_that_cannot_hold_all_text_is_refused(server: Server, url: str) -> None:
    server.execute("CREATE DATABASE narrow ENCODING SQL_ASCII TEMPLATE template0")
    session = PostgresSession("user-1", f"{server.url} dbname=narrow")
    await failing(session.get_items(), "SQL_ASCII", "UTF8")


async def test_removed_tables_are_told_to_each_session_and_then_made_anew(server: Server, url: str) -> None:
    session, other, late = (PostgresSession(each, url) for each in ("user-1", "user-1", "user-2"))
    await session.write("run", 0, said("a"))
    await other.get_items()
    program(server, url, "DROP TABLE assentry_session_items, assentry_session_schema")
    await failing(session.write("run", 1, said("b")), "removed", "call again")
    there = "SELECT to_regclass('assentry_session_items')"
    assert program(server, url, there) == [(None,)], "nothing is made before somebody has been told"
    await session.write("run", 1, said("b"))
    assert words(await session.get_items()) == ["b"]
    await failing(other.get_items(), "removed or replaced")
    assert words(await other.get_items()) == ["b"]
    assert await late.get_items() == [], "it never knew the others"


DAMAGED: dict[str, tuple[str, tuple[str, ...]]] = {
    "no items": ("DROP TABLE assentry_session_items", ("not what they should be", "restore")),
    "no column": ("ALTER TABLE assentry_session_items DROP COLUMN item", ("not what they should be", "restore")),
    "no version": ("DELETE FROM assentry_session_schema", ("is empty", "Restore")),
    "a later version": (
        "UPDATE assentry_session_schema SET version = 99",
        ("schema version 99", "Assentry that made it"),
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
async def test_damaged_tables_are_refused_and_left_as_they_are(what: str, server: Server, url: str) -> None:
    old = PostgresSession("user-1", url)
    await old.add_items(said("x"))
    damage, parts = DAMAGED[what]
    program(server, url, damage)
    for session in (old, PostgresSession("user-1", url)):
        for work in (session.get_items, lambda session=session: session.add_items(said("y"))):
            await failing(work(), *parts)


async def test_tables_of_another_program_are_refused_and_left_as_they_are(server: Server, url: str) -> None:
    program(server, url, "CREATE TABLE assentry_session_items (x TEXT)")
    session = PostgresSession("user-1", url)
    for work in (session.get_items, *calls(session).values()):
        await failing(work(), "another program", "left as it is", "another database", "search_path")
    assert program(server, url, "SELECT * FROM assentry_session_items") == []
    assert program(server, url, "SELECT to_regclass('assentry_session_schema')") == [(None,)]
    program(server, url, "DROP TABLE assentry_session_items")
    await session.add_items(said("x"))
    assert words(await session.get_items()) == ["x"]


@pytest.mark.parametrize("damage", ["{", "[1]", "", '{"a": NaN}', "5"])
async def test_a_damaged_row_is_named(damage: str, server: Server, url: str) -> None:
    session, other = PostgresSession("user-1", url), PostgresSession("user-2", url)
    await other.add_items(said("other"))
    await session.add_items(said("a", "b", "c"))
    program(server, url, f"UPDATE assentry_session_items SET item = '{damage}' WHERE seq = 3")
    await failing(session.get_items(), "row 3 of assentry_session_items", "damaged", "clear the session")
    assert words(await session.get_items(1)) == ["c"]
    assert words([await session.pop_item() or {}]) == ["c"]
    await failing(session.pop_item(), "row 3")
    await failing(session.get_items(1), "row 3")
    assert words(await other.get_items()) == ["other"]
    program(server, url, "DELETE FROM assentry_session_items WHERE seq = 3")
    assert words(await session.get_items()) == ["a"]


# -- closing ---------------------------------------------------------------------------------------


async def test_a_closed_session_says_so_and_lets_go(server: Server, url: str, name: str) -> None:
    session = PostgresSession("user-1", url)
    await session.add_items(said("x"))
    session.close()
    session.close()
    for work in (session.get_items, *calls(session).values()):
        await failing(work(), "closed", "Make a new one")
    none_left(server, name)
    assert words(await PostgresSession("user-1", url).get_items()) == ["x"]


def none_left(server: Server, name: str) -> None:
    """The server takes a moment to notice that somebody has left."""
    until(lambda: not server.connections(name))


async def test_closing_one_session_leaves_the_others_of_its_line(server: Server, url: str, name: str) -> None:
    one, other = PostgresSession("user-1", url), PostgresSession("user-1", url)
    assert one._shared is other._shared
    await one.add_items(said("x"))
    before = server.connections(name)
    async with one:
        pass
    assert words(await other.get_items()) == ["x"]
    assert server.connections(name) == before
    with other:
        pass
    none_left(server, name)


async def test_closing_waits_for_what_was_begun(url: str) -> None:
    session = PostgresSession("user-1", url)
    adding = [asyncio.ensure_future(session.add_items(said(f"{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    session.close()
    await soon(asyncio.gather(*adding))
    assert len(await PostgresSession("user-1", url).get_items()) == 20


async def test_a_session_that_nobody_closes_is_closed_when_it_is_forgotten(server: Server, url: str, name: str) -> None:
    session = PostgresSession("user-1", url)
    await session.add_items(said("x"))
    session._queue.wait(lambda: None)  # and so the thread is done with the one before
    del session
    none_left(server, name)


def test_a_session_can_be_used_while_the_interpreter_goes_down(url: str) -> None:
    code = """
        import asyncio, atexit
        from assentry import PostgresSession

        session = PostgresSession("user-1", URL)

        @atexit.register
        def last_words():
            asyncio.run(session.add_items([{"content": "bye"}]))
            session.close()

        asyncio.run(session.add_items([{"content": "hello"}]))
    """
    ended = python(f"URL = {url!r}\n" + inspect.cleandoc(code))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert words(asyncio.run(PostgresSession("user-1", url).get_items())) == ["hello", "bye"]


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [[{"content": object()}], [{"content": "\ud800"}], ["text"], "text", None, [{1: 2}]])
async def test_what_is_not_json_is_refused_and_nothing_is_stored(items: Any, url: str) -> None:
    session = PostgresSession("user-1", url)
    given = [*said("good"), *items] if isinstance(items, list) else items
    for work in (session.add_items(given), session.write("run", 0, given)):
        with pytest.raises(InvalidInput, match="Nothing was stored"):
            await work
    assert await session.get_items() == []


async def test_limits_and_positions_are_whole_numbers(url: str) -> None:
    session = PostgresSession("user-1", url)
    await session.write("run", 2**63 - 3, said("a", "b"))
    for bad in (-1, True, 1.0, "3"):
        with pytest.raises(UsageError, match="limit must be a whole number"):
            await session.get_items(bad)  # type: ignore[arg-type]
    for bad in (-1, None, 1.5, True, 2**63, 2**80):
        with pytest.raises(UsageError, match="position"):
            await session.write("run", bad, said("x"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="run_id must be text"):
        await session.write("", 0, said("x"))
    assert words(await session.get_items(10**30)) == ["a", "b"]
    assert await session.get_items(0) == []


@pytest.mark.parametrize("bad", ["", None, 5, b"postgresql://", "nonsense", "http://example.com/", "postgresql://["])
def test_a_url_is_a_url(bad: Any) -> None:
    with pytest.raises(UsageError, match="url"):
        PostgresSession("user-1", bad)


@pytest.mark.parametrize("bad", [0, -1, None, "5", True, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(bad: Any) -> None:
    with pytest.raises(UsageError, match="timeout"):
        PostgresSession("user-1", "dbname=shop", timeout=bad)


@pytest.mark.parametrize("bad", ["", None, 5, b"user", "\ud800"])
def test_a_sessions_id_is_text(bad: Any) -> None:
    with pytest.raises(UsageError, match="session_id must be text"):
        PostgresSession(bad, "dbname=shop")
