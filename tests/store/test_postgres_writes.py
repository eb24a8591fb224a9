"""Changes that are written to Postgres in a pipelined transaction: what they leave, and what can happen meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import signal
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from assentry.approval.foreign_call import CallRequest
from assentry.core import facts as f
from assentry.core.codec import replay
from assentry.core.facts import AnyFact
from assentry.core.run import Run
from assentry.errors import AssentryError, LeaseLost, Overtaken, RunBusy, RunFinished, RunNotFound, StoreFailed
from assentry.runtime.sync import block
from assentry.store import Change, Lease, PostgresStore, SavedContext, SQLiteStore
from assentry.store.calls import ask_about_call, look_at_call
from assentry.store.row_codec import LARGE
from assentry.store.sql import postgres_server
from assentry.store.sql.schema import metadata
from assentry.testing import FakeClock
from tests.runtime.support import soon
from tests.store.postgres import Server
from tests.store.support import Script, asked, at_once, began, change_for, ended, js, replied, said, waiting
from tests.store.test_postgres import cut, made


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


Tables = dict[str, list[list[Any]]]


def tables(connection: psycopg.Connection[Any] | sqlite3.Connection) -> Tables:
    """All that is stored, with the ids of the runs instead of their numbers: those are dealt out by the server."""
    ids = dict(connection.execute("SELECT id, run FROM assentry_runs").fetchall())
    found: Tables = {}
    for table in metadata.sorted_tables:
        names = ", ".join(f'"{column.name}"' for column in table.c)
        rows = [list(row) for row in connection.execute(f"SELECT {names} FROM {table.name}").fetchall()]
        number = "id" if table.name == "assentry_runs" else "run"
        if number in table.c:
            place = list(table.c.keys()).index(number)
            for row in rows:
                row[place] = ids[row[place]]
        found[table.name] = sorted(rows, key=str)
    return found


@contextmanager
def behind(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection behind the store's back."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


# -- the same as in an SQLite file ---------------------------------------------------------------------

TEXTS = ["", "plain", "żółć 漢字 \U0001f680", "back\\slash \"quotes\" 'single' {braces} $1 %s :run::text"]


class Drawn:
    """Changes made up by chance: ordinary ones, odd ones, and some that must be refused."""

    def __init__(self, seed: int, clock: FakeClock) -> None:
        self.random, self.clock = random.Random(seed), clock
        self.facts: dict[str, list[AnyFact]] = {}
        self.fences: dict[str, int] = {}
        self.names = itertools.count(1)

    def draw(self) -> Change:
        self.clock.advance(self.random.choice([0, 0, 1, 20]))
        if not self.facts or self.random.random() < 0.2:
            return self._new()
        return self._next(self.random.choice(list(self.facts)))

    def written(self, change: Change) -> None:
        """It was, so what follows is drawn from there."""
        run = change.record.id
        self.facts[run] = [*self.facts.get(run, []), *change.facts]
        if change.lease is not None:
            self.fences[run] = change.lease.fence

    def _new(self) -> Change:
        id = self.random.choice([*self.facts, f"r{next(self.names)}"][-2:])
        lease = self.random.choice([None, Lease(id, self._worker(), self.random.choice([1, 1, 7]))])
        first = f.Began(self._text() or "a", 99, id, at=self._now(), stored=True, thread=self._text() or None)
        return change_for(Run(), [first, said(self._text())], at=self.clock(), lease=lease, **self._more(lease))

    def _next(self, id: str) -> Change:
        facts = self.facts[id]
        run = replay(facts)
        fence = self.fences.get(id, 0)
        take = self.random.random() < 0.4
        wrong = self.random.choice([0, 0, 0, 0, 0, 0, 1, -1])
        lease = Lease(id, self._worker(), fence + take + wrong) if self.random.random() < 0.6 else None
        change = change_for(
            run, self._facts(run), seq=len(facts), at=self.clock(), lease=lease, take=take, **self._more(lease)
        )
        change.seq += self.random.choice([0] * 12 + [1, -1])
        return change

    def _facts(self, run: Run) -> list[AnyFact]:
        at = self._now() - (run.began.at if run.began is not None else 0)
        name = f"{run.id}_{next(self.names)}"
        open_ = [(call, state.question.id) for call, state in run.open.items() if state.question is not None]
        drawn = self.random.random()
        if drawn < 0.15:
            return []
        if drawn < 0.3:
            return [f.Said(js("x" * self.random.choice([5, LARGE, 3 * LARGE])), at=at)] * self.random.choice([1, 2])
        if open_ and drawn < 0.6:
            return [f.Refused(open_[0][0], "ann", open_[0][1], at=at), f.Told(open_[0][0], at=at)]
        call, before = open_[0] if open_ else (f"c{name}", None)
        ask = f.Asked(
            call,
            self._question(run, name),
            self._text(),
            "0" * 64,
            at=at,
            prompt=js({"a": self._text()}),
            replaces=before,
        )
        facts: list[AnyFact] = [ask] if open_ else [replied(call), ask]
        if drawn > 0.9:
            facts += [f.Refused(call, "ann", ask.id, at=at), f.Told(call, at=at)]
        elif drawn > 0.85:
            facts.append(f.Granted(f"g{name}", "a", "send", "approve", "ann", at=at))
        return facts

    def _question(self, run: Run, name: str) -> str:
        return "taken" if self.random.random() < 0.1 and "taken" not in run.asked else f"q_{name}"

    def _more(self, lease: Lease | None) -> dict[str, Any]:
        contexts = [None, None, SavedContext(), SavedContext(b"\0{}", "dict"), SavedContext(None, "left_out")]
        more: dict[str, Any] = {"context": self.random.choice(contexts)}
        more["release"] = lease is not None and self.random.random() < 0.3
        more["hold"] = self.random.choice([None, 10.0, 0.5])
        if self._rarely():
            more["definitions"] = {self.random.choice("abc") * 32: b"{}"}
        return more

    def _worker(self) -> str:
        return self.random.choice(["w1", "w1", "w1", "w2"])

    def _text(self) -> str:
        return self.random.choice(TEXTS)

    def _rarely(self) -> bool:
        return self.random.random() < 0.04

    def _now(self) -> int:
        return int(self.clock() * 1000)


async def outcome(work: Coroutine[Any, Any, Any]) -> Any:
    """What it gives, or what it raises."""
    try:
        return await work
    except AssentryError as error:
        return type(error), str(error).split(":")[0], getattr(error, "unknown", None)


@pytest.mark.parametrize("seed", range(6))
async def test_a_change_leaves_what_it_leaves_in_an_sqlite_file(url: str, tmp_path: Path, seed: int) -> None:
    clock = FakeClock()
    drawn, written = Drawn(seed, clock), 0
    async with made(url, clock=clock) as one, SQLiteStore(tmp_path / "runs.db", clock=clock) as other:
        await asyncio.gather(one.upgrade(), other.upgrade())
        with behind(url) as ones, closing(sqlite3.connect(tmp_path / "runs.db")) as others:
            for _ in range(50):
                change = drawn.draw()
                end = await outcome(one.append(change))
                assert end == await outcome(other.append(change))
                assert tables(ones) == tables(others)
                assert one._wakeup._rung == other._wakeup._rung
                if end is None:
                    drawn.written(change)
                    written += 1
                for run in (change.record.id, "no"):
                    after = drawn.random.choice([0, 0, 1, 3])
                    assert await outcome(one.read(run, after)) == await outcome(other.read(run, after))
                thread = change.record.thread or "none"
                assert await one.newest(thread) == await other.newest(thread)
    assert 8 < written < 50, "many were written, and some refused"


class Relay:
    """Stands between a store and its server, and counts the roundtrips."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.trips = 0
        self._last = "answer"
        self._server = server
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / server.name))
        self._listener.listen()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        self._listener.close()

    def _start(self, work: Callable[..., None], *given: Any) -> None:
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                for pair in ((client, server, "request"), (server, client, "answer")):
                    self._start(self._pass, *pair)

    def _pass(self, source: socket.socket, to: socket.socket, what: str) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    self.trips += what == "request" and self._last == "answer"
                    self._last = what
                to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)
        source.close()


async def test_a_change_takes_two_roundtrips_and_one_more_if_it_asks(
    postgres: Server, url: str, request: pytest.FixtureRequest
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="assentry-relay-", dir="/tmp"))  # a socket's path must be short
    request.addfinalizer(lambda: shutil.rmtree(folder))
    [socket_file] = [path for path in postgres.folder.glob(".s.PGSQL.*") if path.suffix != ".lock"]
    relay = Relay(folder, socket_file)
    request.addfinalizer(relay.close)
    async with made(url.replace(str(postgres.folder), str(folder)), pool_size=1) as store:
        await Script(store, "r0").begin()  # the clock was read, and the tables were looked at
        script, took = Script(store), []

        async def write(*facts: AnyFact, **more: Any) -> None:
            before = relay.trips
            await script.write(*facts, **more)
            took.append(relay.trips - before)

        lease = Lease("r1", "w", 2)
        first = f.Began("helper", 9, "r1", stored=True, thread="t", at=int(store.clock() * 1000))
        await write(first, said(), lease=Lease("r1", "w", 1), release=True, context=SavedContext(b"{}", "dict"))
        await write(replied("c1"), asked("c1", "q1"), lease=lease, take=True, hold=9, context=SavedContext())
        await write(f.Approved("c1", "ann", "q1"))
        await write(f.Started("c1"), f.Finished("c1", js("x" * 2 * LARGE)), lease=lease, hold=9)
        await write(lease=lease, release=True)
    assert took == [2, 3, 2, 2, 2]


async def test_a_run_of_many_facts_is_read_whole(url: str) -> None:
    async with made(url) as store:
        script = await Script(store).begin(context=SavedContext(b"{}", "dict"))
        for _ in range(4):
            await script.write(*(f.Said(js(f"{number} " + "x" * 500)) for number in range(1000)))
        stored = await store.read("r1")
        assert len(stored.facts) == 4002
        assert (await store.read("r1", 4000)).facts == stored.facts[4000:]


# -- what is out of the ordinary -----------------------------------------------------------------------


async def _evidence(script: Script) -> None:
    change = script.change(f.Cancelled("ann"))
    change.evidence = {"q_r1": ()}
    await script.store.append(change)


ODD: dict[str, Callable[[Script], Coroutine[Any, Any, Any]]] = {
    "evidence": _evidence,
    "a grant": lambda script: script.write(f.Granted("g", "helper", "send", "approve", "ann")),
    "a new definition": lambda script: script.write(f.Cancelled("ann"), definitions={"d" * 32: b"{}"}),
    "a zero in a worker's name": lambda script: script.write(
        lease=Lease("r1", "w\0", script.fence + 1), take=True, hold=9
    ),
    "a zero in what is shown": lambda script: script.write(
        f.Asked("c1", "q2", "a\0b", "0" * 64, replaces="q_r1"), f.Cancelled("ann")
    ),
}


@pytest.mark.parametrize("kind", ODD)
async def test_what_is_out_of_the_ordinary_is_written_whole(url: str, kind: str) -> None:
    async with made(url) as store:
        script = await waiting(store)
        await ODD[kind](script)
        await script.write(f.Said(js("more")))
        assert len((await store.read("r1")).facts) == script.seq


async def test_a_session_that_does_not_write_by_itself_is_told_to(url: str) -> None:
    async with made(url) as store:
        script = await Script(store).begin()
    async with PostgresStore(url.replace("options=", "options=-cdefault_transaction_read_only%3Don%20")) as store:
        script.store = store
        await script.write(f.Cancelled("ann"))
        assert len((await store.read("r1")).facts) == 3


async def test_texts_are_the_same_whatever_encoding_a_session_begins_with(url: str) -> None:
    async with PostgresStore(url + "&client_encoding=LATIN1", upgrade=True) as store:
        script = await Script(store, agent="żółć").begin()
        await script.write(replied("c1"), asked("c1", "q1", why="漢字"))
        assert (await store.read("r1")).record.agent == "żółć"
        assert (await store.question("q1")).reason == "漢字"
    async with PostgresStore(url) as store:
        assert (await store.question("q1")).reason == "漢字"


async def test_statements_that_a_connection_has_forgotten_are_sent_whole_again(url: str) -> None:
    async with made(url, pool_size=1) as store:
        script = await Script(store).begin()
        for _ in range(8):  # psycopg prepares what is said often
            await script.write(f.Said(js("more")))
        assert await _prepared(store)
        await store._read(lambda transaction: transaction.connection.pgconn.exec_(b"DEALLOCATE ALL"))
        for _ in range(8):
            await script.write(f.Said(js("more")))
        assert len((await store.read("r1")).facts) == script.seq


async def test_a_statement_that_others_have_prepared_on_the_connection_is_sent_whole(url: str) -> None:
    """A pooler gives one connection of the server's to several of ours, one after another."""
    async with made(url, pool_size=1) as store:
        script = await Script(store).begin()
        for number in range(40):
            prepare = f"PREPARE _pg3_{number} AS SELECT {number}".encode()
            await store._read(lambda transaction, text=prepare: transaction.connection.pgconn.exec_(text))
        for _ in range(8):
            await script.write(f.Said(js("more")))
        assert len((await store.read("r1")).facts) == script.seq


async def _prepared(store: PostgresStore) -> set[str]:
    """The statements that are prepared on the store's connection."""

    def look(transaction: Any) -> set[str]:
        return {row[0] for row in transaction.connection.execute("SELECT name FROM pg_prepared_statements").fetchall()}

    return await store._read(look)


async def test_what_is_refused_leaves_all_statements_known(url: str) -> None:
    async with made(url, pool_size=1) as store:
        script = await Script(store).begin()
        for _ in range(8):
            await script.write(f.Said(js("more")))
        before = await _prepared(store)
        for _ in range(8):
            with pytest.raises(Overtaken):
                await store.append(change_for(replay([began()]), [said()], seq=1))
            await script.write(f.Said(js("more")))
        assert before <= await _prepared(store)


async def _refused(store: PostgresStore, url: str, change: Change, error: type[Exception], words: str) -> None:
    with behind(url) as connection:
        before = tables(connection)
        with pytest.raises(error, match=words):
            await store.append(change)
        assert tables(connection) == before


async def test_what_must_be_refused_is_refused_for_its_reason_and_nothing_is_written(url: str) -> None:
    async with made(url, clock=FakeClock()) as store:
        await waiting(store, "other")
        script = await Script(store).begin(lease=Lease("r1", "w1", 1), hold=60)
        facts, context = [replied("c1"), asked("c1", "q1")], SavedContext(b"{}", "dict")
        held = Lease("r1", "w1", 1)

        def change(**more: Any) -> Change:
            run = replay([began(), said()])
            made = change_for(run, facts, seq=2, at=store.clock(), context=context, lease=held)
            for name, value in more.items():
                setattr(made, name, value)
            return made

        taken = change_for(replay([began(), said()]), [replied("c1"), asked("c1", "q_other")], seq=2, lease=held)
        twice = change()
        twice.asked = [*twice.asked, *twice.asked]
        for wrong in (taken, twice):
            await _refused(store, url, wrong, StoreFailed, "There is a question 'q.*' already; nothing was written")
        again = change_for(Run(), [began(), said()], context=context)
        await _refused(store, url, again, Overtaken, "has 2 facts, not 0")
        await _refused(store, url, change(seq=1), Overtaken, "has 2 facts, not 1")
        await _refused(store, url, change(lease=Lease("r1", "w1", 2)), LeaseLost, "not 'w1''s any more")
        await _refused(store, url, change(lease=Lease("r1", "w2", 1)), LeaseLost, "not 'w2''s any more")
        await _refused(store, url, change(lease=Lease("r1", "w2", 2), take=True), RunBusy, "driven by 'w1'")
        await _refused(store, url, change(lease=Lease("r1", "w1", 3), take=True), Overtaken, "taken by others")
        await _refused(store, url, change(lease=None), LeaseLost, "Replied is recorded by whoever drives run 'r1'")
        missing = change_for(replay([began("no"), said()]), facts, seq=2)
        await _refused(store, url, missing, RunNotFound, "no run 'no'")
        script = await ended(store, "old")
        await store.erase("old")
        await _refused(store, url, script.change(f.Said(js("more"))), RunFinished, "was erased")


async def test_a_run_that_was_made_anew_under_its_old_id_is_not_taken_for_the_one_before(url: str) -> None:
    clock = FakeClock()
    async with made(url, clock=clock) as store, PostgresStore(url, clock=clock) as other:
        await ended(store)
        clock.advance(9)
        assert await other.purge(unchanged_for=1) == 1
        again = await ended(other)
        with pytest.raises(Overtaken):
            await store.append(change_for(Run(), [began(), said()], at=clock()))
        again.store = store
        await again.write(f.Said(js("more")))
        assert len((await store.read("r1")).facts) == 5


# -- at the same moment --------------------------------------------------------------------------------


@asynccontextmanager
async def meanwhile(url: str, statements: list[str]) -> AsyncIterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Lets something begin while a transaction that did this holds the run, and end when that is committed."""
    with psycopg.connect(url) as holder:
        for text in statements:
            holder.execute(text)

        async def runs_into(work: Coroutine[Any, Any, Any]) -> Any:
            task = asyncio.ensure_future(work)
            await asyncio.to_thread(_blocked, url, holder.info.backend_pid)
            holder.commit()
            return await asyncio.wait_for(task, 60)

        yield runs_into


def _blocked(url: str, by: int) -> None:
    """Wait until somebody waits for this connection of the server's."""
    end = time.monotonic() + 60
    with behind(url) as connection:
        while connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))", (by,)
        ).fetchone() == (0,):
            assert time.monotonic() < end, "nobody waits"
            connection.execute("SELECT pg_sleep(0.01)")


RENEWED = "UPDATE assentry_runs SET until = until + 5000"


async def test_a_change_that_waits_for_a_renewal_follows_it(url: str) -> None:
    async with made(url) as store:
        lease = Lease("r1", "w", 1)
        script = await Script(store).begin(lease=lease, hold=60)
        async with meanwhile(url, [RENEWED]) as runs_into:
            await runs_into(script.write(f.Said(js("more")), lease=lease))
        assert len((await store.read("r1")).facts) == 3


async def test_a_wait_for_the_lock_of_an_upgrade_does_not_put_the_clock_forward(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    here = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0], time=time.time)
    monkeypatch.setattr(postgres_server, "time", here)
    async with made(url) as store:
        change = (await Script(store).begin()).change(f.Cancelled("ann"))
        passed[0] += 2 * postgres_server.FRESH  # so it reads the server's clock anew
        with psycopg.connect(url) as holder:
            holder.execute("LOCK TABLE assentry_version IN ACCESS EXCLUSIVE MODE")
            task = asyncio.ensure_future(store.append(change))
            await asyncio.to_thread(_blocked, url, holder.info.backend_pid)
            passed[0] += 3600
            holder.commit()
        await asyncio.wait_for(task, 60)
        assert abs(store.clock() - time.time()) < 60  # the server is on this machine


async def test_a_change_that_waits_for_another_is_overtaken_and_writes_nothing(url: str) -> None:
    async with made(url) as store:
        script = await waiting(store)
        with behind(url) as connection:
            before = tables(connection)
            change = script.change(
                f.Refused("c1", "ann", "q_r1"), f.Told("c1"), replied("c2"), asked("c2", "q2"),
                context=SavedContext(b"{}", "dict"),
            )  # fmt: skip
            async with meanwhile(url, ["UPDATE assentry_runs SET seq = seq + 1"]) as runs_into:
                with pytest.raises(Overtaken, match="has 5 facts, not 4"):
                    await runs_into(store.append(change))
            connection.execute("UPDATE assentry_runs SET seq = 4")
            assert tables(connection) == before


async def test_a_change_that_waits_for_whoever_takes_the_run_is_refused(url: str) -> None:
    async with made(url) as store:
        lease = Lease("r1", "w", 1)
        script = await Script(store).begin(lease=lease, hold=60)
        async with meanwhile(url, ["UPDATE assentry_runs SET lease_fence = 2, worker = 'v'"]) as runs_into:
            with pytest.raises(LeaseLost):
                await runs_into(script.write(f.Said(js("more")), lease=lease))
        script.seq = 2
        async with meanwhile(url, ["UPDATE assentry_runs SET lease_fence = 3, worker = 'u'"]) as runs_into:
            with pytest.raises(RunBusy):
                await runs_into(script.write(f.Said(js("more")), lease=Lease("r1", "w", 3), take=True))
        assert len(await store.lines("r1")) == 2


async def test_a_question_that_is_made_anew_at_the_same_moment_is_settled(url: str) -> None:
    anew = [
        "UPDATE assentry_runs SET waiting = waiting",
        "CREATE TEMP TABLE kept AS SELECT * FROM assentry_questions",
        "DELETE FROM assentry_questions",
        "INSERT INTO assentry_questions SELECT * FROM kept",
    ]
    async with made(url) as store:
        script = await waiting(store)
        async with meanwhile(url, anew) as runs_into:
            await runs_into(script.write(f.Refused("c1", "ann", "q_r1")))
        assert (await store.question("q_r1")).verdict == "reject"


async def test_a_context_that_comes_at_the_same_moment_is_forgotten_all_the_same(url: str) -> None:
    comes = [
        "UPDATE assentry_runs SET waiting = waiting",
        "INSERT INTO assentry_contexts SELECT id, NULL, 'late' FROM assentry_runs",
    ]
    async with made(url) as store:
        script = await Script(store).begin()
        async with meanwhile(url, comes) as runs_into:
            await runs_into(script.write(f.Said(js("more")), context=SavedContext()))
        assert (await store.read("r1")).context == SavedContext()


async def test_a_run_that_is_purged_at_the_same_moment_is_not_there(url: str) -> None:
    async with made(url) as store:
        script = await Script(store).begin()
        async with meanwhile(url, ["DELETE FROM assentry_runs", "DELETE FROM assentry_journal"]) as runs_into:
            with pytest.raises(RunNotFound):
                await runs_into(script.write(f.Said(js("more"))))
        with behind(url) as connection:
            assert not any(tables(connection).values())


async def test_a_run_that_is_made_at_the_same_moment_is_made_once(url: str) -> None:
    make = (
        "INSERT INTO assentry_runs (run, agent, status, seq, began, changed_at, waiting, lease_fence, failures, head)"
        " VALUES ('r1', 'a', 'working', 2, 0, 0, 0, 0, 0, '')"
    )
    async with made(url) as store:
        await store.upgrade()
        async with meanwhile(url, [make]) as runs_into:
            with pytest.raises(Overtaken):
                await runs_into(Script(store).begin(context=SavedContext(b"{}", "dict")))
        with behind(url) as connection:
            found = tables(connection)
        assert [row[0] for row in found["assentry_runs"]] == ["r1"]
        assert found["assentry_journal"] == found["assentry_contexts"] == []


async def test_a_question_that_is_asked_at_the_same_moment_elsewhere_is_asked_once(url: str) -> None:
    async with made(url) as store:
        await waiting(store, "other")
        script = await Script(store).begin()
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT * FROM assentry_questions")
            connection.execute("DELETE FROM assentry_questions")
        async with meanwhile(
            url, ["UPDATE kept SET id = 'q1'", "INSERT INTO assentry_questions SELECT * FROM kept"]
        ) as go:
            with pytest.raises(StoreFailed, match="There is a question 'q1' already; nothing was written"):
                await go(script.write(replied("c1"), asked("c1", "q1")))
        assert len((await store.read("r1")).facts) == 2


async def test_of_many_that_write_and_take_at_once_one_does_and_the_others_leave_nothing(url: str) -> None:
    async with made(url) as store, made(url) as other:
        await store.upgrade()
        for number in range(10):
            run, gate = f"r{number}", threading.Barrier(8)
            await Script(store, run).begin()
            await other.read(run)

            async def write(place: int, run: str = run, gate: threading.Barrier = gate) -> str:
                made = Script((store, other)[place % 2], run)
                made.change(began(run), said())
                lease = Lease(run, f"w{place}", 1)
                change = made.change(
                    replied("c1"), asked("c1", f"q_{run}_{place}"),
                    lease=lease, take=True, hold=60, context=SavedContext(b"{}", f"by {place}"),
                )  # fmt: skip
                gate.wait(60)
                try:
                    await made.store.append(change)
                except (Overtaken, RunBusy) as error:
                    return type(error).__name__
                return "written"

            ends = await asyncio.to_thread(at_once, 8, write)
            won = ends.index("written")
            assert ends.count("written") == 1
            stored = await store.read(run)
            assert (stored.record.worker, stored.fence, len(stored.facts)) == (f"w{won}", 1, 4)
            assert stored.context == SavedContext(b"{}", f"by {won}")
            assert [question.id for question in (await store.questions(run=run)).items] == [f"q_{run}_{won}"]


# -- connections that are lost -------------------------------------------------------------------------


def _once(monkeypatch: pytest.MonkeyPatch, begins: str, act: Callable[[Callable[[], Any], Any], Any]) -> None:
    """Have this called once, instead of executing the statement that begins so, with a way to execute it."""
    real = psycopg.Connection.execute

    def acting(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        if not text.startswith(begins):
            return real(self, query, *given, **more)
        monkeypatch.setattr(psycopg.Connection, "execute", real)
        return act(lambda: real(self, query, *given, **more), self)

    monkeypatch.setattr(psycopg.Connection, "execute", acting)


async def test_a_commit_whose_connection_is_cut_is_not_known_to_be_made(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store:
        script = await Script(store).begin()
        change = script.change(f.Cancelled("ann"))
        _once(monkeypatch, "COMMIT", lambda go_on, connection: (cut(url), go_on()))
        with pytest.raises(StoreFailed, match="not known whether the change was written") as error:
            await store.append(change)
        assert error.value.unknown is True
        assert len((await store.read("r1")).facts) == 2
        await store.append(change)
        assert len((await store.read("r1")).facts) == 3


async def test_an_answer_that_is_lost_leaves_what_was_written(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(go_on: Callable[[], Any], connection: Any) -> None:
        go_on()
        connection._pipeline.sync()
        cut(url)
        connection.execute("SELECT 1").fetchone()

    async with made(url) as store:
        script = await Script(store).begin()
        change = script.change(f.Cancelled("ann"))
        _once(monkeypatch, "COMMIT", lose)
        with pytest.raises(StoreFailed) as error:
            await store.append(change)
        assert error.value.unknown is True
        assert len((await store.read("r1")).facts) == 3
        with pytest.raises(Overtaken):
            await store.append(change)


@pytest.mark.parametrize("moment", ["BEGIN", "SELECT version_num", "SELECT assentry_runs", "UPDATE assentry_runs"])
async def test_a_connection_that_is_cut_before_the_commit_is_sent_loses_and_doubles_nothing(
    url: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store:
        script = await Script(store).begin()
        cuts: list[int] = []
        _once(monkeypatch, moment, lambda go_on, connection: (cuts.append(cut(url)), go_on())[1])
        await script.ask()
        assert len(cuts) == 1
        assert len(await store.lines("r1")) == 4


async def test_a_connection_that_is_cut_while_a_run_is_read_is_made_anew(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with made(url) as store:
        await waiting(store)
        _once(monkeypatch, "SELECT", lambda go_on, connection: (cut(url), go_on())[1])
        assert len((await store.read("r1")).facts) == 4


@contextmanager
def impatient(store: PostgresStore) -> Iterator[None]:
    """Let the server give up statements on the store's connections soon. All others have the time they need."""
    for link in store._server._pool._idle:
        link.connection.execute("SET statement_timeout = 300")
    yield
    for link in store._server._pool._idle:
        link.connection.execute("RESET statement_timeout")


async def test_a_statement_that_takes_too_long_is_given_up_and_nothing_is_written(url: str) -> None:
    async with made(url) as store:
        script = await Script(store).begin()
        change = script.change(f.Cancelled("ann"))
        async with meanwhile(url, ["UPDATE assentry_runs SET waiting = waiting"]):
            with impatient(store), pytest.raises(StoreFailed, match="took too long") as error:
                await store.append(change)
            assert error.value.unknown is False
        await store.append(change)
        assert len((await store.read("r1")).facts) == 3


def test_ctrl_c_is_heard_while_a_blocking_call_waits_for_a_statement(url: str, request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    main, heard = threading.get_ident(), threading.Event()
    store = PostgresStore(url, upgrade=True)
    script = block(Script(store).begin())
    change = script.change(f.Cancelled("ann"))
    with psycopg.connect(url) as holder:
        holder.execute("UPDATE assentry_runs SET waiting = waiting")

        def press() -> None:
            _blocked(url, holder.info.backend_pid)
            while not heard.wait(0.5):  # once asks, and twice insists
                signal.pthread_kill(main, signal.SIGINT)

        pressing = threading.Thread(target=press)
        pressing.start()
        try:
            block(store.append(change))
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
        while pressing.is_alive():
            with suppress(KeyboardInterrupt):  # one more press may be under way
                heard.set()
                pressing.join(60)
        assert interrupted
    with suppress(Overtaken):  # the change that nobody waits for any more may be first
        block(store.append(change))
    assert len(block(store.read("r1")).facts) == 3
    block(store.close())


# -- large values ------------------------------------------------------------------------------------


async def test_a_value_that_is_larger_than_the_buffers_on_the_way_is_written(url: str) -> None:
    large = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=8_000_000))
    request = CallRequest(source="bot", tool="store", arguments={"text": large})
    async with PostgresStore(url, upgrade=True, clock=FakeClock()) as store:
        status, _ = await soon(ask_about_call(store, request, by="bot"))
        assert (await look_at_call(store, status.id, by="bot")).arguments == {"text": large}
