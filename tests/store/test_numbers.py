"""Numbers that are given to a store: what is out of range is refused by every store alike, and nothing is changed."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assentry import Approve, GrantTerms, RunConfig, Runner
from assentry.core.number import LARGEST, LONGEST_SECONDS
from assentry.errors import InvalidDecision, UsageError
from assentry.store import Lease, MemoryStore, PostgresStore, SQLiteStore, Store
from assentry.testing import FakeClock, call
from tests.runtime.support import scripted, sending
from tests.store.support import ended, waiting

BAD: list[Any] = [2**70, 10**5000, 1e300, math.nan, math.inf, -math.inf, -1, True, "5"]
GIVEN: dict[str, Callable[[Store, Lease, Any], Awaitable[Any]]] = {
    "questions(older_than)": lambda store, lease, value: store.questions(older_than=value),
    "questions(limit)": lambda store, lease, value: store.questions(limit=value),
    "questions(after)": lambda store, lease, value: store.questions(after=value if value != "5" else f'[{2**70},"q"]'),
    "runs(unchanged_for)": lambda store, lease, value: store.runs(unchanged_for=value),
    "runs(limit)": lambda store, lease, value: store.runs(limit=value),
    "grants(limit)": lambda store, lease, value: store.grants(limit=value),
    "purge(unchanged_for)": lambda store, lease, value: store.purge(unchanged_for=value),
    "claim(hold)": lambda store, lease, value: store.claim("w", agents=None, hold=value, limit=5),
    "claim(limit)": lambda store, lease, value: store.claim("w", agents=None, hold=5, limit=value),
    "take(hold)": lambda store, lease, value: store.take("r1", "w", seq=4, hold=value),
    "take(seq)": lambda store, lease, value: store.take("r1", "w", seq=value, hold=5),
    "renew(hold)": lambda store, lease, value: store.renew([lease], hold=value),
    "release(again_in)": lambda store, lease, value: store.release(lease, again_in=value),
    "release(again_in, error)": lambda store, lease, value: store.release(lease, again_in=value, error="it failed"),
    "wait": lambda store, lease, value: store.wait(value),
}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of each kind, to be opened in the test."""
    clock = FakeClock()

    @asynccontextmanager
    async def open_() -> AsyncIterator[Store]:
        if request.param == "memory":
            store: Any = MemoryStore(clock=clock)
        elif request.param == "sqlite":
            store = SQLiteStore(tmp_path / "runs.db", clock=clock)
        else:
            store = PostgresStore(request.getfixturevalue("postgres").database(), clock=clock, upgrade=True)
        async with store:
            yield store

    return open_


async def everything(store: Store) -> Any:
    runs = (await store.runs()).items
    return runs, (await store.questions()).items, [await store.lines(run.id) for run in runs]


async def test_a_number_out_of_range_is_refused_and_changes_nothing(opened: Any) -> None:
    async with opened() as store:
        await waiting(store)
        await ended(store, "r2")
        lease = await store.take("r1", "worker", seq=4, hold=60)
        before = await everything(store)
        for where, give in GIVEN.items():
            for value in [*BAD, None]:
                if value is None and where.startswith(("questions", "runs", "release")) and "limit" not in where:
                    continue  # no such limit
                with pytest.raises(UsageError):
                    await give(store, lease, value)
        assert await everything(store) == before


async def test_the_longest_times_are_taken(opened: Any) -> None:
    async with opened() as store:
        await waiting(store)
        lease = await store.take("r1", "worker", seq=4, hold=LONGEST_SECONDS)
        assert await store.renew([lease], hold=LONGEST_SECONDS) == [lease]
        await store.release(lease, again_in=LONGEST_SECONDS)
        assert await store.claim("w", agents=None, hold=LONGEST_SECONDS, limit=LARGEST) == []
        assert (await store.questions(older_than=LONGEST_SECONDS)).items == []
        assert (await store.runs(unchanged_for=LONGEST_SECONDS)).items == []
        assert await store.purge(unchanged_for=LONGEST_SECONDS) == 0


async def test_a_store_keeps_the_widest_deadline_and_grant_and_refuses_wider_ones(opened: Any) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    async with opened() as store:
        paused = await Runner.run(agent, "go", store=store, run_config=RunConfig(deadline=LONGEST_SECONDS))
        [question] = (await store.questions()).items
        assert question.until is not None
        lines = await store.lines(paused.run_id)
        for terms in [{"max_uses": value} for value in BAD] + [{"expires_in": value} for value in BAD]:
            for grant in (terms, GrantTerms(**terms)):
                with pytest.raises(InvalidDecision):
                    await store.decide(question.id, Approve(), by="ann", digest=question.digest, grant=grant)
        assert await store.lines(paused.run_id) == lines
        widest = GrantTerms(max_uses=LARGEST, expires_in=LONGEST_SECONDS)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest, grant=widest)
        result = await Runner.run(agent, await store.load(paused.run_id), store=store)
        [kept] = (await store.grants()).items
        assert (result.final_output, len(sent), kept.max_uses, kept.used) == ("done", 2, LARGEST, 1)
        assert await store.rebuild() == 1
        assert (await store.grants()).items == [kept]
