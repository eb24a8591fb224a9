"""Whoever is told that nothing was written can rely on it: a fault at any statement of any verb of a store."""

import itertools
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from assentry import Approve
from assentry.core import facts as f
from assentry.errors import NotPending, StoreFailed, UsageError
from assentry.inbox.accounts import accounts_of
from assentry.sql import sqlite_connection as file
from assentry.store import Lease, MemoryStore, SQLiteStore
from assentry.store.outbox import Webhook
from assentry.store.sql import retention as keeping
from assentry.testing import FakeClock
from assentry.testing.store_checks.draft import SEND, RunDraft, put_asking
from tests.store.place import Place
from tests.store.support import Script, asked, ended, js, replied, waiting


class Faults:
    """Counts statements, and lets one of them fail: before it is executed, or after it was."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.after = self.tripped = False
        self.lock = threading.Lock()

    def arm(self, number: int, after: bool) -> None:
        self.left, self.after, self.tripped = number, after, False

    def disarm(self) -> bool:
        """Let nothing fail any more; whether something did."""
        self.left = None
        return self.tripped

    def due(self, after: bool) -> bool:
        """Whether the statement fails that is executed now."""
        with self.lock:
            if self.left is None or after is not self.after:
                return False
            self.left -= 1
            if self.left == 0:
                self.left, self.tripped = None, True
                return True
            return False


FAULTS = Faults()


def _broken() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


class Line(sqlite3.Connection):
    """A connection to a file, whose statements fail on demand."""

    def execute(self, *given: Any) -> Any:
        if FAULTS.due(after=False):
            raise _broken()
        done = super().execute(*given)
        if FAULTS.due(after=True):
            done.close()
            raise _broken()
        return done


def _faulty(kind: type, name: str) -> Callable[..., Any]:
    execute = getattr(kind, name)

    def faulty(self: Any, *given: Any, **more: Any) -> Any:
        connection = self if isinstance(self, psycopg.Connection) else self.connection
        if FAULTS.due(after=False):
            connection.close()
        done = execute(self, *given, **more)
        if FAULTS.due(after=True):
            connection.close()
            raise psycopg.OperationalError("the connection is lost")
        return done

    return faulty


@pytest.fixture
def faults(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    """Faults in the database of the place."""
    if place.engine.dialect.name == "sqlite":
        quick = tuple(setting.replace("=FULL", "=OFF") for setting in file.SETTINGS)  # no power is cut here
        monkeypatch.setattr(file, "SETTINGS", quick)
        connect = sqlite3.connect
        monkeypatch.setattr(file.sqlite3, "connect", lambda *given, **more: connect(*given, **more, factory=Line))
    else:
        for kind, name in ((psycopg.Connection, "execute"), (psycopg.Cursor, "executemany")):
            monkeypatch.setattr(kind, name, _faulty(kind, name))
    yield FAULTS
    FAULTS.disarm()


Verb = Callable[[Any, str, Lease], Awaitable[Any]]


async def _decide(store: Any, run: str, lease: Lease) -> Any:
    return await store.decide(f"q_{run}", Approve(), by="ann", digest=f"digest of q_{run}")


async def _decide_and_grant(store: Any, run: str, lease: Lease) -> Any:
    question = await store.question(f"q_{run}_granted")
    return await store.decide_and_grant(question.id, Approve(), by="ann", digest=question.digest, grant={"max_uses": 2})


async def _decide_all(store: Any, run: str, lease: Lease) -> Any:
    return await store.decide_all(run, lambda _: [(f"q_{run}", Approve(), f"digest of q_{run}")], by="ann", say=js("x"))


def _hook(name: str) -> Webhook:
    return Webhook(id=name, url="https://host", secret="s", events=("question.asked", "question.settled"), made=1)


VERBS: dict[str, Verb] = {
    "decide": _decide,
    "decide_and_grant": _decide_and_grant,
    "decide_all": _decide_all,
    "append": lambda store, run, lease: Script(store, f"{run}_new").begin(),
    "revoke": lambda store, run, lease: store.revoke("g", by="ann", run=f"{run}_doubt"),
    "cancel": lambda store, run, lease: store.cancel(run, by="ann"),
    "resume": lambda store, run, lease: store.resume(f"{run}_cancelled", by="ann"),
    "say": lambda store, run, lease: store.say(run, "more"),
    "witness": lambda store, run, lease: store.witness(f"{run}_doubt", [f.Witnessed("c1", 1, js("sent"), at=9)]),
    "expire": lambda store, run, lease: store.expire(f"{run}_late"),
    "take": lambda store, run, lease: store.take(f"{run}_late", "w", seq=4, hold=10),
    "claim": lambda store, run, lease: store.claim("w", agents=None, hold=10, limit=5),
    "renew": lambda store, run, lease: store.renew([lease], hold=20),
    "release": lambda store, run, lease: store.release(lease, again_in=1, error="It broke."),
    "erase": lambda store, run, lease: store.erase(f"{run}_done"),
    "purge": lambda store, run, lease: store.purge(unchanged_for=0),
    "rebuild": lambda store, run, lease: store.rebuild(),
    "start": lambda store, run, lease: store.start("Clerk", "Go.", by="ann"),
    "announce": lambda store, run, lease: store.announce({"A": "{}", "B": "{}"}),
    "outbox.add": lambda store, run, lease: store.outbox.add(_hook("new")),
    "outbox.remove": lambda store, run, lease: store.outbox.remove("hook"),
    "outbox.disable": lambda store, run, lease: store.outbox.disable("hook", "It is gone."),
    "outbox.enable": lambda store, run, lease: store.outbox.enable("hook"),
    "outbox.claim": lambda store, run, lease: store.outbox.claim(hold=10, limit=5),
    "add_user": lambda store, run, lease: accounts_of(store).add_user("cat", "viewer"),
    "set_role": lambda store, run, lease: accounts_of(store).set_role("ann", "reviewer", ["ops"]),
    "disable_user": lambda store, run, lease: accounts_of(store).disable_user("ann"),
    "enable_user": lambda store, run, lease: accounts_of(store).enable_user("ann"),
    "add_token": lambda store, run, lease: accounts_of(store).add_token("bot", "agent"),
    "sign_in": lambda store, run, lease: accounts_of(store).sign_in("ann"),
    "sign_in_link": lambda store, run, lease: accounts_of(store).sign_in_link("ann"),
}


async def _prepared(place: Place, store: Any, run: str, *, few: bool) -> Lease:
    """Runs for all of the verbs, or two for one that goes through all of them; and a lease of one of them."""
    place.clear()
    store._known.clear()  # the definitions that it has written are gone
    await store.outbox.add(_hook("hook"))
    await waiting(store, run)
    await ended(store, f"{run}_done")
    if not few:
        await _prepare_others(store, run)
    place.clock.advance(1)
    place.execute("UPDATE assentry_runs SET waiting = 7")  # something for rebuild to do
    lease: Lease = await store.take(run, "w", seq=4, hold=10)
    return lease


async def _prepare_others(store: Any, run: str) -> None:
    await store.announce({"Clerk": '{"fact":"began","agent":"Clerk","max_turns":10}'})
    await accounts_of(store).add_user("ann", "viewer")
    await waiting(store, f"{run}_late", until=5)
    doubt = await Script(store, f"{run}_doubt").begin()
    granted = f.Granted("g", "helper", "send", "approve", "ann", at=0)
    in_doubt = asked("c1", f"q_{run}_doubt", kind="doubt")
    await doubt.write(granted, replied("c1"), f.Approved("c1", "rule"), f.Started("c1"), in_doubt)
    with_tool = RunDraft(store.clock, id=f"{run}_granted")
    with_tool.ask(*with_tool.propose(SEND), id=f"q_{run}_granted")
    await with_tool.write(store)
    await waiting(store, f"{run}_cancelled")
    await store.cancel(f"{run}_cancelled", by="ann")


@pytest.mark.parametrize("after", [False, True], ids=["before a statement", "after a statement"])
@pytest.mark.parametrize("verb", VERBS)
async def test_what_is_said_to_be_unwritten_is_not_written(
    place: Place, faults: Faults, verb: str, after: bool
) -> None:
    async with place.store() as store:
        await store.upgrade()
        reached_commit = False
        for number in itertools.count(1):
            run = f"r{number}"
            lease = await _prepared(place, store, run, few=verb == "rebuild")
            await store.runs(limit=1)  # opens the reader that the fault before has closed: each round counts alike
            before = place.tables()
            faults.arm(number, after)
            try:
                await VERBS[verb](store, run, lease)
                error = None
            except StoreFailed as failed:
                error = failed
            tripped = faults.disarm()
            reached_commit = reached_commit or (error is not None and error.unknown)
            if error is not None and not error.unknown:
                assert "Nothing was written" in str(error)
                assert place.tables() == before, f"It said, at statement {number}: {error}"
            if not tripped:
                assert error is None
                assert reached_commit or place.engine.dialect.name != "sqlite", "the faults ended before the commit"
                break
            assert number < 100


async def test_a_decision_gives_the_grant_that_a_reader_gets(place: Place) -> None:
    async with place.store() as store:
        [question] = await put_asking(store)
        terms = {"max_uses": 2, "expires_in": 60, "pins": {"to": "ann"}}
        settled, grant = await store.decide_and_grant(
            question.id, Approve(), by="ann", digest=question.digest, grant=terms
        )
        assert settled == await store.question(question.id)
        assert [grant] == (await store.grants(run=question.run)).items
        again = await store.decide_and_grant(question.id, Approve(), by="bob", digest=question.digest, grant=terms)
        assert again == (settled, grant)
        other = {"max_uses": 3}
        with pytest.raises(NotPending, match="was decided before; no grant was given"):
            await store.decide_and_grant(question.id, Approve(), by="bob", digest=question.digest, grant=other)
        assert [grant] == (await store.grants(run=question.run)).items


async def test_a_decision_gives_the_question_that_a_reader_gets(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        settled = await store.decide("q_r1", Approve(), by="ann", digest="digest of q_r1")
        assert settled == await store.question("q_r1")
        place.clock.advance(5)
        again = await store.decide("q_r1", Approve(), by="bob", digest="digest of q_r1")
        assert (again.by, again) == ("ann", settled)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_decision_reads_nothing_after_it_was_written(kind: str, tmp_path: Path) -> None:
    store: Any = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "runs.db")
    await waiting(store)
    append = store.append

    async def last(change: Any) -> None:
        await append(change)

        async def away(*given: Any, **more: Any) -> Any:
            raise StoreFailed("The store cannot be reached. Nothing was written.")

        store.read = store.question = store.lines = store.definition = away

    store.append = last
    settled = await store.decide("q_r1", Approve(), by="ann", digest="digest of q_r1")
    assert (settled.verdict, settled.by) == ("approve", "ann")
    await store.close()


async def test_two_who_decide_the_same_at_once_both_get_the_first_ones_decision(place: Place) -> None:
    async with place.store() as store:
        await waiting(store)
        append = store.append

        async def overtaken(change: Any) -> None:
            store.append = append
            await store.decide("q_r1", Approve(), by="bob", digest="digest of q_r1")
            await append(change)

        store.append = overtaken
        settled = await store.decide("q_r1", Approve(), by="ann", digest="digest of q_r1")
        assert settled.by == "bob"
        assert settled == await store.question("q_r1")


async def test_a_file_that_is_gone_after_its_commit_is_not_said_to_be_unwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"
    async with SQLiteStore(path) as store:
        await waiting(store)
        see = file.Handle._check_inode

        def gone(self: Any) -> None:
            if not self._reads and not self._connection.in_transaction:
                os.rename(path, tmp_path / "away.db")
            see(self)

        monkeypatch.setattr(file.Handle, "_check_inode", gone)
        with pytest.raises(StoreFailed, match="not known whether the change was written") as error:
            await store._write(lambda transaction: transaction.rows(keeping.NUMBERS, after=0))
        assert error.value.unknown


async def test_a_purge_that_fails_half_way_says_how_many_runs_are_deleted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "BATCH", 2)
    keeping._old.cache_clear()
    async with place.store() as store:
        for number in range(5):
            await ended(store, f"r{number}")
        place.clock.advance(10)
        write, calls = store._write, itertools.count(1)

        async def failing(work: Any) -> Any:
            if next(calls) == 2:
                raise StoreFailed("The store cannot be reached. Nothing was written.")
            return await write(work)

        store._write = failing
        with pytest.raises(StoreFailed, match="2 runs were deleted before that") as error:
            await store.purge(unchanged_for=1)
        assert error.value.unknown
        assert len((await store.runs()).items) == 3
    keeping._old.cache_clear()


async def test_a_rebuild_that_fails_half_way_says_how_many_runs_are_done(place: Place) -> None:
    async with place.store() as store:
        for number in range(3):
            await waiting(store, f"r{number}")
        rebuild, calls = store._rebuild, itertools.count(1)

        async def failing(number: int) -> None:
            if next(calls) == 3:
                raise StoreFailed("The store cannot be reached. Nothing was written.")
            await rebuild(number)

        store._rebuild = failing
        with pytest.raises(StoreFailed, match="The records of 2 runs were made anew before that") as error:
            await store.rebuild()
        assert error.value.unknown


@pytest.mark.parametrize("verb", ["erase", "purge", "vacuum"])
async def test_a_log_that_cannot_be_emptied_does_not_undo_what_was_written(
    tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        await ended(store)
        execute = file.Handle.execute

        def failing(self: Any, text: str) -> Any:
            if "wal_checkpoint" in text:
                raise self.file.failure(_broken())
            return execute(self, text)

        monkeypatch.setattr(file.Handle, "execute", failing)
        work = {
            "erase": lambda: store.erase("r1"),
            "purge": lambda: store.purge(unchanged_for=0),
            "vacuum": store.vacuum,
        }
        with pytest.raises(StoreFailed, match=r"(is erased|are deleted|written anew), but .*-wal still has") as error:
            await work[verb]()
        assert "Nothing was written" not in str(error.value).split(": ")[0] and error.value.unknown


async def test_a_change_is_written_though_no_thread_is_to_be_had_for_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        script = await waiting(store)
        store._logged, store._writer.pace = 10**6, 0.0
        monkeypatch.setattr("assentry.store.sqlite.QUICK", 10.0)
        running = list(store._writing._threads)
        store._writing._threads.clear()

        def none(*given: Any) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", none)
        await script.write(f.Said(js("more")))
        monkeypatch.undo()
        store._writing._threads.extend(running)
        assert len((await store.read("r1")).facts) == 5


async def test_a_clock_that_fails_leaves_a_run_in_memory_as_it_is() -> None:
    clock = FakeClock()
    left = [10**6]

    def failing() -> float:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("there is no clock")
        return clock()

    store = MemoryStore(clock=failing)
    await waiting(store)
    await Script(store, "r2").begin()
    lease = await store.take("r2", "w", seq=2, hold=10)
    before = [await store.read(run) for run in ("r1", "r2")]
    for work in (
        lambda: store.take("r1", "w", seq=4, hold=10),
        lambda: store.renew([lease], hold=20),
        lambda: store.release(lease, again_in=1, error="x"),
    ):
        for ticks in itertools.count():
            left[0] = ticks
            try:
                await work()
            except OSError:
                left[0] = 10**6
                assert [await store.read(run) for run in ("r1", "r2")] == before
                continue
            break
        left[0] = 10**6
        before = [await store.read(run) for run in ("r1", "r2")]


async def test_a_time_that_is_none_leaves_a_run_in_memory_as_it_is() -> None:
    store = MemoryStore(clock=FakeClock())
    await waiting(store)
    await Script(store, "r2").begin()
    lease = await store.take("r2", "w", seq=2, hold=10)
    before = [await store.read(run) for run in ("r1", "r2")]
    nothing: Any = None
    for work in (
        lambda: store.take("r1", "w", seq=4, hold=nothing),
        lambda: store.renew([lease], hold=nothing),
        lambda: store.release(lease, again_in="soon", error="x"),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError):
            await work()
    assert [await store.read(run) for run in ("r1", "r2")] == before
