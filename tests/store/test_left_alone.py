"""No run is left alone: whichever write of a drive fails, the run ends, asks a person, or is due again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from assentry import Agent, Approve, RunHooks, Runner
from assentry.core import facts as f
from assentry.engines import Worker
from assentry.engines.worker import SWEEP
from assentry.errors import DefinitionChanged, StoreFailed
from assentry.store import Change, Lease, MemoryStore, RunRecord, SQLiteStore, Store
from assentry.store.rules import is_driven, is_lost
from assentry.testing import FakeClock, ScriptedModel, call
from tests.engines.test_worker import approve_all, begun, kinds, record, thinking
from tests.runtime.support import HANGS, sending, soon
from tests.store.place import Place, place
from tests.store.support import Script

__all__ = ["place"]

WRITES = ("append", "take", "claim", "renew", "release")
Fault = Literal["refused", "lost", "unanswered"]
"""The write failed and says so; it failed, or was stored, and the caller is not told which."""


class Failing:
    """Fails some of the calls of a store, counted from a moment on."""

    def __init__(self, store: Store, names: tuple[str, ...] = WRITES) -> None:
        self.count = 0
        self.failing = range(0)
        self.fault: Fault = "refused"
        for name in names:
            setattr(store, name, self._wrapped(getattr(store, name)))

    def _wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **options: Any) -> Any:
            self.count += 1
            if self.count not in self.failing:
                return await method(*args, **options)
            if self.fault == "unanswered":
                await method(*args, **options)
            error = StoreFailed("The connection was cut.")
            error.unknown = self.fault != "refused"
            raise error

        return call


@asynccontextmanager
async def opened(kind: str, path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    store: Store = MemoryStore(clock=clock) if kind == "memory" else SQLiteStore(path / "runs.db", clock=clock)
    async with store:
        yield store


def will_be_looked_at(run: RunRecord, now: int) -> bool:
    """The run is over, waits for a person, or comes to a worker by itself."""
    if run.status == "waiting":
        return run.waiting > 0
    return run.status != "working" or run.wake is not None or is_driven(run.worker, run.until, now)


async def one_drive(store: Store, agent: Agent[Any], driver: str) -> None:
    """Let a drive meet the faults; whoever drives may be told of them."""
    with suppress(StoreFailed):
        if driver == "worker":
            await Worker(store, agent, random=lambda: 0.5).run_until_idle()
        else:
            run = (await store.runs()).items[0].id
            await Runner.run(agent, await store.load(run), store=store)


def twice(send: Any) -> Agent[Any]:
    """An agent that sends twice, and asks each time."""

    def think(request: Any) -> Any:
        sent = sum(item.get("type") == "function_call_output" for item in request.input)
        return "done" if sent > 1 else call(send.name, {"to": "ann"})

    return Agent("Shop", tools=[send], model=ScriptedModel(think for _ in range(1000)))


async def driven(kind: str, path: Path, driver: str, before: int, failing: range, fault: Fault = "refused") -> int:
    """Drive a run from one approval to the next, or to its end, while these calls fail; return the number of calls."""
    clock = FakeClock()
    async with opened(kind, path, clock) as store:
        send, sent = sending(needs_approval=True)
        agent = twice(send)
        run = await begun(store, agent)
        await approve_all(store)
        for _ in range(before):
            await Worker(store, agent).run_until_idle()
            await approve_all(store)
        door = Failing(store, (*WRITES, "read") if kind == "memory" else WRITES)
        door.failing, door.fault = failing, fault
        await one_drive(store, agent, driver)
        calls, door.failing = door.count, range(0)
        where = f"{kind}, {driver}, {before} approvals before: calls {list(failing)} {fault}"
        now = await record(store, run)
        assert will_be_looked_at(now, int(clock() * 1000)), where
        assert not is_lost(now, int(clock() * 1000)), where
        for _ in range(3):
            clock.advance(3600)
            await Worker(store, agent, random=lambda: 0.5).run_until_idle()
            for question in (await store.questions(kind="approval")).items:
                await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        now = await record(store, run)
        asked = [question.kind for question in (await store.questions()).items]
        assert (now.status, asked) in (("done", []), ("waiting", ["doubt"])), f"{where}: {now}"
        finished = (await kinds(store, run)).count("Finished")
        assert len(sent) - finished in ((0, 1) if asked else (0,)), f"{where}: the body ran {len(sent)} times"
        assert await store.verify(run) == [], where
        return calls


@pytest.mark.parametrize("fault", ["refused", "lost", "unanswered"])
@pytest.mark.parametrize("driver", ["worker", "Runner"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_whichever_writes_of_a_drive_fail_the_run_is_not_left_alone(
    kind: str, driver: str, fault: Fault, tmp_path: Path
) -> None:
    for before in (0, 1):
        (path := tmp_path / f"{before}").mkdir()
        calls = await driven(kind, path, driver, before, range(0))
        assert calls >= 2
        for first in range(1, calls + 1):
            for length in (1, 2, 3):
                (path := tmp_path / f"{before}.{first}.{length}").mkdir()
                await driven(kind, path, driver, before, range(first, first + length), fault)


async def test_a_run_whose_end_cannot_be_written_is_asked_about() -> None:
    store = MemoryStore(clock=FakeClock())
    send, sent = sending(needs_approval=True)
    agent = thinking(send)
    run = await begun(store, agent)
    await approve_all(store)
    ends = _EndsFail(store, 2)
    await Worker(store, agent, random=lambda: 0.0).run_until_idle()
    assert (ends.left, len(sent)) == (0, 1)
    assert [question.kind for question in (await store.questions()).items] == ["doubt"]
    assert (await record(store, run)).status == "waiting"


class _EndsFail:
    """Lets the writes of a call's end fail; all others are made."""

    def __init__(self, store: Store, left: int) -> None:
        self.left, self._append = left, store.append
        store.append = self.append  # type: ignore[method-assign]

    async def append(self, change: Change) -> None:
        if self.left and any(isinstance(fact, f.Finished | f.Concluded) for fact in change.facts):
            self.left -= 1
            raise StoreFailed("The server is shutting down. Nothing was written.")
        await self._append(change)


async def test_what_no_retry_mends_is_retried_if_something_could_not_be_written() -> None:
    class Stops(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            raise DefinitionChanged("It is another tool now.")

    store = MemoryStore(clock=FakeClock())
    send, sent = sending(needs_approval=True)
    agent = thinking(send)
    run = await begun(store, agent)
    await approve_all(store)
    _EndsFail(store, 2)
    await Worker(store, agent, hooks=Stops(), random=lambda: 0.0).run_until_idle()
    assert (len(sent), (await record(store, run)).status) == (1, "waiting")
    assert [question.kind for question in (await store.questions()).items] == ["doubt"]


# -- what others left ----------------------------------------------------------------------------------------------


async def lost_run(place: Place, store: Store, id: str = "r1", error: str | None = None, failures: int = 0) -> None:
    """A run that has something to do, and that nothing wakes."""
    await Script(store, id, "Shop").begin()
    place.execute(
        "UPDATE assentry_runs SET wake = NULL, error = :error, failures = :failures WHERE run = :run",
        run=id,
        error=error,
        failures=failures,
    )


OLDER = "StoreFailed: The store cannot use runs.db: it is locked by another connection."


@pytest.mark.parametrize(("error", "failures"), [(None, 0), (OLDER, 1)])
async def test_a_run_that_nothing_wakes_is_found_by_a_worker_and_named(
    place: Place, error: str | None, failures: int, caplog: pytest.LogCaptureFixture
) -> None:
    agent = thinking(sending()[0])
    async with place.store() as store:
        await lost_run(place, store, error=error, failures=failures)
        await Script(store, "r2", "Other").begin()
        assert await store.claim("w", agents=["Shop"], hold=60, limit=9) == []
        assert "'r1' is under way, and nothing wakes it" in " ".join(await store.verify("r1"))
        assert [run.id for run in await store.lost()] == ["r1"]
        await Worker(store, agent, max_failures=5).run_until_idle()
        assert (await record(store, "r1")).status == "done"
        assert (await store.verify("r1"), await store.lost()) == ([], [])
    assert "Run r1 has something to do, and nothing would wake it" in caplog.text


@pytest.mark.parametrize(
    ("error", "failures"), [("DefinitionChanged: It is another tool now.", 1), ("ModelFailed: down", 5), (OLDER, 5)]
)
async def test_a_run_that_was_left_alone_on_purpose_stays_so(place: Place, error: str, failures: int) -> None:
    async with place.store() as store:
        await lost_run(place, store, error=error, failures=failures)
        assert await Worker(store, thinking(sending()[0]), max_failures=5).run_until_idle() == 0
        now = await record(store, "r1")
        assert (now.wake, now.error, now.failures) == (None, error, failures)
        if error is not OLDER:
            assert (await store.verify("r1"), await store.lost()) == ([], [])


async def test_a_run_that_is_driven_or_waits_is_not_lost(place: Place) -> None:
    async with place.store() as store:
        await lost_run(place, store, "r1")
        await lost_run(place, store, "r2")
        await (await Script(store, "r3", "Shop").begin()).ask()
        await store.take("r1", "w", seq=2, hold=60)
        assert [run.id for run in await store.lost()] == ["r2"]
        assert "nothing wakes it" not in " ".join(await store.verify("r1"))
        place.clock.advance(61)
        assert [run.id for run in await store.lost()] == ["r1", "r2"]


async def test_a_worker_that_serves_looks_for_lost_runs_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(MemoryStore):
        looks = 0

        async def lost(self) -> list[RunRecord]:
            self.looks += 1
            return await super().lost()

    store, now = Counting(), 1000.0
    worker = Worker(store, thinking(sending()[0]), poll=0.01)
    running = asyncio.create_task(worker.run(signals=False))
    loop = asyncio.get_running_loop()
    time = loop.time
    await until_true(lambda: store.looks == 1)
    claims = 0

    async def claim(*args: Any, **options: Any) -> list[Lease]:
        nonlocal claims
        claims += 1
        return []

    monkeypatch.setattr(store, "claim", claim)
    await until_true(lambda: claims > 3)
    assert store.looks == 1
    monkeypatch.setattr(loop, "time", lambda: time() + SWEEP + now)
    await until_true(lambda: store.looks == 2)
    worker.stop()
    await soon(running)


async def until_true(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANGS):
        while not true():  # noqa: ASYNC110 - there is nothing that tells it
            await asyncio.sleep(0.001)
